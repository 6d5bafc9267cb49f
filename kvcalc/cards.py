"""Accelerators by their names: a small table beside this module."""

import json
import re
from pathlib import Path

from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.hardware import Card
from kvcalc.units import parse_integer

__all__ = ["all_cards", "find"]

_MOST = 65536  # GPUs


def all_cards() -> list[Card]:
    """Every accelerator in the table, in its order."""
    rows = json.loads((Path(__file__).parent / "gpus.json").read_text(encoding="utf-8"))["cards"]
    return [Card(name, label, memory, tuple(able) if able else None) for name, label, memory, able in rows]


def find(text: str, what: str = "--gpu") -> tuple[int | None, Card]:
    """`h100`, `rtx4090` or `8xh100`: how many, where that is said, and of which card. Raises KvcalcError."""
    match = re.fullmatch(r"(?:([0-9]{1,6})\s*[x*]\s*)?([A-Za-z][\w .-]{1,40})", text.strip(), re.ASCII)
    if match is None:
        raise KvcalcError(f"{what}: expected a GPU such as h100 or 8xh100, got {shown(text)}")
    return parse_integer(match[1], what, _MOST) if match[1] else None, _card(match[2], what)


def _card(name: str, what: str) -> Card:
    cards, wanted = all_cards(), _plain(name)
    for exact in (wanted, f"{wanted}sxm"):  # the form of a family that stands in servers
        found = [card for card in cards if _plain(card.name) == exact]
        if found:
            return found[0]
    family = [card for card in cards if wanted in _beginnings(card.name)]
    if len({(card.memory, card.capability) for card in family}) == 1:
        return family[-1]
    if family:
        raise KvcalcError(f"{what}: {shown(name)} is not one card", f"one of {', '.join(card.name for card in family)}")
    close = nearest(name.strip().lower(), [card.name for card in cards], 3)
    hint = f"did you mean {', '.join(close)}? " if close else ""
    raise KvcalcError(
        f"{what}: {shown(name)} is not in the table of GPUs", f"{hint}--vram SIZE takes the memory of any GPU"
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s._-]", "", name.lower())


def _beginnings(name: str) -> list[str]:
    """`a100-80gb-sxm` begins with a100 and a100-80gb."""
    words = name.split("-")
    return ["".join(words[:i]) for i in range(1, len(words))]
