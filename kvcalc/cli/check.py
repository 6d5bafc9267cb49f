"""The verb `check`: the numbers of an engine's start-up log against the prediction."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_models
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import Words, verb
from kvcalc.cli.shell import emit, source_of
from kvcalc.cli.values import cache_of, gpu_of, size_of, split_of, workload_of
from kvcalc.errors import ExitCode, KvcalcError, escape
from kvcalc.views.document import pick

if TYPE_CHECKING:
    from kvcalc.queries.check import CheckAnswer, CheckQuestion
    from kvcalc.views.report import Report
    from kvcalc.views.types.check import CheckDocument

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ModelWords(Words):
    """The model, where the log does not say it."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The model, where the log does not name one that is known.",
            autocompletion=complete_models,
            rich_help_panel="Workload",
        ),
    ] = None


class CheckWords(
    ModelWords, o.WorkloadWords, o.CacheWords, o.EngineWords, o.GpuWords, o.SplitWords, o.OutputWords,
    o.AssumeDenseWords,
):  # fmt: skip
    """What `check` takes."""

    kv_memory: o.KvMemory = None


@verb(
    app,
    "kvcalc check server.log",
    "kvcalc check server.log --model llama3.3-70b --engine vllm",
)
def check(
    ctx: typer.Context,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A start-up log, also packed (.gz, .xz, .zst); - for standard input.",
            show_default=False,
        ),
    ],
    *,
    words: CheckWords,
) -> None:
    """Check an engine's start-up log, number by number."""
    output = output_of(words, terminal=sys.stdout.isatty())
    found = _answer(log, words, tuple(ctx.meta.get(BEHIND_DASHES) or ()))
    from kvcalc.views.check import check_document, check_report, rows, verdict

    def document() -> "CheckDocument":
        return check_document("<stdin>" if log == "-" else log, found.starts, found.warnings)

    def report() -> "Report":
        return check_report(found.starts, found.warnings)

    emit(output, document, report, headline=lambda: pick(document(), "verdict"), rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if verdict(found.checked) == "mismatch" else ExitCode.OK)


def _answer(log: str, words: CheckWords, flags: tuple[str, ...]) -> "CheckAnswer":
    from kvcalc.queries.check import answer

    question = _question(words, flags)
    if log == "-":
        if sys.stdin is None:
            raise KvcalcError("<stdin>: expected a log, and there is no standard input")
        return answer(sys.stdin.buffer, "<stdin>", question)
    try:
        with open(log, "rb") as stream:
            return answer(stream, escape(log), question)
    except OSError as error:
        raise KvcalcError(f"{escape(log)}: {error.strerror}") from None


def _question(words: CheckWords, flags: tuple[str, ...]) -> "CheckQuestion":
    from kvcalc.queries.check import CheckQuestion
    from kvcalc.queries.source import load_model

    return CheckQuestion(
        model=None if words.model is None else load_model(source_of(words.model, words)),
        workload=workload_of(words),
        form=cache_of(words),
        split=split_of(words),
        gpu=gpu_of(words.gpu, words.gpu_file),
        kv_memory=size_of(words.kv_memory, "--kv-memory", None),
        engine=words.engine,
        words=flags,
    )
