"""`kvcalc` and `python -m kvcalc`: an interrupt ends both in silence, from the first import on."""

try:
    import os
    import signal
except KeyboardInterrupt:
    raise SystemExit(130) from None

__all__ = ["main"]


def _leave(*_: object) -> None:
    os._exit(130)  # ExitCode.INTERRUPTED, whose module is not imported yet


def main() -> None:
    """Run the command line and exit. Until it is imported there is nothing that an interrupt could leave half done."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the caller wants none, as nohup does
        signal.signal(signal.SIGINT, _leave)
    from kvcalc.cli.main import main as answer

    answer()


if __name__ == "__main__":
    main()
