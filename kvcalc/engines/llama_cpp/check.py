"""What llama.cpp's printed sizes should be."""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.engines.llama_cpp.caches import compressed_cells, keep
from kvcalc.engines.llama_cpp.context import Context, context_of
from kvcalc.engines.log_form import MIB, Expected, MatchedLine, StartLog
from kvcalc.engines.log_numbers import Printed, plain
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches

__all__ = ["Pool", "expect", "pools"]


class Pool(NamedTuple):
    """One cache as llama.cpp reports it: its layers, cells of a stream, and bytes of K and V, or of R, S and P."""

    name: str
    layers: int
    cells: int
    sizes: tuple[int, ...]


# The caches in the order in which they are reported, the one for states apart.
_ORDER = ("base", "swa", "csa", "hca", "lid", "index")


def pools(question: Question, context: Context) -> tuple[list[Pool], Pool | None]:
    """The caches with keys, and the one with states."""
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for each in stage_caches(question):
        for name, sizes in keep(each, context).pools:
            layers, before = found.get(name, (0, (0,) * len(sizes)))
            found[name] = layers + each.copies, tuple(a + b for a, b in zip(before, sizes, strict=True))
    cells = {"swa": context.window[1], **{name: compressed_cells(context, 4)[1] for name in ("csa", "lid")}}
    cells["hca"] = compressed_cells(context, 128)[1]
    if "swa" in found:
        found.setdefault("base", (0, (0, 0)))
    keyed = [Pool(name, *_flat(found[name], cells.get(name, context.cells))) for name in _ORDER if name in found]
    states = found.get("recurrent")
    return keyed, states and Pool("recurrent", *_flat(states, context.sequences))


def _flat(pool: tuple[int, tuple[int, ...]], cells: int) -> tuple[int, int, tuple[int, ...]]:
    return pool[0], cells, pool[1]


def expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """Each printed cache beside the one that stands in its place, cache by cache in their order."""
    context = context_of(question)
    keyed, states = pools(question, context)
    place, buffers = 0, _Buffers()
    refused: MatchedLine | None = None
    for found in run.found:
        says = found.says
        if "context" in says or "n_ctx" in says:  # another context, such as that of a trial or of a draft
            yield from buffers.close(keyed[place] if place < len(keyed) else None, run)
            place = 0
        elif "cache" in says:
            yield from buffers.close(keyed[place - 1] if 0 < place <= len(keyed) else None, run)
            buffers.announced = _of(keyed, says["cache"])
            place = keyed.index(buffers.announced) if buffers.announced in keyed else place
            yield from _cells(found, keyed[place] if place < len(keyed) else None)
        elif "refused" in says or ("refused_mib" in says and refused is None):  # bytes say more than MiB
            refused = found
        elif "kv_refused" in says and refused is not None:
            pool = buffers.announced or (keyed[place] if place < len(keyed) else None)
            yield from _refused(refused, pool, buffers.keyed)
            refused, buffers.keyed, buffers.announced = None, [], None
        elif "buffer_mib" in says or "rs_buffer_mib" in says:
            buffers.add(found)
        elif "rs_mib" in says:
            buffers.states = []
            yield from _recurrent(found, states, question, run)
        elif "kv_mib" in says:
            buffers.keyed, buffers.announced = [], None
            pool = keyed[place] if place < len(keyed) else None
            place += 1
            yield from _keyed(found, pool, run)
    yield from buffers.close(keyed[place] if place < len(keyed) else None, run)
    yield from buffers.close_states(states, run)


def _of(keyed: list[Pool], cache: str) -> Pool | None:
    """The cache that a line announces."""
    names = {"non-SWA": "base", "SWA": "swa", "main": "base", "indexer": "index", "DSV4 CSA compressed": "csa",
             "DSV4 HCA compressed": "hca", "DSV4 lightning-indexer": "lid"}  # fmt: skip
    return next((pool for pool in keyed if pool.name == names.get(cache.strip())), None)


class _Buffers:
    """Lines of single devices, which count where no line with the sum follows."""

    def __init__(self) -> None:
        self.keyed: list[MatchedLine] = []
        self.states: list[MatchedLine] = []
        self.announced: Pool | None = None

    def add(self, found: MatchedLine) -> None:
        (self.keyed if "buffer_mib" in found.says else self.states).append(found)

    def close(self, pool: Pool | None, run: StartLog) -> Iterator[Expected]:
        pool, self.announced = self.announced or pool, None
        found, self.keyed = self.keyed, []
        if found and pool is not None:
            yield from _summed(found, "buffer_mib", f"{_prefix(pool)}kv_mib", sum(pool.sizes), run)

    def close_states(self, pool: Pool | None, run: StartLog) -> Iterator[Expected]:
        if self.states and pool is not None:
            yield from _summed(self.states, "rs_buffer_mib", "rs_mib", sum(pool.sizes), run)


_ALIGNED = 128  # bytes that an allocation may be longer, so that it begins where tensors do (ggml-backend.cpp)


def _refused(found: MatchedLine, pool: Pool | None, before: list[MatchedLine]) -> Iterator[Expected]:
    """The buffer that a device had no memory for: all of a cache, or the part of some layers where devices share it."""
    exact, printed = plain(found.says.get("refused")), found.get("refused_mib", 2)
    size = exact if exact is not None else None if printed is None else printed.whole(MIB)
    if pool is None or size is None or not pool.layers:
        return
    whole = sum(pool.sizes)
    off = [abs(size - whole * layers // pool.layers) for layers in range(1, pool.layers)]
    near = _ALIGNED if exact is not None else MIB // 100
    excuse = ""
    if before or (size < whole and min(off, default=near + 1) <= near):
        excuse = "the part of one of several devices"
    counted = Expected(found.number, f"{_prefix(pool)}bytes", Printed(size), "B", 1)
    if exact is None and printed is not None:
        counted = Expected(found.number, f"{_prefix(pool)}kv_mib", printed, "MiB", MIB)
    yield counted._replace(low=whole, predicted=whole, high=whole + _ALIGNED, excuse=excuse)


def _summed(found: list[MatchedLine], name: str, quantity: str, size: int, run: StartLog) -> Iterator[Expected]:
    """Several printed numbers may each be half a digit off."""
    printed = [number for each in found if (number := each.get(name, 2)) is not None]
    half = len(printed) * MIB // 200
    total = Printed(sum(number.value for number in printed), 2)
    scale = _scale(run)
    yield Expected(found[0].number, quantity, total, "MiB", scale, size - half, size, size + half)


def _scale(run: StartLog) -> int:
    """Bytes of what is printed as MiB."""
    return MIB if run.giga == 2**30 else 10**6


def _prefix(pool: Pool) -> str:
    return "" if pool.name == "base" else f"{pool.name}_"


def _cells(found: MatchedLine, pool: Pool | None) -> Iterator[Expected]:
    printed = found.get("cells")
    if printed is not None and pool is not None and pool.name in ("base", "swa"):
        yield Expected(found.number, f"{_prefix(pool)}cells", printed, "", 1, pool.cells, pool.cells, pool.cells)


def _keyed(found: MatchedLine, pool: Pool | None, run: StartLog) -> Iterator[Expected]:
    """Cells, layers, and the sizes of K and V."""
    prefix = "" if pool is None else _prefix(pool)
    for name in ("cells", "layers"):
        printed = found.get(name)
        if printed is not None and pool is not None:
            number = getattr(pool, name)
            yield Expected(found.number, prefix + name, printed, "", 1, number, number, number)
    sizes: dict[str, int | None] = {"kv_mib": None, "k_mib": None, "v_mib": None}
    if pool is not None:
        sizes = {"kv_mib": sum(pool.sizes), "k_mib": pool.sizes[0], "v_mib": pool.sizes[1]}
    for name, size in sizes.items():
        printed = found.get(name, 2)
        if printed is not None:
            yield _sized(found, prefix + name, printed, size, run, "a cache of a draft, whose shape is not in the log")


def _recurrent(found: MatchedLine, pool: Pool | None, question: Question, run: StartLog) -> Iterator[Expected]:
    """Cells and the sizes of R, S and P; the layers are those of the whole model."""
    why = "no state is known of this model"
    counts = {"rs_cells": pool.cells, "rs_layers": len(question.request.model.layers)} if pool else {}
    for name, number in counts.items():
        printed = found.get(name)
        if printed is not None:
            yield Expected(found.number, name, printed, "", 1, number, number, number)
    parts = dict(zip(("r_f32_mib", "s_f32_mib", "p_f32_mib"), pool.sizes if pool else (None,) * 3, strict=True))
    for name, size in {"rs_mib": sum(pool.sizes) if pool else None, **parts}.items():
        printed = found.get(name, 2)
        if printed is not None:
            yield _sized(found, name, printed, size, run, why)


def _sized(found: MatchedLine, quantity: str, printed: Printed, size: int | None, run: StartLog, why: str) -> Expected:
    """Printed from a float of 32 bits, which is off by one part in 2^24."""
    if size is None:
        return Expected(found.number, quantity, printed, "MiB", _scale(run), why=why)
    off = size >> 24
    return Expected(found.number, quantity, printed, "MiB", _scale(run), size - off, size, size + off)
