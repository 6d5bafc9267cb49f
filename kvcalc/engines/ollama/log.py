"""How the log of an Ollama server reads: its own lines, and those of the llama-server that it starts.

Sources: llm/llama_server.go, server/routes.go and envconfig/config.go of Ollama fb3076099; for the engine of its own
before 0.30 ml/device.go and runner/ollamarunner/runner.go of 0.11 to 0.24; logs that people posted.
"""

from collections.abc import Iterator, Sequence

from kvcalc.engines.llama_cpp.log import LINES, TERMS, flash_of, metadata_of
from kvcalc.engines.log_form import LogFacts, LogForm, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.ollama.check import expect
from kvcalc.engines.ollama.failed import FAILURES, failure
from kvcalc.engines.ollama.variations import PARALLEL, variations, ways
from kvcalc.engines.ollama.versions import VERSIONS

__all__ = ["FORM"]

_OWN = (
    line("Listening on", r"Listening on \S{3,60} \(version (?P<version>[^)\s]{1,60})\)", "lasting"),
    line("server config", r"OLLAMA_KV_CACHE_TYPE:(?P<kv_type>\w*)", "lasting"),
    line("msg=load request", r"Parallel:(?P<parallel>\d+) BatchSize:(?P<batch>\d+) FlashAttention:(?P<flash>\w+) "
         r"KvSize:(?P<kv_size>\d+) KvCacheType:(?P<k_type>\w+)?"),
    line("architecture=", r'architecture=\w+ file_type=\S+ name=(?P<name>[^\s"]{1,120}|"[^"]{1,120}")'),
    *FAILURES,
    line('"kv cache"', r'device=(?P<own>\S{1,60}) size="(?P<own_size>[\d.]+) (?P<own_unit>[KMGT]iB)"', "count"),
)  # fmt: skip


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
    sequences = next(filter(None, (plain(run.last(name)) for name in PARALLEL)), 1)
    yield "OLLAMA_NUMPARALLEL", str(sequences)
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


def _claims(found: Sequence[MatchedLine]) -> bool:
    return any("ollama" in each.says or "own" in each.says or "wanted" in each.says for each in found)


FORM = LogForm(
    (*LINES, *_OWN), _said, expect, ways, variations, failure, _claims, pooled=False, sorted=False, terms=TERMS
)
