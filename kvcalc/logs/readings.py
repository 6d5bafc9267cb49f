"""Other readings of a log: what it leaves open, whatever the engine, and what would explain a contradiction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from kvcalc.core.dtypes import KV, DType, dtype_called
from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Engine
from kvcalc.engines.log_form import LogFacts, LogForm, StartLog, Variation, Way
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["Asking", "explanations", "unsaid"]

_MOST_BESIDE = 20  # of what is open, tried beside each usual misunderstanding
_MOST_CLOSED = 1  # other versions print the same as the first that does
_RANKS = (1, 2, 4, 8, 16)

Agrees = Callable[[Question, StartLog], bool]


class Asking(NamedTuple):
    """What is asked of an engine, so that it can be asked again with something changed."""

    model: Model
    options: Mapping[str, Any]
    question: Question

    def changed(self, question: Question, **options: Any) -> Question:
        """The question with other options; its settings and its version stay as they are."""
        request = ask(self.model, **{**self.options, **options})
        return question._replace(request=request, placement=measure(request).placement)


def unsaid(asking: Asking, engine: Engine, said: LogFacts) -> Iterator[Sequence[Way]]:
    """Values of what every engine prints of its configuration, where a log has it not."""
    request = asking.question.request
    if "tp" in said.open:
        yield [_tp(asking, size) for size in _RANKS if size != request.layout.tp]
    if "kv_dtype" in said.open:
        yield [_format(asking, words, name) for words, name in _formats(request, engine.formats)]


def _tp(asking: Asking, size: int) -> Way:
    return Way("tp", f"tp {size}", lambda question: asking.changed(question, tp=size, dcp=1, **_kept(question, "tp")))


def _format(asking: Asking, words: str, name: str) -> Way:
    plain = dict.fromkeys(("k_dtype", "v_dtype"))
    return Way(
        "kv_dtype",
        words,
        lambda question: asking.changed(question, **{**_kept(question, "kv_dtype"), **plain, "kv_dtype": name}),
    )


def _kept(question: Question, changed: str) -> dict[str, Any]:
    """Options in force that another way may have changed before."""
    request = question.request
    found: dict[str, Any] = {} if changed == "tp" else {"tp": request.layout.tp, "dcp": request.layout.dcp}
    if changed != "kv_dtype" and not all(request.auto):
        found |= {"k_dtype": request.widths.k.name, "v_dtype": request.widths.v.name}
    return found


def explanations(
    asking: Asking, run: StartLog, form: LogForm, said: LogFacts, version: str | None, agrees: Agrees
) -> list[str]:
    """The usual misunderstandings under which all numbers would agree, alone or with what the log leaves open."""
    closed = form.variations(asking.question, run, version)
    return list(_plain(asking, run, closed, said, agrees)) or list(
        islice(_combined(asking, run, form, said, version, agrees), 1)
    )


def _plain(asking: Asking, run: StartLog, closed: Iterator[Variation], said: LogFacts, agrees: Agrees) -> Iterator[str]:
    if agrees(asking.question, run._replace(giga=10**9)):
        yield "sizes in GB of 10^9 bytes, and not in GiB"
    for words, question in _changes(asking, run.engine, said):
        if agrees(question, run):
            yield words
    yield from islice((each.words for each in closed if agrees(each.question, run)), _MOST_CLOSED)


def _combined(
    asking: Asking, run: StartLog, form: LogForm, said: LogFacts, version: str | None, agrees: Agrees
) -> Iterator[str]:
    for words, question in _changes(asking, run.engine, said):
        beside = (way for ways in form.ways(question, run, version) for way in ways)
        for way in islice(beside, _MOST_BESIDE):
            with suppress(KvcalcError):
                if agrees(way.change(question), run):
                    yield f"{words} ({way.words})"


def _changes(asking: Asking, engine: Engine, said: LogFacts) -> Iterator[tuple[str, Question]]:
    """What people take for granted, and what the log leaves to the model; nothing that it states otherwise."""
    question, request = asking.question, asking.question.request
    if "kv_dtype" in said.auto:
        for words, name in _formats(request, (*engine.formats, "fp32")):
            with suppress(KvcalcError):
                yield words, _format(asking, words, name).change(question)
    options: list[tuple[str, dict[str, Any]]] = []
    if request.layout.tp > 1:
        options.append(("heads replicated on every rank, and none split by tp", {"tp": 1, "dcp": 1}))
    if request.layout.pp > 1:
        options.append(("all layers on one stage", {"pp": 1}))
    options.append(("every query head cached, and not the KV heads alone", {"kv_heads": "all"}))
    for words, changed in options:
        with suppress(KvcalcError):
            yield words, asking.changed(question, **changed)


_PLAIN = {16: "a 16-bit cache", 8: "an fp8 cache", 32: "a 32-bit cache"}


def _formats(request: Request, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """An engine's formats, one of each width that the cache does not have now; those of 8 bits are called fp8."""
    widths = {_width(request.widths.k)} if request.widths.k == request.widths.v else set()
    for name in names:
        with suppress(KvcalcError):
            dtype = dtype_called(name, KV, "--kv-dtype")
            width = _width(dtype)
            if width in widths:
                continue
            widths.add(width)
            bits, rest = divmod(width[0], width[1])
            plain = "" if rest or dtype.block > 1 else _PLAIN.get(bits, "")
            yield plain or f"a {name} cache", name


def _width(dtype: DType) -> tuple[int, int]:
    """Bits of a block, and its elements."""
    return 8 * dtype.block_bytes, dtype.block
