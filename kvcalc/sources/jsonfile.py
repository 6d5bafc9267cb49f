"""A config.json read as if it were hostile: bounded in size, depth and digits, repeated keys refused."""

import json
import math
from collections.abc import Mapping

from kvcalc.errors import KvcalcError, Problem, escape, shown
from kvcalc.preset.yaml_file import read_bytes
from kvcalc.sources.faults import disguise

__all__ = ["MOST_JSON_BYTES", "parse_object", "read_object", "too_many_values"]

# A published MiniMax-M3 config of 3 MB lists every module left out of quantisation; ten times that is surely no config.
MOST_JSON_BYTES = 32 << 20
_NO_CONFIG = "give the config.json that was published with the model"
# What a text takes in memory beside itself: small values take many times their own length. Every list, mapping, entry
# and value costs at most so many bytes (CPython, 64 bits; half of the quotes begin a text), and all of them may come to
# eight times the text, so that with the text itself it is ten; a small text may have any values.
_COSTS = {"]": 100, "}": 200, ":": 100, ",": 40, '"': 30}
_MOST_TIMES = 8
_ANY_VALUES = 32 << 20
_MOST_DIGITS = 1000  # Python refuses 4,300, and multiplies far fewer slowly; 2^40 has 13


class _RepeatedKeyError(ValueError):
    """One key twice in an object: whichever value is meant, half of the readers take the other one."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def read_object(path: str) -> Mapping[str, object]:
    """The JSON object in the file `path`. Raises KvcalcError with one line that names the file."""
    return parse_object(read_bytes(path, MOST_JSON_BYTES), path)


def parse_object(content: bytes, file: str) -> Mapping[str, object]:
    """The JSON object that `content` holds. `file` names it in messages.

    Bare `Infinity` and `NaN` are floats: published Nemotron-H configs have `time_step_limit: [0.0, Infinity]`.
    """
    text = _decoded(content, file)
    del content  # two copies of a text are more than needed
    if too_many_values(text):
        raise _fail(file, "expected fewer small values", _NO_CONFIG)
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_float)
    except _RepeatedKeyError as error:
        raise _fail(
            file, "expected each key once, got it twice in one object", "remove one of the two", error.key
        ) from None
    except json.JSONDecodeError as error:
        hint = "correct that line, or fetch the file again"
        raise _fail(file, f"expected JSON, got what is none: {error.msg}", hint, line=error.lineno) from None
    except RecursionError:
        raise _fail(file, "expected fewer levels of nesting", _NO_CONFIG) from None
    except ValueError as error:  # our own, from the numbers
        raise _fail(file, str(error), _NO_CONFIG) from None
    if not isinstance(data, dict):
        got = "a number" if isinstance(data, float) and not math.isfinite(data) else shown(data)
        raise _fail(file, f"expected a JSON object, got {got}", _NO_CONFIG)
    return data


def _decoded(content: bytes, file: str) -> str:
    if len(content) > MOST_JSON_BYTES:
        raise KvcalcError(f"{escape(file)}: expected at most {MOST_JSON_BYTES:,} bytes", _NO_CONFIG)
    other = disguise(content)
    if other is not None:
        raise _fail(file, f"expected JSON, got {other[0]}", other[1])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _fail(file, "expected UTF-8 text", "save it as UTF-8, or fetch it again", line=line) from None


def _fail(file: str, text: str, hint: str | None, *path: str, line: int | None = None) -> KvcalcError:
    return KvcalcError(str(Problem(path, text, file=escape(file), line=line)), hint)


def too_many_values(text: str) -> bool:
    """Whether the values of a JSON text would take far more memory than itself. Told without reading it."""
    return sum(text.count(mark) * cost for mark, cost in _COSTS.items()) > _MOST_TIMES * len(text) + _ANY_VALUES


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return made


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"expected numbers of at most {_MOST_DIGITS:,} digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"expected numbers of at most {_MOST_DIGITS:,} digits")
    return float(digits)
