"""Files that start servers, told from presets by how they begin: what is in them, `kvcalc.commands` reads."""

import re

__all__ = ["starts_server", "way_to_start"]

_MOST_SEARCHED = 1 << 16
_ENDINGS = (".sh", ".bash", ".service", ".container", ".bat", ".ps1", ".modelfile", ".dockerfile")
# Scripts, units and Dockerfiles, behind their comments; and keys of YAML that starts something, which no preset has.
_BEGINS = re.compile(rb"(?:\s|#(?!!)[^\n]*\n)*+(?:#!|\[(?:Unit|Service|Container)\]|(?:FROM|ARG)\s)", re.IGNORECASE)
_SERVING = re.compile(
    rb"^(?:services|apiVersion|kind|applications|servingEngineSpec|spec|jobs|run|resources|controllers)[ \t]*:",
    re.MULTILINE,
)
_OF_PRESETS = re.compile(rb"^(?:layers|base|heads|caches)[ \t]*:", re.MULTILINE)


def starts_server(content: bytes, name: str) -> bool:
    """A file of this name, or its beginning, is no preset but something that starts programs."""
    start = content[:_MOST_SEARCHED].removeprefix(b"\xef\xbb\xbf")
    serves = _SERVING.search(start) is not None and _OF_PRESETS.search(start) is None
    return serves or _BEGINS.match(start) is not None or name.lower().endswith(_ENDINGS)


def way_to_start(path: str) -> str:
    """How such a file is given."""
    from shlex import quote  # only on the way to an error

    return f"`kvcalc -- {'-' if path[:1] == '<' else quote(path)}` sizes the engine that it starts"
