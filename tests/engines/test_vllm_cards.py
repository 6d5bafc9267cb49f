"""What vLLM's tables that are keyed by the card give for each generation, and flags that carry what another sets.

Sources: the wheels of 0.11.0 to 0.33.0 (`platforms/cuda.py`, `engine/arg_utils.py`, the layers of states), and logs.
"""

from dataclasses import replace
from typing import Any

import pytest

from kvcalc.cards.names import cards_called
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.question import Question
from kvcalc.launch.command import launch
from kvcalc.library import loader


def on(card: str, version: str, preset: str, flags: str = "", **options: Any) -> Reservation:
    """An answer of vLLM in a version on a card."""
    model = loader.load(preset)
    started = launch(f"vllm@{version}", flags.split() or ["--seed", "1"])
    stated = started.engine.options_of("", started.read, model)
    request = ask(model, **{**options, **stated.options})
    [(_, named)] = cards_called(card)
    question = Question(request, measure(request).placement, started.version, stated.settings, card=named)
    return reserve(started.engine, question)


# Qwen3.6 27B, whose states are fp32: 48 heads x 128 x 128 x 4 B and a convolution of 10,240 x 3 x 2 B are 3,207,168 B,
# and a token of one attention layer 2 x 4 heads x 256 x 2 B = 4,096 B: 783 tokens, in steps of 16 or of 64.
BY_16, BY_64 = 784, 832


@pytest.mark.parametrize(
    ("card", "blocks"),
    [
        # 0.28 to 0.32: no wheel keeps checkpoints of the gated delta rule; 0.33 on Hopper and Blackwell
        ("h100-sxm", (BY_16, BY_16, BY_16, BY_64)),
        ("b200-sxm", (BY_16, BY_16, BY_16, BY_64)),
        ("rtx-5090", (BY_16, BY_16, BY_16, BY_64)),
        ("rtx-pro-6000-blackwell", (BY_16, BY_16, BY_16, BY_64)),
        ("gb10-dgx-spark", (BY_16, BY_16, BY_16, BY_64)),
        ("l40s", (BY_16, BY_16, BY_16, BY_16)),
        ("rtx-3090", (BY_16, BY_16, BY_16, BY_16)),
        ("a100-80gb-sxm", (BY_16, BY_16, BY_16, BY_16)),
        ("t4", (BY_16, BY_16, BY_16, BY_16)),
        ("mi300x", (BY_16, BY_16, BY_16, BY_16)),
    ],
)
def test_blocks_of_the_gated_delta_rule(card: str, blocks: tuple[int, ...]) -> None:
    """FlashInfer's kernel aligns blocks to 64 tokens and keeps one block more, from 0.33 on and by the card."""
    flags = "--enable-prefix-caching --mamba-cache-mode align"
    found = [on(card, version, "qwen3.6-27b", flags) for version in ("0.28.0", "0.30.0", "0.32.0", "0.33.0")]
    assert tuple(each.allocation.values["block_size"] for each in found) == blocks


def test_a_pool_on_two_small_blackwells() -> None:
    """A public log, stock 0.30.0 on 2 x RTX 5060 Ti: 351,618 tokens of 448 blocks, and 272,533 of 341 with mtp 6.

    334 blocks are ceil(262,144 / 800) of attention and 2 for each of 3 groups of states; 328 are ceil(262,144 / 864)
    and 2 + 6 for each.
    """
    flags = (
        "--tensor-parallel-size 2 --kv-cache-dtype fp8 --max-model-len 262144 --mamba-cache-dtype bfloat16 "
        "--mamba-ssm-cache-dtype bfloat16 --max-num-batched-tokens 4096 --enable-prefix-caching"
    )
    plain = on("rtx-5090", "0.30.0", "qwen3.6-27b", flags).allocation
    drafting = on("rtx-5090", "0.30.0", "qwen3.6-27b", f"{flags} --spec-method mtp --spec-tokens 6").allocation
    for each, block, blocks, pool, tokens in ((plain, 800, 334, 448, 351_618), (drafting, 864, 328, 341, 272_533)):
        assert (each.values["block_size"], each.values["blocks_per_sequence"]) == (block, blocks)
        assert each.capacity is not None
        width = each.values["bytes_per_block"]
        assert isinstance(width, int)
        assert each.capacity(pool * width).tokens == tokens


def test_a_block_on_a_gb10() -> None:
    """A log of 0.29.1rc1 on a GB10 (sm_121): blocks of 800 tokens with one drafted token (vllm-project/vllm#54076)."""
    flags = "--enable-prefix-caching --mamba-cache-mode align --spec-method mtp --spec-tokens 1"
    assert on("gb10-dgx-spark", "0.29.0", "qwen3.6-27b", flags).allocation.values["block_size"] == 800


# DeepSeek V3.2: 61 layers of a latent (512 + 64 elements) and an index key of 128 fp8 with a scale, 132 B.
PLAIN, PACKED, WHOLE = 61 * (576 + 132), 61 * (656 + 132), 61 * (1152 + 132)


@pytest.mark.parametrize(
    ("card", "version", "kv_dtype", "token"),
    [
        ("h100-sxm", "0.33.0", "fp8", PACKED),  # FlashMLA's packs any fp8
        ("h100-sxm", "0.33.0", "auto", WHOLE),
        ("b200-sxm", "0.33.0", "fp8", PLAIN),  # a log of DeepSeek V3.2: 43,188 B a token
        ("b200-sxm", "0.15.1", "fp8", PACKED),  # FlashInfer's has no kernel yet
        ("b200-sxm", "0.33.0", "auto", WHOLE),
        ("rtx-pro-6000-blackwell", "0.33.0", "auto", PACKED),  # packs what is left to it, too
        ("rtx-pro-6000-blackwell", "0.33.0", "fp8", PACKED),
    ],
)
def test_sparse_latents(card: str, version: str, kv_dtype: str, token: int) -> None:
    """How sparse latents are kept, by the first kernel of the card's list that takes the format."""
    found = on(card, version, "deepseek-v3.2", "--seed 1", kv_dtype=kv_dtype, tp=8).allocation
    assert found.values["bytes_per_block"] == 64 * token
    assert PLAIN == 43_188


@pytest.mark.parametrize(
    ("card", "version", "tokens"),
    [
        ("b200-sxm", "0.33.0", 16384), ("b200-sxm", "0.27.0", 8192),
        ("h100-sxm", "0.33.0", 8192), ("a100-80gb-sxm", "0.33.0", 2048), ("rtx-5090", "0.33.0", 2048),
        ("rtx-pro-6000-blackwell", "0.33.0", 8192), ("gb10-dgx-spark", "0.33.0", 2048),
        ("gb10-dgx-spark", "0.32.0", 8192), ("t4", "0.33.0", 2048),
    ],
)  # fmt: skip
def test_batched_tokens(card: str, version: str, tokens: int) -> None:
    """`get_batch_defaults` of each wheel: by the memory of 160 and 70 GiB, and the names of A100 and GB10."""
    found = on(card, version, "llama3.1-8b").allocation.facts
    assert any(f"{tokens:,} batched tokens" in fact for fact in found)
    twice = on(card, version, "llama3.1-8b", "--performance-mode throughput").allocation.facts
    assert any(f"{2 * tokens:,} batched tokens" in fact for fact in twice)


@pytest.mark.parametrize(
    ("flags", "block"),
    [
        ("", BY_64),
        ("--gdn-prefill-backend triton", BY_16),
        ('--additional-config {"gdn_prefill_backend":"triton"}', BY_16),
        ('--additional-config={"gdn_prefill_backend":"TRITON"}', BY_16),
        ("--additional-config.gdn_prefill_backend triton", BY_16),
        ('--gdn-prefill-backend flashinfer --additional-config {"gdn_prefill_backend":"triton"}', BY_64),
        ('--additional-config {"kda_decode_backend":"triton"}', BY_64),
    ],
)
def test_a_field_that_a_flag_sets(flags: str, block: int) -> None:
    """--gdn-prefill-backend is written into --additional-config, over what stands there (`arg_utils.py`)."""
    words = f"--enable-prefix-caching --mamba-cache-mode align {flags}"
    assert on("h100-sxm", "0.33.0", "qwen3.6-27b", words).allocation.values["block_size"] == block


def test_fields_that_are_not_known_are_named() -> None:
    """What an object carries and nothing here reads is named, as a flag would be."""
    started = launch(
        "vllm", ["--additional-config", '{"pages": 3}', "--attention-config", '{"backend_per_kind": {"a": "B"}}']
    )
    said = started.engine.options_of("", started.read, loader.load("llama3.1-8b")).warnings
    assert [line.partition(" is not")[0] for line in said] == [
        "--additional-config: 'pages'", "--attention-config: 'backend_per_kind'",
    ]  # fmt: skip


def test_a_variable_of_older_versions() -> None:
    """VLLM_ATTENTION_BACKEND names the backend in the wheel of 0.11.0; later ones do not read it, which is said."""
    for version, counts in (("0.11.0", True), ("0.33.0", False)):
        started = launch(f"vllm@{version}", ["VLLM_ATTENTION_BACKEND=FLASHMLA", "--seed", "1"])
        stated = started.engine.options_of("", started.read, loader.load("deepseek-v3"))
        assert (stated.settings.get("backend"), bool(stated.warnings)) == ("FLASHMLA" if counts else None, not counts)


def test_a_checkpoint_in_fp32() -> None:
    """vLLM and SGLang compute and cache in 16 bits what is stored in 32, and load the weights so; --dtype says otherwise.

    OLMo 2 7B: 32 layers x 2 x 32 heads x 128 x 2 B = 524,288 B a token (`_resolve_auto_dtype`, `_get_and_verify_dtype`).
    """
    model = loader.load("olmo2-7b")
    assert model.dtype.name == "fp32"
    for engine, name in (("vllm", "bf16"), ("sglang", "fp16")):
        started = launch(engine, ["--tp", "1"])
        stated = started.engine.options_of("", started.read, model)
        assert stated.defaults == {"kv_dtype": name}
        assert stated.loaded is not None
        assert stated.loaded.name == name
        whole = launch(engine, ["--dtype", "float32"])
        stated = whole.engine.options_of("", whole.read, model)
        assert (stated.defaults, stated.loaded) == ({}, None)
    assert on("h100-sxm", "0.33.0", "olmo2-7b", kv_dtype="bf16").allocation.values["bytes_per_block"] == 16 * 524_288
    gemma = launch("sglang", ["--tp", "1"])
    other = gemma.engine.options_of("", gemma.read, replace(loader.load("gemma3-1b"), dtype=model.dtype))
    assert other.defaults == {"kv_dtype": "bf16"}
