"""Sessions in the pool: how many stay there from one turn to the next."""

from math import isnan
from typing import NamedTuple

from kvcalc.serving.fleet import Served
from kvcalc.serving.rules import Scheduler
from kvcalc.traffic.trace import Trace

__all__ = ["SessionFacts", "evicted", "session_facts"]


class SessionFacts(NamedTuple):
    """Turns of conversations.

    Attributes:
        sessions: How many there are.
        turns: Requests of one, on average.
        returning: Tokens of a prompt that is not its session's first: the context at the pause, and its growth until it
            comes back.
        pause: Seconds from the end of an answer to the next turn, on average; None where no request is served.
        coexist: Sessions that the pool of a replica holds until they return; None without one.
        between: Tokens that others bring to a replica in a pause; None without one.
    """

    sessions: int
    turns: float
    returning: float
    pause: float | None = None
    coexist: int | None = None
    between: float | None = None


def session_facts(
    trace: Trace, served: Served | None = None, scheduler: Scheduler | None = None, replicas: int = 1
) -> SessionFacts | None:
    """What sessions come to; None where requests are of none, or none comes back.

    An idle session's blocks are the prey of whoever comes in the pause: by least recent use they are there when it
    returns as long as rate x pause x tokens of a request stay below the pool.
    """
    if trace.sessions is None:
        return None
    last: dict[int, int] = {}
    returning, pauses = [], []
    for index, session in enumerate(trace.sessions):
        before = last.get(session)
        last[session] = index
        if before is None:
            continue
        returning.append(trace.prompts[index])
        if served is not None and not isnan(served.times.done[before]) and not isnan(served.times.done[index]):
            pauses.append(max(0.0, served.times.arrived[index] - served.times.done[before] - served.front_end))
    if not returning:
        return None
    mean = sum(returning) / len(returning)
    facts = SessionFacts(len(last), len(trace) / len(last), mean)
    if served is None or scheduler is None or not pauses or not served.seconds:
        return facts
    pause = sum(pauses) / len(pauses)
    tokens = sum(trace.prompts) + sum(trace.outputs)
    between = tokens / served.seconds / replicas * pause
    return facts._replace(pause=pause, coexist=int(scheduler.block * scheduler.blocks / mean), between=between)


def evicted(facts: SessionFacts | None, scheduler: Scheduler) -> list[str]:
    """Where a prefix cache finds little of a session that comes back."""
    pool = scheduler.block * scheduler.blocks
    if facts is None or facts.between is None or facts.between + facts.returning <= pool or not scheduler.caching:
        return []
    return [
        (
            f"others bring {facts.between:,.0f} tokens to a replica in a pause, and its pool has {pool:,}: a session "
            "that pauses as long finds nothing of its own"
        )
    ]
