"""Work that other processes do. The answers are those of one process and come in the same order, whoever does it.

An executor is any of `concurrent.futures`: processes of this machine, or those of a cluster.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kvcalc.errors import KvcalcError

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Begun", "Fewest", "Workers", "in_order"]

_AHEAD = 256  # tasks that are handed out before the first is asked for

Result = TypeVar("Result")


class Workers(NamedTuple):
    """Who works, and how many of them at once, as far as is known: guesses beyond that would be in the way."""

    executor: "Executor"
    at_once: int = 8


def in_order(workers: Workers | None, of: Callable[..., Result], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
    """What a function makes of each task, in their order. Without workers each is done when it is asked for."""
    if workers is None:
        yield from (of(*task) for task in tasks)
        return
    waiting: deque[Begun[Result]] = deque()
    try:
        for task in tasks:
            waiting.append(Begun(workers, of, *task))
            if len(waiting) >= _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()


class Begun(Generic[Result]):
    """What a function makes of a task: workers begin at once, and without them it is done when it is asked for."""

    def __init__(self, workers: Workers | None, of: Callable[..., Result], *task: Any) -> None:
        self._later = None if workers else partial(of, *task)
        self._future = workers.executor.submit(of, *task) if workers else None

    def result(self) -> Result:
        """The answer. Raises what the function raises."""
        if self._future is None:
            assert self._later is not None
            return self._later()
        from concurrent.futures import BrokenExecutor

        try:
            return self._future.result()
        except BrokenExecutor:
            raise KvcalcError(
                "a process that worked on a part ended before its answer", "fewer --jobs take less memory"
            ) from None

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        if self._future is not None:
            self._future.cancel()


class Fewest:
    """The search for the fewest that do: 1, 2, 4 and so on until so many do, then halves of what lies between.

    Workers also do the steps that may come next, before it is known which way the search turns; the steps that it
    takes, and so its answer, are the same.
    """

    def __init__(self, workers: Workers | None, most: int) -> None:
        self._workers, self._most = workers, most

    def search(
        self, of: Callable[..., Result], task: Callable[[int], tuple[Any, ...]], does: Callable[[Result], bool]
    ) -> tuple[int, Result] | None:
        """The fewest with what `of` makes of their task; None where not even the most do."""
        begun: dict[int, Begun[Result]] = {}
        low, high = 0, None  # so many do not; so many do
        best: tuple[int, Result] | None = None
        while (count := self._next(low, high)) is not None:
            wanted = [count] if self._workers is None else list(self._ahead(low, high, self._workers.at_once))
            for each in begun.keys() - set(wanted):
                begun.pop(each).cancel()
            for each in wanted:
                if each not in begun:
                    begun[each] = Begun(self._workers, of, *task(each))
            found = begun.pop(count).result()
            if does(found):
                high, best = count, (count, found)
            else:
                low = count
        return best

    def _next(self, low: int, high: int | None) -> int | None:
        """The step after these; None where there is none."""
        if high is None:
            count = min(2 * low or 1, self._most)
            return count if count > low else None
        return (low + high) // 2 if high - low > 1 else None

    def _ahead(self, low: int, high: int | None, most: int) -> Iterator[int]:
        """The next step, and those that may follow on it."""
        states = deque([(low, high)])
        while states and most:
            low, high = states.popleft()
            count = self._next(low, high)
            if count is not None:
                yield count
                most -= 1
                states += [(low, count), (count, high)] if high is not None else [(count, None), (low, count)]
