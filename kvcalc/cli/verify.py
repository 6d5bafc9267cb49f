"""The verb `verify`: the real cache of the installed transformers beside the prediction."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.shell import emit, standard_input
from kvcalc.errors import ExitCode
from kvcalc.library import loader
from kvcalc.library.locate import ModelFile, locate
from kvcalc.views.document import pick

if TYPE_CHECKING:
    from kvcalc.core.model import Model
    from kvcalc.verifying.running import File

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

# What can be asked about a size and means nothing here: the cache is that of one process, in the model's own dtype.
_UNASKED = ("kv_dtype", "k_dtype", "v_dtype", "kv_heads", "tp", "pp", "dp", "dcp", "gpus")


@app.command()
def verify(
    ctx: typer.Context,
    model: o.ModelArgument,
    context: o.Context = None,
    batch: o.Batch = None,
    encoder_tokens: o.EncoderTokens = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    assume_dense: o.AssumeDense = False,
) -> None:
    """Build the model's real cache with transformers, and compare it with the prediction."""
    given = {**dict.fromkeys(_UNASKED), "explain": False, **ctx.params}
    output = o.output_of(given, terminal=sys.stdout.isatty())
    facts, file = _loaded(model, assume_dense=assume_dense)
    request = o.request_of(facts, given)

    from kvcalc.verifying import running  # torch takes seconds to import
    from kvcalc.verifying.building import installed

    found = running.verify(request, installed(), file)
    emit(
        output,
        lambda: running.document(found),
        lambda: running.report(found),
        headline=lambda document: pick(document, "verdict"),
        rows=lambda document: document["rows"],  # type: ignore[arg-type,return-value]  # mappings, all of them
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
