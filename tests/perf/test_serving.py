"""Replicas under load: the fleets of the planning notes, which a scheduler's simulation replayed."""

from typing import NamedTuple

import pytest

from kvcalc.cards.shipped import accelerators
from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.model import Attention, Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.library import loader
from kvcalc.perf.clock import Clock, clock_of
from kvcalc.perf.demand import Work, demand_of, work_of
from kvcalc.perf.load import Load, Margins, Replica, replicas, serve
from kvcalc.perf.workload import Length, Lengths, lengths, split

from .plain import NOTHING_ELSE, demand, machine

# Azure conversations, the first 900 s: sums over 4,424 requests, counted apart from kvcalc (see test_workload).
REQUESTS, P, G, PP, PG, GG = 4_424, 5_188_168, 1_125_283, 10_506_779_440, 1_207_680_374, 418_907_127
SQUARES = 2_153_638_923_426
RATE = REQUESTS / 900  # 4.92 requests/s
CONVERSATION = Lengths(*(s / REQUESTS for s in (P, G, PG, GG, SQUARES)), prompts=(), words="Azure conversations, 900 s")

# Llama 3.1 8B in bf16: 8.03e9 parameters, 32 layers, 4,096 = 32 heads x 128, 131,072 B of cache a token. A prompt takes
# 2 P p + 2 L d_q p^2 FLOPs. `variation` of Azure's prompts is 0.78.
WEIGHTS, LINEAR, QUADRATIC, TOKEN = 16.06e9, 2 * 8.03e9, 2 * 32 * 4096, 131_072
WORK = Work(attention=0, prompt_tokens=P / REQUESTS, prompt=QUADRATIC * PP / REQUESTS, variation=0.78)
LLAMA = demand(WEIGHTS, LINEAR)

CONTEXT = (PG + (GG - G) / 2) / G

SHARES = (0.85, 0.5)  # the simulation's own, and 1 ms a step
PACE = NOTHING_ELSE._replace(step=0.001)


class Gpu(NamedTuple):
    bandwidth: float
    flops: float
    pool: int  # tokens, at utilisation 0.9 with 2 GiB of overhead


GPUS = {
    "l4": Gpu(300e9, 121e12, 23_280),
    "a10g": Gpu(600e9, 70e12, 23_728),
    "l40s": Gpu(864e9, 362.05e12, 188_432),
    "a100": Gpu(2039e9, 312e12, 444_640),
    "h100": Gpu(3350e9, 989e12, 444_864),
}


def replica(gpu: str, work: Work = WORK, shares: tuple[float, float] = SHARES) -> Replica:
    card = GPUS[gpu]
    at = machine(card.bandwidth * shares[0], card.flops * shares[1], pace=PACE)
    return Replica(card.pool * TOKEN, lambda tokens: tokens * TOKEN, Clock(at, LLAMA), work, CONTEXT * TOKEN)


class Fleet(NamedTuple):
    """A fleet of the planning notes: how the closed form and the simulation saw it, and what gave out."""

    gpu: str
    count: int
    overloaded: bool
    batch: float | None = None  # as printed beside the formula; None where only "refused" is
    tpot_ms: float | None = None
    simulated_ms: float | None = None
    queue: float | None = None  # p95 seconds in the simulation


FLEETS = [
    Fleet("h100", 1, overloaded=False, batch=11.3, tpot_ms=9.0, simulated_ms=8.7, queue=0.051),
    Fleet("a100", 2, overloaded=False, batch=10.1, tpot_ms=16.2, simulated_ms=15.5, queue=0.176),
    Fleet("a100", 1, overloaded=False, batch=47.9, tpot_ms=38.3, simulated_ms=43.5, queue=0.626),
    Fleet("l40s", 2, overloaded=False, batch=24.0, tpot_ms=38.4, simulated_ms=36.0, queue=0.121),
    Fleet("l40s", 3, overloaded=False, simulated_ms=29.9, queue=0.026),
    Fleet("l4", 8, overloaded=True, batch=14.3, tpot_ms=91.2, simulated_ms=87.6, queue=5.87),
    Fleet("l40s", 1, overloaded=True, batch=149.9, queue=57.6),
    Fleet("a10g", 6, overloaded=True, queue=25.1),
    Fleet("l4", 6, overloaded=True, queue=177),
    Fleet("a10g", 4, overloaded=True, queue=402),
    Fleet("l4", 4, overloaded=True, queue=643),
    Fleet("a10g", 3, overloaded=True, queue=839),
    Fleet("a10g", 2, overloaded=True, queue=1673),
    Fleet("l4", 2, overloaded=True, queue=2164),
]


def replayed(fleet: Fleet, margins: Margins | None = None, *, shares: tuple[float, float] = SHARES) -> Load:
    return serve(replica(fleet.gpu, shares=shares), CONVERSATION, rate=RATE / fleet.count, margins=margins)


@pytest.mark.parametrize("fleet", [f for f in FLEETS if f.batch], ids=lambda f: f"{f.count} x {f.gpu}")
def test_batch_and_speed_of_a_fleet(fleet: Fleet) -> None:
    """Sequences at once and time per token come out as the planning notes print them, near what a replay shows.

    The notes take the longer of moving and computing, the clock up to a quarter more near the ridge: where 50 sequences
    are in the batch, it has 50.5, the notes 47.9 and the simulation 58.9.
    """
    load = replayed(fleet)
    assert load.concurrency is not None
    assert load.seconds_per_token is not None
    assert load.concurrency == pytest.approx(fleet.batch, rel=0.1)
    if fleet.tpot_ms is not None and fleet.simulated_ms is not None:
        assert 1000 * load.seconds_per_token == pytest.approx(fleet.tpot_ms, rel=0.1)
        assert 0.88 < 1000 * load.seconds_per_token / fleet.simulated_ms < 1.07
    assert round(load.context) == 1259
    assert load.mean_tokens == pytest.approx(load.concurrency * CONTEXT)


def test_prefill_load_of_an_a100() -> None:
    """Prompts keep one A100 busy for 61 % of the time, as the planning notes print it."""
    assert round(replayed(Fleet("a100", 1, overloaded=False)).prefill_load, 2) == 0.61


@pytest.mark.parametrize("shares", [SHARES, (0.8, 0.45)], ids=["the simulation's shares", "those of the notes"])
@pytest.mark.parametrize("fleet", FLEETS, ids=lambda f: f"{f.count} x {f.gpu}")
def test_fleets_are_told_apart(fleet: Fleet, shares: tuple[float, float]) -> None:
    """All 14 fleets are carried or refused as the replay shows: those overloaded queued for 6 s or longer."""
    load = replayed(fleet, shares=shares)
    assert load.carried is not fleet.overloaded
    assert (load.reason is None) is load.carried


def test_the_margin_counts_for_two_of_them() -> None:
    """Without the 60 % rule, 8 x L4 and 6 x A10G would be taken: 77 and 75 % of their pools, and queues of 6 and 25 s."""
    none = Margins(mean=1)
    taken = [f for f in FLEETS if f.overloaded and replayed(f, none).carried]
    assert [(f.gpu, f.count) for f in taken] == [("l4", 8), ("a10g", 6)]
    used = [replayed(f) for f in taken]
    assert [100 * (load.mean_share or 0) for load in used] == pytest.approx([77, 75], abs=1)
    assert used[0].binding == "kv"
    assert used[0].reason == ("77% of the pool in use on average and 129% at the 99th percentile: above 60% and 90%")


# The share of the pool in use 99 in 100 moments: for 14.26 sequences of mean 1,258.86 and mean square 2,153,638,923,426 /
# 1,125,283 = 1,913,864 in 23,280 tokens (17,951 + 2.33 x sqrt(14.26 x 1,913,864)) / 23,280 = 1.294.
def test_the_fullest_hundredth_by_hand() -> None:
    """The 99th percentile follows from the squares of what the sequences hold."""
    load = replayed(FLEETS[5])
    assert load.p99_tokens == pytest.approx(17_951 + 2.33 * (14.26 * 1_913_864) ** 0.5, rel=1e-3)
    assert load.p99_share == pytest.approx(1.294, abs=2e-3)


ENDLESS = "that a batch without end would finish"


@pytest.mark.parametrize(
    ("gpu", "count", "binding", "reason"),
    [
        # 149.9 sequences of 1,259 tokens against 188,432 tokens.
        ("l40s", 1, "kv", " sequences at once, of which the pool holds 149.7"),
        # 2.458 requests/s x 19.46 TFLOP / 35 TFLOP/s = 137 %.
        ("a10g", 2, "compute", "prompts alone ask for 137% of the time"),
        # 1.639 requests/s: 91 % for prompts; 254 tokens of 16.06 GFLOP / 35 TFLOP/s and 1,259 x 131,072 B / 510 GB/s,
        # 0.199 s, and 0.556 s for the prompt: 1.32 requests/s.
        ("a10g", 3, "compute", f"1.64 requests/s are more than the 1.32 {ENDLESS}; prompts alone take 91% of the time"),
    ],
)
def test_the_binding_resource_is_named(gpu: str, count: int, binding: str, reason: str) -> None:
    """A refusal says what one would have to buy: memory, arithmetic or bandwidth."""
    load = replayed(Fleet(gpu, count, overloaded=True))
    assert load.binding == binding
    assert load.reason
    assert load.reason.endswith(reason)


def test_long_contexts_ask_for_bandwidth() -> None:
    """8 requests/s with 20,000 tokens in (cheap to compute) and 500 out read 1.3 GB for each token on an H100: no batch
    keeps up, however large the pool.
    """
    mix = lengths(Length(20_000), Length(500))
    at = machine(0.8 * 3350e9, 10**18)
    endless = Replica(
        10**18, lambda tokens: tokens * TOKEN, Clock(at, LLAMA), work_of(LLAMA.flops, mix), mix.context * TOKEN
    )
    load = serve(endless, mix, rate=8)
    assert (load.binding, load.concurrency, load.mean_share) == ("bandwidth", None, None)
    # Each of 500 tokens reads (20,000 + 249.5) x 131,072 B at 0.8 x 3,350 GB/s: 0.99 ms, and prompts read the weights
    # once for 8,192 tokens, 2.44 x 6 ms: 1.96 requests/s.
    assert load.reason
    assert load.reason.startswith("8 requests/s are more than the 1.96 that")


# Azure code 2023, the planning notes, 2.2: 2.57 requests/s, 2,048 tokens in on average and at most 7,437, 28 out,
# dispersion 13.2. The mean square of the prompts is between that of equal ones and that of the longest and none.
CODE_RATE, CODE_DISPERSION = 2.57, 13.2
CODE_SQUARES = {"equal": 2048**2, "extreme": 2048 * 7437}


@pytest.mark.parametrize("spread", CODE_SQUARES)
def test_code_completion_drowns_in_prompts(spread: str) -> None:
    """One A100 for Azure's code trace: a sixtieth of the pool in use, and yet the replayed queue was 98 s: refused for
    compute. If requests came at random instead of in bursts, it would do.
    """
    squares = CODE_SQUARES[spread]
    work = Work(attention=0, prompt_tokens=2048, prompt=QUADRATIC * squares, variation=squares / 2048**2 - 1)
    code = lengths(Length(2048), Length(28, 90))
    for shares in (SHARES, (0.8, 0.45)):
        server = replica("a100", work, shares)._replace(read=code.context * TOKEN)
        load = serve(server, code, rate=CODE_RATE, arrivals=CODE_DISPERSION)
        assert 0.54 < load.prefill_load < 0.69  # by hand 0.56 to 0.61 at half of 312 TFLOP/s, 0.62 to 0.68 at 0.45
        assert load.binding == "compute"
        assert load.reason
        assert "1 request in 20 waits" in load.reason
        assert load.mean_share is not None
        assert load.mean_share < 0.02  # what a planner that knows the cache alone would see
        assert serve(server, code, rate=CODE_RATE).carried


@pytest.mark.parametrize("fleet", [f for f in FLEETS if not f.overloaded], ids=lambda f: f"{f.count} x {f.gpu}")
def test_waits_are_of_the_size_that_replays_show(fleet: Fleet) -> None:
    """Where few wait, the estimate is no more than 0.15 s above the replay (requests dealt in turn are smoother than
    dealt at random), and it is never below.
    """
    rate = RATE / fleet.count
    load = serve(replica(fleet.gpu), CONVERSATION, rate=rate, arrivals=split(1.4, fleet.count))
    assert fleet.queue is not None
    assert load.wait_seconds is not None
    assert fleet.queue < load.wait_seconds < max(1.5 * fleet.queue, fleet.queue + 0.15)


def test_a_full_pool_finishes_so_many() -> None:
    """Capacity is the rate at which the pool is full on average: 149.7 sequences on an L40S, just below the asked rate."""
    load = replayed(Fleet("l40s", 1, overloaded=True))
    assert load.capacity == pytest.approx(RATE, rel=0.02)
    assert load.capacity < RATE
    full = 188_432 / 1259
    read, computed = WEIGHTS / (0.85 * 864e9), full * LINEAR / (0.5 * 362.05e12)
    step = 0.001 + (read**3 + computed**3) ** (1 / 3) + full * 1259 * TOKEN / (0.85 * 864e9)
    prompt = (LINEAR * P + QUADRATIC * PP) / REQUESTS
    by_notes = full / step * (1 - load.capacity * prompt / (0.5 * 362.05e12)) / (G / REQUESTS)
    assert load.capacity == pytest.approx(by_notes, rel=2e-3)


def test_users_that_are_always_there() -> None:
    """A number of users fixes the batch: only their lengths stray, and the rate follows from the speed."""
    load = serve(replica("h100"), CONVERSATION, users=100)
    assert (load.concurrency, load.carried, load.wait_seconds) == (100, True, None)
    assert load.seconds_per_token is not None
    assert load.rate * (G / REQUESTS) * load.seconds_per_token == pytest.approx(100)  # Little
    spread = (SQUARES / G - CONTEXT**2) ** 0.5
    assert load.p99_tokens == pytest.approx(100 * CONTEXT + 2.33 * 10 * spread)
    # 213 sequences are 60.3 % of 444,864 tokens, and 99 in 100 times below 65 %.
    assert serve(replica("h100"), CONVERSATION, users=213).carried
    crowded = serve(replica("h100"), CONVERSATION, users=340)
    assert (crowded.binding, crowded.carried) == ("kv", False)


def test_as_many_replicas_as_it_takes() -> None:
    """Azure's conversations need 2 L40S, or 3 when one may fail; no number of L4 up to 8 will do."""

    def load_at(gpu: str, rate: float) -> Load:
        return serve(replica(gpu), CONVERSATION, rate=rate)

    assert replicas(lambda rate: load_at("l40s", rate), RATE, 64) == 2
    assert replicas(lambda rate: load_at("l40s", rate), RATE, 64, spare=True) == 3
    assert replicas(lambda rate: load_at("l4", rate), RATE, 8) is None
    assert replicas(lambda rate: load_at("l40s", rate), RATE, 2, spare=True) is None
    assert replicas(lambda rate: load_at("h100", rate), RATE, 1, spare=True) is None


def test_heads_held_twice_are_read_twice() -> None:
    """Qwen3-235B has 4 KV heads: at tp 8 each GPU holds and reads one, as at tp 4, so that the cache's time does not
    halve (94 layers x 1 head x 2 x 128 x 2 B = 48,128 B a token).
    """
    model = loader.load("qwen3-235b-a22b")
    sizes = {tp: measure(ask(model, context=1000, tp=tp)) for tp in (2, 4, 8)}
    assert [sizes[tp].rank_bytes(1000) for tp in (2, 4, 8)] == [96_256_000, 48_128_000, 48_128_000]
    chat = lengths(Length(2000), Length(500))
    card = accelerators()["h100-sxm"].card()
    used = {}
    for tp, size in sizes.items():
        clock = clock_of(card, Layout(tp), model, 470_000_000_000, "bf16")
        work = work_of(clock.demand.flops, chat)
        read = size.rank_bytes(round(chat.context))
        used[tp] = serve(Replica(40 * 10**9, size.rank_bytes, clock, work, read), chat, users=64)
        # 22 of 235 billion parameters are active, 2 FLOPs each but for 151,936 x 4,096 embeddings.
        assert clock.demand.dense + clock.demand.expert == pytest.approx(44e9 - 2 * 151_936 * 4096, rel=0.02)
    attained = [used[tp].mean_share for tp in (2, 4, 8)]
    assert attained[0] == pytest.approx(2 * (attained[1] or 0))
    assert attained[1] == attained[2]


def test_what_llama_asks_for() -> None:
    """The preset of Llama 3.1 8B asks for what the planning notes' formulas have: 2 P a token, 4 L d_q at each context
    token, 2 L d_q p^2 of attention in a prompt, at the speed that a prompt of its length attains; and sums of 4,096 bf16.
    """
    model, mix = loader.load("llama3.1-8b"), lengths(Length(4096), Length(513))
    found = demand_of(model, 16_060_000_000, "bf16")
    work = work_of(found.flops, mix)
    assert work.attention == 4 * 32 * 4096 * 4352  # 4,096 + 512 / 2
    assert work.prompt == pytest.approx(QUADRATIC * 4096**2 * (1 + 1000 / 4096), rel=1e-3)
    assert (found.exchanged, found.blocks.sums, work.variation) == (4096 * 2, 64, 0)
    # A token looks up one row of 128,256 x 4,096, and reads all else.
    assert (found.dense, found.expert) == (pytest.approx(LINEAR - 2 * 128_256 * 4096, rel=1e-3), 0)
    assert found.always == pytest.approx(16_060_000_000 - 2 * 128_256 * 4096, rel=1e-3)
    # Lengths that differ: exponential ones have a squared coefficient of variation of 1, and of squares more.
    exponential = work_of(found.flops, lengths(Length(1000, 2995.73), Length(100)))
    assert exponential.prompt_tokens == pytest.approx(1000, rel=2e-3)
    assert exponential.prompt == pytest.approx(QUADRATIC * (2 * 1000**2 + 1000 * 1000), rel=2e-3)
    assert 1 < exponential.variation < 1.2


def test_what_other_models_ask_for() -> None:
    """Sums between ranks are as wide as the widest layer's values, 8 heads of 64 beside 4: 512 bf16, two in each of two
    layers. Parameters that are used twice are read once: no more weights are read than there are.
    """
    narrow = Attention("full", heads=4, kv_heads=2, k_dim=64, v_dim=64)
    model = Model(
        name="M", layers=((narrow,), (narrow._replace(heads=8),)), dtype=COMPUTE["bf16"], parameters=100,
        active_parameters=300,
    )  # fmt: skip
    found = demand_of(model, 1_000, "bf16")
    assert (found.exchanged, found.blocks.sums) == (512 * 2, 4)
    assert found.read(1) <= 1_000


def test_windows_stop_growing() -> None:
    """Where a sequence holds the same whatever its length (a state), the pool strays with the number of sequences
    alone: 100 of them, 2.33 x sqrt(100) more at times.
    """
    state = Replica(10**9, lambda _: 10**6, Clock(machine(3350e9, 989e12), LLAMA), WORK, 10**6)
    users = serve(state, CONVERSATION, users=100)
    assert (users.mean_share, users.p99_share) == (pytest.approx(0.1), pytest.approx(0.1))
    rate = users.rate
    coming = serve(state, CONVERSATION, rate=rate)
    assert coming.mean_share == pytest.approx(0.1)
    assert coming.p99_share == pytest.approx(0.1 + 0.1 * 2.33 / 10)


def test_what_is_read_counts_apart_from_what_is_held() -> None:
    """Sparse attention that reads a tenth of its cache fills the pool as before, and is as much quicker."""
    whole = replica("h100", shares=(1, 1))
    sparse = whole._replace(read=CONTEXT * TOKEN / 10)
    before, after = (serve(each, CONVERSATION, users=200) for each in (whole, sparse))
    assert after.mean_share == before.mean_share
    assert before.seconds_per_token is not None
    assert after.seconds_per_token is not None
    # 200 x 1,259 x 131,072 B at 3,350 GB/s, in the time that prompts leave.
    spared = 0.9 * 200 * 1259 * TOKEN / 3350e9
    steps = [load.seconds_per_token * (1 - load.prefill_load) for load in (before, after) if load.seconds_per_token]
    assert steps[0] - steps[1] == pytest.approx(spared, rel=1e-3)


def test_a_pool_that_is_exactly_full_is_enough() -> None:
    """Ten sequences of 1,000 bytes in 10,000, where no margin is asked for; eleven are too many."""
    ten = Replica(10_000, lambda _: 1_000, Clock(machine(3350e9, 989e12), LLAMA), WORK, 1_000)
    margins = Margins(mean=1, p99=10)
    assert serve(ten, CONVERSATION, users=10, margins=margins).binding is None
    assert serve(ten, CONVERSATION, users=11, margins=margins).binding == "kv"


def test_a_wait_that_is_just_as_long_as_it_may_be() -> None:
    """The margin is met by its own length, and not by any less."""
    before = replayed(Fleet("a100", 2, overloaded=False))
    assert before.wait_seconds is not None
    for seconds, carried in ((before.wait_seconds, True), (before.wait_seconds * 0.999, False)):
        found = replayed(Fleet("a100", 2, overloaded=False), margins=Margins(wait_seconds=seconds))
        assert found.carried is carried


def test_a_prompt_passes_every_stage() -> None:
    """10^12 FLOPs at 10^12 a second: one second on one GPU, and on four stages a quarter on each, one after the other."""
    work = Work(attention=0, prompt_tokens=1, prompt=10**12, variation=0)
    one, four = (
        serve(
            Replica(10**12, lambda _: 1, Clock(machine(3350e9, 1e12, pp=pp), demand(1, 1)), work, 1),
            CONVERSATION,
            rate=0.1,
        )
        for pp in (1, 4)
    )
    assert (one.prefill_seconds, four.prefill_seconds) == pytest.approx((1, 1))
    # A GPU is busy with prompts for as long as its own stage takes.
    assert (one.prefill_load, four.prefill_load) == pytest.approx((0.1, 0.025))


def test_a_slow_link_is_named_too() -> None:
    """Where the sums of prompts over PCIe take longer than their arithmetic, compute is not what one would buy."""
    at = machine(3350e9, 989e12, tp=4, link=1e9)
    asked = demand(WEIGHTS, LINEAR, exchanged=8192, sums=64)
    slow = Replica(10**12, lambda tokens: tokens * TOKEN, Clock(at, asked), WORK, CONTEXT * TOKEN)
    # 1,173 tokens x 1.5 x 524,288 B at 1 GB/s: 0.92 s a prompt, 10 ms of arithmetic.
    for rate, reason in ((2, "prompts alone ask for 18"), (0.9, "prompts take 8")):
        load = serve(slow, lengths(Length(1173), Length(2)), rate=rate, arrivals=5)
        assert load.binding == "bandwidth"
        assert load.reason
        assert load.reason.startswith(reason)


def test_no_room_at_all() -> None:
    """A pool that weights have eaten holds nobody."""
    for pool in (0, -(10**9)):
        full = serve(replica("h100")._replace(pool=pool), CONVERSATION, rate=0.01)
        assert (full.binding, full.capacity) == ("kv", 0)
        assert str(full.reason).endswith("of which the pool holds 0.0")


def test_the_first_token_by_hand() -> None:
    """4 users with prompts of 100 ms and 30 steps of 10 ms: 100 + 5 ms, the front end's 60, and three quarters of the wait
    in M/D/1 for others (of four, one is oneself). All at once, they wait for 1.5 prompts on average.
    """
    pace = NOTHING_ELSE._replace(step=0.010, front_end=0.060, prompt_tokens=1)
    at = machine(1e30, 1e12, pace=pace)
    server = Replica(10**9, lambda _: 1, Clock(at, demand(0, 0)), Work(0, 1, 1e11 - 1e10), 0)
    load = serve(server, lengths(Length(1), Length(30)), users=4)
    # rate = 4 / (30 x 10 ms + 4 x 100 ms) = 5.71, so that prompts take 57 %.
    busy = 4 / (30 * 0.010 + 4 * 0.100) * 0.100
    assert load.prefill_load == pytest.approx(busy)
    assert load.prefill_seconds == pytest.approx(0.100)
    assert load.ttft_seconds == pytest.approx(0.100 + 0.005 + 0.060 + 0.75 * busy / (1 - busy) / 2 * 0.100)
    assert load.burst_seconds == pytest.approx(0.165 + 1.5 * 0.100)
    assert load.ttft is not None
    assert load.tpot is not None
    assert load.ttft.high >= 1.5 * load.burst_seconds
    assert load.tpot.low * 1.5 == pytest.approx(0.010 / (1 - busy)) == pytest.approx(load.tpot.high / 1.5)
