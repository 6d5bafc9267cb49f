"""How much fits, worked out by hand.

Llama 3 70B holds 327,680 B a token (40,960 B on each GPU at tp 8) and has 70.55B parameters of 2 B: 141,100,000,000 B.
"""

from typing import Any

import pytest

from kvcalc.core import request
from kvcalc.core.fitting import Fit, fit
from kvcalc.core.memory import Budget, MemorySplit
from kvcalc.core.overheads import as_stated
from kvcalc.core.sizing import Size, measure
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

GB = 10**9
GIB = 2**30


def llama(**options: Any) -> Size:
    return measure(request.ask(loader.load("llama3-70b"), **options))


def inline(text: str, **options: Any) -> Size:
    model = loader.load_text(f"{{name: M, dtype: bf16, {text}}}".encode(), "m.yaml")
    return measure(request.ask(model, **options))


# 16,384 x (2 x 2 + 16 x 4) B = 1,114,112 B a sequence, whatever its length; no limit is published
STATE = "layers: 1 mamba1, caches: {mamba1: {inner: 16384, state: 16, conv: 3}}"


def test_eight_gpus_with_utilization_and_overhead() -> None:
    """80 GB x 0.9 - 141.1 GB / 8 - 1 GB leaves 53,362,500,000 B for sequences of 4,096 x 40,960 B."""
    answer = fit(llama(tp=8), Budget(vram=80 * GB, utilization=Fraction(9, 10), overheads=(as_stated("overhead", GB),)))
    assert answer == Fit(
        MemorySplit(
            kv_budget=53_362_500_000,
            vram=80_000_000_000,
            utilization=Fraction(9, 10),
            outside=8_000_000_000,
            weights=17_637_500_000,
            overhead=1_000_000_000,
            gpus_for_weights=2,  # 141.1 / 71 is just below 2
            whole_weights=141_100_000_000,
            weights_source="70.55B parameters x 16 bits (bf16)",
            overheads=(as_stated("overhead", GB),),
        ),
        kv_asked=167_772_160,
        max_batch=318,  # 53,362,500,000 / 167,772,160 = 318.07
        max_context=8_192,
        capacity_tokens=1_302_795,  # 53,362,500,000 / 40,960 = 1,302,795.4
        fits=True,
        binding="kv",
        context_binding="model",
    )


def test_the_longest_context_at_a_batch() -> None:
    """318 sequences fit at 4,096 tokens and not at 4,097; 400 fit at 3,256 (53,362,500,000 / 400 / 40,960 = 3,256.99)."""
    budget = Budget(vram=80 * GB, utilization=Fraction(9, 10), overheads=(as_stated("overhead", GB),))
    answers = [fit(llama(tp=8, batch=batch), budget) for batch in (318, 400)]
    assert [(a.max_context, a.context_binding, a.fits) for a in answers] == [(4_096, "kv", True), (3_256, "kv", False)]


def test_weights_too_big() -> None:
    """On one GPU of 100 GB the weights alone are 41.1 GB too many; two GPUs would hold them."""
    answer = fit(llama(), Budget(vram=100 * GB))
    assert answer == Fit(
        MemorySplit(
            kv_budget=-41_100_000_000,
            vram=100_000_000_000,
            utilization=Fraction(1, 1),
            outside=0,
            weights=141_100_000_000,
            overhead=0,
            gpus_for_weights=2,
            whole_weights=141_100_000_000,
            weights_source="70.55B parameters x 16 bits (bf16)",
        ),
        kv_asked=1_342_177_280,
        max_batch=0,
        max_context=0,
        capacity_tokens=0,
        fits=False,
        binding="weights",
        context_binding="weights",
    )


def test_gpus_for_weights_count_what_is_left_for_them() -> None:
    """80 GB x 0.9 - 2 GB leaves 70 GB of a GPU: 141.1 GB need three, though two hold 160 GB."""
    budget = Budget(vram=80 * GB, utilization=Fraction(9, 10), overheads=(as_stated("overhead", 2 * GB),))
    assert fit(llama(), budget).memory.gpus_for_weights == 3


def test_overhead_above_the_memory() -> None:
    """Where the overhead alone fills the GPU, no number of them holds the weights."""
    memory = fit(llama(), Budget(vram=10 * GB, weights=GB, overheads=(as_stated("overhead", 10 * GB),))).memory
    assert (memory.kv_budget, memory.gpus_for_weights) == (-GB, None)


def test_kv_memory_is_taken_as_it_is() -> None:
    """--kv-memory skips weights and overheads: 10 GiB hold 8 sequences of 1.25 GiB, and 32,768 tokens."""
    answer = fit(llama(), Budget(kv_memory=10 * GIB))
    assert answer.memory == MemorySplit(kv_budget=10 * GIB)
    assert (answer.max_batch, answer.max_context, answer.capacity_tokens) == (8, 8_192, 32_768)
    assert (answer.fits, answer.binding, answer.context_binding) == (True, "kv", "model")


@pytest.mark.parametrize(("kv_memory", "fits"), [(1_342_177_280, True), (1_342_177_279, False)])
def test_to_the_byte(kv_memory: int, fits: bool) -> None:
    """A budget of exactly the cache fits, and a byte less does not."""
    answer = fit(llama(), Budget(kv_memory=kv_memory))
    assert (answer.fits, answer.max_batch) == (fits, int(fits))


def test_max_context_to_the_byte() -> None:
    """A token less than 4,096 fits into a byte less."""
    answers = [fit(llama(), Budget(kv_memory=4_096 * 327_680 - missing)).max_context for missing in (0, 1, 327_681)]
    assert answers == [4_096, 4_095, 4_094]


def test_dp_multiplies_the_answer() -> None:
    """Each of four replicas of four GPUs holds the weights once: (80 GB - 141.1 GB / 4) / (4,096 x 81,920 B) is 133.29."""
    answer = fit(llama(tp=4, dp=4), Budget(vram=80 * GB))
    assert answer.memory.kv_budget == 44_725_000_000
    assert answer.max_batch == 4 * 133
    assert answer.capacity_tokens == 4 * 545_959  # 44,725,000,000 / 81,920 = 545,959.47


def test_dp_asks_the_fullest_replica() -> None:
    """Five sequences on two replicas are three on the fullest, which share 5 GiB."""
    budget = Budget(kv_memory=5 * GIB)
    answer = fit(llama(batch=5, dp=2), budget)
    assert answer.max_context == 5_461  # 5 GiB / 3 / 327,680 B = 5,461.3
    assert (answer.max_batch, answer.kv_asked) == (8, 3 * 1_342_177_280)


def test_pp_divides_the_weights_and_sizes_the_fullest_stage() -> None:
    """tp 4 and pp 2 hold an eighth of the weights, and 40 layers of two heads: 40,960 B a token."""
    answer = fit(llama(tp=4, pp=2), Budget(vram=80 * GB))
    assert answer.memory.kv_budget == 80 * GB - 17_637_500_000
    assert answer.kv_asked == 4_096 * 40_960


def test_windows_count_as_they_are_held() -> None:
    """Mistral 7B v0.1 holds 512 MiB at 32,768 tokens: 1 GiB holds two sequences and 65,536 tokens, at any length."""
    size = measure(request.ask(loader.load("mistral-7b-v0.1"), context=32_768))
    answer = fit(size, Budget(kv_memory=GIB))
    assert (answer.max_batch, answer.capacity_tokens, answer.context_binding) == (2, 65_536, "model")


def test_nothing_binds_the_context_of_a_state() -> None:
    """A recurrent model without a published limit has no longest context, and its batch is the budget over the state."""
    answer = fit(inline(STATE), Budget(kv_memory=10_000_000))
    assert (answer.max_context, answer.context_binding) == (None, "model")
    assert (answer.max_batch, answer.binding) == (8, "kv")  # 10,000,000 / 1,114,112 = 8.98


def test_a_state_that_does_not_fit() -> None:
    """Where not even the state fits, no context does."""
    answer = fit(inline(STATE), Budget(kv_memory=1_114_111))
    assert (answer.max_context, answer.max_batch, answer.context_binding, answer.fits) == (0, 0, "kv", False)


def test_no_limit_but_memory() -> None:
    """Attention without a published limit ends with the memory: 1,000,000 B / (2 x 2 x 64 x 2 B)."""
    answer = fit(inline("heads: 8, kv_heads: 2, head_dim: 64, layers: 1 full"), Budget(kv_memory=1_000_000))
    assert (answer.max_context, answer.context_binding) == (1_953, "kv")


def test_no_weights() -> None:
    """--weights none leaves the whole memory, and needs no number of parameters."""
    answer = fit(inline("heads: 8, kv_heads: 2, head_dim: 64, layers: 1 full"), Budget(vram=GB, weights="none"))
    assert (answer.memory.kv_budget, answer.memory.weights, answer.memory.gpus_for_weights) == (GB, 0, 0)


def test_unknown_weights_are_an_error() -> None:
    """With a memory and no word on the weights there is no answer."""
    with pytest.raises(KvcalcError, match=r"^--weights: the number of parameters of M is not known$"):
        fit(inline("heads: 8, kv_heads: 2, head_dim: 64, layers: 1 full"), Budget(vram=GB))


def test_a_budget_needs_a_size() -> None:
    """Neither memory nor cache memory is no budget."""
    with pytest.raises(KvcalcError, match=r"^--vram: expected a size, or --kv-memory instead$"):
        fit(llama(), Budget())


def test_shares_are_exact() -> None:
    """0.9 of 10 bytes is 9, and 0.29 of 100 is 29, which floats would make 28."""
    assert (Fraction(9, 10).floor(10), Fraction(29, 100).floor(100), Fraction(9, 10).floor(19)) == (9, 29, 17)
    assert str(Fraction(9, 10)) == "0.9"
