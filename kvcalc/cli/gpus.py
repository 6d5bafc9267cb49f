"""The verb `gpus`: list accelerators, show one with its sources, or a machine type."""

import sys
from typing import Annotated

import typer

from kvcalc.cards.names import catalogue, find_machine, find_one
from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_gpu_names, of_words
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.shell import emit, write
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
from kvcalc.views.price_template import price_template

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
    prices_template: Annotated[
        bool, typer.Option("--prices-template", help="Print a file for --gpu-file, to fill in what an hour costs.")
    ] = False,
    *,
    words: o.OutputWords,
) -> None:
    """List the GPUs, or show one with where its facts were read."""
    output = output_of(words, terminal=sys.stdout.isatty())
    if prices_template:
        _print_template(name, vendor, sort, gpu_file, words)
        return
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


def _print_template(
    name: str | None, vendor: str | None, sort: str | None, gpu_file: str | None, words: o.OutputWords
) -> None:
    """It is YAML, of all cards that machine types have, by name: what asks for another form contradicts it."""
    given = {"NAME": name, "--sort": sort, "--format": words.format_, "--json": words.json_, "--get": words.get}
    for option, value in {**given, "--quiet": words.quiet}.items():
        if value:
            raise KvcalcError(f"--prices-template: contradicts {option}", "its output is a YAML file of all cards")
    write(price_template(vendor, gpu_file))
