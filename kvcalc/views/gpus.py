"""All accelerators at a glance, one with its sources, and a machine type: what the verb `gpus` shows."""

from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cards.names import catalogue, local
from kvcalc.cards.shipped import Accelerator, Machine, machines, sources
from kvcalc.core.card import MEMORY_SOURCES
from kvcalc.core.units import many
from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.version import __version__
from kvcalc.views.report import Bytes, Cell, Report, Section

if TYPE_CHECKING:
    from kvcalc.views.types.lists import (
        CardDocument,
        CardFacts,
        CardListDocument,
        CardRequest,
        MachineDocument,
        MachineFacts,
    )

__all__ = [
    "SORTS",
    "Listing",
    "card_document",
    "card_report",
    "card_values",
    "listing",
    "listing_document",
    "listing_report",
    "machine_document",
    "machine_report",
    "vendors",
]

SORTS = ("memory", "bandwidth", "flops", "price", "name")
_COLUMNS = ("gpu", "here", "memory", "GB/s", "16-bit", "fp8", "link GB/s", "in one", "price", "memory from")
_NUMBERS = ("here", *_COLUMNS[3:9])
_LESS = ("memory from", "in one", "link GB/s")  # what is left out where the width is short, the first one first


class Listing(NamedTuple):
    """The cards that were asked for, in the order that was asked for."""

    cards: list[Accelerator]
    vendor: str | None
    sort: str | None
    file: str | None
    name: str | None = None  # local


def vendors(file: str | None = None) -> list[str]:
    """Who makes the cards, each once."""
    return list(dict.fromkeys(one.vendor for one in catalogue(file).values() if one.vendor))


def listing(
    vendor: str | None = None, sort: str | None = None, file: str | None = None, *, here: bool = False
) -> Listing:
    """The cards of a vendor, sorted; `here`: of this machine. Raises KvcalcError for a word that is not known."""
    cards = local(file) if here else list(catalogue(file).values())
    if vendor is not None:
        cards = [one for one in cards if one.vendor.lower() == vendor.strip().lower()]
        if not cards:
            raise KvcalcError(f"--vendor: expected one of {', '.join(vendors(file))}, got {shown(vendor)}")
    if sort is not None:
        cards = _sorted(cards, sort)
    return Listing(cards, vendor, sort, file, "local" if here else None)


def _sorted(cards: list[Accelerator], by: str) -> list[Accelerator]:
    """The most first, but the lowest price and the first name; a card without the number comes last."""
    if by not in SORTS:
        close = nearest(by, SORTS, 1)
        hint = f"did you mean {close[0]}?" if close else None
        raise KvcalcError(f"--sort: expected one of {', '.join(SORTS)}, got {shown(by)}", hint)
    if by == "price" and not any(one.price for one in cards):
        raise KvcalcError("--sort price: no card has a price", "none is shipped: --gpu-file FILE may give some")
    if by == "name":
        return sorted(cards, key=lambda one: one.id)
    ranks = {
        "memory": lambda one: -one.used()[0],
        "bandwidth": lambda one: -(one.bandwidth_gb_s or 0),
        "flops": lambda one: -(one.tflops_16bit or 0),
        "price": lambda one: float("inf") if one.price is None else one.price,
    }
    return sorted(cards, key=ranks[by])


def card_values(one: Accelerator) -> "CardFacts":
    """One flat mapping for a card."""
    memory, source = one.used()
    return {
        "name": one.id,
        "label": one.label,
        "vendor": one.vendor or None,
        "memory_bytes": memory,
        "memory_source": source,
        "marketing_gb": one.marketing_gb,
        "driver_mib": one.driver_mib,
        "runtime_gib": one.runtime_gib,
        "bandwidth_gb_s": one.bandwidth_gb_s,
        "tflops_16bit": one.tflops_16bit,
        "tflops_fp8": one.tflops_fp8,
        "tflops_fp4": one.tflops_fp4,
        "bf16": one.bf16,
        "capability": one.capability,
        "link": one.link,
        "link_gb_s": one.link_gb_s,
        "machine": one.machine,
        "price": one.price,
        "file": one.file,
        "note": one.note or None,
        "here": one.here,
    }


def listing_document(found: Listing) -> "CardListDocument":
    return {
        "schema": "kvcalc.gpus/1",
        "kvcalc_version": __version__,
        "model": None,
        "request": {"name": found.name, "vendor": found.vendor, "sort": found.sort, "gpu_file": found.file},
        "warnings": [],
        "gpus": [card_values(one) for one in found.cards],
    }


def listing_report(found: Listing, *, aligned: bool) -> Report:
    """`aligned`: numbers stand to the right, for people."""
    rows = [_COLUMNS, *map(_row, found.cards)]
    said = {"here": any(one.here for one in found.cards), "price": any(one.price for one in found.cards)}
    kept = [i for i, head in enumerate(_COLUMNS) if said.get(head, True)]
    columns = [[row[i] for row in rows] for i in kept]
    if aligned:
        columns = [
            _right(column) if _COLUMNS[i] in _NUMBERS else column for i, column in zip(kept, columns, strict=True)
        ]
    heads, *shown_rows = zip(*columns, strict=True)
    drop = tuple(kept.index(_COLUMNS.index(head)) for head in _LESS)
    return Report([Section("gpus", tuple(map(str, heads)), shown_rows, keys=True, drop=drop)])


def _row(one: Accelerator) -> tuple[Cell, ...]:
    memory, source = one.used()
    rates = (one.bandwidth_gb_s, one.tflops_16bit, one.tflops_fp8, one.link_gb_s, one.machine, one.price)
    return one.id, _number(one.here), Bytes(memory), *map(_number, rates), source


def _right(column: list[Cell]) -> list[Cell]:
    texts = [str(cell) for cell in column]
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts]


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,.10g}"


def card_document(one: Accelerator, file: str | None) -> "CardDocument":
    """One card, with where each fact was read and the machine types that have it."""
    return {
        "schema": "kvcalc.gpus/1",
        "kvcalc_version": __version__,
        "model": None,
        "request": _asked(one.id, file),
        "warnings": [],
        "gpu": {
            **card_values(one),
            "facts": [
                {"fact": fact, "value": value, "confidence": trust or None, "source": said or None}
                for fact, value, trust, said in _facts(one)
            ],
        },
        "machines": [_machine_values(machine) for machine in _having(one)],
    }


def card_report(one: Accelerator) -> Report:
    """One card: its three numbers of memory, what it moves and computes, and who has it."""
    sections = [_about(one), _sourced(one)]
    having = _having(one)
    if having:
        rows: list[tuple[Cell, ...]] = [(m.name, m.cloud, str(m.gpus or "a part"), m.confidence) for m in having]
        sections.append(Section("machine types", ("machine type", "cloud", "GPUs", "confidence"), rows))
    return Report(sections, notes=[one.note.rstrip(".")] if one.note else [])


def machine_document(machine: Machine, file: str | None) -> "MachineDocument":
    """One machine type, and the card that it has."""
    return {
        "schema": "kvcalc.gpus/1",
        "kvcalc_version": __version__,
        "model": None,
        "request": _asked(machine.name, file),
        "warnings": [],
        "machine": _machine_values(machine),
        "gpu": card_values(catalogue(file)[machine.card]),
    }


def machine_report(machine: Machine, file: str | None) -> Report:
    one = catalogue(file)[machine.card]._replace(**machine.but)
    rows: list[tuple[Cell, ...]] = [
        ("machine type", machine.name),
        ("cloud", machine.cloud),
        ("GPUs", f"{machine.gpus} x {machine.card}" if machine.gpus else f"a part of {machine.card}"),
        ("confidence", machine.confidence),
    ]
    if machine.cloud_mib is not None:
        rows.append(("memory of each, as the cloud's catalogue has it", Bytes(machine.cloud_mib * 2**20)))
    notes = [machine.note.rstrip(".")] if machine.note else []
    return Report([Section("machine", ("", ""), rows), _about(one), _sourced(one)], notes=notes)


def _about(one: Accelerator) -> Section:
    memory, source = one.used()
    rows: list[tuple[Cell, ...]] = [
        ("GPU", ", ".join(filter(None, (one.id, one.label, one.vendor)))),
        ("memory used", Bytes(memory)),
        ("which is", MEMORY_SOURCES[source]),
        ("compute capability", one.capability or "not CUDA's"),
        ("bf16", "yes" if one.bf16 else "no"),
        ("in one machine", many(one.machine, "GPU")),
    ]
    if one.price is not None:
        rows.append(("price an hour", f"{one.price:g}"))
    if one.file is not None:
        rows.append(("file", one.file))
    return Section("gpu", ("", ""), rows)


def _sourced(one: Accelerator) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (fact, value or "not known", ": ".join(filter(None, (trust, said)))) for fact, value, trust, said in _facts(one)
    ]
    return Section("facts", ("fact", "value", "source"), rows)


def _facts(one: Accelerator) -> list[tuple[str, str | None, str, str]]:
    """Each fact with its value, how far it is to be trusted, and where it was read."""
    share = one.usable and f"{one.usable[0]}/{one.usable[1]} of {one.marketing_gb} GiB"
    speed = one.link and f"{one.link}, {_number(one.link_gb_s)} GB/s in a direction"
    facts = {
        "memory, as sold": (one.marketing_gb and f"{one.marketing_gb} GB", "", "the number in its name"),
        "memory, driver": (one.driver_mib and f"{one.driver_mib:,} MiB", "driver", ""),
        "memory, runtime": (one.runtime_gib and f"{one.runtime_gib:g} GiB", "runtime", ""),
        "memory, the GPU's share": (share, "usable", ""),
        "bandwidth": (one.bandwidth_gb_s and f"{_number(one.bandwidth_gb_s)} GB/s", "bandwidth", ""),
        "16-bit, dense": (one.tflops_16bit and f"{_number(one.tflops_16bit)} TFLOP/s", "flops16", ""),
        "fp8, dense": (one.tflops_fp8 and f"{_number(one.tflops_fp8)} TFLOP/s", "flops8", ""),
        "FP4, dense": (one.tflops_fp4 and f"{_number(one.tflops_fp4)} TFLOP/s", "flops4", ""),
        "link in a machine": (speed, "link", ""),
    }  # fmt: skip
    if one.usable is None:
        del facts["memory, the GPU's share"]
    return [(fact, value or None, *_source(one, field, said)) for fact, (value, field, said) in facts.items()]


def _source(one: Accelerator, field: str, said: str) -> tuple[str, str]:
    """How far a source is to be trusted, and what it is."""
    word = one.sources.get(field)
    if word is None:
        return "", said
    if word == "file":
        return "your file", ""
    known = [sources()[part] for part in word.split("+")]
    return known[0][0], "; ".join(text for _, text in known)


def _having(one: Accelerator) -> list[Machine]:
    return [machine for machine in machines().values() if machine.card == one.id]


def _machine_values(machine: Machine) -> "MachineFacts":
    return {
        "name": machine.name,
        "cloud": machine.cloud,
        "gpu": machine.card,
        "gpus": machine.gpus,
        "cloud_mib": machine.cloud_mib,
        "confidence": machine.confidence,
        "note": machine.note or None,
    }


def _asked(name: str, file: str | None) -> "CardRequest":
    return {"name": name, "vendor": None, "sort": None, "gpu_file": file}
