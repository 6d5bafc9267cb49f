"""The default verb's answer in sections: the sizes, the groups of caches, what fits, and the model in one line."""

from typing import TYPE_CHECKING, assert_never

from kvcalc.core.card import MEMORY_SOURCES
from kvcalc.core.explain import cache_name, terms
from kvcalc.core.fitting import Fit
from kvcalc.core.formula import has_state, recurrent_state
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.sizing import CacheGroup, Size, Textbook
from kvcalc.core.units import many
from kvcalc.library.index import is_path
from kvcalc.queries.size import SizeAnswer
from kvcalc.views.model import model_facts
from kvcalc.views.report import Bytes, Cell, Count, Part, Report, Section
from kvcalc.views.words import limited_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcalc.queries.devices import HeldDevice
    from kvcalc.queries.savings import Saving

__all__ = ["group_rows", "size_report"]


def size_report(answer: SizeAnswer, given_back: "Sequence[Saving]" = (), *, explain: bool) -> Report:
    """The default verb's answer, with what an engine reserves where one was named."""
    size, fit, engine = answer.size, answer.fit, None
    if answer.reservation is not None:
        from kvcalc.views.engine import engine_part

        engine = engine_part(answer.reservation, fit)
    alone = fit is None and engine is None  # what a textbook says teaches once, and is in the way of another answer
    sections = [_sizes(size, textbook=size.textbook if alone or explain else None)]
    if len(size.groups) > 1 or size.fixed_bytes_per_sequence:
        sections.append(group_rows(size))
    if engine is not None:
        sections.append(engine.section)
    bar: list[Part] = []
    if fit is not None:
        bar = _memory(fit)
        sections += [
            Section("memory of one GPU", ("", ""), [(p.name, Bytes(p.amount)) for p in bar], exact=explain),
            _limits(fit, size, exact=explain),
        ]
    if explain:
        said = terms(size, fit) + ([] if engine is None else engine.terms)
        rows: list[tuple[Cell, ...]] = [(t.name, f"{t.sum} = {t.bytes:,} B", t.source) for t in said]
        sections.append(Section("explanation", ("term", "sum", "rule and source"), rows))
    if answer.devices:
        sections.append(_devices(answer.devices))
    if given_back:
        sections.append(_savings(given_back))
    return Report(
        title=size.request.facts.name,
        facts=model_facts(size.request.facts),
        sections=sections,
        bar=bar,
        whole=0 if fit is None else fit.memory.vram or fit.memory.kv_budget,
        verdict="" if fit is None else _verdict(fit, size),
        fits=None if fit is None else fit.fits,
        notes=_notes(size) + _memory_notes(answer) + ([] if engine is None else engine.notes),
        warnings=list(answer.warnings),
    )


def _devices(devices: "Sequence[HeldDevice]") -> Section:
    """What each device and the host hold."""
    words = {True: "fits", False: "does not fit", None: "its range decides"}
    rows: list[tuple[Cell, ...]] = [
        (
            each.device.name,
            Count(each.device.layers),
            Bytes(each.device.weights),
            Bytes(each.device.cache),
            Bytes(each.device.compute.likely + each.device.output),
            Bytes(each.beside),
            "" if each.device.name == "host" else words[each.fits],
        )
        for each in devices
    ]
    return Section("devices", ("device", "layers", "weights", "cache", "buffers", "beside", ""), rows)


def _savings(given_back: "Sequence[Saving]") -> Section:
    """What would give memory back on each GPU, one change at a time."""
    tokens = any(each.tokens is not None for each in given_back)
    columns = ("would give memory back", "more for the cache", *(("tokens that fit",) if tokens else ()))
    rows: list[tuple[Cell, ...]] = []
    for each in given_back:
        row: tuple[Cell, ...] = (each.change, Bytes(each.gained))
        rows.append((*row, "" if each.tokens is None else Count(each.tokens)) if tokens else row)
    return Section("savings", columns, rows)


def _sizes(size: Size, textbook: Textbook | None) -> Section:
    """The size, and the textbook's beside it."""
    request = size.request
    context = many(request.context, "token")
    rows: list[tuple[Cell, Cell | None]] = [("per token", Bytes(size.bytes_per_token))]
    if size.slope_below != size.slope_past:  # a slope other than that at the asked context
        other = {"below windows": size.slope_below, "past windows": size.slope_past}
        rows += [(label, Bytes(rate.per_token)) for label, rate in other.items() if rate != size.slope]
    if size.fixed_bytes_per_sequence:
        rows.append(("fixed part", Bytes(size.fixed_bytes_per_sequence)))
    right: dict[Cell, int] = {}
    if textbook is not None:
        right = {"per token": textbook.bytes_per_token, context: textbook.bytes_per_sequence}
        right[f"batch {request.batch:,}"] = textbook.bytes_total
    rows.append((context, Bytes(size.bytes_per_sequence)))
    if request.batch > 1:
        rows.append((f"batch {request.batch:,}", Bytes(size.bytes_total)))
    if request.layout.gpus > 1:
        rows.append((f"fullest of {request.layout.gpus:,} GPUs", Bytes(size.bytes_per_gpu)))
    columns = ("", f"the model caches ({_cached_heads(size)})", f"textbook formula ({_textbook_heads(size)})")
    if textbook is None:
        return Section("KV cache", columns[:2], [(label, cell or "") for label, cell in rows])
    return Section(
        "KV cache",
        columns,
        [(label, cell or "", Bytes(right[label]) if label in right else "") for label, cell in rows],
    )


def _cached_heads(size: Size) -> str:
    kv_heads = {c.kv_heads for c in size.request.model.distinct_caches if isinstance(c, Attention) and c.kv_heads}
    if any(isinstance(c, Latent) for c in size.request.model.distinct_caches):
        return "a latent for all heads"
    if not kv_heads:
        return "a state"
    low, high = min(kv_heads), max(kv_heads)
    return many(low, "KV head") if low == high else f"{low} to {high} KV heads"


def _textbook_heads(size: Size) -> str:
    caches = size.request.model.distinct_caches
    heads = {c.heads for c in caches if isinstance(c, Latent | Compressed) or (isinstance(c, Attention) and c.kv_heads)}
    if not heads:
        return ""
    return f"{min(heads)} heads" if len(heads) == 1 else f"{min(heads)} to {max(heads)} heads"


def group_rows(size: Size) -> Section:
    """What each group of equal caches keeps."""
    rows: list[tuple[Cell, ...]] = [
        (f"{group.copies} x {cache_name(group.cache)}", _detail(group, size), Bytes(group.slope.per_token),
         Bytes(group.bytes_per_sequence))
        for group in size.groups
    ]  # fmt: skip
    return Section("layers", ("layers", "each keeps", "per token", "per sequence"), rows)


def _detail(group: CacheGroup, size: Size) -> str:
    widths = size.request.widths
    match group.cache:
        case Attention(kv_heads=kv_heads, k_dim=k_dim, v_dim=v_dim):
            dims = f"{k_dim}" if v_dim in (k_dim, 0) else f"({k_dim} + {v_dim})"
            return f"{many(kv_heads, 'KV head')} x {dims}"
        case Latent():
            return f"{group.cache.rank + group.cache.rope} for all heads"
        case Indexer(dim=dim, store=store):
            return f"{dim} in {store}" if store else f"{dim}"
        case Compressed(ratio=ratio, dim=dim, indexer=indexer):
            return f"{dim + indexer} every {ratio} tokens"
        case Recurrent():
            state = recurrent_state(group.cache)
            parts = [f"state in {widths.state.name}"] if state.state else []
            return " + ".join(parts + ([f"convolution in {widths.conv.name}"] if state.columns else []))
        case Shared():
            return "nothing of its own"
        case _:
            assert_never(group.cache)


def _memory(fit: Fit) -> list[Part]:
    """Parts that add up to the memory given: where it does not suffice, there is less than no headroom."""
    memory = fit.memory
    rest = memory.kv_budget - fit.kv_asked
    parts = [Part("KV cache asked for", fit.kv_asked), Part("headroom", rest)]
    if memory.vram is None:
        return [*parts, Part("KV memory given", memory.kv_budget)]
    lines = [Part(f"overhead: {line.name}", line.size.likely) for line in memory.overheads if line.inside]
    before = [Part("weights", memory.weights or 0), *(lines or [Part("overhead", memory.overhead or 0)])]
    if memory.outside:
        before.insert(0, Part(f"outside utilization {memory.utilization}", memory.outside))
    given = "VRAM given" if memory.card is None else f"memory of {memory.card.label}"
    return [*before, *parts, Part(given, memory.vram)]


def _memory_notes(answer: SizeAnswer) -> list[str]:
    """Which of the numbers that go by the name of a card's memory was used, and whose overheads were."""
    card = None if answer.fit is None else answer.fit.memory.card
    found = [] if card is None else [f"memory of {card.label}: {MEMORY_SOURCES[card.memory_source]}"]
    if answer.beside is not None and answer.beside.lines:
        usual = ", which is usual on such a card" if answer.beside.usual else ""
        found.append(f"overheads as {answer.beside.engine} has them{usual}: estimates, which --overhead replaces")
    return found


def _limits(fit: Fit, size: Size, *, exact: bool) -> Section:
    request = size.request
    rows: list[tuple[Cell, ...]] = [
        ("budget for the cache", Bytes(fit.memory.kv_budget), ""),
        (
            f"largest batch at {many(request.context, 'token')}",
            Count(fit.max_batch),
            _bound(fit.max_batch, fit.binding),
        ),
        (
            f"largest context at batch {request.batch:,}",
            Count(fit.max_context),
            _bound(fit.max_context, fit.context_binding),
        ),
        (f"tokens, in sequences of {request.context:,}", Count(fit.capacity_tokens), ""),
    ]
    return Section("what fits", ("", "", ""), rows, exact=exact)


def _bound(number: int | None, binding: str) -> str:
    return "nothing limits it" if number is None else f"limited by {limited_by(binding)}"


def _verdict(fit: Fit, size: Size) -> str:
    request, memory = size.request, fit.memory
    asked = f"batch {request.batch:,} at {many(request.context, 'token')}"
    if fit.fits:
        return f"fits: {asked}"
    if fit.fits is None:
        return f"undecided: {asked} lacks memory here, and a flag that is not counted may make up for it"
    if memory.vram is not None and memory.kv_budget <= 0:
        if memory.gpus_for_weights is None:
            return "does not fit: the overhead alone takes all that may be used"
        return f"does not fit: the weights alone need {many(memory.gpus_for_weights, 'such GPU')} (tp x pp)"
    return f"does not fit: {asked}"


def _notes(size: Size) -> list[str]:
    request, widths = size.request, size.request.widths
    found = []
    if any(not isinstance(cache, Recurrent | Shared) for cache in request.model.distinct_caches):
        same = widths.k == widths.v
        found.append(f"K and V in {widths.k.name}" if same else f"K in {widths.k.name}, V in {widths.v.name}")
    if has_state(request.model):
        stated = request.model.state_dtype is not None
        why = "as the model's configuration states" if stated else "since the model's configuration states no dtype"
        found.append(f"recurrent state in {widths.state.name}, {why}")
    if request.encoder_tokens is not None:
        found.append(many(request.encoder_tokens, "encoder token"))
    found += [f"the model's facts: {trust}" for trust in _trust(request.facts)]
    origin = request.facts.origin
    found += [request.facts.named] if request.facts.named else []
    if request.facts.note and (is_path(origin) or origin[:1] == "<"):  # the model was given as a file
        found.append(request.facts.note.rstrip("."))  # what a reader of model files had to assume
    textbook = 0 if size.textbook is None or request.encoder_tokens else size.textbook.bytes_per_sequence
    if textbook and textbook != size.bytes_per_sequence:
        found.append(f"{100 * size.bytes_per_sequence / textbook:.3g} % of the textbook size")
    layout = request.layout
    if layout.gpus > 1:
        more = [f"{name} {size}" for name, size in layout.sizes.items() if name in ("dcp", "ep")]
        more += [f"{layout.sharing} replicas of attention share the experts"] * (layout.sharing > 1)
        found.append(", ".join([f"tp {layout.tp}", f"pp {layout.pp}", f"dp {layout.dp}", *more]))
    return found


def _trust(facts: Model) -> list[str]:
    """What an answer says of facts that do not rest on a published file, or do not say on what."""
    unstated = " and ".join(key for key in ("source", "confidence") if getattr(facts, key) is None)
    known = [facts.confidence] if facts.confidence not in (None, "config file read") else []
    return [*known, f"{unstated} not stated"] if unstated else known
