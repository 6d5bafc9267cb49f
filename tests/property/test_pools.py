"""Engines with one pool, for models of every kind: what must hold whatever is asked."""

from functools import cache
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

import kvcalc
from kvcalc.core.model import Attention, Latent, Layer, Model, Recurrent
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.allocation import Capacity
from kvcalc.engines.base import Engine, Reservation, reserve
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.engine import ENGINE as SGLANG
from kvcalc.engines.tensorrt_llm.engine import ENGINE as TENSORRT_LLM
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.errors import KvcalcError

from .conftest import TOKENS

PRESETS = """
    qwen3-8b gemma3-27b gpt-oss-20b gemma3n-e4b gemma4-31b llama4-scout mistral-7b-v0.1 openelm-270m nemotron-super-49b
    deepseek-v3 deepseek-v3.2 deepseek-v4-flash minimax-m3 longcat-flash kimi-linear-48b qwen3-next-80b jamba-1.5-mini
    falcon-mamba-7b lfm2-8b-a1b minimax-text-01 whisper-tiny falcon-h1-1.5b glm-5.2 nemotron3-nano-30b
""".split()  # noqa: SIM905 - one a word
DENSE = ("qwen3-8b", "llama3.1-8b", "llama3-70b", "gpt2", "bloom-7b1", "openelm-270m")
LATENT = ("deepseek-v3", "kimi-k2.5", "deepseek-v3.2", "glm-5.2", "longcat-flash")
ENGINES = st.sampled_from([VLLM, SGLANG, TENSORRT_LLM])
SEQUENCES = st.integers(1, 40)
LAYOUTS = st.sampled_from([{}, {"tp": 2}, {"pp": 2}, {"tp": 4, "dp": 2}, {"pp": 3}])
BYTES = st.integers(10**9, 10**12)


@cache
def model(name: str) -> Model:
    return kvcalc.load(name)


def reserved(engine: Engine, of: Model | str, settings: dict[str, object], **options: Any) -> Reservation:
    """An engine's answer; what it refuses is no example."""
    request = ask(model(of) if isinstance(of, str) else of, **options)
    try:
        return reserve(engine, Question(request, measure(request).placement, engine.versions[-1], settings))
    except KvcalcError:
        assume(False)
        raise


def counted(reservation: Reservation, budget: int) -> Capacity:
    assert reservation.allocation.capacity is not None
    return reservation.allocation.capacity(budget)


@given(ENGINES, st.sampled_from(PRESETS), LAYOUTS, TOKENS, SEQUENCES)
def test_differences_lead_from_the_exact_size_to_the_reserved_one(
    engine: Engine, name: str, layout: dict[str, int], tokens: int, sequences: int
) -> None:
    """Rule by rule, with none left over; and JSON's parts add up to the reserved size of the fullest replica."""
    found = reserved(engine, name, {}, context=tokens, batch=sequences, **layout)
    assert found.exact_total == measure(found.question.request).bytes_total
    assert found.reserved_total == found.exact_total + sum(each.bytes for each in found.differences)
    parts = sum(amount for charge in found.allocation.charges for _, amount in charge.parts)
    assert parts == sum(charge.bytes for charge in found.allocation.charges)


@given(ENGINES, st.sampled_from(DENSE), TOKENS, SEQUENCES)
def test_a_plain_model_takes_less_than_a_block_more(engine: Engine, name: str, tokens: int, sequences: int) -> None:
    """Reserved is at least exact, and the excess under one block for each sequence."""
    found = reserved(engine, name, {}, context=tokens, batch=sequences)
    width = found.allocation.values["bytes_per_block"]
    assert isinstance(width, int)
    assert found.exact_total <= found.reserved_total < found.exact_total + sequences * width


@given(ENGINES, st.sampled_from(PRESETS), LAYOUTS, TOKENS, BYTES, BYTES)
def test_more_memory_never_gives_fewer_tokens(
    engine: Engine, name: str, layout: dict[str, int], tokens: int, few: int, more: int
) -> None:
    """A larger --kv-memory may not hold less, and what fits into a smaller one fits into a larger one."""
    found = reserved(engine, name, {}, context=tokens, **layout)
    few, more = sorted((few, more))
    assert counted(found, few).tokens <= counted(found, more).tokens
    assert found.allocation.fits(more) or not found.allocation.fits(few)


@given(ENGINES, st.sampled_from(PRESETS), TOKENS, TOKENS, SEQUENCES, SEQUENCES)
def test_more_context_or_more_sequences_never_take_less(
    engine: Engine, name: str, few: int, more: int, fewer: int, most: int
) -> None:
    """A fit looks for the edge, which must be one."""
    few, more = sorted((few, more))
    fewer, most = sorted((fewer, most))
    less = reserved(engine, name, {}, context=few, batch=fewer)
    assert less.reserved_total <= reserved(engine, name, {}, context=more, batch=most).reserved_total


@given(ENGINES, st.sampled_from(LATENT), st.sampled_from([2, 4, 8]), TOKENS, BYTES)
def test_ranks_do_not_share_a_latent(engine: Engine, name: str, tp: int, tokens: int, budget: int) -> None:
    """Tensor parallelism changes nothing but the weights: each GPU holds and counts the same."""
    alone, spread = reserved(engine, name, {}, context=tokens), reserved(engine, name, {}, context=tokens, tp=tp)
    assert spread.reserved_per_gpu == alone.reserved_per_gpu
    assert spread.reserved_total == tp * alone.reserved_total
    assert counted(spread, budget) == counted(alone, budget)


KINDS: list[Layer] = [
    (Attention("full", 8, 4, 64, 64),),
    (Attention("sliding", 8, 4, 64, 64, 512),),
    (Attention("sliding", 8, 2, 64, 64, 512),),
    (Recurrent("mamba2", conv=4, heads=16, head_dim=64, groups=1, state=64),),
    (Latent(512, 64, 8, 192, 128),),
]


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8), st.sampled_from([2, 4]), TOKENS, BYTES)
def test_equal_stages_count_like_one_of_them(layers: list[Layer], pp: int, tokens: int, budget: int) -> None:
    """vLLM groups over the whole model: where its stages are equal, that is grouping by stage."""
    one = Model(name="M", layers=tuple(layers), dtype=model("qwen3-8b").dtype)
    many = Model(name="M", layers=tuple(layers) * pp, dtype=one.dtype)
    # As many tokens in flight: batches of a pp-th on each of pp stages.
    settings = {"async_scheduling": False, "max_num_batched_tokens": 1024 * pp}
    alone = reserved(VLLM, one, settings, context=tokens)
    spread = reserved(VLLM, many, settings | {"max_num_batched_tokens": 1024}, context=tokens, pp=pp)
    assert counted(spread, budget) == counted(alone, budget)
    assert spread.reserved_per_gpu == alone.reserved_per_gpu
