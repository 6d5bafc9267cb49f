"""The one-line language for layers."""

import re

import pytest

from kvcalc.preset import notation
from kvcalc.preset.notation import Names

F: Names = ("full",)
S: Names = ("sliding",)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("full", [F]),
        ("3 full", [F, F, F]),
        ("full, sliding", [F, S]),
        ("2 x (2 sliding, full)", [S, S, F, S, S, F]),
        ("2 x (sliding, full), sliding", [S, F, S, F, S]),
        ("1 x (full)", [F]),
        ("2 x (2 x (sliding, full), full)", [S, F, S, F, F] * 2),
        ("2 full+cross", [("full", "cross")] * 2),
        ("latent+latent", [("latent", "latent")]),
        ("none, full, 2 none", [(), F, (), ()]),
        ("full, shared:full", [F, ("shared:full",)]),
        ("  2   full ,sliding ", [F, F, S]),
        ("2 x(full)", [F, F]),
        ("2\tx\n(full, sliding)", [F, S, F, S]),
        ("x", [("x",)]),
    ],
)
def test_expand(text: str, layers: list[Names]) -> None:
    """Counts repeat, parentheses group, + joins the caches of a layer, none is a layer without; blanks do not matter."""
    assert notation.expand(text) == layers


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a cache's name, or `N x (...)`, got the end"),
        ("3", "expected a cache's name, or `N x (...)`, got the end"),
        ("full,", "expected a cache's name, or `N x (...)`, got the end"),
        ("full,, full", "expected a cache's name, or `N x (...)`, got ,"),
        ("full full", "expected a comma, got 'full'"),
        ("-4 full", "expected counts that are whole numbers above zero, got '-4'"),
        ("+4 full", "expected counts that are whole numbers above zero, got '+4'"),
        ("2 x (4.5 full, sliding)", "expected counts that are whole numbers above zero, got '4.5'"),
        ("1234567890 full", "expected counts that are whole numbers above zero, got '1234567890'"),
        ("full)", "expected a comma, got ')'"),
        ("2 x (full", "expected ')'"),
        ("2 x ()", "expected a cache's name, or `N x (...)`, got )"),
        ("(full)", "expected a cache's name, or `N x (...)`, got ("),
        ("0 full", "expected a count of 1 to 4,096, got 0"),
        ("4097 full", "expected a count of 1 to 4,096, got 4097"),
        ("4096 full, full", "expected at most 4,096 layers"),
        ("65 x (64 full)", "expected at most 4,096 layers"),
        ("full+", "expected names joined by '+', got 'full+'"),
        ("full+none", "expected names joined by '+', got 'full+none'"),
        ("1 x (" * 9 + "full" + ")" * 9, "expected at most 8 levels of parentheses"),
    ],
)
def test_texts_that_are_refused(text: str, reason: str) -> None:
    """What does not parse is refused with the reason, and so are counts beyond any model."""
    with pytest.raises(ValueError, match=rf"^{re.escape(reason)}$"):
        notation.expand(text)


def test_the_most_layers_are_read() -> None:
    """The bound itself is allowed."""
    assert len(notation.expand("64 x (64 full)")) == 4_096


def test_expand_pattern() -> None:
    """A published one-letter string is read by its letters."""
    letters = {"M": "mamba2", "*": "full", "-": "none", "+": "full+cross"}
    assert notation.expand_pattern("M-*+", letters) == [("mamba2",), (), ("full",), ("full", "cross")]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("M?", "no meaning given for the letter '?'"), ("", "expected 1 to 4,096 letters"),
     ("M" * 4_097, "expected 1 to 4,096 letters")],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str, reason: str) -> None:
    """A letter without a meaning, no letter and too many are refused."""
    with pytest.raises(ValueError, match=rf"^{re.escape(reason)}$"):
        notation.expand_pattern(pattern, {"M": "mamba2"})


@pytest.mark.parametrize(
    "text",
    [
        "80 full",
        "full",
        "10 x (5 sliding, full), 2 sliding",
        "12 x (sliding, full)",
        "61 latent+indexer",
        "4 x (4 sliding, full), 3 x (4 shared:sliding, shared:full)",
        "2 window, 20 x (window+csa, window+hca), window+csa",
        "6 x (3 kda, latent), 2 kda, latent",
        "6 full, 2 none, 3 full, none, 30 full, 10 none, full, 18 none, 9 full",
        "full, 4 sliding, 7 x (full, 5 sliding), full",
        "4 x (4 mamba1, full, 3 mamba1)",
    ],
)
def test_fold_keeps_what_people_write(text: str) -> None:
    """The layer lines of published models, as people write them, are the folded form already."""
    assert notation.fold(notation.expand(text)) == text


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("full, full, full", "3 full"),
        ("1 full", "full"),
        ("1 x (full, 2 sliding)", "full, 2 sliding"),
        ("sliding, full, sliding, full, sliding, full", "3 x (sliding, full)"),
        ("2 x (full)", "2 full"),
        ("full, full, sliding, full, full, sliding", "2 x (2 full, sliding)"),
        (
            "3 sliding, full, sliding, full, sliding, full",
            "2 sliding, 3 x (sliding, full)",
        ),  # a block begins inside a run
    ],
)
def test_fold_shortens(text: str, folded: str) -> None:
    """Repeats written out are folded into counts and blocks."""
    assert notation.fold(notation.expand(text)) == folded


@pytest.mark.parametrize("count", [255, 1023, 4095])
def test_very_many_layers_fold_at_once(count: int) -> None:
    """A thousand alternating layers are one block and a rest, found without trying every way."""
    layers = [("full",) if i % 2 == 0 else ("sliding",) for i in range(count)]
    assert notation.fold(layers) == f"{count // 2} x (full, sliding), full"
    assert notation.expand(notation.fold(layers)) == layers
