"""What an engine adds to the work of the GPU: the kernels that it starts, its scheduler, and its server's front end."""

from typing import NamedTuple

from kvcalc.core.dtypes import GGUF
from kvcalc.core.formats import FILES

__all__ = ["ALONE", "Pace", "pace_for", "pace_of", "runs_ahead"]

# Seconds until a server hands on a request that comes alone.
ALONE = 0.010


class Pace(NamedTuple):
    """Seconds beside matrices and attention: of each kernel, each step, each sequence in it, and the front end.

    `kernel` is what a kernel takes until it moves bytes at full speed: 3 to 13 us for matrices of few rows and
    attention to short caches, and some less for norms, in measured tables (NVIDIA's aiconfigurator, Vidur). 3.9 us, the
    steps, the 12 us for sampling and scheduling, and the front ends under many clients are fitted to published serving
    times (InferenceMAX and NVIDIA's own, 2025 and 2026); a step overlaps with the GPU's work in TensorRT-LLM and in
    newer versions of the others. Experts' matrices are many and small, each for some of the tokens: 14 to 30 % of the
    fp8 peak in prompts of 8k tokens where dense ones attain 55 % (experts sharded by tp; tables of aiconfigurator),
    22 % in the middle. `measured`: whether times of this engine are among those.

    `front_end` is that of closed loops, in which many clients ask at once, and `alone` that of requests that come by
    themselves. `ahead`: a step is scheduled while the one before it runs, so that a first token waits for one more.
    """

    kernel: float = 3.9e-6
    step: float = 1.25e-3
    sequence: float = 12e-6
    front_end: float = ALONE
    alone: float = ALONE
    ahead: bool = False
    prompt_tokens: int = 8192  # that a pass takes at most; several short prompts share one
    packed: bool = False  # whether weights in blocks of GGUF are what its kernels are made for
    experts: float = 0.4  # what matrices of experts attain of what dense ones do
    measured: bool = True


# llama.cpp: 6 us a kernel and 0.2 ms a step, from llama-bench on GeForce and workstation cards; experts from that on a
# GB10 (Qwen3 30B and gpt-oss 20B).
_LLAMA = Pace(kernel=6e-6, step=0.2e-3, sequence=0.0, prompt_tokens=2048, packed=True, experts=0.7)

_PACES = {
    "": Pace(),
    "vllm": Pace(step=1.3e-3, front_end=0.060),
    "sglang": Pace(step=1.2e-3, front_end=0.270, alone=0.270),  # of open loops nothing is known but for vLLM
    "tensorrt-llm": Pace(step=0.0, front_end=0.160, alone=0.160),
    "llama.cpp": _LLAMA,
    "ollama": _LLAMA,
    "mlx": _LLAMA._replace(measured=False),
}


# The first vLLM that schedules a step while the one before it runs, unless told otherwise (pull request 27614).
_AHEAD = (0, 14)
# Then the work of the host hides behind that of the GPU. What is left beside kernels in dense models is fitted to open
# loops of Llama 2 7B, CodeLlama 34B and Qwen2.5 7B in 0.15 (inference-sim) and closed ones of Qwen3.5 4B in 0.27: 0.65
# ms a step and nothing for a sequence. Models with experts have the 1.3 ms and 12 us, to which runs of 0.16 to 0.19
# of them were fitted; what of that is their experts' kernels is not known.
_DENSE_STEP, _DENSE_SEQUENCE = 0.65e-3, 0.0


def runs_ahead(version: str) -> bool:
    """Whether a version of vLLM schedules ahead by default."""
    numbers = version.split(".")
    return tuple(int(each) for each in numbers[:2]) >= _AHEAD


def pace_of(engine: str, version: str | None = None, *, dense: bool = False) -> Pace:
    """The pace of an engine by its name, and of its newest version; "" is any engine for servers. `dense`: of a model
    without experts.
    """
    pace = _PACES.get(engine) or Pace(measured=False)
    if engine != "vllm" or (version is not None and not runs_ahead(version)):
        return pace
    pace = pace._replace(ahead=True)
    return pace._replace(step=_DENSE_STEP, sequence=_DENSE_SEQUENCE) if dense else pace


def pace_for(weights: str) -> Pace:
    """The pace where no engine is named: that of the one whose files are in such a format, where there is one."""
    if weights.startswith("mlx_"):
        return pace_of("mlx")
    return pace_of("llama.cpp" if weights in GGUF or weights in FILES else "")
