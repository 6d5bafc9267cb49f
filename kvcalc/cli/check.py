"""The verb `check`: the numbers of an engine's start-up log against the prediction."""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.shell import emit, load_model
from kvcalc.core.units import parse_size
from kvcalc.errors import ExitCode, KvcalcError, escape
from kvcalc.views.document import Value, pick

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch
    from kvcalc.logs.checks import Log, LogQuestion
    from kvcalc.views.report import Report

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
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
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The model, where the log does not name one that is known.",
            autocompletion=o.complete_models,
            rich_help_panel="Workload",
        ),
    ] = None,
    context: o.Context = None,
    encoder_tokens: o.EncoderTokens = None,
    kv_dtype: o.KvDtype = None,
    k_dtype: o.KDtype = None,
    v_dtype: o.VDtype = None,
    kv_heads: o.KvHeads = None,
    batch: o.Batch = None,
    engine: o.Engine = None,
    gpu: o.Gpu = None,
    gpu_file: o.GpuFile = None,
    kv_memory: o.KvMemory = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    dp: o.Dp = None,
    dcp: o.Dcp = None,
    gpus: o.Gpus = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    assume_dense: o.AssumeDense = False,
) -> None:
    """Check an engine's start-up log, number by number."""
    output = o.output_of({**ctx.params, "explain": False}, terminal=sys.stdout.isatty())
    found = _check(log, ctx.params, tuple(ctx.meta.get(BEHIND_DASHES) or ()))
    from kvcalc.views.check import check_document, check_report, rows, verdict

    def document() -> dict[str, Value]:
        return check_document("<stdin>" if log == "-" else log, found.starts, found.warnings)

    def report() -> "Report":
        return check_report(found.starts, found.warnings)

    emit(output, document, report, headline=lambda found: pick(found, "verdict"), rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if verdict(found.checked) == "mismatch" else ExitCode.OK)


def _check(log: str, given: o.Given, words: tuple[str, ...]) -> "Log":
    from kvcalc.launch.registry import log_forms
    from kvcalc.logs.checks import check_log

    started = _started(given["engine"], words)
    name, _, version = (given["engine"] or "").partition("@")
    spoken = log_forms(started.engine.name if started else name or None)
    wanted = _wanted(given, started, version or (started.version_asked if started else None))
    if log == "-" and sys.stdin is None:
        raise KvcalcError("<stdin>: expected a log, and there is no standard input")
    try:
        with nullcontext(sys.stdin.buffer) if log == "-" else open(log, "rb") as stream:
            found = check_log(stream, spoken, wanted, "<stdin>" if log == "-" else escape(log))
    except OSError as error:
        raise KvcalcError(f"{escape(log)}: {error.strerror}") from None
    return found._replace(warnings=(*(started.warnings if started else ()), *found.warnings))


def _started(engine: str | None, words: tuple[str, ...]) -> "Launch | None":
    """The command behind `--`, or an engine's flags there."""
    if not words:
        return None
    if engine is None and words[0].startswith("-") and words[0] != "-":
        raise KvcalcError("--: expected --engine NAME, whose flags they are", "--engine vllm -- --block-size 64")
    if words[0] == "-":
        raise KvcalcError("-: standard input cannot be read for a command here", "give the command itself behind --")
    from kvcalc.launch.command import launch

    return launch(engine, words)


def _wanted(given: o.Given, started: "Launch | None", version: str | None) -> "LogQuestion":
    from kvcalc.logs.checks import LogQuestion

    model = None if given["model"] is None else load_model(given["model"], assume_dense=given["assume_dense"])
    memory = given["kv_memory"]
    budget = None if memory is None else parse_size(memory, "--kv-memory")
    asked = LogQuestion(model, o.options_of(given), version=version, kv_memory=budget, card=o.card_of(given)[1])
    if started is None:
        return asked
    names = (started.named,) if started.named else ()
    return asked._replace(flags=started.read, program=started.program, names=names)
