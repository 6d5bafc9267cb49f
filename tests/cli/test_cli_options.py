"""The options that change the cache: dtypes, KV heads, the encoder's side, parallelism. All bytes by hand."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.cli.main import run

Kv = Callable[..., Any]

ELEMENTS = 80 * 2 * 8 * 128  # of K and V a token in llama3-70b


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Kv:
    """The JSON of a command line that is answered with status 0."""

    def answer(*argv: str) -> Any:
        assert run([*argv, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


@pytest.mark.parametrize(
    ("dtype", "block", "block_bytes"),
    [
        ("auto", 1, 2), ("fp32", 1, 4), ("f32", 1, 4), ("fp16", 1, 2), ("f16", 1, 2), ("bf16", 1, 2), ("BF16", 1, 2),
        ("fp8", 1, 1), ("fp8_e4m3", 1, 1), ("fp8_e5m2", 1, 1), ("int8", 1, 1), ("int4", 2, 1), ("nvfp4", 16, 9),
        ("q8_0", 32, 34), ("Q8_0", 32, 34), ("q4_0", 32, 18), ("q4_1", 32, 20), ("q5_0", 32, 22), ("q5_1", 32, 24),
        ("iq4_nl", 32, 18),
    ],
)  # fmt: skip
def test_each_dtype_with_its_scales(answer: Kv, dtype: str, block: int, block_bytes: int) -> None:
    """A block of elements takes its bytes, scales included: 32 elements of q8_0 are 34 bytes."""
    assert answer("llama3-70b", "--kv-dtype", dtype)["kv"]["bytes_per_token"] == ELEMENTS // block * block_bytes


@pytest.mark.parametrize(
    ("argv", "k", "v", "total"),
    [
        (["--k-dtype", "q8_0", "--v-dtype", "q4_0"], "q8_0", "q4_0", 81_920 * 34 // 32 + 81_920 * 18 // 32),
        (["--k-dtype", "fp8"], "fp8", "bf16", 81_920 + 163_840),
        (["--kv-dtype", "fp8", "--v-dtype", "bf16"], "fp8", "bf16", 81_920 + 163_840),
        (["--kv-dtype", "int4", "--k-dtype", "auto"], "bf16", "int4", 163_840 + 40_960),
    ],
)
def test_keys_and_values_may_differ(answer: Kv, argv: list[str], k: str, v: str, total: int) -> None:
    """`--k-dtype` and `--v-dtype` go before `--kv-dtype`, each for its half."""
    found = answer("llama3-70b", *argv)
    assert [found["request"][key] for key in ("k_dtype", "v_dtype")] == [k, v]
    assert found["kv"]["bytes_per_token"] == total


def test_auto_is_the_dtype_the_model_computes_in(answer: Kv) -> None:
    """DeepSeek V3 is stored in fp8 and computes in bf16, so that its cache has 2 bytes an element."""
    assert answer("deepseek-v3", "--kv-dtype", "auto")["request"]["k_dtype"] == "bf16"
    assert answer("gpt2")["request"]["v_dtype"] == "fp32"


def test_recurrent_state_keeps_its_own_dtype(answer: Kv) -> None:
    """A KV dtype changes nothing where there is neither K nor V."""
    assert answer("mamba-2.8b", "--kv-dtype", "fp8")["kv"]["bytes_total"] == 22_937_600


@pytest.mark.parametrize(
    ("heads", "total"), [("1", 40_960), ("8", 327_680), ("16", 655_360), ("64", 2_621_440), ("all", 2_621_440)]
)
def test_kv_heads_replaces_the_cached_heads(answer: Kv, heads: str, total: int) -> None:
    """`--kv-heads N` caches N heads in each of the 80 layers; `all` equals the textbook."""
    found = answer("llama3-70b", "--kv-heads", heads)
    assert found["kv"]["bytes_per_token"] == total
    assert found["textbook"]["bytes_per_token"] == 2_621_440


@pytest.mark.parametrize("model", ["llama3-8b", "falcon-7b", "gpt2", "qwen3-8b", "openelm-270m", "nemotron-super-49b"])
def test_all_heads_give_the_textbook_size_of_full_attention(answer: Kv, model: str) -> None:
    """With every query head cached the exact size is the textbook one."""
    found = answer(model, "--kv-heads", "all", "--batch", "3")
    assert found["kv"]["bytes_total"] == found["textbook"]["bytes_total"]


def test_multi_head_attention_needs_what_the_textbook_says(answer: Kv) -> None:
    """GPT-2 caches all of its 12 heads: 12 layers x 2 x 768 x 4 bytes."""
    found = answer("gpt2")
    assert found["kv"]["bytes_per_token"] == found["textbook"]["bytes_per_token"] == 73_728


CROSS = [
    # model, default encoder tokens, cross bytes an encoder token, self bytes a token, default context
    ("whisper-large-v3", 1500, 32 * 2 * 20 * 64 * 2, 32 * 2 * 20 * 64 * 2, 448),
    ("t5-small", 512, 6 * 2 * 8 * 64 * 4, 6 * 2 * 8 * 64 * 4, 4096),
    ("bart-base", 1024, 6 * 2 * 12 * 64 * 4, 6 * 2 * 12 * 64 * 4, 1024),
    ("llama3.2-11b-vision", 6404, 8 * 2 * 8 * 128 * 2, 32 * 2 * 8 * 128 * 2, 4096),
]


@pytest.mark.parametrize(("model", "encoder", "cross", "own", "context"), CROSS, ids=[row[0] for row in CROSS])
def test_the_encoders_side(answer: Kv, model: str, encoder: int, cross: int, own: int, context: int) -> None:
    """The cross cache is a fixed part of encoder tokens: the contract's default, or as many as are asked for."""
    for argv, tokens in (([], encoder), (["--encoder-tokens", "100"], 100), (["--encoder-tokens", "2k"], 2048)):
        found = answer(model, *argv)
        kv = found["kv"]
        assert (found["request"]["encoder_tokens"], kv["fixed_bytes_per_sequence"]) == (tokens, cross * tokens)
        assert (kv["bytes_per_token"], kv["bytes_per_sequence"]) == (own, own * context + cross * tokens)


def test_the_textbook_of_an_encoder_decoder_is_its_self_attention(answer: Kv) -> None:
    """Whisper large v3: 32 layers x 2 x 20 heads x 64 x 2 bytes a token, however long the audio."""
    for argv in ([], ["--encoder-tokens", "3000"]):
        assert answer("whisper-large-v3", *argv)["textbook"]["bytes_per_token"] == 163_840


SEQUENCE = 1_342_177_280  # of llama3-70b at 4,096 tokens: 80 layers of 16,777,216 bytes


@pytest.mark.parametrize(
    ("argv", "each"),
    [
        ([], SEQUENCE),
        (["--tp", "2"], SEQUENCE // 2),
        (["--tp", "8"], SEQUENCE // 8),
        (["--tp", "16"], SEQUENCE // 8),  # more ranks than KV heads: each head twice
        (["--tp", "64"], SEQUENCE // 8),
        (["--gpus", "8"], SEQUENCE // 8),  # alone means tp
        (["--gpus", "8", "--tp", "4", "--pp", "2"], SEQUENCE // 8),
        (["--gpus", "8", "--dp", "8"], SEQUENCE),
        (["--pp", "2"], SEQUENCE // 2),
        (["--pp", "3"], 27 * 16_777_216),  # stages of 26, 27 and 27 layers
        (["--pp", "80"], 16_777_216),
        (["--tp", "8", "--dcp", "2"], SEQUENCE // 8),  # two heads of half the tokens
        (["--tp", "16", "--dcp", "2"], SEQUENCE // 16),
        (["--tp", "16", "--dcp", "16"], SEQUENCE // 16),
        (["--dp", "2"], SEQUENCE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_fullest_gpu(answer: Kv, argv: list[str], each: int) -> None:
    """What one GPU holds of one sequence of llama3-70b, while the total counts no copy."""
    kv = answer("llama3-70b", *argv)["kv"]
    assert (kv["bytes_total_per_gpu"], kv["bytes_total"]) == (each, SEQUENCE)


@pytest.mark.parametrize(("batch", "held"), [(1, 1), (7, 3), (9, 3), (10, 4)])
def test_replicas_share_the_batch(answer: Kv, batch: int, held: int) -> None:
    """The fullest of three replicas holds a third of the sequences, rounded up."""
    kv = answer("llama3-70b", "--dp", "3", "--batch", str(batch))["kv"]
    assert (kv["bytes_total_per_gpu"], kv["bytes_total"]) == (held * SEQUENCE, batch * SEQUENCE)


def test_a_batch_smaller_than_the_replicas_warns(answer: Kv) -> None:
    """Replicas without a sequence are named in a warning."""
    assert [len(answer("llama3-70b", "--dp", "3", "-b", batch)["warnings"]) for batch in ("1", "3")] == [1, 0]


@pytest.mark.parametrize(
    ("argv", "tokens"), [(["--tp", "8"], 4096), (["--tp", "8", "--dcp", "8"], 512), (["--tp", "8", "--dcp", "2"], 2048)]
)
def test_a_latent_is_whole_on_every_rank(answer: Kv, argv: list[str], tokens: int) -> None:
    """Tensor parallelism does not split DeepSeek's latent; decode context parallelism splits its tokens."""
    assert answer("deepseek-v3", *argv)["kv"]["bytes_total_per_gpu"] == 70_272 * tokens


def test_windows_are_not_split_over_the_context(answer: Kv) -> None:
    """Decode context parallelism leaves a window whole: Mistral 7B v0.1 on 8 ranks keeps one head each."""
    found = answer("mistral-7b-v0.1", "--tp", "8", "--dcp", "2")
    assert found["kv"]["bytes_total_per_gpu"] == 32 * 1 * 256 * 2 * 4096


@pytest.mark.parametrize(
    ("argv", "layout"),
    [(["--gpus", "8"], [8, 1, 1, 1]), (["--gpus", "8", "--dcp", "4"], [8, 1, 1, 4]), (["--gpus", "1"], [1, 1, 1, 1])],
)
def test_gpus_alone_is_tensor_parallelism(answer: Kv, argv: list[str], layout: list[int]) -> None:
    """`--gpus N` without tp, pp and dp means `--tp N`."""
    request = answer("llama3-70b", *argv)["request"]
    assert [request[key] for key in ("tp", "pp", "dp", "dcp")] == layout
