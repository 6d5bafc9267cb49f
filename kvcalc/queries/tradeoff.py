"""What caching buys, in FLOPs, seconds and bytes: the question of the verb `tradeoff`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.memory import MemorySplit, memory_split
from kvcalc.core.request import Request
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sizing import Size, measure
from kvcalc.core.units import Fraction
from kvcalc.core.weights import Weights, dtype_of, weigh
from kvcalc.errors import KvcalcError
from kvcalc.perf.clock import Clock, clock_of
from kvcalc.perf.flops import count
from kvcalc.perf.links import LINKS, Link
from kvcalc.perf.machine import Attained
from kvcalc.perf.tiers import Kept, Tier, keep
from kvcalc.perf.tradeoff import Comparison, Prefix, compare
from kvcalc.queries.memory import beside
from kvcalc.queries.options import (
    CacheFormat,
    Memory,
    NamedGpu,
    Split,
    Workload,
    budget_for,
    budget_of_card,
    request_for,
)
from kvcalc.queries.source import Source, load_model

__all__ = ["PromptPool", "TradeoffAnswer", "TradeoffQuestion", "answer"]

_DEFAULT_OUTPUT = 256


class TradeoffQuestion(NamedTuple):
    """A prompt and new tokens, with the cache and without it.

    Attributes:
        source: The model.
        input: Tokens of the prompt. Default: the context less the output.
        output: New tokens. Default: 256, or what the context leaves.
        workload: Sequences, and the context that prompt and new tokens fill together.
        form: The formats of keys and values.
        gpu: The card whose seconds are asked for; None for FLOPs alone.
        tp: Tensor-parallel size. Default: 1, or the number of the named GPUs.
        weights: What the whole model's weights take. Default: auto.
        parameters: Parameters that one token uses. Default: by the model's facts.
        links: How a cache may come back; None for the usual ones.
        bandwidth_share: The part of the card's peak bandwidth that is attained.
        compute_share: The part of the card's peak FLOP/s that is attained.
        tiers: Memory of the replica behind its GPUs, in which caches of prompts stay.
    """

    source: Source
    input: int | None = None
    output: int | None = None
    workload: Workload = Workload()
    form: CacheFormat = CacheFormat()
    gpu: NamedGpu | None = None
    tp: int | None = None
    weights: Weights | None = None
    parameters: int | None = None
    links: Sequence[Link] | None = None
    bandwidth_share: Fraction | None = None
    compute_share: Fraction | None = None
    tiers: tuple[Tier, ...] = ()


class PromptPool(NamedTuple):
    """How many prompts of the asked length the GPUs of the replica hold, and their tokens."""

    prompts: int
    tokens: int


class TradeoffAnswer(NamedTuple):
    """The answer.

    Attributes:
        comparison: FLOPs and seconds with the cache and without it.
        size: The cache that it is about.
        card: The card that it was asked for.
        memory: Where that card's memory goes; None without a card.
        request_warnings: What the asker should know of the question itself.
        pool: The prompts that the GPUs hold, beside which the tiers stand; None without tiers.
        tiers: What each tier is for prompts of the asked length.
    """

    comparison: Comparison
    size: Size
    card: Card | None
    memory: MemorySplit | None
    request_warnings: tuple[str, ...]
    pool: PromptPool | None = None
    tiers: tuple[Kept, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Each GPU holds its weights and its cache; None without a GPU."""
        return None if self.memory is None else self.size.bytes_per_gpu <= self.memory.kv_budget

    @property
    def warnings(self) -> list[str]:
        """What the asker should know: seconds on a GPU that cannot hold it all are none that anybody will see."""
        found = [*self.request_warnings, *self._tiers]
        if self.memory is None or self.card is None or self.fits:
            return found
        tp = self.size.request.layout.tp
        what = "the weights" if self.memory.full == "weights" else "the weights and this cache"
        where = f"{tp} x {self.card.name}" if tp > 1 else self.card.name
        return [*found, f"{what} do not fit on {where}: the times are as if they did; --tp N takes more GPUs"]

    @property
    def _tiers(self) -> list[str]:
        """What speaks against a tier: no time is saved, or nothing is in it that the GPUs do not hold."""
        found = []
        for kept in self.tiers:
            name = kept.tier.name
            if kept.pays_from is None:
                found.append(f"--tier {name}: loading takes at least as long as computing again: it saves no time")
            elif self.pool is not None and kept.prompts <= self.pool.prompts:
                found.append(f"--tier {name}: it holds no more prompts than the GPUs do, {self.pool.prompts:,}")
        if self.tiers and self.card is not None and self.card.unified:
            found.append(f"the memory of {self.card.name} is the host's: a tier of host memory takes from the same")
        return found


def answer(question: TradeoffQuestion) -> TradeoffAnswer:
    """Weigh a cache up. Raises KvcalcError."""
    gpu, used, workload = question.gpu, question.parameters, question.workload
    if gpu is None:
        for name in ("weights", "links", "bandwidth_share", "compute_share", "tiers"):
            if getattr(question, name) not in (None, ()):
                option = {"links": "link", "tiers": "tier"}.get(name, name).replace("_", "-")
                raise KvcalcError(f"--{option}: has no effect without a GPU", "add --gpu NAME")
    model = load_model(question.source)
    if used is not None and model.parameters is None:
        model = replace(model, parameters=used)
    split = Split(tp=question.tp)
    context = request_for(model, workload, question.form, split, gpu).context
    prompt, output = _lengths(question, context)
    whole = workload._replace(context=prompt + output)
    request = request_for(model, whole, question.form, split, gpu)
    flops = count(request.model, used, request.encoder_tokens)
    clock = None if gpu is None else _clock(gpu.card, request, flops.parameters, question)
    links = LINKS if question.links is None else tuple(question.links)
    compared = compare(request, flops, prompt, output, clock, links)
    size = measure(request)
    memory = None if gpu is None else _memory(size, gpu, question.weights)
    found = TradeoffAnswer(compared, size, gpu and gpu.card, memory, tuple(request_warnings(request)))
    if memory is None or not question.tiers:
        return found
    one = request_for(model, whole._replace(context=prompt, batch=1), question.form, split, gpu)
    pool = _pool(memory, measure(one), prompt)
    return found._replace(pool=pool, tiers=_kept(question.tiers, compared.prefix))


def _memory(size: Size, gpu: NamedGpu, weights: Weights | None) -> MemorySplit:
    """The memory of each GPU, as the size of the same question has it."""
    budget = budget_of_card(budget_for(Memory(gpu=gpu, weights=weights)))
    assert budget is not None
    budget = budget._replace(overheads=beside(budget, size.request, None).lines)
    return memory_split(size, budget)


def _pool(memory: MemorySplit, one: Size, prompt: int) -> PromptPool:
    """What the GPUs have for caches, in prompts of which one has this size."""
    room = max(memory.kv_budget, 0)
    return PromptPool(room // one.bytes_per_gpu, room * prompt // one.bytes_per_gpu)


def _kept(tiers: Sequence[Tier], prefix: Prefix | None) -> tuple[Kept, ...]:
    if prefix is None:
        raise KvcalcError("--tier: running the encoder again is not counted, so that no tier can be weighed up")
    return tuple(keep(tier, prefix.tokens, prefix.bytes, prefix.recompute) for tier in tiers)


def _lengths(question: TradeoffQuestion, context: int) -> tuple[int, int]:
    """Tokens of the prompt and new ones; the context is both together."""
    prompt, output, stated = question.input, question.output, question.workload.context is not None
    if prompt is not None and (output is not None or not stated):
        output = output or _DEFAULT_OUTPUT
        if stated and prompt + output != context:
            raise KvcalcError(
                f"--context: {context:,} contradicts a prompt of {prompt:,} and {output:,} new tokens", "leave one out"
            )
        return prompt, output
    if output is None:
        output = context - prompt if prompt is not None else max(1, min(_DEFAULT_OUTPUT, context // 2))
    if prompt is None:
        prompt = context - output
    if prompt < 1 or output < 1:
        given = [name for name in ("input", "output") if getattr(question, name) is not None]
        raise KvcalcError(
            f"--{given[0] if given else 'context'}: a context of {context:,} has no room for a prompt and new tokens",
            "give a longer --context",
        )
    return prompt, output


def _clock(card: Card, request: Request, used: int, question: TradeoffQuestion) -> Clock:
    """The clock of the replica."""
    model, weights = request.facts, "auto" if question.weights is None else question.weights
    if weights == "none":
        raise KvcalcError("--weights: none leaves nothing to read", "leave it out, or give their size")
    own = model.weights_dtype or model.dtype
    stored = own if isinstance(weights, str | int) else dtype_of(weights.name)
    shares = {"bandwidth": question.bandwidth_share, "compute": question.compute_share}
    return clock_of(
        card,
        request.layout,
        request.model,
        weigh(model, weights).bytes,
        stored.name,
        attained=Attained(**{name: share.part / share.of for name, share in shares.items() if share is not None}),
        used=used,
        encoder_tokens=request.encoder_tokens,
    )
