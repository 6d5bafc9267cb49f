"""Variables in text, as shells write them: those with a value here are replaced, all others stay as they stand."""

import re
from collections.abc import Container, Mapping
from typing import NamedTuple

from kvcalc.commands.budget import Budget

__all__ = ["Open", "expand", "left_open"]

# $NAME, ${NAME}, ${NAME:-default} and its kin, ${NAME[@]}; %NAME% of Windows, $(NAME) of Kubernetes; $@ and $*,
# the arguments of a script.
_VARIABLE = re.compile(
    r"""\$\{(\w+)(?:\[[@*]\])?(?:(:?[-=+?])((?:[^{}]|\$?\{[^{}]*\})*+))?\}
      |\$(\w+)|%(\w+)%|\$\(([A-Z][A-Z0-9_]*)\)|\$(?:[@*]|\{[@*]\})""",
    re.VERBOSE | re.ASCII,
)
_OPEN = re.compile(r"\$(?:(\w+)|\{(\w*)([^}]*)\}?|\(([A-Z][A-Z0-9_]*)\)|\([^)]*\)*)|`[^`]*`?|%(\w+)%", re.ASCII)
_SEVERAL = "?several"


class Open(NamedTuple):
    """What has no value here: as it is written, its name if it is a variable, and whether it has several instead."""

    text: str
    name: str
    several: bool


def expand(text: str, values: Mapping[str, str], budget: Budget, unsure: Container[str] = ()) -> str:
    """`text` with `values` in place of variables, and nothing in place of a script's own arguments.

    `unsure` are names that may have another value, or none: no default is taken for theirs. Raises OverBudgetError
    where the values come to more than `budget` has.
    """
    if "$" not in text and "%" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        made = _value(match, values, budget, unsure)
        budget.spend(len(made))
        return made

    return _VARIABLE.sub(value, text)


def _value(match: re.Match[str], values: Mapping[str, str], budget: Budget, unsure: Container[str]) -> str:
    name, operator, other = match[1] or match[4] or match[5] or match[6], match[2] or "", match[3] or ""
    if name is None:
        return ""
    found = values.get(name)
    if name in unsure and (operator or found is None):
        return f"${{{name}{_SEVERAL}}}"
    there = found is not None and (found != "" or operator[:1] != ":")
    match operator[-1:]:
        case "" | "?":
            return match[0] if found is None else found
        case "+":
            return expand(other, values, budget, unsure).replace('"', "") if there else ""
        case _:
            return found or "" if there else expand(other, values, budget, unsure).replace('"', "")


def left_open(text: str) -> Open | None:
    """The first variable or command in `text` whose value is not known here."""
    match = _OPEN.search(text) if any(mark in text for mark in "$%`") else None
    if match is None:
        return None
    name = match[1] or match[2] or match[4] or match[5] or ""
    several = match[3] == _SEVERAL
    return Open(f"${name}" if several else match[0], name, several)
