"""Overheads: what a GPU's memory holds beside weights and cache, as named estimates with range, rule and source.

Only a run can measure them. They come off the share of the memory that is used, one by one, and each may be set.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, assert_never, get_args

from kvcalc.core.model import Model

__all__ = ["NAMES", "Estimate", "Name", "Overhead", "estimate", "given", "likely", "total"]

_GIB = 2**30


class Estimate(NamedTuple):
    """Bytes on each GPU: the least and the most that was seen, and what is counted with."""

    low: int
    likely: int
    high: int


class Overhead(NamedTuple):
    """One line. `rule` says in words how its size is found, `source` where from."""

    name: str
    size: Estimate
    rule: str
    source: str


Name = Literal["activations", "graphs", "communication", "runtime"]
NAMES: tuple[Name, ...] = get_args(Name)  # in the order in which they are shown; each is an option of its own

_LOGS = "start-up summaries of vLLM in public logs of 2026"


def estimate(
    model: Model, memory: int, ranks: int, *, names: tuple[str, ...] = NAMES, stated: Mapping[str, int] | None = None
) -> tuple[Overhead, ...]:
    """The lines of one of `ranks` GPUs with so much memory. Only `names` count: an engine may leave room for the others
    outside of its share. `stated` are sizes that the asker knows better.
    """
    own = stated or {}
    counted = [name for name in NAMES if name in names or name in own]
    return tuple(given(name, own[name]) if name in own else _estimated(name, model, memory, ranks) for name in counted)


def _estimated(name: Name, model: Model, memory: int, ranks: int) -> Overhead:
    match name:
        case "activations":
            return _activations(memory, experts=model.active_parameters is not None)
        case "graphs":
            return _graphs(model.parameters)
        case "communication":
            return _communication(ranks)
        case "runtime":
            return _runtime()
        case _:
            assert_never(name)


def given(name: str, size: int) -> Overhead:
    """A line that the asker states."""
    return Overhead(name, Estimate(size, size, size), "as given", "the question")


def likely(lines: tuple[Overhead, ...]) -> int:
    """Bytes that are counted with."""
    return sum(line.size.likely for line in lines)


def total(lines: tuple[Overhead, ...]) -> Estimate:
    """All lines together."""
    return Estimate(*(sum(line.size[i] for line in lines) for i in range(3)))


def _gib(*hundredths: int) -> Estimate:
    low, likely_, high = (part * _GIB // 100 for part in hundredths)
    return Estimate(low, likely_, high)


def _activations(memory: int, *, experts: bool) -> Overhead:
    """The peak of one forward pass over as many tokens as an engine batches: 2,048 to 16,384, growing with the card.

    Seen: 0.15 GiB of 6, 0.38 of 23.6, 0.75 of 15.5, 0.94 of 31.4, 1.5 of 95; with experts 28 GiB of 277. The planner of
    llm-d counts 5.5 GiB, and 8 with experts.
    """
    part, most = (32, 8) if experts else (64, 40)
    least, floor = 20 * _GIB // 100, 2 * _GIB
    rule = f"1/{part} of the card's memory, {'with' if experts else 'without'} experts"
    return Overhead("activations", Estimate(least, max(least, memory // part), max(floor, memory // most)), rule, _LOGS)


def _graphs(parameters: int | None) -> Overhead:
    """Captured decode steps: 0.04 to 0.71 GiB for models of up to 30B parameters, 8.6 for the largest that was seen."""
    size, rule = next(row[1:] for row in _GRAPHS if row[0] is None or (parameters or 0) <= row[0])
    return Overhead("graphs", size, rule, _LOGS)


_GRAPHS = (
    (30 * 10**9, _gib(5, 30, 70), "captured decode steps, up to 30B parameters"),
    (150 * 10**9, _gib(5, 50, 200), "captured decode steps, 30B to 150B parameters"),
    (None, _gib(30, 150, 860), "captured decode steps, above 150B parameters"),
)


def _communication(ranks: int) -> Overhead:
    """NCCL's buffers: 342 to 392 MiB in NVIDIA's aiconfigurator; llm-d counts 0.15 GiB for one GPU, 0.6 for several."""
    source = "NVIDIA aiconfigurator; llm-d planner"
    if ranks == 1:
        return Overhead("communication", _gib(5, 15, 15), "one GPU a replica", source)
    return Overhead("communication", _gib(5, 38, 60), "buffers between the GPUs of a replica", source)


def _runtime() -> Overhead:
    """The context, libraries' handles and their workspaces: with communication 0.3 to 1.5 GiB in start-up logs."""
    return Overhead("runtime", _gib(25, 45, 90), "context, libraries and their workspaces", _LOGS)
