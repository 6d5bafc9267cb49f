"""What vLLM takes beside weights and cache, term by term: what its profile run finds, libraries, graphs.

Sizes without a formula in its sources were fitted on public start-ups of 0.7 to 0.20 (`tests/facts/startups.json`,
`bench/accuracy.py`), and say so.
"""

from collections.abc import Iterator
from math import log2

from kvcalc.core.images import range_of
from kvcalc.core.model import Model
from kvcalc.core.overheads import Estimate, Overhead, exactly, gain
from kvcalc.core.units import format_bytes, many
from kvcalc.engines.adapters import adapters_of
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.profiling import ProfileRun, Sampler, forward, profile_run, sampler, workspace
from kvcalc.engines.vllm.versions import Profile, Version

__all__ = ["memory"]

_GIB = 2**30
_LOGS = "fitted on public start-up logs"
_RUNNER = "vllm v1/worker/gpu_model_runner.py, profile_run and _dummy_sampler_run; bytes by public logs"
_FAST = 64 * 10**9  # bytes a second: NVLink and not PCI Express


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:
    """All terms on one GPU with so many bytes, inside and outside of --gpu-memory-utilization."""
    assert isinstance(question.version, Version)
    run = profile_run(question, vram)
    found = [_unknown(question.request.model, vram)] if run is None else list(_measured(run))
    profile = question.version.profile
    found += [] if run is None else _padding(run)
    found += _encoder(question, run)
    found += adapters_of(question, "vllm lora/layers/base_linear.py, create_lora_weights")
    found += _libraries(question)
    found += _all_reduce(question, profile)
    found += _graphs(question, profile, run)
    return tuple(found)


def _measured(run: ProfileRun) -> Iterator[Overhead]:
    yield _activations(run)
    held = sampler(run).held
    if held:
        rule = f"{run.batch.sequences:,} sequences x {run.vocab:,} tokens of vocabulary x 4 B and 1 bit"
        few = _fewer(run)
        saving = gain(_instead(run), held, sampler(few).held)
        yield Overhead("penalties", exactly(held), rule, "vllm v1/worker/gpu/sample/penalties.py", saving=saving)
    if run.dims.experts and (size := workspace(run)).high:
        top_k = run.dims.top_k or 1
        rule = f"{run.batch.tokens:,} tokens x {many(top_k, 'expert')}, in two buffers that stay allocated"
        if not size.likely:
            rule = f"none with the kernels of this version and card; else {rule}"
        half = run._replace(batch=run.batch._replace(tokens=run.batch.tokens // 2))
        what = f"--max-num-batched-tokens {half.batch.tokens}"
        source = "vllm v1/worker/workspace.py and fused_moe's workspace_shapes"
        yield Overhead("expert workspaces", size, rule, source, saving=gain(what, size.likely, workspace(half).likely))


def _activations(run: ProfileRun) -> Overhead:
    """The peak of the run: of the sampler, beside the hidden states of all tokens, or of the forward pass."""
    size = _peak(run)
    tokens, sequences = f"{run.batch.tokens:,} tokens", f"{run.batch.sequences:,} sequences"
    how, ahead = sampler(run), forward(run).likely
    sampled = _sampled(run, how).likely
    each = f"{how.tenths.likely / 10:g} B"
    rule = f"sampling {sequences} x {run.vocab:,} logits x {each} by {how.how}, {format_bytes(sampled)}"
    if sampled >= ahead:
        rule += f", beside {tokens} x {run.dims.hidden:,} x {run.width} B; a forward pass needs {format_bytes(ahead)}"
        saving = gain(_instead(run), size.likely, _peak(_fewer(run)).likely)
    else:
        rule = f"a forward pass of {tokens} at the widest layer, {format_bytes(ahead)}; {rule}"
        half = run._replace(batch=run.batch._replace(tokens=run.batch.tokens // 2))
        saving = gain(f"--max-num-batched-tokens {half.batch.tokens}", size.likely, _peak(half).likely)
    return Overhead("activations", size, rule, _RUNNER, saving=saving)


def _sampled(run: ProfileRun, how: Sampler) -> Estimate:
    logits = run.batch.sequences * run.vocab
    states = run.batch.tokens * run.dims.hidden * run.width
    return Estimate(*(logits * tenths // 10 + states for tenths in how.tenths))


def _peak(run: ProfileRun) -> Estimate:
    pairs = zip(_sampled(run, sampler(run)), forward(run), strict=True)
    return Estimate(*(max(pair) for pair in pairs))


def _fewer(run: ProfileRun) -> ProfileRun:
    """The same with a quarter of the sequences, as on small cards."""
    return run._replace(batch=run.batch._replace(sequences=max(run.batch.sequences // 4, 1)))


def _instead(run: ProfileRun) -> str:
    return f"{_fewer(run).batch.sequences:,} sequences instead of {run.batch.sequences:,} (--max-num-seqs)"


# Of the bytes of 16-bit experts. Qwen3-VL-30B loads 79.29 GiB on an MI300X where its checkpoint has 58.2 (0.14, 0.16).
_PADDED = (0.06, 0.39, 0.45)


def _padding(run: ProfileRun) -> list[Overhead]:
    """ROCm pads rows of 16-bit experts by 256 bytes (`_maybe_pad_weight`), and what was copied stays in pieces."""
    dims, tp = run.dims, run.layout.tp
    if not run.rocm or not dims.experts or run.packed or run.profile.kept not in ("all", "16-bit"):
        return []
    layers = dims.feed_forward.count("moe") if dims.feed_forward else len(run.model.layers)
    inner = dims.expert_intermediate or dims.intermediate or dims.hidden
    matrices = (3 if dims.gated else 2) * (dims.expert_hidden or dims.hidden) * inner
    size = layers * dims.experts * matrices * run.width // tp // run.layout.pp
    rule = f"39 % of the {format_bytes(size)} of 16-bit experts: rows padded, and what was copied"
    source = f"vllm unquantized_fused_moe_method.py; size {_LOGS}"
    return [Overhead("padded experts", Estimate(*(int(size * part) for part in _PADDED)), rule, source)]


def _unknown(model: Model, vram: int) -> Overhead:
    """Where the vocabulary and the widths are not known: from the least to the most that was seen on such a card."""
    large = vram >= 70 * _GIB
    low, likely, high = (20, 350, 750) if large else (20, 100, 200)
    size = Estimate(*(part * _GIB // 100 for part in (low, likely, high)))
    return Overhead("activations", size, f"the widths of {model.name} are not known: `dimensions` in its preset", _LOGS)


def _encoder(question: Question, run: ProfileRun | None) -> list[Overhead]:
    """Outputs of the encoder for one step, which are there while the language part is measured. V0 measured as many
    images as a prompt may have.
    """
    settings, model = question.settings, question.request.model
    off = settings.get("language_model_only") or settings.get("skip_mm_profiling")
    if model.encoder_parameters is None or off:
        return []
    assert isinstance(question.version, Version)
    item = range_of(model)[1] if model.images else 0  # MultiModalBudget: the larger of a step and the largest item
    least = max(run.batch.tokens, item) * run.dims.hidden * run.width if run else 0
    high = 5 * _GIB if question.version.profile.first else _GIB
    likely = max(_GIB // 5, least)
    rule = "outputs of the encoder for as many tokens as a step has, or for the largest image"
    saving = gain("--language-model-only", likely, 0)
    return [Overhead("encoder", Estimate(0, likely, max(high, 2 * likely)), rule, _LOGS, saving=saving)]


# Hundredths of a GiB. NVIDIA: one GPU, and what each doubling of tp adds over NVLink and over PCI Express.
# V0 on A100s with NVLink had up to 2.15 at tp 8.
_CONTEXT, _SMALL_CONTEXT, _NVLINK, _PCIE = (10, 21, 35), (0, 6, 25), (10, 27, 40), (2, 6, 27)
_NVLINK_V0 = (10, 27, 72)
_ROCM: tuple[tuple[int, tuple[int, int, int]], ...] = ((1, (80, 120, 160)), (4, (110, 160, 220)), (8, (250, 350, 420)))


def _libraries(question: Question) -> list[Overhead]:
    """The device's context, libraries' workspaces and buffers between GPUs: what no allocator of torch's knows of."""
    card, tp = question.card, question.request.layout.tp
    if card is not None and card.vendor == "AMD":
        part = next((sizes for most, sizes in _ROCM if tp <= most), _ROCM[-1][1])
        return [Overhead("runtime", _hundredths(part), f"ROCm's context and RCCL at tp {tp}", _LOGS)]
    large = card is None or (card.generation in (9, 10))
    lines = [
        Overhead("runtime", _hundredths(_CONTEXT if large else _SMALL_CONTEXT), "CUDA's context and libraries", _LOGS)
    ]
    if tp > 1:
        fast = card is None or (card.link or 0) > _FAST
        old = isinstance(question.version, Version) and question.version.profile.first
        step, way = (_NVLINK_V0 if old else _NVLINK, "NVLink") if fast else (_PCIE, "PCI Express")
        size = _hundredths([round(part * log2(tp)) for part in step])
        rule = f"NCCL's buffers over {way}: {step[1] / 100:g} GiB x log2({tp})"
        lines.append(Overhead("communication", size, rule, _LOGS))
    return lines


def _all_reduce(question: Question, profile: Profile) -> list[Overhead]:
    """FlashInfer's buffers for an all-reduce with the norm behind it (enable_allreduce_rms_fusion)."""
    layout, card = question.request.layout, question.card
    able = (card is None or card.generation in (9, 10)) and layout.tp in (2, 4, 8)
    alone = layout.dp == layout.pp == 1 or profile.reduces == "any"
    if profile.reduces == "none" or not able or not alone or question.settings.get("enforce_eager"):
        return []
    rule = "all-reduce fused with norms, on by default with tp on Hopper and Blackwell"
    size = _hundredths((0, 140, 160))
    return [Overhead("all-reduce workspace", size, rule, f"vllm config/vllm.py; size {_LOGS}")]


_SIZES = 51  # captured batches up to 512: 1, 2, 4, multiples of 8 to 256 and of 16 to 512 (`cudagraph_capture_sizes`)


def _graphs(question: Question, profile: Profile, run: ProfileRun | None) -> list[Overhead]:
    """Captured decode steps: estimated and taken off the pool from 0.20 on, before that captured beside it."""
    if question.settings.get("enforce_eager"):
        return []
    card, layout = question.card, question.request.layout
    rocm = card is not None and card.vendor == "AMD"
    layers = len(question.request.model.layers) // layout.pp
    largest = min(2 * (256 if run is None else run.batch.sequences), 512)
    captured = 3 + min(largest, 256) // 8 + max(largest - 256, 0) // 16
    hundredths = 10 + (13 + 0.9 * layers) * captured / _SIZES
    low, high = (round(hundredths / 2), 900) if rocm else (round(hundredths * 0.4), round(hundredths * 1.9))
    counted = profile.graphs == "any" or (profile.graphs == "cuda" and not rocm)
    counted = counted and not (profile.blind and run is not None and run.second)
    inside = counted and question.settings.get("count_graphs", True) is True
    size = _hundredths((low, round(hundredths) if not rocm or inside else 450, high))
    rule = f"{captured} captured batches of up to {largest} sequences, {many(layers, 'layer')}"
    if not inside:
        rule += ": captured after the pool is cut, outside of --gpu-memory-utilization"
    saving = gain("--enforce-eager", size.likely, 0) if inside else ""
    source = f"vllm v1/worker/gpu_worker.py; size {_LOGS}"
    return [Overhead("graphs", size, rule, source, inside, saving)]


def _hundredths(parts: "tuple[int, int, int] | list[int]") -> Estimate:
    return Estimate(*(part * _GIB // 100 for part in parts))
