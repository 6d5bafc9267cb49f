"""The closed loop, which goes from event to event, against a scheduler that counts every token of every step."""

import csv
from array import array
from collections import deque
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.cli.main import run
from kvcalc.serving.fleet import serve
from kvcalc.serving.pool import Pool
from kvcalc.serving.records import Gauges, Times
from kvcalc.serving.replica import Replica
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.traffic.trace import Prefixes, Trace

TRACE = Path(__file__).parents[1] / "traces" / "morning.csv"


class Plain:
    """A clock for sums by hand: 10 ms a step, 1 ms for each token of a prompt, 2 ms for each sequence, nothing else."""

    front_end = 0.0

    def passing(self, tokens: int) -> float:
        return 0.010 + 0.001 * tokens

    def attending(self, prompt: int, generated: int) -> float:  # noqa: ARG002 - the signature of StepClock
        return 0.001

    def prompt(self, tokens: int, found: int) -> float:  # noqa: ARG002 - as above
        return 0.0

    def computing(self, tokens: int, found: int) -> float:
        return 0.001 * (tokens - found)


PLAIN: Any = Plain()


def trace(*requests: tuple[float, int, int], blocks: list[tuple[int, ...]] | None = None, each: int = 4) -> Trace:
    times, prompts, outputs = zip(*requests, strict=True)
    prefixes = None if blocks is None else Prefixes(each, blocks)
    return Trace(array("d", times), array("q", prompts), array("q", outputs), prefixes)


def test_two_requests_by_hand() -> None:
    """The first: a step of 14 ms for its prompt of 4, then two steps of 12 ms. The second comes at 15 ms, in the middle of
    a step, and its prompt of 6 stands beside the first's last token: 10 + 7 + 1 ms from 26 ms on; then alone.
    """
    asked = trace((0.0, 4, 3), (0.015, 6, 2))
    found = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100), PLAIN)
    times = found.times
    assert list(times.first) == pytest.approx([0.014, 0.044])
    assert list(times.done) == pytest.approx([0.044, 0.056])
    assert list(times.begun) == pytest.approx([0.0, 0.026])
    assert (found.preemptions, found.refused, found.output_tokens) == (0, 0, 5)
    assert found.tpot.mean == pytest.approx(((0.044 - 0.014) / 2 + 0.012) / 2)


def test_a_step_has_so_many_tokens_and_sequences() -> None:
    """A prompt of 10 in steps of 4 tokens takes three of them; of three requests two are in a batch of two."""
    chunks = serve(trace((0.0, 10, 1)), 1, "round-robin", Scheduler(Limits(8, 4), 4, 100), PLAIN)
    assert chunks.times.first[0] == pytest.approx(2 * 0.014 + 0.012)
    crowd = serve(trace((0, 1, 5), (0, 1, 5), (0, 1, 5)), 1, "round-robin", Scheduler(Limits(2, 64), 4, 100), PLAIN)
    assert crowd.sequences.peak == 2
    assert crowd.times.begun[2] == crowd.times.done[0]


def test_the_last_is_taken_off_where_a_block_is_missing() -> None:
    """Four blocks of 4: two prompts of 4 take two, their fifth tokens the others; the ninth of the first takes the
    second's. It waits, and its prompt of 4 and what it has generated are computed again.
    """
    asked = trace((0.0, 4, 8), (0.0, 4, 8))
    found = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 4), PLAIN)
    assert (found.preemptions, found.preempted) == (1, 1)
    assert found.times.done[0] < found.times.done[1]
    whole = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64, whole=True), 4, 4), PLAIN)
    assert (whole.preemptions, whole.times.begun[1]) == (0, whole.times.done[0])


def test_what_no_pool_holds_is_refused() -> None:
    """A prompt of 20 tokens in a pool of 16: it is left out, and the next one is served."""
    found = serve(trace((0, 20, 2), (0, 4, 2)), 1, "round-robin", Scheduler(Limits(8, 64), 4, 4), PLAIN)
    assert found.refused == 1
    assert isnan(found.times.done[0])
    assert not isnan(found.times.done[1])


def test_a_prompt_that_is_there_is_not_computed() -> None:
    """Blocks of 4: of the same prompt of 12 the second time two blocks are found, since one token is always computed."""
    asked = trace((0.0, 12, 1), (1.0, 12, 1), blocks=[(1, 2, 3), (1, 2, 3)])
    found = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100, caching=True), PLAIN)
    assert list(found.times.found) == [0, 8]
    assert found.times.first[1] - 1.0 == pytest.approx(0.014)
    without = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100), PLAIN)
    assert list(without.times.found) == [0, 0]


def test_routers() -> None:
    """In turn, where fewest are, and where the prompt is."""
    asked = trace((0, 8, 90), (0, 8, 1), (0.5, 8, 1), (0.6, 8, 1), blocks=[(1, 2), (3, 4), (1, 2), (3, 4)])
    rules = Scheduler(Limits(8, 64), 4, 100, caching=True)
    found = {name: serve(asked, 2, name, rules, PLAIN) for name in ("round-robin", "least-loaded", "prefix")}  # type: ignore[arg-type]
    assert [sum(each.times.found) for each in found.values()] == [4 + 4, 4, 4 + 4]


def test_a_pool_shares_what_is_equal() -> None:
    """Two of the same prompt take its blocks once; what nobody uses stays until room is needed, the end of the oldest goes
    first.
    """
    pool = Pool(4, 1)
    pool.take((1, 2), 1)
    pool.take((1, 2), 1)
    assert pool.used == 4
    pool.give_back((1, 2), 1, keep=True)
    pool.give_back((1, 2), 1, keep=True)
    assert (pool.used, pool.leading((1, 2, 3))) == (0, 2)
    pool.take((9,), 2)
    assert (pool.used, pool.leading((1,)), pool.leading((2,))) == (3, 1, 0)


# A step by step scheduler after `v1/core/sched/scheduler.py`: sequences first, then prompts; no event is skipped.
def step_by_step(asked: Trace, rules: Scheduler) -> tuple[list[float], list[float], int]:  # noqa: C901, PLR0912, PLR0915 - one loop, as the engine's
    now, waiting, running, arrived = 0.0, deque[int](), [], 0
    count = len(asked)
    first, done = [float("nan")] * count, [float("nan")] * count
    made, cached, blocks, target, _share = ([0] * count for _ in range(5))
    used = off = 0
    begun = float("inf")  # when the step before began, at which the next one was scheduled if steps are scheduled ahead
    target = list(asked.prompts)
    while True:
        while arrived < count and asked.arrivals[arrived] <= now:
            waiting.append(arrived)
            arrived += 1
        if not running and not waiting:
            if arrived == count:
                return first, done, off
            now = asked.arrivals[arrived]
            continue
        short = False
        latest = begun if rules.limits.ahead and running else float("inf")
        decoding = [q for q in running if cached[q] >= target[q]]
        while running:
            need = sum(-(-(cached[q] + 1) // rules.block) > blocks[q] for q in running if cached[q] >= target[q])
            if used + need <= rules.blocks:
                break
            last = running.pop()
            used -= blocks[last]
            target[last] = asked.prompts[last] + made[last]
            blocks[last] = cached[last] = 0
            waiting.appendleft(last)
            off, short = off + 1, True
        decoding = [q for q in running if cached[q] >= target[q]]
        reserve = sum(-(-(cached[q] + 1) // rules.block) > blocks[q] for q in decoding)
        budget = rules.limits.tokens - len(decoding)
        prompts = [q for q in running if cached[q] < target[q]]
        left = budget - sum(target[q] - cached[q] for q in prompts)
        while (not short or not running) and waiting and left > 0 and len(running) < rules.limits.sequences:
            head = waiting[0]
            if asked.arrivals[head] > latest:
                break
            need = -(-target[head] // rules.block)
            if used + need + reserve > rules.blocks:
                break
            waiting.popleft()
            used, blocks[head] = used + need, need
            running.append(head)
            prompts.append(head)
            left -= target[head]
        if not running:
            waiting.popleft()
            continue
        pieces = {}
        for q in prompts:
            if budget > 0:
                pieces[q] = min(budget, target[q] - cached[q])
                budget -= pieces[q]
        begun = now
        now += PLAIN.passing(len(decoding) + sum(pieces.values())) + 0.001 * len(decoding)
        for q in decoding:
            if -(-(cached[q] + 1) // rules.block) > blocks[q]:
                blocks[q], used = blocks[q] + 1, used + 1
            cached[q] += 1
            made[q] += 1
        for q, piece in pieces.items():
            cached[q] += piece
            if cached[q] == target[q]:
                if not made[q]:
                    first[q] = now
                made[q] += 1
        for q in list(running):
            if made[q] >= asked.outputs[q]:
                done[q] = now
                used -= blocks[q]
                running.remove(q)


REQUESTS = st.lists(
    st.tuples(st.floats(0, 0.5).map(lambda t: round(t, 3)), st.integers(1, 20), st.integers(1, 24)),
    min_size=1, max_size=14,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(REQUESTS, st.integers(1, 6), st.integers(3, 40), st.integers(12, 40), st.sampled_from([1, 4, 8]))
def test_events_are_the_steps(
    requests: list[tuple[float, int, int]], sequences: int, tokens: int, blocks: int, block: int
) -> None:
    """First and last token of each request at the same time, and as many taken off, as step by step."""
    asked, rules = trace(*sorted(requests)), Scheduler(Limits(sequences, max(tokens, sequences)), block, blocks)
    first, done, off = step_by_step(asked, rules)
    found = serve(asked, 1, "round-robin", rules, PLAIN)
    assert list(found.times.first) == pytest.approx(first, nan_ok=True)
    assert list(found.times.done) == pytest.approx(done, nan_ok=True)
    assert found.preemptions == off


@settings(max_examples=150, deadline=None)
@given(REQUESTS, st.integers(1, 6), st.integers(3, 40), st.integers(12, 40))
def test_steps_that_are_scheduled_ahead(
    requests: list[tuple[float, int, int]], sequences: int, tokens: int, blocks: int
) -> None:
    """The same where a step is scheduled while the one before it runs; nobody comes at the very end of a step."""
    asked = trace(*[(arrival + 0.00037, prompt, output) for arrival, prompt, output in sorted(requests)])
    rules = Scheduler(Limits(sequences, max(tokens, sequences), ahead=True), 4, blocks)
    first, done, off = step_by_step(asked, rules)
    found = serve(asked, 1, "round-robin", rules, PLAIN)
    assert list(found.times.first) == pytest.approx(first, nan_ok=True)
    assert list(found.times.done) == pytest.approx(done, nan_ok=True)
    assert found.preemptions == off


def test_who_comes_during_a_step_waits_for_the_next_too() -> None:
    """The first: a step of 14 ms for its prompt of 4, then steps of 12 ms. The second comes at 15 ms, in the step from 14
    to 26 ms, behind which the one to 38 ms is scheduled already: its prompt of 6 is in that from 38 ms on, beside the
    first's token: 10 + 7 + 1 ms. In an engine that is idle it waits for nobody.
    """
    rules = Scheduler(Limits(8, 64, ahead=True), 4, 100)
    found = serve(trace((0.0, 4, 5), (0.015, 6, 2)), 1, "round-robin", rules, PLAIN)
    assert list(found.times.begun) == pytest.approx([0.0, 0.038])
    assert list(found.times.first) == pytest.approx([0.014, 0.056])
    alone = serve(trace((0.0, 4, 1), (0.5, 6, 1)), 1, "round-robin", rules, PLAIN)
    assert list(alone.times.first) == pytest.approx([0.014, 0.516])


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(12, 40), st.integers(1, 3))
def test_nothing_is_lost(requests: list[tuple[float, int, int]], blocks: int, replicas: int) -> None:
    """Each request is done or refused; all blocks come back; more replicas and more memory wait no longer on average."""
    asked = trace(*sorted(requests))
    rules = Scheduler(Limits(4, 32), 4, blocks)
    found = serve(asked, replicas, "round-robin", rules, PLAIN)
    assert sum(not isnan(each) for each in found.times.done) + found.refused == len(asked)
    assert found.output_tokens == sum(g for g, d in zip(asked.outputs, found.times.done, strict=True) if not isnan(d))
    one = Replica(asked, rules, PLAIN, Times(asked.arrivals), Gauges())
    for index, arrival in enumerate(asked.arrivals):
        one.advance(arrival)
        one.push(index)
    one.advance()
    assert (one.pool.used, one.tokens, one.load) == (0, 0, 0)
    if not found.refused:
        more = serve(asked, replicas, "round-robin", rules._replace(blocks=10 * blocks), PLAIN)
        assert more.queue.mean <= found.queue.mean + 1e-9 or more.preemptions <= found.preemptions


def test_what_two_requests_share_is_held_once() -> None:
    """The prompt of 12 twice, blocks of 4: 12 tokens stand once, beside the 8 of the first and, when it ends, the 7 of the second."""
    asked = trace((0.0, 12, 9), (0.001, 12, 9), blocks=[(1, 2, 3), (1, 2, 3)])
    found = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100, caching=True), PLAIN)
    assert found.tokens.peak == 12 + 8 + 7
    without = serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100), PLAIN)
    assert without.tokens.peak == 12 + 12 + 8 + 7


def test_rows_and_curves_are_the_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row's times are the request's, in the file and in the summary; a curve ends at the slowest."""
    out = tmp_path / "requests.csv"
    words = ["simulate", "llama3.1-8b", str(TRACE), "--gpu", "h100", "--csv-requests", str(out), "--svg"]
    assert run([*words, str(tmp_path / "times.svg"), "--get", "ttft_seconds.mean"]) == 0
    mean = float(capsys.readouterr().out)
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 240
    assert sum(float(row["ttft_seconds"]) for row in rows) / 240 == pytest.approx(mean, abs=1e-5)
    for row in rows:
        steps = int(row["output_tokens"]) - 1
        whole = float(row["ttft_seconds"]) + steps * float(row["tpot_seconds"] or 0)
        assert float(row["e2e_seconds"]) == pytest.approx(whole, abs=1e-6 * (steps + 2))
    drawn = (tmp_path / "times.svg").read_text(encoding="utf-8")
    assert drawn.count("<svg") == 1 + 3  # one for each chart in one of all
    assert all(
        title in drawn for title in ("Times of requests", "Tokens in the pool of a replica", "Requests that wait")
    )


def test_progress_is_seen_on_a_terminal_and_gone_after(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long replay tells on standard error how many requests have come, and takes the line away in the end."""
    monkeypatch.setattr("kvcalc.cli.progress._QUIET_SECONDS", 0)
    monkeypatch.setattr("kvcalc.cli.progress._TICK_SECONDS", 0)
    words = ["simulate", "llama3.1-8b", "--gpu", "h100", "--rate", "9", "--input", "90", "--output", "9", "--requests"]
    assert run([*words, "3000", "-q"]) == 0
    silent = capsys.readouterr()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run([*words, "3000", "-q"]) == 0
    shown = capsys.readouterr()
    assert "kvcalc: 2,048 of 3,000 requests\r\x1b[K" in shown.err
    assert shown.out == silent.out
    assert "requests" not in silent.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--step", "30ms", "--unlimited", "--csv-requests", "x.csv"], "--csv-requests: no request is served"),
        (["--gpu", "h100", "--csv-requests", str(TRACE)], "is read, and would be written over"),
        (["--gpu", "h100", "--csv-requests", "x", "--svg", "x"], "both name the same file"),
    ],
)
def test_files_that_cannot_be(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is written."""
    assert run(["simulate", "llama3.1-8b", str(TRACE), *words]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("x.csv").exists()


def test_the_fewest_gpus_are_the_fewest_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    """`--gpus auto` asks the same as `--replicas auto`; one replica less misses the targets."""
    words = ["simulate", "llama3.1-8b", str(TRACE), "--gpu", "l4", "--ttft", "2s", "--tpot", "100ms", "-q"]
    found = []
    for auto in ("--replicas", "--gpus"):
        assert run([*words, auto, "auto"]) == 0
        found.append(int(capsys.readouterr().out))
    assert found[0] == found[1] > 1
    assert run([*words, "--replicas", str(found[0] - 1)]) == 1


@pytest.mark.parametrize(("version", "said"), [("0.18.0", True), ("0.19.1", False), ("0.33", False)])
def test_older_versions_admit_by_the_first_piece(version: str, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM's pull request 37307 made the whole prompt count, by default in 0.19.0; before that the answer says so, where a
    prompt has several pieces.
    """
    words = ["simulate", "llama3.1-8b", "--gpu", "l4", "--engine", f"vllm@{version}", "--rate", "0.01", "--output", "5"]
    run([*words, "--requests", "5", "--input", "6000", "-q"])
    assert ("admits a prompt when its first 2,048 tokens fit" in capsys.readouterr().err) == said
    run([*words, "--requests", "5", "--input", "60", "-q"])
    assert "admits a prompt" not in capsys.readouterr().err
