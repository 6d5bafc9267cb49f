"""The answer as a tree of plain values, key by key as `views.types` has it: --get picks from it, CSV flattens it."""

from collections.abc import Iterable, Iterator, Mapping

from kvcalc.core.sizing import Textbook
from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["flat", "pick", "picked"]

# Keys of a plan's option that --get knows although there may be none.
_OF_A_PLAN = (
    "gpu", "gpus", "tp", "pp", "dp", "dcp", "ep", "kv_dtype", "weights_dtype", "users", "max_batch", "max_context",
    "capacity_tokens", "kv_budget_bytes_per_gpu", "headroom", "binding", "command", "price_per_hour", "engine_flags",
    "tight", "machines", "tpot_seconds", "ttft_seconds", "prefill_seconds", "requests_per_second",
    "max_requests_per_second", "cost_per_million_tokens",
)  # fmt: skip


def picked(document: Mapping[str, object], paths: Iterable[str]) -> list[object]:
    """The values at some paths, in their order; where a path has a *, those of each entry of that list.

    Raises KvcalcError for a path that is not there.
    """
    return [value for path in paths for value in _each(document, path)]


def _each(document: Mapping[str, object], path: str) -> list[object]:
    before, star, _ = f".{path}.".partition(".*.")
    if not star:
        return [pick(document, path)]
    among = pick(document, before[1:])
    if not isinstance(among, list):
        raise KvcalcError(f"--get: {shown(path)} asks for each entry of {shown(before[1:])}, which is no list")
    return [value for i in range(len(among)) for value in _each(document, f"{before[1:]}.{i}{path[len(before) + 1 :]}")]


def pick(document: Mapping[str, object], path: str) -> object:
    """The value at a dotted path; a number picks from a list. Raises KvcalcError for a path that is not there."""
    value: object = dict(document)
    for i, part in enumerate(parts := path.split(".")):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        elif value is None and parts[:1] == ["textbook"] and part in Textbook._fields:
            return None  # a model without attention has no textbook size
        elif value is None and parts[0] == "best" and part in _OF_A_PLAN:
            return None  # no plan: a script sees that from the exit status
        elif value is None and parts[0] == "fit" and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs a budget", "add --vram SIZE or --kv-memory SIZE")
        elif value is None and parts[0] in ("memory", "seconds", "prefix") and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs a GPU", "add --gpu NAME")
        elif value is None and parts[0] == "engine" and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs an engine", "add --engine NAME")
        else:
            close = nearest(path, known := [key for key, _ in flat(document)])
            raise KvcalcError(
                f"--get: no value is called {shown(path)}",
                f"did you mean {' or '.join(close)}?" if close else f"such as {', '.join(known[:3])}; --json shows all",
            )
    return value


def flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every single value with its dotted path, lists left out; what is null as a whole is null in each of its parts.

    So the columns of CSV are the same for every model and question.
    """
    for key, value in values.items():
        path = prefix + key
        if value is None and path in _PARTS:
            yield from ((f"{path}.{part}", None) for part in _PARTS[path])
        elif isinstance(value, dict):
            yield from flat(value, f"{path}.")
        elif not isinstance(value, list):
            yield path, value


_PARTS = {
    "memory": ("vram_bytes_per_gpu", "utilization", "weights_bytes_per_gpu", "kv_budget_bytes_per_gpu", "fits"),
    "seconds": (
        *(f"{of}.{part}" for of in ("token", "generation") for part in ("with_cache", "without_cache", "ratio")),
        "ridge_tokens", "saves_time", "tokens_whose_cache_equals_weights",
    ),
    "prefix": (
        "tokens", "bytes", "recompute_seconds", "recompute_seconds_per_token", "break_even_bytes_per_second",
        "gpu_prompts", "gpu_tokens",
    ),
    "textbook": Textbook._fields,
    "engine": ("name", "version", "reserved_bytes_total", "reserved_bytes_per_gpu"),
    "fit": (
        "vram_bytes_per_gpu", "memory_source", "gpus", "utilization", "weights_bytes_per_gpu",
        "weights_on_host_bytes_per_gpu", "overhead_bytes_per_gpu",
        "overheads_of", "kv_budget_bytes_per_gpu",
        "kv_budget_bytes_per_gpu_low", "kv_budget_bytes_per_gpu_high", "kv_bytes_per_gpu", "max_batch", "max_context",
        "capacity_tokens", "fits",
        "binding", "context_binding", "gpus_for_weights",
    ),
}  # fmt: skip
