"""How near the memory for the cache comes to what public start-ups of vLLM printed.

    python bench/accuracy.py [--pool GIB]

By card, tensor parallelism, class of model, version and format of the weights: errors of the bytes for the cache of a
GPU (median / 90th percentile), how often the range holds the truth, its width (high / low), and how often more than
5 % too much is promised. Once with the weights as the log prints them, which tests the terms beside them, and once
with the weights as kvcalc counts them. Then each start-up that is off by more than 5 %, with its terms, and what the
fitted terms come to when they are fitted on half of the models and measured on the other. It exits 0 whatever it
finds. Pools below --pool GIB (10) are left out of the tables.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engines"))

from startups import GIB, Answer, answers, summary

from kvcalc.core.memory import MemorySplit
from kvcalc.core.model import Attention, Latent, Model, Recurrent
from kvcalc.library import loader

# Terms whose sizes come from start-ups and not from a formula.
FITTED = ("runtime", "communication", "all-reduce workspace", "encoder", "graphs")
PRIOR = 0.05  # GiB^2 that hold each factor at 1 where half of the models say nothing of it


def class_of(answer: Answer) -> str:
    model: Model = loader.load(answer.row["preset"])
    caches = model.distinct_caches
    if any(isinstance(cache, Recurrent) for cache in caches):
        return "hybrid"
    experts = "experts" if model.dimensions and model.dimensions.experts else "dense"
    kind = "latent" if any(isinstance(cache, Latent) for cache in caches) else "heads"
    assert kind == "latent" or any(isinstance(cache, Attention) for cache in caches)
    return f"{experts}, {kind}"


GROUPS: dict[str, Callable[[Answer], str]] = {
    "all": lambda _: "",
    "card": lambda answer: answer.row.get("gpu") or answer.row["card"],
    "tp": lambda answer: str(answer.row.get("tp", 1)),
    "class": class_of,
    "version": lambda answer: answer.row["version"],
    "format": lambda answer: answer.row.get("format") or "as published",
}


def table(title: str, pairs: list[tuple[Answer, MemorySplit]]) -> None:
    """One summary for each group."""
    print(f"\n{title}")
    for name, of in GROUPS.items():
        groups = defaultdict(list)
        for answer, memory in pairs:
            groups[of(answer)].append((answer, memory))
        for value, found in sorted(groups.items()):
            print(f"  {f'{name} {value}'.strip():32} {summary(found)}")


def misses(pairs: list[tuple[Answer, MemorySplit]]) -> None:
    """Start-ups that are off by more than 5 %, with all that was counted."""
    print("\noff by more than 5 %")
    for answer, memory in pairs:
        if abs(answer.error(memory)) <= 0.05:
            continue
        row = answer.row
        terms = ", ".join(f"{line.name} {line.size.likely / GIB:.2f}" for line in memory.overheads if line.inside)
        weights = row.get("weights_gib")
        logged = "not printed" if weights is None else f"{weights:.2f} printed"
        print(
            f"  {row['id']} {row['preset']} {row.get('format', '')} on {row.get('gpu') or row['card']} tp "
            f"{row.get('tp', 1)}, {row['version']}: {memory.kv_budget / GIB:.2f} for {row['available_gib']:.2f} GiB, "
            f"{answer.error(memory):+.1%}; weights {(memory.weights or 0) / GIB:.2f} ({logged}); {terms}"
            f"{'; ' + row['note'] if 'note' in row else ''}"
        )


def halves(pairs: list[tuple[Answer, MemorySplit]]) -> None:
    """Factors of the fitted terms by one half of the models, and the errors that they give on the other."""
    print("\nfitted on half of the models, measured on the other")
    names = sorted({answer.row["preset"] for answer, _ in pairs})
    for part in (0, 1):
        own = set(names[part::2])
        factors = fit([pair for pair in pairs if pair[0].row["preset"] in own])
        other = [
            (answer, memory._replace(kv_budget=round(budget(memory, factors))))
            for answer, memory in pairs
            if answer.row["preset"] not in own
        ]
        words = ", ".join(f"{name} x {factor:.2f}" for name, factor in factors.items())
        print(f"  {summary(other)}\n    {words}")


def fit(pairs: list[tuple[Answer, MemorySplit]]) -> dict[str, float]:
    """A factor for each fitted term by least squares, one after the other."""
    factors = dict.fromkeys(FITTED, 1.0)
    for _ in range(200):
        for name in FITTED:
            above, below = PRIOR, PRIOR
            for answer, memory in pairs:
                size = part(memory, name) / GIB
                rest = (budget(memory, {**factors, name: 0.0}) - answer.available) / GIB
                above, below = above + size * rest, below + size * size
            factors[name] = max(above / below, 0.0)
    return factors


def part(memory: MemorySplit, name: str) -> int:
    return sum(line.size.likely for line in memory.overheads if line.inside and line.name == name)


def budget(memory: MemorySplit, factors: dict[str, float]) -> float:
    return memory.kv_budget + sum((1 - factor) * part(memory, name) for name, factor in factors.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pool", type=float, default=10, metavar="GIB")
    least = parser.parse_args().pool
    rows = [answer for answer in answers() if answer.row["available_gib"] >= least]
    logged = [(answer, answer.logged) for answer in rows if answer.logged is not None]
    table("with the weights that the log prints", logged)
    counted = [(answer, answer.counted) for answer in rows]
    table("with the weights that kvcalc counts", counted)
    misses(counted)
    halves(logged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
