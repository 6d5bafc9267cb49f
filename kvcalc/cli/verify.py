"""The verb `verify`: the real cache of the installed transformers beside the prediction."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import emit, standard_input
from kvcalc.cli.values import workload_of
from kvcalc.errors import ExitCode
from kvcalc.library import loader
from kvcalc.library.locate import ModelFile, locate
from kvcalc.queries.options import CacheFormat, Split, request_for
from kvcalc.views.document import pick

if TYPE_CHECKING:
    from kvcalc.core.model import Model
    from kvcalc.verifying.running import File

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class VerifyWords(o.WorkloadWords, o.OutputWords, o.AssumeDenseWords):
    """What `verify` takes: the cache is that of one process, in the model's own dtype."""


@verb(
    app,
    "kvcalc verify llama3.2-1b",
    "kvcalc verify gemma2-2b --context 8k",
)
def verify(model: o.ModelArgument, *, words: VerifyWords) -> None:
    """Build the model's real cache with transformers, and compare it with the prediction."""
    output = output_of(words, terminal=sys.stdout.isatty())
    facts, file = _loaded(model, assume_dense=words.assume_dense)
    request = request_for(facts, workload_of(words), CacheFormat(), Split())

    from kvcalc.verifying import running  # torch takes seconds to import
    from kvcalc.verifying.building import installed

    found = running.verify(request, installed(), file)
    emit(
        output,
        lambda: running.document(found),
        lambda: running.report(found),
        headline=lambda: pick(running.document(found), "verdict"),
        rows=lambda document: document["rows"],
        warnings=found.warnings,
    )
    raise typer.Exit(ExitCode.OK if found.verdict == "equal" else ExitCode.NO)


def _loaded(source: str, *, assume_dense: bool) -> "tuple[Model, File | None]":
    """A model, and the config.json that it was read from, if it was. Nothing is fetched."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from kvcalc.sources import files, jsonfile
    from kvcalc.verifying.running import File

    if source == "-":
        content = standard_input()
        facts = loader.load_text(content, "<stdin>", assume_dense=assume_dense)
        return facts, File(jsonfile.parse_object(content, "<stdin>"), "<stdin>") if files.is_config(content) else None
    facts = loader.load(source, assume_dense=assume_dense)
    match locate(source):
        case ModelFile(path=path) if not path.endswith(".gguf"):
            path = os.path.join(path, files.CONFIG) if os.path.isdir(path) else path
            return facts, File(jsonfile.read_object(path), path)
        case _:
            return facts, None
