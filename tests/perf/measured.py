"""Published serving times beside what the clock says of them. `measured_times.csv` has the facts and their sources."""

import csv
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kvcalc.cards.shipped import accelerators
from kvcalc.core.dtypes import WEIGHTS
from kvcalc.core.kinds import attention_class
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.weights import weigh
from kvcalc.library import loader
from kvcalc.perf.clock import Clock, clock_of
from kvcalc.perf.demand import Found, work_of
from kvcalc.perf.doubt import Span
from kvcalc.perf.load import Load, Replica, serve
from kvcalc.perf.pace import pace_of
from kvcalc.perf.reads import cache_reads
from kvcalc.perf.workload import Length, Lengths, lengths

TABLE = Path(__file__).with_name("measured_times.csv")

# What engines leave beside weights and cache: 0.9 of the memory less 2 GiB.
_SHARE, _OVERHEAD = 0.9, 2 * 2**30

# Eight of these 15 runs have 100 tokens out: by Little's law they finish so many prompts a second that these alone would
# take 36 to 96 % of the cards' fp8 peak, so that prompts were found in a cache, or fewer were there than is said. Others
# fit an fp8 cache, which the source does not state. They are left out where errors are told, and are in the table.
_STRANGE = ("nvidia-e2e", "vllm")


class Point(NamedTuple):
    """One measurement: what was asked, and seconds or tokens a second as published."""

    source: str
    preset: str
    gpu: str
    tp: int
    pp: int
    engine: str
    weights: str
    kv: str
    kind: str
    input: float
    output: float
    depth: float
    concurrency: int
    rate: float
    values: dict[str, float]

    @property
    def strange(self) -> bool:
        """Of the runs of vLLM by the authors of aiconfigurator."""
        return (self.source, self.engine) == _STRANGE


class Compared(NamedTuple):
    """A measurement and its prediction. `phase`: tpot, ttft, prefill or throughput."""

    point: Point
    phase: str
    measured: float
    predicted: Span

    @property
    def ratio(self) -> float:
        return self.predicted.likely / self.measured

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)

    @property
    def within(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high


def points() -> list[Point]:
    """All measurements."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        Point(
            row["source"], row["preset"], row["gpu"], int(row["tp"]), int(row["pp"]), row["engine"], row["weights"],
            row["kv"], row["kind"], float(row["isl"] or 0), float(row["osl"] or 0), float(row["depth"] or 0),
            int(row["concurrency"] or 0), float(row["rate"] or 0),
            {key: float(row[key]) for key in ("ttft_ms", "tpot_ms", "output_tok_s", "prefill_ms") if row[key]},
        )
        for row in rows
    ]  # fmt: skip


@cache
def _model(preset: str) -> Model:
    return loader.load(preset)


class _Run(NamedTuple):
    clock: Clock
    model: Model
    weights: int
    layout: Layout
    kv: str

    def read(self, tokens: float) -> float:
        """Bytes that a GPU reads of a sequence of so many tokens."""
        request = ask(self.model, kv_dtype=self.kv, context=100)
        reads = cache_reads(request, self.layout)
        return sum(term.each * term.seen.at(round(tokens)) for term in reads) / self.layout.pp

    def load(self, point: Point, sizes: Lengths, *, users: int | None = None, rate: float | None = None) -> Load:
        work = work_of(self.clock.demand.flops, sizes, Found(share=1.0) if point.kind == "open-loop" else Found())
        memory = accelerators()[point.gpu].card().memory * _SHARE - _OVERHEAD - self.weights / self.layout.gpus
        held = self.read(sizes.context)
        server = Replica(max(int(memory), 0), lambda tokens: int(held * tokens / sizes.context), self.clock, work, held)
        return serve(server, sizes, users=users, rate=rate)


@cache
def _run(preset: str, gpu: str, tp: int, pp: int, engine: str, weights: str, kv: str) -> _Run:
    model, layout = _model(preset), Layout(tp, pp)
    name, _, size = weights.partition(":")
    if size:
        held, format_ = int(size), {"q4_k_m": "q4_k", "f16": "fp16"}.get(name, name)
    else:
        stored = model.weights_dtype or model.dtype if name == "auto" else WEIGHTS[name]
        held, format_ = weigh(model, "auto" if name == "auto" else stored).bytes, stored.name
    pace = pace_of(engine, dense=not model.active_parameters)
    clock = clock_of(accelerators()[gpu].card(), layout, model, held, format_, pace=pace)
    return _Run(clock, model, held, layout, kv)


def compare(point: Point) -> list[Compared]:
    """What the clock says of one measurement."""
    run = _run(point.preset, point.gpu, point.tp, point.pp, point.engine, point.weights, point.kv)
    clock, values = run.clock, point.values
    around = clock.doubt.around
    match point.kind:
        case "prefill-1":
            return [Compared(point, "prefill", values["prefill_ms"] / 1e3, around(clock.prompt(point.input)))]
        case "decode-1" | "decode-b":
            flops = clock.demand.flops
            attention = flops.token(round(point.depth)) - flops.linear
            seconds = clock.step(point.concurrency, run.read(point.depth), attention)
            return [Compared(point, "tpot", values["tpot_ms"] / 1e3, around(seconds))]
    sizes = lengths(Length(point.input), Length(point.output))
    if point.kind == "max-throughput":
        load = run.load(point, sizes, users=1)
        rates = load.most
        return [Compared(point, "throughput", values["output_tok_s"], Span(*(rate * point.output for rate in rates)))]
    load = run.load(point, sizes, users=point.concurrency or None, rate=point.rate or None)
    assert load.tpot is not None
    assert load.ttft is not None
    found = [Compared(point, "tpot", values["tpot_ms"] / 1e3, load.tpot)]
    if "ttft_ms" in values and point.kind == "closed-loop":
        found.append(Compared(point, "ttft", values["ttft_ms"] / 1e3, load.ttft))
    return found


def compared() -> list[Compared]:
    """All of them."""
    return [each for point in points() for each in compare(point)]


def class_of(point: Point) -> str:
    """What counts of a model for its times: dense or with experts, and its attention."""
    model = _model(point.preset)
    experts = "experts" if model.active_parameters else "dense"
    return f"{experts}, {attention_class(model)}"


class Errors(NamedTuple):
    """Of some comparisons: how many, median and 90th percentile of |predicted / measured - 1|, and of their ratio."""

    count: int
    median: float
    p90: float
    bias: float
    within: float

    @classmethod
    def of(cls, some: list[Compared]) -> "Errors":
        errors = sorted(each.error for each in some)
        return cls(
            len(some),
            median(errors),
            errors[min(len(errors) - 1, int(0.9 * len(errors)))],
            median(each.ratio for each in some) - 1,
            sum(each.within for each in some) / len(some),
        )


def band(each: Compared) -> str:
    """The lines of the published table of errors."""
    if each.phase == "tpot":
        many = each.point.concurrency
        return "TPOT, " + ("1 to 4" if many <= 4 else "5 to 32" if many <= 32 else "33 and more")
    if each.phase == "ttft":
        long = each.point.input >= 4000
        few = each.point.concurrency <= 4
        return f"TTFT, {'4k and more' if long else 'shorter'}, {'1 to 4' if few else '5 and more'}"
    return {"prefill": "llama.cpp prefill", "throughput": "maximum throughput"}[each.phase]
