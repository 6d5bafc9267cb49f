"""Processes that share the work of one question."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from kvcalc.cli.parameters import Words, option
from kvcalc.cli.values import count_of
from kvcalc.jobs import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JobsWords", "workers"]

_MOST = 61  # that the standard library takes on every system


class JobsWords(Words):
    """Who does the work."""

    jobs: Annotated[str | None, option("--jobs", metavar="N", panel="Output",
        help="Processes that share the work; the answer is the same. Default: 1.")] = None  # fmt: skip


@contextmanager
def workers(words: JobsWords) -> "Iterator[Workers | None]":
    """So many processes, which end with the question; None for this one alone, and nothing is imported for them."""
    count = count_of(words.jobs, "--jobs", 1, _MOST)
    if count == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Processes that are started afresh, as everywhere but on Linux: what they do is the same on all systems.
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin)
    try:
        yield Workers(pool, count)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """A process ends with the one that began it, and says nothing of an interrupt."""
    import signal
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import os
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
