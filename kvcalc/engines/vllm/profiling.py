"""vLLM's profile run: one step of as many tokens as it ever batches, then the sampler for all sequences at once.

Its peak decides what is left for the pool. Sources, by 0.33.0: `v1/worker/gpu_worker.py`
(determine_available_memory), `v1/worker/gpu_model_runner.py` and `v1/worker/gpu/model_runner.py` (profile_run,
_dummy_sampler_run), `v1/sample/`, `model_executor/layers/fused_moe/`.
"""

from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.model import Dimensions, Latent, Model, Recurrent
from kvcalc.core.overheads import Estimate, exactly
from kvcalc.core.sharding import Layout
from kvcalc.core.units import ceil_div
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.batches import Batch, batch_of
from kvcalc.engines.vllm.versions import Profile, Version

__all__ = ["ProfileRun", "Sampler", "forward", "profile_run", "sampler", "workspace"]

_HOPPER, _BLACKWELL = 9, 10


class ProfileRun(NamedTuple):
    """What the run goes by. `dims` are the whole model's, `width` the bytes of an element that is computed with.

    `workspaces`: bytes of the experts' buffers that stay allocated.
    """

    batch: Batch
    dims: Dimensions
    vocab: int
    width: int
    model: Model
    layout: Layout
    spread: bool  # experts are spread over ranks, not cut
    card: Card | None
    profile: Profile
    context: int

    @property
    def rocm(self) -> bool:
        return self.card is not None and self.card.vendor == "AMD"

    @property
    def generation(self) -> int:
        return _HOPPER if self.card is None else self.card.generation or 0

    @property
    def eight_bit(self) -> bool:
        return self._format.startswith(("fp8", "mxfp8"))

    @property
    def four_bit_float(self) -> bool:
        return self._format in ("mxfp4", "nvfp4")

    @property
    def packed(self) -> bool:
        """Whether the checkpoint's matrices have fewer than 16 bits."""
        stored = self.model.weights_dtype or self.model.dtype
        return stored.block_bytes < 2 * stored.block

    @property
    def _format(self) -> str:
        return (self.model.weights_dtype or self.model.dtype).name

    @property
    def hybrid(self) -> bool:
        return any(isinstance(cache, Recurrent) for cache in self.model.distinct_caches)

    @property
    def second(self) -> bool:
        """Whether the second model runner runs the model (`config/vllm.py`, use_v2_model_runner)."""
        dense = not self.dims.experts
        match self.profile.second:
            case "none":
                return False
            case "qwen3":
                return dense and self.model.model_type == "qwen3" and self.model.weights_dtype is None
            case "dense":
                return not self.hybrid and (dense or self.model.model_type in _SECOND)
            case "all":
                return True


_SECOND = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "qwen2_moe", "granitemoe")  # DeepseekV2ForCausalLM's too


def profile_run(question: Question, memory: int) -> ProfileRun | None:
    """The run of a question on a card with so many bytes; None where the widths of the weights are not known."""
    model, version = question.request.model, question.version
    assert isinstance(version, Version)
    dims = model.dimensions
    if dims is None or not dims.vocab:
        return None
    layout = question.request.layout
    return ProfileRun(
        batch_of(question, memory),
        dims,
        dims.vocab,
        model.dtype.block_bytes,
        model,
        layout,
        layout.ep > 1,
        question.card,
        version.profile,
        question.request.context,
    )


class Sampler(NamedTuple):
    """Tenths of a byte for each logit while all sequences are sampled: by named builds, and `held` for good."""

    tenths: Estimate
    held: int
    how: str


# Sorting: logits in 16 bits and in fp32, sorted ones with 8-byte indices, softmax, sums, masks and noise. Logs print
# 38.1 to 38.4 (Qwen3-8B 1.40 GiB, Phi-4-mini 1.83, Qwen3-32B 5.64). Kernels: FlashInfer's keeps the masked logits and
# their softmax beside both (14), Triton's as much; logs of 0.17 to 0.19 give 15.1 to 15.9.
_SORT, _KERNEL, _FLASHINFER, _AITER = 383, 153, 140, 100
# The second runner: logits in 16 bits and a copy in fp32, and 4 B and 1 bit of counts for penalties, held for good.
_SECOND_RUNNER, _SECOND_HELD = 60, 33


def sampler(run: ProfileRun) -> Sampler:
    """`_dummy_sampler_run`: min(S, N) rows over the whole vocabulary, gathered, so that tp does not divide them."""
    logits = run.batch.sequences * run.vocab
    if run.second:
        likely = _FLASHINFER if run.profile.processed else _SECOND_RUNNER
        return Sampler(Estimate(_SECOND_RUNNER, likely, _KERNEL), logits * _SECOND_HELD // 8, "the second model runner")
    if run.profile.sampler == "kernel" and not (run.rocm and run.profile.kept == "fp8"):
        high = _SORT if run.profile.kept == "fp8" else _KERNEL  # 0.11.0 beside its image
        return Sampler(Estimate(_FLASHINFER, _KERNEL, high), 0, "Triton's or FlashInfer's kernels")
    return Sampler(Estimate(_AITER if run.rocm else _FLASHINFER, _SORT, _SORT), 0, "sorting")


def forward(run: ProfileRun) -> Estimate:
    """Activations of one layer at its widest, beside the residual stream; without buffers that stay allocated.

    Dense: gate and up and their product. Experts: the rows of all of a token's experts; in DeepGEMM, rows padded to
    128 for each expert of the rank. Latent attention: keys and values of a chunk of context (65,536 tokens), unpacked.
    """
    tokens, dims, width = run.batch.tokens, run.dims, run.width
    stream = 2 * tokens * dims.hidden * width
    dense = 3 * tokens * ceil_div(dims.intermediate or 4 * dims.hidden, run.layout.tp) * width
    largest = dense if not dims.experts or "dense" in dims.feed_forward else 0
    held = workspace(run)
    if dims.experts:
        largest = max(largest, _experts(run) - held.likely)
    latents = [cache for cache in run.model.distinct_caches if isinstance(cache, Latent)]
    unpacked = 0
    if latents:
        chunk = min(max(8 * run.context, 64 * run.batch.sequences), 65536)
        cache = latents[0]
        unpacked = chunk * ceil_div(cache.heads, run.layout.tp) * (cache.k_dim + cache.v_dim) * width
    likely = stream + max(largest, unpacked)
    return Estimate(likely // 2, likely, likely * 3 // 2)


def _experts(run: ProfileRun) -> int:
    """All that a layer of experts needs at once (`workspace_shapes` of the kernels)."""
    dims, tokens = run.dims, run.batch.tokens
    rows, inner = _rows(run), _inner(run)
    if run.eight_bit and run.generation == _HOPPER and not run.profile.triton:
        rows += 127 * ceil_div(dims.experts, run.layout.ep)  # DeepGEMM: five bytes for an element of a row
        return 5 * rows * (dims.expert_hidden or dims.hidden)
    return rows * (max(2 * inner, dims.expert_hidden or dims.hidden) + inner) * run.width + tokens * dims.experts * 4


def _rows(run: ProfileRun) -> int:
    return run.batch.tokens * (run.dims.top_k or 1)


def _inner(run: ProfileRun) -> int:
    whole = run.dims.expert_intermediate or run.dims.intermediate or run.dims.hidden
    return whole if run.spread else ceil_div(whole, run.layout.expert_ranks)


def workspace(run: ProfileRun) -> Estimate:
    """Buffers of the experts' kernels that stay allocated when the sampler runs (`v1/worker/workspace.py`, from 0.14).

    Triton's, CUTLASS' and Marlin's hold the rows of all experts twice. FlashInfer's, which run 8- and 4-bit experts on
    Blackwell, experts without a gate, and block-scaled ones that are spread, hold a row for each token, or nothing.
    """
    dims, kept = run.dims, run.profile.kept
    if not dims.experts or kept == "none":
        return exactly(0)
    hidden, inner = dims.expert_hidden or dims.hidden, _inner(run)
    twice = _rows(run) * (max(inner, hidden) + max(2 * inner, hidden)) * run.width
    once = run.batch.tokens * hidden * run.width
    packed = run.eight_bit or run.four_bit_float
    hopper = run.eight_bit and run.generation == _HOPPER
    if (kept == "fp8" and not hopper) or (kept == "16-bit" and hopper):
        return Estimate(0, 0, twice)
    blackwell = run.generation == _BLACKWELL and (packed or run.profile.second == "all")
    if blackwell or (packed and run.generation == _HOPPER and not dims.gated):
        return Estimate(0, once if not blackwell else 0, twice)
    if run.eight_bit and run.spread and run.profile.triton and run.generation == _HOPPER:
        return Estimate(once, once, twice)
    if run.model.weights_dtype is not None and run.model.weights_dtype.name == "mxfp4":
        return Estimate(0, _rows(run) * inner * run.width, twice)
    return Estimate(once, twice, twice)
