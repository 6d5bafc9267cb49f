"""Eight models written as a preset's author would write them, and numbers checked against engines' records.

The totals, slopes and fixed parts were computed by an independent prototype that agreed with 344 recorded runs of
llama.cpp and 129 of transformers; the arithmetic stands beside each.
"""

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pytest

from kvcalc.core import formula, request, sharding
from kvcalc.core.formula import recurrent_state
from kvcalc.core.model import Model, Recurrent
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import Size, measure
from kvcalc.library import loader

LLAMA_3_70B = """
name: Llama 3 70B
model_type: llama
dtype: bf16
parameters: 70.55B
max_context: 8192
context: 4096
heads: 64
kv_heads: 8
head_dim: 128
layers: 80 full
"""

GEMMA_4_31B = """
name: Gemma 4 31B
model_type: gemma4_text
dtype: bf16
max_context: 262144
heads: 32
layers: 10 x (5 sliding, full)
caches:
  sliding: {window: 1024, kv_heads: 16, head_dim: 256}
  full: {kv_heads: 4, head_dim: 512}
"""

GEMMA_3N_E4B = """
name: Gemma 3n E4B
model_type: gemma3n_text
dtype: bf16
max_context: 32768
heads: 8
kv_heads: 2
head_dim: 256
layers: 4 x (4 sliding, full), 3 x (4 shared:sliding, shared:full)
caches:
  sliding: {window: 512}
"""

DEEPSEEK_V3_2 = """
name: DeepSeek V3.2
model_type: deepseek_v32
dtype: bf16
max_context: 163840
heads: 128
k_dim: 192
v_dim: 128
layers: 61 latent+indexer
draft: 1 latent+indexer
caches:
  latent: {rank: 512, rope: 64}
  indexer: {dim: 128, store: fp8+scale}
"""

NEMOTRON_H_8B = """
name: Nemotron-H 8B
model_type: nemotron_h
dtype: bf16
max_context: 8192
heads: 32
kv_heads: 8
head_dim: 128
layers:
  pattern: M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-
  letters: {M: mamba2, "*": full, "-": none}
caches:
  mamba2: {heads: 128, head_dim: 64, groups: 8, state: 128, conv: 4}
"""

QWEN_3_5_27B = """
name: Qwen3.5 27B
model_type: qwen3_5_text
dtype: bf16
state_dtype: fp32
max_context: 262144
heads: 24
kv_heads: 4
head_dim: 256
layers: 16 x (3 deltanet, full)
draft: 1 full
caches:
  deltanet: {k_heads: 16, k_dim: 128, v_heads: 48, v_dim: 128, conv: 4}
"""

WHISPER_LARGE_V3 = """
name: Whisper large v3
model_type: whisper
dtype: fp16
max_context: 448
heads: 20
kv_heads: 20
head_dim: 64
layers: 32 full+cross
caches:
  cross: {tokens: 1500}
"""

DEEPSEEK_V4_FLASH = """
name: DeepSeek V4 Flash
model_type: deepseek_v4
dtype: bf16
max_context: 1048576
heads: 64
layers: 2 window, 20 x (window+csa, window+hca), window+csa
draft: 1 window
caches:
  window: {kind: sliding, window: 128, kv_heads: 1, k_dim: 512, v_dim: 0, rope: 64}
  csa: {kind: compressed, ratio: 4, dim: 512, rope: 64, overlap: true, indexer: 128}
  hca: {kind: compressed, ratio: 128, dim: 512, rope: 64}
"""


class Example(NamedTuple):
    """A preset's text, and its sizes at a context."""

    text: str
    context: int
    slope: int
    fixed: int
    total: int


EXAMPLES = (
    # 80 x 2 x 8 x 128 x 2 B
    Example(LLAMA_3_70B, 8_192, 327_680, 0, 2_684_354_560),
    # full: 10 x 2 x 4 x 512 x 2 B; windows: 50 x 2 x 16 x 256 x 2 B x 1,024 tokens
    Example(GEMMA_4_31B, 8_192, 81_920, 838_860_800, 1_509_949_440),
    # 20 of 35 layers cache; full: 4 x 2 x 2 x 256 x 2 B; windows: 16 x 2,048 B x 512 tokens
    Example(GEMMA_3N_E4B, 8_192, 8_192, 16_777_216, 83_886_080),
    # 61 x ((512 + 64) x 2 + 128 + 4) B
    Example(DEEPSEEK_V3_2, 8_192, 78_324, 0, 641_630_208),
    # 4 x 4,096 B; 24 x (10,240 x 3 x 2 + 1,048,576 x 4) B
    Example(NEMOTRON_H_8B, 8_192, 16_384, 102_137_856, 236_355_584),
    # 16 x 4,096 B; 48 x ((2 x 2,048 + 6,144) x 3 x 2 + 48 x 128 x 128 x 4) B
    Example(QWEN_3_5_27B, 8_192, 65_536, 153_944_064, 690_814_976),
    # 32 x 5,120 B for each of 448 tokens and of 1,500 frames
    Example(WHISPER_LARGE_V3, 448, 163_840, 245_760_000, 319_160_320),
    # 21 x (512 + 128) x 2 B / 4 + 20 x 512 x 2 B / 128; 43 windows of 128 x 512 x 2 B
    Example(DEEPSEEK_V4_FLASH, 8_192, 6_880, 5_636_096, 61_997_056),
)


def load(text: str) -> Model:
    return loader.load_text(text.encode(), "example")


def at(text: str, context: int) -> Size:
    return measure(request.ask(load(text), context=context))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text.split("\n")[1].removeprefix("name: "))
def test_examples(example: Example) -> None:
    """A preset written by hand has the slope, fixed part and total that were checked against engines."""
    actual = at(example.text, example.context)
    assert (actual.bytes_per_token, actual.fixed_bytes_per_sequence, actual.bytes_per_sequence) == example[2:]


def test_gemma_3n_shares_fifteen_layers() -> None:
    """Of Gemma 3n's 35 layers 20 cache; the other 15 reuse what is there."""
    actual = at(GEMMA_3N_E4B, 8_192)
    assert len(actual.request.model.layers) == 35
    assert sum(group.copies for group in actual.groups if group.bytes_per_sequence) == 20


def test_v4_flash_at_an_odd_length() -> None:
    """V4 Flash at 5,002 tokens: full windows, 1,250 entries of 1,280 B in 21 layers and 39 of 1,024 B in 20."""
    assert 43 * 131_072 + 21 * 1_250 * 1_280 + 20 * 39 * 1_024 == 40_034_816
    assert at(DEEPSEEK_V4_FLASH, 5_002).bytes_per_sequence == 40_034_816


def test_v4_flash_adds_nothing_for_single_tokens() -> None:
    """After 8,192 tokens the next four add 0, 0, 0 and 26,880 B: 21 layers write an entry of 1,280 B every fourth."""
    totals = [at(DEEPSEEK_V4_FLASH, 8_192 + i).bytes_per_sequence for i in range(5)]
    assert [after - before for before, after in pairwise(totals)] == [0, 0, 0, 26_880]


def test_v4_flash_slope_while_the_windows_fill() -> None:
    """Below 128 tokens V4 Flash's slope has the windows too: 6,880 + 43 x 1,024 B."""
    assert at(DEEPSEEK_V4_FLASH, 100).bytes_per_token == 50_912


@pytest.mark.parametrize(
    ("preset", "slope", "fixed"),
    [
        # elements: 21 x 640 / 4 + 20 x 512 / 128 a token; 43 windows of 128 x 512
        ("deepseek-v4-flash", 2 * 3_440, 2 * 2_818_048),
        # 30 x 640 / 4 + 31 x 512 / 128; 61 windows of 128 x 512
        ("deepseek-v4-pro", 2 * 4_924, 2 * 3_997_696),
    ],
)
def test_v4_slopes(preset: str, slope: int, fixed: int) -> None:
    """A compressed cache has a slope, and V4's windows are its fixed part (two bytes an element)."""
    actual = measure(request.ask(loader.load(preset), context=8_192))
    assert (actual.bytes_per_token, actual.fixed_bytes_per_sequence) == (slope, fixed)


def test_gpt_oss_20b_at_5000_tokens() -> None:
    """gpt-oss-20b keeps 12 x 5,000 and 12 x 128 tokens of 2 x 8 x 64 x 2 B."""
    actual = measure(request.ask(loader.load("gpt-oss-20b"), context=5_000))
    assert actual.bytes_per_sequence == 126_025_728


LFM2_1_2B = """
name: LFM2 1.2B
dtype: bf16
heads: 32
kv_heads: 8
head_dim: 64
layers: 10 shortconv, 6 full
caches:
  shortconv: {width: 2048, conv: 3}
"""

# Bytes of one layer's state, kernel - 1 columns in bf16 and the matrix in float32, where no dtype is stated.
STATES = {
    "qwen3-next-80b": 2_146_304,  # 8,192 x 3 x 2 + 32 x 128 x 128 x 4
    "jamba-1.5-mini": 573_440,  # 8,192 x 3 x 2 + 8,192 x 16 x 4
    "nemotron-h-8b": 4_255_744,  # 10,240 x 3 x 2 + 128 x 64 x 128 x 4
    "falcon-h1-1.5b": 3_167_232,  # 3,584 x 3 x 2 + 48 x 64 x 256 x 4
    "kimi-linear-48b": 2_170_880,  # 12,288 x 3 x 2 + 32 x 128 x 128 x 4
    LFM2_1_2B: 8_192,  # 2,048 x 2 x 2
}


@pytest.mark.parametrize(("source", "state_bytes"), STATES.items(), ids=lambda value: str(value).strip().split("\n")[0])
def test_state_bytes_of_one_layer(source: str, state_bytes: int) -> None:
    """A recurrent layer keeps kernel - 1 columns in the model's dtype, and its state in float32 if none is stated."""
    model = load(source) if "\n" in source else loader.load(source)
    actual = measure(request.ask(model))
    assert [g.bytes_per_sequence // g.copies for g in actual.groups if isinstance(g.cache, Recurrent)] == [state_bytes]


@pytest.mark.parametrize(
    ("preset", "tp", "elements"),
    [
        # 12 of 48 heads x 64, and the one group of 2 x 256 whole: 1,280 x 3; a quarter of the whole would be 2,688
        ("falcon-h1-1.5b", 4, 3_840),
        # 8 of 128 heads x 64, and one of 8 groups of 2 x 128: 768 x 3; a sixteenth of the whole would be 1,920
        ("nemotron-h-8b", 16, 2_304),
    ],
)
def test_convolution_of_a_rank(preset: str, tp: int, elements: int) -> None:
    """When tp does not divide the groups of Mamba-2, each rank holds one group whole."""
    placement = sharding.place(loader.load(preset), Layout(tp=tp))
    states = {c for placed in placement.layers for c in placed.caches if isinstance(c, Recurrent)}
    assert [recurrent_state(c).conv_width * recurrent_state(c).columns for c in states] == [elements]


@pytest.mark.parametrize(
    ("preset", "pp", "layers"),
    [("nemotron-super-49b", 2, [37, 12]), ("nemotron-super-49b", 4, [17, 20, 3, 9]), ("gemma3n-e4b", 2, [17, 3])],
)
def test_caching_layers_of_each_stage(preset: str, pp: int, layers: list[int]) -> None:
    """Stages of equal depth hold unequal caches where pruned or sharing layers lie together."""
    model = loader.load(preset)
    widths = request.ask(model).widths
    caching: Counter[int] = Counter()
    for placed in sharding.place(model, Layout(pp=pp)).layers:
        caching[placed.stage] += any(formula.size(cache, 1, widths, None) for cache in placed.caches)
    assert [caching[stage] for stage in range(pp)] == layers


def test_textbook_size_of_a_latent_model() -> None:
    """DeepSeek V3's textbook size counts 128 heads of 192 + 128 in 61 layers, 71 times its latent."""
    actual = measure(request.ask(loader.load("deepseek-v3"), context=1, kv_dtype="bf16"))
    assert actual.textbook is not None
    assert (actual.textbook.bytes_per_token, actual.bytes_per_token) == (4_997_120, 70_272)
