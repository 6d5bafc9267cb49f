"""FLOPs for every model: closed sums against counting, and what a cache can never make worse."""

from dataclasses import replace
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.model import Attention, Compressed, Latent, Layer, Model, Shared
from kvcalc.perf.entries import Seen
from kvcalc.perf.flops import Flops, count
from tests.property.conftest import attentions, compressed, indexers, latents, models, recurrents

SHORT = st.integers(1, 40)
MOST = st.integers(0, 9)


def visible(kind: str, size: int, most: int, t: int) -> int:
    """What a query at position t sees, by looking at each position or entry before it."""
    match kind:
        case "tokens":
            found = [s for s in range(1, t + 1) if not most or t - s < most]
        case "chunk":
            found = [s for s in range(1, t + 1) if (s - 1) // size == (t - 1) // size]
        case "entries":
            found = [end for end in range(1, t + 1) if end % size == 0]
        case _:
            found = list(range(size))
    return min(len(found), most) if most else len(found)


@given(st.sampled_from(["tokens", "chunk", "entries", "fixed"]), st.integers(1, 9), MOST, SHORT)
def test_sums_of_what_is_seen(
    kind: Literal["tokens", "chunk", "entries", "fixed"], size: int, most: int, n: int
) -> None:
    """Closed sums over a prefix, and over all prefixes, are what counting gives."""
    if kind in ("chunk", "fixed"):
        most = 0
    seen = Seen(kind, size, most)
    counted = [visible(kind, size, most, t) for t in range(1, n + 1)]
    assert [seen.at(t) for t in range(1, n + 1)] == counted
    assert seen.prefix(n) == sum(counted)
    assert seen.prefixes(n) == sum(sum(counted[:m]) for m in range(1, n + 1))


@st.composite
def small_layers(draw: st.DrawFn) -> Layer:
    """Layers whose windows are full within a few tokens."""
    caches = []
    for cache in draw(st.lists(attentions() | latents() | indexers() | compressed() | recurrents(), max_size=2)):
        if isinstance(cache, Attention) and cache.span is not None:
            small = cache._replace(span=draw(st.integers(1, 12)))
        elif isinstance(cache, Compressed):
            small = cache._replace(ratio=draw(st.integers(1, 5)))
        else:
            small = cache
        caches.append(draw(st.sampled_from([small, Shared(small)])))
    return tuple(caches)


MODELS = models(small_layers)


def counted(model: Model) -> Flops:
    return count(model, encoder_tokens=7)


@given(MODELS, SHORT, SHORT)
def test_generations_token_by_token(model: Model, prompt: int, output: int) -> None:
    """A generation is its prompt's pass and each further token; without a cache, a pass for each token."""
    found = counted(model)
    later = range(prompt + 1, prompt + output)
    assert found.with_cache(prompt, output) == found.prompt(prompt) + sum(map(found.token, later))
    assert found.without_cache(prompt, output) == sum(map(found.prompt, range(prompt, prompt + output)))


@given(MODELS, SHORT)
def test_a_prompt_is_its_tokens(model: Model, tokens: int) -> None:
    """Without latents a pass over a prompt costs what its tokens cost one by one."""
    if not any(isinstance(c, Latent) or (isinstance(c, Shared) and isinstance(c.of, Latent)) for c in model.caches()):
        found = counted(model)
        assert found.prompt(tokens) == sum(found.token(t) for t in range(1, tokens + 1))


@given(MODELS, SHORT)
def test_layers_add_up(model: Model, t: int) -> None:
    """A model costs its parameters, and each of its layers apart."""
    layers = [
        count(Model(name="L", layers=(layer,), dtype=model.dtype, parameters=1), encoder_tokens=7).token(t) - 2
        for layer in model.layers
    ]
    assert counted(model).token(t) == 2 * (model.parameters or 0) + sum(layers)


@given(MODELS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_cache_never_computes_more(model: Model, prompt: int, output: int) -> None:
    """The ratio is at least one, and at most the number of new tokens, for models without latents."""
    found = counted(model)
    once, again = found.with_cache(prompt, output), found.without_cache(prompt, output)
    if not any(isinstance(c, Latent) or (isinstance(c, Shared) and isinstance(c.of, Latent)) for c in model.caches()):
        assert once <= again <= once * output


@given(MODELS, st.integers(1, 5_000), st.integers(1, 40))
def test_fewer_chosen_tokens_never_cost_more(model: Model, tokens: int, most: int) -> None:
    """Looking at fewer tokens never costs more than looking at more of them."""
    few, many = (count(replace(model, index_heads=2, index_topk=n), encoder_tokens=7) for n in (most, most + 5))
    assert few.token(tokens) <= many.token(tokens)
