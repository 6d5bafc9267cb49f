"""An engine's start-up log against the prediction: the question of the verb `check`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.engines.log_form import StartLog
from kvcalc.errors import KvcalcError
from kvcalc.launch.registry import log_forms, name_and_version
from kvcalc.logs.checks import Failed, Log, LogQuestion, check_log
from kvcalc.logs.compare import Checked
from kvcalc.logs.estimates import card_names, estimated
from kvcalc.queries.options import CacheFormat, NamedGpu, Split, Workload, said

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch

__all__ = ["CheckAnswer", "CheckQuestion", "answer"]

Verdict = Literal["match", "mismatch", "unknown"]


class CheckQuestion(NamedTuple):
    """What the asker knows better than the log.

    Attributes:
        model: The model; None where the log names it.
        workload: Sequences and their lengths.
        form: The formats of keys and values.
        split: How it is split over GPUs.
        gpu: The card that it ran on.
        kv_memory: Bytes of one GPU for the cache alone.
        engine: `NAME[@VERSION]`, whose lines are looked for; None for all.
        words: The engine's own flags, or the command that started it.
    """

    model: Model | None = None
    workload: Workload = Workload()
    form: CacheFormat = CacheFormat()
    split: Split = Split()
    gpu: NamedGpu | None = None
    kv_memory: int | None = None
    engine: str | None = None
    words: Sequence[str] = ()


class CheckAnswer(NamedTuple):
    """The answer.

    Attributes:
        file: The log's name.
        log: The starts that were checked, with each number and what it should be.
    """

    file: str
    log: Log

    @property
    def starts(self) -> tuple[Checked | Failed, ...]:
        """All starts, in order, with those that failed before there was anything to compare."""
        return self.log.starts

    @property
    def checked(self) -> tuple[Checked, ...]:
        """The starts whose numbers were compared."""
        return tuple(self.log.checked)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the asker should know."""
        return self.log.warnings


def answer(stream: BinaryIO, file: str, question: CheckQuestion) -> CheckAnswer:
    """Read a log and check it; `file` names it in messages. Raises KvcalcError where nothing in it can be compared."""
    started = _started(question)
    name, version = name_and_version(question.engine or "")
    spoken = log_forms(started.engine.name if started else name or None)
    card = None if question.gpu is None else question.gpu.card
    wanted = LogQuestion(
        question.model,
        said(question.workload, question.form, question.split, question.gpu),
        version=version or (started.version_asked if started else None),
        kv_memory=question.kv_memory,
        card=card,
    )
    if started is None:
        return CheckAnswer(file, _with_estimates(check_log(stream, spoken, wanted, file), question.gpu))
    names = (started.named,) if started.named else ()
    wanted = wanted._replace(flags=started.read, program=started.program, names=names)
    log = _with_estimates(check_log(stream, spoken, wanted, file), question.gpu)
    return CheckAnswer(file, log._replace(warnings=(*started.warnings, *log.warnings)))


def _with_estimates(log: Log, gpu: NamedGpu | None) -> Log:
    """The log with an estimate beside each term of the memory that it prints, where the card is known."""
    starts = tuple(_estimated(each, gpu) if isinstance(each, Checked) else each for each in log.starts)
    return log._replace(starts=starts)


def _estimated(checked: Checked, gpu: NamedGpu | None) -> Checked:
    """As a size of the same question on that card has it."""
    if checked.run is None or checked.stated is None or not checked.terms:
        return checked
    card = _card(checked.run) if gpu is None else gpu.card
    if card is None or checked.run.budget is not None:
        return checked
    from kvcalc.core.memory import Budget, memory_split
    from kvcalc.core.sizing import measure
    from kvcalc.queries.engine import EngineQuestion
    from kvcalc.queries.memory import beside

    question = checked.question._replace(card=card).counted()
    posed = EngineQuestion(checked.engine, question, checked.stated, None, at_most=False, warnings=())
    try:
        budget = posed.budget(Budget(vram=card.memory, card=card))
        if budget is None or budget.vram is None:
            return checked
        budget = budget._replace(overheads=beside(budget, question.request, posed).lines)
        memory = memory_split(measure(question.request), budget)
    except KvcalcError:  # no rule for the weights or the engine's share: then there is no estimate
        return checked
    return checked._replace(estimated=estimated(checked.run, checked.terms, memory))


def _card(run: StartLog) -> Card | None:
    """The card that the log names."""
    from kvcalc.cards.names import card_called

    for name in card_names(run):
        with suppress(KvcalcError):
            return card_called(name)[1]
    return None


def _started(question: CheckQuestion) -> "Launch | None":
    """The command behind `--`, or the flags of a named engine."""
    words = question.words
    if not words:
        return None
    if words[0] == "-":
        raise KvcalcError("-: the text of a command is not read beside a log", "give the command itself behind --")
    if question.engine is None and words[0].startswith("-"):
        raise KvcalcError("--: expected --engine NAME, whose flags they are", "--engine NAME -- FLAGS")
    from kvcalc.launch.command import launch

    return launch(question.engine, words)
