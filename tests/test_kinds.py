"""A kind of attention, of cache or of overhead that is new is named by the type checker, or refused: nothing is else.

Mypy sees a `match` that lacks a case only if it ends in `assert_never`, and an engine refuses what it does not know
only if it ends in `raise`. What compares a word with some of the words instead takes each new one for the rest.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "kvcalc"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "presets" not in path.parts)

CACHES = {"Attention", "Latent", "Indexer", "Compressed", "Recurrent", "Shared"}
WORDS = {"pattern", "kind", "grows"}  # attributes whose values are the words of a Literal


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def matches(function: ast.FunctionDef) -> Iterator[ast.Match]:
    """Each `match` of a function over kinds of caches, or over the words of a Literal of ours."""
    for node in ast.walk(function):
        if isinstance(node, ast.Match):
            subject = node.subject
            classes = {
                part.cls.id
                for case in node.cases
                for part in ast.walk(case.pattern)
                if isinstance(part, ast.MatchClass) and isinstance(part.cls, ast.Name)
            }
            if classes & CACHES or (isinstance(subject, ast.Attribute) and subject.attr in WORDS):
                yield node


def refuses(match: ast.Match) -> bool:
    """The last case takes everything, and raises or is unreachable to the type checker."""
    last = match.cases[-1]
    if not (isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None):
        return False
    first = last.body[0]
    if isinstance(first, ast.Raise):
        return True
    call = first.value if isinstance(first, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "assert_never"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_match_over_kinds_ends_in_a_refusal(path: Path) -> None:
    """Nothing has a last case that stands for all kinds that somebody may add."""
    open_ended = [
        f"{function.name}, line {match.lineno}"
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        for match in matches(function)
        if not refuses(match)
    ]
    assert open_ended == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_pattern_is_compared_with_a_word(path: Path) -> None:
    """`cache.pattern in ("sliding", "chunked")` would take a new pattern for full attention: `kept` is asked."""
    compared = [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Attribute) and side.attr == "pattern"
        if any(isinstance(part, ast.Constant) for other in (node.left, *node.comparators) for part in ast.walk(other))
    ]
    assert compared == []
