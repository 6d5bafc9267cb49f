"""The Python interface: what the package's docstring shows, and one exception for every mistake."""

import doctest
from collections.abc import Callable

import pytest

import kvcalc


def test_the_documented_python_session_is_true() -> None:
    """The example in the package's docstring runs as it is printed."""
    results = doctest.testmod(kvcalc)
    assert (results.failed, results.attempted > 3) == (0, True)


def test_the_python_interface() -> None:
    """Everything that the package names is there, and answers as the command line does."""
    assert [name for name in kvcalc.__all__ if not hasattr(kvcalc, name)] == []
    assert set(kvcalc.__all__) <= set(dir(kvcalc))
    size = kvcalc.size(kvcalc.load("Llama-3-70B"), context="max", batch=2, kv_dtype="fp8", tp=8)
    assert (size.bytes_per_token, size.bytes_total, size.bytes_per_gpu) == (163_840, 2_684_354_560, 335_544_320)
    fit = kvcalc.fit(size, vram="80GB", utilization="0.9", weights="fp8", overhead="1GB")
    # 72e9 - 70.55e9 / 8 - 1e9 bytes, and 167,772,160 a sequence of 8,192 tokens
    assert (fit.memory.kv_budget, fit.max_batch, fit.fits) == (62_181_250_000, 370, True)
    assert kvcalc.fit(size, kv_memory=335_544_319).fits is False
    assert "llama3-70b" in kvcalc.models()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: kvcalc.load("llama3-7b"),
        lambda: kvcalc.size(kvcalc.load("gpt2"), batch=0),
        lambda: kvcalc.size(kvcalc.load("gpt2"), tp=5),
        lambda: kvcalc.size(kvcalc.load("t5-small"), context="max"),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2"))),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80"),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights="fp61"),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights=-1),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights=None),
        lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", kv_memory="1GB"),
    ],
    ids=["name", "batch", "tp", "context", "no budget", "unit", "weights", "minus", "no weights", "two budgets"],
)
def test_every_mistake_in_python_is_a_kvcalc_error(mistake: Callable[[], object]) -> None:
    """A program has one exception to catch."""
    with pytest.raises(kvcalc.KvcalcError):
        mistake()


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """The package's lazy names do not swallow mistakes."""
    with pytest.raises(AttributeError, match="nothing_like_this"):
        kvcalc.nothing_like_this  # noqa: B018
