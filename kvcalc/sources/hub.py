"""A model of the hub becomes a config.json: from the hub's cache, or, with the `hub` extra and a network, from the hub.

Only config.json is ever fetched. The extra brings `huggingface_hub`, which knows tokens, mirrors and proxies.
Layout of the cache: models--ORG--NAME/snapshots/COMMIT, and refs/NAME with the commit that a branch or tag stood at.
"""

import os
import re
import sys
from typing import NamedTuple

from kvcalc.errors import KvcalcError, escape, shown_path

__all__ = ["HubModel", "Snapshot", "cached_config", "config_path", "of_id", "of_url", "snapshot_at"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w.+-]*(?:/[A-Za-z0-9][\w.+-]*)*", re.ASCII)  # a commit, a branch or a tag
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_LONGEST = 200
_MOST_NAMED = 3  # snapshots, in a hint
_NO_MODELS = ("collections", "datasets", "docs", "papers", "spaces")  # what else has pages on the hub
_URL = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([^?#]*)(?:[?#].*)?", re.IGNORECASE)
_IN_CACHE = re.compile(r"(?:.*/)?models--([\w.-]+)(?:/snapshots/([0-9a-f]{7,64}))?(/config\.json)?/*", re.ASCII)
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

# What the errors of huggingface_hub mean, by class: the first that an error is one of. The second text is a way out.
_REASONS = {
    "GatedRepoError": ("it is gated", "accept its licence on the hub and set HF_TOKEN"),
    "RepositoryNotFoundError": ("the hub has no such model, or it is private", "a private one needs HF_TOKEN"),
    "RevisionNotFoundError": ("the hub has no such revision of it", "leave the revision out for the main one"),
    "LocalEntryNotFoundError": ("the hub cannot be reached", "fetch it where there is a network, and give its path"),
    "EntryNotFoundError": ("it has none", "download a GGUF file of it, if it has one, and give its path"),
}


class HubModel(NamedTuple):
    """A model of the hub by its id, and the revision that was asked for: None is the main one."""

    id: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.id if self.revision is None else f"{self.id}@{self.revision}"


class Snapshot(NamedTuple):
    """What a path inside a cache of the hub leads to, and of which model its config.json is, if it has one."""

    path: str
    model: HubModel | None


def of_id(text: str) -> HubModel | None:
    """`org/name` or `org/name@revision`, as the hub allows them; None for other text."""
    name, at, revision = text.partition("@")
    return _model(name, revision if at else "main") if _ID.fullmatch(name) else None


def of_url(text: str) -> HubModel | None:
    """The model whose page, files or config.json the address `text` leads to; None for text that is no address.

    Raises KvcalcError for an address that leads elsewhere: config.json is the only file that is fetched.
    """
    url = _URL.fullmatch(text)
    if url is None and "://" in text:
        raise KvcalcError(
            f"{shown_path(text)}: expected a path, or the address of a model on huggingface.co",
            "give a model's id, org/name, or download the file and give its path",
        )
    if url is None:
        return None
    from urllib.parse import unquote

    parts = [unquote(part) for part in url[1].split("/") if part]
    name = "/".join(parts[:2])
    place, revision, *file = parts[2:] if len(parts) > 3 else ("tree", "main")
    if place not in ("tree", "blob", "resolve", "raw", "commit"):  # other pages of the same model, such as discussions
        revision, file = "main", []
    one = _ID if len(parts) > 1 else _NAME  # the oldest models have no owner
    found = _model(name, revision) if one.fullmatch(name) and parts[0] not in _NO_MODELS else None
    if found is None:
        example = "such as https://huggingface.co/meta-llama/Meta-Llama-3-70B"
        raise KvcalcError(f"{shown_path(text)}: expected the page of a model, {example}", "give its id, org/name")
    if file not in ([], ["config.json"]):
        raise KvcalcError(
            f"{shown_path(text)}: of the hub, config.json alone is fetched, not {shown_path('/'.join(file))}",
            f"download the file and give its path, or size {found} by its config.json: `kvcalc {found}`",
        )
    return found


def _model(name: str, revision: str) -> HubModel | None:
    if not _REVISION.fullmatch(revision) or ".." in name + revision or max(len(name), len(revision)) > _LONGEST:
        return None
    return HubModel(name, None if revision == "main" else revision)


def snapshot_at(path: str) -> Snapshot | None:
    """What an existing path inside a cache of the hub means: a snapshot or its config.json; None for other paths.

    Raises KvcalcError for the folder of a model of which no snapshot can be chosen.
    """
    try:
        found = _IN_CACHE.fullmatch(os.path.abspath(path))
    except OSError:  # the working folder is gone
        return None
    if found is None:
        return None
    name, commit, file = found[1].replace("--", "/"), found[2], found[3]
    if commit is None and file is None and not _has_config(path):
        commit = _commit(path, None)
        if commit is None:
            raise _no_snapshot(path, name)
        path = os.path.join(path, "snapshots", commit)
    if commit is None:  # a config.json beside the snapshots, or in place of them, is none of the hub's
        return None
    return Snapshot(path, HubModel(name, commit) if file or _has_config(path) else None)


def _has_config(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "config.json"))


def _no_snapshot(folder: str, name: str) -> KvcalcError:
    held = _snapshots(folder)
    if not held:
        way_out = f"`kvcalc {name}` fetches its config.json, where the hub can be reached"
        return KvcalcError(f"{escape(folder)}: expected a snapshot of the model, got none", way_out)
    some = ", ".join(escape(os.path.join(folder, "snapshots", commit)) for commit in held[:_MOST_NAMED])
    more = f" and {len(held) - _MOST_NAMED:,} more" if len(held) > _MOST_NAMED else ""
    return KvcalcError(
        f"{escape(folder)}: expected a refs/main that says which snapshot counts, got {len(held):,} snapshots without",
        f"give one of them: {some}{more}",
    )


def config_path(model: HubModel, hint: str) -> str:
    """The path of the model's config.json. Raises KvcalcError where it is neither cached nor can be fetched.

    `hint` is the way out that is known already: the nearest presets.
    """
    folder = os.path.join(_cache(), "models--" + model.id.replace("/", "--"))
    path = cached_config(model)
    if path is not None:
        return path
    nothing = "no preset has this hub id, no file this path" if model.revision is None else "no preset has a revision"
    lacking = f"{model}: {nothing}, and {_uncached(folder, model)}"
    hint = "; ".join(filter(None, (_ways(folder, model.id), hint)))
    offline = next((name for name in _OFFLINE if _is_on(name)), None)
    if offline is not None:
        raise KvcalcError(f"{lacking}; it is offline, as {offline} says", hint)
    return _fetched(model, lacking, hint)


def cached_config(model: HubModel) -> str | None:
    """The model's config.json in the hub's cache, if it is there."""
    folder = os.path.join(_cache(), "models--" + model.id.replace("/", "--"))
    commit = _commit(folder, model.revision)
    path = os.path.join(folder, "snapshots", commit or "", "config.json")
    return path if commit is not None and os.path.isfile(path) else None


def _uncached(folder: str, model: HubModel) -> str:
    """Why the cache has no configuration of it."""
    held, commit = _snapshots(folder), _commit(folder, model.revision)
    if commit is not None:
        return f"its snapshot {commit} in the hub's cache has no config.json"
    if model.revision is None and len(held) > 1:
        return f"the hub's cache holds {len(held):,} revisions of it, and no refs/main that says which counts"
    return "the hub's cache does not hold it"


def _ways(folder: str, model_id: str) -> str:
    """The revisions in the cache that can be given, and the files of those that have GGUF files alone."""
    ways = []
    for commit in _snapshots(folder):
        snapshot = os.path.join(folder, "snapshots", commit)
        if _has_config(snapshot):
            ways.append(f"{model_id}@{commit}")
        else:
            ways += [
                escape(os.path.join(snapshot, name)) for name in _listed(snapshot) if name.lower().endswith(".gguf")
            ]
    more = f" and {len(ways) - _MOST_NAMED:,} more" if len(ways) > _MOST_NAMED else ""
    return f"the cache holds {', '.join(ways[:_MOST_NAMED])}{more}, which can be given" if ways else ""


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")


def _cache() -> str:
    """The folder of the hub's local cache, wherever the hub's own client would look for it."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface"
    )
    return os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")


def _commit(folder: str, revision: str | None) -> str | None:
    """The commit of the snapshot of `revision`, where it is there.

    Without a revision it is what refs/main says, or where there is no refs/main the only snapshot that there is.
    """
    try:
        with open(os.path.join(folder, "refs", revision or "main"), encoding="ascii") as file:
            commit = file.read(100).strip()
    except (OSError, ValueError):  # ValueError: no ASCII
        commit = _alone(_snapshots(folder), revision)
    return commit if commit in _snapshots(folder) else None


def _alone(held: list[str], revision: str | None) -> str:
    """The only snapshot that `revision` can mean: a commit, or the first 7 digits or more of one; any without it."""
    if revision is None or _COMMIT.fullmatch(revision):
        held = [commit for commit in held if commit.startswith(revision or "")]
        return held[0] if len(held) == 1 else ""
    return revision


def _snapshots(folder: str) -> list[str]:
    """The commits of the snapshots that are there, in the order of their names."""
    return [name for name in _listed(os.path.join(folder, "snapshots")) if _COMMIT.fullmatch(name)]


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _fetched(model: HubModel, lacking: str, hint: str) -> str:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # one file of a few kilobytes
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.utils import logging
    except ImportError:
        raise KvcalcError(lacking, f"pip install 'kvcalc[hub]' lets kvcalc fetch its config.json; {hint}") from None
    logging.set_verbosity(40)  # errors alone; its warnings of retries are not ours
    _check_network(str(constants.ENDPOINT), model, hint)
    try:
        path = str(hf_hub_download(model.id, "config.json", revision=model.revision))
    except Exception as error:  # noqa: BLE001 - the package has a dozen of its own, and those of its HTTP client
        raise _unfetched(model, error, hint) from None
    revision = os.path.basename(os.path.dirname(path))
    print(f"kvcalc: fetched config.json of {model.id} at revision {escape(revision)}", file=sys.stderr)
    return path


def _unfetched(model: HubModel, error: Exception, hint: str) -> KvcalcError:
    for kind in type(error).__mro__:
        if kind.__name__ in _REASONS:
            reason, way_out = _REASONS[kind.__name__]
            return KvcalcError(f"{model}: its config.json cannot be fetched: {reason}", f"{way_out}; {hint}")
    reason = " ".join(str(error).split()) or type(error).__name__
    return KvcalcError(f"{model}: its config.json cannot be fetched: {shown_path(reason)}", hint)


def _check_network(endpoint: str, model: HubModel, hint: str) -> None:
    """Say at once that there is no network: the hub's client would try for half a minute. A proxy is trusted."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    address = urlsplit(endpoint)
    if getproxies().get(address.scheme):
        return
    host, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        reason = f"{escape(host)} cannot be reached ({escape(error.strerror or str(error))})"
        way_out = "fetch the file where there is a network, and give its path"
        raise KvcalcError(f"{model}: its config.json cannot be fetched: {reason}", f"{way_out}; {hint}") from None
