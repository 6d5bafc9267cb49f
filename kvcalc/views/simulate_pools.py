"""Two pools of a simulation, as values and as a table."""

from typing import TYPE_CHECKING

from kvcalc.core.durations import format_seconds
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.serving.fleet import Spread
from kvcalc.views.report import Bytes, Cell, Count, Section

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import PoolValues, SplitValues, TimeValues

__all__ = ["pool_sections", "pool_values"]


def pool_values(answer: SimulateAnswer) -> "SplitValues | None":
    """What the two pools did, and what went between them; None where there are not two."""
    found, pools = answer.handover, answer.question.pools
    if found is None or pools is None:
        return None

    def pool(replicas: int, busy: float, waiting: Spread) -> "PoolValues":
        return {"replicas": replicas, "busy": busy, "queue_seconds": times(waiting)}

    return {
        "prefill": pool(*found.prefill),
        "decode": pool(*found.decode),
        "link": pools.link.name,
        "link_bytes_per_second": pools.link.bytes_per_second,
        "transfer_seconds": times(found.transfer),
        "mean_transfer_bytes": answer.handed_bytes,
        "staging_sequences": answer.staging,
    }


def times(spread: Spread) -> "TimeValues":
    """A time over requests."""
    return {"mean": spread.mean, "p50": spread.p50, "p90": spread.p90, "p95": spread.p95, "p99": spread.p99}


def pool_sections(answer: SimulateAnswer) -> list[Section]:
    """A table of both pools, and what a request's cache takes from one to the other."""
    found, pools = answer.handover, answer.question.pools
    if found is None or pools is None:
        return []
    rows: list[tuple[Cell, ...]] = [
        (name, Count(use.replicas), f"{100 * use.busy:.0f} %", format_seconds(use.waiting.mean),
         format_seconds(use.waiting.p95))
        for name, use in (("prefill", found.prefill), ("decode", found.decode))
    ]  # fmt: skip
    moved: list[tuple[Cell, ...]] = [
        ("cache of a prompt, mean", Bytes(answer.handed_bytes)),
        (f"transfer over {pools.link.label}, mean", format_seconds(found.transfer.mean)),
        ("transfer, p95", format_seconds(found.transfer.p95)),
        ("prompts that fit beside a full step", Count(max(answer.staging, 0))),
    ]
    return [
        Section("pools", ("pool", "replicas", "busy", "waits, mean", "p95"), rows, exact=False),
        Section("between the pools", ("between the pools", ""), moved, exact=False),
    ]
