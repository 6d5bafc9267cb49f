"""A server's metrics: what its pool holds, what still fits, and what keeps requests waiting."""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError, shown
from kvcalc.queries.check import CheckQuestion
from kvcalc.queries.options import EngineChoice, Memory, Workload
from kvcalc.queries.size import SizeQuestion
from kvcalc.queries.size import answer as size_answer
from kvcalc.queries.source import Source, load_model
from kvcalc.sources.metrics import Metrics

__all__ = ["Lengths", "MetricsAnswer", "Room", "answer"]

_FULL = 0.95  # of the pool: the next requests wait for memory


class Lengths(NamedTuple):
    """Mean tokens of requests that were answered: between two snapshots, else since the server began."""

    input: float | None
    output: float | None

    @property
    def words(self) -> str | None:
        """As `plan` and `simulate` take them."""
        if self.input is None or self.output is None:
            return None
        return f"--input {max(1, round(self.input))} --output {max(1, round(self.output))}"


class Room(NamedTuple):
    """Tokens that the card has room for, by the memory split of every verb, with what its estimates leave open."""

    tokens: int
    low: int
    high: int


class MetricsAnswer(NamedTuple):
    """What one snapshot or two say.

    Attributes:
        engine: Whose metrics they are.
        model_name: The model as the server calls it.
        model: The preset of that name, or the model that the asker named.
        engines: How many engines of one server report.
        pool_tokens: Tokens that the pools of all of them hold.
        predicted: What the card has room for, where card and model are known.
        used_tokens: Tokens of requests that run; cached blocks that nobody uses are free.
        running: Sequences that run.
        waiting: Requests in the queue.
        more_mean: Sequences of the mean length that still fit.
        binding: `kv` or `compute`: what keeps requests waiting; None where nothing does.
        preemptions: Between two snapshots, else since the server began.
        prefix_hit_rate: The share of the tokens that were looked for.
        lengths: Mean tokens of requests.
        requests: Answered requests, between two snapshots or since the beginning.
        between: Whether two snapshots were compared.
        seconds: How far they are apart, where somebody said.
    """

    engine: str
    model_name: str | None
    model: Model | None
    engines: int
    pool_tokens: int | None
    predicted: Room | None
    used_tokens: int | None
    running: int | None
    waiting: int | None
    more_mean: int | None
    binding: Literal["kv", "compute"] | None
    preemptions: int | None
    prefix_hit_rate: float | None
    lengths: Lengths
    requests: int | None
    between: bool
    seconds: float | None
    warnings: tuple[str, ...]


class _Names(NamedTuple):
    """What an engine calls its metrics: later names first, since older versions have others."""

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    usage: tuple[str, ...]
    used: tuple[str, ...] = ()
    preemptions: tuple[str, ...] = ()
    hits: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()  # in place of queries
    hit_rate: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()


# vLLM vllm/v1/metrics/loggers.py, SGLang sglang/srt/metrics/collector.py, TensorRT-LLM
# tensorrt_llm/metrics/collector.py (served at /prometheus/metrics, not at /metrics), llama.cpp tools/server/README.md.
_ENGINES = {
    "vllm": _Names(
        ("vllm:num_requests_running",), ("vllm:num_requests_waiting",),
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), (),
        ("vllm:num_preemptions_total", "vllm:num_preemptions"),
        ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"), (), (),
        ("vllm:request_prompt_tokens_sum",), ("vllm:request_generation_tokens_sum",),
        ("vllm:request_generation_tokens_count",),
    ),
    "sglang": _Names(
        ("sglang:num_running_reqs",), ("sglang:num_queue_reqs",), ("sglang:token_usage",), ("sglang:num_used_tokens",),
        (), (), (), (),
        ("sglang:cache_hit_rate",), ("sglang:prompt_tokens_total",), ("sglang:generation_tokens_total",),
        ("sglang:num_requests_total",),
    ),
    "tensorrt-llm": _Names(
        ("trtllm_num_requests_running",), ("trtllm_num_requests_waiting",), ("trtllm_kv_cache_utilization",), (), (),
        ("trtllm_kv_cache_reused_blocks_total",), (), ("trtllm_kv_cache_missed_blocks_total",),
        ("trtllm_kv_cache_hit_rate",), ("trtllm_prompt_tokens_total",), ("trtllm_generation_tokens_total",),
        ("trtllm_request_success_total",),
    ),
    "llama.cpp": _Names(
        ("llamacpp:requests_processing",), ("llamacpp:requests_deferred",), ("llamacpp:kv_cache_usage_ratio",),
        ("llamacpp:kv_cache_tokens",),
    ),
}  # fmt: skip


def answer(
    first: Metrics, later: Metrics | None, seconds: float | None, question: CheckQuestion, file: str
) -> MetricsAnswer:
    """Read what the snapshots say, the later one of the present. Raises KvcalcError for metrics of no engine."""
    now = later or first
    name = next((name for name, names in _ENGINES.items() if now.named(*names.running)), None)
    if name is None:
        raise KvcalcError(
            f"{file}: no metric of {', '.join(_ENGINES)} is in it", "the text of the server's own /metrics"
        )
    names, before = _ENGINES[name], None if later is None else first
    counted = _counter(now, before, file)
    warnings: list[str] = []
    model_name, model = _model(now, names, question, warnings)
    pool, used = _pool(name, now, names)
    running = _whole(now.total(*names.running))
    mean = None if not running or used is None else used / running
    requests = counted(*names.requests)
    hits = counted(*names.hits)
    missed = counted(*names.missed)
    queries = counted(*names.queries) if missed is None or hits is None else hits + missed
    preempted = _whole(counted(*names.preemptions))
    return MetricsAnswer(
        engine=name,
        model_name=model_name,
        model=model,
        engines=max(1, len(now.named(*names.running))),
        pool_tokens=pool,
        predicted=_predicted(name, now, model, question, warnings),
        used_tokens=used,
        running=running,
        waiting=_whole(now.total(*names.waiting)),
        more_mean=None if pool is None or used is None or not mean else int((pool - used) // mean),
        binding=_binding(now, names, preempted if before is not None else 0),
        preemptions=preempted,
        prefix_hit_rate=hits / queries if queries and hits is not None else now.mean(*names.hit_rate),
        lengths=Lengths(*(_per(counted(*which), requests) for which in (names.input, names.output))),
        requests=_whole(requests),
        between=before is not None,
        seconds=seconds if before is not None else None,
        warnings=tuple(warnings),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _per(total: float | None, count: float | None) -> float | None:
    return total / count if total is not None and count else None


def _counter(now: Metrics, before: Metrics | None, file: str) -> Callable[..., float | None]:
    """What a counter has counted: since the earlier snapshot, else since the server began."""

    def counted(*names: str) -> float | None:
        total = now.total(*names)
        if total is None or before is None:
            return total
        more = total - (before.total(*names) or 0.0)
        if more < 0:
            raise KvcalcError(
                f"{file}: {names[0]} counts less than in the earlier snapshot: the server was started in between",
                "two snapshots of one run, the earlier one first",
            )
        return more

    return counted


def _model(
    now: Metrics, names: _Names, question: CheckQuestion, warnings: list[str]
) -> tuple[str | None, Model | None]:
    name = next((each.labels["model_name"] for each in now.named(*names.running) if "model_name" in each.labels), None)
    if question.model is not None or name is None:
        return name, question.model
    with suppress(KvcalcError):
        if "/" in name and not name.startswith(("/", ".")):
            return name, load_model(Source(name))
    warnings.append(f"no preset is known for {shown(name)}: --model says which it is")
    return name, None


def _pool(engine: str, now: Metrics, names: _Names) -> tuple[int | None, int | None]:
    """Tokens of the pools of all engines, and those of them that are used."""
    if engine == "vllm":  # a label holds the number, and no label names the model
        sizes = [
            int(each.labels["num_gpu_blocks"]) * int(each.labels["block_size"])
            for each in now.named("vllm:cache_config_info")
            if each.labels.get("num_gpu_blocks", "").isdigit() and each.labels.get("block_size", "").isdigit()
        ]
        usage = now.mean(*names.usage)
        pool = sum(sizes) or None
        return pool, None if pool is None or usage is None else round(pool * usage)
    if engine == "tensorrt-llm":
        blocks, each = now.total("trtllm_kv_cache_max_blocks"), now.mean("trtllm_kv_cache_tokens_per_block")
        held, usage = now.total("trtllm_kv_cache_used_blocks"), now.mean(*names.usage)
        pool = round(blocks * each) if blocks and each else None
        if held is not None and each:
            return pool, round(held * each)
        return pool, None if pool is None or usage is None else round(pool * usage)
    used, usage = now.total(*names.used), now.mean(*names.usage)
    pool = round(used / usage) if used and usage else None
    return pool, _whole(used)


def _binding(now: Metrics, names: _Names, preempted: int | None) -> Literal["kv", "compute"] | None:
    """The memory, where it is full or requests were taken off for it; else what waits, waits to be computed."""
    usage, waiting = now.mean(*names.usage), now.total(*names.waiting)
    if preempted or (waiting and usage is not None and usage >= _FULL):
        return "kv"
    return "compute" if waiting else None


def _predicted(
    engine: str, now: Metrics, model: Model | None, question: CheckQuestion, warnings: list[str]
) -> Room | None:
    """What the card has room for by the memory split of every verb."""
    if question.gpu is None:
        return None
    if model is None:
        raise KvcalcError("--gpu: says how much fits only beside a model", "add --model MODEL")
    if len(model.distinct_caches) > 1:
        warnings.append(f"the pool of {model.name} has caches of several kinds: its tokens are not compared")
        return None
    labels = next((each.labels for each in now.named("vllm:cache_config_info")), {})
    share, block = labels.get("gpu_memory_utilization"), labels.get("block_size", "")
    fraction = Fraction.parse(share, "gpu_memory_utilization") if share else None
    asked = SizeQuestion(
        Source(model),
        question.workload if question.workload.context else Workload(context=1024, batch=1),
        question.form,
        question.split,
        Memory(gpu=question.gpu, utilization=fraction),
        EngineChoice(question.engine or engine, question.words or None, int(block) if block.isdigit() else None),
    )
    fit = size_answer(asked).fit
    if fit is None or fit.capacity_tokens is None:
        return None
    memory, tokens = fit.memory, fit.capacity_tokens
    ends = (memory.kv_budget_low, memory.kv_budget_high)
    low, high = (tokens if end is None else max(0, tokens * end // memory.kv_budget) for end in ends)
    return Room(tokens, low, high)
