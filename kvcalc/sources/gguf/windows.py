"""Which blocks slide, by architecture: the pattern and the window of the file, or what llama.cpp takes without them.

Rules: load_arch_hparams in src/models/ARCH.cpp and load_swa_pattern in src/llama-model.cpp (llama.cpp 0c1e57098).
"""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.model import Pattern
from kvcalc.sources.gguf.blocks import Blocks, Layer, shared

__all__ = ["WINDOWED"]

_WINDOW, _PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"


class _Rule(NamedTuple):
    """`every` is the pattern of files without one (0: all slide, None: the file must have one); of a block of `every`
    layers the last one does not slide, or the first. `absent` is the window of files without one: 0 means that nothing
    slides, None that the file must have one. `always` is the window that llama.cpp takes whatever the file says.
    """

    every: int | None
    first: bool = False
    absent: int | None = None
    always: int | None = None
    pattern: Pattern = "sliding"


_IN_FILE = _Rule(None)
_WHOLE = _Rule(0, absent=0)  # every layer slides if there is a window

_RULES = {
    "gemma2": _Rule(2, absent=4096),
    "gemma3": _Rule(6, absent=0),
    "gemma3n": _Rule(5),
    "gemma4": _IN_FILE,
    "gpt-oss": _Rule(2),
    "cohere2": _Rule(4),
    "cohere2moe": _Rule(4, first=True),
    "muse-glimmer": _Rule(4),
    "olmo2": _Rule(4, absent=0),
    "afmoe": _Rule(4, absent=0),
    "mellum": _Rule(4, absent=0),
    "laguna": _Rule(4, first=True, absent=0),
    "smallthinker": _Rule(4, first=True, absent=0, always=4096),
    "exaone4": _Rule(4, absent=0),
    "exaone-moe": _Rule(4, absent=128),
    "plamo3": _Rule(8, absent=0),
    "llama4": _Rule(4, absent=8192, always=8192, pattern="chunked"),
    "mimo2": _IN_FILE,
    "step35": _IN_FILE,
    "spark2_5": _IN_FILE,
    "maple": _IN_FILE,
    "granite_swa": _IN_FILE,
    # llama.cpp does not look at the window of these (phi3.cpp switches it off, llama.cpp never asks): Mistral 7B v0.1
    # and Phi-3 slide in every layer, and the file says so.
    "llama": _WHOLE,
    "phi3": _WHOLE,
    "phimoe": _WHOLE,
}


def _windowed(blocks: Blocks) -> Callable[[int], Layer]:
    rule = _RULES[blocks.keys.arch]
    window = _window(blocks, rule)
    slides = _pattern(blocks, rule) if window else [False] * blocks.total
    return lambda i: (blocks.attention(i, rule.pattern, window) if slides[i] else blocks.attention(i),)


def _window(blocks: Blocks, rule: _Rule) -> int:
    """The window in tokens, 0 for none."""
    keys = blocks.keys
    absent = 4096 if keys.arch == "exaone4" and blocks.trunk == 64 else rule.absent  # exaone4.cpp: the 32B model
    window = keys.number(_WINDOW, high=1 << 40)
    if window is None and absent is None:
        keys.refuse(_WINDOW, "the window in tokens")
    if window and rule is _WHOLE:
        keys.notes.append(f"All layers slide over {window:,} tokens, which llama.cpp ignores: it caches everything.")
    if window and keys.arch == "exaone4" and blocks.trunk != 64:
        keys.notes.append("llama.cpp slides only in EXAONE 4 models of 64 layers, and caches everything in this one.")
    if window and rule.always not in (None, window):
        keys.notes.append(f"llama.cpp takes {rule.always:,} tokens for the window, whatever the file says.")
    if window is None and absent:
        keys.default(_WINDOW, absent)
    return window if window is not None else absent or 0


def _pattern(blocks: Blocks, rule: _Rule) -> list[bool]:
    """For each block whether it slides. Draft blocks do only where the file lists them as well."""
    keys, total, trunk = blocks.keys, blocks.total, blocks.trunk
    value = keys.get(_PATTERN)
    if isinstance(value, list):
        listed = keys.each(_PATTERN, total, among=(trunk,)) or []
        return [bool(entry) for entry in listed] + [False] * (total - len(listed))
    every = keys.number(_PATTERN)
    if every is None:
        every = rule.every
        if every:
            keys.default(_PATTERN, every)
    if every is None or (value is not None and rule.every is None):  # llama.cpp reads a list here and nothing else
        keys.refuse(_PATTERN, "a list with one entry for each layer")
    return [i < trunk and _slides(i, every, first=rule.first) for i in range(total)]


def _slides(i: int, every: int, *, first: bool) -> bool:
    """set_swa_pattern in llama-hparams.cpp: of `every` layers the last one attends to everything, or the first."""
    if not every:
        return True
    return i % every != 0 if first else i % every < every - 1


def _sharing(count: Callable[[Blocks], int]) -> Callable[[Blocks], Callable[[int], Layer]]:
    """The first `count` blocks have caches; the others reuse the last of their kind."""

    def family(blocks: Blocks) -> Callable[[int], Layer]:
        own, layer = count(blocks), _windowed(blocks)

        def reusing(i: int) -> Layer:
            return layer(i) if i < own or i >= blocks.trunk else shared(layer(i)[0].name)

        names = {layer(i)[0].name for i in range(min(own, blocks.trunk))}
        lacking = next((name for i in range(own, blocks.trunk) if (name := layer(i)[0].name) not in names), None)
        if lacking is not None:
            blocks.keys.refuse(_SHARED, f"fewer, so that a layer with a {lacking} cache is left to reuse")
        return reusing

    return family


_SHARED = "attention.shared_kv_layers"


def _own_gemma3n(blocks: Blocks) -> int:
    """gemma3n.cpp says 20, without a look at the file; both published models agree with their files."""
    given = blocks.keys.number(_SHARED, high=blocks.trunk)
    if given is None:
        blocks.keys.default(_SHARED, max(blocks.trunk - 20, 0))
    own = 20 if given is None else blocks.trunk - given
    if own != 20:
        blocks.keys.notes.append("llama.cpp caches the first 20 layers of this architecture, whatever the file says.")
    return own


def _own_gemma4(blocks: Blocks) -> int:
    return blocks.total - (blocks.keys.number(_SHARED, high=blocks.trunk) or 0)


WINDOWED = dict.fromkeys(_RULES, _windowed) | {
    "gemma3n": _sharing(_own_gemma3n),
    "gemma4": _sharing(_own_gemma4),
}
