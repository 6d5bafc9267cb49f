"""Many sizes of one model: what does not depend on the batch is worked out once, and so is what depends on neither.

The bytes are those of `sizing`, `sharding` and `fitting`, rule by rule; only the order of the sums is another.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcalc.commands.effects import Uncounted, settled
from kvcalc.core.fitting import capacity_tokens, equal_sequences, exact_allocator, longest_context, most_sequences
from kvcalc.core.formula import kept, size
from kvcalc.core.memory import Binding, Budget, MemorySplit, memory_split
from kvcalc.core.model import Cache
from kvcalc.core.sharding import rank_tokens, stages
from kvcalc.core.sizing import Size, slope_and_fixed
from kvcalc.core.units import ceil_div
from kvcalc.engines.base import Engine, allocator_of, reserve
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.jobs import Workers, in_order
from kvcalc.launch.registry import engine_called

__all__ = ["AXES", "Grid", "GridCell", "Plane", "PlaneQuestion", "longest"]

AXES = ("gpu", "weights", "engine", "kv_dtype", "tp", "context", "batch")  # as rows are ordered: the last changes first


_PART = 200  # cells of one task: 10 to 100 ms for an engine, where to send an answer takes 2 us


class PlaneQuestion(NamedTuple):
    """A question without its context and batch: `size` has one of each, any. `memory` is None without a budget.

    `question` is the one put to an engine, where one is named; `uncounted` are its flags that change the memory and
    are not counted, and `growing` the budget where what is beside weights and cache grows with sequences and tokens.
    """

    size: Size
    memory: MemorySplit | None = None
    engine: Engine | None = None
    question: Question | None = None
    uncounted: tuple[Uncounted, ...] = ()
    growing: Budget | None = None

    def at(self, asked: Question) -> tuple[MemorySplit | None, int | None]:
        """The memory for one context and batch, and the bytes of a GPU where overheads grow."""
        budget = self.growing
        if budget is None or budget.vram is None or self.engine is None:
            return self.memory, None
        lines = self.engine.memory(asked, budget.vram)
        return memory_split(self.size, budget._replace(overheads=lines)), budget.vram


class GridCell(NamedTuple):
    """One answer. What was not asked is None, and all of it where the question was `refused`, which says why."""

    context: int
    batch: int
    bytes_per_token: int | None = None
    bytes_per_sequence: int | None = None
    bytes_total: int | None = None
    bytes_total_per_gpu: int | None = None
    textbook_bytes_total: int | None = None
    reserved_bytes_total: int | None = None
    reserved_bytes_per_gpu: int | None = None
    kv_budget_bytes_per_gpu: int | None = None
    max_batch: int | None = None
    capacity_tokens: int | None = None
    fits: bool | None = None
    binding: Binding | None = None
    refused: str | None = None


class Plane(NamedTuple):
    """One choice of everything but context and batch, and what is asked of it.

    `names` are the choices on the axes before those two, None where there is none. `error`: why there is no setting.
    """

    names: tuple[str | int | None, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    setting: PlaneQuestion | None
    error: KvcalcError | None = None

    def cells(self) -> Iterator[GridCell]:
        """The answers, context by context, all batches of one after the other."""
        setting = self.setting
        if setting is None:
            why = "" if self.error is None else self.error.message
            yield from (GridCell(context, batch, refused=why) for context in self.contexts for batch in self.batches)
            return
        column_of = _Columns(setting.size)
        for context in self.contexts:
            column = column_of(context)
            if setting.engine is None or setting.question is None:
                yield from _exact(setting, column, self.batches)
            else:
                yield from _reserved(setting, setting.engine, setting.question, column, self.batches)

    def parts(self) -> Iterator[tuple["Plane", str]]:
        """The same in tasks for other processes, in order, each with the name of the engine that is asked."""
        assert self.setting is not None
        assert self.setting.engine is not None
        name, without = self.setting.engine.name, self._replace(setting=self.setting._replace(engine=None))
        each = max(1, _PART // len(self.batches))
        for first in range(0, len(self.contexts), each):
            for batch in range(0, len(self.batches), _PART):
                contexts, batches = self.contexts[first : first + each], self.batches[batch : batch + _PART]
                yield without._replace(contexts=contexts, batches=batches), name


def _cells(plane: Plane, engine: str) -> list[GridCell]:
    """The cells of a plane whose engine comes by its name: its functions need not go to other processes."""
    assert plane.setting is not None
    return list(plane._replace(setting=plane.setting._replace(engine=engine_called(engine))).cells())


class Grid(NamedTuple):
    """All planes of a model, in the order of their rows."""

    planes: tuple[Plane, ...]

    def answers(self, workers: Workers | None = None) -> Iterator[tuple[Plane, GridCell]]:
        """Every cell, worked out as it is reached. `workers` are ahead where an engine is asked; what no engine has
        a say in takes less time than to send it.
        """
        if workers is None:
            yield from ((plane, cell) for plane in self.planes for cell in plane.cells())
            return
        asked = [plane for plane in self.planes if plane.setting is not None and plane.setting.engine is not None]
        parts = {id(plane): list(plane.parts()) for plane in asked}
        done = in_order(workers, _cells, (task for plane in asked for task in parts[id(plane)]))
        for plane in self.planes:
            if id(plane) not in parts:
                yield from ((plane, cell) for cell in plane.cells())
            for _ in parts.get(id(plane), ()):
                yield from ((plane, cell) for cell in next(done))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return sum(len(plane.contexts) * len(plane.batches) for plane in self.planes)

    @property
    def varied(self) -> tuple[str, ...]:
        """The axes on which the planes differ, or ask for more than one value."""
        values: list[set[str | int | None]] = [
            set(column) for column in zip(*(p.names for p in self.planes), strict=True)
        ]
        values.append({context for plane in self.planes for context in plane.contexts})
        values.append({batch for plane in self.planes for batch in plane.batches})
        return tuple(axis for axis, found in zip(AXES, values, strict=True) if len(found) > 1)


class _Column(NamedTuple):
    """What one context leads to, whatever the batch. `per_gpu`: of one sequence, on the fullest GPU."""

    context: int
    per_token: int
    per_sequence: int
    per_gpu: int
    textbook: int | None


class _Columns:
    """A question's bytes as a function of the context: equal caches are counted once, before the first of them."""

    def __init__(self, measured: Size) -> None:
        self.request, self.textbook = measured.request, measured.textbook
        self.groups = [(group.cache, group.copies) for group in measured.groups]
        self.whole = measured.request.layout.tp * measured.request.layout.pp == 1  # every GPU holds whole sequences
        found = {tuple(caches.items()) for caches in stages(measured.placement).values()}
        self.stages = () if self.whole else tuple(found)
        most = {kept(cache) for cache, _ in self.groups}
        self.ends = [tokens for tokens in most if tokens]  # a slope changes where a window is full, and nowhere else
        self.slopes: dict[int, int] = {}

    def __call__(self, context: int) -> _Column:
        dcp = self.request.layout.dcp
        per_sequence = sum(self._size(cache, context) * copies for cache, copies in self.groups)
        per_gpu = per_sequence
        if not self.whole:
            per_gpu = max(
                sum(self._size(cache, rank_tokens(cache, context, dcp)) * copies for cache, copies in stage)
                for stage in self.stages
            )
        textbook = None if self.textbook is None else self.textbook.bytes_per_token * context
        return _Column(context, self._slope(context), per_sequence, per_gpu, textbook)

    def _size(self, cache: Cache, tokens: int) -> int:
        return size(cache, tokens, self.request.widths, self.request.encoder_tokens)

    def _slope(self, context: int) -> int:
        full = sum(tokens <= context for tokens in self.ends)
        if full not in self.slopes:
            self.slopes[full] = slope_and_fixed(self.request._replace(context=context))[0].per_token
        return self.slopes[full]


def longest(setting: PlaneQuestion, context: int, batch: int) -> int | None:
    """The longest context that fits at a batch; None without a budget, and where nothing limits it."""
    if setting.memory is None:
        return None
    request = setting.size.request._replace(context=context, batch=batch)
    if setting.engine is None or setting.question is None:
        return longest_context(setting.memory, exact_allocator(setting.size._replace(request=request)), request)[0]
    question = setting.question._replace(request=request)
    memory, grown = setting.at(question)
    allocator = allocator_of(reserve(setting.engine, question), grown)
    return longest_context(memory or setting.memory, allocator, request)[0]


def _exact(setting: PlaneQuestion, column: _Column, batches: Sequence[int]) -> Iterator[GridCell]:
    context, per_token, per_sequence, per_gpu, textbook = column
    dp, memory = setting.size.request.layout.dp, setting.memory
    budget = most = tokens = None
    binding: Binding | None = None
    if memory is not None:
        budget = memory.kv_budget
        sequences, binding, capacity = equal_sequences(memory, context, per_gpu)
        most, tokens = (None if number is None else number * dp for number in (sequences, capacity))
    for batch in batches:
        on_gpu = per_gpu * ceil_div(batch, dp)
        yield GridCell(
            context,
            batch,
            per_token,
            per_sequence,
            per_sequence * batch,
            on_gpu,
            None if textbook is None else textbook * batch,
            None,
            None,
            budget,
            most,
            tokens,
            None if budget is None else on_gpu <= budget,
            binding,
        )


def _reserved(
    setting: PlaneQuestion, engine: Engine, question: Question, column: _Column, batches: Sequence[int]
) -> Iterator[GridCell]:
    """An engine has no rule for all batches alike, and is asked for each; how many fit, where that may be another."""
    dp, context = setting.size.request.layout.dp, column.context
    limits: dict[int | None, tuple[int | None, Binding]] = {}
    for exact in _exact(setting._replace(memory=None), column, batches):
        asked = question._replace(request=question.request._replace(context=context, batch=exact.batch))
        try:
            reservation = reserve(engine, asked)
        except KvcalcError as error:
            yield GridCell(context, exact.batch, refused=error.message)
            continue
        cell = exact._replace(
            reserved_bytes_total=reservation.reserved_total, reserved_bytes_per_gpu=reservation.reserved_per_gpu
        )
        memory, grown = setting.at(asked)
        if memory is not None:
            allocator = allocator_of(reservation, grown)
            limits = {} if grown else limits  # another batch leaves another budget
            if allocator.most_sequences not in limits:
                limits[allocator.most_sequences] = most_sequences(memory, allocator, context)
            sequences, binding = limits[allocator.most_sequences]
            tokens = capacity_tokens(memory, allocator, context * asked.sequences)
            cell = cell._replace(
                kv_budget_bytes_per_gpu=memory.kv_budget,
                max_batch=None if sequences is None else sequences * dp,
                capacity_tokens=None if tokens is None else tokens * dp,
                fits=settled(
                    allocator.needed <= memory.kv_budget and reservation.allocation.fits(memory.free),
                    allocator.needed - memory.kv_budget,
                    setting.uncounted,
                ),
                binding=binding,
            )
        yield cell
