"""The command of SGLang's server for a plan's row (`srt/arg_groups/fields` of 0.5.23)."""

from kvcalc.commands.start import Start, format_word, model_word, share_word, weights_word, words_of
from kvcalc.errors import KvcalcError

__all__ = ["replicates", "start"]

# The choices of --kv-cache-dtype in `arg_groups/fields/model.py`: its fp8 has two names.
_CACHE = {"bf16": "bf16", "fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}


def replicates(start: Start) -> bool:  # noqa: ARG001 - one signature for all engines
    """--dp-size starts all of them."""
    return True


def start(start: Start) -> tuple[str, ...]:
    """`sglang.launch_server`. --max-running-requests is for each replica: it is divided with dp attention alone
    (`model_executor/pool_configurator.py`). That, and a split context, have no rule here.
    """
    layout = start.layout
    if layout.dcp > 1:
        raise KvcalcError("--dcp: what sglang counts and logs of a split context is not known", "leave it out")
    shared = layout.sharing > 1
    spread = (("--tp-size", layout.expert_ranks), ("--pp-size", layout.pp), ("--dp-size", layout.dp))
    return (
        *("python", "-m", "sglang.launch_server", "--model-path", model_word(start)),
        *words_of((flag, size) for flag, size in (*spread, ("--ep-size", layout.ep)) if size > 1),
        *(("--enable-dp-attention",) if shared else ()),
        *words_of(
            (
                ("--context-length", start.context),
                ("--max-running-requests", start.sequences * layout.sharing),
                ("--kv-cache-dtype", format_word(start, _CACHE, "sglang")),
                ("--quantization", weights_word(start, {"fp8": "fp8"}, "sglang")),
                ("--mem-fraction-static", share_word(start.utilization)),
            )
        ),
    )
