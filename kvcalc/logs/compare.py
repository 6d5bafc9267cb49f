"""A log's numbers against the prediction: each compared, and what a log leaves open tried.

Nothing here reads a file or a terminal. Whether two numbers agree is decided in whole bytes, tokens or hundredths.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, Literal, NamedTuple

from kvcalc.commands.versions import pick, unread
from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Engine
from kvcalc.engines.log_form import Expected, Failure, LogFacts, LogForm, StartLog, Way
from kvcalc.engines.log_terms import Parts
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.logs.readings import Asking, explanations, unsaid

__all__ = ["MOST_AT_ONCE", "Checked", "Compared", "LineVerdict", "Trials", "Verdict", "compare", "overall"]

Verdict = Literal["match", "mismatch", "unknown"]
LineVerdict = Literal["match", "mismatch", "unknown", "estimate"]

_SMALLER_RANK = 3  # per cent that another rank may have had less
_MOST_OPEN = 500  # readings of what one start leaves open
_MOST_RULED = 100  # readings among which one with a rule is looked for
_MOST_OF_A_LOG = 1000  # and of all starts in a log together
MOST_AT_ONCE = 3  # inputs that have other values than the likely ones


class Compared(NamedTuple):
    """A printed number with its verdict. `why` says what is behind it where it is no plain match; `several`: values of
    what the log leaves open that explain it.
    """

    expected: Expected
    verdict: LineVerdict
    why: str = ""
    several: bool = False

    @property
    def difference(self) -> int | None:
        """Bytes, tokens or hundredths that are predicted above what is printed; None where nothing is predicted."""
        expected = self.expected
        return None if expected.predicted is None else expected.predicted - expected.printed.whole(expected.scale)

    @property
    def undecided(self) -> bool:
        """Compared, and neither confirmed nor contradicted."""
        return self.several or (self.verdict == "unknown" and self.expected.ranked and not self.expected.excuse)

    @property
    def says(self) -> str:
        """The verdict as far as it is one on the model and its cache."""
        implied = self.verdict == "match" and self.expected.implied
        return "undecided" if self.undecided else "implied" if implied else self.verdict


class Checked(NamedTuple):
    """One start of an engine, checked.

    `assumed` was not in the log, and makes its numbers agree; where several values do, they are `possible`, and nothing
    is decided. `explained` would make them agree, and is what the log does not say. `run`, its `stated`
    options and the `terms` of the memory that it prints are what is `estimated`, and decide nothing.
    """

    question: Question
    engine: Engine
    version: str | None
    compared: tuple[Compared, ...]
    assumed: str = ""
    explained: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    failure: Failure | None = None
    run: StartLog | None = None
    stated: EngineOptions | None = None
    terms: Mapping[str, Parts] = {}
    estimated: tuple[Compared, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return overall(self.compared)


def overall(compared: Iterable[Compared]) -> Verdict:
    """A mismatch if there is one; else nothing is sure where a smaller rank may have decided; else a match, if there is
    one that another model would not have.
    """
    seen = {each.says for each in compared}
    return "mismatch" if "mismatch" in seen else "match" if "match" in seen and "undecided" not in seen else "unknown"


class Trials:
    """How many readings may still be tried, of a log and of one start in it. `at_once`: inputs that are changed."""

    def __init__(self) -> None:
        self.left, self.of_start, self.at_once = _MOST_OF_A_LOG, _MOST_OPEN, MOST_AT_ONCE

    def of_a_start(self, at_once: int) -> "Trials":
        """The trials of the next start."""
        self.of_start, self.at_once = _MOST_OPEN, at_once
        return self

    def another(self) -> bool:
        """Whether there is one more, which is then taken."""
        self.left, self.of_start = self.left - 1, self.of_start - 1
        return self.left >= 0 and self.of_start >= 0


class _Reading(NamedTuple):
    """A reading of what a log leaves open, and the comparison under it."""

    ways: tuple[Way, ...]
    question: Question
    compared: tuple[Compared, ...]

    @property
    def words(self) -> str:
        return ", ".join(way.words for way in self.ways)

    @property
    def values(self) -> frozenset[str]:
        """Its values but the version, of which some must hold: neighbours have the same rules for most models."""
        return frozenset(way.words for way in self.ways if way.input != "version")


def compare(
    run: StartLog,
    form: LogForm,
    said: LogFacts,
    model: Model,
    stated: Mapping[str, Any],
    settings: Mapping[str, object],
    version: str | None,
    card: Card | None = None,
    at_once: int = MOST_AT_ONCE,
    trials: "Trials | None" = None,
) -> Checked:
    """Compare a run with what its engine is predicted to print. Raises KvcalcError where there is no prediction.

    `stated` are options of `request.ask`, `settings` the engine's own; `version` None is not known. `at_once`: how many
    inputs that are not stated may have other values than the likely ones, for as many `trials` as are left.
    """
    row, warning = pick(run.engine.versions, version or said.rules, run.engine.name)
    request = ask(model, **stated)
    asking = Asking(model, stated, Question(request, measure(request).placement, row, settings, card=card))
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
    if refused is None and (plain.verdict == "match" or not _to_be_tried(plain)):
        return plain
    ways = [*form.ways(asking.question, run, version), *unsaid(asking, run.engine, said)]
    left = (trials or Trials()).of_a_start(at_once)
    found = _agreeing(ways, asking.question, run, form, left)
    if found:
        return _decided(plain, found)
    if refused is not None:
        ruled = _under_a_rule(plain, ways, run, form)
        if ruled is None:
            raise refused
        plain = ruled
    if plain.verdict != "mismatch" or at_once < MOST_AT_ONCE:
        return plain

    def agrees(question: Question, other: StartLog) -> bool:
        return left.another() and _try(question, other, form) is not None

    asking, left = asking._replace(question=plain.question), left.of_a_start(at_once)
    return plain._replace(explained=tuple(explanations(asking, run, form, said, version, agrees)))


def _to_be_tried(plain: Checked) -> bool:
    """Something contradicts, or something could be compared if it were known what."""
    return plain.verdict == "mismatch" or any(each.expected.open for each in plain.compared)


def _readings(
    ways: Sequence[Sequence[Way]], question: Question, many: int
) -> Iterator[tuple[tuple[Way, ...], Question]]:
    """Readings in which so many inputs have other values. One that the engine refuses is none."""
    for chosen in combinations(ways, many):
        for each in product(*chosen):
            changed = question
            try:
                for way in each:
                    changed = way.change(changed)
            except KvcalcError:
                continue
            yield each, changed


def _agreeing(
    ways: Sequence[Sequence[Way]], question: Question, run: StartLog, form: LogForm, trials: "Trials"
) -> list[_Reading]:
    """The readings under which all agrees, with as few changes as possible."""
    for many in range(1, trials.at_once + 1):
        found = []
        for each, changed in _readings(ways, question, many):
            if not trials.another():
                break
            compared = _try(changed, run, form)
            if compared is not None:
                found.append(_Reading(each, changed, compared))
        if found:
            return found
    return []


def _decided(plain: Checked, found: Sequence[_Reading]) -> Checked:
    """A match where one value of what the log leaves open explains its numbers, and else nothing is sure.

    Readings that differ in the version alone are one, and one that assumes more than another is none.
    """
    first = {each.values: each for each in reversed(found)}
    least = [each for values, each in first.items() if not any(other < values for other in first)]
    readings = sorted(least, key=found.index)
    best = readings[0]
    taken = plain._replace(question=best.question, compared=best.compared)
    if len(readings) == 1:
        return taken._replace(assumed=best.words)
    agreed = [each.expected for each in plain.compared if each.verdict == "match"]
    compared = tuple(each if each.expected in agreed else _unsure(each) for each in best.compared)
    return taken._replace(compared=compared, possible=tuple(each.words for each in readings))


def _unsure(compared: Compared) -> Compared:
    if compared.verdict != "match":
        return compared
    return Compared(compared.expected, "unknown", "the log does not say which of several values it was", several=True)


def _under_a_rule(plain: Checked, ways: Sequence[Sequence[Way]], run: StartLog, form: LogForm) -> Checked | None:
    """The first reading that there is a rule for, where the plainest has none."""
    for many in (1, 2):
        for each, changed in islice(_readings(ways, plain.question, many), _MOST_RULED):
            try:
                compared = _compare(changed, run, form)
            except KvcalcError:
                continue
            words = ", ".join(way.words for way in each)
            warning = f"not in the log, and taken since there is a rule for it: {words}"
            return plain._replace(question=changed, compared=compared, warnings=(*plain.warnings, warning))
    return None


def _try(question: Question, run: StartLog, form: LogForm) -> tuple[Compared, ...] | None:
    """The comparison under another reading, if all agrees there; the first contradiction is enough to know."""
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
