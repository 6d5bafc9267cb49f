"""The files of a model that is stored in several: which there are, and which should be."""

import os
import re

from kvcalc.errors import KvcalcError, escape
from kvcalc.sources.faults import Phrase, fault

__all__ = ["INDEX", "MOST_SHARDS", "SINGLE", "complete", "inside", "unrelated"]


INDEX = "model.safetensors.index.json"


SINGLE = "model.safetensors"


MOST_SHARDS = 10_000


_LONGEST_NAME = 500  # of a shard, folders included


_SHARD = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.safetensors")


def unrelated(folder: str, named: str, chosen: list[str]) -> KvcalcError:
    """A file was named whose weights are not those of the model: an adapter, or a copy in another format."""
    what = f"a file of the model, such as {escape(chosen[0])}" if chosen else "a file of the model"
    hint = f"for the model give {escape(os.path.join(folder, ''))}, and for other weights --weights SIZE"
    return fault(os.path.join(folder, named), "weights", what, Phrase("another one"), hint)


def complete(folder: str, files: list[str]) -> list[str]:
    """One file, or all shards of one set; anything else is more than one model."""
    if len(files) <= 1 and not (files and _SHARD.fullmatch(files[0])):
        return files
    sets = {(match[1], int(match[3])) for match in map(_SHARD.fullmatch, files) if match}
    if len(sets) != 1 or not all(map(_SHARD.fullmatch, files)):
        got = Phrase(", ".join(map(escape, files[:3])) + (", ..." if len(files) > 3 else ""))
        raise fault(folder, "*.safetensors", f"{SINGLE}, or shards with {INDEX}", got, "move the others elsewhere")
    prefix, count = sets.pop()
    for number in range(1, min(count, MOST_SHARDS) + 1):
        name = f"{prefix}-{number:05}-of-{count:05}.safetensors"
        if name not in files:
            raise fault(folder, name, "a shard", Phrase("nothing"), "fetch the missing file")
    return files


def inside(name: str) -> bool:
    """A relative path with no way out of its folder, on any system. Links are followed: the hub's cache has them."""
    parts = re.split(r"[/\\]", name)
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and ":" not in name and not {"", ".", ".."} & {*parts}
