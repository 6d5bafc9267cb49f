"""The terms of the memory that vLLM prints at start-up.

Sources: `worker/worker.py` of 0.6 to 0.8, `v1/worker/gpu_worker.py`, `gpu_model_runner.py` and `utils/mem_utils.py`
from 0.9 on; logs that people posted.
"""

from kvcalc.engines.log_form import line
from kvcalc.engines.log_terms import Parts

__all__ = ["MEMORY", "TERMS"]

_N = r"-?[\d.]+"

MEMORY = (
    line("odel loading took", rf"Model loading took (?P<weights>{_N}) Gi?B", "memory"),
    line("model weights took", rf"Loading model weights took (?P<weights>{_N}) Gi?B", "memory"),
    line("model weights take",
         rf"model weights take (?P<weights>{_N}) ?GiB; non_torch_memory takes (?P<non_torch>{_N}) ?GiB; "
         rf"PyTorch activation peak memory takes (?P<activations>{_N}) ?GiB", "memory"),
    line("torch peak memory increase", rf"torch peak memory increase: (?P<activations>{_N}) ?GiB", "memory"),
    line("total_gpu_memory", rf"total_gpu_memory(?:=| \()(?P<total>{_N}) ?GiB", "memory"),
    line("gpu_memory_utilization", r"x gpu_memory_utilization \((?P<gpu_memory_utilization>[\d.]+)\)", "memory"),
    line("Memory profiling results",
         r"Memory profiling results.{0,400}? gpu_memory_utilization=(?P<gpu_memory_utilization>[\d.]+)", "memory"),
    line("Free memory on device",
         rf"Free memory on device \({_N}/(?P<total>{_N}) GiB\) on startup\. Desired GPU memory utilization is "
         r"\((?P<gpu_memory_utilization>[\d.]+), ", "memory"),
    line("Actual usage is",
         rf"Actual usage is (?P<weights>{_N}) GiB for weight, (?P<activations>{_N}) GiB for peak activation, "
         rf"(?P<non_torch>{_N}) GiB for non-torch memory", "memory"),
    line("Actual usage is",  # whose peak has the estimate of the graphs in it
         rf"Actual usage is (?P<consumed>{_N}) GiB for consumed memory[^,]{{0,40}}, (?P<peak>{_N}) GiB for peak "
         "activation", "memory"),
    line("Graph capturing finished", rf"Graph capturing finished in \d+ secs?, took (?P<graphs>{_N}) GiB", "memory"),
    line("device_name=", r"device_name=(?P<card>\w{3,60})", "memory"),
)  # fmt: skip

_RUNTIME = ("runtime", "communication", "all-reduce workspace")
TERMS = {
    "total": Parts("total", ("total",)),
    "weights": Parts("weights", ("weights", "padded experts")),
    "activations": Parts("activations", ("activations", "encoder", "expert workspaces")),
    "peak": Parts("peak_and_graphs", ("activations", "encoder", "expert workspaces", "graphs")),
    "non_torch": Parts("non_torch", _RUNTIME),
    "consumed": Parts("consumed", ("weights", "padded experts", "penalties", *_RUNTIME)),
    "graphs": Parts("graphs", ("graphs",)),
    "available": Parts("cache", ("cache",)),
}
