"""Which other readings there are of a log of SGLang: pages, and formats of states."""

from collections.abc import Iterator

from kvcalc.core import dtypes
from kvcalc.core.model import Recurrent
from kvcalc.engines.log_form import StartLog, Variation, Way, Ways
from kvcalc.engines.question import Question

__all__ = ["variations", "ways"]


def ways(question: Question, run: StartLog, version: str | None) -> Ways:  # noqa: ARG001
    """Pages of kernels that the log does not name, and states in another format."""
    found = []
    if "page_size" not in question.settings:
        found.append([_knob("page_size", page, f"pages of {page} tokens") for page in (1, 16, 32, 64, 128, 256)])
    if run.last("model_path") is None:  # its arguments would name another format
        found.append([_knob("mamba_ssm_dtype", name, f"states in {name}") for name in _formats(question, run)])
    return found


def variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:  # noqa: ARG001
    """States in another format than its arguments say."""
    for name in _formats(question, run):
        yield Variation(f"states in {name}", _with(question, mamba_ssm_dtype=name))


def _formats(question: Question, run: StartLog) -> Iterator[str]:
    if run.last("mamba_ssm_dtype") or not any(isinstance(c, Recurrent) for c in question.request.model.distinct_caches):
        return
    for dtype in (dtypes.COMPUTE["bf16"], dtypes.FP32):
        yield dtype.name


def _knob(name: str, value: object, words: str) -> Way:
    return Way(name, words, lambda question: _with(question, **{name: value}))


def _with(question: Question, **settings: object) -> Question:
    return question._replace(settings={**question.settings, **settings})
