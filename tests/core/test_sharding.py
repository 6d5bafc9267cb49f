"""What one GPU holds under tensor, pipeline, data and decode-context parallelism."""

import pytest

from kvcalc.core import request, sharding
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

FULL = Attention("full", heads=64, kv_heads=8, k_dim=128, v_dim=128)
SLIDING = Attention("sliding", heads=64, kv_heads=8, k_dim=64, v_dim=64, span=128)
LATENT = Latent(rank=512, rope=64, heads=128, k_dim=192, v_dim=128)
CSA = Compressed(ratio=4, dim=512, rope=64, heads=64, indexer=128)


def per_gpu(preset: str, context: int, batch: int = 1, **layout: int) -> int:
    """Bytes on the fullest GPU, in 16 bits."""
    asked = request.ask(loader.load(preset), context=context, batch=batch, kv_dtype="bf16")
    return measure(asked._replace(layout=Layout(**layout))).bytes_per_gpu


@pytest.mark.parametrize(("tp", "kv_heads"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1), (32, 1), (64, 1)])
def test_kv_heads_are_split_then_replicated(tp: int, kv_heads: int) -> None:
    """A rank of Llama 3 70B holds a share of 8 KV heads, and one whole head where there are more ranks than heads."""
    local = sharding.shard(FULL, Layout(tp=tp))
    assert local == Attention("full", heads=64 // tp, kv_heads=kv_heads, k_dim=128, v_dim=128)


def test_replication_in_bytes() -> None:
    """Llama 3 70B at tp 16 takes as much of each GPU as at tp 8: 80 x 2 x 128 x 2 B a token."""
    assert [per_gpu("llama3-70b", 1, tp=tp) for tp in (1, 8, 16)] == [327_680, 40_960, 40_960]


def test_latents_are_whole_on_every_rank() -> None:
    """DeepSeek V3.2 takes 61 x (1,152 + 132) B a token of each GPU at any tp."""
    assert [per_gpu("deepseek-v3.2", 10, tp=tp) for tp in (1, 8, 16)] == [783_240, 783_240, 783_240]


@pytest.mark.parametrize(
    ("cache", "tp", "local"),
    [
        (
            Recurrent("mamba1", inner=8_192, state=16, conv=4),
            8,
            Recurrent("mamba1", inner=1_024, state=16, conv=4),
        ),
        (
            Recurrent("mamba2", heads=128, head_dim=64, groups=8, state=128, conv=4),
            8,
            Recurrent("mamba2", heads=16, head_dim=64, groups=1, state=128, conv=4),
        ),
        (  # more ranks than groups: one group on each, whole
            Recurrent("mamba2", heads=128, head_dim=64, groups=8, state=128, conv=4),
            16,
            Recurrent("mamba2", heads=8, head_dim=64, groups=1, state=128, conv=4),
        ),
        (
            Recurrent("deltanet", k_heads=16, k_dim=128, v_heads=32, v_dim=128, conv=4),
            4,
            Recurrent("deltanet", k_heads=4, k_dim=128, v_heads=8, v_dim=128, conv=4),
        ),
        (Recurrent("kda", heads=32, head_dim=128, conv=4), 8, Recurrent("kda", heads=4, head_dim=128, conv=4)),
        (Recurrent("lightning", heads=64, head_dim=128), 8, Recurrent("lightning", heads=8, head_dim=128)),
        (Recurrent("shortconv", width=2_048, conv=3), 2, Recurrent("shortconv", width=1_024, conv=3)),
        (Recurrent("rglru", width=2_560, conv=4), 2, Recurrent("rglru", width=1_280, conv=4)),
        (Recurrent("rwkv", width=2_048, head_dim=64), 1, Recurrent("rwkv", width=2_048, head_dim=64)),
        (Indexer(128, store="fp8+scale"), 8, Indexer(128, store="fp8+scale")),
        (CSA, 8, Compressed(ratio=4, dim=512, rope=64, heads=8, indexer=128)),
        (LATENT, 8, Latent(rank=512, rope=64, heads=16, k_dim=192, v_dim=128)),
        (Shared(FULL), 4, Shared(Attention("full", heads=16, kv_heads=2, k_dim=128, v_dim=128))),
        (SLIDING, 4, Attention("sliding", heads=16, kv_heads=2, k_dim=64, v_dim=64, span=128)),
    ],
)
def test_shard(cache: Cache, tp: int, local: Cache) -> None:
    """Heads and channels are divided over the ranks; what serves all heads is not."""
    assert sharding.shard(cache, Layout(tp=tp)) == local


@pytest.mark.parametrize(
    ("cache", "tp", "reason"),
    [
        (FULL, 3, "3 does not divide the model's 64 query heads"),
        (
            Attention("full", heads=12, kv_heads=4, k_dim=64, v_dim=64),
            6,
            "6 neither divides the model's 4 KV heads nor is a multiple of them",
        ),
        (LATENT, 3, "3 does not divide the model's 128 query heads"),
        (CSA, 3, "3 does not divide the model's 64 query heads"),
        (Recurrent("mamba1", inner=100, state=16, conv=4), 8, "8 does not divide the model's 100 inner channels"),
        (
            Recurrent("mamba2", heads=50, head_dim=64, groups=1, state=128, conv=4),
            4,
            "4 does not divide the model's 50 state heads",
        ),
        (
            Recurrent("mamba2", heads=48, head_dim=64, groups=6, state=128, conv=4),
            4,
            "4 neither divides the model's 6 state groups nor is a multiple of them",
        ),
        (
            Recurrent("deltanet", k_heads=6, k_dim=8, v_heads=12, v_dim=8, conv=4),
            4,
            "4 does not divide the model's 6 key heads",
        ),
        (Recurrent("kda", heads=10, head_dim=8, conv=4), 4, "4 does not divide the model's 10 state heads"),
        (Recurrent("lightning", heads=10, head_dim=8), 4, "4 does not divide the model's 10 state heads"),
        (Recurrent("shortconv", width=2_047, conv=3), 2, "2 does not divide the model's 2,047 channels"),
        (Recurrent("rglru", width=7, conv=3), 2, "2 does not divide the model's 7 channels"),
        (Recurrent("rwkv", width=64, head_dim=8), 2, "no engine's rule for splitting an RWKV state is known, got 2"),
        (Recurrent("rwkv4", width=64), 2, "no engine's rule for splitting an RWKV state is known, got 2"),
    ],
)
def test_layouts_that_are_refused(cache: Cache, tp: int, reason: str) -> None:
    """A tp that divides neither heads nor state is refused, and the message has the number that it fails on."""
    with pytest.raises(KvcalcError) as caught:
        sharding.shard(cache, Layout(tp=tp))
    assert str(caught.value) == f"--tp: {reason}"


def test_dcp_splits_the_tokens_of_full_attention() -> None:
    """At tp 8 and dcp 2 a rank holds 8 / 4 heads of half the tokens, rounded up."""
    assert sharding.shard(FULL, Layout(tp=8, dcp=2)) == Attention("full", heads=8, kv_heads=2, k_dim=128, v_dim=128)
    assert per_gpu("llama3-70b", 4_096, tp=8, dcp=2) == 80 * 2 * 2 * 128 * 2 * 2_048
    assert per_gpu("llama3-70b", 4_097, tp=8, dcp=2) == 80 * 2 * 2 * 128 * 2 * 2_049


def test_dcp_saves_where_heads_would_be_replicated() -> None:
    """At tp 16 Llama 3 70B holds each of its 8 heads twice; with dcp 2 each copy holds half the tokens."""
    assert per_gpu("llama3-70b", 4_096, tp=16) == 80 * 2 * 128 * 2 * 4_096
    assert per_gpu("llama3-70b", 4_096, tp=16, dcp=2) == 80 * 2 * 128 * 2 * 2_048


@pytest.mark.parametrize(("dcp", "tokens"), [(1, 1_001), (2, 501), (4, 251), (8, 126)])
def test_dcp_splits_latents_and_index_keys(dcp: int, tokens: int) -> None:
    """DeepSeek V3.2 at tp 8: ceil(1,001 / dcp) tokens of 61 x (1,152 + 132) B on each rank."""
    assert per_gpu("deepseek-v3.2", 1_001, tp=8, dcp=dcp) == 78_324 * tokens


def test_dcp_leaves_windows_whole() -> None:
    """gpt-oss-120b at tp 8 and dcp 2: 18 full layers hold two heads of half the tokens, 18 windows one head of 128."""
    assert sharding.shard(SLIDING, Layout(tp=8, dcp=2)) == Attention("sliding", 8, 1, 64, 64, 128)
    assert per_gpu("gpt-oss-120b", 4_096, tp=8, dcp=2) == 18 * 2 * 2 * 64 * 2 * 2_048 + 18 * 2 * 64 * 2 * 128


def test_dcp_of_a_compressed_cache_is_refused() -> None:
    """No rule for splitting DeepSeek V4's entries over ranks is known."""
    with pytest.raises(KvcalcError, match=r"^--dcp: no engine's rule for splitting a compressed cache"):
        sharding.shard(CSA, Layout(tp=8, dcp=2))


def test_dcp_must_divide_tp() -> None:
    """dcp splits the ranks of tp."""
    with pytest.raises(KvcalcError, match=r"^--dcp: 3 does not divide --tp 8$"):
        sharding.place(loader.load("llama3-70b"), Layout(tp=8, dcp=3))


def test_dcp_refusals_name_it() -> None:
    """Where heads do not map onto tp / dcp ranks, both numbers stand in the message."""
    cache = Attention("full", heads=24, kv_heads=8, k_dim=64, v_dim=64)
    with pytest.raises(KvcalcError) as caught:
        sharding.shard(cache, Layout(tp=24, dcp=2))
    assert str(caught.value) == "--tp: 24 / dcp 2 neither divides the model's 8 KV heads nor is a multiple of them"


def test_more_stages_than_layers_are_refused() -> None:
    """Each stage needs a layer."""
    with pytest.raises(KvcalcError, match=r"^--pp: 81 stages are more than the model's 80 layers$"):
        sharding.place(loader.load("llama3-70b"), Layout(pp=81))


@pytest.mark.parametrize(
    ("count", "stages", "bounds"), [(80, 4, [0, 20, 40, 60, 80]), (35, 2, [0, 17, 35]), (61, 4, [0, 15, 30, 45, 61])]
)
def test_stage_bounds(count: int, stages: int, bounds: list[int]) -> None:
    """Stage i holds layers floor(i L / pp) to floor((i + 1) L / pp)."""
    expected = [stage for stage in range(stages) for _ in range(bounds[stage], bounds[stage + 1])]
    assert [sharding.stage_of(i, count, stages) for i in range(count)] == expected


def test_pp_sizes_the_fullest_stage() -> None:
    """61 layers of DeepSeek V3 over four stages: the last has 16."""
    assert per_gpu("deepseek-v3", 100, pp=4) == 16 * 1_152 * 100


@pytest.mark.parametrize(("batch", "local"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_dp_splits_sequences(batch: int, local: int) -> None:
    """The fullest of four replicas holds a quarter of the sequences, rounded up."""
    assert per_gpu("llama3-70b", 100, batch=batch, dp=4) == local * 100 * 327_680


def test_layouts_count_gpus() -> None:
    """dcp adds no GPUs."""
    assert Layout(tp=8, pp=2, dp=3, dcp=4).gpus == 48
