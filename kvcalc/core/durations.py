"""Durations and percentiles as people write them: `500ms`, `2s`, `1.5h`; `p99`, `p99.9`."""

import re

from kvcalc.errors import KvcalcError, shown

__all__ = ["format_seconds", "parse_duration", "parse_percentile"]

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"


def parse_duration(text: str, what: str) -> float:
    """Seconds above zero. A number without a unit is refused with both readings; `what` names the option in errors."""
    word = text.strip().lower()
    match = re.fullmatch(rf"{_NUMBER} ?(us|ms|s|m|h|d)", word, re.ASCII)
    if match is not None and float(match[1]) > 0:
        return float(match[1]) * _SECONDS[match[2]]
    hint = f"{word}ms or {word}s" if re.fullmatch(_NUMBER, word, re.ASCII) else "such as 500ms, 2s, 1m or 1.5h"
    raise KvcalcError(f"{what}: expected a duration with its unit, got {shown(text)}", hint)


def parse_percentile(text: str, what: str) -> float:
    """`p99.9` or `99.9`, between 0 and 100."""
    match = re.fullmatch(rf"p?{_NUMBER}", text.strip().lower(), re.ASCII)
    value = float(match[1]) if match is not None else 0.0
    if not 0 < value < 100:
        raise KvcalcError(f"{what}: expected a percentile above 0 and below 100, such as p95, got {shown(text)}")
    return value


def format_seconds(seconds: float) -> str:
    """Three digits in the unit in which they read well: `9.8 ms`, `1.25 s`."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
