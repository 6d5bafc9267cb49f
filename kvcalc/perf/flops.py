"""What a model computes for a token and for a prompt, by kind of cache: counted exactly, in closed form.

Every parameter that a token uses is one multiply-add, 2 FLOPs, whether it lies in a matrix, an embedding or a norm: the
convention of Kaplan et al. 2020 (arXiv 2001.08361). Attention is counted in full: a query at position t looks at itself
and the t - 1 tokens before it. What softmax, norms and rotations cost is left out, which is below a percent.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, assert_never

from kvcalc.core.formula import attention_tokens, head_dims, recurrent_state
from kvcalc.core.model import (
    Attention,
    Cache,
    Compressed,
    Indexer,
    Latent,
    Layer,
    Model,
    Recurrent,
    RecurrentKind,
    Shared,
)
from kvcalc.errors import KvcalcError
from kvcalc.perf.entries import Seen, triangle

__all__ = ["Flops", "Index", "Term", "count", "index_of", "seen", "used_parameters"]


class Term(NamedTuple):
    """FLOPs for each entry that a query looks at, and how many those are."""

    each: int
    seen: Seen


class Flops(NamedTuple):
    """What one sequence of a model costs to compute.

    `parameters`: those that one token uses. `decode` is attention to a cache, one token at a time; `prefill` is that of
    a whole prefix in one pass, which computes it otherwise where the cache is compressed. `dense`: an index chooses the
    tokens that attention looks at, and the model's facts do not say how many; all of them are counted, an upper bound.
    """

    parameters: int
    decode: tuple[Term, ...]
    prefill: tuple[Term, ...]
    dense: bool = False

    @property
    def linear(self) -> int:
        """FLOPs of one token outside of attention."""
        return 2 * self.parameters

    def token(self, t: int) -> int:
        """FLOPs of one new token at position t, with everything before it in the cache."""
        return self.linear + sum(term.each * term.seen.at(t) for term in self.decode)

    def prompt(self, n: int) -> int:
        """FLOPs of n tokens in one pass: a prompt, or a whole prefix computed again."""
        return self.linear * n + sum(term.each * term.seen.prefix(n) for term in self.prefill)

    def with_cache(self, prompt: int, output: int) -> int:
        """FLOPs of a prompt and `output` new tokens. The prompt's pass yields the first of them."""
        return self.prompt(prompt) + self.decoding(prompt, output)

    def decoding(self, prompt: int, output: int) -> int:
        """FLOPs of all new tokens but the first, with the cache."""
        last = prompt + output - 1
        seen = sum(term.each * (term.seen.prefix(last) - term.seen.prefix(prompt)) for term in self.decode)
        return self.linear * (output - 1) + seen

    def without_cache(self, prompt: int, output: int) -> int:
        """FLOPs of the same if every new token computes its whole prefix again."""
        last, before = prompt + output - 1, prompt - 1
        seen = sum(term.each * (term.seen.prefixes(last) - term.seen.prefixes(before)) for term in self.prefill)
        return self.linear * (triangle(last) - triangle(before)) + seen


def used_parameters(model: Model) -> int:
    """The parameters that one token uses: the active ones of a mixture of experts."""
    used = model.active_parameters or model.parameters
    if used is None:
        raise KvcalcError(
            f"--parameters: the number of parameters of {model.name} is not known",
            "give those that one token uses, such as --parameters 8.03B",
        )
    return used


def count(model: Model, parameters: int | None = None, encoder_tokens: int | None = None) -> Flops:
    """The FLOPs of a model, with `parameters` instead of those that its facts state."""
    used = used_parameters(model) if parameters is None else parameters
    decode: Counter[Seen] = Counter()
    prefill: Counter[Seen] = Counter()
    for layer, copies in model.distinct_layers.items():
        index = index_of(model, layer)
        for cache in layer:
            for sums, one_token in ((decode, True), (prefill, False)):
                for each, seen in _terms(cache, index, encoder_tokens, one_token=one_token):
                    sums[seen] += copies * each
    return Flops(used, _terms_of(decode), _terms_of(prefill), dense=_has_index(model) and index_of(model) is None)


def _terms_of(sums: Counter[Seen]) -> tuple[Term, ...]:
    return tuple(Term(each, seen) for seen, each in sums.items() if each)


class Index(NamedTuple):
    """How sparse attention chooses: `heads` score every token or entry, and the `most` best are looked at."""

    heads: int
    most: int


def index_of(model: Model, layer: Layer | None = None) -> Index | None:
    """The index by which a layer chooses what it looks at; None where it looks at everything, or the facts lack it.

    A latent without an index of its own takes the choice of an earlier layer (GLM-5.2's `indexer_types`: shared).
    """
    if model.index_heads is None or model.index_topk is None:
        return None
    chooses = layer is None or any(isinstance(c, Indexer) or (isinstance(c, Compressed) and c.indexer) for c in layer)
    attained = any(isinstance(c, Latent) for c in layer or ()) and _has_index(model)
    return Index(model.index_heads, model.index_topk) if chooses or attained else None


def _has_index(model: Model) -> bool:
    return any(isinstance(c, Indexer) or (isinstance(c, Compressed) and c.indexer) for c in model.distinct_caches)


def _terms(
    cache: Cache, index: Index | None, encoder_tokens: int | None, *, one_token: bool
) -> Iterator[tuple[int, Seen]]:
    """What one layer's cache costs a query: FLOPs for each entry, and how many of them."""
    yield _each(cache, index, one_token=one_token), seen(cache, index, encoder_tokens)
    if index is not None and isinstance(cache, Compressed) and cache.indexer:  # every entry is scored
        yield 2 * index.heads * cache.indexer, Seen("entries", cache.ratio)


def _each(cache: Cache, index: Index | None, *, one_token: bool) -> int:
    """FLOPs of a query for one entry: a product with its key, and its value added with a weight."""
    match cache:
        case Attention():
            return 2 * cache.heads * sum(head_dims(cache)) if cache.kv_heads else 0
        # A prompt expands each latent once, which is among the parameters, and then has the narrower heads. One token
        # would have to expand every latent in the cache: that is moved into the query and the output instead, and
        # heads look at latents as they are ("absorbed", DeepSeek-V2 2024, arXiv 2405.04434, section 2.1.2; vLLM's
        # mla_attention.py has both, as forward_mha and forward_mqa). So do sparse prompts, in which each token looks at
        # latents of its own choice (DeepSeek-V3.2 2025, section 2.1).
        case Latent(rank=rank, rope=rope):
            absorbed = one_token or index is not None
            return 2 * cache.heads * (rank + rope + rank if absorbed else sum(head_dims(cache)))
        case Compressed():  # one vector is key and value
            return 2 * cache.heads * sum(head_dims(cache))
        case Indexer():
            return 2 * index.heads * cache.dim if index is not None else 0
        case Recurrent():
            return _state(cache)
        # Another layer's keys and values are attended to like one's own; its choice is taken as it is.
        case Shared(of=of):
            return 0 if isinstance(of, Indexer) else _each(of, index, one_token=one_token)
        case _:
            assert_never(cache)


def seen(cache: Cache, index: Index | None, encoder_tokens: int | None) -> Seen:
    """What of a cache a query looks at, by an `index` if its layer has one."""
    most = 0 if index is None else index.most
    match cache:
        case Attention():
            return _seen(cache, most, encoder_tokens)
        case Latent():
            return Seen("tokens", most=most)
        case Indexer():  # every key is scored
            return Seen("tokens")
        case Compressed():
            return Seen("entries", cache.ratio, most if cache.indexer else 0)
        case Recurrent():
            return Seen("fixed", 1)
        case Shared(of=of):
            return seen(of, index, encoder_tokens)
        case _:
            assert_never(cache)


def _seen(cache: Attention, most: int, encoder_tokens: int | None) -> Seen:
    match cache.pattern:
        case "full":
            return Seen("tokens", most=most)
        case "sliding":
            return Seen("tokens", most=cache.span or 0)
        # The cache holds up to a chunk; a query sees what there has been of its own (Llama 4's chunked attention).
        case "chunked":
            return Seen("chunk", cache.span or 1)
        case "cross":
            return Seen("fixed", attention_tokens(cache, 1, encoder_tokens))
        case _:
            assert_never(cache.pattern)


# FLOPs a token for each element of the state: the element decays (1), a product is formed and added (2), and the
# state is read out (2). Delta rules first read what is stored and take it off, 2 more (arXiv 2412.06464); mamba1 forms
# the decay of each element from its own A as well (arXiv 2312.00752). RG-LRU gates an input and adds it with a factor
# (arXiv 2402.19427); RWKV-4 keeps numerator, denominator and maximum of a running average (arXiv 2305.13048). So the
# recurrence counts token by token; kernels that take a prompt in chunks compute somewhat more. All of it is small
# beside the parameters.
_PER_ELEMENT: dict[RecurrentKind, int] = {
    "mamba1": 7, "mamba2": 5, "deltanet": 7, "kda": 7, "shortconv": 0, "lightning": 5, "rglru": 5, "rwkv": 5,
    "rwkv4": 5,
}  # fmt: skip


def _state(cache: Recurrent) -> int:
    """FLOPs of one token in a recurrent layer, whatever came before: convolution and state."""
    state = recurrent_state(cache)
    convolution = 2 * cache.conv * state.conv_width if state.columns and cache.conv > 1 else 0
    return convolution + _PER_ELEMENT[cache.kind] * state.state
