"""A hub id becomes a config.json: from the hub's local cache, or, with the `hub` extra and a network, from the hub.

Only config.json is ever fetched. The extra brings `huggingface_hub`, which knows tokens, mirrors and proxies.
"""

import os
import re
import sys

from kvcalc.errors import KvcalcError, escape

__all__ = ["config_path", "looks_like_id"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{7,64}")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def looks_like_id(text: str) -> bool:
    """`org/name`, as the hub allows it."""
    return _ID.fullmatch(text) is not None and len(text) <= 200 and ".." not in text


def config_path(hub_id: str, hint: str | None) -> str:
    """The path of the config.json of `hub_id`. Raises KvcalcError where it is neither cached nor can be fetched.

    `hint` is the way out that is known already: the nearest presets.
    """
    cached = _cached(hub_id)
    if cached is not None:
        return cached
    if any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in _OFFLINE):
        raise KvcalcError(
            f"{hub_id}: no preset has this hub id, the hub's cache does not hold it, and it is offline", hint
        )
    return _fetched(hub_id, hint)


def _cached(hub_id: str) -> str | None:
    """The file in the hub's local cache: models--ORG--NAME/snapshots/REVISION, REVISION as refs/main says."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface"
    )
    root = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(root, "models--" + hub_id.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="ascii") as file:
            revision = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return None
    path = os.path.join(folder, "snapshots", revision, "config.json")
    return path if _REVISION.fullmatch(revision) and os.path.isfile(path) else None


def _fetched(hub_id: str, hint: str | None) -> str:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # one file of a few kilobytes
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.utils import logging
    except ImportError:
        nearest = f"; {hint}" if hint else ""
        raise KvcalcError(
            f"{hub_id}: no preset has this hub id, and the hub's cache does not hold it",
            f"pip install 'kvcalc[hub]' lets kvcalc fetch its config.json{nearest}",
        ) from None
    logging.set_verbosity(40)  # errors alone; its warnings of retries are not ours
    _check_network(str(constants.ENDPOINT), hub_id, hint)
    try:
        path = str(hf_hub_download(hub_id, "config.json"))
    except Exception as error:  # noqa: BLE001 - the package has a dozen of its own, and those of its HTTP client
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise KvcalcError(f"{hub_id}: its config.json cannot be fetched: {escape(reason)}", hint) from None
    revision = os.path.basename(os.path.dirname(path))
    print(f"kvcalc: fetched config.json of {hub_id} at revision {escape(revision)}", file=sys.stderr)
    return path


def _check_network(endpoint: str, hub_id: str, hint: str | None) -> None:
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
        raise KvcalcError(f"{hub_id}: its config.json cannot be fetched: {reason}", hint) from None
