"""Caches that presets describe in unusual ways, and bases whose layers are replaced."""

from pathlib import Path

import pytest

from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset import notation
from kvcalc.views.models import listing

HEAD = b"name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\n"


def test_an_empty_entry_means_the_defaults() -> None:
    """`caches: {full: }` says nothing about full attention, and takes nothing away: 2 x 2 heads x 64 x 2 B x 2 layers."""
    model = loader.load_text(HEAD + b"layers: 2 full\ncaches: {full: }\n", "x")
    assert measure(ask(model)).bytes_per_token == 2 * 2 * 2 * 64 * 2


def test_cross_caches_of_two_fixed_lengths() -> None:
    """Two encoders of known lengths need no option: (10 + 20) tokens x 2 x 2 heads x 64 x 2 B = 15,360 B."""
    text = HEAD + b"layers: full+a, full+b\ncaches: {a: {kind: cross, tokens: 10}, b: {kind: cross, tokens: 20}}\n"
    size = measure(ask(loader.load_text(text, "x")))
    assert size.fixed_bytes_per_sequence == (10 + 20) * 2 * 2 * 64 * 2


def test_new_layers_drop_the_caches_of_the_base() -> None:
    """Gemma 3 27B with full attention in all 62 layers: 62 x 2 x 16 heads x 128 x 2 B a token, and no window left."""
    model = loader.load_text(b"base: gemma3-27b\nlayers: 62 full\n", "x")
    size = measure(ask(model))
    assert (size.bytes_per_token, size.fixed_bytes_per_sequence) == (62 * 2 * 16 * 128 * 2, 0)


def test_an_unused_cache_of_ones_own_is_still_a_fault() -> None:
    """Only what the base brought may go unused; what the file itself says and does not use is a slip."""
    with pytest.raises(KvcalcError, match=r"caches.spare.*neither does"):
        loader.load_text(b"base: gemma3-27b\nlayers: 62 full\ncaches: {spare: {kind: full}}\n", "x")


def test_layers_are_never_cut() -> None:
    """A text beyond the bound is refused, not read in part."""
    with pytest.raises(ValueError, match="65,536 characters"):
        notation.expand(", ".join(["a" * 40] * 2000))


def test_a_preset_without_a_default_length_is_named_and_the_list_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preset whose size only a request can tell is a warning of the list, not its end."""
    (tmp_path / "ear-1.yaml").write_bytes(HEAD + b"layers: full+cross\ncaches: {cross: {tokens: input}}\n")
    (tmp_path / "bad-1.yaml").write_bytes(HEAD + b"layers: 2 fool\n")
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path))
    found = listing()
    assert "llama3-70b" in [row.preset for row in found.rows]
    bad, ear = sorted(found.warnings, key=lambda warning: warning.startswith("ear-1: "))
    assert ("bad-1.yaml:6: layers: " in bad, ear.startswith("ear-1: --encoder-tokens: ")) == (True, True)


@pytest.mark.parametrize(
    "where", ["heads: {}", "caches: {{mamba2: {{heads: {}, head_dim: 64, groups: 1, state: 128, conv: 4}}}}"]
)
def test_a_null_is_no_number(where: str) -> None:
    """A key without a value is a key that is missing, at the top and under a cache."""
    layers = b"layers: 2 full\n" if where.startswith("heads") else b"layers: 2 mamba2\n"
    text = HEAD.replace(b"heads: 4\n", b"") if where.startswith("heads") else HEAD
    with pytest.raises(KvcalcError, match=r"heads: expected .*, got nothing"):
        loader.load_text(text + layers + where.format("null").encode() + b"\n", "x")


def test_a_null_under_a_cache_leaves_the_top_in_force() -> None:
    """`kv_heads: null` under a cache says nothing, so the number at the top counts: 2 x 2 x 2 heads x 64 x 2 B."""
    model = loader.load_text(HEAD + b"layers: 2 full\ncaches: {full: {kv_heads: null}}\n", "x")
    assert measure(ask(model)).bytes_per_token == 2 * 2 * 2 * 64 * 2


@pytest.mark.parametrize("kv_heads", ["[]", "[1, 2]"])
@pytest.mark.parametrize("layers", ["layers: 2 full", "layers: 2 a"])
def test_a_draft_layer_takes_no_number_from_a_list(layers: str, kv_heads: str) -> None:
    """A list has one number for each layer of the model, so that none is meant for a draft layer: it is refused."""
    text = HEAD + f"{layers}\ndraft: a\ncaches: {{a: {{kind: full, kv_heads: {kv_heads}}}}}\n".encode()
    with pytest.raises(KvcalcError, match=r"(draft: expected a cache without lists|expected [02] entries)"):
        loader.load_text(text, "x")
