"""A config.json read as if it were hostile: bounded in size, depth and digits, repeated keys refused."""

import json
import math
from collections.abc import Mapping

from kvcalc.errors import KvcalcError, Problem, escape, shown
from kvcalc.preset.yaml_file import read_bytes
from kvcalc.sources.faults import disguise

__all__ = ["MOST_JSON_BYTES", "parse_object", "read_object"]

# A published MiniMax-M3 config of 3 MB lists every module left out of quantisation; ten times that is surely no config.
MOST_JSON_BYTES = 32 << 20
_NO_CONFIG = "give the config.json that was published with the model"
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

    def fail(text: str, hint: str | None, *path: str, line: int | None = None) -> KvcalcError:
        return KvcalcError(str(Problem(path, text, file=escape(file), line=line)), hint)

    if len(content) > MOST_JSON_BYTES:
        raise KvcalcError(f"{escape(file)}: expected at most {MOST_JSON_BYTES:,} bytes", _NO_CONFIG)
    other = disguise(content)
    if other is not None:
        raise fail(f"expected JSON, got {other[0]}", other[1])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise fail("expected UTF-8 text", "save it as UTF-8, or fetch it again", line=line) from None
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_float)
    except _RepeatedKeyError as error:
        raise fail("expected each key once, got it twice in one object", "remove one of the two", error.key) from None
    except json.JSONDecodeError as error:
        hint = "correct that line, or fetch the file again"
        raise fail(f"expected JSON, got what is none: {error.msg}", hint, line=error.lineno) from None
    except RecursionError:
        raise fail("expected fewer levels of nesting", _NO_CONFIG) from None
    except ValueError as error:  # our own, from the numbers
        raise fail(str(error), _NO_CONFIG) from None
    if not isinstance(data, dict):
        got = "a number" if isinstance(data, float) and not math.isfinite(data) else shown(data)
        raise fail(f"expected a JSON object, got {got}", _NO_CONFIG)
    return data


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
