"""What a model computes for a token and for a prompt, by kind of cache: counted exactly, in closed form.

Every parameter that a token uses is one multiply-add, 2 FLOPs, whether it lies in a matrix, an embedding or a norm: the
convention of Kaplan et al. 2020 (arXiv 2001.08361). Attention is counted in full: a query at position t looks at itself
and the t - 1 tokens before it. What softmax, norms and rotations cost is left out, which is below a percent.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple, assert_never

from kvcalc.errors import KvcalcError
from kvcalc.formula import attention_tokens, head_dims, recurrent_state
from kvcalc.model import Attention, Cache, Compressed, Indexer, Latent, Model, Recurrent, RecurrentKind, Shared

__all__ = ["Flops", "Seen", "Term", "count", "used_parameters"]


class Seen(NamedTuple):
    """How many entries a query at position t looks at, and the sums of that, without counting token by token.

    `window`: the last `size` tokens (all of them where it is 0). `chunk`: those since its chunk of `size` began.
    `entries`: one for every `size` tokens that are complete. `fixed`: `size` whatever the position.
    """

    kind: Literal["window", "chunk", "entries", "fixed"]
    size: int = 0

    def at(self, t: int) -> int:
        """What one query at position t, counted from 1, looks at."""
        match self.kind:
            case "window":
                return min(t, self.size) if self.size else t
            case "chunk":
                return (t - 1) % self.size + 1
            case "entries":
                return t // self.size
            case "fixed":
                return self.size
            case _:
                assert_never(self.kind)

    def prefix(self, n: int) -> int:
        """What the queries of a prefix of n tokens look at together: the sum of `at` over 1 to n."""
        size = self.size
        match self.kind:
            case "window":
                full = max(n - size, 0) if size else 0
                return _triangle(n - full) + full * size
            case "chunk":
                return n // size * _triangle(size) + _triangle(n % size)
            case "entries":  # positions 0 to n: each whole run of `size` sees one entry more than the run before
                runs, rest = divmod(n + 1, size)
                return size * _triangle(runs - 1) + rest * runs
            case "fixed":
                return n * size
            case _:
                assert_never(self.kind)

    def prefixes(self, n: int) -> int:
        """What is looked at if every prefix up to n tokens is computed anew: the sum of `prefix` over 1 to n."""
        size = self.size
        match self.kind:
            case "window":
                full = max(n - size, 0) if size else 0
                return _tetrahedron(n - full) + full * _triangle(size) + size * _triangle(full)
            case "chunk":
                runs, rest = divmod(n + 1, size)  # prefixes 0 to n, by the number of whole chunks in them
                whole = size * _triangle(runs - 1) + rest * runs
                return whole * _triangle(size) + runs * _tetrahedron(size - 1) + _tetrahedron(rest - 1)
            case "entries":  # the same once more
                runs, rest = divmod(n + 2, size)
                inner = size * size * _tetrahedron(runs - 2) + _triangle(size - 1) * _triangle(runs - 1)
                return inner + rest * size * _triangle(runs - 1) + runs * _triangle(rest - 1)
            case "fixed":
                return size * _triangle(n)
            case _:
                assert_never(self.kind)


def _triangle(n: int) -> int:
    """1 + 2 + ... + n."""
    return n * (n + 1) // 2 if n > 0 else 0


def _tetrahedron(n: int) -> int:
    """The sum of the first n triangles."""
    return n * (n + 1) * (n + 2) // 6 if n > 0 else 0


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
        last = prompt + output - 1
        seen = sum(term.each * (term.seen.prefix(last) - term.seen.prefix(prompt)) for term in self.decode)
        return self.prompt(prompt) + self.linear * (output - 1) + seen

    def without_cache(self, prompt: int, output: int) -> int:
        """FLOPs of the same if every new token computes its whole prefix again."""
        last, before = prompt + output - 1, prompt - 1
        seen = sum(term.each * (term.seen.prefixes(last) - term.seen.prefixes(before)) for term in self.prefill)
        return self.linear * (_triangle(last) - _triangle(before)) + seen


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
    decode: Counter[Term] = Counter()
    prefill: Counter[Term] = Counter()
    for cache, copies in model.distinct_caches.items():
        for term in _terms(cache, encoder_tokens, one_token=True):
            decode[term] += copies
        for term in _terms(cache, encoder_tokens, one_token=False):
            prefill[term] += copies
    dense = any(isinstance(c, Indexer) or (isinstance(c, Compressed) and c.indexer) for c in model.distinct_caches)
    return Flops(used, _times(decode), _times(prefill), dense)


def _times(terms: Counter[Term]) -> tuple[Term, ...]:
    """One term for each reach: what layers of equal reach cost adds up."""
    sums: Counter[Seen] = Counter()
    for term, copies in terms.items():
        sums[term.seen] += copies * term.each
    return tuple(Term(each, seen) for seen, each in sums.items() if each)


def _terms(cache: Cache, encoder_tokens: int | None, *, one_token: bool) -> Iterator[Term]:
    """What one layer's cache costs a query: a product with each key, and each value added with its weight."""
    match cache:
        case Attention():
            if cache.kv_heads:
                yield Term(2 * cache.heads * sum(head_dims(cache)), _seen(cache, encoder_tokens))
        # One token looks at the latents as they are: what would expand every cached latent is moved into the query and
        # the output ("absorbed", DeepSeek-V2 2024, arXiv 2405.04434, section 2.1.2), which for one token costs what the
        # parameters already count. A prompt expands each latent once, also among the parameters, and then has narrower
        # heads. vLLM does just this: `forward_mqa` and `forward_mha` in vllm/v1/attention/backends/mla.
        case Latent(rank=rank, rope=rope) if one_token:
            yield Term(2 * cache.heads * (rank + rope + rank), Seen("window"))
        case Latent():
            yield Term(2 * cache.heads * sum(head_dims(cache)), Seen("window"))
        # A vector that is key and value in one, for every `ratio` tokens (DeepSeek V4).
        case Compressed():
            yield Term(2 * cache.heads * sum(head_dims(cache)), Seen("entries", cache.ratio))
        # The facts have neither the index's heads nor how many tokens it chooses: `Flops.dense` says so.
        case Indexer():
            return
        case Recurrent():
            yield Term(_state(cache), Seen("fixed", 1))
        # Another layer's keys and values are read, and attended to like one's own; only its index is taken as it is.
        case Shared(of=of):
            yield from _terms(of, encoder_tokens, one_token=one_token)
        case _:
            assert_never(cache)


def _seen(cache: Attention, encoder_tokens: int | None) -> Seen:
    match cache.reach:
        case "full":
            return Seen("window")
        case "sliding":
            assert cache.span is not None
            return Seen("window", cache.span)
        # The cache holds at most a chunk; a query sees what of its own chunk has been (Llama 4's chunked attention).
        case "chunked":
            assert cache.span is not None
            return Seen("chunk", cache.span)
        case "cross":
            return Seen("fixed", attention_tokens(cache, 1, encoder_tokens))
        case _:
            assert_never(cache.reach)


# FLOPs a token for each element of the state: the element decays (1), a product is formed and added (2), and the
# state is read out (2). Delta rules first read what is stored and take it off, 2 more and the product counted there
# (arXiv 2412.06464, equation 10); mamba1 forms the decay of each element from its own A as well (arXiv 2312.00752,
# algorithm 2). RG-LRU gates an input and adds it with a factor (arXiv 2402.19427, equation 4); RWKV-4 keeps numerator,
# denominator and maximum of a running average (arXiv 2305.13048, appendix D). This is how the recurrence reads token by
# token; kernels that work through a prompt in chunks compute somewhat more. All of it is small beside the parameters.
_PER_ELEMENT: dict[RecurrentKind, int] = {
    "mamba1": 7, "mamba2": 5, "deltanet": 7, "kda": 7, "shortconv": 0, "lightning": 5, "rglru": 5, "rwkv": 5,
    "rwkv4": 5,
}  # fmt: skip


def _state(cache: Recurrent) -> int:
    """FLOPs of one token in a recurrent layer, whatever came before: convolution and state."""
    state = recurrent_state(cache)
    convolution = 2 * cache.conv * state.conv_width if state.columns and cache.conv > 1 else 0
    return convolution + _PER_ELEMENT[cache.kind] * state.state
