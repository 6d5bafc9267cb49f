"""The entry point: one edge at which every error becomes one line and an exit status."""

import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import typer

from kvcalc.cli.group import VERB_MODULES, ModelOrVerbGroup
from kvcalc.cli.streams import drop_output, fill_streams, is_unwritten
from kvcalc.errors import ExitCode, KvcalcError, escape, nearest
from kvcalc.library import loader
from kvcalc.version import __version__

__all__ = ["main"]

_EPILOG = "Exit status: 0 answered (and it fits), 1 it does not fit, 2 bad usage or input, 70 a bug, 130 interrupted."

_LONGEST_LINE = 2000  # of an error; two paths of the greatest length that is shown are far shorter


def _version(wanted: bool) -> None:
    if wanted:
        from kvcalc.cli.shell import write

        write(f"kvcalc {__version__}\n")
        raise typer.Exit


def _app() -> typer.Typer:
    interactive = sys.stdout.isatty() and sys.stderr.isatty()
    app = typer.Typer(
        name="kvcalc",
        cls=ModelOrVerbGroup,
        # Typer's rich help costs as much again as everything else, and in a pipe its boxes break lines.
        rich_markup_mode="rich" if interactive else None,
        pretty_exceptions_enable=False,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["--help", "-h"]},
    )

    @app.callback(help="KV-cache memory of language models: right to the byte, offline, instant.")
    def group(
        version: bool = typer.Option(
            False, "--version", "-V", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ) -> None:
        pass

    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    gc.disable()  # the process ends before its garbage would matter; a twentieth of its time
    fill_streams()
    heeded = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
    try:
        if heeded:
            signal.signal(signal.SIGINT, _interrupt)
        status = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while an error was being told
        status = ExitCode.INTERRUPTED
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said, and Python's own end would be a traceback
    gc.freeze()  # Python would look for garbage once more at its end; a tenth of its time
    sys.exit(status)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End in good order the first time, so that no file is left half written, and at once the second time."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(ExitCode.INTERRUPTED))
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status. Errors that are not the user's keep their traceback."""
    completing = "_KVCALC_COMPLETE" in os.environ  # the shell asks, and its words are in the environment
    try:
        return int(_app()(arguments, prog_name="kvcalc", standalone_mode=False) or 0)
    except SystemExit as stop:
        # Typer leaves with 1 when help or a version meets a closed pipe, which for us is no failure.
        return int(stop.code or 0) if completing else ExitCode.OK
    except KvcalcError as error:
        return _fail(error.message, error.hint)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # of completion, which Typer writes outside its own care
        drop_output()
        return ExitCode.OK
    except MemoryError:
        return _fail("the memory of this machine does not suffice for the input", "give a smaller one")
    except Exception as error:  # noqa: BLE001 - what is no usage error is printed whole, and exits 70
        # Typer's own usage errors, whose classes are private since Typer 0.26, all know how to format themselves.
        if callable(getattr(error, "format_message", None)):
            return _usage(error, arguments)
        if is_unwritten(error):  # help, the version and completion are printed by Typer
            drop_output()
            return _fail(f"standard output: {os.strerror(getattr(error, 'errno', 0))}", None)
        import traceback

        traceback.print_exc()
        print("kvcalc: this is a bug in kvcalc; please report it with the lines above", file=sys.stderr)
        return ExitCode.BUG


def _usage(error: Exception, arguments: list[str]) -> int:
    verb = arguments[0] if arguments and arguments[0] in VERB_MODULES else ""
    model = getattr(getattr(error, "ctx", None), "params", {}).get("model")
    if not verb and isinstance(model, str) and model != "-":
        try:
            loader.locate(model)  # `kvcalc plna llama3-8b`: the mistake is the first word, not the second
        except KvcalcError as unknown:
            close = nearest(model, VERB_MODULES)
            return _fail(unknown.message, f"did you mean the command {close[0]}?" if close else unknown.hint)
    message = error.format_message()  # type: ignore[attr-defined]
    return _fail(message.rstrip(".") or type(error).__name__, f"see `{f'kvcalc {verb}'.strip()} --help`")


def _fail(message: str, hint: str | None) -> int:
    """One line for the error and one for the way out."""
    line = escape(" ".join(message.split()))
    line = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
    print(f"kvcalc: error: {line}", file=sys.stderr)
    if hint:
        print(f"  hint: {escape(hint)}", file=sys.stderr)
    return ExitCode.USAGE
