"""A simulation as words for people: tables that fit 80 columns."""

from kvcalc.core.durations import format_seconds
from kvcalc.core.units import many
from kvcalc.queries.sessions import SessionFacts
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.serving.fleet import Served
from kvcalc.traffic.levels import Levels
from kvcalc.views.model import model_facts
from kvcalc.views.report import Bytes, Cell, Count, Report, Section
from kvcalc.views.simulate import duration, hit_rate, rate, sequences, tokens
from kvcalc.views.simulate_day import day_sections
from kvcalc.views.simulate_pools import pool_sections
from kvcalc.views.simulate_seeds import seed_sections
from kvcalc.views.simulate_tiers import tier_sections
from kvcalc.views.words import limited_by

__all__ = ["simulate_report"]


def simulate_report(answer: SimulateAnswer) -> Report:
    """Tables that fit 80 columns: what requests met, what the pool held, what a prefix cache would find."""
    sections = []
    if answer.served is not None:
        sections += [_met(answer.served), _served(answer, answer.served)]
    if (level := tokens(answer)) is not None:
        sections.append(_held(answer, level))
    if answer.sessions is not None:
        sections.append(_sessions(answer.sessions))
    sections += [*pool_sections(answer), *tier_sections(answer), *day_sections(answer), *seed_sections(answer)]
    if answer.curve:
        sections.append(_curve(answer))
    return Report(
        sections,
        title=answer.model.name,
        facts=model_facts(answer.model),
        verdict=_verdict(answer),
        fits=answer.met,
        notes=_notes(answer),
        warnings=list(answer.warnings),
    )


def _met(served: Served) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (name, *(format_seconds(each) for each in spread))
        for name, spread in (
            ("in the queue", served.queue),
            ("to the first token (TTFT)", served.ttft),
            ("per output token (TPOT)", served.tpot),
            ("end to end", served.e2e),
        )
    ]
    return Section("time of a request", ("time of a request", "mean", "p50", "p90", "p95", "p99"), rows)


def _served(answer: SimulateAnswer, served: Served) -> Section:
    done = len(answer.trace) - served.refused
    rows: list[tuple[Cell, ...]] = [
        ("requests a second", f"{rate(served, done):.3g}"),
        ("output tokens a second", f"{rate(served, served.output_tokens):,.0f}"),
        ("preemptions", Count(served.preemptions)),
        ("requests that were preempted", Count(served.preempted)),
    ]
    if (hits := hit_rate(answer)) is not None:
        rows.append(("prompt tokens found in the cache", f"{100 * hits:.1f} %"))
    if answer.attainment is not None:
        named = answer.attainment._asdict()
        rows += [
            (f"meet {'all targets' if name == 'all' else name.upper()}", f"{100 * share:.1f} %")
            for name, share in named.items()
            if name != "goodput" and share is not None
        ]
        rows.append(("good requests a second", f"{answer.attainment.goodput:.3g}"))
    return Section("served", ("served", ""), rows)


def _held(answer: SimulateAnswer, level: Levels) -> Section:
    crowd = sequences(answer)
    assert crowd is not None

    def of(each: Levels) -> tuple[float, ...]:
        return each.mean, each.p50, each.p95, each.p99, each.peak

    rows: list[tuple[Cell, ...]] = [
        ("tokens", *(Count(round(each)) for each in of(level))),
        (
            "sequences",
            f"{crowd.mean:.1f}",
            *(Count(round(each)) for each in of(crowd)[1:]),
        ),
    ]
    if answer.open is not None:
        rows.append(("of the model", *(Bytes(round(each)) for each in of(answer.open.bytes))))
    where = "a decode replica" if answer.handover is not None else "a replica"
    what = "held at once" if answer.served is None else f"in the pool of {where}"
    return Section(what, (what, "mean", "p50", "p95", "p99", "peak"), rows, exact=False)


def _sessions(facts: SessionFacts) -> Section:
    rows: list[tuple[Cell, ...]] = [
        ("sessions", Count(facts.sessions)),
        ("turns of one, mean", f"{facts.turns:.1f}"),
        ("tokens of a prompt that comes back, mean", Count(round(facts.returning))),
    ]
    if facts.pause is not None and facts.between is not None:
        rows += [
            ("pause between two turns, mean", format_seconds(facts.pause)),
            ("sessions that a replica's pool holds until they return", Count(facts.coexist)),
            ("tokens that others bring to it in a pause", Count(round(facts.between))),
        ]
    return Section("sessions", ("sessions", ""), rows, exact=False)


def _curve(answer: SimulateAnswer) -> Section:
    assert answer.trace.prefixes is not None
    each = answer.trace.prefixes.tokens
    rows: list[tuple[Cell, ...]] = []
    for point in answer.curve:
        tokens = None if point.capacity is None else point.capacity * each
        size: Cell = "" if tokens is None else Bytes(tokens * answer.bytes_per_token)
        rows.append((Count(tokens), size, f"{100 * point.token_hit_rate:.1f} %"))
    return Section("prefix cache", ("prefix cache, tokens", "of the model", "prompt tokens found"), rows, exact=False)


def _verdict(answer: SimulateAnswer) -> str:
    served = answer.served
    if served is None:
        return ""
    fleet = many(answer.replicas, "replica")
    if answer.question.pools is not None:
        fleet = f"{answer.question.pools.prefill} prefill and {answer.question.pools.decode} decode replicas"
    if served.overloaded:
        limit = "" if answer.binding is None else f", limited by {limited_by(answer.binding)}"
        return f"overloaded: {fleet} cannot keep up, and the queue grows{limit}"
    if answer.missed and answer.question.targets is not None:
        named = ", ".join(f"--{name}" for name in answer.missed)
        return f"misses {named}: fewer than {answer.question.targets.percentile:g} % of the requests meet it"
    waits = "" if answer.binding is None else f"; some wait, limited by {limited_by(answer.binding)}"
    return f"carried by {fleet}{waits}"


def _notes(answer: SimulateAnswer) -> list[str]:
    trace, scheduler, question = answer.trace, answer.scheduler, answer.question
    seconds = duration(answer)
    found = [f"{many(len(trace), 'request')} over {seconds:,.0f} s"]
    found.append(
        f"{sum(trace.prompts) / len(trace):,.0f} tokens in and {sum(trace.outputs) / len(trace):,.0f} out on average"
    )
    if question.open is not None:
        found.append(f"a token each {format_seconds(question.open.step)}, without a limit of memory")
    if scheduler is not None and answer.size is not None and answer.size.reservation is not None:
        asked = answer.size.reservation.question
        engine = answer.size.reservation.engine.name
        pool = scheduler.block * scheduler.blocks
        found.append(f"{engine} {asked.version.name}, {pool:,} tokens in the pool of a replica")
        limits = scheduler.limits
        found.append(f"at most {many(limits.sequences, 'sequence')} and {many(limits.tokens, 'token')} in a step")
        found.append("times are estimates: nine of ten published measurements lie within a factor of 1.5")
    if answer.day is not None:
        found.append("times and the pool are those of one replica at the highest rate that it carries")
    if answer.curve:
        found.append("the curve is LRU over the trace's own blocks, in the order of the requests")
    return found
