"""SGLang's numbers: its formulas on the models of the maintainers' specs (engines-gpu.md B and D.2), and posted logs."""

from typing import Any

import pytest

from kvcalc.cards.shipped import accelerators
from kvcalc.core.model import VisionTower
from kvcalc.core.units import Fraction
from kvcalc.engines.sglang.memory import left_for_images, memory
from kvcalc.errors import KvcalcError

from .asking import counted, reservation

GIB = 2**30


@pytest.mark.parametrize(
    ("preset", "options", "flags", "tokens", "further"),
    [
        # D.2: 40 GiB
        ("llama3.1-8b", {}, "", 327_680, {}),
        ("deepseek-v3", {}, "", 611_191, {}),
        ("deepseek-v3", {}, "--page-size 64", 611_136, {}),
        ("deepseek-v3.2", {"kv_dtype": "fp8"}, "", 893_504, {}),
        ("deepseek-v3.2", {}, "", 548_352, {}),
        ("gpt-oss-20b", {}, "", 970_903, {"swa_tokens": 776_722}),
        # every layer from start to end has its place (layer_setup.py): 80 of 4,096 B where 31 are pruned away, 35 of 2,048
        # where 15 share, and by layer_types 7 of 4,096 and 0.8 of 35 of 2,048 where 18 of both kinds share
        ("nemotron-super-49b", {}, "", 40 * GIB // (80 * 4096), {}),
        ("nemotron-super-49b", {"tp": 2}, "", 40 * GIB // (80 * 2048), {}),
        ("gemma3n-e4b", {}, "", 40 * GIB // (35 * 2048), {}),
        ("gemma4-e4b", {}, "", 40 * GIB // (7 * 4096 + 28 * 2048), {"swa_tokens": 399_456}),
        # 262 slots, 5 of them for each running request
        ("qwen3-next-80b", {}, "", 920_754, {"state_slots": 262, "max_running_requests": 52}),
        ("qwen3-next-80b", {}, "--mamba-ssm-dtype bfloat16", 921_114, {"state_slots": 513}),
    ],
)  # fmt: skip
def test_tokens_in_forty_gib(
    preset: str, options: dict[str, Any], flags: str, tokens: int, further: dict[str, int]
) -> None:
    """Cells, pages, the window ratio and the pool of states."""
    found = counted(preset, "sglang", 40 * GIB, flags, **options)
    assert found.tokens == tokens
    assert {key: found.values[key] for key in further} == further


@pytest.mark.parametrize(
    ("preset", "options", "cell", "source"),
    [
        # (tokens + page) x cell, as the logs have it: Kimi K2.5 2,454,421 tokens in 160.63 GiB, DeepSeek V3 fp8 524,288 in
        # 17.16 GiB; Qwen3-30B-A3B 1,669,816 in 2 x 76.44 GiB (E330); Qwen2.5-0.5B 20,480 in 2 x 0.12 GiB (E439)
        ("kimi-k2.5", {}, 61 * 576 * 2, (2_454_421, "160.63")),
        ("deepseek-v3", {"kv_dtype": "fp8"}, 61 * 576, (524_288, "17.16")),
        ("qwen3-30b-a3b", {}, 48 * 4 * 256 * 2, (1_669_816, "152.88")),
        ("qwen2.5-0.5b", {}, 24 * 2 * 128 * 2, (20_480, "0.23")),
    ],
)  # fmt: skip
def test_a_cell_is_what_logs_divide_by(
    preset: str, options: dict[str, Any], cell: int, source: tuple[int, str]
) -> None:
    """The bytes of a token, worked out by hand, agree with the memory that SGLang logs for its tokens."""
    tokens, logged = source
    assert f"{(tokens + 1) * cell / GIB:.2f}" == logged
    assert reservation(preset, "sglang", **options).allocation.values["bytes_per_block"] == cell


def test_gemma_3_is_sized_as_if_all_layers_were_full() -> None:
    """Its architecture is on no list of those with windows: 62 layers x 16 x 256 x 2 B a token."""
    assert counted("gemma3-27b", "sglang", 40 * GIB).tokens == 40 * GIB // (62 * 16 * 256 * 2)


@pytest.mark.parametrize(
    ("vram", "tp", "preset", "fraction"),
    [
        # 80 GiB, tp 1, chunk 8,192: 512 + 12,288 + 128 + 2 x 256 + 8 x 58 lengths = 13,904 of 81,920 MiB: 0.830
        (80 * GIB, 1, "llama3-70b", 830),
        # 24 GiB, tp 1, chunk 4,096: 512 + 6,144 + 128 + 2 x 48 + 8 x 50 = 7,280 of 24,576: 0.704
        (24 * GIB, 1, "llama3-8b", 704),
        # the same at tp 2 and at tp 4, from which on graphs go up to batches of 512: 512 + 12,288 + 256 + 512 + 464 = 14,032;
        # 512 + 12,288 + 512 + 1,024 + 464 = 14,800
        (80 * GIB, 2, "llama3-70b", 829),
        (80 * GIB, 4, "llama3-70b", 819),
        # a latent takes 1,536 MiB of graphs: 512 + 12,288 + 1,024 + 2 x 512 + 1,536 = 16,384 of 81,920: 0.8
        (80 * GIB, 8, "deepseek-v3", 800),
    ],
)  # fmt: skip
def test_the_default_share_of_the_memory(vram: int, tp: int, preset: str, fraction: int) -> None:
    """R = 512 + 1.5 x chunk + tp x pp / 8 x 1,024 + graphs, in MiB.

    Lengths that are captured: 8 + 14 + 8 + 8 + 12 up to 4,096, then each 512 tokens.
    """
    found = reservation(preset, "sglang", tp=tp)
    share = found.engine.utilization(found.question, vram)
    assert (share.part, share.of) == (fraction, 1000)


@pytest.mark.parametrize(
    ("tower", "share", "left"),
    [
        # ViT-L's 24 x 1,024^2 leaves 0.95: the log line of sgl-project/sglang-omni #345, 0.836 of the 0.88 of its time
        (VisionTower(24, 1024), Fraction(88, 100), 0.836),
        # Qwen's says no num_hidden_layers, so 24: 1 - 0.1 x (1.2656 - 1) = 0.97344 of 0.95, 0.9248 in public notes
        (VisionTower(None, 1152), Fraction(1, 1), 0.9248),
        # Kimi K2.5 on 8 x MI355X printed 283.6 GiB before, 73.58 for weights and 160.63 for the pool: a share of 0.826,
        # where 294,912 MiB less 512 + 24,576 + 1,024 + 1,024 are 0.908
        (VisionTower(27, 1152), Fraction(908, 1000), 1 - (283.6 - 73.58 - 160.63) / 283.6),
        (VisionTower(None, 3584), Fraction(1, 1), 0.95 * 0.8),  # 12.25 times ViT-L: never less than 0.8
        (VisionTower(None, 768), Fraction(1, 1), 0.95 * (1.1 - 0.1 * 0.5625)),
        (VisionTower(12, 256), Fraction(1, 1), 0.95 * 1.05),  # 0.03 of ViT-L: never more than 1.05
    ],
)  # fmt: skip
def test_room_for_images(tower: VisionTower, share: Fraction, left: float) -> None:
    found = left_for_images(share, tower)
    assert found.part / found.of == pytest.approx(left, abs=5e-4)


def test_images_that_are_off() -> None:
    """Gemma 3 is served without images unless --enable-multimodal asks for them; a stated share is left alone."""
    plain, asked = (reservation("gemma3-27b", "sglang", flags) for flags in ("", "--enable-multimodal"))
    shares = [found.engine.utilization(found.question, 80 * GIB) for found in (plain, asked)]
    # 27 x 1,152^2 is 1.4238 of ViT-L: 0.95 x 0.95762
    assert shares[1].part / shares[1].of == pytest.approx(shares[0].part / shares[0].of * 0.90974, rel=1e-5)


@pytest.mark.parametrize(
    ("preset", "tp", "flags", "keeps"),
    [
        ("llama3-70b", 1, "--context-length 8192", False),  # 8,192 tokens are not above 8,192
        ("llama3.3-70b", 1, "--context-length 131072", True),
        ("llama3.3-70b", 1, "--context-length 8193", True),
        ("llama3.3-70b", 1, "--context-length 8192", False),
        ("llama3.3-70b", 1, "--context-length 131072 --attention-backend triton", False),
        ("deepseek-v3", 8, "--context-length 163840", True),  # 128 heads / 8 = 16
        ("deepseek-v3", 4, "--context-length 163840", False),  # 32
        ("kimi-k2.5", 8, "--context-length 262144", False),  # 64 / 8 = 8, as the log above shows
        ("deepseek-v3.2", 8, "--context-length 163840", False),  # sparse attention has its own kernels
    ],
)
def test_what_aiter_keeps_back(preset: str, tp: int, flags: str, keeps: bool) -> None:
    """0.85 of the share is used, 0.68 of 0.80 (sgl-project/sglang #37242): 0.12 x 288 GiB are kept back there."""
    found = reservation(preset, "sglang", flags, tp=tp)
    card = accelerators()["mi355x"]
    lines = {line.name: line.size for line in memory(found.question._replace(card=card), 288 * GIB)}
    assert ("workspace" in lines) is keeps
    if keeps:
        assert lines["workspace"].low < 0.12 * 288 * GIB < lines["workspace"].high
    nvidia = {line.name for line in memory(found.question, 80 * GIB)}
    assert "workspace" not in nvidia


def _facts(name: str, layers: str, caches: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": "bf16",
        "heads": 16,
        "layers": layers,
        "caches": caches,
        "max_context": 262144,
        **more,
    }


QWEN35_9B = _facts(
    "Qwen3.5 9B",
    "8 x (3 deltanet, full)",
    {
        "deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128, "conv": 4},
        "full": {"kv_heads": 4, "head_dim": 256},
    },
    model_type="qwen3_5_text",
)
GEMMA4_26B = _facts(
    "Gemma 4 26B A4B",
    "5 x (5 sliding, full)",
    {
        "sliding": {"window": 1024, "kv_heads": 8, "head_dim": 256},
        "full": {"kv_heads": 2, "head_dim": 512},
    },
    model_type="gemma4_text",
)


def test_slots_of_states_as_a_log_has_them() -> None:
    """engines-gpu.md B.4: Qwen3.5 9B, TP2: 186 slots, 0.10 + 4.38 GB, 327,310 tokens, 2.50 + 2.50 GB.

    187 slots of 24 layers x (3 x 4,096 x 2 B + 16 x 128 x 128 x 4 B) and the tokens of 16,384 B make the budget.
    """
    slot = 24 * (3 * 4096 * 2 + 16 * 128 * 128 * 4)
    found = counted(QWEN35_9B, "sglang", 327_310 * 16_384 + 187 * slot, tp=2)
    assert (found.values["state_slots"], found.tokens) == (186, 327_310)
    assert found.log == (
        "Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, ssm_state size: 4.38GB ",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 327310, K size: 2.50 GB, V size: 2.50 GB",
    )


def test_windows_as_logs_have_them() -> None:
    """E364: a cell of 184,320 B for Gemma 4 26B A4B; E437: 70,656 and 56,320 tokens, 0.68 and 5.40 GB of K and of V."""
    found = counted(GEMMA4_26B, "sglang", 70_656 * 184_320, "--page-size 256")
    assert (found.tokens, found.values["swa_tokens"]) == (70_656, 56_320)
    assert found.log == (
        "Use sliding window memory pool. full_layer_tokens=70656, swa_layer_tokens=56320",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 70656, K size: 0.68 GB, V size: 0.68 GB",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 56320, K size: 5.40 GB, V size: 5.40 GB",
        # 70,912 x 20,480 and 56,576 x 204,800 B
        "SWAKVPool mem usage: 12.14 GB, swa size: 56320, full size: 70656",
    )


def test_states_alone_are_limited_by_slots_and_not_by_tokens() -> None:
    """Mamba 2.8B: 64 layers of 5,120 x (16 x 4 + 3 x 2) B are 22,937,600 B a slot, in a share of 9 / 19 of the budget.

    Of 60 GiB that is 28.42 GiB: 1,330.4 slots, one of them never used, so 1,329, which are 443 requests of 3 slots each.
    A token takes nothing, so 443 sequences of any length fit, and 444 of none.
    """
    found = counted("mamba-2.8b", "sglang", 60 * GIB, batch=443, context=1_000_000)
    assert (found.values["state_slots"], found.values["max_running_requests"]) == (1_329, 443)
    assert found.tokens == 443 * 1_000_000
    assert reservation("mamba-2.8b", "sglang", batch=443, context=1_000_000).allocation.fits(60 * GIB)
    assert not reservation("mamba-2.8b", "sglang", batch=444, context=1).allocation.fits(60 * GIB)


def test_states_alone_are_limited_by_tokens_that_a_flag_gives() -> None:
    """--max-total-tokens 10,000 has room for 2 sequences of 4,096 tokens, and not for 3."""
    fits = [
        reservation("mamba-2.8b", "sglang", "--max-total-tokens 10000", batch=batch, context=4096).allocation.fits(
            60 * GIB
        )
        for batch in (2, 3)
    ]
    assert fits == [True, False]


@pytest.mark.parametrize(
    ("preset", "flags", "slots"),
    [
        # _calculate_mamba_ratio: 3, and 2 more to track states beside overlapped scheduling, where the model can
        ("qwen3-next-80b", "", 5),
        ("nemotron3-nano-30b", "", 5),
        ("lfm2-8b-a1b", "", 3),
        ("qwen3-next-80b", "--disable-overlap-schedule", 3),
        ("qwen3-next-80b", "--disable-overlap-schedule --page-size 16", 4),
        ("qwen3-next-80b", "--mamba-radix-cache-strategy no_buffer", 3),
        ("qwen3-next-80b", "--mamba-radix-cache-strategy extra_buffer_lazy", 4),
        ("qwen3-next-80b", "--disable-radix-cache", 1),
    ],
)
def test_slots_that_a_running_request_takes(preset: str, flags: str, slots: int) -> None:
    """How many states SGLang keeps for each running request depends on its strategy for prefixes."""
    found = reservation(preset, "sglang", flags)
    states = [charge for charge in found.allocation.charges if dict(charge.parts).get("state_bytes")]
    assert states
    for charge in states:
        before, after = charge.steps[-2].bytes, charge.steps[-1].bytes
        assert after == slots * before


@pytest.mark.parametrize(
    ("preset", "flags", "options", "cell"),
    [
        # int(cell x draft layers / layers): GLM 4.6, 92 + 1 layers of 8 x 256 x 2 B; DeepSeek V3, 61 + 1 of 1,152 B
        ("glm4.6", "--speculative-algorithm EAGLE", {}, 93 * 8 * 256 * 2),
        ("deepseek-v3", "--speculative-algorithm NEXTN", {}, 62 * 1152),
        # latents and index keys apart: 61 + 1 of 1,152 and of 132 B
        ("deepseek-v3.2", "--speculative-algorithm EAGLE", {}, 62 * (1152 + 132)),
        ("deepseek-v3.2", "", {"kv_dtype": "fp8"}, 61 * (656 + 132)),
        # TensorRT-LLM's kernels keep fp8 latents without scales; e5m2 has none either
        ("deepseek-v3.2", "--dsa-prefill-backend trtllm", {"kv_dtype": "fp8"}, 61 * (576 + 132)),
        ("deepseek-v3.2", "--dsa-decode-backend flashmla_kv", {"kv_dtype": "fp8"}, 61 * (656 + 132)),
    ],
)
def test_cells_with_drafts_and_formats(preset: str, flags: str, options: dict[str, Any], cell: int) -> None:
    """Bytes of a token over all layers, from the formulas of pool_configurator.py with each model's numbers."""
    values = reservation(preset, "sglang", flags, **options).allocation.values
    block, width = values["block_size"], values["bytes_per_block"]
    assert isinstance(block, int)
    assert width == block * cell


@pytest.mark.parametrize(
    ("preset", "flags", "words"),
    [
        ("llama3.1-8b", "--tp 8 --attn-dp-size 3", "3 does not divide --tp-size 8"),
        ("deepseek-v3.2", "--enable-hisparse", "--enable-hisparse"),
        ("llama3.1-8b", "--enable-unified-memory", "--enable-unified-memory"),
        ("llama3.1-8b", "--tp 8 --attn-cp-size 2", "--attn-cp-size"),
        ("llama3.1-8b", "--kv-cache-dtype nvfp4", "--kv-cache-dtype"),
        ("deepseek-v3", "--tp 8 --dcp-size 2", "--dcp"),
        ("llama3.1-8b", "--speculative-algorithm EAGLE3 --speculative-draft-model-path x/y", "layers of the draft"),
        ("llama3.1-8b", "--speculative-algorithm DFLASH", "DFLASH"),
        ("gpt-oss-20b", "--disable-radix-cache --max-running-requests 64", "--disable-radix-cache"),
        ("deepseek-v4-flash", "", "sglang's rule for compressed 4:1 is not known"),
    ],
)
def test_what_has_no_rule_is_refused(preset: str, flags: str, words: str) -> None:
    """One line that names what kvcalc cannot size."""
    with pytest.raises(KvcalcError) as refused:
        reservation(preset, "sglang", flags)
    assert words in refused.value.message


def test_the_last_stages_hold_the_layers_that_are_left_over() -> None:
    """61 latents on four stages: 15, 15, 15 and 16 (`get_pp_indices`)."""
    charges = reservation("deepseek-v3", "sglang", pp=4).allocation.charges
    assert [charge.copies for charge in charges] == [15, 15, 15, 16]


def test_the_stage_that_holds_most_tells_the_tokens() -> None:
    """61 latents of 1,152 B on two stages are 30 and 31: 40 GiB hold 40 GiB // (31 x 1,152 B) tokens of all of them."""
    found = counted("deepseek-v3", "sglang", 40 * GIB, pp=2)
    assert found.tokens == 40 * GIB // (31 * 1_152) < 40 * GIB // (30 * 1_152)


@pytest.mark.parametrize(
    ("budget", "running"),
    [
        # 4,096 tokens of a limit of 131,072 would be 16 requests: at least 2,048 are taken, but no more than half the tokens
        (4_096 * 131_072, 2_048),
        (4_095 * 131_072, 2_047),
        (10 * 131_072, 5),
        # 1,048,576 tokens: 4,096 requests, and never more
        (1_048_576 * 131_072, 4_096),
        (786_432 * 131_072, 3_072),
        (4_000_000 * 131_072, 4_096),
    ],
)
def test_requests_that_run_at_once(budget: int, running: int) -> None:
    """`resolve_max_num_reqs`: tokens / length x 512, within 2,048 and 4,096, and half of the tokens at most."""
    assert counted("llama3.1-8b", "sglang", budget).values["max_running_requests"] == running
