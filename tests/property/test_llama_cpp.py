"""llama.cpp, for models of every kind and all its builds: what must hold whatever is asked."""

from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import kvcalc
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.llama_cpp.engine import ENGINE
from kvcalc.engines.question import Question

from .conftest import TOKENS

PRESETS = """
    qwen3-8b gemma3-27b gpt-oss-20b gemma3n-e4b gemma4-e2b llama4-scout phi3-mini-4k openelm-270m nemotron-super-49b
    deepseek-v3.2 deepseek-v4-flash minimax-m3 minicpm3-4b kimi-linear-48b qwen3-next-80b jamba-1.5-mini mamba-2.8b
    rwkv6-1.6b lfm2-350m minimax-text-01 t5-small falcon-h1-1.5b glm-5.2
""".split()  # noqa: SIM905 - one a word
NAMES = st.sampled_from(PRESETS)
SEQUENCES = st.integers(1, 40)
BUILDS = st.sampled_from(ENGINE.versions)
KNOBS = st.fixed_dictionaries(
    {},
    optional={
        "n_batch": st.integers(1, 4096),
        "n_ubatch": st.integers(0, 4096),
        "kv_unified": st.booleans(),
        "swa_full": st.booleans(),
        "flash_attn": st.sampled_from(["on", "off", "auto"]),
        "n_rs_seq": st.integers(0, 8),
    },
)


@cache
def model(name: str) -> Model:
    return kvcalc.load(name)


def reserved(name: str, build: Any, settings: dict[str, object], tokens: int, sequences: int) -> Reservation:
    request = ask(model(name), context=tokens, batch=sequences)
    return reserve(ENGINE, Question(request, measure(request).placement, build, settings))


@given(NAMES, BUILDS, KNOBS, TOKENS, TOKENS, SEQUENCES)
def test_more_context_never_takes_less(
    name: str, build: Any, settings: dict[str, object], few: int, more: int, sequences: int
) -> None:
    """A fit looks for the edge, which must be one."""
    few, more = sorted((few, more))
    less = reserved(name, build, settings, few, sequences).reserved_total
    assert less <= reserved(name, build, settings, more, sequences).reserved_total


@given(NAMES, BUILDS, KNOBS, TOKENS, SEQUENCES, SEQUENCES)
def test_more_sequences_never_take_less(
    name: str, build: Any, settings: dict[str, object], tokens: int, few: int, more: int
) -> None:
    """The same edge, the other way."""
    few, more = sorted((few, more))
    less = reserved(name, build, settings, tokens, few).reserved_total
    assert less <= reserved(name, build, settings, tokens, more).reserved_total


@given(NAMES, BUILDS, KNOBS, TOKENS)
def test_one_sequence_has_nobody_to_share_with(name: str, build: Any, settings: dict[str, object], tokens: int) -> None:
    """A unified cache and separate ones agree."""
    found = [reserved(name, build, {**settings, "kv_unified": unified}, tokens, 1) for unified in (True, False)]
    assert found[0].reserved_total == found[1].reserved_total
    assert found[0].allocation.log == found[1].allocation.log


@given(NAMES, BUILDS, KNOBS, TOKENS, SEQUENCES)
def test_differences_and_parts_add_up(
    name: str, build: Any, settings: dict[str, object], tokens: int, sequences: int
) -> None:
    """From the exact size to the reserved one, and from K, V and states to each cache."""
    found = reserved(name, build, settings, tokens, sequences)
    assert found.exact_total + sum(difference.bytes for difference in found.differences) == found.reserved_total
    assert found.exact_total == measure(found.question.request).bytes_total
    for charge in found.allocation.charges:
        assert sum(size for _, size in charge.parts) == charge.bytes
        assert [step.bytes for step in charge.steps] != [charge.exact]
