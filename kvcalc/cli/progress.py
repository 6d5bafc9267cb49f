"""How far a long answer is, on standard error where that is a terminal."""

import sys
import time
from collections.abc import Callable

__all__ = ["ticker"]

_QUIET_SECONDS, _TICK_SECONDS = 3, 0.1


def ticker(what: str) -> Callable[[int, int], None] | None:
    """Progress of what takes long, where somebody watches."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    began = shown_at = time.monotonic()

    def tick(done: int, steps: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        ended = done == steps
        if ended and shown_at == began:
            return
        if ended or (now - began >= _QUIET_SECONDS and now - shown_at >= _TICK_SECONDS):
            shown_at = now
            sys.stderr.write("\r\x1b[K" + ("" if ended else f"kvcalc: {done:,} of {steps:,} {what}"))
            sys.stderr.flush()

    return tick
