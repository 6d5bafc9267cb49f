"""Replicas over a day: sums by hand, and the highest rate of a replica against the rate at which it is full."""

from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.queries.day import highest
from kvcalc.serving.day import Part, staffed
from kvcalc.serving.fleet import serve
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.sources.traces.day import read_day
from tests.serving.test_replica import PLAIN, trace


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

    found = highest(asked, lambda faster: serve(faster, 1, "round-robin", rules, PLAIN), met)
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
