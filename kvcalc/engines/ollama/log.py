"""How the log of an Ollama server reads: its own lines, and those of the llama-server that it starts.

Sources: llm/llama_server.go, server/routes.go and envconfig/config.go of Ollama fb3076099; for the engine of its own
before 0.30 ml/device.go and runner/ollamarunner/runner.go of 0.11 to 0.24; logs that people posted.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from kvcalc.engines.base import Question, rank_bytes
from kvcalc.engines.llama_cpp import check as llama
from kvcalc.engines.llama_cpp import failed
from kvcalc.engines.llama_cpp.log import LINES, flash_of, metadata_of
from kvcalc.engines.llama_cpp.readings import rows
from kvcalc.engines.log_form import (
    GIB,
    MIB,
    Expected,
    Failure,
    LogFacts,
    LogForm,
    MatchedLine,
    StartLog,
    Variation,
    Way,
    Ways,
    line,
    plain,
)
from kvcalc.engines.ollama.engine import server_question
from kvcalc.engines.ollama.versions import VERSIONS, Version
from kvcalc.errors import KvcalcError

__all__ = ["FORM"]

_OWN = (
    line("Listening on", r"Listening on \S{3,60} \(version (?P<version>[^)\s]{1,60})\)", "lasting"),
    line("server config", r"OLLAMA_KV_CACHE_TYPE:(?P<kv_type>\w*)", "lasting"),
    line("msg=load request", r"Parallel:(?P<parallel>\d+) BatchSize:(?P<batch>\d+) FlashAttention:(?P<flash>\w+) "
         r"KvSize:(?P<kv_size>\d+) KvCacheType:(?P<k_type>\w+)?"),
    line("architecture=", r'architecture=\w+ file_type=\S+ name=(?P<name>[^\s"]{1,120}|"[^"]{1,120}")'),
    line("system memory (",
         r"requires more system memory \((?P<wanted>[\d.]+) (?P<wanted_unit>[KMGT]iB)\) than is available "
         r"\((?P<there>[\d.]+) (?P<there_unit>[KMGT]iB)\)", "failure"),
    line("too large for system", r"requested=\"?(?P<wanted>[\d.]+) (?P<wanted_unit>[KMGT]iB)\"?(?: |.{0,80}? )"
         r"available=\"?(?P<there>[\d.]+) (?P<there_unit>[KMGT]iB)", "failure"),
    line('"kv cache"', r'device=(?P<own>\S{1,60}) size="(?P<own_size>[\d.]+) (?P<own_unit>[KMGT]iB)"', "count"),
)  # fmt: skip
_UNITS = {"KiB": 2**10, "MiB": MIB, "GiB": GIB, "TiB": 2**40}
_OF_SERVER = ("cells", "kv_mib", "buffer_mib", "rs_mib", "rs_buffer_mib", "kv_refused")
_SMALLER = ("num_ctx N, smaller", "OLLAMA_KV_CACHE_TYPE=q8_0", "OLLAMA_NUM_PARALLEL=1", "num_gpu N, fewer layers")
_PARALLEL = ("n_seq_max", "seqs", "rs_seqs", "parallel", "n_slots")


_FLASH = {"true": "on", "Enabled": "on", "false": "off", "Disabled": "off"}


def _said(run: StartLog) -> LogFacts:
    names = [name.strip('"') for name in (run.last("name"),) if name]
    rules = VERSIONS[0].name if run.last("own") else None
    return LogFacts(
        tuple(names),
        run.last("version"),
        env=dict(_env(run)),
        metadata=metadata_of(run),
        rules=rules,
        open=frozenset() if run.stated("k_type", "kv_type", "parallel") else frozenset({"kv_dtype"}),
    )


def _env(run: StartLog) -> Iterator[tuple[str, str]]:
    """The settings that such a context comes from."""
    sequences = next(filter(None, (plain(run.last(name)) for name in _PARALLEL)), 1)
    yield "OLLAMA_NUM_PARALLEL", str(sequences)
    n_ctx = plain(run.last("n_ctx") or run.last("kv_size") or run.last("kv_cells"))
    cells = plain(run.first("cells"))
    tokens = n_ctx // sequences if n_ctx else cells
    if tokens:
        yield "OLLAMA_CONTEXT_LENGTH", str(tokens)
    if run.stated("k_type", "kv_type", "parallel"):
        yield "OLLAMA_KV_CACHE_TYPE", run.first("k_type") or run.last("kv_type") or "f16"
    flash = flash_of(run, run.first("v_type")) or _FLASH.get(run.last("flash") or "")
    if flash in ("on", "off"):
        yield "OLLAMA_FLASH_ATTENTION", "1" if flash == "on" else "0"
    for name, key in (("batch", "num_batch"), ("n_ubatch", "num_batch"), ("rs_seq", "draft_num_predict")):
        value = run.last(name)
        if value not in (None, "0"):
            yield key, str(value)


def _expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """What Ollama prints for each device, and what its llama-server prints."""
    yield from _own(question, run)
    if any(name in each.says for each in run.found for name in _OF_SERVER):
        version = question.version
        assert isinstance(version, Version)
        build = version.build or rows(run)[-1]  # one inside an older Ollama is known by its lines alone
        yield from llama.expect(server_question(question._replace(version=version._replace(build=build))), run)


def _own(question: Question, run: StartLog) -> Iterator[Expected]:
    """Devices share the cache: what one holds follows from the whole and the others."""
    groups: list[list[MatchedLine]] = []
    for found in run.found:
        if "own" not in found.says:
            continue
        if not groups or any(each.says["own"] == found.says["own"] for each in groups[-1]):
            groups.append([])  # it is told again, once it is loaded
        groups[-1].append(found)
    if not groups:
        return
    try:
        total, why = sum(charge.bytes for charge in run.engine.allocate(question).charges), ""
    except KvcalcError as error:  # nothing to say of it, where the llama-server's lines may follow
        total, why = None, error.message
    for group in groups:
        yield from _devices(group, total, why, run)


def _devices(group: Sequence[MatchedLine], total: int | None, why: str, run: StartLog) -> Iterator[Expected]:
    sizes = [
        (found.number, printed, found.says["own_unit"], _UNITS[found.says["own_unit"]] * run.giga // GIB)
        for found in group if (printed := found.get("own_size", 1)) is not None
    ]  # fmt: skip
    for i, (number, printed, unit, scale) in enumerate(sizes):
        if total is None:
            yield Expected(number, "kv", printed, unit, scale, why=why)
            continue
        others = [(each.whole(by), *each.bounds(by)) for _, each, _, by in (*sizes[:i], *sizes[i + 1 :])]
        whole, low, high = (sum(other[k] for other in others) for k in range(3))
        yield Expected(number, "kv", printed, unit, scale, max(total - high, 0), max(total - whole, 0), total - low)


def _ways(question: Question, run: StartLog, version: str | None) -> Ways:
    """Other versions, and what Ollama settles by the memory: its batch, and whether it drafts."""
    rows = [row for row in reversed(VERSIONS) if row != question.version and version is None]
    batches = (256, 512, 1024, 2048) if not (run.last("n_ubatch") or run.last("batch")) else ()
    found = [
        [Way("version", f"the rules of ollama {row.name}", partial(_at, row)) for row in rows],
        [_knob("num_batch", size, f"num_batch {size}") for size in batches],
        [_knob("drafted", 4, "4 drafted tokens")],
        [_sequences(count) for count in (2, 4) if not run.stated(*_PARALLEL)],
    ]
    return [each for each in found if each]


def _variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:  # noqa: ARG001
    for row in reversed(VERSIONS):
        if row != question.version and version is not None:
            yield Variation(f"the rules of another time, ollama {row.name}", _at(row, question))


def _at(row: Version, question: Question) -> Question:
    return question._replace(version=row)


def _knob(name: str, value: object, words: str) -> Way:
    return Way(name, words, lambda question: question._replace(settings={**question.settings, name: value}))


def _sequences(count: int) -> Way:
    """So many sequences of the whole context."""

    def change(question: Question) -> Question:
        return question.at(count, question.request.context * question.sequences // count)

    return Way("parallel", f"OLLAMA_NUM_PARALLEL={count}", change)


def _failure(question: Question | None, run: StartLog) -> Failure | None:
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
    failure = failed.failure(None, run)
    if failure is None:
        return None
    length = None if question is None else question.request.context
    batch = None if question is None else question.sequences
    return failure._replace(context=length, batch=batch, flags=_SMALLER)


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
    return None if printed is None else printed.whole(_UNITS[found.says[f"{name}_unit"]])


def _claims(found: Sequence[MatchedLine]) -> bool:
    return any("ollama" in each.says or "own" in each.says or "wanted" in each.says for each in found)


FORM = LogForm((*LINES, *_OWN), _said, _expect, _ways, _variations, _failure, _claims, pooled=False, sorted=False)
