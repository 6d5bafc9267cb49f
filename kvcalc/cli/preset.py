"""The verb `preset`: what a model file says, as a preset to keep and to edit."""

from typing import Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import standard_input, write
from kvcalc.library import loader
from kvcalc.preset.canonical import canonical_text

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@verb(
    app,
    "kvcalc preset config.json",
    "kvcalc preset ./my-model/",
)
def preset(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A config.json, model folder, GGUF file, hub id or preset; - for a config.json on standard input.",
            show_default=False,
        ),
    ],
    *,
    words: o.AssumeDenseWords,
) -> None:
    """Turn a model file into a YAML preset on standard output."""
    if source == "-":
        mapping = loader.mapping_of_text(standard_input(), "<stdin>", assume_dense=words.assume_dense)
    else:
        mapping = loader.mapping_at(source, assume_dense=words.assume_dense)
    write(canonical_text(mapping))
