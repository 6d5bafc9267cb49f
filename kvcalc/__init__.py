"""KV-cache memory of language models, right to the byte.

    >>> import kvcalc
    >>> model = kvcalc.load("llama3-70b")
    >>> size = kvcalc.size(model, batch=8)
    >>> size.bytes_per_token, size.bytes_total
    (327680, 10737418240)
    >>> kvcalc.fit(size, vram="80GB", weights="int4").max_batch
    33

Answers are typed and have bytes as ints; `to_dict()` is the document of `--json`, and `rows()` what a data frame takes.
Every mistake is a `KvcalcError`. The command line asks the same questions. Names are imported when they are first used,
so that `import kvcalc` costs nothing.
"""

# As in `typing`, which is not imported for it: an interrupt meets a program that has hardly begun.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from kvcalc.api import check, compare, fit, gpus, load, models, plan, schema, simulate, size, sweep, tradeoff
    from kvcalc.core.fitting import Fit
    from kvcalc.core.model import Model
    from kvcalc.core.sizing import Size
    from kvcalc.errors import DocumentError, KvcalcError
    from kvcalc.version import __version__

__all__ = [
    "DocumentError", "Fit", "KvcalcError", "Model", "Size", "__version__", "check", "compare", "fit", "gpus", "load",
    "models", "plan", "schema", "simulate", "size", "sweep", "tradeoff",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("fit", "gpus", "load", "models", "size", "sweep", "compare"), "api.sizes"),
    **dict.fromkeys(("check", "plan", "tradeoff"), "api.plans"),
    "schema": "api.schemas",
    "simulate": "api.simulations",
    **dict.fromkeys(("DocumentError", "KvcalcError"), "errors"),
    "Fit": "core.fitting",
    "Model": "core.model",
    "Size": "core.sizing",
    "__version__": "version",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'kvcalc' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f"kvcalc.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
