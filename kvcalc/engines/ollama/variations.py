"""Which other readings there are of a log of Ollama: what it leaves open, and rules of other versions."""

from collections.abc import Iterator
from functools import partial

from kvcalc.engines.log_form import StartLog, Variation, Way, Ways
from kvcalc.engines.ollama.versions import VERSIONS, Version
from kvcalc.engines.question import Question

__all__ = ["PARALLEL", "variations", "ways"]

PARALLEL = ("n_seq_max", "seqs", "rs_seqs", "parallel", "n_slots")  # what says how many sequences there are


def ways(question: Question, run: StartLog, version: str | None) -> Ways:
    """Other versions, and what Ollama settles by the memory: its batch, and whether it drafts."""
    rows = [row for row in reversed(VERSIONS) if row != question.version and version is None]
    batches = (256, 512, 1024, 2048) if not (run.last("n_ubatch") or run.last("batch")) else ()
    found = [
        [Way("version", f"the rules of ollama {row.name}", partial(_at, row)) for row in rows],
        [_knob("num_batch", size, f"num_batch {size}") for size in batches],
        [_knob("drafted", 4, "4 drafted tokens")],
        [_sequences(count) for count in (2, 4) if not run.stated(*PARALLEL)],
    ]
    return [each for each in found if each]


def variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:  # noqa: ARG001
    for row in reversed(VERSIONS):
        if row != question.version and version is not None:
            yield Variation(f"the rules of another time, ollama {row.name}", _at(row, question))


def _at(row: Version, question: Question) -> Question:
    return question._replace(version=row)


def _knob(name: str, value: object, words: str) -> Way:
    return Way(name, words, lambda question: question._replace(settings={**question.settings, name: value}))


def _sequences(count: int) -> Way:
    """So many sequences of the whole context."""

    def change(question: Question) -> Question:
        return question.at(count, question.request.context * question.sequences // count)

    return Way("parallel", f"OLLAMA_NUMPARALLEL={count}", change)
