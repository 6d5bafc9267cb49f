"""A log's numbers against the prediction: each compared, what a log leaves open tried, a contradiction explained.

Nothing here reads a file or a terminal. Whether two numbers agree is decided in whole bytes, tokens or hundredths.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple, NoReturn

from kvcalc.commands.versions import pick, unread
from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Engine, Question
from kvcalc.engines.log_form import Expected, LogFacts, LogForm, StartLog, Variation
from kvcalc.errors import KvcalcError

__all__ = ["Checked", "Compared", "Verdict", "Work", "compare", "overall"]

Verdict = Literal["match", "mismatch", "unknown"]

_SMALLER_RANK = 3  # per cent that another rank may have had less
_MOST_OPEN = 300  # readings of what a log leaves open
_MOST_TRIED = 1_500  # in one log; a start needs some twenty, or hundreds where it leaves much open
_MOST_BESIDE = 20  # of them beside each usual misunderstanding


class Work:
    """How many readings may still be tried for one log: a server that crashes in a loop has thousands of starts."""

    def __init__(self, most: int = _MOST_TRIED) -> None:
        self.left = most


class Compared(NamedTuple):
    """A printed number with its verdict. `why` says what is behind it where it is no plain match."""

    expected: Expected
    verdict: Verdict
    why: str = ""

    @property
    def undecided(self) -> bool:
        """Compared, and neither confirmed nor contradicted."""
        return self.verdict == "unknown" and self.expected.ranked and not self.expected.excuse

    @property
    def says(self) -> str:
        """The verdict as far as it is one on the model and its cache."""
        implied = self.verdict == "match" and self.expected.implied
        return "undecided" if self.undecided else "implied" if implied else self.verdict


class Checked(NamedTuple):
    """One start of an engine, checked. `assumed` was not in the log and makes its numbers agree; `explained` would."""

    question: Question
    engine: Engine
    version: str | None
    compared: tuple[Compared, ...]
    assumed: str = ""
    explained: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return overall(self.compared)


def overall(compared: Iterable[Compared]) -> Verdict:
    """A mismatch if there is one; else nothing is sure where a smaller rank may have decided; else a match, if there is
    one that another model would not have.
    """
    seen = {each.says for each in compared}
    return "mismatch" if "mismatch" in seen else "match" if "match" in seen and "undecided" not in seen else "unknown"


class _Asking(NamedTuple):
    """What is asked of an engine, so that it can be asked again with something changed."""

    model: Model
    options: Mapping[str, Any]
    question: Question
    work: Work

    def changed(self, **options: Any) -> Question:
        request = ask(self.model, **{**self.options, **options})
        return self.question._replace(request=request, placement=measure(request).placement)


def compare(
    run: StartLog,
    form: LogForm,
    said: LogFacts,
    model: Model,
    stated: Mapping[str, Any],
    settings: Mapping[str, object],
    version: str | None,
    work: Work,
    card: Card | None = None,
) -> Checked:
    """Compare a run with what its engine is predicted to print. Raises KvcalcError where there is no prediction.

    `stated` are options of `request.ask`, `knobs` the engine's own settings; `version` None is not known.
    """
    row, warning = pick(run.engine.versions, version or said.rules, run.engine.name)
    request = ask(model, **stated)
    asking = _Asking(model, stated, Question(request, measure(request).placement, row, settings, card=card), work)
    newest = run.engine.newest
    newer = unread(version, newest, run.engine.name) if version and newest else None
    warnings = tuple(each for each in (warning, newer) if each)
    refused: KvcalcError | None = None
    compared: tuple[Compared, ...] = ()
    try:
        compared = _compare(asking.question, run, form)
    except KvcalcError as error:  # what the log leaves open may have been something with a rule
        refused = error
    plain = Checked(asking.question, run.engine, version, compared, warnings=warnings)
    if refused is None and plain.verdict != "mismatch":
        return plain
    readings = list(islice(form.variations(asking.question, run, version), _MOST_OPEN))
    for each in readings:
        if each.open and (again := _try(each.question, run, form, work)) is not None:
            return plain._replace(question=each.question, compared=again, assumed=each.words)
    if refused is not None:
        plain = _under_a_rule(plain, [each for each in readings if each.open], run, form) or _raise(refused)
    closed = [each for each in readings if not each.open]
    asking = asking._replace(question=plain.question)
    return plain._replace(explained=tuple(_explanations(asking, run, form, closed, version)))


def _raise(error: KvcalcError) -> NoReturn:
    raise error


def _under_a_rule(plain: Checked, readings: Sequence[Variation], run: StartLog, form: LogForm) -> Checked | None:
    """The first reading that there is a rule for, where the plainest has none."""
    for each in readings:
        try:
            compared = _compare(each.question, run, form)
        except KvcalcError:
            continue
        warning = f"not in the log, and taken since there is a rule for it: {each.words}"
        return plain._replace(question=each.question, compared=compared, warnings=(*plain.warnings, warning))
    return None


def _try(question: Question, run: StartLog, form: LogForm, work: Work) -> tuple[Compared, ...] | None:
    """The comparison under another reading, if all agrees there; the first contradiction is enough to know."""
    work.left -= 1
    compared: list[Compared] = []
    try:
        for each in form.expect(question, run):
            compared.append(_judge(each))
            if compared[-1].verdict == "mismatch":
                return None
    except KvcalcError:
        return None
    return tuple(compared) if overall(compared) == "match" else None


def _compare(question: Question, run: StartLog, form: LogForm) -> tuple[Compared, ...]:
    return tuple(_judge(each) for each in form.expect(question, run))


def _judge(expected: Expected) -> Compared:
    if expected.low is None or expected.high is None:
        return Compared(expected, "unknown", expected.why)
    low, high = expected.printed.bounds(expected.scale)
    if low <= expected.high and expected.low <= high:
        return Compared(expected, "match")
    if expected.ranked and high < expected.low and 100 * high >= (100 - _SMALLER_RANK) * expected.low:
        return Compared(expected, "unknown", "a smaller rank, which is not in the log, may have decided")
    if expected.excuse:
        return Compared(expected, "unknown", expected.excuse)
    return Compared(expected, "mismatch")


def _explanations(
    asking: _Asking, run: StartLog, form: LogForm, closed: Sequence[Variation], version: str | None
) -> list[str]:
    """The usual misunderstandings under which all numbers would agree, alone or with what the log leaves open."""
    return list(_plain(asking, run, form, closed)) or list(islice(_combined(asking, run, form, version), 1))


def _plain(asking: _Asking, run: StartLog, form: LogForm, closed: Sequence[Variation]) -> Iterator[str]:
    if _try(asking.question, run._replace(giga=10**9), form, asking.work):
        yield "sizes in GB of 10^9 bytes, and not in GiB"
    for words, question in _changes(asking):
        if _try(question, run, form, asking.work):
            yield words
    # other versions print the same as the first that does
    yield from islice((each.words for each in closed if _try(each.question, run, form, asking.work)), 1)


def _combined(asking: _Asking, run: StartLog, form: LogForm, version: str | None) -> Iterator[str]:
    for words, question in _changes(asking):
        for each in islice(form.variations(question, run, version), _MOST_BESIDE):
            if each.open and _try(each.question, run, form, asking.work):
                yield f"{words} ({each.words})"


def _changes(asking: _Asking) -> Iterator[tuple[str, Question]]:
    request = asking.question.request
    heads = "every query head cached, and not the KV heads alone", {"kv_heads": "all"}
    for words, options in (*_formats(request), *_layouts(request), heads):
        with suppress(KvcalcError):
            yield words, asking.changed(**options)


def _formats(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other widths of the cache."""
    plain = dict.fromkeys(("k_dtype", "v_dtype"))
    for name, words in (("bf16", "a 16-bit cache"), ("fp8", "an fp8 cache"), ("fp32", "a 32-bit cache")):
        if {request.widths.k.bits, request.widths.v.bits} != {{"bf16": "16", "fp8": "8", "fp32": "32"}[name]}:
            yield words, {**plain, "kv_dtype": name}


def _layouts(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other numbers of ranks: heads that are not split stand on each of them."""
    tp = request.layout.tp
    if tp > 1:
        yield "heads replicated on every rank, and none split by tp", {"tp": 1, "dcp": 1}
    for other in (2, 4, 8, 16):
        if other != tp:
            yield f"tp {other}", {"tp": other, "dcp": 1}
    if request.layout.pp > 1:
        yield "all layers on one stage", {"pp": 1}
