"""What an engine prints about its cache when it starts: the lines to look for, and what a check makes of them.

A form lies beside its engine as `engines/NAME/log.py` with a value FORM, which only a check imports. The text of a log
is somebody else's: it becomes numbers and words of an engine's command line here, and nothing in it is ever run.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from kvcalc.engines.base import Engine
from kvcalc.engines.log_numbers import Printed, digits
from kvcalc.engines.log_terms import Parts
from kvcalc.engines.question import Question

__all__ = [
    "GIB",
    "MIB",
    "EngineLog",
    "Expected",
    "Failure",
    "Line",
    "LogFacts",
    "LogForm",
    "MatchedLine",
    "StartLog",
    "Variation",
    "Way",
    "Ways",
    "line",
]

GIB, MIB = 2**30, 2**20


Kind = Literal["start", "fact", "count", "lasting", "failure", "memory"]


class Line(NamedTuple):
    """A line to look for.

    Attributes:
        mark: A text that stands in each line that `pattern` matches, and in few others: it is looked for first.
        pattern: What the line says. Its groups are named by what they mean.
        kind: A `count` can be compared, and a `failure` ends a start; a `start` behind one of these belongs to another
            start of the engine; what is `lasting` holds for all starts behind it; `memory` has terms that are
            estimated; a `fact` is everything else.
        keys: Names that are looked for behind the match as `key=value` or `'key': value`.
    """

    mark: str
    pattern: re.Pattern[str]
    kind: Kind = "fact"
    keys: tuple[str, ...] = ()


def line(mark: str, pattern: str, kind: Kind = "fact", keys: tuple[str, ...] = ()) -> Line:
    """A line to look for, its pattern as text."""
    return Line(mark, re.compile(pattern, re.ASCII), kind, keys)


class MatchedLine(NamedTuple):
    """A line of a log that matched.

    Attributes:
        number: Its number in the log, from 1.
        says: What it says: texts by the names of groups and keys.
        stream: The container or replica that it is from; "" where only one speaks.
        rank: The worker of a replica that it is from; "" where only one speaks.
        tp: The worker among those that split heads.
        defaults: Keys that the configuration in it has at their defaults where it does not name them, as it is whole.
        place: The place of its pattern among the engine's.
    """

    number: int
    says: Mapping[str, str]
    stream: str = ""
    rank: str = ""
    tp: str = ""
    defaults: tuple[str, ...] = ()
    place: int = 0

    def get(self, name: str, places: int = 0) -> Printed | None:
        """A number that it says."""
        return digits(self.says.get(name), places)


class StartLog(NamedTuple):
    """All that one start of an engine left in a log.

    Attributes:
        engine: The engine that started.
        found: Its lines, in order.
        giga: Bytes that a GB or GiB in it is taken for.
        budget: Bytes that each GPU had for the cache, where somebody knows them better than the log.
    """

    engine: Engine
    found: tuple[MatchedLine, ...]
    giga: int = GIB
    budget: int | None = None

    def last(self, name: str) -> str | None:
        """The last thing said about `name`."""
        return next((each.says[name] for each in reversed(self.found) if name in each.says), None)

    def first(self, name: str) -> str | None:
        """The first thing said about `name`."""
        return next((each.says[name] for each in self.found if name in each.says), None)

    def stated(self, *names: str) -> bool:
        """Whether any of the names is stated: by itself, or as the default of a configuration that is not cut."""
        return any(name in each.says or name in each.defaults for each in self.found for name in names)

    @property
    def workers(self) -> int:
        """How many workers split the heads, by the number of the last one that signs a line: 0 where none does.

        Not all of them sign one of these lines, and there are 2, 4, 8 of them.
        """
        last = max((int(each.tp) for each in self.found if each.tp), default=0)
        return 1 << last.bit_length() if last else 0


class LogFacts(NamedTuple):
    """What a run's log says of the question.

    Attributes:
        models: Names for the model, best first.
        version: The engine's version; None where the log does not say it.
        words: Words of a command line that would start the same.
        env: Variables in front of that command line.
        metadata: The metadata of a GGUF file, where the log lists it.
        rules: The version whose rules hold where none is named, since its lines look like these.
        open: Options of `request.ask` of which the log says nothing.
        auto: Options that it leaves to the model.
    """

    models: tuple[str, ...] = ()
    version: str | None = None
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    metadata: Mapping[str, object] | None = None
    rules: str | None = None
    open: frozenset[str] = frozenset()
    auto: frozenset[str] = frozenset()


class Expected(NamedTuple):
    """A printed number and what it should be.

    `low`, `predicted` and `high` count bytes, tokens or hundredths, of which `scale` are one of the printed `unit`;
    they are None where nothing is to be expected.

    Attributes:
        number: The number of the line.
        quantity: What is counted, by the names of `views.check`.
        printed: The number as it stands in the log.
        unit: The unit that is printed with it; "" for a count.
        scale: Bytes, tokens or hundredths in one printed unit.
        low: The least that follows from other printed digits, or is exact.
        predicted: The number that is expected.
        high: The most.
        why: Why nothing is to be expected.
        ranked: A rank that is not in the log may have decided on less.
        excuse: Why a number that differs is no contradiction.
        implied: Another printed number leaves no choice in any model, so that their agreement says nothing.
        open: There might be something to expect if what the log leaves open were otherwise.
        hint: What to say beside the log.
    """

    number: int
    quantity: str
    printed: Printed
    unit: str = ""
    scale: int = 1
    low: int | None = None
    predicted: int | None = None
    high: int | None = None
    why: str = ""
    ranked: bool = False
    excuse: str = ""
    implied: bool = False
    open: bool = False
    hint: str = ""


class Way(NamedTuple):
    """A value that an input may have which the log does not state.

    Attributes:
        input: Which input it is.
        words: The value, in words.
        change: Makes the question one with that value. Raises KvcalcError where engine or model do not allow it.
    """

    input: str
    words: str
    change: Callable[[Question], Question]


class Variation(NamedTuple):
    """Another reading of the same log, which something in it speaks against.

    Attributes:
        words: What is assumed, in words.
        question: The question under that assumption.
    """

    words: str
    question: Question


class Failure(NamedTuple):
    """A start that failed. Bytes are those of one GPU, or of one device.

    Attributes:
        line: Where the log says so.
        what: What it says, in words.
        context: Tokens of a sequence that were asked for.
        batch: Sequences that were asked for.
        needed: Bytes that they take.
        available: Bytes that there were; below zero where weights took more.
        max_context: The longest that each of the sequences could be there.
        max_batch: How many sequences of the asked length there could be.
        flags: What to change, most likely first.
    """

    line: int
    what: str
    context: int | None = None
    batch: int | None = None
    needed: int | None = None
    available: int | None = None
    max_context: int | None = None
    max_batch: int | None = None
    flags: tuple[str, ...] = ()


Ways = Sequence[Sequence[Way]]


def _no_ways(question: Question, run: StartLog, version: str | None) -> Ways:  # noqa: ARG001
    return ()


def _no_variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:  # noqa: ARG001
    return iter(())


def _no_failure(question: Question | None, run: StartLog) -> Failure | None:  # noqa: ARG001
    return None


class LogForm(NamedTuple):
    """How one engine's start-up reads.

    Attributes:
        lines: The lines to look for.
        said: What a run's lines say of the question.
        expect: The numbers that a run prints, each with what it should be. Raises KvcalcError as the engine does.
        ways: For each input that a run leaves open, the values that it may have; given the version that was stated.
        variations: Readings that something in a run speaks against, which may explain a contradiction.
        failure: Why a start failed; None where it did not. The question is None where the log says too little for one.
        claims: Whether a run of such lines is this engine's and no relative's.
        pooled: The engine has one pool for requests of any length, so that the length need not be known.
        terms: The terms of the memory that are estimated, by the names of groups.
        sorted: A start's lines may be brought into the order of `lines`: no two caches print the same ones.
    """

    lines: tuple[Line, ...]
    said: Callable[[StartLog], LogFacts]
    expect: Callable[[Question, StartLog], Iterator[Expected]]
    ways: Callable[[Question, StartLog, str | None], Ways] = _no_ways
    variations: Callable[[Question, StartLog, str | None], Iterator[Variation]] = _no_variations
    failure: Callable[[Question | None, StartLog], Failure | None] = _no_failure
    claims: Callable[[Sequence[MatchedLine]], bool] = lambda found: True  # noqa: ARG005
    pooled: bool = True
    sorted: bool = True
    terms: Mapping[str, Parts] = {}


class EngineLog(NamedTuple):
    """An engine and how its start-up reads.

    Attributes:
        engine: The engine.
        form: The form of its log.
    """

    engine: Engine
    form: LogForm
