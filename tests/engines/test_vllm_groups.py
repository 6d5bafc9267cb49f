"""How vLLM groups layers of several kinds, by hand: at the edge of each rule of `v1/core/kv_cache_planning.py`.

A layer of 2 KV heads of 64 + 64 elements in bf16 has 512 B a token, 8,192 B a block of 16 tokens.
"""

from typing import Any

import pytest

from kvcalc.engines.vllm.groups import Entry, group, widest
from kvcalc.engines.vllm.specs import Spec

from .asking import counted, reservation

PAGE = 8_192


def facts(layers: str) -> dict[str, Any]:
    named = {"sliding": {"window": 128}, "chunked": {"chunk": 65}}
    return {
        "name": "M-1", "dtype": "bf16", "heads": 4, "kv_heads": 2, "head_dim": 64, "layers": layers,
        "caches": {kind: span for kind, span in named.items() if kind in layers}, "max_context": 131072,
    }  # fmt: skip


# A group has as many layers as the rarest kind; as the commonest, where that has less than 1.5 times as many (1.25 times
# before 0.19.1, and never before 0.15.1). Each group of two kinds is as wide as its layers' pages.
@pytest.mark.parametrize(
    ("version", "windows", "full", "size", "groups"),
    [
        ("0.33.0", 2, 2, 2, 2),
        ("0.33.0", 3, 2, 2, 3),  # exactly 1.5 times is not close: two groups of windows (2 and 1), one of full layers
        ("0.33.0", 4, 3, 4, 2),  # 4 < 4.5
        ("0.33.0", 6, 4, 4, 3),  # 6 = 6
        ("0.33.0", 5, 4, 5, 2),
        ("0.33.0", 2, 3, 2, 3),  # whichever is the rarer
        ("0.15.1", 5, 4, 4, 3),  # exactly 1.25 times
        ("0.15.1", 6, 5, 6, 2),
        ("0.11.0", 6, 5, 5, 3),
    ],
)
def test_kinds_that_are_nearly_as_many(version: str, windows: int, full: int, size: int, groups: int) -> None:
    """The ratio is met only from below."""
    plan = reservation(facts(f"{windows} sliding, {full} full"), f"vllm@{version}").allocation
    assert (plan.values["bytes_per_block"], plan.values["groups"]) == (size * PAGE, groups)


def entries(*specs: Spec, stages: tuple[int, ...] = ()) -> list[Entry]:
    return [Entry(i, stages[i] if stages else 0, spec) for i, spec in enumerate(specs)]


def state(page: int, span: int = 0) -> Spec:
    return Spec("mamba", page, 16, span, shape=page)


@pytest.mark.parametrize(
    ("specs", "found"),
    [
        # equal states are one group, whose block is the sum of their pages
        ((state(300), state(300)), [[300, 300]]),
        # states of unequal pages are not: each is padded to the larger, in a group of its own
        ((state(100), state(300)), [[300], [300]]),
        ((state(100), state(100), state(300)), [[300], [300], [300]]),
        # equal pages with other checkpoints are of another kind
        ((state(300), state(300, 1)), [[300], [300]]),
        # full layers of unequal pages are one group all the same
        ((Spec("full", 100, 16), Spec("full", 300, 16), Spec("mla", 50, 16)), [[100, 300, 50]]),
        # windows of one length are; of two lengths they are not
        ((Spec("sliding", 100, 16, 64), Spec("sliding", 300, 16, 64)), [[100, 300]]),
        ((Spec("sliding", 300, 16, 64), Spec("sliding", 300, 16, 128)), [[300], [300]]),
    ],
)
def test_which_layers_share_a_block(specs: tuple[Spec, ...], found: list[list[int]]) -> None:
    """One type, one block and one window; and of states one page."""
    groups = group(entries(*specs), (3, 2), packed=False)
    assert [[entry.spec.stored for entry in each.entries] for each in groups] == found


def test_a_page_that_divides_the_largest_gets_more_tokens() -> None:
    """A window of half the page gets blocks of 32 tokens, one of a third too large is padded."""
    full = Spec("full", 400, 16)
    half, odd = Spec("sliding", 200, 16, 64), Spec("sliding", 300, 16, 64)
    for window, block, page, padded in ((half, 32, 400, 0), (odd, 16, 300, 400)):
        found = group(entries(full, window), (3, 2), packed=False)[1].entries[0].spec
        assert (found.block, found.page, found.padded, found.stored) == (block, page, padded, 400)


def test_a_block_is_as_wide_as_the_widest_group_on_each_stage() -> None:
    """Two windows on the first stage, a window and a full layer on the second: 16 B there, 8 B here at most."""
    full, window = Spec("full", 8, 16), Spec("sliding", 8, 16, 64)
    groups = group(entries(window, window, window, full, stages=(0, 0, 1, 1)), None, packed=False)
    # Groups of one layer: three of windows and one of full layers.
    assert [widest(groups, stage) for stage in (0, 1)] == [8, 8]
    one = group(entries(window, window, window, stages=(0, 0, 1)), None, packed=False)
    assert [widest(one, stage) for stage in (0, 1)] == [16, 8]


@pytest.mark.parametrize(
    ("flags", "context", "blocks"),
    [
        # A window of 128 holds 127 tokens and two batches of 8,192 in flight: 16,511, 1,032 blocks, and one more, since
        # it may begin within a block. The full layer holds 6,250 blocks.
        ("", 100_000, 6_250 + 1_033),
        ("--no-async-scheduling", 100_000, 6_250 + 521),  # one batch: 8,319 tokens
        # no more than there are
        ("", 16_000, 1_000 + 1_001),
        ("", 16_511, 1_032 + 1_033),
        ("", 16_512, 1_032 + 1_033),
        ("", 16_513, 1_033 + 1_033),
    ],
)
def test_what_a_window_may_hold(flags: str, context: int, blocks: int) -> None:
    """`SlidingWindowSpec.max_memory_usage_bytes`: window - 1 + tokens in flight, in whole blocks and one more."""
    found = reservation(facts("sliding, full"), "vllm", flags, context=context).allocation
    assert found.values["blocks_per_sequence"] == blocks


def test_what_a_chunk_may_hold() -> None:
    """`ChunkedLocalAttentionSpec`: the chunk and the tokens in flight, 65 + 16,384 = 16,449: 1,029 blocks, none more."""
    found = reservation(facts("chunked, full"), "vllm", context=100_000).allocation
    assert found.values["blocks_per_sequence"] == 6_250 + 1_029


def test_what_cross_attention_holds_is_explained_by_the_encoder() -> None:
    """A decoder of 448 tokens and 1,500 of the encoder, for which vLLM keeps room for all 8,192 batched tokens: 32
    layers x 2 x 20 heads x 64 x 2 B x (8,192 - 1,500) more, under a rule of cross-attention and none of windows.
    """
    found = reservation("whisper-large-v3", "vllm")
    assert [(each.rule.why, each.bytes) for each in found.differences] == [
        ("cross-attention keeps the encoder's budget of tokens", 1_096_417_280)
    ]
    sources = " ".join(step.rule.source for each in found.allocation.charges for step in each.steps)
    assert "CrossAttentionSpec" in sources
    assert "SlidingWindowSpec" not in sources


@pytest.mark.parametrize(
    ("drafts", "tokens", "blocks"),
    [
        (1, 1, 1_033),  # one draft layer, as without any: 127 + 16,384 tokens
        (2, 2, 1_033),  # two keep one token more: 16,512 are just 1,032 blocks
        (2, 3, 1_034),  # two more: 16,513
        (3, 4, 1_034),
    ],
)
def test_tokens_that_drafts_read_again(drafts: int, tokens: int, blocks: int) -> None:
    """Where several layers draft several tokens, windows keep one token less than are drafted."""
    preset = {**facts("sliding, full"), "draft": f"{drafts} full"}
    flags = f"--spec-method mtp --spec-tokens {tokens}"
    found = reservation(preset, "vllm", flags, context=100_000).allocation
    groups = found.values["groups"]
    assert isinstance(groups, int)
    assert found.values["blocks_per_sequence"] == (groups - 1) * 6_250 + blocks


def test_old_versions_multiply_what_they_count_by_the_split_of_the_context() -> None:
    """Kimi-K2 at tp 8, 46.80 GiB of 70,272 B a token in blocks of 64: 715,072 tokens, and eight times as many at dcp 8
    (planning notes, 3 g). Until 0.20.0 the tokens of the blocks are multiplied for the log.
    """
    budget = 715_072 * 70_272
    for dcp in (1, 2, 8):
        found = counted("kimi-k2", "vllm@0.20.0", budget, "--block-size 64", tp=8, dcp=dcp, context=65_536)
        assert found.tokens == dcp * 715_072
