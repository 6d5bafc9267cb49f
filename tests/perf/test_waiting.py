"""How long requests wait, against published forms and arithmetic by hand."""

import math

import pytest

from kvcalc.perf.waiting import erlang_c, mean_wait, wait_at


# Tables of Erlang C (such as Cooper 1981, Introduction to Queueing Theory): one server waits with chance rho; two with
# 2 rho^2 / (1 + rho); for 10 servers and 8 Erlang 0.409, for 5 and 4 Erlang 0.5541.
@pytest.mark.parametrize(
    ("servers", "offered", "waits"),
    [(1, 0.8, 0.8), (2, 1.6, 2 * 0.64 / 1.8), (5, 4, 0.5541), (10, 8, 0.4092), (3, 3, 1.0), (3, 5, 1.0), (4, 0, 0.0)],
)
def test_the_chance_to_wait(servers: int, offered: float, waits: float) -> None:
    """All servers are busy with Erlang's chance."""
    assert erlang_c(servers, offered) == pytest.approx(waits, abs=1e-4)


def test_waiting_by_hand() -> None:
    """A server busy for 0.8 of the time with equal tasks of 1 s that come at random: those who wait, wait 2.5 s on
    average (M/D/1), 1 in 20 of all for 2.5 x ln(0.8 / 0.05) = 6.93 s; in bursts of dispersion 13, for 13 times that.
    """
    assert wait_at(95, 0.8, 1, 0) == pytest.approx(6.93, abs=0.005)
    assert wait_at(95, 0.8, 1, 0, 13) == pytest.approx(13 * 6.93, abs=0.05)
    assert wait_at(95, 0.8, 1, 1) == pytest.approx(2 * 2.5 * math.log(16))  # exponential tasks: M/M/1, exact
    assert wait_at(95, 0.05, 1, 1) == wait_at(95, 0.01, 1, 1) == 0  # 19 in 20 find it idle
    assert mean_wait(0.8, 1, 0) == pytest.approx(0.8 * 2.5)  # rho / (1 - rho) / 2 of a task
    assert mean_wait(0.8, 1, 1) == pytest.approx(4)  # M/M/1: rho / (1 - rho)


def test_many_servers_wait_less() -> None:
    """Five servers at 0.8 (4 Erlang): 0.5541 / (5 x 0.2) = 0.5541 services in M/M/5, against 4 for one."""
    assert mean_wait(0.8, 1, 1, servers=5) == pytest.approx(0.5541, abs=1e-4)
    assert wait_at(99, 0.8, 1, 1, servers=5) < wait_at(99, 0.8, 1, 1)
