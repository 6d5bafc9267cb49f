"""Models that Ollama refuses, and starts of its llama-server that failed.

Sources: llm/server.go and server/routes.go of Ollama fb3076099 and before; ollama/ollama#5958, #14232.
"""

from kvcalc.engines.allocation import rank_bytes
from kvcalc.engines.llama_cpp import failed
from kvcalc.engines.log_form import Failure, MatchedLine, StartLog, line
from kvcalc.engines.ollama.check import UNITS
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["FAILURES", "failure"]

FAILURES = (
    line("system memory (",
         r"requires more system memory \((?P<wanted>[\d.]+) (?P<wanted_unit>[KMGT]iB)\) than is available "
         r"\((?P<there>[\d.]+) (?P<there_unit>[KMGT]iB)\)", "failure"),
    line("too large for system", r"requested=\"?(?P<wanted>[\d.]+) (?P<wanted_unit>[KMGT]iB)\"?(?: |.{0,80}? )"
         r"available=\"?(?P<there>[\d.]+) (?P<there_unit>[KMGT]iB)", "failure"),
)  # fmt: skip
_SMALLER = ("num_ctx N, smaller", "OLLAMA_KV_CACHE_TYPE=q8_0", "OLLAMA_NUM_PARALLEL=1", "num_gpu N, fewer layers")


def failure(question: Question | None, run: StartLog) -> Failure | None:
    """What Ollama refuses by itself, and where its llama-server fails."""
    for found in run.found:
        wanted, there = (_bytes(found, name) for name in ("wanted", "there"))
        if wanted is not None and there is not None:
            length = None if question is None else question.request.context
            batch = None if question is None else question.sequences
            longest = None if question is None else _longest(question, run, wanted - there)
            what = "model and cache need more memory than the machine has free"
            shorter = f"num_ctx {longest}" if longest else "num_ctx N, smaller"
            flags = (shorter, "OLLAMA_KV_CACHE_TYPE=q8_0", "a model in fewer bits")
            return Failure(found.number, what, length, batch, wanted, there, longest, None, flags)
    of_server = failed.failure(None, run)
    if of_server is None:
        return None
    length = None if question is None else question.request.context
    batch = None if question is None else question.sequences
    return of_server._replace(context=length, batch=batch, flags=_SMALLER)


def _longest(question: Question, run: StartLog, short: int) -> int | None:
    """The longest context with which so many bytes less are needed, in whole thousands of 1,024 tokens."""

    def needed(tokens: int) -> int:
        return rank_bytes(run.engine.allocate(question.at(question.sequences, tokens)))

    try:
        most = needed(question.request.context) - short
        low, high = 0, question.request.context // 1024
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if needed(middle * 1024) <= most else (low, middle - 1)
    except KvcalcError:
        return None
    return low * 1024 or None


def _bytes(found: MatchedLine, name: str) -> int | None:
    printed = found.get(name, 1)
    return None if printed is None else printed.whole(UNITS[found.says[f"{name}_unit"]])
