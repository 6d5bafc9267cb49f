"""Prefill and decode on replicas of their own: what a simulation of two pools is asked, and what it finds."""

from collections.abc import Callable
from functools import cache

from kvcalc.core.formula import size
from kvcalc.core.request import Request
from kvcalc.errors import KvcalcError
from kvcalc.perf.links import parse_links
from kvcalc.queries.deployment import Deployment
from kvcalc.queries.simulation import PoolSplit, SimulateQuestion
from kvcalc.serving.fleet import Served
from kvcalc.serving.pools import Handover, serve_split
from kvcalc.traffic.trace import Trace

__all__ = ["check_pools", "handed_bytes", "mean_handed", "pools_of", "served_split", "split_warnings", "staging"]


def pools_of(prefill: int | None, decode: int | None, link: str | None) -> PoolSplit | None:
    """Two pools, where both are named. Raises KvcalcError for one of them alone, and for a link without any."""
    if prefill is None and decode is None:
        if link is not None:
            raise KvcalcError("--link: has no effect without two pools", "add --prefill N --decode M")
        return None
    if prefill is None or decode is None:
        given, other = ("--prefill", "--decode") if decode is None else ("--decode", "--prefill")
        raise KvcalcError(f"{given}: needs {other} beside it", f"add {other} N")
    links = parse_links(link or "400gbit")
    if len(links) != 1:
        raise KvcalcError(f"--link: expected one link, got {len(links)}")
    return PoolSplit(prefill, decode, links[0])


def check_pools(question: SimulateQuestion) -> None:
    """Raise KvcalcError for what contradicts two pools, or has no rule beside them."""
    if question.pools is None:
        return
    if question.replicas != 1:
        raise KvcalcError(
            "--replicas: contradicts --prefill and --decode, which say how many there are", "leave it out"
        )
    if question.day is not None:
        raise KvcalcError(
            f"{question.day.option}: which of two pools grows with the rate is not found here",
            "ask it without --prefill",
        )
    if question.tiers:
        raise KvcalcError("--tier: memory behind two pools has no rule here", "leave it out")


def served_split(
    question: SimulateQuestion, pools: PoolSplit, trace: Trace, going: Deployment
) -> tuple[Served, Handover]:
    """The replay on two pools of equal replicas."""
    held = handed_bytes(going.size.size.request)
    return serve_split(
        trace,
        (pools.prefill, pools.decode),
        question.router,
        (going.scheduler, going.scheduler),
        (going.clock, going.clock),
        lambda tokens: held(tokens) / pools.link.bytes_per_second,
    )


def handed_bytes(request: Request) -> Callable[[int], int]:
    """Bytes of a prompt's cache by its tokens, windows and states as they are; each head and each latent once."""
    caches = request.model.distinct_caches.items()

    @cache
    def of(tokens: int) -> int:
        return sum(copies * size(one, tokens, request.widths, request.encoder_tokens) for one, copies in caches)

    return of


def mean_handed(trace: Trace, going: Deployment) -> int:
    """The mean of what goes from one pool to the other for a request, in bytes."""
    held = handed_bytes(going.size.size.request)
    return sum(map(held, trace.prompts)) // len(trace)


def staging(trace: Trace, going: Deployment) -> int:
    """Sequences of the mean length that fit into a decode pool beside as many as a step takes. At none or fewer,
    prompts wait on the prefill side until a sequence ends (aiconfigurator #1380).
    """
    rules = going.scheduler
    mean = (sum(trace.prompts) + sum(trace.outputs)) / len(trace)
    return int(rules.block * rules.blocks / mean) - rules.limits.sequences


def split_warnings(handover: Handover, room: int) -> list[str]:
    """What to know of two pools: which of them keeps requests waiting, and room for pulls where that is short."""
    found = []
    slow = handover.decode.waiting.p95 >= _LONG
    if slow and room <= 0:
        found.append(
            "prompts wait on the prefill side: a decode replica has no room for them beside a full step; more --decode "
            "or a smaller --max-num-seqs"
        )
    elif slow:
        found.append("prompts wait on the prefill side for room on the decode side: more --decode")
    if handover.prefill.busy >= _FULL and handover.prefill.waiting.p95 >= _LONG:
        found.append(f"the prefill replicas work {100 * handover.prefill.busy:.0f} % of the time: more --prefill")
    return found


_FULL, _LONG = 0.95, 1.0  # a share of the time, seconds
