"""Real bytes beside predicted ones: what counts as equal, and which layers are named where it is not."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from kvcalc.core.explain import cache_name
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches
from kvcalc.library import loader
from kvcalc.verifying.comparing import Comparison, compare
from kvcalc.verifying.measuring import Reading

HEAD = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\n"


RULE = Rule("as it is said", "this test")


class Version(NamedTuple):
    name: str


def question(layers: str) -> Question:
    """Ten tokens of one sequence."""
    model = loader.load_text((HEAD + layers).encode(), "tiny.yaml")
    size = measure(ask(model, context=10))
    return Question(size.request, size.placement, Version("1"))


def charges(asked: Question, *amounts: Sequence[int]) -> Allocation:
    """A plan with the bytes of one copy for each group of equal caches, or of several parts of it."""
    made = []
    for each, parts in zip(stage_caches(asked), amounts, strict=True):
        copies = [each.copies - len(parts) + 1] + [1] * (len(parts) - 1)
        exact = each.exact // each.copies
        for n, part in zip(copies, parts, strict=True):
            made.append(Charge(cache_name(each.cache), n, n * exact, (Step(RULE, n * part),), (), ""))
    return Allocation(tuple(made))


def after_decode(layers: Sequence[Mapping[str, int]], held_bytes: int = 0) -> Reading:
    """A real cache of ten tokens."""
    return Reading("decode", 10, [dict(layer) for layer in layers], held_bytes)


def rows(found: Comparison) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [(row.name, row.predicted_bytes, row.real_bytes, row.layers) for row in found.rows]


KV = {"keys": 50, "values": 50}


@pytest.mark.parametrize(
    ("layers", "amounts", "real", "expected"),
    [
        # Layers that agree, one that keeps more, and one that keeps nothing although a hundred bytes are predicted.
        ("layers: 3 full", [[100]], [KV, KV, KV], [("full attention", 300, 300, ())]),
        ("layers: 3 full", [[100]], [KV, {**KV, "values": 51}, {}], [("full attention", 300, 201, (1, 2))]),
        # Differences that cancel out are differences.
        ("layers: 2 full", [[100]], [{"keys": 99}, {"keys": 101}], [("full attention", 200, 200, (0, 1))]),
        # A layer without a cache, and one that shares another's, keep nothing; what they keep all the same is told.
        (
            "layers: full, none, shared:full",
            [[100], [0]],
            [KV, {"keys": 7}, {"keys": 8}],
            [
                ("full attention", 100, 100, ()),
                ("full attention, shared", 0, 0, ()),
                ("nothing predicted", 0, 15, (1, 2)),
            ],
        ),
        # A tensor that no kind of cache is known to have.
        (
            "layers: 1 full",
            [[100]],
            [{**KV, "anchors": 4}],
            [("full attention", 100, 100, ()), ("nothing predicted", 0, 4, (0,))],
        ),
        # More layers than the model has, and fewer.
        ("layers: 1 full", [[100]], [KV, KV], [("full attention", 100, 100, ()), ("nothing predicted", 0, 100, (1,))]),
        ("layers: 2 full", [[100]], [KV], [("full attention", 200, 100, (1,))]),
        # Equal caches that are charged unequally: some layer must have each amount.
        ("layers: 3 full", [[100, 200]], [KV, KV, {"keys": 200}], [("full attention", 400, 400, ())]),
        ("layers: 3 full", [[100, 200]], [KV, KV, {"keys": 201}], [("full attention", 400, 401, (2,))]),
        ("layers: 3 full", [[100, 200]], [KV, {"keys": 200}, {}], [("full attention", 400, 300, (0, 1, 2))]),
    ],
)
def test_rows(
    layers: str,
    amounts: list[Sequence[int]],
    real: list[Mapping[str, int]],
    expected: list[tuple[str, int, int, tuple[int, ...]]],
) -> None:
    """Each group of equal caches is compared layer by layer, and what nothing was predicted for stands at the end."""
    asked = question(layers)
    assert rows(compare(asked, charges(asked, *amounts), after_decode(real))) == expected


def test_two_blocks_in_a_layer() -> None:
    """LongCat's cache has two layers for each of the model's, and the model's number is told."""
    asked = question("layers: 2 latent+latent\ncaches:\n  latent: {rank: 512, rope: 64}\n")
    real = [{"keys": 9, "values": 1}, {"keys": 9, "values": 1}, {"keys": 9, "values": 1}, {"keys": 9, "values": 2}]
    found = compare(asked, charges(asked, [10]), after_decode(real))
    assert [(row.copies, row.predicted_bytes, row.real_bytes, row.layers) for row in found.rows] == [(4, 40, 41, (1,))]


def test_tensors_find_their_caches() -> None:
    """Two caches of one layer are told apart by the names of their tensors."""
    asked = question(
        "layers: full+cross, full+mamba2, latent+indexer, window+csa\n"
        "caches:\n"
        "  cross: {tokens: 4}\n"
        "  mamba2: {heads: 2, head_dim: 4, groups: 1, state: 8, conv: 4}\n"
        "  latent: {rank: 32, rope: 16}\n"
        "  indexer: {dim: 16}\n"
        "  window: {kind: sliding, window: 8}\n"
        "  csa: {kind: compressed, ratio: 4, dim: 32, rope: 16, overlap: true, indexer: 16}\n"
    )
    real = [
        {"keys": 1, "values": 2, "cross.keys": 4, "cross.values": 8},
        {"keys": 1, "values": 2, "conv_states.0": 16, "recurrent_states.0": 32},
        {"keys": 64, "values": 128, "indexer_keys": 256},
        {"keys": 512, "buffer_kv.compressor": 1024, "compressed_kv.indexer": 2048, "overlap_gate.indexer": 4096},
    ]
    amounts = [[3], [12], [48], [192], [256], [512], [7168]]
    found = compare(asked, charges(asked, *amounts), after_decode(real))
    assert [row.real_bytes for row in found.rows] == [6, 12, 48, 192, 256, 512, 7168]
    assert found.layers == ()
    assert found.equal


def test_storage() -> None:
    """Equal tensors that keep more storage alive than was predicted are a difference, of no layer."""
    asked = question("layers: 1 full")
    plan = charges(asked, [100])._replace(values={"held_bytes_total": 150})
    same, more = (compare(asked, plan, after_decode([KV], stage_caches)) for stage_caches in (150, 151))
    assert (same.equal, same.layers, more.equal, more.layers) == (True, (), False, ())
