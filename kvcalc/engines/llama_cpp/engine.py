"""llama.cpp: cells for every token of the context, allocated up front (llama-server, llama-cli)."""

from collections import Counter
from collections.abc import Iterator

from kvcalc.core.model import Compressed, Recurrent, Shared
from kvcalc.engines.allocation import Allocation
from kvcalc.engines.base import Engine
from kvcalc.engines.llama_cpp.archs import DRAFTS_CACHED
from kvcalc.engines.llama_cpp.caches import DRAFT_CONTEXT, DRAFT_LAYERS, Kept, keep
from kvcalc.engines.llama_cpp.context import MOST_SEQUENCES, Context, context_of
from kvcalc.engines.llama_cpp.flags import FLAGS, model_of, options_of, stored
from kvcalc.engines.llama_cpp.lines import log_lines
from kvcalc.engines.llama_cpp.memory import memory
from kvcalc.engines.llama_cpp.placement import placed
from kvcalc.engines.llama_cpp.start import start
from kvcalc.engines.llama_cpp.versions import VERSIONS
from kvcalc.engines.placement import restaged, without_tp
from kvcalc.engines.question import Question
from kvcalc.engines.stages import StageCaches, stage_caches

__all__ = ["ENGINE", "allocate"]

# What -ctk and -ctv accept: kv_cache_types in common/arg.cpp.
_FORMATS = ("fp32", "fp16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


def allocate(question: Question) -> Allocation:
    """What one context reserves. The devices that hold the layers (-ngl, -ts) do not change the sum."""
    without_tp(question, "llama.cpp")
    if question.request.layout.pp > 1:
        question = restaged(question, _devices(question))
    context = context_of(question)
    kept = [keep(each, context) for each in stage_caches(question)]
    if context.arch in DRAFTS_CACHED and question.request.facts.gguf:  # a file's own draft layers
        kept += [keep(each, context, DRAFT_LAYERS) for each in _draft_layers(question)]
    log = log_lines(kept, context, len(question.request.model.layers))
    types = question.settings.get("draft_types")
    if isinstance(types, tuple):
        apart = context._replace(k=types[0], v=types[1])
        drafts = [keep(each, apart, DRAFT_CONTEXT) for each in _draft_layers(question)]
        log += log_lines(drafts, apart, 0)
        kept += drafts
    alone = context.arch == "t5" and not context.unified
    aborts = alone and context.streams > 1
    return Allocation(
        tuple(each.charge for each in kept),
        _values(kept, context),
        _facts(question, kept, context),
        ("llama.cpp aborts with more than one sequence of a T5 without -kvu",) if aborts else (),
        log,
        holds=(lambda _: False) if aborts else None,
        most_sequences=1 if alone else None,
    )


def _devices(question: Question) -> list[int]:
    """Layers on each of pp equal devices: the output counts as one more layer, on the last (src/llama-model.cpp)."""
    model, pp = question.request.facts, question.request.layout.pp
    every = len(model.layers) + len(model.draft) + 1
    stages = Counter(layer * pp // every for layer in range(len(model.layers)))
    return [stages[stage] for stage in range(pp)]


def _draft_layers(question: Question) -> Iterator[StageCaches]:
    """The attention of a model's draft layers, on the last stage; no question's own size counts them."""
    stage = question.request.layout.pp - 1
    attending = (
        c for layer in question.request.model.draft for c in layer if not isinstance(c, Compressed | Recurrent | Shared)
    )
    for cache, copies in Counter(attending).items():
        yield StageCaches(stage, cache, cache, copies, 0)


def _values(kept: list[Kept], context: Context) -> dict[str, int | str | bool | None]:
    """The engine's own keys of JSON. What has no cells, or no window, or no state, has null there."""
    pools = {name for each in kept for name, _ in each.pools}
    cells = bool(pools - {"recurrent"})
    state = sum(size for each in kept for part, size in each.charge.parts if part in _STATE_PARTS)
    return {
        "cells": context.cells if cells else None,
        "streams": context.streams if cells else None,
        "swa_cells": context.window[1] if "swa" in pools else None,
        "state_slots": context.sequences * context.states if "recurrent" in pools else None,
        "state_bytes": state,
        "n_ctx": context.cells * (1 if context.unified or context.whole else context.sequences),
        "n_seq_max": context.sequences,
        "n_batch": context.n_batch,
        "n_ubatch": context.n_ubatch,
        "kv_unified": context.unified,
        "flash_attn": context.flash,
        "swa_full": context.swa_full,
        "type_k": context.k.name,
        "type_v": context.v.name,
        "gguf": context.arch,
    }


_STATE_PARTS = ("r_bytes", "s_bytes", "p_bytes", "compressor_bytes")


def _facts(question: Question, kept: list[Kept], context: Context) -> tuple[str, ...]:
    """What follows from settings, in words for people."""
    found = []
    if any(name != "recurrent" for each in kept for name, _ in each.pools):
        shared = "that all sequences share" if context.streams < context.sequences else "for each sequence"
        types = context.k.name if context.k == context.v else f"{context.k.name} and {context.v.name}"
        found.append(f"llama.cpp as {context.arch}: {context.cells:,} cells {shared}, in {types}")
    if question.settings.get("fitted"):
        found.append("without -c the context is the model's limit, and --fit lowers it where the memory is less")
    return tuple(found)


ENGINE = Engine(
    "llama.cpp",
    VERSIONS,
    allocate,
    _FORMATS,
    FLAGS,
    options_of,
    model_of,
    MOST_SEQUENCES,
    stored=stored,
    start=start,
    vendors=("NVIDIA", "AMD", "Apple", "Intel"),
    pooled=False,
    common_share=False,  # it has no share to be set
    memory=memory,
    devices=placed,
    grows=True,
    run_flags={"max_num_batched_tokens": "-ub"},
    lacks={"max_num_seqs": "--batch N counts its slots (-np), each of which has its cells whether it is used or not"},
)
