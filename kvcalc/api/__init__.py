"""The Python interface. Import these from `kvcalc` itself: the command line asks the same questions.

Keyword arguments are named as the options of the command line and mean the same; None is what was not said. Sizes are
bytes, or text with a unit ("80GB"); lengths are tokens, or text ("8k"); a fraction is text or a float (0.9); cards,
formats and engines are named as there. A bare 80 for a size is 80 bytes.
Every mistake is a KvcalcError, which names the argument.
"""

from kvcalc.api.plans import check, plan, tradeoff
from kvcalc.api.schemas import schema
from kvcalc.api.simulations import simulate
from kvcalc.api.sizes import compare, fit, gpus, load, models, size, sweep

__all__ = [
    "check",
    "compare",
    "fit",
    "gpus",
    "load",
    "models",
    "plan",
    "schema",
    "simulate",
    "size",
    "sweep",
    "tradeoff",
]
