"""vLLM's own numbers: rows of its planning code run by hand, logs that people posted, and its documented eras.

The rows of E.3 are the planning code of vLLM 0.33.0 itself, run without an engine (maintainers' specs, engines-gpu.md
E.1 and E.3): 8,192 batched tokens, asynchronous scheduling. Those of `model.md` were checked against the same code.
"""

from typing import Any, NamedTuple

import pytest

from kvcalc import library
from kvcalc.launching import launch
from kvcalc.preset import model_from_preset
from kvcalc.request import ask
from kvcalc.reserving import Question, Reservation, reserve
from kvcalc.sizing import measure

GIB = 2**30


def reservation(preset: str | dict[str, Any], *, engine: str = "vllm", flags: str = "", **options: Any) -> Reservation:
    """vLLM's answer about a preset or a mapping of one."""
    if isinstance(preset, str):
        model = library.load(preset)
    else:
        loaded, problems = model_from_preset(preset, "test-1")
        assert loaded is not None, problems
        model = loaded
    started = launch(engine, flags.split())
    assert started.warnings == ()
    stated = started.engine.asked(started.program, started.read, model)
    request = ask(model, **{**options, **stated.options})
    question = Question(request, measure(request).placement, started.version, stated.knobs)
    return reserve(started.engine, question)


class Row(NamedTuple):
    """A model, the bytes that vLLM had for its cache, and what it made of them."""

    source: str
    preset: str
    options: dict[str, Any]
    flags: str
    budget: int
    bytes_per_block: int | None
    blocks: int | None
    tokens: int
    concurrency: float | None


ORACLES = [
    Row("E.3 1", "llama3.1-8b", {"context": 131072}, "", 58_314_918_461, 2_097_152, 27_806, 444_896, 3.39),
    Row("E.3 3", "llama3.1-70b", {"context": 131072, "tp": 4, "kv_dtype": "fp8"}, "", 39_191_576_576, 655_360, 59_801,
        956_816, 7.30),
    Row("E.3 7a", "gemma3-27b", {"context": 131072}, "", 21_474_836_480, 1_310_720, 16_384, 145_829, 1.11),
    Row("E.3 8a", "gpt-oss-20b", {"context": 131072}, "", 62_384_399_974, 393_216, 158_651, 2_254_168, 17.20),
    Row("E.3 9a", "deepseek-v3", {"context": 163840}, "--block-size 64", 40 * GIB, 4_497_408, 9_549, 611_136, 3.73),
    Row("E.3 10a", "deepseek-v3.2", {"context": 163840, "kv_dtype": "fp8"}, "", 40 * GIB, 3_076_352, 13_961, 893_504,
        5.45),
    Row("E.3 11a", "qwen3-next-80b", {"context": 262144}, "--gdn-prefill-backend triton", 64_424_509_440, 13_369_344,
        4_818, 2_588_134, 9.87),
    Row("E.3 12a", "llama4-scout", {"context": 1048576}, "", 200 * GIB, 3_145_728, 68_266, 1_092_256, 1.04),
    Row("E.3 13", "whisper-large-v3", {"context": 448}, "--max-num-batched-tokens 1500", 10 * GIB, 2_621_440, 4_096,
        15_041, 33.57),
    Row("E.3 16", "nemotron-nano-9b-v2", {"context": 131072}, "", 40 * GIB, 21_495_808, 1_998, 2_164_312, 16.51),
    Row("D.2", "llama3.1-8b", {"context": 131072}, "", 40 * GIB, None, 20_480, 327_680, 2.50),
    Row("D.2", "deepseek-v3", {"context": 163840}, "--block-size 16", 40 * GIB, None, 38_199, 611_184, None),
    Row("D.2", "deepseek-v3", {"context": 163840}, "--block-size 32", 40 * GIB, None, 19_099, 611_168, None),
    Row("D.2", "deepseek-v3.2", {"context": 163840}, "", 40 * GIB, None, 8_568, 548_352, None),
    Row("D.2", "gpt-oss-20b", {"context": 131072}, "", 40 * GIB, None, 109_226, 1_551_920, 11.84),
    Row("D.2", "qwen3-next-80b", {"context": 262144}, "--gdn-prefill-backend triton", 40 * GIB, None, 3_212, 1_725_423,
        6.58),
    Row("D.2", "qwen3-next-80b", {"context": 262144}, "", 40 * GIB, None, 3_034, 1_710_419, 6.52),
    Row("model.md 3", "llama4-scout", {"context": 1048576}, "--no-disable-hybrid-kv-cache-manager", 200 * GIB, None,
        None, 4_082_037, None),
    Row("model.md 4.2", "whisper-large-v3", {"context": 448}, "", 10 * GIB, None, None, 3_398, None),
    Row("model.md 4.1", "gemma4-31b", {"context": 131072, "tp": 4}, "", 40 * GIB, None, None, 900_318, None),
    Row("model.md 4.1", "gemma4-31b", {"context": 131072, "tp": 8}, "", 40 * GIB, None, None, 1_259_798, None),
    # 16,384 tokens in flight, as the specs' prototype had it: two stages without asynchronous scheduling.
    Row("model.md 4.1", "gemma3-27b", {"context": 131072, "pp": 2}, "--no-async-scheduling", 40 * GIB, None, None,
        583_317, None),
    Row("model.md 4.1", "gemma3-27b", {"context": 131072, "pp": 4}, "--no-async-scheduling --max-num-batched-tokens=4096",
        40 * GIB, None, None, 972_190, None),
    *(Row("model.md 4.6", "deepseek-v3", {"context": 163840, "tp": 8, "dcp": dcp}, "--block-size 64", 40 * GIB, None, None,
          tokens, None)
      for dcp, tokens in ((1, 611_136), (2, 1_222_272), (4, 2_444_544), (8, 4_889_088))),
]  # fmt: skip


@pytest.mark.parametrize("row", ORACLES, ids=lambda row: f"{row.source} {row.preset} {row.options} {row.flags}".strip())
def test_blocks_tokens_and_concurrency_are_those_of_vllm(row: Row) -> None:
    """What vLLM 0.33 logs for a given number of bytes, to the token."""
    plan = reservation(row.preset, flags=row.flags, **row.options).plan
    assert plan.capacity is not None
    counted = plan.capacity(row.budget)
    assert counted.tokens == row.tokens
    if row.concurrency is not None:
        assert counted.concurrency == row.concurrency
    if row.blocks is not None:
        assert counted.values["num_blocks"] == row.blocks
    if row.bytes_per_block is not None:
        assert plan.values["bytes_per_block"] == row.bytes_per_block


@pytest.mark.parametrize(
    ("preset", "options", "flags", "block"),
    [
        # engines-gpu.md A.6: check values of the block that holds a state
        ("qwen3-next-80b", {}, "--gdn-prefill-backend triton", 544),
        ("qwen3-next-80b", {}, "", 576),
        ("qwen3-next-80b", {"tp": 4}, "--gdn-prefill-backend triton", 272),
        ("qwen3.5-0.8b", {}, "--gdn-prefill-backend triton", 544),
        ("nemotron-nano-9b-v2", {}, "", 1312),
        ("kimi-linear-48b", {}, "", 1920),
    ],
)  # fmt: skip
def test_a_block_of_a_hybrid_holds_a_state(preset: str, options: dict[str, Any], flags: str, block: int) -> None:
    """vLLM raises the block until a page of attention is as large as a state."""
    assert reservation(preset, flags=flags, context=32768, **options).plan.values["block_size"] == block


def test_eras_of_windows_and_of_counting() -> None:
    """gpt-oss-20b in 40 GiB: two batches in flight from 0.26; one before (D.2); whole blocks of a group to 0.20.0."""
    tokens = {}
    for version in ("0.33.0", "0.25.0", "0.20.0"):
        plan = reservation("gpt-oss-20b", engine=f"vllm@{version}", context=131072).plan
        assert plan.capacity is not None
        tokens[version] = plan.capacity(40 * GIB).tokens
    # 0.20.0: 109,226 blocks // 2 groups x 16 tokens
    assert tokens == {"0.33.0": 1_551_920, "0.25.0": 1_643_116, "0.20.0": 109_226 // 2 * 16}


def test_the_product_of_doubles_is_cut_and_not_the_fraction() -> None:
    """engines-gpu.md A.9: n 121,301, r 6,250, L 100,000 gives 1,940,815 in the engine, 1,940,816 exactly."""
    plan = reservation("llama3.1-8b", context=100_000).plan
    assert plan.capacity is not None
    assert plan.capacity(121_301 * 2_097_152).tokens == 1_940_815


def test_the_line_of_the_log() -> None:
    """One line from 0.28 on, two before, as vLLM prints them."""
    budget = 58_314_918_461
    for version, lines in (
        ("0.33.0", ("GPU KV cache size: 444,896 tokens, Maximum concurrency for 131,072 tokens per request: 3.39x",)),
        ("0.27.0", ("GPU KV cache size: 444,896 tokens", "Maximum concurrency for 131,072 tokens per request: 3.39x")),
    ):
        plan = reservation("llama3.1-8b", engine=f"vllm@{version}", context=131072).plan
        assert plan.capacity is not None
        assert plan.capacity(budget).log == lines
