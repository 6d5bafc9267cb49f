"""Replicas over a day: sums by hand, and the highest rate of a replica against the rate at which it is full."""

import json
from math import ceil, pi, sin
from pathlib import Path

import pytest

from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError
from kvcalc.queries.day import busiest, highest, parts_of
from kvcalc.serving.day import Part, staffed
from kvcalc.serving.fleet import serve
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.sources.traces.day import read_day
from tests.serving.test_replica import PLAIN, TRACE, trace


def test_a_day_by_hand(tmp_path: Path) -> None:
    """4 requests a second each: 1 replica for 8 hours, 3 for 10, 2 for 10 (as long as the part before); two start once,
    half an hour each. All day the peak's 3 for 28 hours.
    """
    file = tmp_path / "day.csv"
    file.write_text("Hour,Rate\n0,2\n8,12\n18,5\n")
    day = staffed(read_day(str(file)), 4.0, 1800)
    assert [one.replicas for one in day.parts] == [1, 3, 2]
    assert (day.peak, day.hours, day.fixed_hours) == (3, 8 + 30 + 20 + 2 * 0.5, 3 * 28)


def test_a_constant_rate_needs_the_same_all_day() -> None:
    """Nothing starts, so that it does not matter how long that takes; no rate needs no replica."""
    day = staffed([Part(hour, 7.0, 1.0) for hour in range(24)], 3.5, 3600)
    assert (day.peak, day.hours, day.fixed_hours) == (2, 48, 48)
    assert staffed([Part(0, 1, 1), Part(1, 0, 1)], 1.0).parts[1].replicas == 0


def test_the_highest_rate_is_where_slots_are_full() -> None:
    """One slot: a prompt of 1 token and 9 more take 11 + 9 x (10 + 1 + 1) ms or so, which is 8.4 requests a second; a
    long row of them at equal distances is carried up to there.
    """
    asked = trace(*((float(i), 1, 10) for i in range(2000)))
    rules = Scheduler(Limits(1, 64), 4, 100)

    def met(_: object, served: object) -> bool:
        return not served.overloaded  # type: ignore[attr-defined]

    found = highest("--day", asked, lambda faster: serve(faster, 1, "round-robin", rules, PLAIN), met)
    taken = found.served.times.done[0] - found.served.times.begun[0]
    assert found.rate == pytest.approx(1 / taken, rel=0.04)  # 2 % may be left over


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hour,rate\n0,1\n0,2\n", "not later"),
        ("hour,load\n0,1\n", "no column is called rate"),
        ("hour,rate\n0,x\n", "row 2: expected rate"),
        ("hour,rate\n0,0\n", "rate above zero"),
        ("hour,rate\n0,-1\n", "row 2"),
    ],
)
def test_faulty_days(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "day.csv"
    file.write_text(text)
    with pytest.raises(KvcalcError, match=fault):
        read_day(str(file))


def test_a_sine_needs_the_mean_of_what_its_parts_need() -> None:
    """Between 2 and 10 requests a second over a tenth of a day in parts of 90 seconds, and 3 a second for a replica: with
    instant starts its hours are 2.4 times the mean of ceil(rate / 3) over the sine, here by a fine sum of its own.
    """

    def rate(hour: float) -> float:
        return 6 + 4 * sin(2 * pi * hour / 2.4)

    times, due = [], 0.0
    for second in range(8_640):
        due += rate(second / 3600)
        while due >= 1:
            times.append(float(second))
            due -= 1
    asked = trace(*((time, 1, 1) for time in times))
    day = staffed(parts_of(asked, 90), 3.0)
    fine = [ceil(rate(i / 10_000) / 3) for i in range(24_000)]
    assert len(day.parts) == 96
    assert day.hours == pytest.approx(2.4 * sum(fine) / len(fine), rel=0.01)
    assert day.peak == 4


def test_the_same_rate_all_day_needs_what_a_plan_of_it_needs() -> None:
    """7 a second in parts of 5 minutes: two replicas of 3.6 each, all the time."""
    asked = trace(*((i / 7, 1, 1) for i in range(7 * 3600)))
    day = staffed(parts_of(asked, 300), 3.6)
    assert {each.replicas for each in day.parts} == {2}
    assert day.hours == pytest.approx(day.fixed_hours) == pytest.approx(2, rel=1e-3)


def test_of_a_long_trace_the_busiest_part_is_replayed() -> None:
    """30,000 requests, the last hour ten times as dense: 20,000 of them, those hours among them."""
    asked = trace(*((float(i), 1, 1) for i in range(12_000)), *((12_000 + i / 10, 1, 1) for i in range(18_000)))
    kept = busiest(asked, parts_of(asked, 600))
    assert (len(kept), kept.arrivals[0]) == (20_000, 0)
    assert kept.arrivals[-1] - kept.arrivals[1000] < 3000


def test_a_day_of_a_trace_costs_what_its_hours_do(capsys: pytest.CaptureFixture[str]) -> None:
    """240 requests in two minutes, parts of a minute, at 2 an hour of a GPU."""
    words = ["simulate", "llama3.1-8b", str(TRACE), "--gpu", "l4", "--bin", "1m", "--price", "l4=2", "--json"]
    run(words)
    found = json.loads(capsys.readouterr().out)
    assert [part["hours"] for part in found["replicas_by_hour"]] == pytest.approx([1 / 60, 64.1 / 3600], rel=0.02)
    assert sum(
        part["requests_per_second"] * part["hours"] * 3600 for part in found["replicas_by_hour"]
    ) == pytest.approx(240)
    assert found["day"]["cost"] == pytest.approx(2 * found["day"]["gpu_hours"])
    assert found["day"]["static_cost"] == pytest.approx(2 * found["day"]["static_gpu_hours"])
    for other, said in ((["--day", "x"], "--bin"), (["--bin", "5"], "5m")):
        assert run([*words[:5], *other, *(["--bin", "1m"] if "--day" in other else [])]) == 2
        assert said in capsys.readouterr().err
