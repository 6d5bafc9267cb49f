"""The verb `models`: list presets, show one with its sources, check a file."""

import os
import sys
from shlex import quote
from typing import Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import FORMATS, complete_models, of_words
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import emit, standard_input, write
from kvcalc.errors import ExitCode, KvcalcError, Problem, escape, shown
from kvcalc.library import loader
from kvcalc.preset.canonical import canonical_text
from kvcalc.preset.yaml_file import parse, read_bytes
from kvcalc.views.models import (
    ATTENTION,
    listing,
    listing_document,
    listing_report,
    listing_values,
    model_document,
    model_report,
)

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_FORMATS = (*FORMATS, "yaml")


@verb(
    app,
    "kvcalc models --family llama",
    "kvcalc models llama3-70b --format yaml",
)
def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show this preset.", autocompletion=complete_models, show_default=False),
    ] = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="WORD", help="Only this family: llama, qwen.")
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(
            "--attention",
            metavar="KIND",
            help="Only models of this class (gqa, mla, hybrid) or with such layers (sliding, cross, mamba2).",
            autocompletion=of_words(lambda: ATTENTION),
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="Say all that is wrong with a preset, those of a folder, or - (standard input).",
        ),
    ] = None,
    *,
    words: o.OutputWords,
) -> None:
    """List the presets, show one, or check a file."""
    asked = [word for word, value in (("NAME", name), ("--family", family), ("--check", check)) if value is not None]
    if len(asked) > 1 or (attention is not None and (name or check)):
        other = asked[1] if len(asked) > 1 else "--attention"
        raise KvcalcError(f"models: {asked[0]} and {other} contradict each other")
    if check is not None:
        raise typer.Exit(_check(check))
    output = output_of(words, terminal=sys.stdout.isatty(), formats=_FORMATS)
    if output.form == "yaml":
        if name is None:
            raise KvcalcError("--format: yaml shows one preset, so it needs its NAME")
        write(canonical_text(loader.mapping_at(name)))
        return
    if name is not None:
        model = loader.load(name)
        emit(output, lambda: model_document(model), lambda: model_report(model), headline=lambda: model.origin)
        return
    found = listing(family, attention)
    names = "\n".join(row.preset for row in found.rows)
    emit(
        output,
        lambda: listing_document(found),
        lambda: listing_report(found),
        headline=lambda: names,
        rows=lambda _: listing_values(found.rows),
        warnings=found.warnings,
    )


def _check(source: str) -> int:
    """Check a file, each preset of a folder, or standard input; the worst outcome counts."""
    if source == "-":
        content = standard_input()
        return _told("<stdin>", loader.problems_of_text(content, "<stdin>"), content)
    statuses = []
    for path in loader.to_check(source):
        problems = loader.problems_of(path)
        statuses.append(_told(path, problems, b"" if problems else read_bytes(path)))
    return max(statuses)


def _told(path: str, problems: list[Problem], content: bytes) -> int:
    for problem in problems:
        print(f"kvcalc: error: {problem}", file=sys.stderr)
    if problems:
        return ExitCode.USAGE
    write(f"{escape(path)}: a sound preset\n")
    for line in _advice(path, content):
        print(f"{escape(path)}: {line}", file=sys.stderr)
    return ExitCode.OK


def _advice(path: str, content: bytes) -> list[str]:
    """What is sound but not as a shipped preset has it."""
    data = parse(content, path).data
    found = [f"no {key}: say where the facts were read" for key in ("source", "confidence") if key not in data]
    if path[:1] == "<":  # standard input has no name, and cannot be read again
        return found
    stem = os.path.splitext(os.path.basename(path))[0]
    fault = loader.name_fault(stem)
    if fault:
        found.append(f"{fault}, got {shown(stem)}")
    lines = [line for line in content.decode().splitlines() if not line.startswith("#")]
    if lines != canonical_text(data).splitlines():
        found.append(f"not in canonical form: `kvcalc models {escape(quote(path))} --format yaml` prints it")
    return found
