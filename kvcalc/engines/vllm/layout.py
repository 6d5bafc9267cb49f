"""vLLM's list of layers: the specs of all caches in order, laid into one pool of blocks."""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.formula import kept, widened
from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Cache, Compressed, Latent, Recurrent
from kvcalc.core.sharding import shard
from kvcalc.engines.placement import restaged
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.groups import Entry, KVCacheGroup, group, widest
from kvcalc.engines.vllm.settings import drafts, settings_of
from kvcalc.engines.vllm.specs import Settings, Spec, blocks_per_sequence, shortest_window, specs_of, window_of
from kvcalc.engines.vllm.versions import Version
from kvcalc.errors import KvcalcError

__all__ = ["Laid", "PlacedSpec", "laid_of", "longest", "stages_of"]


class PlacedSpec(NamedTuple):
    """A cache in vLLM's list of layers: a rank's part, and the whole.

    `draft`: it belongs to a draft. `plain`: it is left out of the format that the others have.
    """

    cache: Cache
    whole: Cache
    draft: bool
    plain: bool


class Laid(NamedTuple):
    """A model laid into vLLM's pool: its caches in order, their groups, and bytes of a block by stage."""

    caches: list[PlacedSpec]
    groups: list[KVCacheGroup]
    widths: list[int]
    settings: Settings

    def blocks(self, each: KVCacheGroup, tokens: int) -> int:
        """Blocks of one sequence in one group."""
        return max(blocks_per_sequence(spec, tokens, self.settings) for spec in each.specs)

    def per_sequence(self, tokens: int) -> int:
        return sum(self.blocks(each, tokens) for each in self.groups)


# Where weights are on the host these assert that a batch is not made again, which several groups need
# (`may_reinitialize_input_batch`, vllm #18298). Public start-ups: 0.11.0 (#26206) to 0.16.0 (#36279); ended by #36461.
_ONE_GROUP = ("0.11.0", "0.11.1", "0.12.0", "0.14.0", "0.15.1", "0.16.0")


def _lay(question: Question, version: Version) -> Laid:
    """The specs of all layers in order, drafts behind them on the last stage, and their groups."""
    settings = settings_of(question, version)
    model, layout = question.request.model, question.request.layout
    _check_contexts(question)
    widen = _without_windows(question)
    entries: list[Entry] = []
    caches: list[PlacedSpec] = []
    placed = zip(question.placement.layers, model.layers, strict=True)
    listed = [(each.position, each.stage, each.caches, whole, False) for each, whole in placed]
    listed += [
        (len(model.layers) + i, layout.pp - 1, tuple(shard(cache, layout) for cache in layer), layer, True)
        for i, layer in enumerate(drafts(question))
    ]
    found: dict[tuple[Cache, bool], tuple[Spec, ...]] = {}
    for position, stage, parts, wholes, draft in listed:
        for cache, whole in zip(parts, wholes, strict=True):
            own = settings.at(position, cache)
            key = widen(cache), own is not settings
            if key not in found:
                found[key] = specs_of(key[0], own)
            for spec in found[key]:
                entries.append(Entry(len(entries), stage, spec))
                caches.append(PlacedSpec(cache, whole, draft, own is not settings))
    if not entries:
        raise KvcalcError("--engine: vllm keeps no cache for this model", "leave it out")
    groups = group(entries, version.close, packed=settings.compressed)
    if question.settings.get("on_host") and len(groups) > 1 and version.name in _ONE_GROUP:
        raise KvcalcError(
            f"--cpu-offload-gb: vllm {version.name} refuses it where caches are of several groups, as {model.name}'s",
            "leave it out, or a newer version",
        )
    return Laid(caches, groups, [widest(groups, stage) for stage in range(layout.pp)], settings)


def laid_of(question: Question, version: Version) -> Laid:
    """The layers of each stage laid into the pool: once for all lengths of a question whose caches were counted, and
    for all cards on which vLLM has the same settings.
    """
    return question.once("laid", lambda: _shared(question, version))


def _shared(question: Question, version: Version) -> Laid:
    alike = question.alike
    if alike is None:
        return _lay(restaged(question, stages_of(question)), version)
    key = settings_of(question, version)
    if key not in alike:
        alike[key] = _lay(restaged(question, stages_of(question)), version)
    laid: Laid = alike[key]
    return laid


def stages_of(question: Question) -> list[int]:
    """Layers of each pipeline stage (`distributed/utils.py: get_pp_indices`).

    Where they do not divide, one more for stages from the last but one backwards; or as VLLM_PP_LAYER_PARTITION says.
    """
    layers, pp = len(question.placement.layers), question.request.layout.pp
    given = question.settings.get("partition")
    if isinstance(given, tuple):
        if len(given) != pp or sum(given) != layers:
            raise KvcalcError(f"VLLM_PP_LAYER_PARTITION: expected {pp} numbers that add up to {layers}, got {given}")
        return list(given)
    least, more = divmod(layers, pp)
    return [least + (pp - 1 - more <= stage < pp - 1) for stage in range(pp)]


def _check_contexts(question: Question) -> None:
    """Decode context parallelism as vLLM starts with it (`config/model.py: verify_with_parallel_config`)."""
    layout, model = question.request.layout, question.request.model
    if layout.dcp == 1:
        return
    for cache in model.distinct_caches:
        if isinstance(cache, Attention) and cache.kv_heads:
            if kept(cache) is not None:
                raise KvcalcError(f"--dcp: vllm cannot spread a model with {cache.pattern} layers", "leave it out")
            most = layout.tp // cache.kv_heads if layout.tp > cache.kv_heads else 1
            if layout.dcp > most or cache.heads // cache.kv_heads % layout.dcp:
                raise KvcalcError(
                    f"--dcp: vllm spreads a context over ranks that hold the same heads: at most {most} at --tp "
                    f"{layout.tp}, and a divisor of {cache.heads // cache.kv_heads}, got {layout.dcp}"
                )


def longest(question: Question) -> int | None:
    """Windows that are switched off cut the length to the window (`config/model.py: _get_and_verify_max_len`)."""
    if question.settings.get("windows", True):
        return None
    return shortest_window(question.request.model)


_UNSEEING = ("ngram", "ngram_gpu", "suffix", "draft_model", "medusa", "mlp_speculator")  # `use_eagle` is false of them


def _without_windows(question: Question) -> Callable[[Cache], Cache]:
    """Windows widened to the whole context where vLLM's manager of several kinds is off (`config/vllm.py`).

    By a flag, by default for chunks until it managed them, and for chunks beside drafts that see the model's hidden
    states. A model without full layers keeps its own.
    """
    settings, distinct = question.settings, question.request.model.distinct_caches
    attending = [c for c in distinct if isinstance(c, Latent) or (isinstance(c, Attention) and c.kv_heads)]
    if not settings.get("windows", True):
        return widened
    assert isinstance(question.version, Version)
    drafted = bool(settings.get("speculative")) and str(settings.get("method", "")) not in _UNSEEING
    chunked = any(window_of(cache) == "chunked" for cache in attending)
    if settings.get("hybrid", not chunked or (question.version.chunks and not drafted)):
        return lambda cache: cache
    if any(map(encodes, attending)) or any(isinstance(cache, Recurrent | Compressed) for cache in distinct):
        raise KvcalcError(
            "--disable-hybrid-kv-cache-manager: vllm does not start this model without that manager", "leave it out"
        )
    if len({kept(cache) for cache in distinct} - {None, 0}) > 1:
        raise KvcalcError(
            "--disable-hybrid-kv-cache-manager: vllm cannot bring windows of several lengths to one kind",
            "leave it out",
        )
    return widened if any(kept(cache) is None for cache in attending) else lambda cache: cache
