"""Fields of a configuration that an engine prints."""

import re
from collections.abc import Sequence

__all__ = ["key_values"]


_VALUE = r"""['"]?\s*[=:]\s*(?:'([^']{0,300})'|"([^"]{0,300})"|([^\s,(){}\[\]]{1,300}))"""


def key_values(text: str, keys: Sequence[str]) -> dict[str, str]:
    """The first value of each key in a printed configuration; a value that is None or empty is left out."""
    pattern = re.compile(rf"(?<![\w.-])({'|'.join(keys)}){_VALUE}")
    found: dict[str, str] = {}
    for match in pattern.finditer(text):
        found.setdefault(match[1], match[2] or match[3] or match[4] or "")
    return {key: value for key, value in found.items() if value not in ("", "None")}
