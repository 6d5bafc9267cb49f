"""What of the weights one GPU holds, by hand and against start-up logs."""

import pytest

from kvcalc.core.dtypes import WEIGHTS
from kvcalc.core.sharding import Layout
from kvcalc.core.weights import Weights, parse, rank_weights
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

GIB = 2**30
LLAMA = 70_553_706_496  # parameters of Llama 3 70B
NORMS = 161 * 8192  # of which every rank has all


def test_tensor_parallel() -> None:
    """Matrices and tables are divided, norms are not."""
    found = rank_weights(loader.load("llama3-70b"), "auto", Layout(4))
    assert found.fullest.likely == (LLAMA - NORMS) // 4 * 2 + NORMS * 2
    assert found.fullest.low == found.fullest.high
    assert not found.estimated
    assert sum(found.roles.values()) == found.fullest.likely


def test_more_ranks_than_heads() -> None:
    """Eight KV heads on 16 ranks: each holds one of them whole."""
    found = rank_weights(loader.load("llama3-70b"), "auto", Layout(16))
    assert found.roles["key"] == 80 * 8192 * 128 * 2
    assert found.roles["query"] == 80 * 8192 * 64 * 128 // 16 * 2


def test_pipeline_stages() -> None:
    """The first stage has the table of embeddings, the last the output head and the last norm."""
    found = rank_weights(loader.load("llama3-70b"), "auto", Layout(1, 4))
    layers, table = 20 * (150_994_944 + 704_643_072 + 2 * 8192) * 2, 128256 * 8192 * 2
    assert [stage.likely for stage in found.stages] == [layers + table, layers, layers, layers + table + 8192 * 2]


def test_a_tied_table_is_on_both_ends() -> None:
    """A table that serves as output head too is on the first and the last stage."""
    one, two = (rank_weights(loader.load("gemma2-2b"), "auto", Layout(1, pp)) for pp in (1, 2))
    table = 256_000 * 2304 * 2
    assert sum(stage.likely for stage in two.stages) == one.fullest.likely + table


def test_experts_over_all_ranks() -> None:
    """DeepSeek V3 with attention on every rank and its experts over eight: 58 layers of 256 experts, 3 matrices."""
    model = loader.load("deepseek-v3")
    alone, spread = rank_weights(model, "auto"), rank_weights(model, "auto", Layout(dp=8, ep=8, sharing=8))
    experts = 58 * 256 * 3 * 7168 * 2048  # bytes, in fp8
    assert alone.fullest.likely - spread.fullest.likely == experts - experts // 8
    assert spread.roles["expert_up"] + spread.roles["expert_down"] == experts // 8


# Of DeepSeek V3, in fp8: 58 layers of experts with 3 matrices of 7,168 x 2,048; 3 dense layers of 18,432 channels.
EXPERT, DENSE = 58 * 3 * 7168 * 2048, 3 * 3 * 7168 * 18432


@pytest.mark.parametrize(
    ("layout", "experts"),
    [
        (Layout(8), 256 / 8),  # each expert cut in eight
        (Layout(8, ep=8), 256 / 8),  # or whole ones
        (Layout(8, ep=2), 256 / 8),  # or half of them cut in four
        (Layout(dp=16, ep=16, sharing=16), 16),
        (Layout(4, dp=2, sharing=2), 256 / 8),  # two replicas of attention share one copy
        (Layout(4, dp=4, ep=8, sharing=2), 32),  # as do two and two
        (Layout(8, dp=3, ep=24, sharing=3), 11),  # 256 experts on 24 ranks: one has eleven
    ],
)
def test_experts_are_spread_or_shared(layout: Layout, experts: float) -> None:
    """A rank holds so many experts, or slices that come to as many; all else as attention is divided."""
    model = loader.load("deepseek-v3")
    roles = rank_weights(model, "auto", layout).roles
    assert roles["expert_up"] + roles["expert_down"] == int(experts * EXPERT)
    alone = rank_weights(model, "auto", Layout(layout.tp)).roles
    rest = {role: size for role, size in roles.items() if not role.startswith("expert")}
    assert rest == {role: size for role, size in alone.items() if not role.startswith("expert")}


def test_what_sglang_divides_as_it_does_experts() -> None:
    """Dense layers and the output head over all 16 ranks, the embedding and attention on each."""
    model, layout = loader.load("deepseek-v3"), Layout(dp=16, ep=16, sharing=16)
    roles = rank_weights(model, "auto", layout, divided=("up", "down", "shared_up", "shared_down", "head")).roles
    whole = rank_weights(model, "auto", layout).roles
    assert (roles["up"] + roles["down"], whole["up"] + whole["down"]) == (DENSE // 16, DENSE)
    assert whole["head"] == 16 * roles["head"]
    assert (roles["embedding"], roles["latent"]) == (whole["embedding"], whole["latent"])


def test_what_shares_no_experts_is_refused() -> None:
    """Without widths nothing says which part of the weights the experts are."""
    bare = loader.load_text(model(", parameters: 30000000"), "m.yaml")
    with pytest.raises(KvcalcError, match="--dp-attention: which part"):
        rank_weights(bare, "auto", Layout(dp=2, sharing=2))


def test_what_every_rank_holds_whole() -> None:
    """Projections down to the latents, routers: not less on eight ranks."""
    model = loader.load("deepseek-v3")
    one, eight = rank_weights(model, "auto"), rank_weights(model, "auto", Layout(8))
    for role in ("latent", "router", "norm"):
        assert one.roles[role] == eight.roles[role]
    assert eight.roles["latent"] == 61 * 7168 * (1536 + 576)


def test_what_a_checkpoint_keeps() -> None:
    """Kimi K2.5 has attention, its dense layer and shared experts in 16 bits, by its configuration."""
    model = loader.load("kimi-k2.5")
    found = rank_weights(model, "auto")
    assert found.roles["shared_up"] + found.roles["shared_down"] == 60 * 3 * 7168 * 2048 * 2
    assert found.roles["query"] == 61 * 1536 * 64 * 192 * 2
    asked = rank_weights(model, parse("int4", "--weights"))  # another checkpoint, which keeps what such files do
    assert asked.fullest.likely < found.fullest.likely


# GiB of one GPU that engines printed after loading (../shared/cases/startups.json, by id): bf16, fp8, AWQ, NF4, GGUF.
LOGGED = [
    ("E189", "llama3.3-70b", "auto", 4, 1, 32.89),
    ("P087", "qwen3-32b", "auto", 1, 1, 61.03),
    ("P093", "qwen3-8b", "auto", 4, 1, 3.85),
    ("P092", "qwen2.5-1.5b", "auto", 1, 1, 2.89),
    ("E138", "llama3.3-70b", "fp8", 4, 1, 16.96),
    ("P108", "qwen3-8b", "fp8", 1, 1, 8.80),
    ("E117", "minimax-m2.7", "auto", 8, 1, 27.01),
    ("P020", "deepseek-v3", "auto", 8, 1, 79.74),
    ("P099", "deepseek-v3", "awq", 8, 2, 22.34),
    ("P105", "deepseek-v3", "awq", 16, 1, 21.21),
    ("E206", "deepseek-v3.2", "nvfp4", 8, 1, 48.62),
    ("P104", "qwen2.5-7b", "nf4", 1, 1, 5.43),
    ("P103", "llama3.2-3b", "q8_0", 1, 1, 3.26),
    ("P021", "ministral3-14b", "fp8", 1, 1, 14.71),
]


@pytest.mark.parametrize(("preset", "weights", "tp", "pp", "printed"), [row[1:] for row in LOGGED], ids=str)
def test_start_up_logs(preset: str, weights: str, tp: int, pp: int, printed: float) -> None:
    """What engines say that they loaded, within 2 per cent or 0.1 GiB."""
    found = rank_weights(loader.load(preset), parse(weights, "--weights"), Layout(tp, pp))
    assert found.fullest.likely / GIB == pytest.approx(printed, rel=0.02, abs=0.1)


def model(facts: str) -> bytes:
    return f"{{name: M, dtype: bf16, heads: 8, kv_heads: 2, head_dim: 64, layers: 4 full{facts}}}".encode()


@pytest.mark.parametrize(
    ("facts", "weights", "likely", "low", "high"),
    [
        ("", "none", 0, 0, 0),
        ("", 1001, 251, 251, 251),  # a size, spread over four GPUs
        (", weights_bytes: 1001", "auto", 251, 251, 251),
        (", parameters: 4000", "auto", 2000, 1940, 2060),  # nothing known of the parts: 3 per cent either way
        (", parameters: 4000", WEIGHTS["fp8"], 1000, 750, 1250),  # and a quarter where tables may be wider
    ],
)
def test_what_is_not_known(facts: str, weights: Weights, likely: int, low: int, high: int) -> None:
    """Without widths the weights are spread evenly, and the range is wider."""
    found = rank_weights(loader.load_text(model(facts), "m.yaml"), weights, Layout(2, 2))
    assert found.fullest == (low, likely, high)


def test_measured_bytes_are_divided_as_parts() -> None:
    """A measured checkpoint is shared out by what its parts take: all ranks together hold more than it."""
    facts = ", weights_bytes: 30000000, dimensions: {hidden: 512, vocab: 1000, intermediate: 2048}"
    found = rank_weights(loader.load_text(model(facts), "m.yaml"), "auto", Layout(4))
    whole = 16_232_960
    norms, doubled = 9 * 512, 4 * 2 * 512 * 2 * 64 // 4  # two KV heads on four ranks: each has half, not a quarter
    assert found.fullest.likely == -(-((whole - norms) // 4 + norms + doubled) * 30_000_000 // whole)
