"""What would give memory back: the same question with another value, asked again."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kvcalc.core.overheads import beside
from kvcalc.core.units import Fraction
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError
from kvcalc.queries.size import SizeAnswer, SizeQuestion, answer
from kvcalc.queries.source import Source

__all__ = ["Saving", "savings"]

_LEAST = 1 << 26  # bytes that are worth a word
_SEQUENCES, _TOKENS = (256, 64, 16), (8192, 4096, 2048)
_HUNDREDTHS = (92, 95)  # of the memory


class Saving(NamedTuple):
    """A change in words of the command line, and what each GPU then has more for the cache.

    Attributes:
        change: The option with its value.
        gained: Bytes of a GPU.
        budget: Bytes of a GPU for the cache with it.
        tokens: Tokens that fit with it, where the engine has one pool for all.
    """

    change: str
    gained: int
    budget: int
    tokens: int | None


def savings(question: SizeQuestion, found: SizeAnswer) -> tuple[Saving, ...]:
    """What would give memory back, one change at a time; nothing where the memory is not that of a GPU."""
    fitted = found.fit
    if fitted is None or fitted.memory.vram is None or found.beside is None or "-" in (question.engine.words or ())[:1]:
        return ()  # the last is a text on standard input, which is read once
    if question.source.model == "-":
        question = question._replace(source=Source(found.size.request.facts))
    before = fitted.memory.kv_budget
    kept: list[Saving] = []
    for change, other in _changes(question, found):
        with suppress(KvcalcError):  # what the engine has not, or what its own flags state
            fit = answer(other).fit
            if fit is None or fit.memory.kv_budget - before < _LEAST:
                continue
            memory = fit.memory
            if memory.outside is not None and memory.outside < beside(memory.overheads).likely:
                continue  # what is captured behind the pool would have no room
            option, gained = change.split()[0], memory.kv_budget - before
            same = [each.gained for each in kept if each.change.split()[0] == option]
            if not same or gained - same[-1] >= _LEAST:
                kept.append(Saving(change, gained, memory.kv_budget, fit.capacity_tokens))
    return tuple(kept)


def _changes(question: SizeQuestion, found: SizeAnswer) -> Iterator[tuple[str, SizeQuestion]]:
    engine, memory, run = question.engine, question.memory, found.run
    if found.reservation is not None:
        told: list[tuple[str, dict[str, Any]]] = [
            *((f"--max-num-seqs {n}", {"max_num_seqs": n}) for n in _SEQUENCES if n < (run.max_num_seqs or n + 1)),
            *(
                (f"--max-num-batched-tokens {n}", {"max_num_batched_tokens": n})
                for n in _TOKENS
                if n < (run.max_num_batched_tokens or n + 1)
            ),
            ("--enforce-eager", {"enforce_eager": True}),
        ]
        if found.size.request.model.encoder_parameters is not None:
            told.append(("--language-model-only", {"language_model_only": True}))
        for change, values in told:
            yield change, question._replace(engine=engine._replace(run=engine.run._replace(**values)))
    assert found.fit is not None
    used = found.fit.memory.utilization
    for share in _HUNDREDTHS:
        if used is not None and 100 * used.part < share * used.of:
            yield (
                f"--utilization 0.{share}",
                question._replace(memory=memory._replace(utilization=Fraction(share, 100))),
            )
    model = found.size.request.facts
    if memory.weights in (None, "auto") and model.weights_dtype is None and model.weights_bytes is None:
        fp8 = parse_weights("fp8", "--weights")
        yield "--weights fp8, a checkpoint in 8 bits", question._replace(memory=memory._replace(weights=fp8))
