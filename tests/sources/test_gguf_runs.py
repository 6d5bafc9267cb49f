"""GGUF metadata against what llama.cpp allocated for it, and against the bundled presets of the same models."""

from collections import defaultdict

import pytest

import kvcalc
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Recurrent

from .gguf_models import model_of, preset
from .llama_cpp_runs import RUNS


def held(model):
    """For each layer, the rows that llama.cpp would hold of it: part, elements, and window (None: everything)."""
    layers = []
    for layer in model.layers:
        rows = []
        for cache in layer:
            match cache:
                case Attention(v_dim=0):
                    rows.append(("k", cache.kv_heads * cache.k_dim, cache.span))
                case Attention():
                    rows.append(("k", cache.kv_heads * cache.k_dim, cache.span))
                    rows.append(("v", cache.kv_heads * cache.v_dim, cache.span))
                case Latent():
                    rows.append(("k", cache.rank + cache.rope, None))
                case Indexer():
                    rows.append(("k", cache.dim, None))
                case Compressed():
                    rows.append(("k", cache.dim, -cache.ratio))
                    rows += [("k", cache.indexer, -cache.ratio)] * bool(cache.indexer)
                case Recurrent():
                    rows += [("r", conv_elements(cache), 0), ("s", state_elements(cache), 0)]
        layers.append(rows)
    return layers


def conv_elements(c):
    """Columns of the convolution, kernel - 1 of them, or token shifts (presets/README.md)."""
    return {
        "mamba1": c.inner * (c.conv - 1),
        "mamba2": (c.heads * c.head_dim + 2 * c.groups * c.state) * (c.conv - 1),
        "deltanet": (2 * c.k_heads * c.k_dim + c.v_heads * c.v_dim) * (c.conv - 1),
        "kda": 3 * c.heads * c.head_dim * (c.conv - 1),
        "shortconv": c.width * (c.conv - 1),
        "lightning": 0,
        "rwkv": 2 * c.width,
    }[c.kind]


def state_elements(c):
    """Elements of the recurrent state (presets/README.md)."""
    return {
        "mamba1": c.inner * c.state,
        "mamba2": c.heads * c.head_dim * c.state,
        "deltanet": c.v_heads * c.v_dim * c.k_dim,
        "kda": c.heads * c.head_dim**2,
        "shortconv": 0,
        "lightning": c.heads * c.head_dim**2,
        "rwkv": c.width * c.head_dim,
    }[c.kind]


def padded(count):
    """Cells come in multiples of 256."""
    return -(-count // 256) * 256


def recorded(run):
    """For each layer, the rows that llama.cpp allocated, with their cells; its own working state left out."""
    layers = defaultdict(list)
    for part, row, cells, where in run.tensors:
        if part.startswith("dsv4"):
            continue
        for word in where.split():
            first, _, last = word.partition("-")
            for i in range(int(first), int(last or first) + 1):
                layers[i].append((part, row, cells))
    return layers


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.case)
def test_layers_and_elements_are_those_that_llama_cpp_allocated(run):
    """Each layer holds the rows that llama.cpp allocated for the same metadata, and windows give its numbers of cells."""
    data = preset(run.arch, run.metadata["block_count"], run.metadata)
    expected, found = recorded(run), held(model_of(data))
    if run.arch == "minimax-m3":  # llama.cpp allocates a V beside the index key, and never uses it
        expected = {i: rows if len(rows) == 2 else rows[:3] for i, rows in expected.items()}
    assert {i: sorted(row[:2] for row in rows) for i, rows in expected.items()} == {
        i: sorted(row[:2] for row in rows) for i, rows in enumerate(found) if rows
    }
    everything = max(cells for rows in expected.values() for _, _, cells in rows)
    for i, rows in enumerate(found):
        for (_, _, cells), (part, _, span) in zip(
            sorted(expected.get(i, [])), sorted(rows, key=lambda r: r[:2]), strict=True
        ):
            if part in "kv" and run.arch not in ("phi3", "deepseek4"):
                assert cells == (everything if span is None else padded(min(everything, span + run.ubatch)))


@pytest.mark.parametrize("case", [
    "gemma3-27b", "gpt-oss-20b", "llama4-scout", "kimi-linear-48b", "mamba-2.8b", "qwen3-next-80b", "minimax-text-01",
    "openelm-270m", "phi3-mini-4k", "qwen3-8b", "nemotron-h-8b", "deepseek-v32-dsa", "gemma3n-e4b", "rwkv6-1.6b",
])  # fmt: skip
def test_same_layers_as_the_bundled_preset(case):
    """A GGUF file of a bundled model describes the same layers as its preset, which comes from a configuration."""
    run = next(run for run in RUNS if run.case == case)
    name = {"deepseek-v32-dsa": "deepseek-v3.2"}.get(case, case)
    assert model_of(preset(run.arch, run.metadata["block_count"], run.metadata)).layers == kvcalc.load(name).layers
