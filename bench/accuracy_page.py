"""Parts of docs/accuracy.md beside memory: caches to the byte, the clock, and the simulation.

`python bench/accuracy.py --page` prints the whole page.
"""

import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kvcalc.core.units import many
from tests.exactness import Fact, facts
from tests.perf.measured import Compared, Errors, band, compared
from tests.serving.measured_runs import Run, runs

__all__ = ["caches", "clock", "simulation"]

CACHES = """# Accuracy

What kvcalc says beside what engines allocated and printed, what papers published, and what servers were measured
at: all facts that the tests hold, counted. `python bench/accuracy.py --page` prints this page, and a test holds it.

## Caches, to the byte

Bytes of caches, tokens of pools and blocks, from the model, the engine's version and its flags; of a log, the
numbers that follow from the others in it. Exact is the same number, or the digits that were printed where they were
rounded.

| engine | what it is compared with | numbers | exact | within 1 % | off, or not said |
| --- | --- | ---: | ---: | ---: | ---: |
"""


def caches() -> str:
    """A row for each engine and set of facts, then each fact that is not exact, with the reason."""
    groups: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in facts():
        groups[fact.engine, fact.source].append(fact)
    text = CACHES
    for (engine, source), some in groups.items():
        exact = sum(fact.error == 0 for fact in some)
        near = sum(fact.error is not None and fact.error <= 0.01 for fact in some)
        text += f"| {engine} | {source} | {len(some):,} | {exact:,} | {near:,} | {len(some) - near:,} |\n"
    text += "\n| not exact | it was | predicted | reason |\n| --- | ---: | ---: | --- |\n"
    for fact in facts():
        if fact.error != 0:
            said = "" if fact.said is None else f"{fact.said:,.0f}"
            text += f"| {fact.engine}, {fact.case} | {fact.was:,.0f} | {said} | {fact.why} |\n"
    return text


CLOCK = """
## Times

Published serving times (`tests/perf/measured_times.csv`, InferenceMAX, NVIDIA's tables, llama.cpp's, and others)
beside the closed form: median and 90th percentile of the error, the bias, and how often the printed range, a factor
of 1.5 either way, holds the measurement. `python bench/times.py --by point` prints each. NVIDIA's aiconfigurator,
with 825 MB of tables, has 17 % in the median for TPOT on 167 points on which this form has 11 %.

| | measurements | median | p90 | bias | in the range |
| --- | ---: | ---: | ---: | ---: | ---: |
"""
CLOCK_MISSES = """
Where it is off, and why:

- The first token under many clients in a closed loop (5 and more): those who ask all at once at the start of a run
  wait for one another, which the range covers and the middle does not; the middle is that of requests that come by
  themselves.
- Prompts of 4k and more for few clients: five of twelve are DeepSeek in SGLang on B200 and B300, which took ten
  times as long as the same card, model and length elsewhere.
- Left out: 15 runs of vLLM by the authors of aiconfigurator, eight of which compute more prompts than the card's
  peak allows.

Times per token, prefill and throughput outside of the range of their answers:

"""


def clock() -> str:
    """Errors by phase, and of time per token by engine."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for each in compared():
        if not each.point.strange:
            groups[band(each)].append(each)
            if each.phase in ("tpot", "throughput"):
                groups[f"{'TPOT' if each.phase == 'tpot' else 'throughput'}, {each.point.engine}"].append(each)
    text = CLOCK
    for name, some in sorted(groups.items()):
        found = Errors.of(some)
        shares = f"{found.median:.0%} | {found.p90:.0%} | {found.bias:+.0%} | {found.within:.0%}"
        text += f"| {name} | {found.count} | {shares} |\n"
    text += CLOCK_MISSES + "| measurements | off by | reason |\n| --- | --- | --- |\n"
    alike: dict[str, list[Compared]] = defaultdict(list)
    for each in compared():
        if not each.point.strange and each.phase != "ttft":
            of = each.point
            name = f"{each.phase}, {of.preset} {of.weights.partition(':')[0]} on {of.tp} x {of.gpu}, {of.engine}"
            alike[name.replace(" auto on", " on")].append(each)
    for name, some in sorted(alike.items()):
        off = [f"{each.ratio - 1:+.0%}" for each in some if not each.within]
        if off:
            why = f"not explained; {len(some) - len(off)} of {len(some)} are in the range"
            text += f"| {name} | {', '.join(off)} | {why} |\n"
    return text


SIMULATION = """
## Simulation

Published serving runs (`tests/serving/measured_runs.csv`) replayed by `kvcalc simulate`: arrivals and lengths as
they were, prompts that come again as they came. Closed loops of a number of users are answered by the closed form
of `plan`. Predicted over measured, less 1.

| run | TTFT | TTFT p99 | TPOT | end to end | p99 | requests a second | overload |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""
METRICS = ("ttft_mean", "ttft_p99", "tpot_mean", "e2e_mean", "e2e_p99", "requests_s")
RUN_MISSES = """
Where it is off, and why:

- Qwen3.5 4B on an A100: 198 ms to the first token of 1,024 that come alone, five times what their matrices take at
  the card's attained rate. Linear attention over a prompt is not in the clock as a kernel of its own; the
  measurement's other numbers agree.
- Tails of the first token (p99) of the quietest runs: a few requests of a server met something else than requests.
"""


def simulation() -> str:
    """Each run, then medians."""
    text = SIMULATION
    for run in runs():
        found = {each.name: f"{each.predicted / each.measured - 1:+.0%}" for each in run.metrics}
        cells = " | ".join(found.get(name, "") for name in METRICS)
        text += f"| {_name(run)} | {cells} | {_verdict(run)} |\n"
    open_ = [run for run in runs() if not run.closed]
    medians = (sorted(each.error for run in open_ for each in run.metrics if each.name == name) for name in METRICS)
    cells = " | ".join(f"{errors[len(errors) // 2]:.0%}" for errors in medians)
    return f"{text}| median error of open loops | {cells} | |\n{RUN_MISSES}"


def _name(run: Run) -> str:
    row = run.row
    load = many(int(row["users"]), "user") if run.closed else f"{row['rate']} a second"
    where = f"{row['preset']} on {row['tp']} x {row['gpu']}, {row['engine']}"
    return f"{where}, {row['input']} in, {row['output']} out, {load}"


def _verdict(run: Run) -> str:
    if run.closed:
        return ""
    asked, said = ("overloaded" if each else "carried" for each in (run.overload, run.overloaded))
    return said if asked == said else f"{said}, was {asked}"
