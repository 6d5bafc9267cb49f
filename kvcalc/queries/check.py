"""An engine's start-up log against the prediction: the question of the verb `check`."""

from collections.abc import Sequence
from typing import BinaryIO, Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError
from kvcalc.launch.registry import log_forms
from kvcalc.logs.checks import Log, LogQuestion, check_log
from kvcalc.logs.compare import Checked
from kvcalc.queries.options import CacheFormat, NamedGpu, Split, Workload, said

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
        words: The engine's own flags.
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
    def checked(self) -> tuple[Checked, ...]:
        """The starts."""
        return self.log.checked

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the asker should know."""
        return self.log.warnings


def answer(stream: BinaryIO, file: str, question: CheckQuestion) -> CheckAnswer:
    """Read a log and check it; `file` names it in messages. Raises KvcalcError where nothing in it can be compared."""
    name, _, version = (question.engine or "").partition("@")
    spoken = log_forms(name or None)
    if question.words and not name:
        raise KvcalcError("--: expected --engine NAME, whose flags they are", "--engine NAME -- FLAGS")
    card = None if question.gpu is None else question.gpu.card
    wanted = LogQuestion(
        question.model,
        said(question.workload, question.form, question.split, question.gpu),
        tuple(question.words),
        version or None,
        question.kv_memory,
        card,
    )
    return CheckAnswer(file, check_log(stream, spoken, wanted, file))
