"""A plan for a trace: what the replay of each row met, as values for JSON and as a table."""

from typing import TYPE_CHECKING

from kvcalc.core.durations import format_seconds
from kvcalc.planner.ranking import leading
from kvcalc.queries.plan_question import PlanAnswer, Spread
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.views.report import Cell, Section
from kvcalc.views.simulate import hit_rate, rate, times
from kvcalc.views.words import limited_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcalc.views.types.plan import LengthSpread, ReplayedRow, TraceMix

__all__ = ["mix_values", "replayed_notes", "replayed_table", "replayed_values"]


def mix_values(answer: PlanAnswer) -> "TraceMix | None":
    """What the trace asks for."""
    mix, traffic = answer.mix, answer.question.trace
    if mix is None or traffic is None:
        return None
    return {
        "path": traffic.path,
        "rate_scale": traffic.rate_scale,
        "requests": mix.requests,
        "duration_seconds": mix.seconds,
        "input_tokens": _spread(mix.input),
        "output_tokens": _spread(mix.output),
        "token_hit_rate": mix.token_hit_rate,
    }


def _spread(spread: Spread) -> "LengthSpread":
    return {"mean": spread.mean, "p95": spread.p95, "p99_9": spread.p999}


def replayed_values(replay: SimulateAnswer, command: str) -> "ReplayedRow":
    """What a row's replay met; `command` asks for it again."""
    served, attained = replay.served, replay.attainment
    assert served is not None
    return {
        "replicas": replay.replicas,
        "queue_seconds": times(served.queue),
        "ttft_seconds": times(served.ttft),
        "tpot_seconds": times(served.tpot),
        "e2e_seconds": times(served.e2e),
        "requests_per_second": rate(served, len(replay.trace) - served.refused),
        "output_tokens_per_second": rate(served, served.output_tokens),
        "preempted_requests": served.preempted,
        "refused_requests": served.refused,
        "binding": replay.binding,
        "attainment": None
        if attained is None
        else {"ttft": attained.ttft, "tpot": attained.tpot, "e2e": attained.e2e, "all": attained.all},
        "goodput_requests_per_second": None if attained is None else attained.goodput,
        "token_hit_rate": hit_rate(replay),
        "command": command,
    }


def replayed_table(answer: PlanAnswer, names: "Sequence[tuple[str, str]]") -> Section:
    """The rows with the times that 95 in 100 of the requests do not exceed; `names` are their GPUs and splits."""
    rows = answer.proposal.rows
    replays = {id(row): (name, replay) for row, name, replay in zip(rows, names, answer.simulated, strict=True)}
    heads = ["GPUs", "split", "queue p95", "TTFT p95", "TPOT p95", "e2e p95", "limit"]
    targets = answer.question.targets is not None
    heads += ["in time"] if targets else []
    listed: list[tuple[Cell, ...]] = []
    for row in leading(rows)[: answer.question.top]:
        (gpus, split), replay = replays[id(row)]
        served, attained = replay.served, replay.attainment
        assert served is not None
        seconds = (served.queue.p95, served.ttft.p95, served.tpot.p95, served.e2e.p95)
        limit = "" if replay.binding is None else limited_by(replay.binding)
        cells: list[Cell] = [gpus, split, *(f"~{format_seconds(each)}" for each in seconds), limit]
        cells += [f"{100 * attained.all:.1f} %"] if attained is not None else []
        listed.append(tuple(cells))
    narrow = tuple(heads.index(head) for head in ("limit", "queue p95", "e2e p95"))
    return Section("plan", tuple(heads), listed, keys=True, drop=narrow)


def replayed_notes(answer: PlanAnswer) -> list[str]:
    """How long requests are, and the command that replays the first row again."""
    mix = answer.mix
    if mix is None:
        return []
    found = [
        f"tokens of the trace (mean, p95, p99.9): {_lengths(mix.input)} in, {_lengths(mix.output)} out",
    ]
    if mix.token_hit_rate is not None:
        found.append(f"a prefix cache without end would find {mix.token_hit_rate:.1%} of the prompts' tokens")
    if answer.simulated:
        from kvcalc.queries.plan_trace import command_of

        found.append(f"times of the table by: {command_of(answer, answer.proposal.rows[0], answer.simulated[0])}")
    return found


def _lengths(spread: Spread) -> str:
    return f"{spread.mean:,.0f}, {spread.p95:,}, {spread.p999:,}"
