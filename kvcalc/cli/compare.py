"""The verb `compare`: models, formats or engines side by side."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvcalc.cli.completion import complete_models
from kvcalc.cli.grid import grid_question
from kvcalc.cli.lists import GridWords
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.rows import draw, emit_rows
from kvcalc.cli.shell import check_targets, source_of
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import bounded
from kvcalc.queries.grid import answer, refuse_if_empty
from kvcalc.queries.source import load_model
from kvcalc.views.compare import KEYS, compare_document, compare_report, compared, rows

if TYPE_CHECKING:
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.sweep import Form

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@verb(
    app,
    "kvcalc compare llama3-8b gemma2-9b qwen3-8b --context 8k",
    "kvcalc compare llama3.1-8b --engine vllm,sglang --gpu h100",
)
def compare(
    ctx: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Presets, YAML presets, config.json or GGUF files, model folders, hub ids.",
            autocompletion=complete_models,
            show_default=False,
        ),
    ],
    *,
    words: GridWords,
) -> None:
    """Models, KV dtypes or engines side by side."""
    output = output_of(words, terminal=sys.stdout.isatty())
    check_targets({"--svg": words.svg, "--html": words.html}, [*models, words.gpu_file])
    if models.count("-") > 1:
        raise KvcalcError("MODEL: standard input holds one model, and - stands for it twice")
    bounded({"MODEL": models})
    sources = [source_of(model, words) for model in models]
    loaded = [load_model(source) for source in sources]
    question = grid_question(words)
    answers = [answer(source, model, question) for source, model in zip(sources, loaded, strict=True)]
    refuse_if_empty(each.grid for each in answers)
    of = [f"{each.model.name}: " if len(models) > 1 else "" for each in answers]
    warnings = [f"{name}{warning}" for name, each in zip(of, answers, strict=True) for warning in each.warnings]
    all_of = compared(answers)

    def report(form: "Form" = "terminal" if output.form == "table" else "text") -> "Report":
        return compare_report(all_of, warnings, form)

    def chart(option: str) -> "Chart":
        from kvcalc.views.grid_charts import compare_chart

        return compare_chart(all_of, option)

    draw(words.svg, words.html, lambda option: [chart(option)], lambda: report("page"), output)
    head = compare_document(answers, warnings)
    axes = dict.fromkeys(axis for each in answers for axis in each.grid.varied)
    varied = ["model", *axes] if len(answers) > 1 else [*axes]
    raise typer.Exit(emit_rows(output, head, KEYS, lambda: rows(all_of), report, varied))
