"""Public start-ups of vLLM beside what kvcalc says of them: tests/facts/startups.json, one row a start-up."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kvcalc.cards.names import card_called
from kvcalc.commands.versions import pick
from kvcalc.core import dtypes
from kvcalc.core.card import Card
from kvcalc.core.memory import Budget, MemorySplit, split_memory
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import place
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.core.weight_values import WeightRange
from kvcalc.core.weights import fullest_rank, weigh
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.engine import ENGINE
from kvcalc.launch.beside import beside_weights
from kvcalc.library import loader

__all__ = ["Answer", "Summary", "answers", "summary"]

GIB = 2**30
FACTS = Path(__file__).resolve().parents[1] / "facts" / "startups.json"
# Cards that the catalogue lacks, by what the log calls them.
CAPABILITIES = {"2080": (7, 5), "Turing": (7, 5), "3050": (8, 6), "3060": (8, 6), "4070": (8, 9), "4090": (8, 9)}


class Answer(NamedTuple):
    """One start-up: its row, the split with the weights that its log prints, and the one with weights as counted."""

    row: dict[str, Any]
    logged: MemorySplit | None
    counted: MemorySplit

    @property
    def available(self) -> int:
        return round(self.row["available_gib"] * GIB)

    def error(self, memory: MemorySplit) -> float:
        """Of the bytes for the cache, as a part of those that were there."""
        return (memory.kv_budget - self.available) / abs(self.available)

    def inside(self, memory: MemorySplit) -> bool:
        """Whether the range holds what was printed, half a digit either way."""
        low, high = _range(memory)
        return low - GIB // 200 <= self.available <= high + GIB // 200

    def width(self, memory: MemorySplit) -> float:
        low, high = _range(memory)
        return high / low if low > 0 else float("inf")


def _range(memory: MemorySplit) -> tuple[int, int]:
    low, high = memory.kv_budget_low, memory.kv_budget_high
    return (memory.kv_budget if low is None else low), (memory.kv_budget if high is None else high)


class Summary(NamedTuple):
    """Errors of many answers: medians and tails as parts of one."""

    rows: int
    median: float
    p90: float
    inside: float
    width: float
    over: float  # that promise more than 5 % too much

    def __str__(self) -> str:
        return (
            f"{self.rows:3} rows, error {self.median:6.2%} / {self.p90:6.2%}, inside {self.inside:4.0%}, "
            f"width {self.width:.3f}, over-promised by more than 5 %: {self.over:.0%}"
        )


def summary(found: Iterable[tuple[Answer, MemorySplit]]) -> Summary:
    """Median and 90th percentile of the errors, and how the ranges do."""
    pairs = list(found)
    errors = sorted(abs(answer.error(memory)) for answer, memory in pairs)
    return Summary(
        len(pairs),
        median(errors),
        errors[min(ceil_div(9 * len(errors), 10), len(errors)) - 1],
        sum(answer.inside(memory) for answer, memory in pairs) / len(pairs),
        median(answer.width(memory) for answer, memory in pairs),
        sum(answer.error(memory) > 0.05 for answer, memory in pairs) / len(pairs),
    )


@lru_cache(1)
def answers() -> tuple[Answer, ...]:
    """Every row, answered."""
    return tuple(_answer(row) for row in json.loads(FACTS.read_text(encoding="utf-8"))["rows"])


def _answer(row: dict[str, Any]) -> Answer:
    model, card = _model(row), _card(row)
    context = row.get("context") or ("max" if model.max_context else None)
    tp, spread = row.get("tp", 1), row.get("settings", {}).get("expert_parallel")
    request = ask(model, context=context, tp=tp, pp=row.get("pp", 1), ep=tp if spread else 1)
    version, _ = pick(ENGINE.versions, row["version"], "vllm")
    question = Question(request, place(model, request.layout), version, row.get("settings", {}), card=card)
    memory = round(row["total_gib"] * GIB) if "total_gib" in row else card.memory
    lines = beside_weights(ENGINE, question, memory).lines
    budget = Budget(memory, utilization=Fraction.parse(row["utilization"], "utilization"), overheads=lines, card=card)
    whole = weigh(model, "auto")
    loaded = budget._replace(overheads=tuple(line for line in lines if line.name != "padded experts"))  # are printed
    rank = fullest_rank(model, "auto", whole, request.layout)
    return Answer(
        row,
        split_memory(whole, _exactly(row["weights_gib"]), loaded) if "weights_gib" in row else None,
        split_memory(whole, rank, budget),
    )


def _exactly(gib: float) -> WeightRange:
    size = round(gib * GIB)
    return WeightRange(size, size, size)


def _model(row: dict[str, Any]) -> Model:
    model = loader.load(row["preset"])
    if "format" not in row:
        return model
    return replace(model, weights_dtype={**dtypes.COMPUTE, **dtypes.WEIGHTS}[row["format"]], weights_bytes=None)


def _card(row: dict[str, Any]) -> Card:
    if "gpu" in row:
        return card_called(row["gpu"])[1]
    capability = next(found for name, found in CAPABILITIES.items() if name in row["card"])
    return Card("other", row["card"], round(row["total_gib"] * GIB), capability, "NVIDIA", link=31_500_000_000)
