"""What the word MODEL stands for: a preset's name, a file, a folder, or a model of the hub."""

import os
from typing import NamedTuple

from kvcalc.errors import KvcalcError, escape, nearest, shown, shown_path
from kvcalc.library.index import (
    ENDINGS,
    Entry,
    entry_called,
    find_converted,
    find_own_id,
    has_ending,
    is_path,
    nearest_hint,
)

__all__ = ["ModelFile", "locate", "missing"]

_LONGEST_NAME = 255  # of a file, by most systems
_MOST_NAMES = 1000  # of a folder, among which a misspelt one is looked for


class ModelFile(NamedTuple):
    """A file or folder of a model that is no preset; its hub id and revision, where it was found by them."""

    path: str
    hub_id: str | None = None
    revision: str | None = None


def locate(source: str) -> Entry | ModelFile | str:
    """The preset, the model file or the path of a preset's file that `source` names. Raises KvcalcError for none."""
    if not is_path(source):
        if len(source) > _LONGEST_NAME:
            text = f"no preset is called {shown(source)}, a name of {len(source):,} characters"
            raise KvcalcError(text, "`kvcalc models` lists all presets")
        return entry_called(source)
    if os.path.exists(source):
        return _at(source)
    from kvcalc.sources import hub  # what a short question does not ask about

    if "/" not in source and source.lower().endswith(".gguf") and (named := find_converted(source)) is not None:
        return named  # a file that is not here, and says what it holds
    source = _without_tag(source)
    model = hub.of_url(source) or (None if has_ending(source) else hub.of_id(source))
    if model is None:
        raise missing(source)
    if "/" not in model.id:  # the oldest models of the hub have no owner
        return entry_called(model.id)
    own = find_own_id(model.id)
    entry = own or find_converted(model.id)
    if entry is not None and model.revision is None:
        # `@main` asks for the published file, where the cache has it; a page's address has it only by the way. What a
        # name says of converted weights counts less than their own file.
        stored = hub.cached_config(model) if source.endswith("@main") or own is None else None
        return entry if stored is None else ModelFile(stored, model.id, "main")
    same = None if entry is None else f"without a revision it is the preset {entry.name}"
    return ModelFile(hub.config_path(model, same or nearest_hint(model.id.split("/")[1])), *model)


def _without_tag(source: str) -> str:
    """A hub id or address without the type of a file behind it, as Ollama and llama.cpp take it: ORG/NAME:Q4_K_M."""
    body, colon, tag = source.rpartition(":")
    return body if colon and "/" in body and tag and "/" not in tag else source


def _at(path: str) -> ModelFile | str:
    """What lies at a path that is there."""
    if path.lower().endswith(ENDINGS):
        return path
    from kvcalc.sources import files, hub

    snapshot = hub.snapshot_at(path)
    if snapshot is not None:
        return ModelFile(snapshot.path, *(snapshot.model or ()))
    return ModelFile(path) if files.is_model_file(path) else path


def missing(path: str) -> KvcalcError:
    """A path that leads nowhere, with what lies beside it under a similar name."""
    reason, known = "no such file", {}
    folder, name = os.path.split(path.rstrip("/"))
    try:
        if os.path.islink(path):
            target = shown_path(os.readlink(path))
            reason = f"it is a link to {target}, which is not there"
            return KvcalcError(f"{shown_path(path)}: {reason}", "fetch or copy that file too")
        known = {one.lower(): one for one in sorted(os.listdir(folder or "."))[:_MOST_NAMES]}
        os.stat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = escape(getattr(error, "strerror", None) or str(error))
    close = nearest(name, known, 1) if len(name) < _LONGEST_NAME else []
    hint = f"did you mean {escape(os.path.join(folder, known[close[0]]))}?" if close else None
    return KvcalcError(
        f"{shown_path(path) or repr(path)}: {reason}",
        hint or "give the path of a file that is there, or a name of `kvcalc models`",
    )
