"""What an engine prints about its cache when it starts: the lines to look for, and what a check makes of them.

A form lies beside its engine as `engines/_NAME_log.py` with a value FORM, which only a check imports. Text of a log is
somebody else's: it becomes numbers and words of an engine's command line here, and nothing in it is ever opened or run.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from kvcalc.core.units import ceil_div
from kvcalc.engines.base import Engine, Question

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
    "Printed",
    "StartLog",
    "Variation",
    "Way",
    "Ways",
    "digits",
    "key_values",
    "line",
    "plain",
]

GIB, MIB = 2**30, 2**20

_LONGEST_NUMBER = 24


class Printed(NamedTuple):
    """A number as it stands in a log: `value` counts units of the last of its `places`."""

    value: int
    places: int = 0

    def bounds(self, scale: int = 1) -> tuple[int, int]:
        """The least and the largest whole number that may have been rounded to this one. `scale`: its unit in bytes."""
        if not self.places:
            return self.value * scale, self.value * scale
        per_digit: int = 2 * 10**self.places
        low, high = (2 * self.value - 1) * scale, (2 * self.value + 1) * scale
        return ceil_div(low, per_digit), high // per_digit

    def whole(self, scale: int = 1) -> int:
        """The number itself in bytes, cut."""
        per_unit: int = 10**self.places
        return self.value * scale // per_unit


def digits(text: str | None, places: int = 0) -> Printed | None:
    """The number that `text` writes. It has at least `places` decimals, even where their zeros are not printed."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(-?)([0-9,_]{1,32})(?:\.([0-9]{1,12}))?\s*", text, re.ASCII)
    whole = re.sub(r"[,_]", "", match[2]) if match else ""
    if match is None or not whole or len(whole) > _LONGEST_NUMBER:
        return None
    decimals = (match[3] or "").ljust(places, "0")
    return Printed(int(match[1] + whole + decimals), len(decimals))


def plain(text: str | None) -> int | None:
    """The whole number that `text` writes."""
    found = digits(text)
    return None if found is None or found.places else found.value


Kind = Literal["start", "fact", "count", "lasting", "failure"]


class Line(NamedTuple):
    """A line to look for: `mark` stands in each that `pattern` matches. Groups name what it says.

    `keys` are looked for behind the match as `key=value` or `'key': value`. A `count` can be compared, and a `failure`
    ends a start; a `start` behind one of these belongs to another start of the engine. What is `lasting` holds for all
    starts behind it.
    """

    mark: str
    pattern: re.Pattern[str]
    kind: Kind = "fact"
    keys: tuple[str, ...] = ()


def line(mark: str, pattern: str, kind: Kind = "fact", keys: tuple[str, ...] = ()) -> Line:
    """A line to look for, its pattern as text."""
    return Line(mark, re.compile(pattern, re.ASCII), kind, keys)


class MatchedLine(NamedTuple):
    """A line of a log that matched, with what it says.

    `stream` tells replicas apart, `rank` the workers of one, of which `tp` is the one among those that split heads.
    `defaults`: keys that the configuration in it has at their defaults where it does not name them, as it is not cut.
    `place` is that of its pattern among the engine's.
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
    """All that one start of an engine left in a log. `giga`: what a GB or GiB in it is taken for.

    `budget`: bytes that each GPU had for the cache, where somebody knows them better than the log.
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
    """What a run's log says of the question: names for the model, best first, the version, words of a command line and
    the variables in front of it.

    `metadata` is that of a GGUF file, where the log lists it. `rules`: the version to go by where none is named, since
    its lines look like these. `open`: options of `request.ask` of which the log says nothing; `auto`: those that it
    leaves to the model.
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
    """A printed number and what it should be. `low` to `high` is what follows from other printed digits or is exact.

    Both and `predicted` count bytes, tokens or hundredths: `scale` of them are one of the printed `unit`. None where
    nothing is to be expected, with `why`. `ranked`: a rank that is not in the log may have decided on less. `excuse`:
    why a number that differs is no contradiction. `implied`: another printed number leaves no choice in any model: that
    they agree says nothing. `open`: there might be something to expect if what the log leaves open were otherwise.
    `hint`: what to say beside the log.
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
    """A value that an input may have which the log does not state, in words, and the question with it.

    `change` may raise KvcalcError for a value that the engine or the model does not allow.
    """

    input: str
    words: str
    change: Callable[[Question], Question]


class Variation(NamedTuple):
    """Another reading of the same log, which something in it speaks against."""

    words: str
    question: Question


class Failure(NamedTuple):
    """A start that failed. Bytes are those of one GPU, or of one device; below zero where weights took more.

    `line` is where the log says so, `what` what it says, in words. `context` and `batch` were asked for, which take
    `needed` bytes where there were `available`. `max_context` is the longest that one sequence could be there,
    `max_batch` how many sequences of `context` there could be. `flags`: what to change, most likely first.
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

    `ways`: for each input that a log leaves open, the values that it may have. `variations`: readings that something in
    the log speaks against, which may explain a contradiction. `failure`: why a start failed, where it did; the question
    is None where the log does not say enough for one. `claims`: whether a run of such lines is this engine's and no
    relative's. `pooled`: one pool for requests of any length, so that the length need not be known. `sorted`: lines of
    one start may be brought into the order of `lines`; elsewhere several caches print the same lines.
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


class EngineLog(NamedTuple):
    """An engine and how its start-up reads."""

    engine: Engine
    form: LogForm


_VALUE = r"""['"]?\s*[=:]\s*(?:'([^']{0,300})'|"([^"]{0,300})"|([^\s,(){}\[\]]{1,300}))"""


def key_values(text: str, keys: Sequence[str]) -> dict[str, str]:
    """The first value of each key in a printed configuration; what is None or empty is left out."""
    pattern = re.compile(rf"(?<![\w.-])({'|'.join(keys)}){_VALUE}")
    found: dict[str, str] = {}
    for match in pattern.finditer(text):
        found.setdefault(match[1], match[2] or match[3] or match[4] or "")
    return {key: value for key, value in found.items() if value not in ("", "None")}
