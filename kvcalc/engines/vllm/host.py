"""vLLM's second cache in the host's memory: `--kv-offloading-size`, by `--kv-offloading-backend`.

Source: `config/vllm.py: _post_init_kv_transfer_config`: the size is GiB of all ranks of tp x pp together. Native keeps
whole blocks (`v1/kv_offload/cpu/spec.py`: cpu_bytes_to_use // (bytes of a block x world size)); LMCache gets its part
on each rank (`max_local_cpu_size`), and keeps chunks of 256 tokens (its default).
"""

from kvcalc.engines.host_tier import HostTier
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.layout import Laid

__all__ = ["host_tier"]

_CHUNK = 256

# vllm #53042: 400 GiB asked for are 769 GiB of shared memory, and so in proportion (0.26.0, a hybrid of four groups).
TAKEN, OF_ASKED = 192, 100
SEEN = "were seen to go for such a size, 1.92 times of it (vllm 0.26.0, #53042)"


def host_tier(question: Question, laid: Laid) -> HostTier | None:
    """What the flags ask for; None where they ask for none."""
    size, backend = question.settings.get("host_size"), question.settings.get("host_backend", "native")
    if not isinstance(size, int) or not size:
        return None
    layout, native = question.request.layout, backend == "native"
    high = size * TAKEN // OF_ASKED if native else None
    blocks = {spec.block for group in laid.groups for spec in group.specs}
    if len(laid.groups) > 1 or len(blocks) > 1:
        return HostTier(size, None, high)
    block = blocks.pop() * laid.settings.dcp
    width, ranks = max(laid.widths), layout.tp * layout.pp
    if native:
        return HostTier(size, size // (width * ranks) * block, high)
    return HostTier(size, size // ranks * block // (width * _CHUNK) * _CHUNK)
