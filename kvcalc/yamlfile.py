"""A YAML document read as if it were hostile: bounded, without execution, repeated keys refused, lines remembered."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import yaml

from kvcalc.errors import DocumentError, KvcalcError, Problem, escape

__all__ = ["MOST_FILE_BYTES", "Document", "parse", "read_bytes"]

MOST_FILE_BYTES = 1 << 20  # the longest preset that we ship has some 2 KiB
_PIECE = 1 << 16

# libyaml where the wheel brings it: fifteen times faster, and it bounds nesting by itself (at 1,000 levels).
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # one of two classes
    """The tag of a scalar follows from its text, and presets share most of theirs: a fifth of the parsing of many."""

    resolve = staticmethod(lru_cache(4096)(partial(_Base.resolve, _Base)))


class Document(NamedTuple):
    """A parsed mapping, with the file's name for messages and the node tree that knows its lines."""

    data: dict[object, object]
    file: str
    node: yaml.Node

    def line(self, path: Sequence[str | int]) -> int | None:
        """The line of the deepest part of `path` that the document has; None if it has not even the first."""
        node, line = self.node, None
        for part in path:
            match node:
                case yaml.MappingNode():
                    found = [(k, v) for k, v in node.value if k.value == part]
                case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
                    found = [(node.value[part], node.value[part])]
                case _:
                    found = []
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        return line


def read_bytes(path: str, most: int = MOST_FILE_BYTES) -> bytes:
    """The content of a file of at most `most` bytes."""
    pieces, left = [], most
    try:
        with open(path, "rb", buffering=0) as file:
            # In pieces: `read(most)` would map and unmap a buffer of that size, which takes as long as the parsing.
            while left >= 0 and (piece := file.read(_PIECE)):
                pieces.append(piece)
                left -= len(piece)
    except OSError as error:
        raise KvcalcError(f"{escape(path)}: {error.strerror or error}") from None
    if left < 0:
        raise KvcalcError(f"{escape(path)}: expected at most {most:,} bytes")
    return b"".join(pieces)


def parse(content: bytes, file: str) -> Document:
    """Parse one YAML mapping. Raises DocumentError with the line of the first fault."""
    name = escape(file)

    def fail(text: str, line: int | None = None) -> DocumentError:
        return DocumentError([Problem((), text, file=name, line=line)])

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("expected UTF-8 text", content[: error.start].count(b"\n") + 1) from None
    if "\0" in text:
        raise fail("expected text, got binary data", text[: text.index("\0")].count("\n") + 1)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        data = None if node is None else _value(node, loader, {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        if problem == "but found another document":
            problem = "expected one document, got another after `---`"
        raise fail(_printable(problem), mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise fail(_printable(str(error).split("\n", 1)[0])) from None
    # What PyYAML lets through for scalars it cannot build: `!!int ""`, `!!timestamp x`, 5,000 digits, or its own depth.
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError) as error:
        raise fail(f"expected plain YAML values ({type(error).__name__})") from None
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        got = {"NoneType": "nothing", "str": "text", "list": "a list"}.get(type(data).__name__, "a value")
        raise fail(f"expected `key: value` lines, got {got}", 1)
    return Document(data, name, node)


def _value(node: yaml.Node, loader: Any, seen: dict[int, object]) -> object:
    """The plain value of a node: far quicker than PyYAML's constructor, which also knows sets, dates and merges.

    `seen` keeps the values of nodes that aliases lead to again, so that nested aliases do not multiply.
    """
    tag = node.tag
    if isinstance(node, yaml.ScalarNode):
        if tag == "tag:yaml.org,2002:str":
            return node.value
        if tag == "tag:yaml.org,2002:int" and node.value.isdecimal() and node.value[0] != "0":
            return int(node.value)
        return loader.construct_object(node)
    if id(node) in seen:
        return seen[id(node)]
    if tag == "tag:yaml.org,2002:seq" and isinstance(node, yaml.SequenceNode):
        items: list[object] = []
        seen[id(node)] = items
        items.extend(_value(entry, loader, seen) for entry in node.value)
        return items
    if tag == "tag:yaml.org,2002:map" and isinstance(node, yaml.MappingNode):
        made: dict[object, object] = {}
        seen[id(node)] = made
        for key, value in node.value:
            made[_key(key, made, loader)] = _value(value, loader, seen)
        return made
    raise yaml.MarkedYAMLError(problem=f"the tag {tag} is not read", problem_mark=node.start_mark)


def _key(node: yaml.Node, before: dict[object, object], loader: Any) -> object:
    """The key of a mapping, which must be new to it."""
    if node.tag == "tag:yaml.org,2002:merge":  # a preset has `base` instead
        raise yaml.MarkedYAMLError(problem="merge keys (<<) are not read", problem_mark=node.start_mark)
    key = _value(node, loader, {})
    if key in before:
        raise yaml.MarkedYAMLError(
            problem=f"the key '{key}' stands here for the second time", problem_mark=node.start_mark
        )
    return key


def _printable(text: str | None) -> str:
    return escape(text or "not valid YAML")[:200]
