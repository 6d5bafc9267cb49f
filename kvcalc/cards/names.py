"""Accelerators by their names: those that are shipped, those of a user's own files, those of machine types."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cards.own_files import read_own
from kvcalc.cards.shipped import Accelerator, Machine, accelerators, machines
from kvcalc.core.card import Card
from kvcalc.core.units import parse_integer
from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.library.index import squash

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["all_cards", "card_called", "cards_called", "catalogue", "find_machine", "find_one", "local", "names"]

_MOST = 65536  # GPUs
_MOST_TEXT, _MOST_NAMES = 2000, 100  # of --gpu
_MOST_LISTED = 8
_ROUNDED = 0.02  # what a driver prints of a card's memory and what was read of it may differ by that much

# `8xh100`, `h100:8`, `m4-pro:24GB`; for h100x8 see _behind.
_ASKED = re.compile(
    r"(?:(?P<before>[0-9]{1,6})\s*[x*]\s*)?(?P<name>[a-z0-9][\w .+()-]{0,80}?)"
    r"(?:\s*[:*]\s*(?P<behind>[0-9]{1,6}))?(?:\s*:\s*(?P<memory>[0-9]{1,4}\s*[gt]i?b))?",
    re.ASCII | re.IGNORECASE,
)
_BEHIND = re.compile(r"([^\s].{0,80}?) ?x ?([0-9]{1,6})", re.ASCII | re.IGNORECASE)

# What makers' tools print around the name: "NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA RTX 6000 Ada Generation".
_AROUND = {
    "nvidia", "geforce", "tesla", "quadro", "amd", "instinct", "radeon", "intel", "apple", "google", "aws", "gpu",
    "graphics", "generation", "edition", "server", "workstation", "oam", "hbm2", "hbm2e", "hbm3", "hbm3e",
}  # fmt: skip


class _Named(NamedTuple):
    """One card that was asked for: how many, where that was said, and on which machine type."""

    gpus: int | None
    accelerator: Accelerator
    machine: Machine | None = None
    mib: int | None = None  # what this machine's own tool prints
    unified_gb: int | None = None  # of a computer whose memory comes in several sizes

    def facts(self) -> Accelerator:
        """The card as it is there: on that machine, with the total that its driver prints."""
        facts = self.accelerator
        if self.machine is not None:
            facts = facts._replace(machine=self.machine.gpus, **self.machine.but)
        if self.mib not in (None, facts.driver_mib):  # ECC, or another driver: what was read of the runtime is not its
            facts = facts._replace(driver_mib=self.mib, runtime_gib=None)
        return facts if self.unified_gb is None else facts.with_unified(self.unified_gb)


def catalogue(file: str | None = None) -> dict[str, Accelerator]:
    """Every accelerator by its name, with those of a user's own files, and of `file` where one is given."""
    return read_own(accelerators(), file)


def all_cards(file: str | None = None) -> list[Card]:
    """Every accelerator, in the order of the table."""
    return [one.card() for one in catalogue(file).values()]


def names() -> list[str]:
    """All that --gpu may name; what is wrong with a user's own file is told where a card is asked for."""
    try:
        known = catalogue()
    except KvcalcError:
        known = accelerators()
    return [*known, *(machine.name for machine in machines().values() if machine.gpus)]


@lru_cache(16)
def card_called(text: str, what: str = "--gpu", file: str | None = None) -> tuple[int | None, Card]:
    """`h100`, `8xh100`, a machine type or `local`: how many, where that is said, and of which card.

    Raises KvcalcError for a name that is not known or stands for several cards.
    """
    found = cards_called(text, what, file)
    if len(found) > 1:
        raise KvcalcError(f"{what}: expected one card, got {len(found)}", "`kvcalc plan` chooses among several")
    return found[0]


def cards_called(text: str, what: str = "--gpu", file: str | None = None) -> list[tuple[int | None, Card]]:
    """The same for several names with commas between them, and for `all`. Each card stands once."""
    known = catalogue(file)
    parts = [part.strip() for part in text[:_MOST_TEXT].split(",") if part.strip()]
    if not parts or len(parts) > _MOST_NAMES or len(text) > _MOST_TEXT:
        raise KvcalcError(f"{what}: expected GPUs such as h100, 8xh100 or h100,l40s, got {shown(text)}")
    found: list[tuple[int | None, Card]] = []
    for part in parts:
        match part.lower():
            case "all":
                named = [_Named(None, one) for one in known.values()]
            case "local":
                named = _local(known, what)
            case _:
                named = [_named(part, known, what)]
        found += [(one.gpus, one.facts().card()) for one in named]
    return list(dict.fromkeys(found))


def find_one(name: str, file: str | None = None) -> Accelerator:
    """The facts behind one name, for showing them."""
    return _accelerator(name, catalogue(file), "gpus")


def local(file: str | None = None) -> list[Accelerator]:
    """The cards of this machine. Raises KvcalcError where no tool of a driver answers."""
    return [one.facts()._replace(here=one.gpus) for one in _local(catalogue(file), "gpus")]


def find_machine(name: str) -> Machine | None:
    """The machine type of that name, in any spelling."""
    wanted = squash(name)
    among = {squash(known): machine for known, machine in machines().items()}
    return among.get(wanted) or among.get(f"standard{wanted}")  # Azure's names begin with it


def _named(text: str, known: dict[str, Accelerator], what: str) -> _Named:
    match = _ASKED.fullmatch(text)
    if match is None or (match["before"] and match["behind"]):
        raise KvcalcError(f"{what}: expected a GPU such as h100, 8xh100 or h100:8, got {shown(text)}")
    name, digits = match["name"], match["before"] or match["behind"]
    exact = _exact(name, known)
    machine = None if exact is not None else find_machine(name)
    if machine is None and not (exact or _family(name, known)):
        if match["before"] and _family(text, known):
            name, digits = text, None  # 7900xtx is no 7,900 of something
        elif not digits and (behind := _BEHIND.fullmatch(name)):
            exact = _exact(behind[1], known)
            if exact or _family(behind[1], known):
                name, digits = behind[1], behind[2]  # h100x8
    count = parse_integer(digits, what, _MOST) if digits else None
    if machine is None:
        return _sized(_Named(count, exact or _accelerator(name, known, what)), match["memory"], what)
    if not machine.gpus:
        note = machine.note[:1].lower() + machine.note[1:]
        raise KvcalcError(f"{what}: {machine.name} has {note}, not a whole card", "--vram SIZE takes its memory")
    gpus = machine.gpus * (count or 1)
    if gpus > _MOST:
        raise KvcalcError(f"{what}: expected at most {_MOST:,} GPUs, got {gpus:,}")
    return _sized(_Named(gpus, known[machine.card], machine), match["memory"], what)


def _sized(named: _Named, memory: str | None, what: str) -> _Named:
    """The card with the memory that was asked for, where it is sold with several sizes of it."""
    if memory is None:
        return named
    one = named.accelerator
    if one.usable is None or one.vendor != "Apple":
        raise KvcalcError(f"{what}: {one.id} has one size of memory, got {shown(memory)}", "--vram SIZE takes another")
    number, terabytes = re.match("[0-9]+", memory), "t" in memory.lower()  # 24GB on the box are 24 GiB
    assert number is not None
    return named._replace(unified_gb=parse_integer(number[0], what) * (1024 if terabytes else 1))


def _exact(name: str, known: dict[str, Accelerator]) -> Accelerator | None:
    """The card of that very name, or the form of a family that stands in servers."""
    if name in known:
        return known[name]
    wanted = squash(name)
    by_name = {squash(key): one for key, one in known.items()}
    return by_name.get(wanted) or by_name.get(f"{wanted}sxm")


def _accelerator(name: str, known: dict[str, Accelerator], what: str) -> Accelerator:
    found = _exact(name, known)
    if found is not None:
        return found
    family = _family(name, known)
    chosen = _chosen(family)
    if chosen is not None:
        return chosen
    if family:
        names = [one.id for one in family]
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        raise KvcalcError(f"{what}: {shown(name)} is not one card", f"one of {', '.join(names[:_MOST_LISTED])}{more}")
    close = nearest(name.strip().lower(), dict.fromkeys([*known, *_short_names(known)]), 3)
    hint = f"did you mean {', '.join(close)}? " if close else ""
    raise KvcalcError(
        f"{what}: {shown(name)} is not in the table of GPUs",
        f"{hint}`kvcalc gpus` lists them, and --vram SIZE takes the memory of any GPU",
    )


def _family(name: str, known: dict[str, Accelerator]) -> list[Accelerator]:
    """The cards that `name` may mean: those it names word by word, else those that have all of its words."""
    asked, wanted = _words(name), squash(name)
    ways: tuple[Callable[[Accelerator], bool], ...] = (
        lambda one: asked in map(_words, (one.id, one.label, *one.names)),
        lambda one: asked <= _words(one.id) | _words(one.label) or wanted in _parts(one.id),
    )
    return next((found for way in ways if asked and (found := [one for one in known.values() if way(one)])), [])


def _short_names(known: dict[str, Accelerator]) -> list[str]:
    """h100 of h100-sxm: what people type, and more like a slip of it than the whole name is."""
    first = [name.split("-")[0] for name in known]
    return [name for name in first if re.search("[0-9]", name)]


def _chosen(family: list[Accelerator]) -> Accelerator | None:
    """The one that is meant: of forms with the same memory, that of servers."""
    servers = [one for one in family if "sxm" in _words(one.id)]
    if len(family) == 1 or (len(servers) == 1 and len({one.marketing_gb for one in family}) == 1):
        return servers[0] if servers else family[0]
    return None


def _words(name: str) -> frozenset[str]:
    """`NVIDIA A100-SXM4-80GB` is a100, sxm and 80gb; a maker's own words around it say nothing."""
    text = re.sub(r"\b(\d+)\s*g(?:i?b)?\b", r"\1gb", name.lower())
    return frozenset(re.sub(r"^sxm\d$", "sxm", word) for word in re.findall(r"[a-z0-9]+", text)) - _AROUND


def _parts(name: str) -> list[str]:
    """`a100-80gb-sxm` begins with a100 and a100-80gb; `rtx-4090` is also 4090."""
    words = name.split("-")
    return ["".join(words[:i]) for i in range(1, len(words))] + ["".join(words[1:])]


def _local(known: dict[str, Accelerator], what: str) -> list[_Named]:
    """The cards of this machine, by its own tool."""
    from kvcalc.cards.local import ask  # runs a program

    found = []
    for device, count in ask(what).items():
        family = _family(device.name, known)
        near = [one for one in family if _is_near(one.driver_mib, device.mib)]
        one = _chosen(family) or _chosen(near)
        if one is None and device.mib is not None:  # a card that is not in the table: its memory is all that is known
            one = Accelerator("local", device.name, device.vendor, driver_mib=device.mib, sources={"driver": "tool"})
        if one is None:
            raise KvcalcError(f"{what}: local: {shown(device.name)} is not in the table, and its tool prints no memory")
        found.append(_Named(count, one, mib=device.mib))
    return found


def _is_near(read: int | None, printed: int | None) -> bool:
    return printed is None or (read is not None and abs(read - printed) <= _ROUNDED * read)
