"""Starts of vLLM that failed for want of memory: what was asked, what there was, what would start.

Sources: the messages of `v1/core/kv_cache_utils.py`, `v1/worker/gpu_worker.py`, `v1/worker/utils.py` and
`v1/worker/gpu_model_runner.py`; before V1 `executor/executor_base.py` and `worker/worker.py`; PyTorch's allocator. Logs
that people posted: vllm-project/vllm#2418, #10517, #16118, QwenLM/Qwen3#295, OpenRLHF/OpenRLHF#336.
"""

from kvcalc.engines.log_form import GIB, Failure, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import Printed, digits, plain
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.check import Reader, fitting, width
from kvcalc.errors import KvcalcError

__all__ = ["FAILURES", "failure"]

_TOO_LITTLE = (
    r"max seq len \((?P<length>\d+)\), \(?(?P<needed>[\d.]+) GiB KV cache is needed"
    r".{1,120}?\((?P<available>-?[\d.]+) GiB\)(?:.{1,120}?maximum model length is (?P<longest>\d+))?"
)
_TOO_LONG = (
    r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache "
    r"\((?P<stored>\d+)\)"
)
_NOT_FREE = (
    r"Free memory on device.{0,24}?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired GPU "
    r"memory utilization \((?P<share>[\d.]+), (?P<desired>[\d.]+) GiB\)"
)
OUT_OF_MEMORY = r"CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+) (?P<tried_unit>[KMGT]iB)"

FAILURES = (
    line("KV cache", _TOO_LITTLE, "count"),
    line("max seq len", _TOO_LONG, "failure"),
    line("memory for the cache blocks", r"(?P<no_blocks>No available memory for the cache blocks)", "failure"),
    line("Free memory on device", _NOT_FREE, "failure"),
    line(
        "warming up sampler", r"out of memory occurred when warming up sampler with (?P<dummies>\d+) dummy", "failure"
    ),
    line("out of memory", OUT_OF_MEMORY),
    line("total_gpu_memory", r"total_gpu_memory[ =]\(?(?P<total>[\d.]+) ?GiB"),
    line("gpu_memory_utilization", r"gpu_memory_utilization['\"]?[ =:]+\(?(?P<share>[01]?\.\d{1,6})"),
)

_TP = "--tensor-parallel-size N"
_LESS = (_TP, "weights in fewer bits (--quantization, another checkpoint)")


def failure(question: Question | None, run: StartLog) -> Failure | None:
    """Why the start failed, by the first line that says so."""
    reader = None if question is None else Reader(question, run)
    for found in run.found:
        if reader is not None and "available" in found.says:
            reader.memory(found)
        if reader is not None and (blocks := found.get("num_blocks")) is not None:
            reader.blocks[found.stream] = blocks.value
        says = found.says
        if "stored" in says or "needed" in says:
            return _too_long(reader, found)
        if "no_blocks" in says:
            return _no_blocks(reader, found, run)
        if "desired" in says:
            return _not_free(found)
        if "dummies" in says:
            what = f"the sampler found no memory for {plain(says['dummies']) or 0:,} sequences"
            return Failure(found.number, what, flags=("--max-num-seqs N", "--gpu-memory-utilization F, lower"))
        if "tried" in says and any(
            "tried" not in each.says for each in run.found
        ):  # of an engine, and not of any program
            return Failure(
                found.number,
                f"the GPU had no {says['tried']} {says['tried_unit']} left for one more tensor",
                flags=("--max-num-batched-tokens N", "--max-num-seqs N", *_LESS),
            )
    return None


def _too_long(reader: Reader | None, found: MatchedLine) -> Failure:
    """One request does not fit."""
    length, stored = plain(found.says.get("length")), plain(found.says.get("stored"))
    longest = plain(found.says.get("longest")) or stored
    needed, available = (_bytes(found, name) for name in ("needed", "available"))
    if reader is not None and length:
        needed, available, longest = _measured(reader, found, length, stored, (needed, available, longest))
    what = "one request of the asked length does not fit" if length is None else f"no room for {length:,} tokens"
    flags = ("--gpu-memory-utilization F, higher", "--kv-cache-dtype fp8", _TP)
    shorter = () if not longest else (f"--max-model-len {longest}",)
    return Failure(found.number, what, length, 1, needed, available, longest, 0, (*shorter, *flags))


def _bytes(found: MatchedLine, name: str) -> int | None:
    printed = found.get(name, 2)
    return None if printed is None else printed.whole(GIB)


_Measured = tuple[int | None, int | None, int | None]


def _measured(reader: Reader, found: MatchedLine, length: int, stored: int | None, said: _Measured) -> _Measured:
    """What is needed and available, and the longest request that fits, by the rules of the version."""
    needed, available, longest = said
    try:
        allocation = reader.allocate(length, whole=stored is not None)
        per_sequence, block = allocation.values["blocks_per_sequence"], allocation.values["block_size"]
        assert isinstance(per_sequence, int)
        assert isinstance(block, int)
        needed = per_sequence * width(allocation) if needed is None else needed
        if stored is not None:
            return needed, stored // block * width(allocation), stored
        budget = reader.budget(found.stream, allocation)
        if budget is not None:
            available = budget.middle if available is None else available
            longest = longest or fitting(reader, max(budget.low, 0), length) or None
    except KvcalcError:  # no rule: what the log says is all
        pass
    return needed, available, longest


def _no_blocks(reader: Reader | None, found: MatchedLine, run: StartLog) -> Failure:
    """Weights and what else there is left nothing."""
    printed = digits(run.last("available"), 2)
    available = None if printed is None else printed.whole(GIB)
    what = "nothing is left for the cache"
    if printed is not None and printed.value < 0:
        what = f"weights and overheads take {_decimal(printed)} GiB more than --gpu-memory-utilization allows"
    needed, length = None, None
    if reader is not None:
        length = reader.question.request.context
        try:
            allocation = reader.allocate(length)
            per_sequence = allocation.values["blocks_per_sequence"]
            assert isinstance(per_sequence, int)
            needed = per_sequence * width(allocation)
        except KvcalcError:
            needed = None
    share = _share(run, (needed or 0) - (available or 0)) if available is not None else None
    batched = "--max-num-batched-tokens N"
    higher = f"--gpu-memory-utilization {share}" if share else "--gpu-memory-utilization F, higher"
    return Failure(
        found.number, what, length, 1 if length else None, needed, available, 0, 0, (higher, batched, *_LESS)
    )


def _decimal(printed: Printed) -> str:
    return f"{abs(printed.value) / 10**printed.places:.{printed.places}f}"


def _share(run: StartLog, short: int) -> str | None:
    """The share of the memory with which the missing bytes would be there, where the log says what there is in all."""
    total, share = digits(run.last("total"), 2), digits(run.last("share"), 2)
    if total is None or share is None or total.value <= 0:
        return None
    wanted = share.whole(10**4) + -(-short * 10**4 // total.whole(GIB))
    return f"{wanted / 10**4:.4f}" if wanted <= 9900 else None


def _not_free(found: MatchedLine) -> Failure:
    """Other processes hold the memory, or did when the engine looked."""
    free, total, desired = (_bytes(found, name) for name in ("free", "total", "desired"))
    flags: tuple[str, ...] = ("end what else runs on the GPU",)
    if free is not None and total:
        flags = (f"--gpu-memory-utilization {free * 100 // total / 100:.2f}", *flags)
    what = f"{found.says['free']} of {found.says['total']} GiB are free, and {found.says['desired']} GiB were asked for"
    return Failure(found.number, what, needed=desired, available=free, flags=flags)
