"""The verb `check`: the numbers of an engine's start-up log against the prediction."""

import sys
from contextlib import contextmanager
from io import BufferedReader
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_models
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import Words, option, verb
from kvcalc.cli.shell import emit, source_of
from kvcalc.cli.values import cache_of, gpu_of, size_of, split_of, workload_of
from kvcalc.errors import ExitCode, KvcalcError, escape
from kvcalc.sources.addresses import fetched, is_address
from kvcalc.sources.metrics import MOST, are_metrics
from kvcalc.views.document import pick

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import RawIOBase

    from kvcalc.cli.output import Output
    from kvcalc.queries.check import CheckQuestion
    from kvcalc.views.report import Report
    from kvcalc.views.types.check import CheckDocument

__all__ = ["app"]

_HEAD = 4096  # bytes that tell metrics from a log

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
    interval: Annotated[
        str | None,
        option("--interval", metavar="TIME", panel="Workload", help="How far two snapshots of metrics are apart: 60s."),
    ] = None


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
            help="A start-up log, packed or not, or a server's /metrics, as a file or its address; - for a pipe.",
            show_default=False,
        ),
    ],
    later: Annotated[
        str | None, typer.Argument(metavar="[LATER]", help="A later snapshot of the same server's metrics.")
    ] = None,
    *,
    words: CheckWords,
) -> None:
    """Check an engine's start-up log, number by number, or a server's metrics."""
    output = output_of(words, terminal=sys.stdout.isatty())
    flags = tuple(ctx.meta.get(BEHIND_DASHES) or ())
    with _opened(log) as stream:
        if are_metrics(stream.peek(_HEAD)):
            return _metrics(stream, log, later, words, flags, output)
        for name, given in (("LATER", later), ("--interval", words.interval)):
            if given is not None:
                raise KvcalcError(f"{name}: is for metrics, and {escape(log)} is a log", "leave it out")
        from kvcalc.queries.check import answer

        found = answer(stream, _named(log), _question(words, flags))
    from kvcalc.views.check import check_document, check_report, rows, verdict

    def document() -> "CheckDocument":
        return check_document("<stdin>" if log == "-" else log, found.starts, found.warnings)

    def report() -> "Report":
        return check_report(found.starts, found.warnings)

    emit(output, document, report, headline=lambda: pick(document(), "verdict"), rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if verdict(found.checked) == "mismatch" else ExitCode.OK)


def _metrics(
    stream: "BufferedReader", log: str, later: str | None, words: CheckWords, flags: tuple[str, ...], output: "Output"
) -> None:
    from kvcalc.core.durations import parse_duration
    from kvcalc.queries.metrics import answer
    from kvcalc.sources.metrics import read_metrics
    from kvcalc.views.metrics import csv_rows, headline, metrics_document, metrics_report

    first, second = read_metrics(stream, _named(log)), None
    if later is not None:
        with _opened(later) as after:
            second = read_metrics(after, _named(later))
    elif words.interval is not None:
        raise KvcalcError("--interval: lies between two snapshots", "add a later one")
    seconds = None if words.interval is None else parse_duration(words.interval, "--interval")
    found = answer(first, second, seconds, _question(words, flags), _named(later or log))
    files = [name for name in (log, later) if name is not None]
    emit(
        output,
        lambda: metrics_document(found, files),
        lambda: metrics_report(found),
        headline=lambda: headline(found),
        rows=csv_rows,
        warnings=found.warnings,
    )
    raise typer.Exit(ExitCode.OK)


def _named(log: str) -> str:
    return "<stdin>" if log == "-" else escape(log)


@contextmanager
def _opened(log: str) -> "Iterator[BufferedReader]":
    if log == "-":
        if sys.stdin is None:
            raise KvcalcError("<stdin>: expected a log, and there is no standard input")
        given = sys.stdin.buffer
        yield given if isinstance(given, BufferedReader) else BufferedReader(cast("RawIOBase", given))
        return
    if is_address(log):
        yield BufferedReader(cast("RawIOBase", fetched(log, MOST)))
        return
    try:
        with open(log, "rb") as stream:
            yield stream
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
