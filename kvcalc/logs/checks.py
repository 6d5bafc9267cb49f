"""A whole log checked: for each start of an engine in it, the question that it answers, and the comparison."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from kvcalc.commands.flags import FlagValues, read_flags
from kvcalc.commands.versions import parse, pick
from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.engines.base import Engine
from kvcalc.engines.log_form import EngineLog, Failure, Line, LogFacts, MatchedLine, StartLog
from kvcalc.errors import KvcalcError
from kvcalc.logs.compare import MOST_AT_ONCE, Checked, Trials, compare
from kvcalc.logs.known import Names, Repeated
from kvcalc.logs.runs import marks_of, runs_of
from kvcalc.logs.text import marked_lines
from kvcalc.preset.mapping import model_from_preset

__all__ = ["Failed", "Log", "LogQuestion", "check_log"]

_MOST_REFUSED = 10  # starts that are told of one by one


class LogQuestion(NamedTuple):
    """What the asker knows better than the log: a model, options of `request.ask`, a version, the memory, the card.

    `flags` are the engine's own, which follow a `program` ("" for flags alone); `names` are those of the model there.
    """

    model: Model | None = None
    options: Mapping[str, Any] = {}
    flags: FlagValues | None = None
    program: str = ""
    names: tuple[str, ...] = ()
    version: str | None = None
    kv_memory: int | None = None
    card: Card | None = None


class Failed(NamedTuple):
    """A start that failed, of which there is nothing to compare."""

    engine: Engine
    version: str | None
    failure: Failure


class Log(NamedTuple):
    """What was found in a log: the starts that could be read, in order, and what to know of the others."""

    starts: tuple[Checked | Failed, ...]
    warnings: tuple[str, ...]

    @property
    def checked(self) -> list[Checked]:
        return [each for each in self.starts if isinstance(each, Checked)]


def check_log(stream: BinaryIO, spoken: Sequence[EngineLog], wanted: LogQuestion, file: str) -> Log:
    """Read a log and check it. Raises KvcalcError where nothing in it can be compared, and no start failed."""
    reading = runs_of(marked_lines(stream, marks_of(spoken), file), spoken)
    warnings = ["the log has more such lines than one of an engine has: the first of them were read"] * reading.cut
    starts: list[Checked | Failed] = []
    refused = []
    names, trials, known = Names(), Trials(), Repeated()
    for each, run in reading.runs:
        if not any(line.kind in ("count", "failure") for line in _lines_of(each, run)) and not each.form.failure(
            None, run
        ):
            continue
        try:
            one, notes = known.get(each, run) or known.keep(each, run, _in_any_order(each, run, wanted, names, trials))
        except KvcalcError as error:
            failure = each.form.failure(None, run)
            if failure is not None:
                starts.append(Failed(run.engine, run.last("version"), failure))
            refused.append((run, error))
            continue
        warnings += [*notes, *one.warnings]
        starts.append(one)
    checked = [each for each in starts if isinstance(each, Checked)]
    failed = any(isinstance(each, Failed) or each.failure for each in starts)
    if not failed and not any(each.verdict != "unknown" or _excused(each) for each in checked):
        _nothing(spoken, checked, refused, file)
    told = refused[:_MOST_REFUSED]
    warnings += [f"line {run.found[0].number}: {run.engine.name}: {error.message}" for run, error in told]
    if len(refused) > _MOST_REFUSED:
        warnings.append(f"{len(refused) - _MOST_REFUSED} more starts could not be checked")
    return Log(tuple(starts), tuple(dict.fromkeys(warnings)))


def _lines_of(spoken: EngineLog, run: StartLog) -> Iterator[Line]:
    return (spoken.form.lines[each.place] for each in run.found)


def _in_any_order(
    spoken: EngineLog, run: StartLog, wanted: LogQuestion, names: Names, trials: Trials
) -> tuple[Checked, list[str]]:
    """One start, whose lines may stand in another order than the engine's: then all agrees in that of the engine."""
    refused: KvcalcError | None = None
    first: tuple[Checked, list[str]] | None = None
    try:
        first = _check(spoken, run, wanted, names, trials)
    except KvcalcError as error:
        refused = error
    if first is not None and first[0].verdict == "match" and _all_compared(first[0]):
        return first
    for found in _orders(spoken, run):
        with suppress(KvcalcError):
            again = _check(spoken, run._replace(found=found), wanted, names, trials, at_once=1)
            if (again[0].verdict == "match" and _agreeing(first) < _agreeing(again)) or (
                first is None and again[0].verdict == "unknown"
            ):
                return again
    if first is None:
        assert refused is not None
        raise refused
    return first


def _all_compared(checked: Checked) -> bool:
    return all(each.expected.low is not None for each in checked.compared)


def _agreeing(found: tuple[Checked, list[str]] | None) -> tuple[bool, int]:
    """Whether all agrees, and how many numbers do."""
    if found is None:
        return False, 0
    return found[0].verdict == "match", sum(each.verdict == "match" for each in found[0].compared)


def _orders(spoken: EngineLog, run: StartLog) -> Iterator[tuple[MatchedLine, ...]]:
    """Other orders of a start's lines: from the end, and that in which the engine prints them."""
    told = [run.found]
    kinds = [line.kind for line in _lines_of(spoken, run)]
    counted = [each for each, kind in zip(run.found, kinds, strict=True) if kind in ("count", "failure")]
    facts = [each for each, kind in zip(run.found, kinds, strict=True) if kind not in ("count", "failure")]
    orders = [(*facts, *counted), run.found[::-1], (*facts[::-1], *counted[::-1])]
    if spoken.form.sorted:
        orders = [tuple(sorted(run.found, key=lambda each: each.place))]
    for order in orders:
        if order not in told:
            told.append(order)
            yield order


def _excused(checked: Checked) -> bool:
    """Something was compared, if not decided."""
    return any(each.expected.predicted is not None and not each.expected.implied for each in checked.compared)


def _nothing(
    spoken: Sequence[EngineLog], checked: Sequence[Checked], refused: Sequence[tuple[StartLog, KvcalcError]], file: str
) -> None:
    """Say in one line why nothing can be compared."""
    if refused:
        run, error = refused[0]
        raise KvcalcError(f"{file}:{run.found[0].number}: {error.message}", error.hint)
    reasons = dict.fromkeys((each.why, each.expected.hint) for one in checked for each in one.compared if each.why)
    if reasons:
        why, hint = next(iter(reasons))
        raise KvcalcError(f"{file}: nothing to compare: {why}", hint or None)
    asked = spoken[0].engine.name if len(spoken) == 1 else "an engine"
    raise KvcalcError(
        f"{file}: expected the start-up log of {asked} with the size of its cache, and found none",
        "the lines of vLLM, SGLang, TensorRT-LLM, llama.cpp or Ollama from start to ready, whatever stands around them",
    )


def _check(
    spoken: EngineLog,
    run: StartLog,
    wanted: LogQuestion,
    names: Names,
    trials: Trials,
    at_once: int = MOST_AT_ONCE,
) -> tuple[Checked, list[str]]:
    """One start: the log says what it is about, unless the asker does."""
    if trials.left <= 0:
        raise KvcalcError("so many starts before it contradict their predictions that this one was not looked at")
    said, engine, notes = spoken.form.said(run), run.engine, []
    model = wanted.model
    if model is None:
        model, note = _model(said, wanted.names, names)
        notes += [note] if note else []
    version = wanted.version or _version(said)
    read = read_flags(said.words, engine.flags, said.env, engine.name)
    if wanted.flags is not None:
        read = read._replace(values={**read.values, **wanted.flags.values})
    read = read._replace(version=pick(engine.versions, version or said.rules, engine.name)[0])
    # what the log says is settled already, and a program's defaults are not
    stated = engine.options_of("" if said.words or said.env else wanted.program, read, model)
    said_or_own = {**stated.defaults, **stated.options}
    options = {name: value for name, value in said_or_own.items() if not _overruled(name, wanted.options)}
    options |= wanted.options
    if "context" not in options:
        if not spoken.form.pooled:
            raise KvcalcError("the log does not say how long a sequence may be", "say it: --context TOKENS")
        if model.max_context:
            options["context"] = "max"
    run = run._replace(budget=wanted.kv_memory or stated.kv_memory)
    asked = _stated({**wanted.options, **(wanted.flags.values if wanted.flags is not None else {})})
    said = said._replace(open=said.open - asked, auto=said.auto - asked)
    checked = compare(run, spoken.form, said, model, options, stated.settings, version, wanted.card, at_once, trials)
    failure = spoken.form.failure(checked.question, run)
    return checked._replace(failure=failure, run=run, stated=stated, terms=spoken.form.terms), notes


_FORMATS = ("kv_dtype", "k_dtype", "v_dtype")
_TYPES = (*_FORMATS, "k_type", "v_type", "kv_type")  # as the flags of llama.cpp and Ollama have them


def _stated(options: Mapping[str, object]) -> set[str]:
    """Options and flags that the asker stated; any format of the cache states all of it."""
    return {*options, *(["kv_dtype"] if any(name in options for name in _TYPES) else [])}


def _overruled(name: str, options: Mapping[str, Any]) -> bool:
    """Any of the options for formats overrules all that the log says of them."""
    return name in options or (name in _FORMATS and any(each in options for each in _FORMATS))


def _version(said: LogFacts) -> str | None:
    """The version that the log names; builds from source that do not know theirs say 0.1."""
    if said.version is None:
        return None
    try:
        numbers = parse(said.version, "version")
    except KvcalcError:
        return None
    return None if numbers[:2] in ((0, 0), (0, 1)) else said.version


def _model(said: LogFacts, others: tuple[str, ...], names: Names) -> tuple[Model, str | None]:
    """The model whose metadata the log lists, or the preset that its name, or one of `others`, means.

    Raises KvcalcError where there is none.
    """
    model = None if said.metadata is None else _of_metadata(said.metadata)
    return names.model((*said.models, *others)) if model is None else (model, None)


def _of_metadata(metadata: Mapping[str, object]) -> Model | None:
    """The model of a GGUF file's metadata; None where that is not understood."""
    from kvcalc.sources.gguf.model import preset_from_gguf

    try:
        preset = preset_from_gguf(metadata, file="the log", weights_bytes=None)
    except KvcalcError:
        return None
    return model_from_preset(preset, "the log")[0]
