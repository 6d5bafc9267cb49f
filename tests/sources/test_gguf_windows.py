"""GGUF files with windows, shared layers and heads of their own in each layer."""

import pytest

from .gguf_models import HEADS, WINDOW, model_of, preset, refused


@pytest.mark.parametrize(
    ("arch", "blocks", "keys", "layers", "caches"),
    [
        ("gemma2", 4, {}, "2 x (sliding, full)", {"sliding": {"window": 4096}}),
        ("gemma3", 8, {}, "8 full", None),
        ("gemma3", 8, WINDOW, "5 sliding, full, 2 sliding", {"sliding": {"window": 1024}}),
        ("gemma3", 4, {**WINDOW, "attention.sliding_window_pattern": 2}, "2 x (sliding, full)", {"sliding": {"window": 1024}}),
        ("gemma3", 2, {**WINDOW, "attention.sliding_window_pattern": 0}, "2 sliding", {"sliding": {"window": 1024}}),
        ("gemma3", 2, {**WINDOW, "attention.sliding_window_pattern": 1}, "2 full", None),
        ("gemma3", 3, {**WINDOW, "attention.sliding_window_pattern": [0, 1, 1]}, "full, 2 sliding", {"sliding": {"window": 1024}}),
        ("gpt-oss", 4, WINDOW, "2 x (sliding, full)", {"sliding": {"window": 1024}}),
        ("cohere2", 5, WINDOW, "3 sliding, full, sliding", {"sliding": {"window": 1024}}),
        ("cohere2moe", 5, WINDOW, "full, 3 sliding, full", {"sliding": {"window": 1024}}),
        ("muse-glimmer", 4, WINDOW, "3 sliding, full", {"sliding": {"window": 1024}}),
        ("olmo2", 4, {}, "4 full", None),
        ("olmo2", 4, WINDOW, "3 sliding, full", {"sliding": {"window": 1024}}),
        ("afmoe", 4, WINDOW, "3 sliding, full", {"sliding": {"window": 1024}}),
        ("mellum", 4, {}, "4 full", None),
        ("laguna", 4, {}, "4 full", None),
        ("laguna", 4, WINDOW, "full, 3 sliding", {"sliding": {"window": 1024}}),
        ("smallthinker", 4, {}, "4 full", None),
        ("smallthinker", 4, {"attention.sliding_window": 4096}, "full, 3 sliding", {"sliding": {"window": 4096}}),
        ("exaone4", 30, {}, "30 full", None),
        ("exaone4", 64, {}, "16 x (3 sliding, full)", {"sliding": {"window": 4096}}),
        ("exaone-moe", 4, {}, "3 sliding, full", {"sliding": {"window": 128}}),
        ("plamo3", 9, WINDOW, "7 sliding, full, sliding", {"sliding": {"window": 1024}}),
        ("llama4", 5, {}, "3 chunked, full, chunked", {"chunked": {"chunk": 8192}}),
        ("llama4", 4, {"attention.sliding_window": 0}, "4 full", None),
        ("llama", 3, {}, "3 full", None),
        ("llama", 3, {"attention.sliding_window": 0}, "3 full", None),
        ("qwen2", 3, {"attention.sliding_window": 0}, "3 full", None),
        ("mimo2", 3, {**WINDOW, "attention.sliding_window_pattern": [0, 1, 1]}, "full, 2 sliding", {"sliding": {"window": 1024}}),
        ("step35", 2, {**WINDOW, "attention.sliding_window_pattern": [False, True]}, "full, sliding", {"sliding": {"window": 1024}}),
        ("spark2_5", 1, {**WINDOW, "attention.sliding_window_pattern": [1]}, "sliding", {"sliding": {"window": 1024}}),
        ("maple", 1, {**WINDOW, "attention.sliding_window_pattern": [1]}, "sliding", {"sliding": {"window": 1024}}),
        ("granite_swa", 1, {**WINDOW, "attention.sliding_window_pattern": [1]}, "sliding", {"sliding": {"window": 1024}}),
    ],
)  # fmt: skip
def test_windows_and_their_patterns(arch, blocks, keys, layers, caches):
    """Each windowed architecture slides where its file says, or where llama.cpp does without a word in the file."""
    data = preset(arch, blocks, HEADS, keys)
    assert (data["layers"], data.get("caches")) == (layers, caches)


@pytest.mark.parametrize(
    ("arch", "keys", "note"),
    [
        ("llama", WINDOW, "All layers slide over 1,024 tokens, which llama.cpp ignores"),
        ("phi3", {"attention.sliding_window": 262144}, "All layers slide over 262,144 tokens"),
        ("smallthinker", WINDOW, "llama.cpp takes 4,096 tokens for the window, whatever the file says"),
        ("llama4", WINDOW, "llama.cpp takes 8,192 tokens for the window, whatever the file says"),
        ("exaone4", WINDOW, "llama.cpp slides only in EXAONE 4 models of 64 layers"),
    ],
)
def test_a_window_that_llama_cpp_does_not_take_is_noted(arch, keys, note):
    """The model's window is written though llama.cpp ignores or replaces it, and the note says so."""
    data = preset(arch, 4, HEADS, keys)
    assert note in data["note"]
    spans = {cache.span for cache in model_of(data).caches() if cache.pattern != "full"}
    assert spans == {keys["attention.sliding_window"]}


def test_widths_of_sliding_layers():
    """Sliding layers have widths of their own where the file gives them (Gemma 4)."""
    data = preset("gemma4", 6, HEADS, WINDOW, {
        "attention.head_count_kv": [2, 2, 1, 2, 2, 1], "attention.key_length": 512, "attention.value_length": 512,
        "attention.key_length_swa": 256, "attention.value_length_swa": 256,
        "attention.sliding_window_pattern": [True, True, False] * 2, "attention.shared_kv_layers": 2,
    })  # fmt: skip
    assert (data["heads"], data["kv_heads"], data["head_dim"]) == (8, 2, 256)
    assert data["layers"] == "2 sliding, full, sliding, shared:sliding, shared:full"
    assert data["caches"] == {"sliding": {"window": 1024}, "full": {"kv_heads": 1, "head_dim": 512}}


def test_shared_layers():
    """Gemma 3n shares from layer 20 on, unless the file says otherwise; a kind that nobody keeps cannot be shared."""
    assert (
        preset("gemma3n", 30, HEADS, WINDOW)["layers"] == "4 x (4 sliding, full), 2 x (4 shared:sliding, shared:full)"
    )
    data = preset("gemma3n", 10, HEADS, WINDOW, {"attention.shared_kv_layers": 5})
    assert data["layers"] == "4 sliding, full, 4 shared:sliding, shared:full"
    assert "llama.cpp caches the first 20 layers" in data["note"]
    assert preset("gemma3n", 10, HEADS, WINDOW)["layers"] == "2 x (4 sliding, full)"
    keys = {"attention.sliding_window_pattern": [1, 1, 1, 0], "attention.shared_kv_layers": 1}
    assert "expected fewer, so that a layer with a full cache is left" in refused("gemma4", 4, HEADS, WINDOW, keys)
    keys["attention.shared_kv_layers"] = 9
    assert "expected a number from 0 to 4, got 9" in refused("gemma4", 4, HEADS, WINDOW, keys)


def test_heads_and_widths():
    """Without head_count_kv every head is cached; without key_length a head is embedding_length / head_count wide."""
    data = preset("gpt2", 2, {"attention.head_count": 12, "embedding_length": 768})
    assert (data["heads"], data["kv_heads"], data["head_dim"]) == (12, 12, 64)
    data = preset("qwen3", 2, HEADS, {"attention.key_length": 192, "attention.value_length": 128})
    assert (data["k_dim"], data["v_dim"]) == (192, 128)


def test_heads_that_differ_by_layer():
    """Numbers that differ by layer become lists, and pruned layers a cache without heads."""
    data = preset("deci", 4, {
        "attention.head_count": [8, 8, 0, 4], "attention.head_count_kv": [2, 4, 0, 2], "embedding_length": 1024,
    })  # fmt: skip
    assert data["layers"] == "2 full, noop, full"
    assert data["caches"] == {
        "full": {"heads": [8, 8, 4], "kv_heads": [2, 4, 2]},
        "noop": {"kind": "full", "kv_heads": 0},
    }


@pytest.mark.parametrize(
    ("arch", "keys", "named"),
    [
        ("gemma2", HEADS, "attention.sliding_window 4,096, attention.sliding_window_pattern 2"),
        ("llama4", HEADS, "attention.sliding_window 8,192, attention.sliding_window_pattern 4"),
        ("exaone-moe", HEADS, "attention.sliding_window 128, attention.sliding_window_pattern 4"),
        ("gemma3", {**HEADS, **WINDOW}, "attention.sliding_window_pattern 6"),
        ("gemma3n", {**HEADS, **WINDOW, "attention.sliding_window_pattern": 5}, "attention.shared_kv_layers 0"),
        ("gpt2", {"attention.head_count": 8, "embedding_length": 512},
         "attention.head_count_kv as many as attention.head_count"),
        ("gemma3", HEADS, None), ("qwen3", HEADS, None),
    ],
)  # fmt: skip
def test_what_llama_cpp_takes_for_keys_that_are_absent_is_named(arch, keys, named):
    """An answer that rests on a default of llama.cpp and not on the file says which, with its value (gemma2.cpp: 4096)."""
    note = preset(arch, 8, keys)["note"]
    assert (f"Defaults of llama.cpp, which the file leaves out: {named}. " in note) is (named is not None)
    assert ("Defaults of" in note) is (named is not None)
