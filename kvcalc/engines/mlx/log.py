"""What MLX says when memory is short: it prints nothing of a cache that has room.

Sources: mlx, `mlx/backend/metal/allocator.cpp` and `metal/device.cpp`; mlx-lm 0.32.2, `generate.py: wired_limit`; logs
that people posted (ml-explore/mlx#479 and reports of mlx-vlm's models).
"""

from collections.abc import Iterator

from kvcalc.engines.log_form import Expected, Failure, LogFacts, LogForm, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.question import Question

__all__ = ["FORM"]

_MB = 2**20  # what it prints as MB
_LINES = (
    line("Generating with a model that requires",
         r"requires (?P<model_mb>\d+) MB which is close to the maximum recommended size of (?P<most_mb>\d+) MB"),
    line("Attempting to allocate",
         r"\[(?:metal::)?malloc\] Attempting to allocate (?P<wanted>\d+) bytes which is greater than the maximum "
         r"allowed buffer size(?: of (?P<most>\d+) bytes)?", "failure"),
    line("Unable to allocate", r"\[malloc\w{0,20}\] Unable to allocate (?P<wanted>\d+) bytes", "failure"),
    line("[METAL] Command buffer execution failed",
         r"Command buffer execution failed: (?P<short>Insufficient Memory)", "failure"),
)  # fmt: skip
_LESS = (
    "--max-kv-size N",
    "--kv-bits 8",
    "--prefill-step-size N, smaller",
    "a shorter prompt",
    "weights in fewer bits",
)


def _said(run: StartLog) -> LogFacts:  # noqa: ARG001 - the signature of every form
    return LogFacts()


def _expect(question: Question, run: StartLog) -> Iterator[Expected]:  # noqa: ARG001
    """It prints no size of a cache."""
    return iter(())


def _failure(question: Question | None, run: StartLog) -> Failure | None:
    """What had no room: one array that is larger than any may be, or all of them together."""
    length = None if question is None else question.request.context
    batch = None if question is None else question.sequences
    for found in run.found:
        wanted, most = plain(found.says.get("wanted")), plain(found.says.get("most"))
        if wanted is not None:
            what = (
                "one array is larger than the device allows" if most else "the device has no memory for one more array"
            )
            return Failure(found.number, what, length, batch, wanted, most, flags=_LESS)
        if "short" in found.says:
            most = plain(run.last("most_mb"))
            limit = ("sysctl iogpu.wired_limit_mb=N, higher",)
            what = "what is computed together does not fit into the memory"
            available = None if most is None else most * _MB
            return Failure(found.number, what, length, batch, None, available, flags=(*_LESS, *limit))
    return None


FORM = LogForm(_LINES, _said, _expect, failure=_failure, pooled=False)
