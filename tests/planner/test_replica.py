"""One replica's cache as its GPUs hold it, against sums by hand and two published ones."""

import pytest

from kvcalc.core import request
from kvcalc.core.model import Indexer, Latent, Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.units import MOST_TOKENS
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.planner.replica import ExactReplica, replica_layout, replica_layouts

from .hand import ALONE, ANY, FULL, WINDOW, model

GIB = 2**30


def replica(of: Model, layout: Layout = ALONE, shared: int = 0) -> ExactReplica:
    asked = ask(of)
    return ExactReplica(replica_layout(of, layout), asked.widths, asked.encoder_tokens, shared)


# Two full layers on the first stage; a full one and a window of 100 on the second. A layer has 512 B a token.
UNEQUAL = model(FULL, FULL, FULL, WINDOW)
STAGED = Layout(pp=2)


@pytest.mark.parametrize(
    ("prefix", "tokens", "shared", "least_shared", "each", "three"),
    [
        # First stage 2 x 512 x 1,000 = 1,024,000 B a sequence; the second 512,000 + 51,200 = 563,200.
        (0, 1_000, 0, 0, 1_024_000, 3 * 1_024_000),
        # 300 tokens are held once: 2 x 153,600 on the first stage, 153,600 on the second, whose window shares nothing.
        # Each then has 1,024,000 - 307,200 = 716,800 of its own, and 563,200 - 153,600 = 409,600.
        (300, 1_000, 307_200, 153_600, 716_800, 307_200 + 3 * 716_800),
        # No more can be shared than there is: 200 tokens are 204,800 and 102,400 + 51,200 B; the window stays.
        (300, 200, 204_800, 102_400, 51_200, 102_400 + 3 * 51_200),
    ],
)
def test_stages_that_hold_unequal_parts(
    prefix: int, tokens: int, shared: int, least_shared: int, each: int, three: int
) -> None:
    """The fullest GPU decides, which is one for few sequences and may be another for many."""
    found = replica(UNEQUAL, STAGED, prefix)
    assert found.shared(tokens) == shared
    assert found.least_shared(tokens) == least_shared
    assert found.each(tokens) == each
    assert found.needed(3, tokens) == three
    assert found.holds(3, tokens, three)
    assert not found.holds(3, tokens, three - 1)
    assert (found.largest(tokens, three), found.largest(tokens, three - 1)) == (3, 2)


def test_the_fullest_stage_changes_with_the_number_of_sequences() -> None:
    """With 200 tokens shared the first stage needs 204,800 B and nothing more, the second 102,400 + 51,200 a sequence."""
    found = replica(UNEQUAL, STAGED, 200)
    assert [found.needed(n, 200) for n in (1, 2, 3)] == [204_800, 204_800, 256_000]
    assert [found.largest(200, free) for free in (204_799, 204_800, 255_999, 256_000)] == [0, 2, 2, 3]


def test_what_takes_nothing_is_held_without_end() -> None:
    """A prefix that is all of every sequence: once it is there, any number finds room, up to the bound that is asked for."""
    found = replica(model(FULL), shared=100)
    assert found.largest(100, 51_200) == MOST_TOKENS
    assert found.largest(100, 51_200, most=7) == 7
    assert found.largest(100, 51_199) == 0


# 4 layers x 512 B x 1,000 tokens: 2,048,000 B a sequence; a replica of 7,000,000 B holds 3.
@pytest.mark.parametrize(
    ("sequences", "free", "most", "replicas"),
    [
        (1, 7_000_000, 64, 1),
        (3, 7_000_000, 64, 1),
        (4, 7_000_000, 64, 2),
        (9, 7_000_000, 3, 3),
        (10, 7_000_000, 3, None),
        (1, 2_048_000, 64, 1),
        (1, 2_047_999, 64, None),
    ],
)
def test_the_fewest_replicas(sequences: int, free: int, most: int, replicas: int | None) -> None:
    """Sequences over what one replica holds, rounded up."""
    assert replica(model()).least(sequences, 1_000, free, most) == replicas


def test_only_what_every_sequence_has_alike_is_shared() -> None:
    """Full attention, latents and their indexes of one prefix are the same for all; a window is where its sequence is."""
    latent, index = Latent(rank=96, rope=32, heads=4, k_dim=64, v_dim=64), Indexer(dim=32)
    found = replica(model(FULL, WINDOW, latent, index), shared=10)
    # 512 B, 128 x 2 B and 32 x 2 B a token
    assert found.shared(1_000) == 10 * (512 + 256 + 64)
    assert found.each(1_000) == 990 * (512 + 256 + 64) + 100 * 512


def test_a_fit_with_a_shared_prefix() -> None:
    """10,000,000 B: 300 of 1,000 tokens once (614,400 B), 1,433,600 B for each sequence: 6 of them. Capacity is told in
    tokens of sequences that share nothing: 10,000,000 / 2,048.
    """
    from kvcalc.core.memory import MemorySplit

    asked = ask(model(), context=1_000, batch=6)
    found = replica(model(), shared=300).fit(MemorySplit(10_000_000), asked)
    assert (found.max_batch, found.fits, found.kv_asked) == (6, True, 614_400 + 6 * 1_433_600)
    assert found.capacity_tokens == 10_000_000 // 2_048
    assert not replica(model(), shared=300).fit(MemorySplit(10_000_000), asked._replace(batch=7)).fits


def layouts(of: Model, most: int, widest: int, pinned: Layout = ANY, *, context: bool = False) -> list[tuple[int, ...]]:
    found = replica_layouts(of, most, widest, pinned, context_parallel=context)
    return [(each.layout.tp, each.layout.pp, each.layout.dcp) for each in found]


def test_every_way_to_spread_a_model() -> None:
    """4 layers, 4 query heads: tp 1, 2 or 4 and up to 4 stages, fewest GPUs first, tp no wider than a machine."""
    assert layouts(model(), 4, 8) == [(1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 3, 1), (1, 4, 1), (2, 2, 1), (4, 1, 1)]
    assert layouts(model(), 8, 2) == [
        (1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 3, 1), (1, 4, 1), (2, 2, 1), (2, 3, 1), (2, 4, 1),
    ]  # fmt: skip
    assert layouts(model(), 16, 16, Layout(4, 0, 0, 0)) == [(4, n, 1) for n in (1, 2, 3, 4)]
    assert layouts(model(), 16, 16, Layout(0, 3, 0, 0)) == [(1, 3, 1), (2, 3, 1), (4, 3, 1)]


def test_contexts_are_split_where_that_is_asked_for() -> None:
    """dcp divides tp."""
    assert layouts(model(), 4, 4, Layout(4, 1, 0, 0), context=True) == [(4, 1, 1), (4, 1, 2), (4, 1, 4)]
    assert layouts(model(), 4, 4, Layout(4, 1, 0, 2)) == [(4, 1, 2)]


def test_what_is_pinned_and_cannot_be_is_refused() -> None:
    """3 does not divide 4 query heads; where nothing is pinned there is just no such way."""
    with pytest.raises(KvcalcError, match="--tp: 3 does not divide"):
        layouts(model(), 16, 16, Layout(3, 0, 0, 0))
    assert (3, 1, 1) not in layouts(model(), 16, 16)


def test_stages_that_are_alike_are_kept_once() -> None:
    """Four equal layers on two stages are one stage to work out; three layers on two stages are two."""
    assert len(replica_layout(model(), STAGED).stages) == 1
    assert len(replica_layout(model(FULL, FULL, FULL), STAGED).stages) == 2


def test_a_latent_is_whole_on_every_rank() -> None:
    """Kimi-K2 at tp 8 keeps 70,272 B a token on each rank; decode context parallelism over 8 holds 8 times as many."""
    of = loader.load("kimi-k2")
    widths = request.ask(of).widths
    whole = ExactReplica(replica_layout(of, Layout(8)), widths, None)
    assert whole.needed(1, 1) == 61 * 576 * 2 == 70_272
    # vLLM's log of Kimi-K2-Thinking: 46.80 GiB on each GPU, 715,072 tokens in blocks of 64
    assert whole.largest(64, 46 * GIB + 80 * GIB // 100) * 64 == 715_072
    split = ExactReplica(replica_layout(of, Layout(8, dcp=8)), widths, None)
    assert split.needed(1, 8 * 64) == whole.needed(1, 64)


def test_heads_are_replicated_beyond_their_number() -> None:
    """Qwen3-235B has 4 KV heads: 192,512 B a token, and at tp 8 385,024 B on all ranks together."""
    of = loader.load("qwen3-235b-a22b")
    widths = request.ask(of).widths
    assert [tp * ExactReplica(replica_layout(of, Layout(tp)), widths, None).needed(1, 1) for tp in (1, 4, 8)] == [
        192_512,
        192_512,
        385_024,
    ]


def test_a_window_shares_nothing() -> None:
    """Gemma's windows belong to each sequence: a shared prefix saves in the full layers alone.

    Gemma 3 27B: 10 of 62 layers are full with 16 KV heads of 128, 8,192 B a token and layer; windows keep 1,024.
    """
    memory = replica(loader.load("gemma3-27b"), shared=4_096)
    assert memory.shared(8_192) == 10 * 8_192 * 4_096
    assert memory.each(8_192) == 10 * 8_192 * 4_096 + 52 * 8_192 * 1_024
