"""What is folded unfolds to the same layers."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.preset import notation
from kvcalc.preset.notation import Names

WORDS = st.sampled_from(["full", "sliding", "shared:full", "x", "a.b-c_1"]) | st.from_regex(
    r"[a-z][a-z0-9_.:-]{0,8}", fullmatch=True
).filter(lambda word: word != "none")
LAYER = st.lists(WORDS, max_size=3).map(tuple)
FEW_LAYERS = st.lists(st.sampled_from([(), ("full",), ("sliding",), ("full", "cross")]), min_size=1, max_size=60)


@given(st.lists(LAYER, min_size=1, max_size=40) | FEW_LAYERS)
def test_fold_and_expand(layers: list[Names]) -> None:
    """Folding loses nothing, whatever the layers."""
    assert notation.expand(notation.fold(layers)) == layers


@given(FEW_LAYERS, st.integers(1, 20), FEW_LAYERS)
def test_repeats_fold_and_expand(block: list[Names], repeats: int, rest: list[Names]) -> None:
    """Folding loses nothing where blocks repeat."""
    layers = block[:6] * repeats + rest
    assert notation.expand(notation.fold(layers)) == layers


@given(FEW_LAYERS)
def test_folding_is_never_longer_than_a_list(layers: list[Names]) -> None:
    """The folded text is no longer than the names one after another."""
    assert len(notation.fold(layers)) <= len(", ".join("+".join(names) or "none" for names in layers))


@given(FEW_LAYERS)
def test_folding_twice_changes_nothing(layers: list[Names]) -> None:
    """The folded form is one form."""
    folded = notation.fold(layers)
    assert notation.fold(notation.expand(folded)) == folded
