"""MLX-LM: arrays that grow as tokens come. Rules were read in mlx-lm 0.32.2, and run there on a CPU."""

from collections.abc import Iterable, Iterator

from kvcalc.core.explain import cache_name
from kvcalc.core.formula import attention_tokens, kept
from kvcalc.core.model import Attention, Cache, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.units import many
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.base import Engine
from kvcalc.engines.mlx.caches import CacheRun, Pair, growth_of, pair_of, state_bytes
from kvcalc.engines.mlx.flags import FLAGS, Settings, options_of, settings, stored
from kvcalc.engines.mlx.growth import moments
from kvcalc.engines.mlx.memory import memory
from kvcalc.engines.mlx.model_types import EXACT, Family, family_of
from kvcalc.engines.mlx.versions import VERSIONS
from kvcalc.engines.placement import without_tp
from kvcalc.engines.question import Question, no_rule
from kvcalc.engines.stages import StageCaches, stage_caches
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE"]


_CACHE = "mlx-lm 0.32.2, models/cache.py: "
_DTYPE = Rule("in the model's dtype", _CACHE + "arrays take the dtype of the keys and values that are written")
_EXPANDED = Rule("expanded latents", "mlx-lm 0.32.2, models/deepseek_v2.py and minicpm3.py: keys and values by head")
_INDEX = Rule("zeros beside index keys", "mlx-lm 0.32.2, models/deepseek_v32.py: Indexer, cache.values")
_COPIES = Rule("shared layers stored", "mlx-lm 0.32.2, models/hunyuan.py: Attention, cache.update_and_fetch")
_WINDOW = Rule("window ignored", _CACHE + "make_prompt_cache; models/llama.py: layer_types")
_BLOCKS = Rule("whole blocks of 256 tokens", _CACHE + "KVCache.update_and_fetch")
_RING = Rule("blocks up to the window", _CACHE + "RotatingKVCache")
_MOST = Rule("--max-kv-size", _CACHE + "make_prompt_cache, RotatingKVCache")
_CHUNK = Rule("a block beside the chunk", _CACHE + "ChunkedKVCache.maybe_trim_front")
_BITS = Rule("quantised in groups", _CACHE + "QuantizedKVCache; generate.py: maybe_quantize_kv_cache")
_STATE = Rule("state in its own dtype", "mlx-lm 0.32.2, models/mamba.py, ssm.py, gated_delta.py, recurrent_gemma.py")


def allocate(question: Question) -> Allocation:
    """Raises KvcalcError where MLX-LM has no such cache, or its rule is not known."""
    run = _run(question)
    charges = []
    held_at = [0] * len(run.at)
    for each in stage_caches(question):
        charge, sizes = _charge(each, run)
        if charge.bytes or charge.exact:
            charges.append(charge)
        held_at = [total + size for total, size in zip(held_at, sizes, strict=True)]
    most, end = max(held_at), run.end
    values = {
        "prompt_tokens": end.read + 1,
        "generated_tokens": end.tokens - end.read - 1,
        "prefill_step_size": end.chunk,
        "peak_bytes_per_gpu": most,
    }
    return Allocation(
        tuple(charges),
        values,
        tuple(_facts(run, most, held_at[-1])),
        tuple(_warnings(run)),
        peak=most,
        most_sequences=_most_sequences(question.request.model, run.settings),
        most_tokens=run.most_tokens,
    )


def _run(question: Question) -> CacheRun:
    request, use = question.request, settings(question.settings)
    family = family_of(request.model)
    _check_layout(question, use)
    windows = _windows(request.model, family)
    generated = min(use.max_tokens, request.context - 1)
    start = None if use.kv_bits is None or family.packed else use.quantized_kv_start
    _check_options(request.model, use, family)
    what = _unquantisable(request.model, use, family, windows)
    if what is not None and start is not None and request.context >= start:
        raise KvcalcError(
            f"--kv-bits: MLX-LM {VERSIONS[-1].name} cannot quantise {what}, and fails once there are {start:,} tokens",
            "leave it out, or a larger --quantized-kv-start",
        )
    # The KV format that a checkpoint declares is ignored; a format that is asked for is the one that the model runs in.
    k, v = (request.model.dtype if auto else own for own, auto in zip(request.widths[:2], request.auto, strict=True))
    if k != v:
        raise KvcalcError("--k-dtype: keys and values have one dtype in MLX-LM, the model's", "use --kv-dtype")
    at = moments(request.context, request.context - generated - 1, use.prefill_step_size, start)
    most = None if what is None or start is None else start - 1
    return CacheRun(family, use, k, windows, tuple(at), question.sequences, most)


def _windows(model: Model, family: Family) -> frozenset[Cache]:
    """The windows and chunks that MLX-LM keeps; other layers have every token."""
    caches = [c for c in model.distinct_caches if isinstance(c, Attention)]
    rotates = family.windows == "all" or (family.windows == "listed" and any(kept(c) is None for c in caches))
    return frozenset(c for c in caches if rotates and kept(c))


def _check_layout(question: Question, use: Settings) -> None:
    without_tp(question, "mlx")
    if question.request.layout.pp > 1:
        raise KvcalcError("--pp: how MLX-LM cuts a model into stages is not known", "use --dp")
    most = _most_sequences(question.request.model, use)
    if question.sequences > most:
        together = "one sequence at a time" if most == 1 else f"at most {most:,} sequences together"
        raise KvcalcError(f"--batch: MLX-LM decodes {together} here, got {question.sequences:,}", "use --dp")


def _most_sequences(model: Model, use: Settings) -> int:
    """Caches of one length that start together grow as one does (BatchKVCache, BatchRotatingKVCache).

    ChunkedKVCache has none for many; the server takes quantised ones one by one, mlx_lm.generate and chat any.
    """
    chunks = any(isinstance(c, Attention) and growth_of(c) == "chunks" for c in model.distinct_caches)
    alone = chunks or use.kv_bits or use.max_kv_size or use.program in {"generate", "chat"}
    return 1 if alone else use.decode_concurrency


def _check_options(model: Model, use: Settings, family: Family) -> None:
    """Refuse what MLX-LM fails at, and what depends on more than the type."""
    layers = [cache for layer in model.distinct_layers for cache in layer]
    if family.index_values and sum(isinstance(c, Latent) for c in layers) > sum(isinstance(c, Indexer) for c in layers):
        raise KvcalcError(
            f"model_type: MLX-LM's {model.model_type} has an indexer in every layer, and this model does not",
            EXACT,
        )
    if use.max_kv_size and family.own is None:
        raise KvcalcError(
            f"--max-kv-size: MLX-LM heeds it where {model.model_type} stands inside another type, and not where alone",
            "leave it out",
        )


def _unquantisable(model: Model, use: Settings, family: Family, windows: frozenset[Cache]) -> str | None:
    """What MLX-LM fails to quantise, or to attend to afterwards. It quantises nothing before --quantized-kv-start."""
    ring = (use.max_kv_size and not family.own) or any(
        isinstance(c, Attention) and growth_of(c) == "ring" for c in windows
    )
    if ring:
        return "rotating caches"
    if any(isinstance(c, Latent) for c in model.distinct_caches) and not family.expanded:
        return "latents"
    return None if family.quantises else f"what {model.model_type} attends to"


def _charge(each: StageCaches, run: CacheRun) -> tuple[Charge, list[int]]:
    """What equal caches take in the end, and at each moment."""
    copies = each.copies * run.sequences
    if isinstance(each.cache, Recurrent):
        state = copies * state_bytes(each.cache, run)
        charge = _charged(each, [(_STATE, state)], (("state_bytes", state),), "whatever the context")
        return charge, [state] * len(run.at)
    pair = pair_of(each.cache, run)
    if pair is None:
        return _charged(each, [], (), "nothing of its own"), [0] * len(run.at)
    sizes = [pair.bytes(at, run) for at in run.at]
    k, v = (copies * size for size in sizes[-1])
    parts = (("index_bytes", k + v),) if isinstance(each.cache, Indexer) else (("k_bytes", k), ("v_bytes", v))
    elements = f"{sum(pair.elements):,} elements"
    width = (
        f"in {run.settings.kv_bits} bits" if run.end.quantised and pair.quantises else f"x {run.dtype.block_bytes} B"
    )
    how = f"{many(copies, 'cache')} x {pair.capacity(run.end):,} tokens x {elements} {width}"
    return _charged(each, [*_steps(each, pair, run), (_BITS, k + v)], parts, how), [copies * (k + v) for k, v in sizes]


def _steps(each: StageCaches, pair: Pair, run: CacheRun) -> Iterator[tuple[Rule, int]]:
    """From the exact size, one rule at a time, to the arrays before they are quantised."""
    copies, size = each.copies * run.sequences, run.dtype.block_bytes
    tokens = run.end.tokens
    elements = copies * sum(pair.elements) * size  # bytes a token
    match each.cache:
        case Attention():
            yield _DTYPE, attention_tokens(each.cache, tokens, None) * elements
            if kept(each.cache) not in (None, pair.span):
                yield _WINDOW, tokens * elements
        case Latent(rank=rank, rope=rope):
            yield _DTYPE, copies * tokens * (rank + rope) * size
            yield _EXPANDED, tokens * elements
        case Indexer(dim=dim):
            yield _DTYPE, copies * tokens * dim * size
            yield _INDEX, tokens * elements
        case Shared():
            yield _COPIES, tokens * elements
        case _:
            raise no_rule("mlx", each.cache, EXACT)
    rules = {"whole": _BLOCKS, "chunks": _CHUNK, "ring": _MOST if pair.span == run.settings.max_kv_size else _RING}
    yield rules[pair.grows], pair.capacity(run.end) * elements


def _charged(
    each: StageCaches, steps: Iterable[tuple[Rule, int]], parts: tuple[tuple[str, int], ...], how: str
) -> Charge:
    """A charge without the steps that change nothing."""
    changing: list[Step] = []
    before = each.exact
    for rule, amount in steps:
        if amount != before:
            changing.append(Step(rule, amount))
        before = amount
    return Charge(cache_name(each.cache), each.copies, each.exact, tuple(changing), parts, how, each.stage)


def _facts(run: CacheRun, most: int, end: int) -> Iterator[str]:
    at, use = run.end, run.settings
    generated = at.tokens - at.read - 1
    yield f"a prompt of {at.read + 1:,} tokens in chunks of {at.chunk:,}, then {generated:,} generated (--max-tokens)"
    if most > end:
        yield f"up to {most:,} B before the last token, which is what must fit"
    if use.kv_bits and not run.family.packed and not at.quantised:
        yield f"nothing is quantised below {use.quantized_kv_start:,} tokens (--quantized-kv-start)"
    if run.sequences > 1:
        yield f"{run.sequences:,} sequences of one length that start together"
    if use.program == "chat":
        yield "one turn: a later prompt is appended to what the cache holds"
    if use.program == "server":
        yield "mlx_lm.server also keeps the caches of finished requests (--prompt-cache-size), which are not counted"


def _warnings(run: CacheRun) -> Iterator[str]:
    if run.settings.max_kv_size and run.family.own:
        yield "--max-kv-size changes nothing: MLX-LM heeds it only for models without a make_cache of their own"
    if run.settings.kv_bits and run.family.packed:
        yield "--kv-bits changes nothing: MLX-LM passes over the caches of layers that have more than one"


ENGINE = Engine(
    "mlx",
    VERSIONS,
    allocate,
    ("fp32", "fp16", "bf16"),
    FLAGS,
    options_of,
    stored=stored,
    vendors=("Apple",),
    memory=memory,
    grows=True,
    run_flags={"max_num_seqs": "--decode-concurrency", "max_num_batched_tokens": "--prefill-step-size"},
)
