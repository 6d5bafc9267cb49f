"""vLLM's own numbers: rows of its planning code run by hand, logs that people posted, and its documented eras.

The rows of E.3 are the planning code of vLLM 0.33.0 itself, run without an engine (maintainers' specs, engines-gpu.md
E.1 and E.3): 8,192 batched tokens, asynchronous scheduling. Those of `model.md` were checked against the same code.
"""

from typing import Any, NamedTuple

import pytest

from kvcalc.errors import KvcalcError

from .asking import counted, reservation
from .vllm_rows import FLAGGED, ROWS
from .vllm_rows import Row as Planned

GIB = 2**30


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
    Row("E.3 12a", "llama4-scout", {"context": 1048576}, "--disable-hybrid-kv-cache-manager", 200 * GIB, 3_145_728,
        68_266, 1_092_256, 1.04),
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
    Row("model.md 3", "llama4-scout", {"context": 1048576}, "", 200 * GIB, None, None, 4_082_037, None),
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
    plan = reservation(row.preset, "vllm", row.flags, **row.options).allocation
    assert plan.capacity is not None
    found = plan.capacity(row.budget)
    assert found.tokens == row.tokens
    if row.concurrency is not None:
        assert found.concurrency == row.concurrency
    if row.blocks is not None:
        assert found.values["num_blocks"] == row.blocks
    if row.bytes_per_block is not None:
        assert plan.values["bytes_per_block"] == row.bytes_per_block


@pytest.mark.parametrize("row", [*ROWS, *FLAGGED], ids=lambda row: f"{row.preset} {row.options} {row.flags}".strip())
def test_every_kind_of_model_is_planned_as_by_vllm(row: Planned) -> None:
    """All kinds of caches, layouts, drafts, formats and left-out layers against the planning code itself."""
    plan = reservation(row.preset, "vllm", row.flags, **row.options).allocation
    assert plan.capacity is not None
    found = plan.capacity(row.gib * GIB)
    assert (plan.values["bytes_per_block"], plan.values["groups"]) == (row.bytes_per_block, row.groups)
    assert (found.values["num_blocks"], found.tokens, found.concurrency) == (row.blocks, row.tokens, row.concurrency)


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
    assert reservation(preset, "vllm", flags, context=32768, **options).allocation.values["block_size"] == block


def test_eras_of_windows_and_of_counting() -> None:
    """gpt-oss-20b in 40 GiB: two batches in flight from 0.26; one before (D.2); whole blocks of a group to 0.20.0."""
    versions = ("0.33.0", "0.25.0", "0.20.0")
    tokens = {v: counted("gpt-oss-20b", f"vllm@{v}", 40 * GIB, context=131072).tokens for v in versions}
    # 0.20.0: 109,226 blocks // 2 groups x 16 tokens
    assert tokens == {"0.33.0": 1_551_920, "0.25.0": 1_643_116, "0.20.0": 109_226 // 2 * 16}


def test_the_product_of_doubles_is_cut_and_not_the_fraction() -> None:
    """engines-gpu.md A.9: n 121,301, r 6,250, L 100,000 gives 1,940,815 in the engine, 1,940,816 exactly."""
    assert counted("llama3.1-8b", "vllm", 121_301 * 2_097_152, context=100_000).tokens == 1_940_815


def test_the_line_of_the_log() -> None:
    """One line from 0.28 on, two before, as vLLM prints them."""
    budget = 58_314_918_461
    for version, lines in (
        ("0.33.0", ("GPU KV cache size: 444,896 tokens, Maximum concurrency for 131,072 tokens per request: 3.39x",)),
        ("0.27.0", ("GPU KV cache size: 444,896 tokens", "Maximum concurrency for 131,072 tokens per request: 3.39x")),
    ):
        assert counted("llama3.1-8b", f"vllm@{version}", budget, context=131072).log == lines


def test_automatic_length_is_the_longest_that_fits_beside_the_null_block() -> None:
    """E.3 20: Llama 3.1 8B in 6 GiB: 3,072 blocks, 49,136 tokens, of which 49,152 are counted, 1.00x."""
    found = counted("llama3.1-8b", "vllm", 6 * GIB, "--max-model-len auto")
    assert (found.values["num_blocks"], found.values["max_model_len"]) == (3_072, 49_136)
    assert (found.tokens, found.concurrency) == (49_152, 1.00)


@pytest.mark.parametrize(
    ("written", "tokens"), [("4k", 4_000), ("4K", 4_096), ("25.6k", 25_600), ("1m", 1_000_000), ("1M", 1_048_576)]
)
def test_lengths_are_read_as_vllm_reads_them(written: str, tokens: int) -> None:
    """Small letters are decimal, capital ones binary (`human_readable_int`)."""
    found = reservation("gemma3-27b", "vllm", f"--max-model-len {written}")
    assert found.question.request.context == tokens


def test_formats_with_scales() -> None:
    """E.3 5: Qwen3-8B with int4_per_token_head: 8 x (64 + 64 + 8) B x 16 tokens = 17,408 B a layer, 36 layers."""
    flags = "--kv-cache-dtype int4_per_token_head"
    plan = reservation("qwen3-8b", "vllm", flags, context=40960).allocation
    assert plan.values["bytes_per_block"] == 626_688
    found = counted("qwen3-8b", "vllm", 64_424_509_440, flags, context=40960)
    assert (found.values["num_blocks"], found.tokens, found.concurrency) == (102_801, 1_644_816, 40.16)


def test_a_draft_layer_of_its_own_kind_regroups_the_model() -> None:
    """model.md 4.6: gpt-oss 12 + 12 with one full draft layer is 13 + 12: 425,984 B a block, 1,432,542 tokens."""
    facts = {
        "name": "gpt-oss-20b with a draft", "dtype": "bf16", "heads": 64, "kv_heads": 8, "head_dim": 64,
        "layers": "12 x (sliding, full)", "draft": "full", "caches": {"sliding": {"window": 128}}, "max_context": 131072,
    }  # fmt: skip
    flags = "--spec-method mtp --spec-tokens 1"
    assert reservation(facts, "vllm", flags, context=131072).allocation.values["bytes_per_block"] == 425_984
    assert counted(facts, "vllm", 40 * GIB, flags, context=131072).tokens == 1_432_542


@pytest.mark.parametrize(
    ("layers", "options", "tokens", "bytes_per_block", "groups"),
    [
        # A.8: 2 windows, 20 + 20 compressed: 21 and 21 windows, 60 entries and keys, 40 and 20 rings; 20 x 37,440 +
        # 20 x 8,640 + 20 x 1,728 B
        ("2 window, 20 x (window+csa, window+hca)", {}, None, 956_160, 5),
        # One layer of each kind more than the other: the published Flash, 22 x 32,832 and so on
        ("2 window, 20 x (window+csa, window+hca), window+csa", {}, 4_169_106, 1_002_240, 5),
    ],
)
def test_deepseek_v4_packs_pages_of_several_sizes(
    layers: str, options: dict[str, Any], tokens: int | None, bytes_per_block: int, groups: int
) -> None:
    """Entries, index keys and rings of DeepSeek V4 stand side by side in pages of whole 576 bytes."""
    facts = {
        "name": "V4", "model_type": "deepseek_v4", "dtype": "bf16", "heads": 64, "max_context": 1048576, "layers": layers,
        "caches": {
            "window": {"kind": "sliding", "kv_heads": 1, "k_dim": 512, "v_dim": 0, "rope": 64, "window": 128},
            "csa": {"kind": "compressed", "ratio": 4, "dim": 512, "rope": 64, "overlap": True, "indexer": 128},
            "hca": {"kind": "compressed", "ratio": 128, "dim": 512, "rope": 64},
        },
    }  # fmt: skip
    plan = reservation(facts, "vllm", context=1048576, **options).allocation
    assert (plan.values["bytes_per_block"], plan.values["groups"]) == (bytes_per_block, groups)
    if tokens is not None:
        assert plan.capacity is not None
        assert plan.capacity(40 * GIB).tokens == tokens


@pytest.mark.parametrize(
    ("preset", "options", "flags", "words"),
    [
        ("gemma3n-e4b", {"pp": 4}, "", "a stage of this model would keep no cache"),
        ("gpt-oss-20b", {"tp": 16, "dcp": 2}, "", "cannot spread a model with sliding layers"),
        ("llama3.1-8b", {"tp": 8, "dcp": 2}, "", "at most 1 at --tp 8"),
        ("deepseek-v4-flash", {"kv_dtype": "bf16"}, "", "as fp8_ds_mla, not bf16"),
        ("deepseek-v3", {}, "--kv-cache-dtype nvfp4", "no nvfp4 cache for this model's latents"),
        ("deepseek-v3", {}, "--kv-cache-dtype int8_per_token_head", "no int8_per_token_head cache"),
        ("qwen3-next-80b", {}, "--disable-hybrid-kv-cache-manager", "does not start this model without that manager"),
        ("qwen3-next-80b", {}, "--mamba-cache-mode all --enable-prefix-caching", "expected align or none"),
        ("nemotron3-nano-30b", {}, "--use-replayssm", "have no rule here"),
        ("mistral-7b-v0.1", {"context": 8192}, "--disable-sliding-window", "cuts the length to the window of 4,096"),
        ("llama3.1-8b", {}, '--speculative-config \'{"model": "x/eagle", "num_speculative_tokens": 3}\'', "draft_model"),
    ],
)  # fmt: skip
def test_what_vllm_does_not_start_with_is_refused(preset: str, options: dict[str, Any], flags: str, words: str) -> None:
    """One line that names the flag, where vLLM stops too or the rule is not known."""
    with pytest.raises(KvcalcError) as refused:
        reservation(preset, "vllm", flags, **options)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("version", "flags", "blocks"),
    [
        # engines-gpu.md A.6: Nemotron-Nano-9B-v2: 4 groups of full layers' blocks of 1,312 tokens, 7 groups of states
        ("0.33.0", "", 100 + 7 * 3),
        ("0.28.0", "", 100 + 7 * 2),  # no checkpoint block yet
        ("0.25.0", "", 100 + 7),  # prefixes not cached by default
        ("0.33.0", "--no-enable-prefix-caching", 100 + 7),
        ("0.33.0", "--mamba-cache-mode none", 100 + 7 * 3),  # with cached prefixes the mode is align all the same
    ],
)
def test_blocks_of_states_by_version_and_mode(version: str, flags: str, blocks: int) -> None:
    """27 Mamba-2 layers beside 4 full ones: 7 groups of states, and ceil(131,072 / 1,312) = 100 blocks of 1,312."""
    plan = reservation("nemotron-nano-9b-v2", f"vllm@{version}", flags, context=131072).allocation
    assert plan.values["blocks_per_sequence"] == blocks
