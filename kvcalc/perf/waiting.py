"""How long requests wait for their turn, in closed form."""

from math import log

__all__ = ["erlang_c", "wait_at"]


def erlang_c(servers: int, offered: float) -> float:
    """The chance that a request finds all servers busy, where `offered` of them are busy on average.

    M/M/c, Erlang 1917. By the recursion of Erlang B, which neither overflows nor loses digits.
    """
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def wait_at(
    percent: float, servers: int, busy: float, seconds: float, variation: float, arrivals: float = 1.0
) -> float:
    """Seconds that `percent` of 100 requests wait at most for one of some servers, each busy for a share below 1.

    `seconds` is the mean service and `variation` its squared coefficient of variation; `arrivals` is the dispersion of
    arrivals, 1 where they come at random. The mean wait of M/M/c times (arrivals + variation) / 2 (Kimura 1994,
    doi 10.1007/BF01189210; for one server Kingman 1961, doi 10.1017/S0305004100036094, with Fendick and Whitt 1989,
    doi 10.1109/5.21078), and those who wait at all waiting exponentially long. For one server some 1.4 to 2 times what
    replays of the Azure trace show.
    """
    waits = erlang_c(servers, busy * servers)
    late = 1 - percent / 100
    if waits <= late:
        return 0.0
    mean = seconds * (arrivals + variation) / 2 / servers / (1 - busy)  # of those who wait
    return mean * log(waits / late)
