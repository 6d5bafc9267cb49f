"""One question about a model, with every default filled in."""

from dataclasses import replace
from typing import Literal, NamedTuple, assert_never

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.formula import Widths
from kvcalc.core.kinds import encodes, one_vector
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.core.sharding import Layout
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError, shown

__all__ = ["DEFAULT_CONTEXT", "Request", "ask", "warnings"]

DEFAULT_CONTEXT = 4096  # or the model's limit, if smaller


class Request(NamedTuple):
    """A resolved question: every default is filled in.

    Attributes:
        facts: The model as it was loaded.
        model: The same with any `kv_heads` applied.
        context: Tokens in each sequence.
        batch: Sequences held at the same time, over all replicas.
        widths: The formats in force.
        encoder_tokens: Tokens on the encoder's side, None where the model has no cross-attention or its layers have
            each their own length.
        kv_heads: The number of cached heads that was asked for in place of the model's; `all` for every query head.
        layout: The parallel configuration.
        unused: Options that were given and change nothing.
        auto: Whether the formats of keys and of values were left to the model, so that an engine may have its own
            default.
    """

    facts: Model
    model: Model
    context: int
    batch: int
    widths: Widths
    encoder_tokens: int | None
    kv_heads: int | Literal["all"] | None
    layout: Layout
    unused: tuple[str, ...] = ()
    auto: tuple[bool, bool] = (True, True)

    @property
    def sequences_per_replica(self) -> int:
        """Sequences on the fullest of the dp replicas."""
        return ceil_div(self.batch, self.layout.dp)


def ask(
    model: Model,
    *,
    context: int | Literal["max"] | None = None,
    batch: int = 1,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    encoder_tokens: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    dcp: int = 1,
    ep: int | Literal["all"] = 1,
    dp_attention: bool | int = False,
) -> Request:
    """Fill in the defaults and check what contradicts the model.

    `context` None is 4,096 tokens or the model's limit if smaller; `k_dtype` and `v_dtype` follow `kv_dtype`, and
    "auto" is the KV dtype that the checkpoint declares, else the dtype the model computes in. `dp_attention`: all
    replicas share one copy of the experts, or so many of them each; an `ep` above tp says so too, and `all` is every
    rank that shares. Raises KvcalcError.
    """
    _check_number("--context", context, "max", None)
    _check_number("--encoder-tokens", encoder_tokens, None)
    for what, number in (("--batch", batch), ("--tp", tp), ("--pp", pp), ("--dp", dp), ("--dcp", dcp)):
        _check_number(what, number)
    _check_number("--ep", ep, "all")
    facts = model
    if kv_heads is not None:
        model = replace(model, layers=_with_kv_heads(model, kv_heads))
    return Request(
        facts,
        model,
        _context(model, context),
        batch,
        _widths(model, kv_dtype, k_dtype, v_dtype),
        _encoder_tokens(model, encoder_tokens),
        kv_heads,
        _with_experts(model, Layout(tp, pp, dp, dcp), ep, _sharing(dp_attention, dp)),
        _unused(model, {"--kv-dtype": kv_dtype, "--k-dtype": k_dtype, "--v-dtype": v_dtype}),
        (_is_auto(k_dtype or kv_dtype), _is_auto(v_dtype or kv_dtype)),
    )


def _sharing(dp_attention: bool | int, dp: int) -> int:
    """How many replicas share one copy of the experts."""
    if dp_attention is True and dp == 1:
        raise KvcalcError("--dp-attention: one replica shares its experts with none", "add --dp N")
    return dp if dp_attention is True else int(dp_attention) or 1


def _with_experts(model: Model, layout: Layout, ep: int | Literal["all"], sharing: int) -> Layout:
    """The layout with its experts spread. Raises KvcalcError where that has no meaning."""
    if ep == sharing == 1:
        return layout
    option = "--dp-attention" if ep == 1 else "--ep"
    if model.dimensions is None or not model.dimensions.experts:
        unknown = model.dimensions is None
        reason = f"the experts of {model.name} are not known" if unknown else f"{model.name} has no experts"
        raise KvcalcError(f"{option}: {reason}", "leave it out" if not unknown else "state `dimensions` in its preset")
    if ep != "all" and ep > layout.tp and sharing == 1:
        sharing = layout.dp
    ranks = layout.tp * sharing
    ep = ranks if ep == "all" else ep
    if ranks % ep:
        of = f"the {ranks} ranks that share the experts" if sharing > 1 else f"--tp {layout.tp}"
        raise KvcalcError(f"--ep: {ep} does not divide {of}", "ep divides tp x dp: replicas that share have --dp")
    if ep > model.dimensions.experts:
        raise KvcalcError(f"--ep: {ep} ranks are more than the model's {model.dimensions.experts} experts")
    return layout._replace(ep=ep, sharing=sharing)


def _is_auto(name: str) -> bool:
    return name.strip().lower() == "auto"


def _check_number(what: str, value: object, *words: str | None) -> None:
    """A whole number above zero, or one of `words`; True is no number."""
    if value in words and not isinstance(value, int):
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        alternative = "".join(f" or {word}" for word in words if word)
        raise KvcalcError(f"{what}: expected a whole number above zero{alternative}, got {shown(value)}")


def _unused(model: Model, formats: dict[str, str | None]) -> tuple[str, ...]:
    """The format options that were given to a model without keys and values."""
    if any(not isinstance(cache, Recurrent | Shared) for cache in model.distinct_caches):
        return ()
    return tuple(option for option, name in formats.items() if name not in (None, "auto"))


def _context(model: Model, asked: int | Literal["max"] | None) -> int:
    if asked == "max":
        if model.max_context is None:
            raise KvcalcError(f"--context: max: no limit is published for {model.name}", "give a number of tokens")
        return model.max_context
    if asked is not None:
        return asked
    return min(model.context or DEFAULT_CONTEXT, model.max_context or DEFAULT_CONTEXT)


def _widths(model: Model, kv_dtype: str, k_dtype: str | None, v_dtype: str | None) -> Widths:
    def pick(own: str | None, option: str) -> DType:
        name, what = (kv_dtype, "--kv-dtype") if own is None else (own, option)
        if not isinstance(name, str):
            raise KvcalcError(f"{what}: expected the name of a dtype, got {shown(name)}")
        if _is_auto(name):
            return model.kv_dtype or model.dtype
        return dtypes.dtype_called(name, dtypes.KV, what)

    k, v = pick(k_dtype, "--k-dtype"), pick(v_dtype, "--v-dtype")
    if k != v and any(map(one_vector, model.distinct_caches)):
        raise KvcalcError(
            f"--k-dtype: one vector serves as key and value in {model.name}, so {k.name} and {v.name} cannot both hold",
            "use --kv-dtype",
        )
    # A state keeps the dtype that the configuration states, else float32.
    return Widths(k, v, conv=model.dtype, state=model.state_dtype or dtypes.FP32)


def _encoder_tokens(model: Model, asked: int | None) -> int | None:
    cross = [c for c in model.distinct_caches if isinstance(c, Attention) and encodes(c)]
    if not cross:
        if asked is not None:
            raise KvcalcError(f"--encoder-tokens: {model.name} has no cross-attention")
        return None
    lengths = {c.span for c in cross}
    if asked is None and None not in lengths:  # fixed by the model: one length for all layers, or each its own
        return lengths.pop() if len(lengths) == 1 else None
    default = model.encoder_tokens if len(lengths) == 1 else None
    if asked is None and default is None:
        raise KvcalcError(
            f"--encoder-tokens: the cross-attention cache of {model.name} depends on it, and it has no default",
            "give the number of tokens that the encoder hands over",
        )
    return asked or default


def _with_kv_heads(model: Model, kv_heads: int | Literal["all"]) -> tuple[Layer, ...]:
    """The layers with another number of cached heads in every per-head attention."""
    caches = model.distinct_caches
    if any(map(one_vector, caches)):
        raise KvcalcError(
            f"--kv-heads: {model.name} caches one vector for all heads, so no number of KV heads changes it",
            "its textbook size, with every head, stands beside the exact one",
        )
    if not any(isinstance(c, Attention) for c in caches):
        raise KvcalcError(f"--kv-heads: {model.name} has no attention heads to cache")

    def change(cache: Cache) -> Cache:
        match cache:
            case Attention(kv_heads=present) if present:
                if kv_heads != "all" and not (isinstance(kv_heads, int) and 1 <= kv_heads <= cache.heads):
                    raise KvcalcError(f"--kv-heads: expected 1 to {cache.heads} or all, got {kv_heads}")
                return cache._replace(kv_heads=cache.heads if kv_heads == "all" else kv_heads)
            case Shared(of=Attention() as of):
                changed = change(of)
                assert isinstance(changed, Attention | Recurrent)
                return Shared(changed)
            case Attention() | Latent() | Indexer() | Compressed() | Recurrent() | Shared():
                return cache
            case _:
                assert_never(cache)

    changed = {layer: tuple(change(cache) for cache in layer) for layer in model.distinct_layers}
    return tuple(changed[layer] for layer in model.layers)


def warnings(request: Request) -> list[str]:
    """What the asker should know about the question itself."""
    found, limit = [], request.facts.max_context
    if limit is not None and request.context > limit:
        found.append(f"{request.context:,} tokens are above the model's limit of {limit:,}")
    if request.batch < request.layout.dp:
        found.append(f"a batch of {request.batch:,} leaves some of the {request.layout.dp:,} replicas (dp) idle")
    found += [
        f"{option}: changes nothing, since {request.facts.name} has no keys and values" for option in request.unused
    ]
    if request.facts.confidence == "from memory":
        found.append(f"the facts of {request.facts.name} were written from memory, not read in a published file")
    if request.facts.doubt is not None:
        found.append(request.facts.doubt)
    return found
