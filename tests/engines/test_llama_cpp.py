"""llama.cpp: each rule, its bytes worked out by hand."""

from typing import NamedTuple

import pytest

from .llama_cpp_asked import model_with, question_of, reserved, why


class Rules(NamedTuple):
    """`facts` beside 8 heads, 2 of them KV heads of 64: 2 x 2 x 64 x 2 B = 512 B a token in a layer of full attention."""

    name: str
    facts: dict[str, object]
    command: str
    differences: dict[str, int]
    build: str = ""


SLIDING = {"layers": "1 sliding", "caches": {"sliding": {"window": 128}}}
CHUNKED = {"model_type": "llama4_text", "layers": "1 chunked", "caches": {"chunked": {"chunk": 4096}}}
COHERE2 = {"model_type": "cohere2", **SLIDING}
DELTANET = {"kind": "deltanet", "k_heads": 1, "k_dim": 8, "v_heads": 2, "v_dim": 8, "conv": 4}
QWEN35 = {"model_type": "qwen3_5_text", "layers": "1 state", "caches": {"state": DELTANET}}
DEEPSEEK = {"model_type": "deepseek_v3", "heads": 16, "k_dim": 192, "v_dim": 128, "head_dim": None, "kv_heads": None,
            "layers": "1 latent", "caches": {"latent": {"rank": 512, "rope": 64}}}  # fmt: skip
INDEXED = {**DEEPSEEK, "layers": "1 latent+indexer",
           "caches": {"latent": {"rank": 512, "rope": 64}, "indexer": {"dim": 128, "store": "fp8+scale"}}}  # fmt: skip
TWO_WIDTHS = {"layers": "2 full", "caches": {"full": {"kv_heads": [1, 2]}}}

RULES = [
    Rules("default type", {"dtype": "fp32", "layers": "1 full"}, "llama-cli -c 256",
          {"f16 cache by default": -512 * 256}),
    Rules("declared 8 bits", {"kv_dtype": "fp8", "layers": "1 full"}, "llama-cli -c 256",
          {"f16 cache by default": 256 * 256}),
    Rules("300 tokens", {"layers": "1 full"}, "llama-cli -c 300", {"cells padded to 256": 512 * 212}),
    # Two of 200 tokens: 400 become 512, of which each has 256.
    Rules("two streams", {"layers": "1 full"}, "llama-cli -c 400 -np 2", {"cells padded to 256": 512 * 112}),
    # 3 x 1365 tokens: 4096 is 1365 for each, padded to 1536.
    Rules("4096 with 3", {"layers": "1 full"}, "llama-cli -c 4096 -np 3", {"cells padded to 256": 512 * 3 * (1536 - 1365)}),
    Rules("4096 with 3 unified", {"layers": "1 full"}, "llama-cli -c 4096 -np 3 -kvu", {"cells padded to 256": 512}),
    # Until October 2025 the padding was 32 without flash attention, and 256 with it; for some days there was none.
    Rules("300 tokens in 2024", {"layers": "1 full"}, "llama-cli -c 300", {"cells padded to 32": 512 * 20}, "b4100"),
    Rules("300 with -fa", {"layers": "1 full"}, "llama-cli -c 300 -fa", {"cells padded to 256": 512 * 212}, "b4100"),
    Rules("300 unpadded", {"layers": "1 full"}, "llama-cli -c 300", {}, "b6900"),
    Rules("300 in 2023", {"layers": "1 full"}, "llama-cli -c 300", {}, "b1500"),
    Rules("window", COHERE2, "llama-cli -c 4096",
          {"window plus micro-batch": 512 * 512, "cells padded to 256": 512 * 128}),
    Rules("window, small micro-batch", COHERE2, "llama-cli -c 4096 -ub 128", {"window plus micro-batch": 512 * 128}),
    # The batch is no larger than the context, and the micro-batch no larger than the batch.
    Rules("window, small batch", COHERE2, "llama-cli -c 4096 -b 64",
          {"window plus micro-batch": 512 * 64, "cells padded to 256": 512 * 64}),
    # 4 x 128 + 512 = 1024 cells that all four share.
    Rules("window, unified", COHERE2, "llama-cli -c 16384 -np 4 -kvu", {"window plus micro-batch": 512 * 512}),
    Rules("window, separate", COHERE2, "llama-cli -c 16384 -np 4",
          {"window plus micro-batch": 512 * 4 * 512, "cells padded to 256": 512 * 4 * 128}),
    Rules("--swa-full", COHERE2, "llama-cli -c 4096 --swa-full",
          {"windows at full length (--swa-full)": 512 * (4096 - 128)}),
    Rules("first windows", COHERE2, "llama-cli -c 4096 -b 1024",  # n_swa + n_batch = 1152, no flash attention
          {"window plus batch": 512 * 1024}, "b5500"),
    Rules("before windows", COHERE2, "llama-cli -c 4096", {"window ignored": 512 * (4096 - 128)}, "b5300"),
    Rules("window ignored", SLIDING, "llama-cli -c 4096", {"window ignored": 512 * (4096 - 128)}),
    Rules("EXAONE of 1 layer", {"model_type": "exaone4", **SLIDING}, "llama-cli -c 4096",
          {"window ignored": 512 * (4096 - 128)}),
    Rules("chunks of another size", CHUNKED, "llama-cli -c 16384",
          {"window of 8,192 instead of 4,096": 512 * 4096, "window plus micro-batch": 512 * 512}),
    # Columns 3 x (2 x 8 + 16) = 96 in bf16 become f32, the state of 16 x 8 is f32 already.
    Rules("state", QWEN35, "llama-cli -c 256", {"f32 state": 96 * 2}),
    Rules("state and drafts", QWEN35, "llama-cli -c 256 -np 2 --spec-type draft-eagle3 --spec-draft-n-max 2",
          {"f32 state": 2 * 96 * 2, "state rows for drafts": 2 * 2 * (96 + 128) * 4}),
    Rules("drafts by default", QWEN35, "llama-cli -c 256 --spec-type draft-mtp",
          {"f32 state": 96 * 2, "state rows for drafts": 3 * (96 + 128) * 4}),
    Rules("drafts without states", QWEN35, "llama-cli -c 256 --spec-type ngram-mod", {"f32 state": 96 * 2}),
    Rules("drafts before May 2026", QWEN35, "llama-cli -c 256 --spec-type draft-mtp", {"f32 state": 96 * 2}, "b9000"),
    Rules("widest V", TWO_WIDTHS, "llama-cli -c 256 -fa off", {"V of the widest layer": 64 * 2 * 256}),
    Rules("own V", TWO_WIDTHS, "llama-cli -c 256", {}),
    Rules("own V, transposed", TWO_WIDTHS, "llama-cli -c 256", {}, "b5500"),
    Rules("latent", DEEPSEEK, "llama-cli -c 256", {}),
    Rules("latent and V", DEEPSEEK, "llama-cli -c 256 -fa on", {"a V beside the latent": 512 * 2 * 256}, "b7000"),
    Rules("heads of a latent", DEEPSEEK, "llama-cli -c 256",
          {"expanded latents": (16 * (192 + 128) - 576) * 2 * 256}, "b5000"),
    Rules("MiniCPM3", {**DEEPSEEK, "model_type": "minicpm3"}, "llama-cli -c 256",
          {"expanded latents": (16 * (192 + 128) - 576) * 2 * 256}),
    Rules("index keys", {**INDEXED, "model_type": "deepseek_v32"}, "llama-cli -c 256",
          {"index keys in the K type": (256 - 132) * 256}),
    Rules("index keys in q8_0", {**INDEXED, "model_type": "deepseek_v32"}, "llama-cli -c 256 -ctk q8_0 -ctv q8_0",
          {"index keys in the K type": (136 - 132) * 256}),
    Rules("GLM 5 before its indexer", {**INDEXED, "model_type": "glm_moe_dsa"}, "llama-cli -c 256",
          {"no index keys": -132 * 256}, "b9500"),
    Rules("MiniMax M3", {"model_type": "minimax_m3", "layers": "1 full+indexer", "caches": {"indexer": {"dim": 128}}},
          "llama-cli -c 256", {"an unused V beside the index key": 64 * 2 * 256}),
    Rules("T5", {"model_type": "t5", "layers": "1 full+cross", "encoder_tokens": 512,
                 "caches": {"cross": {"tokens": "input"}}}, "llama-cli -c 256",
          {"no cross-attention cache": -512 * 512}),
    # Each sequence of a hybrid had as many cells as all together, until October 2025.
    Rules("hybrids of 2025", {**QWEN35, "layers": "1 state, 1 full"}, "llama-cli -c 512 -np 2 -fa on",
          {"f32 state": 2 * 96 * 2, "the whole context for each sequence": 512 * 512}, "b6400"),
]  # fmt: skip


@pytest.mark.parametrize("case", RULES, ids=lambda case: case.name)
def test_rules(case: Rules) -> None:
    """The differences between what the model needs and what llama.cpp takes, each by its name, worked out by hand."""
    assert why(reserved(model_with(**case.facts), case.command, case.build)) == case.differences


def test_pruned_layers_get_the_widest_v_and_count_as_layers() -> None:
    """Nemotron-NAS: empty tensors with flash attention, V of the widest layer without it (1 x 128 x 2 B x 256)."""
    pruned = model_with(
        model_type="nemotron-nas", layers="full, noop", caches={"noop": {"kind": "full", "kv_heads": 0}}
    )
    assert why(reserved(pruned, "llama-cli -c 256")) == {}
    assert why(reserved(pruned, "llama-cli -c 256 -fa off")) == {"V of the widest layer": 2 * 64 * 2 * 256}
    assert "( 256 cells,   2 layers" in reserved(pruned, "llama-cli -c 256").allocation.log[1].replace(
        "(   256", "( 256"
    )


def test_draft_layers_have_a_context_of_their_own() -> None:
    """With --spec-type draft-mtp the draft layers are cached as well, in f16 unless -ctkd and -ctvd say otherwise."""
    model = model_with(model_type="qwen3_5_text", layers="1 full", draft="1 full")
    assert why(reserved(model, "llama-cli -c 256")) == {}
    drafting = "llama-cli -c 256 --spec-type draft-mtp"
    assert why(reserved(model, drafting)) == {"a context for the draft layers": 512 * 256}
    assert why(reserved(model, f"{drafting} -ctkd q8_0 -ctvd q8_0")) == {"a context for the draft layers": 272 * 256}
    alone = question_of(model_with(model_type="qwen3_5_text", layers="1 full"), drafting)
    assert alone.settings["n_rs_seq"] == 3


def test_stages_hold_their_layers() -> None:
    """-ts and -ngl do not change the sum; --pp says what the fullest device holds."""
    found = reserved(model_with(layers="3 full"), "llama-cli -c 256", pp=2)
    assert (found.reserved_total, found.reserved_per_gpu) == (3 * 512 * 256, 2 * 512 * 256)
