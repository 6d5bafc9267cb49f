"""A YAML document read as if it were hostile: bounded, without execution, repeated keys refused, lines remembered."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import yaml

from kvcalc.errors import DocumentError, KvcalcError, Problem, escape, shown

__all__ = ["MOST_FILE_BYTES", "Document", "parse", "parse_all", "read_bytes"]

MOST_FILE_BYTES = 1 << 20  # the longest preset that we ship has some 2 KiB
_PIECE = 1 << 16
_MERGE = "tag:yaml.org,2002:merge"

# YAML 1.1 has spellings of numbers that people mean otherwise: 010 is 8, 1:20 is 80, 6_4 is 64, 0x10 is 16.
_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "tag:yaml.org,2002:float": re.compile(r"[^_:]+"),
}

# libyaml where the wheel brings it: fifteen times faster, and it bounds nesting by itself (at 1,000 levels).
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Marks of which one stands with each value: PyYAML takes half a kilobyte for every value, however short it is. A chart
# of 1 MB, rendered, has some 60,000.
_MARKS = ("\n", ",", "[", "{", "- ", ": ")
_MOST_VALUES = 250_000
_MOST_MERGED = 100_000  # keys that come into mappings by `<<`

Built = TypeVar("Built")


class _Loader(_Base):  # type: ignore[misc]  # one of two classes
    """The tag of a scalar follows from its text, and presets share most of theirs: a fifth of the parsing of many."""

    resolve = staticmethod(lru_cache(4096)(partial(_Base.resolve, _Base)))
    merged = 0


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
                    found = _entries(node).get(part)
                case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
                    found = node.value[part], node.value[part]
                case _:
                    found = None
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line


@lru_cache(16)  # a document with very many faults asks for very many of its lines
def _entries(node: yaml.MappingNode) -> dict[object, tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping by the text of the keys."""
    return {key.value: (key, value) for key, value in reversed(node.value) if isinstance(key, yaml.ScalarNode)}


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
        raise KvcalcError(
            f"{escape(path)}: expected at most {most:,} bytes", "give the preset or the config.json of a model"
        )
    return b"".join(pieces)


def parse(content: bytes, file: str) -> Document:
    """Parse one YAML mapping. Raises DocumentError with the line of the first fault."""

    def one(loader: Any) -> tuple[object, Any]:
        node = loader.get_single_node()
        return None if node is None else _value(node, loader, {}), node

    data, node = _read(content, file, one)
    if not isinstance(data, dict):
        got = {"NoneType": "nothing", "str": "text", "list": "a list"}.get(type(data).__name__, "a value")
        raise _fault(f"expected `key: value` lines, got {got}", file, 1)
    return Document(data, escape(file), node)


def parse_all(content: bytes, file: str) -> list[object]:
    """The value of every document of a stream, whatever it is; merge keys are followed. Raises DocumentError."""

    def every(loader: Any) -> list[object]:
        values = []
        while loader.check_node():
            values.append(_value(loader.get_node(), loader, {}, merging=True))
        return values

    return _read(content, file, every)


def _fault(text: str, file: str, line: int | None = None) -> DocumentError:
    return DocumentError([Problem((), text, file=escape(file), line=line)])


def _read(content: bytes, file: str, build: Callable[[Any], Built]) -> Built:
    """What `build` makes of a loader. Every fault of the text becomes a DocumentError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _fault("expected UTF-8 text", file, content[: error.start].count(b"\n") + 1) from None
    if "\0" in text:
        raise _fault("expected text, got binary data", file, text[: text.index("\0")].count("\n") + 1)
    if sum(map(text.count, _MARKS)) > _MOST_VALUES:
        raise _fault(f"expected at most {_MOST_VALUES:,} values", file)
    loader = _Loader(text)
    try:
        return build(loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        if problem == "but found another document":
            problem = "expected one document, got another after `---`"
        raise _fault(_printable(problem), file, mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise _fault(_printable(str(error).split("\n", 1)[0]), file) from None
    # What PyYAML lets through for scalars it cannot build: `!!int ""`, `!!timestamp x`, 5,000 digits, or its own depth.
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError) as error:
        raise _fault(f"expected plain YAML values ({type(error).__name__})", file) from None
    finally:
        loader.dispose()


def _value(node: yaml.Node, loader: Any, seen: dict[int, object], key: str = "", *, merging: bool = False) -> object:
    """The plain value of a node: far quicker than PyYAML's constructor, which also knows sets, dates and merges.

    `seen` keeps the values of nodes that aliases lead to again, so that nested aliases do not multiply. `key` is what
    the value stands under, for messages.
    """
    tag = node.tag
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, loader, key, merging=merging)
    if id(node) in seen:
        return seen[id(node)]
    if tag == "tag:yaml.org,2002:seq" and isinstance(node, yaml.SequenceNode):
        items: list[object] = []
        seen[id(node)] = items
        items.extend(_value(entry, loader, seen, key, merging=merging) for entry in node.value)
        return items
    if tag == "tag:yaml.org,2002:map" and isinstance(node, yaml.MappingNode):
        made: dict[object, object] = {}
        seen[id(node)] = made
        merged: dict[object, object] = {}
        for name, value in node.value:
            if merging and name.tag == _MERGE:
                merged = _merged(value, loader, seen)
            else:
                found = _key(name, made, loader)
                made[found] = _value(value, loader, seen, str(found), merging=merging)
        made.update({name: value for name, value in merged.items() if name not in made})
        return made
    raise yaml.MarkedYAMLError(problem=f"the tag {tag} is not read", problem_mark=node.start_mark)


def _scalar(node: yaml.ScalarNode, loader: Any, key: str, *, merging: bool) -> object:
    tag, text = node.tag, node.value
    if tag == "tag:yaml.org,2002:str":
        return text
    if tag == "tag:yaml.org,2002:int" and text.isdecimal() and text[0] != "0":
        return int(text)
    if tag in _NUMBERS and not _NUMBERS[tag].fullmatch(text):
        if merging:  # other people's files mean text by it: the port 8080:80 is no number
            return text
        problem = f"{key}: " if key else ""
        problem += f"expected a number in plain decimal digits, or quotes around it where it is text, got {shown(text)}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return loader.construct_object(node)


def _merged(node: yaml.Node, loader: Any, seen: dict[int, object]) -> dict[object, object]:
    """What `<<` brings into a mapping: another, or several of which the first counts most."""
    others = _value(node, loader, seen, merging=True)
    merged: dict[object, object] = {}
    for other in others if isinstance(others, list) else [others]:
        if not isinstance(other, dict):
            raise yaml.MarkedYAMLError(problem="expected a mapping behind <<", problem_mark=node.start_mark)
        loader.merged += len(other)
        if loader.merged > _MOST_MERGED:
            raise yaml.MarkedYAMLError(problem="too much is merged by <<", problem_mark=node.start_mark)
        for name, value in other.items():
            merged.setdefault(name, value)
    return merged


def _key(node: yaml.Node, before: dict[object, object], loader: Any) -> object:
    """The key of a mapping, which must be new to it."""
    if node.tag == _MERGE:  # a preset has `base` instead
        raise yaml.MarkedYAMLError(problem="merge keys (<<) are not read", problem_mark=node.start_mark)
    key = _value(node, loader, {})
    if key in before:
        raise yaml.MarkedYAMLError(
            problem=f"the key '{key}' stands here for the second time", problem_mark=node.start_mark
        )
    return key


def _printable(text: str | None) -> str:
    return escape(text or "not valid YAML")[:200]
