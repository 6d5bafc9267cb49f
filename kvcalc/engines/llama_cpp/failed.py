"""Starts of llama.cpp that failed since a device had no memory for the cache, for the weights or for computing.

Sources: `ggml/src/ggml-alloc.c`, `ggml-backend.cpp`, `ggml-cuda.cu` and `ggml-metal`, `src/llama-kv-cache*.cpp`,
`src/llama-context.cpp` and `src/llama-model.cpp`; logs that people posted: ggml-org/llama.cpp#8101, #26297,
abetlen/llama-cpp-python#1944, ikawrakow/ik_llama.cpp#749, ollama/ollama#6860, #8597.
"""

from kvcalc.engines.allocation import rank_bytes
from kvcalc.engines.log_form import MIB, Failure, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import digits, plain
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["FAILURES", "failure"]

FAILURES = (
    line("buffer of size", r"failed to allocate (?:(?P<on>\S{1,40}) )?buffer of size (?P<refused>\d+)"),
    line("allocation of size", r"Device memory allocation of size (?P<refused>\d+) failed"),
    line("failed: out of memory", r"allocating (?P<refused_mib>[\d.]+) MiB on device (?P<on>\d{1,3}): \w{1,40} failed"),
    line("insufficient memory (attempted", r"attempted to allocate +(?P<refused_mib>[\d.]+) MB"),
    line("failed to allocate buffer, size =", r"failed to allocate buffer, size = +(?P<refused_mib>[\d.]+) MiB"),
    line("buffer for kv cache", r"(?P<kv_refused>failed to allocate buffer for kv cache)", "failure"),
    line("failed for self-attention cache", r"(?P<kv_refused>failed for self-attention cache)", "failure"),
    line("allocate compute buffers", r"(?P<compute_refused>failed to allocate compute buffers)", "failure"),
    line("compute buffer allocation failed, retrying", r"(?P<retried>compute buffer allocation failed, retrying)"),
    line("error loading model: unable to allocate", r"(?P<weights_refused>unable to allocate) \S{1,40}(?: \w+)? buffer",
         "failure"),
    line("MiB free",
         r"using device (?P<device_free>\S{1,40}) \(.{1,160}?\) - (?P<free_mib>\d{1,9}) MiB free"),
    line("model buffer size", r"(?P<holding>\S{1,40}) model buffer size = +(?P<weights_mib>[\d.]+) MiB"),
)  # fmt: skip

_PADDING = 256  # cells of a cache come in multiples of this
_QUANTISED = "-ctk q8_0 -ctv q8_0"
_SMALLER = ("-ub N, smaller", "-c N, smaller", _QUANTISED, "-ngl N, fewer layers on the GPU")
_LIGHTER = ("-ngl N, fewer layers on the GPU", "a file in fewer bits")
_ELSEWHERE = "-nkvo (the cache in the host's memory)"


def failure(question: Question | None, run: StartLog) -> Failure | None:
    """Why the start failed, by the first line that says so and is not mended by another attempt."""
    refused: MatchedLine | None = None
    failed: Failure | None = None
    for found in run.found:
        says = found.says
        if "refused" in says or "refused_mib" in says:
            refused = found
        if "retried" in says:
            failed = None
        elif failed is None and "kv_refused" in says:
            failed = _no_cache(question, run, found, refused)
        elif failed is None and "compute_refused" in says:
            failed = _other(found, refused, "no memory for computing, beside weights and cache", _SMALLER)
        elif failed is None and "weights_refused" in says:
            failed = _other(found, refused, "no memory for the weights", _LIGHTER)
    return failed


def _other(found: MatchedLine, refused: MatchedLine | None, what: str, flags: tuple[str, ...]) -> Failure:
    return Failure(found.number, what, needed=None if refused is None else _size(refused), flags=flags)


def _size(refused: MatchedLine) -> int | None:
    """Bytes of the buffer that was asked for."""
    whole = plain(refused.says.get("refused"))
    printed = digits(refused.says.get("refused_mib"), 2)
    return whole if whole is not None or printed is None else printed.whole(MIB)


def _no_cache(question: Question | None, run: StartLog, found: MatchedLine, refused: MatchedLine | None) -> Failure:
    """The cache has no room. What there was is known where the log says what was free before the weights."""
    needed = None if refused is None else _size(refused)
    where = "" if refused is None or not refused.says.get("on") else f" on {_device(refused.says['on'])}"
    available = None if refused is None else _left(run, _device(refused.says.get("on") or "CPU"))
    length = sequences = longest = batch = None
    if question is not None:
        length, sequences = question.request.context, question.sequences
        if available is not None:
            longest, batch = _fitting(question, run, available)
    total = None if length is None or sequences is None else length * sequences
    what = f"no memory for the cache{where}" + (f" of {total:,} tokens" if total else "")
    shorter = f"-c {longest * (sequences or 1)}" if longest else "-c N, smaller"
    flags = (shorter, _QUANTISED, *(("-np N, fewer slots",) if sequences and sequences > 1 else ()), _ELSEWHERE)
    return Failure(found.number, what, length, sequences, needed, available, longest, batch, flags)


def _device(name: str) -> str:
    return f"CUDA{name}" if name.isdecimal() else name


def _left(run: StartLog, device: str) -> int | None:
    """What the weights left of a device."""
    free = next((plain(each.says["free_mib"]) for each in run.found if each.says.get("device_free") == device), None)
    if free is None:
        return None
    held = [each.get("weights_mib", 2) for each in run.found if each.says.get("holding") == device]
    return free * MIB - sum(printed.whole(MIB) for printed in held if printed is not None)


def _fitting(question: Question, run: StartLog, available: int) -> tuple[int | None, int | None]:
    """The longest context of each of the sequences, and the most sequences of the length, that fit on the device."""

    def fits(sequences: int, tokens: int) -> bool:
        settings = {key: value for key, value in question.settings.items() if key not in ("n_ctx", "n_seq_max")}
        try:
            asked = question._replace(settings=settings).at(sequences, tokens)
            return rank_bytes(run.engine.allocate(asked)) <= available
        except KvcalcError:
            return False

    asked, length = question.sequences, question.request.context
    low, high = 0, length // _PADDING
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(asked, middle * _PADDING) else (low, middle - 1)
    fewest, most = 0, asked
    while fewest < most:
        middle = (fewest + most + 1) // 2
        fewest, most = (middle, most) if fits(middle, length) else (fewest, middle - 1)
    return low * _PADDING or None, fewest
