"""A line split into words at blanks, as shells quote them (POSIX, Shell & Utilities 2.2), without variables."""

import re

__all__ = ["split"]

_BLANKS = " \t\r\n"
# One part of a word: what stands in single quotes, or in double ones, what a backslash stands before, or plain text.
_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*+)"|\\(.)|([^'"\\ \t\r\n]+)""", re.DOTALL)
_ESCAPED = re.compile(r"""\\(["\\])""")  # within double quotes


def split(text: str) -> list[str]:
    """The words of `text`. Raises ValueError for a quote that is not closed.

    The standard library's shlex reads one character after the other, and copies a word with each.
    """
    words: list[str] = []
    parts: list[str] = []
    at, begun = 0, False
    while at < len(text):
        if text[at] in _BLANKS:
            if begun:
                words.append("".join(parts))
            parts, begun, at = [], False, at + 1
            continue
        match = _PART.match(text, at)
        if match is None:
            raise ValueError("a quote is opened and not closed")
        quoted, double, escaped, plain = match.groups()
        parts.append(plain or quoted or escaped or _ESCAPED.sub(r"\1", double or ""))
        begun, at = True, match.end()
    return [*words, "".join(parts)] if begun else words
