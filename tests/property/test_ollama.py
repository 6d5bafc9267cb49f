"""Ollama for any question: it is llama.cpp with the flags that it hands on, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.api import load
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.ollama.engine import VERSIONS
from kvcalc.engines.question import Question
from kvcalc.launch.command import launch

# One preset for each way in which llama.cpp keeps something: windows, latents with index keys, states, compressed.
NAMES = ("llama3.1-8b", "gemma3-27b", "gpt-oss-20b", "gemma4-e2b", "deepseek-v3.2", "jamba-1.5-mini", "qwen3.5-27b",
         "llama4-scout", "deepseek-v4-flash")  # fmt: skip
ALONE = {"qwen3.5-27b"}
PRESETS = {name: load(name) for name in NAMES}

CONTEXTS, BATCHES = st.integers(4, 70_000), st.integers(1, 8)
TYPES = st.sampled_from([None, "f16", "f32", "q8_0", "q4_0"])


def reservation(engine: str, model: Model, command: str, **options: Any) -> Reservation:
    started = launch(engine, command.split())
    stated = started.engine.options_of(started.program, started.read, model)
    request = ask(model, **{**options, **stated.options})
    return reserve(started.engine, Question(request, measure(request).placement, started.version, stated.settings))


@given(st.sampled_from(NAMES), CONTEXTS, BATCHES, TYPES, st.sampled_from([None, "on", "off"]))
def test_it_is_llama_cpp_with_the_flags_that_it_hands_on(
    name: str, tokens: int, batch: int, kind: str | None, flash: str | None
) -> None:
    """-c for all sequences, -np for each its own cells, -b and -ub by the context of all, cache types, -fa."""
    batch = 1 if name in ALONE else batch
    flash = "on" if kind in ("q8_0", "q4_0") and flash == "off" else flash
    total = tokens * batch
    size = 512 if flash == "off" or total <= 4096 else 1024 if total <= 32768 else 2048
    flags = f"-c {total} -np {batch} -b {size} -ub {size} -fa {flash or 'auto'}"
    variables = f"OLLAMA_NUM_PARALLEL={batch} OLLAMA_CONTEXT_LENGTH={tokens}"
    if kind is not None:
        flags, variables = f"{flags} -ctk {kind} -ctv {kind}", f"{variables} OLLAMA_KV_CACHE_TYPE={kind}"
    if flash is not None:
        variables += f" OLLAMA_FLASH_ATTENTION={int(flash == 'on')}"
    ours = reservation("ollama", PRESETS[name], variables)
    theirs = reservation("llama.cpp@b10488", PRESETS[name], flags)
    assert (ours.reserved_total, ours.differences) == (theirs.reserved_total, theirs.differences)
    assert ours.allocation.log == theirs.allocation.log


@pytest.mark.parametrize("version", [version.name for version in VERSIONS])
@given(name=st.sampled_from(("llama3.1-8b", "gemma3-27b", "gpt-oss-20b", "gemma4-e2b", "llama4-scout")), tokens=CONTEXTS,
       more=st.integers(0, 5_000), batch=BATCHES)  # fmt: skip
def test_more_tokens_or_sequences_never_take_less(version: str, name: str, tokens: int, more: int, batch: int) -> None:
    """In every version, and the differences add up."""
    found = reservation(f"ollama@{version}", PRESETS[name], "", context=tokens, batch=batch)
    assert found.reserved_total == found.exact_total + sum(difference.bytes for difference in found.differences)
    longer = reservation(f"ollama@{version}", PRESETS[name], "", context=tokens + more, batch=batch)
    assert longer.reserved_total >= found.reserved_total
    another = reservation(f"ollama@{version}", PRESETS[name], "", context=tokens, batch=batch + 1)
    assert another.reserved_total >= found.reserved_total
