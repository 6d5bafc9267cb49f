"""What the weights take."""

import pytest

from kvcalc.core.dtypes import WEIGHTS
from kvcalc.core.model import Model
from kvcalc.core.weights import Weights, parse, weigh
from kvcalc.errors import KvcalcError
from kvcalc.library import loader


def model(facts: str) -> Model:
    """A small model with some facts of its weights."""
    text = f"{{name: M, dtype: bf16, heads: 8, kv_heads: 2, head_dim: 64, layers: 2 full{facts}}}"
    return loader.load_text(text.encode(), "m.yaml")


@pytest.mark.parametrize(
    ("facts", "weights", "size"),
    [
        (", parameters: 1000", "auto", 2_000),  # stored as it computes
        (", parameters: 1000, weights_dtype: fp8", "auto", 1_000),  # the checkpoint's storage dtype
        (", parameters: 1000, weights_dtype: mxfp4", "auto", 544),  # 32 blocks of 17 B
        (", parameters: 1000, weights_bytes: 777", "auto", 777),  # measured
        (", weights_bytes: 777", "auto", 777),
        (", parameters: 1000", "none", 0),
        ("", "none", 0),
        (", parameters: 1000, weights_bytes: 777", 123, 123),  # a size of the whole model, as given
        ("", 123, 123),
        (", parameters: 1000, weights_bytes: 777", WEIGHTS["int4"], 500),  # a format: counted from parameters
        (", parameters: 1001", WEIGHTS["int4"], 501),
        (", parameters: 1000", WEIGHTS["q4_k"], 576),  # 4 blocks of 144 B
        (", parameters: 1000", WEIGHTS["nvfp4"], 567),  # 63 blocks of 9 B
    ],
)
def test_weights_bytes(facts: str, weights: Weights, size: int) -> None:
    """Measured bytes where the preset has them, else parameters x the checkpoint's dtype; or what was asked."""
    assert weigh(model(facts), weights).bytes == size


@pytest.mark.parametrize(
    ("text", "weights"),
    [("auto", "auto"), (" Auto ", "auto"), ("NONE", "none"), ("141GB", 141 * 10**9), ("1.5GiB", 3 * 2**29), ("0", 0),
     ("INT4", WEIGHTS["int4"]), ("Q4_K", WEIGHTS["q4_k"])],
)  # fmt: skip
def test_words_for_the_weights(text: str, weights: Weights) -> None:
    """The same words are read in any case, by the command line and from Python."""
    assert parse(text, "--weights") == weights


@pytest.mark.parametrize("weights", ["auto", WEIGHTS["fp8"]])
def test_unknown_parameters_are_asked_for(weights: Weights) -> None:
    """Without a number of parameters the weights cannot be sized."""
    with pytest.raises(KvcalcError) as caught:
        weigh(model(""), weights)
    assert str(caught.value) == "--weights: the number of parameters of M is not known"
    assert caught.value.hint == "give the size of its weights, such as --weights 141GB, or --weights none"


@pytest.mark.parametrize(
    ("preset", "size"),
    [
        ("llama3-70b", 141_100_000_000),  # 70.55B x 2 B
        ("gpt-oss-20b", 11_103_125_000),  # 20.9B x 4.25 bits
    ],
)
def test_weights_of_shipped_models(preset: str, size: int) -> None:
    """A shipped preset's weights are its parameters in the dtype in which the checkpoint is stored."""
    assert weigh(loader.load(preset), "auto").bytes == size
