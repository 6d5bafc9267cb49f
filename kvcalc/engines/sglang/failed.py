"""What SGLang's pool is cut from, and starts that failed since there was too little of it. Its GB is 2^30 bytes.

Sources: `_profile_available_bytes` and its message in `srt/mem_cache/kv_cache_configurator.py` and, before that,
`srt/model_executor/model_runner.py`; logs that people posted: sgl-project/sglang#322, #4330, #7691.
"""

from kvcalc.core.units import ceil_div
from kvcalc.engines.log_form import GIB, Failure, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import Printed, digits, plain
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["FAILURES", "Memory", "failure"]

FAILURES = (
    line("Not enough memory. Please try",
         r"(?P<too_little>Not enough memory)\. Please try \w{1,20}(?: \w{1,20})? --mem-fraction-static"
         r"(?:.{0,80}?mem_fraction_static=(?P<mem_fraction_static>[01]?\.\d{1,6}))?", "failure"),
    line("larger than the profiled value",
         r"max_total_tokens=(?P<max_total_tokens>\d+) is larger than the profiled value (?P<profiled>-\d+)", "failure"),
    line("out of memory", r"CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+) (?P<tried_unit>[KMGT]iB)"),
)  # fmt: skip


class Memory:
    """What the pool of a replica is cut from: free memory behind the weights, less a share of that before them.

    `_profile_available_bytes` in kv_cache_configurator.py takes the least of all ranks; images and drafts come off too.
    """

    def __init__(self, run: StartLog) -> None:
        self.run = run
        self.share = digits(run.last("mem_fraction_static"), 3)
        self.most = plain(run.last("max_total_tokens"))
        self.free: dict[tuple[str, str, str], Printed] = {}  # by name, replica and rank

    def read(self, found: MatchedLine) -> None:
        for name in ("before_gb", "after_gb"):
            printed = found.get(name, 2)
            key = name, found.stream, found.rank
            if printed is not None and not (name == "before_gb" and key in self.free):  # a draft's is a later one
                self.free[key] = printed

    def budgets(self, stream: str) -> tuple[int, int, int] | None:
        """The least, the likely and the largest number of bytes, as far as printed digits say."""
        if self.run.budget is not None:
            return (self.run.budget,) * 3
        before, after = (self.least(name, stream) for name in ("before_gb", "after_gb"))
        if before is None or after is None or self.share is None:
            return None
        of = 10**self.share.places
        kept = max(of - self.share.value, 0)
        giga = self.run.giga
        (first, last), (low, high) = before.bounds(giga), after.bounds(giga)
        budgets = (
            low - last * kept // of,
            after.whole(giga) - before.whole(giga) * kept // of,
            high - first * kept // of,
        )
        return None if budgets[2] <= 0 else (max(budgets[0], 0), max(budgets[1], 0), budgets[2])

    def least(self, name: str, stream: str) -> Printed | None:
        return min((free for key, free in self.free.items() if key[:2] == (name, stream)), default=None)


_LESS = ("--tp-size N", "weights in fewer bits (--quantization, another checkpoint)")


def failure(question: Question | None, run: StartLog) -> Failure | None:
    """Why the start failed, by the first line that says so."""
    memory = Memory(run)
    for found in run.found:
        memory.read(found)
        says = found.says
        if "too_little" in says or "profiled" in says or (plain(says.get("full_layer_tokens")) or 0) < 0:
            return _too_little(question, memory, found, run)
        if "tried" in says and any("tried" not in each.says for each in run.found):  # of an engine, not of any program
            return Failure(
                found.number,
                f"the GPU had no {says['tried']} {says['tried_unit']} left for one more tensor",
                flags=("--mem-fraction-static F, lower", "--chunked-prefill-size N", "--cuda-graph-max-bs N", *_LESS),
            )
    return None


def _too_little(question: Question | None, memory: Memory, found: MatchedLine, run: StartLog) -> Failure:
    """The share of the memory for weights and cache is smaller than the weights and what else was there."""
    needed, cell, length = _needed(question, run)
    free = memory.least("after_gb", found.stream)
    before = memory.least("before_gb", found.stream) or _before(free, digits(run.last("taken_gb"), 2))
    profiled = plain(found.says.get("profiled"))
    available = None if profiled is None or cell is None else profiled * cell
    if available is None and free is not None and before is not None and memory.share is not None:
        of = 10**memory.share.places
        available = free.whole(GIB) - before.whole(GIB) * max(of - memory.share.value, 0) // of
    what = "nothing is left for the cache"
    if available is not None and available < 0:
        what = f"weights and overheads take {-available / GIB:.2f} GiB more than --mem-fraction-static allows"
    elif available:
        what = "nothing is left for the cache, though the weights leave some: something else takes memory, as drafts do"
    least = _least_share(free, before, needed or 0)
    higher = f"--mem-fraction-static {least}" if least else "--mem-fraction-static F, higher"
    flags = (higher, *_LESS)
    return Failure(found.number, what, length, 1 if length else None, needed, available, 0, 0, flags)


def _needed(question: Question | None, run: StartLog) -> tuple[int | None, int | None, int | None]:
    """Bytes of one request, and of one token, and how long it may be."""
    if question is None:
        return None, None, None
    length = question.request.context
    try:
        values = run.engine.allocate(question.at(1, length)).values
    except KvcalcError:
        return None, None, length
    block, size = values["block_size"], values["bytes_per_block"]
    assert isinstance(block, int)
    assert isinstance(size, int)
    return ceil_div(length, block) * size, size // block, length


def _before(free: Printed | None, taken: Printed | None) -> Printed | None:
    """What was free before the weights came."""
    return None if free is None or taken is None else Printed(free.value + taken.value, free.places)


def _least_share(free: Printed | None, before: Printed | None, needed: int) -> str | None:
    """The share with which one request would fit: what is free behind the weights, less it, may stay outside."""
    if free is None or before is None or before.value <= 0 or free.whole(GIB) <= needed:
        return None
    outside = (free.whole(GIB) - needed) * 1000 // before.whole(GIB)
    return f"{(1000 - outside) / 1000:.3f}" if outside > 0 else None
