"""A whole log checked: for each start of an engine in it, the question that it answers, and the comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from kvcalc.commands.flags import read_flags
from kvcalc.commands.versions import parse, pick
from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.engines.log_form import EngineLog, LogFacts, StartLog
from kvcalc.errors import KvcalcError, shown
from kvcalc.library import loader
from kvcalc.logs.compare import Checked, Work, compare
from kvcalc.logs.naming import preset_of
from kvcalc.logs.runs import marks_of, runs_of
from kvcalc.logs.text import marked_lines
from kvcalc.preset.mapping import model_from_preset

__all__ = ["Log", "LogQuestion", "check_log"]

_MOST_MODELS = 64  # looked up for one log
_MOST_REFUSED = 10  # starts that are told of one by one


class LogQuestion(NamedTuple):
    """What the asker knows better than the log: a model, options of `request.ask`, flags, a version, the memory and the
    card.
    """

    model: Model | None = None
    options: Mapping[str, Any] = {}
    words: tuple[str, ...] = ()
    version: str | None = None
    kv_memory: int | None = None
    card: Card | None = None


class Log(NamedTuple):
    """What was found in a log: the starts that could be checked, and what to know of the others."""

    checked: tuple[Checked, ...]
    warnings: tuple[str, ...]


class _Names:
    """Models by the names in a log, each looked up once: a server that crashes in a loop names its own many times."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], tuple[Model, str | None] | KvcalcError] = {}

    def model(self, names: tuple[str, ...]) -> tuple[Model, str | None]:
        """The preset that one of a model's names means, best first, and how it was called. Raises KvcalcError."""
        if names not in self.known:
            if len(self.known) >= _MOST_MODELS:
                raise KvcalcError(f"the log names more than {_MOST_MODELS} models", "say which it is: --model MODEL")
            try:
                self.known[names] = _named(names)
            except KvcalcError as error:
                self.known[names] = error
        found = self.known[names]
        if isinstance(found, KvcalcError):
            raise found
        return found


def _named(names: tuple[str, ...]) -> tuple[Model, str | None]:
    """The preset that one of a model's names means, best first, and how it was called."""
    found = preset_of(names)
    if found is not None:
        entry, name = found
        note = None if name.lower() == entry.name else f"{shown(name)} is taken for {entry.name}"
        return loader.load_entry(entry), note
    if names:
        raise KvcalcError(f"no preset is called {shown(names[0])}", "say which model it is: --model MODEL")
    raise KvcalcError("the log does not name the model", "say which it is: --model MODEL")


def check_log(stream: BinaryIO, spoken: Sequence[EngineLog], wanted: LogQuestion, file: str) -> Log:
    """Read a log and check it. Raises KvcalcError where nothing in it can be compared."""
    reading = runs_of(marked_lines(stream, marks_of(spoken), file), spoken)
    warnings = ["the log has more such lines than one of an engine has: the first of them were read"] * reading.cut
    checked, refused = [], []
    names, work = _Names(), Work()
    for each, run in reading.runs:
        if not any(line.kind == "count" for line in each.form.lines if _seen(run, line.pattern.groupindex)):
            continue
        try:
            one, notes = _check(each, run, wanted, names, work)
        except KvcalcError as error:
            refused.append((run, error))
            continue
        warnings += [*notes, *one.warnings]
        checked.append(one)
    if not any(each.verdict != "unknown" or _excused(each) for each in checked):
        _nothing(spoken, checked, refused, file)
    told = refused[:_MOST_REFUSED]
    warnings += [f"line {run.found[0].number}: {run.engine.name}: {error.message}" for run, error in told]
    if len(refused) > _MOST_REFUSED:
        warnings.append(f"{len(refused) - _MOST_REFUSED} more starts could not be checked")
    return Log(tuple(checked), tuple(dict.fromkeys(warnings)))


def _seen(run: StartLog, names: Iterable[str]) -> bool:
    return any(name in each.says for each in run.found for name in names)


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
    reasons = dict.fromkeys(each.why for one in checked for each in one.compared if each.why)
    if reasons:
        raise KvcalcError(f"{file}: nothing to compare: {next(iter(reasons))}", "--kv-memory SIZE says it")
    asked = spoken[0].engine.name if len(spoken) == 1 else "an engine"
    raise KvcalcError(
        f"{file}: expected the start-up log of {asked} with the size of its cache, and found none",
        "the lines of vLLM, SGLang, TensorRT-LLM, llama.cpp or Ollama from start to ready, whatever stands around them",
    )


def _check(
    spoken: EngineLog, run: StartLog, wanted: LogQuestion, names: _Names, work: Work
) -> tuple[Checked, list[str]]:
    """One start: the log says what it is about, unless the asker does."""
    if work.left <= 0:
        raise KvcalcError("so many starts before it contradict their predictions that this one was not looked at")
    said, engine, notes = spoken.form.said(run), run.engine, []
    model = wanted.model
    if model is None:
        model, note = _model(said, names)
        notes += [note] if note else []
    version = wanted.version or _version(said)
    read = read_flags([*said.words, *wanted.words], engine.flags, said.env, engine.name)
    read = read._replace(version=pick(engine.versions, version or said.rules, engine.name)[0])
    stated = engine.options_of("", read, model)
    said_or_own = {**stated.defaults, **stated.options}
    options = {name: value for name, value in said_or_own.items() if not _overruled(name, wanted.options)}
    options |= wanted.options
    if "context" not in options:
        if not spoken.form.pooled:
            raise KvcalcError("the log does not say how long a sequence may be", "say it: --context TOKENS")
        if model.max_context:
            options["context"] = "max"
    run = run._replace(budget=wanted.kv_memory or stated.kv_memory)
    return compare(run, spoken.form, said, model, options, stated.settings, version, work, wanted.card), notes


def _overruled(name: str, options: Mapping[str, Any]) -> bool:
    """Any of the options for formats overrules all that the log says of them."""
    formats = ("kv_dtype", "k_dtype", "v_dtype")
    return name in options or (name in formats and any(each in options for each in formats))


def _version(said: LogFacts) -> str | None:
    """The version that the log names; builds from source that do not know theirs say 0.1."""
    if said.version is None:
        return None
    try:
        numbers = parse(said.version, "version")
    except KvcalcError:
        return None
    return None if numbers[:2] in ((0, 0), (0, 1)) else said.version


def _model(said: LogFacts, names: _Names) -> tuple[Model, str | None]:
    """The model whose metadata the log lists, or the preset that its name means. Raises KvcalcError."""
    model = None if said.metadata is None else _of_metadata(said.metadata)
    return names.model(said.models) if model is None else (model, None)


def _of_metadata(metadata: Mapping[str, object]) -> Model | None:
    """The model of a GGUF file's metadata; None where that is not understood."""
    from kvcalc.sources.gguf.model import preset_from_gguf

    try:
        preset = preset_from_gguf(metadata, file="the log", weights_bytes=None)
    except KvcalcError:
        return None
    return model_from_preset(preset, "the log")[0]
