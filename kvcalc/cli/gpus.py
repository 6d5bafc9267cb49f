"""The verb `gpus`: list accelerators, show one with its sources, or a machine type."""

import sys
from typing import Annotated

import typer

from kvcalc.cards.names import catalogue, find_machine, find_one
from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_gpu_names, of_words
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import emit
from kvcalc.errors import KvcalcError
from kvcalc.views.gpus import (
    SORTS,
    card_document,
    card_report,
    card_values,
    listing,
    listing_document,
    listing_report,
    machine_document,
    machine_report,
    vendors,
)

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@verb(
    app,
    "kvcalc gpus",
    "kvcalc gpus h100",
)
def gpus(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Show this GPU or machine type; local: those of this machine.",
            autocompletion=complete_gpu_names,
            show_default=False,
        ),
    ] = None,
    vendor: Annotated[
        str | None,
        typer.Option(
            "--vendor", metavar="WORD", help="Only this maker's: nvidia, amd.", autocompletion=of_words(vendors)
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="|".join(SORTS),
            help="The most first, of prices the least.",
            autocompletion=of_words(lambda: SORTS),
        ),
    ] = None,
    gpu_file: o.GpuFile = None,
    *,
    words: o.OutputWords,
) -> None:
    """List the GPUs, or show one with where its facts were read."""
    output = output_of(words, terminal=sys.stdout.isatty())
    if name in (None, "local"):
        found = listing(vendor, sort, gpu_file, here=name is not None)
        names = "\n".join(one.id for one in found.cards)
        emit(
            output,
            lambda: listing_document(found),
            lambda: listing_report(found, aligned=output.form == "table"),
            headline=lambda: names,
            rows=lambda _: [card_values(one) for one in found.cards],
        )
        return
    for option, value in (("--vendor", vendor), ("--sort", sort)):
        if value is not None:
            raise KvcalcError(f"gpus: NAME and {option} contradict each other")
    machine = None if name in catalogue(gpu_file) else find_machine(name)
    if machine is not None:
        emit(
            output,
            lambda: machine_document(machine, gpu_file),
            lambda: machine_report(machine, gpu_file),
            headline=lambda: machine.name,
        )
        return
    one = find_one(name, gpu_file)
    emit(output, lambda: card_document(one, gpu_file), lambda: card_report(one), headline=lambda: one.id)
