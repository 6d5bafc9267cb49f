"""Names of models as `ollama run` takes them: NAME:TAG of Ollama's library, or hf.co/ORG/NAME:QUANT.

From types/model/name.go, Ollama fb3076099: HOST/NAMESPACE/MODEL:TAG, the tag `latest` where none is given.
"""

import re
from collections.abc import Sequence

from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["preset_of"]

_HUB = re.compile(r"(?:https?://)?(?:hf\.co|huggingface\.co)/([^/:]+/[^/:]+)(?::.*)?", re.ASCII)
_LIBRARY = re.compile(r"(?:(?:registry\.)?ollama\.(?:ai|com)/)?(?:library/)?([^/:]+)(?::([^/:]+))?", re.ASCII)
# What a name of a preset adds to a family's name where it says the size alone: -8b, 3b, -30b-a3b, -8x7b, -e4b.
_SIZE = re.compile(r"-?(?:\d+x|e)?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?", re.ASCII)

_LONGEST = 300


def preset_of(model: str, presets: Sequence[str]) -> str:
    """The preset, or the hub id, that `ollama run MODEL` means. Raises KvcalcError where it could be several.

    A tag begins with the size and goes on with the variant and the weights' format (8b-instruct-q4_K_M), which do not
    change the cache: as much of it counts as a preset's name has.
    """
    hub = _HUB.fullmatch(model)
    if hub:
        return hub[1]
    own = _LIBRARY.fullmatch(model) if len(model) <= _LONGEST else None
    if own is None:
        raise _unknown(model, "Ollama keeps the model of that name in a registry that is not read here")
    name, tag = own[1], own[2] or "latest"
    known = {_squash(preset): preset for preset in presets}
    parts = [] if tag == "latest" else tag.split("-")
    for end in range(len(parts), 0, -1):
        if (found := known.get(_squash(name + "".join(parts[:end])))) is not None:
            return found
    sizes = [preset for squashed, preset in known.items() if _adds_size(squashed, preset, name)]
    if parts:
        raise _unknown(model, f"no preset is called {shown(f'{name}-{parts[0]}')}", sizes, presets)
    if _squash(name) in known:
        return known[_squash(name)]
    if len(sizes) == 1:
        return sizes[0]
    if not sizes:
        raise _unknown(model, f"no preset is called {shown(name)}", sizes, presets)
    raise _unknown(model, f"the name alone means any of {len(sizes)} sizes", sizes)


def _unknown(model: str, what: str, sizes: Sequence[str] = (), presets: Sequence[str] = ()) -> KvcalcError:
    """A name that leads to no preset, with the presets of that family, or the names closest to it, as a way out."""
    close = sizes or _alike(model, presets) or nearest(model.replace(":", "-"), presets)
    hint = f"one of {', '.join(close[:8])} in front: kvcalc {close[0]} -- ollama ..." if close else None
    return KvcalcError(f"ollama: {shown(model)}: {what}", hint or "give the model in front: kvcalc MODEL -- ollama ...")


def _alike(model: str, presets: Sequence[str]) -> list[str]:
    """Presets whose names begin with this one, those with its size first; where any has the size, these alone."""
    name, _, tag = model.rpartition("/")[2].partition(":")
    family = [preset for preset in presets if name and _squash(preset).startswith(_squash(name))]
    size = tag.partition("-")[0].lower()
    return [preset for preset in family if size and size in preset.split("-")] or family


def _squash(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.lower())


def _adds_size(squashed: str, preset: str, name: str) -> bool:
    """`preset` is called `name` and a size."""
    if not squashed.startswith(_squash(name)):
        return False
    size = next(preset[end:] for end in range(len(preset) + 1) if _squash(preset[:end]) == _squash(name))
    return _SIZE.fullmatch(size) is not None
