"""What llama.cpp puts where: layers, their cache and their experts on devices, the rest in host memory.

Sources: src/llama-model.cpp (load_tensors: places, splits), common/arg.cpp (-ngl, -ts, --n-cpu-moe, -ot), ggml-backend.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.overheads import Estimate, exactly
from kvcalc.core.parts import Composition, Part, composition
from kvcalc.core.sharding import place
from kvcalc.core.units import ceil_div
from kvcalc.engines.allocation import Device
from kvcalc.engines.llama_cpp.buffers import Step, device_buffer, host_buffer, output_buffer, step_of
from kvcalc.engines.llama_cpp.caches import keep
from kvcalc.engines.llama_cpp.context import Context, context_of
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches

__all__ = ["Offload", "offload_of", "placed", "places"]

_ALL = 10**6  # more layers than any model has


class Offload(NamedTuple):
    """What flags say of devices.

    Attributes:
        layers: -ngl: how many of the last places are on devices; the output is the last place of all.
        shares: Of the devices, by -ts; equal without it.
        cpu_experts: --n-cpu-moe: layers from the first on whose experts stay in host memory.
        overrides: -ot: patterns of names of tensors, and whether those stay in host memory.
        cache: The cache lies beside its layers; -nkvo keeps it in host memory.
        split: -sm: whole layers, or rows of each matrix.
        main: -mg: the device with the cache where rows are split.
        copies: Weights in host memory are copied for large batches; --no-op-offload stops it.
    """

    layers: int = _ALL
    shares: tuple[Fraction, ...] = (Fraction(1),)
    cpu_experts: int = 0
    overrides: tuple[tuple[str, bool], ...] = ()
    cache: bool = True
    split: str = "layer"
    main: int = 0
    copies: bool = True


def offload_of(settings: Mapping[str, object], devices: int) -> Offload:
    """The flags as they were read, for so many devices where -ts does not say how many."""
    shares = settings.get("shares")
    layers, experts, main = (settings.get(name) for name in ("gpu_layers", "cpu_experts", "main_gpu"))
    overrides = settings.get("tensor_buffers") or ()
    assert isinstance(overrides, tuple)
    return Offload(
        layers if isinstance(layers, int) and layers >= 0 else _ALL,
        shares if isinstance(shares, tuple) else (Fraction(1, devices),) * devices,
        experts if isinstance(experts, int) else 0,
        overrides,
        settings.get("kv_offload", True) is True,
        str(settings.get("split_mode") or "layer"),
        main if isinstance(main, int) else 0,
        settings.get("op_offload", True) is True,
    )


def places(layers: int, offload: Offload) -> list[int | None]:
    """The device of each layer and, last, of the output; None is the host. The last -ngl places are on devices.

    A place goes to the first device whose part of the sum of shares exceeds its part of the places.
    """
    start = max(layers + 1 - offload.layers, 0)
    count, whole = layers + 1 - start, sum(offload.shares)
    ends, above = [], Fraction(0)
    for share in offload.shares:
        above += share / whole
        ends.append(above)
    on_devices = [
        next((d for d, end in enumerate(ends) if end > Fraction(i, count)), len(ends) - 1) for i in range(count)
    ]
    return [*[None] * start, *on_devices]


def placed(question: Question, weights: int, devices: int = 1) -> tuple[Device, ...]:
    """Each device and, last, the host, with so many bytes of weights in all. Raises KvcalcError as `allocate` does."""
    model, context = question.request.facts, context_of(question)
    offload = offload_of(question.settings, devices)
    where = places(len(model.layers), offload)
    held = _weights(model, weights, offload, where)
    cache = _cache(question, context, offload, where)
    experts = offload.cpu_experts or any(host for _, host in offload.overrides)
    on_host = where[0] is None or bool(experts)
    count = len(offload.shares)
    pipelined = count > 1 and not on_host and offload.cache and offload.split == "layer"
    step = step_of(model, context, pipelined=pipelined)
    copied = _copied(model, weights, offload, where) if offload.copies and on_host else [0] * count
    found = [
        Device(
            f"device {i}",
            where.count(i),
            held[i],
            cache[i],
            _compute(step, last=where[-1] == i or where[-1] is None, copied=copied[i]),
        )
        for i in range(count)
    ]
    host = 0 if step is None else host_buffer(step)
    return (
        *found,
        Device("host", where.count(None), held[-1], cache[-1], exactly(host), output_buffer(model, context)),
    )


def _compute(step: Step | None, *, last: bool, copied: int) -> Estimate:
    if step is None:
        return Estimate(100 << 20, 350 << 20, 2 << 30)
    return device_buffer(step, last=last, copied=copied)


# The names of a layer's tensors in a GGUF file, by the role of a part.
_TENSORS = {
    "query": "attn_q.weight", "key": "attn_k.weight", "value": "attn_v.weight", "output": "attn_output.weight",
    "up": "ffn_up.weight", "down": "ffn_down.weight", "expert_up": "ffn_up_exps.weight",
    "expert_down": "ffn_down_exps.weight", "shared_up": "ffn_up_shexp.weight", "shared_down": "ffn_down_shexp.weight",
    "router": "ffn_gate_inp.weight", "norm": "attn_norm.weight", "latent": "attn_kv_a_mqa.weight",
    "state": "ssm_in.weight",
}  # fmt: skip


def _on_host(layer: int, part: Part, offload: Offload) -> bool:
    """Whether a part of a layer that is on a device stays in host memory all the same: the first pattern decides."""
    name = f"blk.{layer}.{_TENSORS.get(part.role, part.role)}"
    for pattern, host in offload.overrides:
        if re.search(pattern, name):
            return host
    return layer < offload.cpu_experts and part.role in ("expert_up", "expert_down")


def _weights(model: Model, weights: int, offload: Offload, where: list[int | None]) -> list[int]:
    """Bytes of each device, then of the host: in proportion to parameters, as formats by tensor are not known here.

    The table of embeddings is on the host; a tied one is held again as the output. Rows that are split lie in
    proportion to the shares.
    """
    found = composition(model)
    count = len(offload.shares)
    held = [0] * (count + 1)
    if found is None or not found.parameters:
        for place in where:
            held[count if place is None else place] += ceil_div(weights, len(where))
        return held

    def put(place: int | None, parameters: int) -> None:
        size = ceil_div(weights * parameters, found.parameters)
        if place is None or offload.split == "layer":
            held[count if place is None else place] += size
        else:
            for i, share in enumerate(offload.shares):
                held[i] += int(size * share / sum(offload.shares))

    for layer, parts in enumerate(found.layers):
        for part in parts:
            put(None if where[layer] is None or _on_host(layer, part, offload) else where[layer], part.parameters)
    put(None, sum(part.parameters for part in found.before))
    put(where[-1], sum(part.parameters for part in _head(found)))
    return held


def _head(found: Composition) -> tuple[Part, ...]:
    return (*found.behind, *(part for part in found.before if found.tied and part.role == "embedding"))


def _cache(question: Question, context: Context, offload: Offload, where: list[int | None]) -> list[int]:
    """Bytes of each device, then of the host: each layer's beside the layer."""
    model = question.request.model
    layout = question.request.layout._replace(tp=1, pp=len(model.layers))  # a stage for each layer
    staged = question._replace(
        request=question.request._replace(layout=layout), placement=place(model, layout), groups=(), found=None
    )
    held = [0] * (len(offload.shares) + 1)
    for each in stage_caches(staged):
        on = where[each.stage] if offload.cache else None
        if on is not None and offload.split != "layer":
            on = offload.main
        held[-1 if on is None else on] += keep(each, context).charge.bytes
    return held


def _copied(model: Model, weights: int, offload: Offload, where: list[int | None]) -> list[int]:
    """The largest weight in host memory that each device computes with: experts of its layers, or the output."""
    found = composition(model)
    largest, gated = [0] * len(offload.shares), model.dimensions is not None and model.dimensions.gated
    if found is None or not found.parameters:
        return largest
    for layer, parts in enumerate(found.layers):
        place = where[layer]
        for part in parts:
            if place is None or _on_host(layer, part, offload):
                matrices = 2 if gated and part.role in ("up", "expert_up", "shared_up") else 1
                size = ceil_div(weights * part.parameters, matrices * found.parameters)
                largest[place or 0] = max(largest[place or 0], size)
    if where[-1] is None:
        head = sum(part.parameters for part in _head(found))
        largest[0] = max(largest[0], ceil_div(weights * head, found.parameters))
    return largest
