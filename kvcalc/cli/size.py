"""The default verb: the size of a model's cache, and the largest batch that fits."""

import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import emit, source_of
from kvcalc.cli.values import cache_of, company_of, count_of, images_of, memory_of, run_of, split_of, workload_of
from kvcalc.errors import ExitCode
from kvcalc.queries.options import EngineChoice
from kvcalc.queries.size import SizeQuestion, answer
from kvcalc.views.document import pick
from kvcalc.views.size import size_document

if TYPE_CHECKING:
    from kvcalc.queries.savings import Saving
    from kvcalc.views.report import Report
    from kvcalc.views.types.size import SizeDocument

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class SizeWords(
    o.ImageWords, o.CacheWords, o.EngineWords, o.BlockWords, o.RunWords, o.CompanyWords, o.SplitWords,
    o.ExplainWords, o.AssumeDenseWords,
):  # fmt: skip
    """What `size` takes."""


@verb(
    app,
    "kvcalc llama3-70b --batch 8 --context 32k",
    "kvcalc --gpu h100 -- vllm serve meta-llama/Meta-Llama-3-8B -tp 1",
)
def size(ctx: typer.Context, model: o.ModelOrCommand = None, *, words: SizeWords) -> None:
    """Size of the KV cache, and what fits (the default)."""
    output = output_of(words, terminal=sys.stdout.isatty())
    question = SizeQuestion(
        source=source_of(model, words),
        workload=workload_of(words)._replace(images=images_of(words.images)),
        form=cache_of(words),
        split=split_of(words),
        memory=memory_of(words)._replace(**company_of(words)),
        engine=EngineChoice(
            words.engine,
            ctx.meta.get(BEHIND_DASHES),
            count_of(words.block_size, "--block-size", None),
            run_of(words),
        ),
    )
    found = answer(question)
    given_back: tuple[Saving, ...] = ()
    if output.explain:
        from kvcalc.queries.savings import savings

        given_back = savings(question, found)

    def document() -> "SizeDocument":
        return size_document(found, given_back, explain=output.explain)

    def report() -> "Report":
        from kvcalc.views.size_words import size_report  # --quiet, --get and --json need no words

        return size_report(found, given_back, explain=output.explain)

    emit(output, document, report, lambda: pick(document(), "kv.bytes_total"), warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if found.fit is not None and found.fit.fits is False else ExitCode.OK)
