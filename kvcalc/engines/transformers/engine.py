"""transformers: a cache object for each call of `generate`, whose layers grow by concatenation or are static.

Rules were read in transformers 5.23.0 and in ten versions before it, and run there on torch's meta device and on a CPU.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from kvcalc.core.explain import cache_name
from kvcalc.core.formula import kept, size
from kvcalc.core.model import Attention, Compressed, Layer, Recurrent, Shared, Stored
from kvcalc.core.units import many
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.base import Engine
from kvcalc.engines.placement import without_tp
from kvcalc.engines.question import Question
from kvcalc.engines.transformers.flags import FLAGS, model_of, options_of
from kvcalc.engines.transformers.generation import Generation, run_of
from kvcalc.engines.transformers.layers import cache_class, layer_classes
from kvcalc.engines.transformers.memory import memory
from kvcalc.engines.transformers.tensors import Stage, Tensor, copied, live_bytes, stages, tensor_bytes
from kvcalc.engines.transformers.versions import VERSIONS

__all__ = ["ENGINE"]

_BEAMS = Rule("a cache for each beam or returned sequence", "transformers 5.23.0, generation/utils.py: generate")
_COPY = Rule("shared layers kept twice", "transformers 5.5.4, models/gemma3n/modeling_gemma3n.py: shared_layers")
_STORED = Rule("shared layers stored", "transformers 5.23.0, models/hunyuan_v1_moe: no use_cla")
_EVERYWHERE = Rule(
    "columns for attention layers too", "transformers 5.4.0, models/lfm2/modeling_lfm2.py: Lfm2HybridConvCache"
)


class TensorGroup(NamedTuple):
    """Equal caches of one stage. `entries`: compressed ones stand beside them; `extra`: the exact size has none."""

    stage: int
    cache: Stored
    entries: bool = False
    extra: Rule | None = None


Layers: TypeAlias = Mapping[tuple[int, Layer], int]  # by stage
Groups: TypeAlias = Mapping[TensorGroup, int]


def allocate(question: Question) -> Allocation:
    """Raises KvcalcError where transformers has no such cache, or its rule is not known."""
    without_tp(question, "transformers")
    run, layers = run_of(question), _layers(question)
    groups = _groups(layers, run)
    found = {group: _stages(group, run) for group in groups}
    charges = tuple(_charge(group, copies, found[group], run) for group, copies in groups.items())
    ratios = {group.cache.ratio for group in groups if isinstance(group.cache, Compressed)}
    end = _live(groups, found, run, run.sequences)
    peaks = [_live(groups, {g: _stages(g, at) for g in groups}, at, run.sequences) for at in run.moments(ratios)]
    live, peak = end.total(), max(map(_fullest, [end, *peaks]))
    values: dict[str, int | str | bool | None] = {
        "cache_class": cache_class(question.request.model, run),
        "layer_classes": _classes(layers, run),
        "prefilled_tokens": run.tokens - run.decoded,
        "decoded_tokens": run.decoded,
        "max_cache_len": run.static,
        "held_bytes_total": live if question.request.layout.dp == 1 else _live_of_all(question, groups, found, run),
        "peak_bytes_per_gpu": peak,
    }
    facts = [*_facts(question, run, values)]
    if live != sum(charge.bytes for charge in charges):
        facts.append(f"{live:,} B of storage live, since a window is a view of all that the last forward attended to")
    if peak > _fullest(end):
        facts.append(f"up to {peak:,} B on one GPU before, which is what must fit")
    return Allocation(charges, values, tuple(facts), tuple(_warnings(question, run)), peak=peak)


def _fullest(stages: Counter[int]) -> int:
    """Bytes of the stage that holds most."""
    return max(stages.values(), default=0)


def _layers(question: Question) -> Layers:
    if question.request.layout.pp == 1:
        return {(0, layer): copies for layer, copies in question.request.model.distinct_layers.items()}
    return Counter((placed.stage, placed.caches) for placed in question.placement.layers)


def _groups(layers: Layers, run: Generation) -> Groups:
    groups: Counter[TensorGroup] = Counter()
    columns = next(
        (c for _, layer in layers for c in layer if isinstance(c, Recurrent) and c.kind == "shortconv"), None
    )
    for (stage, layer), copies in layers.items():
        entries = any(isinstance(cache, Compressed) for cache in layer)
        for cache in layer:
            if isinstance(cache, Shared):
                if not run.habits.shares:
                    groups[TensorGroup(stage, cache.of, extra=_STORED)] += copies
                elif run.version.shared_copies and kept(cache.of):
                    groups[TensorGroup(stage, cache.of, extra=_COPY)] = 1
            elif not isinstance(cache, Attention) or cache.kv_heads:
                groups[TensorGroup(stage, cache, entries)] += copies
        if run.version.conv_everywhere and columns and columns not in layer:
            groups[TensorGroup(stage, columns, extra=_EVERYWHERE)] += copies
    return groups


def _stages(group: TensorGroup, run: Generation) -> list[Stage]:
    if group.extra == _COPY:
        assert isinstance(group.cache, Attention)
        return [(_COPY, copied(group.cache, run))]
    found = list(stages(group.cache, run, entries=group.entries))
    return found if group.extra is None else [(group.extra, found[-1][1])]


def _charge(group: TensorGroup, copies: int, found: list[Stage], run: Generation) -> Charge:
    """From the exact size, one rule at a time, to what is allocated."""

    def total(tensors: tuple[Tensor, ...], sequences: int) -> int:
        return copies * sum(tensor_bytes(tensor, run, sequences) for tensor in tensors)

    needed = copies * run.sequences * size(group.cache, run.tokens, run.widths, run.encoder_tokens)
    exact = before = 0 if group.extra else needed
    steps, last = [], found[-1][1]
    amounts = [(rule, total(tensors, run.sequences)) for rule, tensors in found]
    for rule, amount in (*amounts, (_BEAMS, total(last, run.sequences * run.beams))):
        if amount != before:
            steps.append(Step(rule, amount))
        before = amount
    parts: Counter[str] = Counter()
    for tensor in last:
        parts[tensor.part] += total((tensor,), run.sequences * run.beams)
    shapes = " + ".join(f"{t.tokens:,} x {t.width:,} in {_format(t, run)}" for t in last if t.tokens and t.width)
    how = f"{many(copies, 'layer')} x {many(run.sequences * run.beams, 'sequence')} x ({shapes})"
    return Charge(cache_name(group.cache), copies, exact, tuple(steps), tuple(parts.items()), how, group.stage)


def _format(tensor: Tensor, run: Generation) -> str:
    how = run.quantised
    if how is None or tensor.part not in {"k_bytes", "v_bytes"}:
        return tensor.dtype.name
    if how.backend == "fp8":
        return "fp8 with one scale"
    waiting = f", {how.rest:,} of them in {tensor.dtype.name}" if how.rest else ""
    return f"{how.bits} bits with scale and shift for {how.group}{waiting}"


def _live(groups: Groups, found: Mapping[TensorGroup, list[Stage]], run: Generation, sequences: int) -> Counter[int]:
    """Bytes of the storage that lives on each stage."""
    stages: Counter[int] = Counter()
    for group, copies in groups.items():
        _, tensors = found[group][-1]
        stages[group.stage] += copies * sum(live_bytes(tensor, run, sequences * run.beams) for tensor in tensors)
    return stages


def _live_of_all(question: Question, groups: Groups, found: Mapping[TensorGroup, list[Stage]], run: Generation) -> int:
    """Live storage of all replicas, some of which may hold one sequence less."""
    dp, batch = question.request.layout.dp, question.request.batch
    less = batch // dp
    full = dp if less == run.sequences else batch - less * dp
    return sum(
        replicas * _live(groups, found, run, sequences).total()
        for replicas, sequences in ((full, run.sequences), (dp - full, less))
        if sequences
    )


def _classes(layers: Layers, run: Generation) -> str:
    """Layers of the cache by their class."""
    counts: Counter[str] = Counter()
    for (_, layer), copies in layers.items():
        for name in layer_classes(layer, run):
            counts[name] += copies
    return ", ".join(f"{copies} {name}" for name, copies in counts.items())


def _facts(question: Question, run: Generation, values: Mapping[str, object]) -> Iterator[str]:
    """Which classes hold the cache, and what of the numbers depends on how its tokens came."""
    model, chunk = question.request.model, run.settings.prefill_chunk_size
    if model.model_type is None:
        yield "no model type is stated: the kinds of caches alone decide"
    if values["cache_class"]:
        yield f"{values['cache_class']}: {values['layer_classes']}"
    windows = any(map(kept, model.distinct_caches))
    if run.decoded or run.quantised or (windows and not run.static):
        how = f"in chunks of {chunk:,}" if chunk else "in one piece"
        prompt = f"a prompt of {many(run.tokens - run.decoded, 'token')} {how}"
        generated = f"then {run.decoded:,} generated one by one" if run.decoded else "and none generated"
        yield f"{prompt}, {generated} (max_new_tokens)"
    if run.quantised and run.quantised.rest:
        yield f"{run.quantised.rest:,} of at most {run.quantised.residual - 1:,} tokens wait to be quantised"
    if any(isinstance(c, Recurrent) and c.kind == "rglru" for c in model.distinct_caches):
        yield "states are kept by the modules, beside the cache"


def _warnings(question: Question, run: Generation) -> Iterator[str]:
    settings, context = run.settings, question.request.context
    if run.habits.note:
        yield run.habits.note
    if run.habits.own and (settings.cache_implementation not in {None, "dynamic"} or settings.no_config):
        yield f"transformers gives {question.request.model.model_type} a cache of its own, whatever is asked for"
    if settings.max_new_tokens >= context:
        yield f"max_new_tokens {settings.max_new_tokens:,} leaves no prompt in {many(context, 'token')}"


ENGINE = Engine(
    "transformers",
    VERSIONS,
    allocate,
    ("fp32", "fp16", "bf16", "fp8", "fp8_e4m3", "int8", "int4"),
    FLAGS,
    options_of,
    model_of,
    memory=memory,
    grows=True,
)
