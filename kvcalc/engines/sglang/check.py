"""What SGLang's printed numbers should be. Its GB is 2^30 bytes.

Sources: SGLang 0.5.23, `srt/mem_cache/memory_pool.py`, `swa_memory_pool.py`, `model_executor/pool_configurator.py`; and
logs that people posted.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.core import dtypes
from kvcalc.core.model import Attention, Cache, Indexer, Latent, Recurrent
from kvcalc.engines.allocation import Allocation, Capacity
from kvcalc.engines.log_form import Expected, MatchedLine, StartLog
from kvcalc.engines.log_numbers import Printed, digits
from kvcalc.engines.placement import restaged
from kvcalc.engines.question import Question, no_rule
from kvcalc.engines.sglang.cells import placed, ratio_of, state_bytes, token_bytes, windowed
from kvcalc.engines.sglang.engine import stages_of
from kvcalc.engines.sglang.failed import Memory

__all__ = ["expect"]


class _Cells(NamedTuple):
    """Bytes of a token in K and V on one rank of one stage, and of one slot of states."""

    k: int = 0
    v: int = 0
    window_k: int = 0
    window_v: int = 0
    conv: int = 0
    state: int = 0


def _cells(question: Question) -> list[_Cells]:
    """The cells of each stage."""
    question = restaged(question, stages_of(len(question.placement.layers), question.request.layout.pp))
    stages = [_Cells() for _ in range(question.request.layout.pp)]
    ratio = ratio_of(question)
    for each in placed(question):
        cells = stages[each.stage]
        match each.cache:
            case Recurrent():
                both, conv = state_bytes(each.cache, question)
                state = cells.state + each.copies * (both - conv)
                cells = cells._replace(conv=cells.conv + each.copies * conv, state=state)
            case cache if windowed(cache, ratio):
                k, v = _token(cache, question)
                cells = cells._replace(
                    window_k=cells.window_k + each.copies * k, window_v=cells.window_v + each.copies * v
                )
            case Attention() | Latent() | Indexer() as cache:
                k, v = _token(cache, question)
                cells = cells._replace(k=cells.k + each.copies * k, v=cells.v + each.copies * v)
            case _:
                raise no_rule("sglang", each.cache)
        stages[each.stage] = cells
    return stages


def _token(cache: Cache, question: Question) -> tuple[int, int]:
    """Bytes of a token in K and in V; what is one vector for both counts as K."""
    whole = token_bytes(cache, question)
    if not isinstance(cache, Attention):
        return whole, 0
    v = cache.kv_heads * dtypes.row_bytes(question.request.widths.v, cache.v_dim)
    return whole - v, v


def expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """Sizes of the pools by the tokens and slots that were printed; tokens by the memory where that is known."""
    allocation, cells = run.engine.allocate(question), _cells(question)
    page = allocation.values["block_size"]
    assert isinstance(page, int)
    full: dict[str, int] = {}  # tokens of the pool of each replica that is not a draft's
    memory = Memory(run)
    sizes: dict[tuple[str, str, int], tuple[str | None, ...]] = {}
    for found in run.found:
        memory.read(found)
        slots, tokens = found.get("mamba_slots"), found.get("tokens")
        if tokens is None and "k_gb" in found.says:  # the pool's tokens come later
            tokens = digits(run.last("most"))
        if tokens is not None:
            printed = tuple(found.says.get(name) for name in ("k_gb", "v_gb", "kv_gb"))
            first = sizes.setdefault((found.stream, found.rank, tokens.value), printed)
            draft = first != printed
            window = not draft and _is_window(found, tokens.value + page, cells, run.giga)
            yield from _pool(found, tokens, page, cells, run, draft=draft, window=window)
            if not draft and not window:
                full[found.stream] = tokens.value
                if "tokens" in found.says:
                    yield from _counted(found, tokens, allocation, memory)
        elif slots is not None:
            yield from _states(found, slots, cells, run)
        elif "swa_layer_tokens" in found.says:
            yield from _windows(found, question, page)
        elif (most := found.get("most")) is not None and run.last("tokens") is None:
            yield from _counted(found, most, allocation, memory)
    if len(cells) == 1 and run.last("max_mamba_cache_size") is None:
        yield from _slots(run, allocation, cells[0], full)


def _is_window(found: MatchedLine, slots: int, cells: list[_Cells], giga: int) -> bool:
    """The pool's size is that of windows, and not that of full layers."""
    printed = found.get("k_gb", 2)
    if printed is None or not any(each.window_k for each in cells):
        return False
    low, high = printed.bounds(giga)
    near = [abs(2 * slots * cell - low - high) for cell in (cells[0].window_k, cells[0].k)]
    return near[0] < near[1]


def _pool(
    found: MatchedLine, tokens: Printed, page: int, cells: list[_Cells], run: StartLog, *, draft: bool, window: bool
) -> Iterator[Expected]:
    """K and V of one pool, which holds a page more than it counts."""
    slots = tokens.value + page
    sums = {
        "k_gb": [each.window_k if window else each.k for each in cells],
        "v_gb": [each.window_v if window else each.v for each in cells],
        "kv_gb": [each.k + each.v for each in cells],
    }
    for name, each in sums.items():
        printed = found.get(name, 2)
        if printed is None:
            continue
        quantity = f"swa_{name}" if window else name
        if draft:
            why = "the pool of a draft, whose shape is not in the log"
            yield Expected(found.number, quantity, printed, "GB", run.giga, why=why)
            continue
        low, high = min(each) * slots, max(each) * slots
        yield Expected(found.number, quantity, printed, "GB", run.giga, low, high, high)


def _counted(found: MatchedLine, tokens: Printed, allocation: Allocation, memory: Memory) -> Iterator[Expected]:
    """Tokens by the memory. Where that is the log's own, other things that it does not show may have come off."""
    budgets = memory.budgets(found.stream)
    if budgets is None or allocation.capacity is None:
        return
    low, middle, high = (allocation.capacity(each).tokens for each in budgets)
    excuse = "" if memory.run.budget is not None else "memory may have been taken or freed beside the weights"
    if not excuse or memory.most is None:
        yield Expected(found.number, "tokens", tokens, "", 1, low, middle, high, excuse=excuse)


def _states(found: MatchedLine, slots: Printed, cells: list[_Cells], run: StartLog) -> Iterator[Expected]:
    """States of all slots and one more."""
    for name, each in (("conv_gb", [c.conv for c in cells]), ("ssm_gb", [c.state for c in cells])):
        printed = found.get(name, 2)
        if printed is not None:
            low, high = min(each) * (slots.value + 1), max(each) * (slots.value + 1)
            yield Expected(found.number, name, printed, "GB", run.giga, low, high, high)


def _windows(found: MatchedLine, question: Question, page: int) -> Iterator[Expected]:
    """Tokens of windows are a share of the full ones. Below zero, the weights left nothing."""
    full, windows, ratio = found.get("full_layer_tokens"), found.get("swa_layer_tokens"), ratio_of(question)
    if full is None or windows is None or ratio is None:
        return
    tokens = int(full.value * (ratio.part / ratio.of))
    least = tokens // page * page if full.value >= 0 else tokens
    yield Expected(found.number, "swa_layer_tokens", windows, "tokens", 1, least, least, least)


def _slots(run: StartLog, allocation: Allocation, cells: _Cells, full: dict[str, int]) -> Iterator[Expected]:
    """Slots of states by the memory that tokens and slots together take."""
    for found in run.found:
        slots, tokens = found.get("mamba_slots"), full.get(found.stream)
        if slots is None or tokens is None or allocation.capacity is None:
            continue
        page = allocation.values["block_size"]
        assert isinstance(page, int)
        cell, slot = cells.k + cells.v, cells.conv + cells.state
        least = tokens * cell + (slots.value + 1) * slot
        low, high = (_slots_of(allocation.capacity(memory)) for memory in (least, least + page * cell))
        excuse = "--max-mamba-cache-size or drafts may have decided"
        yield Expected(found.number, "mamba_slots", slots, "", 1, low, low, high, excuse=excuse)


def _slots_of(capacity: Capacity) -> int:
    slots = capacity.values.get("state_slots")
    return slots if isinstance(slots, int) else 0
