"""A file of the user's own prices, to be filled in: no price is shipped."""

from kvcalc.cards.shipped import rented
from kvcalc.core.units import many
from kvcalc.views.gpus import listing

__all__ = ["price_template"]

_HEAD = """\
# What an hour of one GPU costs you, in any one currency: a machine's price over its GPUs. Fill in those you know, and
# give the file as --gpu-file, in KVCALC_GPUS, or as gpus.yaml beside your configuration.
"""


def price_template(vendor: str | None = None, file: str | None = None) -> str:
    """YAML for --gpu-file: every card that a machine type has, those types, and room for a price or the known one.

    Raises KvcalcError for a vendor that is not known.
    """
    text = _HEAD
    for card in listing(vendor, "name", file).cards:
        types = rented().get(card.id, {})
        if types:
            had = "".join(f"# {many(gpus, 'GPU')}: {', '.join(names)}\n" for gpus, names in types.items())
            text += f"\n{had}{card.id}:\n  price:{'' if card.price is None else f' {card.price}'}\n"
    return text
