"""Defaults, and questions that contradict the model."""

from typing import Any

import pytest

from kvcalc.core import request
from kvcalc.core.dtypes import FP32, KV
from kvcalc.core.model import Attention, Model, Shared
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader


def model(**facts: object) -> Model:
    """A model of two layers with some facts changed."""
    text = {"name": "M", "dtype": "bf16", "heads": 8, "kv_heads": 2, "head_dim": 64, "layers": "2 full"} | facts
    lines = [f"{key}: {value}" for key, value in text.items()]
    return loader.load_text("\n".join(lines).encode(), "m.yaml")


MLA = {"k_dim": 96, "v_dim": 64, "layers": "2 latent", "caches": "{latent: {rank: 64, rope: 32}}"}


@pytest.mark.parametrize(
    ("facts", "context"),
    [({}, 4_096), ({"max_context": 8_192}, 4_096), ({"max_context": 448}, 448), ({"context": 512}, 512),
     ({"context": 8_192, "max_context": 1_024}, 1_024)],
)  # fmt: skip
def test_default_context(facts: dict[str, object], context: int) -> None:
    """4,096 tokens or the model's limit if smaller; a preset may have a length of its own."""
    assert ask(model(**facts)).context == context


def test_max_is_the_limit() -> None:
    """`max` is the model's limit."""
    assert ask(model(max_context=131_072), context="max").context == 131_072


def test_max_without_a_limit_is_refused() -> None:
    """`max` cannot be answered where no limit is published."""
    with pytest.raises(KvcalcError, match=r"^--context: max: no limit is published for M$"):
        ask(model(), context="max")


def test_above_the_limit_is_answered() -> None:
    """A context above the limit is answered, never refused: 2 x 2 x 2 x 64 x 2 B for each of 1,000 tokens."""
    assert measure(ask(model(max_context=512), context=1_000)).bytes_total == 1_024_000


@pytest.mark.parametrize(
    ("facts", "options", "k", "v"),
    [
        ({}, {}, "bf16", "bf16"),
        ({"dtype": "fp32"}, {}, "fp32", "fp32"),
        ({"weights_dtype": "fp8"}, {}, "bf16", "bf16"),  # never the checkpoint's storage dtype
        ({"kv_dtype": "fp8"}, {}, "fp8", "fp8"),  # a declared quantisation counts
        ({"kv_dtype": "fp8"}, {"kv_dtype": "bf16"}, "bf16", "bf16"),
        ({}, {"kv_dtype": "AUTO"}, "bf16", "bf16"),
        ({}, {"kv_dtype": "fp8"}, "fp8", "fp8"),
        ({}, {"kv_dtype": "fp8", "v_dtype": "int4"}, "fp8", "int4"),
        ({}, {"k_dtype": "q8_0"}, "q8_0", "bf16"),
        ({}, {"kv_dtype": "fp8", "k_dtype": "auto"}, "bf16", "fp8"),
    ],
)
def test_widths(facts: dict[str, object], options: dict[str, Any], k: str, v: str) -> None:
    """`auto` is what the checkpoint declares for its cache, else the dtype the model computes in."""
    widths = ask(model(**facts), **options).widths
    assert (widths.k.name, widths.v.name) == (k, v)


@pytest.mark.parametrize(("facts", "state"), [({}, FP32), ({"state_dtype": "bf16"}, KV["bf16"])])
def test_state_keeps_its_dtype(facts: dict[str, object], state: object) -> None:
    """Columns take the model's dtype, a state what is stated, else float32, whatever the KV dtype."""
    widths = ask(model(**facts), kv_dtype="int8").widths
    assert (widths.conv, widths.state) == (KV["bf16"], state)


def test_one_vector_has_one_dtype() -> None:
    """Under a latent, one vector is key and value: two formats are refused."""
    with pytest.raises(
        KvcalcError, match=r"^--k-dtype: one vector serves as key and value in M, so fp8 and bf16 cannot"
    ):
        ask(model(**MLA), k_dtype="fp8")


@pytest.mark.parametrize(
    ("option", "what"),
    [("context", "--context"), ("batch", "--batch"), ("tp", "--tp"), ("pp", "--pp"), ("dp", "--dp"), ("dcp", "--dcp"),
     ("encoder_tokens", "--encoder-tokens")],
)  # fmt: skip
def test_numbers_start_at_one(option: str, what: str) -> None:
    """Zero of anything is refused under the option's name."""
    options: dict[str, Any] = {option: 0}
    with pytest.raises(KvcalcError, match=rf"^{what}: expected a whole number above zero( or max)?, got 0$"):
        ask(model(), **options)


CROSS = {"layers": "2 full+cross", "caches": "{cross: {tokens: input}}"}
FIXED_CROSS = {"layers": "2 full+cross", "caches": "{cross: {tokens: 1500}}"}


@pytest.mark.parametrize(
    ("facts", "asked", "tokens"),
    [(CROSS | {"encoder_tokens": 512}, None, 512), (CROSS | {"encoder_tokens": 512}, 100, 100), (CROSS, 7, 7),
     (FIXED_CROSS, None, 1_500), (FIXED_CROSS, 300, 300), ({}, None, None)],
)  # fmt: skip
def test_encoder_tokens(facts: dict[str, object], asked: int | None, tokens: int | None) -> None:
    """The request's length, else the preset's; none for a model without cross-attention."""
    assert ask(model(**facts), encoder_tokens=asked).encoder_tokens == tokens


@pytest.mark.parametrize(
    ("preset", "tokens"),
    [("whisper-large-v3", 1_500), ("flan-t5-xl", 512), ("bart-large-cnn", 1_024), ("llama3.2-11b-vision", 4 * 1_601)],
)
def test_encoder_tokens_of_shipped_models(preset: str, tokens: int) -> None:
    """Whisper has 1,500 frames, T5 512 tokens, BART 1,024, Llama 3.2 Vision one image of 4 x 1,601."""
    assert ask(loader.load(preset)).encoder_tokens == tokens


def test_encoder_tokens_without_a_default_are_asked_for() -> None:
    """Where neither request nor preset has a length, the question cannot be answered."""
    with pytest.raises(KvcalcError, match=r"^--encoder-tokens: the cross-attention cache of M depends on it"):
        ask(model(**CROSS))


def test_encoder_tokens_without_cross_attention_are_refused() -> None:
    """A length on an encoder's side means nothing for a decoder."""
    with pytest.raises(KvcalcError, match=r"^--encoder-tokens: M has no cross-attention$"):
        ask(model(), encoder_tokens=100)


@pytest.mark.parametrize(("kv_heads", "slope"), [(None, 1_024), (1, 512), (4, 2_048), ("all", 4_096)])
def test_kv_heads(kv_heads: Any, slope: int) -> None:
    """Another number of cached heads in every layer: 2 layers x 2 x N x 64 x 2 B."""
    assert measure(ask(model(), kv_heads=kv_heads)).bytes_per_token == slope


@pytest.mark.parametrize("kv_heads", [0, -1, 9])
def test_kv_heads_out_of_range_are_refused(kv_heads: int) -> None:
    """Between one and all heads can be cached."""
    with pytest.raises(KvcalcError, match=rf"^--kv-heads: expected 1 to 8 or all, got {kv_heads}$"):
        ask(model(), kv_heads=kv_heads)


def test_kv_heads_reach_shared_layers_but_not_pruned_ones() -> None:
    """A layer that reuses a cache follows it; a layer whose heads are gone stays so."""
    facts = {"layers": "full, shared:full, noop", "caches": "{noop: {kind: full, kv_heads: 0}}"}
    changed = ask(model(**facts), kv_heads=4).model
    full = Attention("full", 8, 4, 64, 64)
    assert changed.layers == ((full,), (Shared(full),), (Attention("full", 8, 0, 64, 64),))


@pytest.mark.parametrize("kv_heads", [4, "all"])
def test_kv_heads_of_a_latent_model_are_refused(kv_heads: Any) -> None:
    """One vector serves all heads: no number of KV heads changes it."""
    with pytest.raises(KvcalcError, match=r"^--kv-heads: M caches one vector for all heads"):
        ask(model(**MLA), kv_heads=kv_heads)


def test_kv_heads_without_attention_are_refused() -> None:
    """A recurrent model has no heads to cache."""
    mamba = model(layers="2 mamba1", caches="{mamba1: {inner: 64, state: 16, conv: 4}}")
    with pytest.raises(KvcalcError, match=r"^--kv-heads: M has no attention heads to cache$"):
        ask(mamba, kv_heads=4)


@pytest.mark.parametrize(("batch", "dp", "local"), [(1, 1, 1), (7, 2, 4), (8, 2, 4), (1, 8, 1)])
def test_sequences_per_replica(batch: int, dp: int, local: int) -> None:
    """The fullest replica holds its share rounded up."""
    assert request.ask(model(), batch=batch, dp=dp).sequences_per_replica == local


def test_a_model_that_caches_nothing_is_refused() -> None:
    """There is nothing to size where every head is pruned."""
    with pytest.raises(KvcalcError, match=r"^M caches nothing: there is nothing to size$"):
        measure(ask(model(kv_heads=0)))
