"""SGLang: one pool of pages for a plain model, two for windows, one more for states.

Source: SGLang 0.5.23, `srt/model_executor/pool_configurator.py` and `srt/mem_cache/kv_cache_configurator.py`.
"""

from kvcalc.core.card import Capability
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import attention_tokens, size
from kvcalc.core.model import Attention, Recurrent
from kvcalc.core.units import ceil_div, many
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.base import Engine, Stored
from kvcalc.engines.placement import restaged
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.cells import draft_layers, placed, state_bytes, token_bytes, windowed
from kvcalc.engines.sglang.flags import FLAGS, integer, model_of, options_of
from kvcalc.engines.sglang.host import host_facts, with_host
from kvcalc.engines.sglang.memory import memory, scheduler, utilization
from kvcalc.engines.sglang.pool import Pool, pool_of
from kvcalc.engines.sglang.start import replicates, start
from kvcalc.engines.sglang.versions import VERSIONS
from kvcalc.engines.stages import StageCaches
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE", "stages_of"]


_REPLICATED = Rule(
    "heads and latents that every rank holds", "max(1, heads // tp) on a rank; a latent is whole on each"
)
_PLACE = Rule(
    "layers that keep nothing have a place in the pool", "layer_setup.py: layers are counted from start to end"
)
_FORMAT = Rule(
    "formats of the cache and of states", "pool_configurator.py; states: bf16 convolution, fp32 recurrent state"
)
_WINDOW = Rule("windows as a share of the full tokens, or in full", "pool_configurator.py: HybridSWAPoolConfigurator")
_PAGES = Rule("whole pages", "pool_configurator.py: tokens are cut to pages")
_SLOTS = Rule("slots of states for prefixes", "kv_cache_configurator.py: _handle_max_mamba_cache")
_DRAFT = Rule("draft layers", "pool_configurator.py: as if they were layers of the model")


def allocate(question: Question) -> Allocation:
    """SGLang's reservation: pages for each sequence, windows at their ratio, states by slots."""
    if question.settings.get("pools"):
        raise KvcalcError(f"{question.settings['pools']}: the pools that it makes are not known", "leave it out")
    if question.request.layout.dcp > 1:
        raise KvcalcError("--dcp: what sglang counts and logs of a split context is not known", "leave it out")
    question = restaged(question, stages_of(len(question.placement.layers), question.request.layout.pp))
    pool = pool_of(question)
    parts = placed(question)

    def holds(budget: int) -> bool:
        counted = pool.counted(budget)
        running = counted.values["max_running_requests"]
        assert isinstance(running, int)
        asked = question.sequences * _paged(question.request.context, pool.page)
        return running >= question.sequences and (not pool.limits_tokens or counted.tokens >= asked)

    charges = [_charge(each, question, pool) for each in parts]
    return Allocation(
        (*charges, *_drafts(question, pool)),
        values={"block_size": pool.page, "bytes_per_block": pool.page * max(cell.full for cell in pool.cells)},
        facts=(*_assumed(question, pool), *host_facts(question, pool)),
        capacity=with_host(question, pool),
        holds=holds,
    )


def stages_of(layers: int, stages: int) -> list[int]:
    """Layers of each stage: the last ones take one more where they do not divide (`get_pp_indices`)."""
    least, more = divmod(layers, stages)
    return [least] * (stages - more) + [least + 1] * more


def _assumed(question: Question, pool: Pool) -> tuple[str, ...]:
    facts = [f"pages of {many(pool.page, 'token')}"]
    card = question.card
    facts.append("kernels of an H100 assumed: --gpu names another card" if card is None else f"kernels of {card.label}")
    layout = question.request.layout
    groups, ranks = integer(question.settings.get("attention_groups")) or layout.sharing, layout.tp
    if groups > 1:
        facts.append(f"attention in {groups} groups of {many(ranks, 'GPU')}, each with a pool of its own")
    if any(cell.state for cell in pool.cells):
        facts.append(f"{many(pool.slots, 'slot')} of states for each running request")
    return tuple(facts)


def _drafts(question: Question, pool: Pool) -> list[Charge]:
    """The draft's layers on each stage: what a cell has beyond the model's own layers."""
    if not draft_layers(question):
        return []
    charges = []
    ranks, tokens = question.request.layout.tp, _paged(question.request.context, pool.page)
    for stage, cell in enumerate(pool.cells):
        own = sum(
            each.copies * token_bytes(each.cache, question)
            for each in placed(question)
            if each.stage == stage and not isinstance(each.cache, Recurrent) and not windowed(each.cache, pool.ratio)
        )
        amount = ranks * question.sequences * tokens * (cell.full - own)
        how = f"{many(question.sequences, 'sequence')} x {tokens:,} tokens x {cell.full - own:,} B"
        charges.append(
            Charge("draft layers", 0, 0, (Step(_DRAFT, amount),), (("kv_bytes", amount),), how, stage, ranks)
        )
    return charges


def _paged(tokens: int, page: int) -> int:
    return ceil_div(tokens, page) * page


def _charge(each: StageCaches, question: Question, pool: Pool) -> Charge:
    request, ranks = question.request, question.request.layout.tp
    times = each.copies * question.sequences * ranks
    tokens = request.context
    local = times * size(each.cache, tokens, request.widths, request.encoder_tokens)
    steps = [Step(_PLACE if local and not each.exact else _REPLICATED, local)]
    layers = f"{many(each.copies, 'layer')} x {many(question.sequences, 'sequence')}"
    if isinstance(each.cache, Recurrent):
        own = state_bytes(each.cache, question)[0]
        steps += [Step(_FORMAT, times * own), Step(_SLOTS, times * own * pool.slots)]
        part, how = "state_bytes", f"{layers} x {many(pool.slots, 'slot')} x {own:,} B"
    else:
        token = token_bytes(each.cache, question)
        kept = attention_tokens(each.cache, tokens, None) if isinstance(each.cache, Attention) else tokens
        reserved = _paged(tokens, pool.page)
        if windowed(each.cache, pool.ratio):
            assert pool.ratio is not None
            tokens, reserved = pool.ratio.floor(tokens), pool.ratio.floor(reserved) // pool.page * pool.page
        steps += [
            Step(_FORMAT, times * token * kept),
            Step(_WINDOW, times * token * tokens),
            Step(_PAGES, times * token * reserved),
        ]
        part, how = "kv_bytes", f"{layers} x {reserved:,} tokens x {token:,} B"
    parts = ((part, steps[-1].bytes),)
    return Charge(cache_name(each.cache), each.copies, each.exact, tuple(steps), parts, how, each.stage, ranks)


_AMPERE, _BLACKWELL_FP4 = (8, 0), (10, 0)


def least(version: object, what: Stored, name: str) -> Capability | None:  # noqa: ARG001 - one signature for all engines
    """The least capability for a format: fp8 weights are read into 16-bit products by Marlin from 8.0 to 8.8
    (can_auto_enable_marlin_fp8 in layers/quantization/fp8_utils.py), and multiplied in fp8 above.

    A cache in fp8 is converted as it is read and written, by Triton's and FlashInfer's kernels.
    """
    if name.startswith("fp8") or (name == "bf16" and what == "cache"):  # weights in bf16 are converted to fp16
        return _AMPERE
    return _BLACKWELL_FP4 if name == "nvfp4" else None


ENGINE = Engine(
    "sglang",
    VERSIONS,
    allocate,
    ("bf16", "fp8", "fp8_e4m3", "fp8_e5m2"),  # of --kv-cache-dtype; those in 4 bits and mxfp8 have no rule here
    FLAGS,
    options_of,
    model_of,
    utilization=utilization,
    memory=memory,
    # Of dense layers, shared experts and the output head all ranks have a part (`models/deepseek_v2.py`: the tp group
    # but where --moe-dense-tp-size or --enable-dp-lm-head say otherwise), of the embedding the ranks of attention.
    divided=("up", "down", "shared_up", "shared_down", "head"),
    newest=VERSIONS[-1].name,
    vendors=("NVIDIA", "AMD"),
    common_share=False,  # --mem-fraction-static leaves room for activations and graphs outside
    one_format=True,
    block="page_size",
    start=start,
    replicates=replicates,
    scheduler=scheduler,
    least=least,
    keeps_whole="--ep-size",
    run_flags={
        "max_num_seqs": "--max-running-requests",
        "max_num_batched_tokens": "--chunked-prefill-size",
        "language_model_only": "--language-model-only",
    },
    adapters=lambda room: (
        *("--enable-lora", "--max-loras-per-batch", f"{room.number}"),
        *("--max-lora-rank", f"{room.rank}", "--lora-target-modules", "all"),
    ),
    drafts=lambda name: ("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", name),
    lacks={"enforce_eager": "behind --: --disable-decode-cuda-graph --disable-prefill-cuda-graph"},
)
