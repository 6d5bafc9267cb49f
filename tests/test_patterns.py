"""Every regular expression is linear: a hostile text of any length takes time in proportion to its length.

A pattern that tries each of n places n times takes minutes for a text of a megabyte. Each pattern of the package meets
texts made from its own structure, in the way in which the package uses it.
"""

import ast
import re
import signal
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvcalc
from kvcalc.engines import log_fields
from kvcalc.launch.registry import log_forms

PACKAGE = Path(kvcalc.__file__).parent
LENGTH = 60_000  # a quadratic pattern takes seconds for it, a linear one some milliseconds
MOST_SECONDS = 0.5
METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")

# Patterns that meet short texts alone, with the length to which the code around them cuts or refuses longer ones.
SHORT = {
    r"(?:For[A-Z]\w*+|LMHeadModel|Model)$": 200,  # sources/config/naming.py: _LONGEST_NAME
    r"models--([\w.-]+?)--([\w.-]+)": 300,  # logs/naming.py: _LONGEST
    r"(?:-\d{5}-of-\d{5})?\.gguf$": 300,  # the same
    r"(-\d{5}-of-\d{5})?\.gguf$": 255,  # the name of a file
    r".*,\s*|[0-9]+[x*]": 4096,  # cli/options.py: a word that its user is typing, of a shell's line
}


class Used(NamedTuple):
    """A pattern, how it is used, and where it stands."""

    pattern: str | bytes
    flags: int
    method: str
    place: str


def flags_of(call: ast.Call, at: int) -> int:
    """The flags of a call, by position or by name."""
    given = [*call.args[at:], *(keyword.value for keyword in call.keywords if keyword.arg == "flags")]
    names = [node.attr for each in given for node in ast.walk(each) if isinstance(node, ast.Attribute)]
    return sum(int(getattr(re, name)) for name in names if name.isupper())


def constant(node: ast.expr) -> str | bytes | None:
    """A pattern that stands as it is in the source."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) else None


def used_in(path: Path) -> Iterator[Used]:
    """The patterns of a module: those compiled under a name, with the methods that are called, and those used at once."""
    place = str(path.relative_to(PACKAGE))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [
        node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    methods: dict[str, set[str]] = {}
    for node in attributes:
        if node.attr in METHODS:
            methods.setdefault(ast.unparse(node.value), set()).add(node.attr)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=method)) if method in METHODS:
                pattern = constant(node.args[0])
                if pattern is not None:
                    yield Used(pattern, flags_of(node, 2), method, place)
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call() as call) if (
                ast.unparse(call.func) == "re.compile"
            ):
                yield from compiled(call, name, methods.get(name, {"fullmatch", "search"}), place)
            case ast.Dict(values=values):
                calls = [
                    each for each in values if isinstance(each, ast.Call) and ast.unparse(each.func) == "re.compile"
                ]
                yield from (used for each in calls for used in compiled(each, "", {"search"}, place))


def compiled(call: ast.Call, name: str, methods: set[str], place: str) -> Iterator[Used]:
    """A pattern that is compiled under a name; where it is made of parts, as it is in the module."""
    pattern, flags = constant(call.args[0]), flags_of(call, 1)
    if pattern is None:
        made = getattr(import_module(f"kvcalc.{place.removesuffix('.py').replace('/', '.')}"), name, None)
        if made is None:  # within a function, of words that its callers give: VALUES
            return
        pattern, flags = made.pattern, made.flags
    for method in sorted(methods):
        yield Used(pattern, flags, method, place)


VALUES = Used(rf"(?<![\w.-])(model|tp){log_fields._VALUE}", 0, "finditer", "engines/log_fields.py")  # of `key_values`
LOGS = [
    Used(line.pattern.pattern, line.pattern.flags, "search", f"{each.engine.name}: {line.mark}")
    for each in log_forms(None)
    for line in each.form.lines
]
USED = sorted({*(used for path in PACKAGE.rglob("*.py") for used in used_in(path)), *LOGS, VALUES}, key=str)


class Sampler:
    """Texts that a parsed pattern takes, and for each repetition without an end what comes before it and its body.

    `choice` is which of several characters or branches is taken, `least` how often at least what may be left out.
    """

    def __init__(self, choice: int, least: int) -> None:
        self.choice, self.least = choice, least
        self.repeated: list[tuple[str, str]] = []

    def text(self, parsed: Any, before: str = "") -> str:
        """One text for a sequence."""
        made = ""
        for op, argument in parsed:
            made += self.one(str(op), argument, before + made)
        return made

    def one(self, op: str, argument: Any, before: str) -> str:
        match op:
            case "LITERAL":
                return chr(argument)
            case "NOT_LITERAL":
                return "b" if argument == ord("a") else "a"
            case "ANY":
                return "a"
            case "IN":
                return self.member(argument)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, inner = argument
                body = self.text(inner, before)
                if int(high) > 100 and body:
                    self.repeated.append((before, body))
                return body * max(int(low), self.least)
            case "SUBPATTERN":
                return self.text(argument[3], before)
            case "ATOMIC_GROUP":
                return self.text(argument, before)
            case "BRANCH":
                branches = [self.text(branch, before) for branch in argument[1]]  # all of them repeat something
                return branches[self.choice % len(branches)]
            case _:
                return ""

    def member(self, items: Any) -> str:
        """A character of a set; of a negated one, the first of some that is not in it."""
        samples = {"CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a", "CATEGORY_SPACE": " "}
        found = []
        for op, argument in items:
            match str(op):
                case "LITERAL":
                    found.append(chr(argument))
                case "RANGE":
                    found.append(chr(argument[0]))
                case "CATEGORY":
                    found.append(samples.get(str(argument), "-"))
        negated = bool(items) and str(items[0][0]) == "NEGATE"
        return next(c for c in 'a 1=-(\t"' if c not in found) if negated else found[self.choice % len(found)]


def hostile(used: Used, length: int) -> Iterator[str]:
    """Texts on which a pattern of that structure could lose its time."""
    from re import _parser  # type: ignore[attr-defined]  # the only parser of them that there is

    units = {("", unit) for unit in (" ", "1", "a", "-", "\n")}
    for choice, least in ((0, 1), (0, 0), (1, 0), (2, 1)):
        sampler = Sampler(choice, least)
        whole = sampler.text(_parser.parse(used.pattern, used.flags & ~re.DEBUG))
        units |= {("", whole), ("", whole[:-1])}
        for before, body in sampler.repeated:
            units |= {(before, body), ("", body), (whole, body)}
    for before, body in sorted(units):
        for end in ("", "\n!"):
            if body:
                yield before + body * (length // len(body)) + end


class TooLongError(Exception):
    """A text took more than its time."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="an alarm ends what takes too long")
@pytest.mark.parametrize("used", USED, ids=lambda used: f"{used.place}: {used.pattern!r:.40} {used.method}")
def test_a_pattern_is_linear(used: Used) -> None:
    """No text of 60,000 characters takes half a second, a hundred times what it should take."""

    def stop(*_: object) -> None:
        raise TooLongError

    length = SHORT.get(str(used.pattern), LENGTH)
    compiled = re.compile(used.pattern, used.flags)
    before = signal.signal(signal.SIGPROF, stop)
    try:
        for text in hostile(used, length):
            subject: Any = text.encode("latin-1", "replace") if isinstance(used.pattern, bytes) else text
            signal.setitimer(signal.ITIMER_PROF, 4 * MOST_SECONDS)
            begun = time.process_time()
            try:
                if used.method == "sub":
                    compiled.sub(subject[:0], subject)
                else:
                    found = getattr(compiled, used.method)(subject)
                    if used.method == "finditer":
                        list(found)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            assert time.process_time() - begun < MOST_SECONDS, (text[:40], text[-5:])
    except TooLongError:
        pytest.fail(f"{text[:40]!r} ... {text[-5:]!r} takes seconds")
    finally:
        signal.signal(signal.SIGPROF, before)


def test_the_quadratic_ones_would_be_found() -> None:
    """The same texts find what this test is for: two repetitions that can share what they take, and a search from each
    place. As `-?[0-9]*[.]?[0-9]+` once read counts, and `\\\\s*` began each word of `layers`.
    """
    for pattern, method in ((r"[0-9]*[.]?[0-9]+", "fullmatch"), (r"\s*([(),]|[^\s(),]+)", "findall")):
        with pytest.raises((pytest.fail.Exception, AssertionError)):
            test_a_pattern_is_linear(Used(pattern, 0, method, "here"))
