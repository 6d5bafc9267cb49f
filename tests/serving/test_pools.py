"""Prefill and decode on replicas of their own: by hand, for all requests, and against a published transfer."""

import json
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.cli.main import run
from kvcalc.core.request import ask
from kvcalc.library import loader
from kvcalc.queries.pools import handed_bytes
from kvcalc.serving.fleet import Served
from kvcalc.serving.pools import Handover, serve_split
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.traffic.trace import Trace

from .test_replica import PLAIN, trace

ROOMY = Scheduler(Limits(8, 64), 4, 100)


def split(
    asked: Trace, pools: tuple[int, int] = (1, 1), decode: Scheduler = ROOMY, seconds: float = 0.020
) -> tuple[Served, Handover]:
    return serve_split(asked, pools, "round-robin", (ROOMY, decode), (PLAIN, PLAIN), lambda _tokens: seconds)


def test_one_request_by_hand() -> None:
    """14 ms for the prompt of 4, 20 ms for its cache, 11 ms for the prompt's last token with the first of the answer, and
    two steps of 12 ms.
    """
    found, handover = split(trace((0.0, 4, 3)))
    assert list(found.times.first) == pytest.approx([0.045])
    assert list(found.times.done) == pytest.approx([0.069])
    assert handover.transfer.mean == pytest.approx(0.020)
    assert handover.prefill.busy == pytest.approx(0.014 / 0.069)
    assert handover.decode.busy == pytest.approx((0.011 + 2 * 0.012) / 0.069)


def test_pulls_go_one_after_the_other() -> None:
    """Two prompts of 4 in one step of 18 ms: their caches are there at 38 and 58 ms. The second has another replica."""
    asked = trace((0.0, 4, 2), (0.0, 4, 2))
    one, handover = split(asked)
    assert handover.transfer.mean == pytest.approx(0.030)
    # 38 + 11 ms, then a step of 12 that is over at 61: the second's cache, there at 58, waits for it, and takes 11.
    assert list(one.times.first) == pytest.approx([0.049, 0.072])
    two, _ = split(asked, (1, 2))
    assert list(two.times.first) == pytest.approx([0.049, 0.049])


def test_a_pull_waits_for_room() -> None:
    """Three blocks of 4 hold one prompt of 8 and what it generates. Prompts: one step of 26 ms; A's cache at 46, its first
    token at 57, done at 81; only then is B pulled: 101, 112, 136.
    """
    found, handover = split(trace((0.0, 8, 3), (0.0, 8, 3)), decode=Scheduler(Limits(8, 64), 4, 3))
    assert list(found.times.first) == pytest.approx([0.057, 0.112])
    assert list(found.times.done) == pytest.approx([0.081, 0.136])
    assert handover.decode.waiting.mean == pytest.approx((0.081 - 0.026) / 2)
    assert found.preemptions == 0


def test_far_below_capacity_it_is_the_sum() -> None:
    """Prompt, transfer and a step for each request, where none meets another."""
    asked = trace(*((float(i), 4 + i, 5) for i in range(20)))
    found, _ = split(asked, (2, 2))
    for i in range(20):
        assert found.times.first[i] - i == pytest.approx((10 + 4 + i) / 1000 + 0.020 + 0.011)
        assert found.times.done[i] - found.times.first[i] == pytest.approx(4 * 0.012)
    assert found.queue.mean == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 0.5), st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=25
    ),
    st.integers(3, 40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.floats(0, 0.2),
)  # fmt: skip
def test_nothing_is_lost(
    requests: list[tuple[float, int, int]], blocks: int, prefill: int, decode: int, seconds: float
) -> None:
    """Each request is done once, in order of its events, or is longer than the pool; and again alike."""
    asked = trace(*sorted(requests))
    rules = Scheduler(Limits(4, 64), 4, blocks)
    found, _ = split(asked, (prefill, decode), rules, seconds)
    done = [i for i in range(len(asked)) if not isnan(found.times.done[i])]
    assert len(done) + found.refused == len(asked)
    assert found.output_tokens == sum(asked.outputs[i] for i in done)
    for i in done:
        assert asked.arrivals[i] <= found.times.begun[i] < found.times.first[i] <= found.times.done[i]
        assert found.times.first[i] - asked.arrivals[i] >= seconds
    again, _ = split(asked, (prefill, decode), rules, seconds)
    assert again.times.done.tobytes() == found.times.done.tobytes()


def test_a_published_transfer() -> None:
    """Kimi K2.5 in NVFP4 with an fp8 cache and prompts of 8,150 tokens: 286 MB were measured (aiconfigurator #1380), which
    is 8,150 x 61 layers x 576 B.
    """
    request = ask(loader.load("kimi-k2.5"), kv_dtype="fp8")
    assert handed_bytes(request)(8_150) == 8_150 * 61 * 576 == 286_358_400


def test_short_prompts_want_more_decode_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    """A third replica helps prompts of 1,024 tokens with 512 out where it generates, and not where it reads prompts: 1:2
    beat 1:1 by 66 % there in sglang-omni #1760, which says so of its rate; here it shows in the time per token.
    """
    mean: dict[tuple[int, int], float] = {}
    for pools in ((1, 1), (1, 2), (2, 1)):
        words = ["--rate", "24", "--input", "1024", "--output", "512", "--requests", "1500", "--gpu", "h100"]
        words += ["--prefill", str(pools[0]), "--decode", str(pools[1]), "--json"]
        run(["simulate", "llama3.1-8b", *words])
        found = json.loads(capsys.readouterr().out)
        mean[pools] = found["tpot_seconds"]["mean"]
        assert found["pools"]["prefill"]["replicas"] == pools[0]
        assert found["pools"]["mean_transfer_bytes"] == pytest.approx(1_024 * 131_072, rel=1e-3)
    assert mean[1, 2] < 0.85 * mean[1, 1]
    assert mean[2, 1] > 0.97 * mean[1, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prefill", "1"], "--prefill: needs --decode beside it"),
        (["--decode", "1"], "--decode: needs --prefill beside it"),
        (["--prefill", "1", "--decode", "0"], "--decode: expected"),
        (["--prefill", "1", "--decode", "1", "--replicas", "2"], "--replicas: contradicts"),
        (["--prefill", "1", "--decode", "1", "--link", "pcie5,nvme"], "--link: expected one link, got 2"),
        (["--prefill", "1", "--decode", "1", "--link", "50GB"], "--link: expected a link"),
        (["--link", "pcie5"], "--link: has no effect without two pools"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_pools_that_cannot_be(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    asked = ["simulate", "llama3.1-8b", "--rate", "1", "--input", "100", "--output", "10", "--requests", "5"]
    assert run([*asked, "--gpu", "h100", *words]) == 2
    assert said in capsys.readouterr().err
