"""What changed in llama.cpp from build to build, as far as it changes the cache.

Sources: pull requests of ggml-org/llama.cpp, and the copies of it inside llama-cpp-python 0.3.2 (November 2024), 0.3.9,
0.3.14, 0.3.16, 0.3.17, 0.3.26 and 0.3.36 (0c1e57098, October 2026). Pull requests have dates and builds have not: of
the numbers below b5554, b5913 and b6969 are named in issues, the others lie between builds of known dates, and may be
some dozens off.
"""

from typing import Literal, NamedTuple

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """One build and those after it. The defaults are those of the newest.

    `padding`: cells come in multiples of this with flash attention, and without. `window`: what a sliding cache holds
    beside its window, None where sliding layers keep everything. `padded_window`: the window is padded before it is
    cut to the context. `latent`: what is kept of latent attention; `indexed`: GLM 5 keeps its
    index keys. `streams`: sequences may have cells of their own;
    `whole_hybrid`: of hybrid models, each has as many as all together. `flash`: the default of -fa. `slots` of
    llama-server by default; `one_is_auto`: -np 1 is taken for the default. `context`: what -c is by default (0: the
    model's limit, None: not known here). `rollback`: architectures whose state is kept for each draft token.
    `recent` and `outputs`: buffers as in 2026, and as since its summer, when only rows that are asked for have logits.
    `log`: how the lines with the sizes look (0: in another way than is written here).
    """

    name: str
    padding: tuple[int, int] = (256, 256)
    window: Literal["batch", "micro-batch"] | None = "micro-batch"
    padded_window: bool = False
    latent: Literal["heads", "key and value", "key"] = "key"
    indexed: bool = True
    streams: bool = True
    whole_hybrid: bool = False
    widest: bool = True
    flash: Literal["auto", "off"] = "auto"
    slots: int = 4
    one_is_auto: bool = False
    context: int | None = 0
    least_batch: int = 0
    rollback: frozenset[str] = frozenset()
    drafted: int = 3
    recent: bool = True
    outputs: bool = True
    log: Literal[0, 1, 2, 3] = 3


_QWEN = frozenset({"qwen35", "qwen35moe"})
_MORE = "kimi-k3 qwen4exp deepseek4 glm5-next nemotron_h nemotron_h_moe lfm2 lfm2moe bailingmoe3"

_NEWEST = Version("b10720", rollback=_QWEN | frozenset(_MORE.split()))  # pull request 28123, 2026-08-31, and others
_GLM_INDEX = _NEWEST._replace(name="b10150", rollback=_QWEN, log=2)  # 25407, 2026-07-24: the indexer of GLM-5
_MTP = _GLM_INDEX._replace(
    name="b9170", indexed=False, outputs=False
)  # 22673, 2026-05: draft heads, states kept for each draft
_V_LESS = _MTP._replace(name="b7824", rollback=frozenset(), log=1)  # 19067, 2026-01-24: latents without a V
_FIT = _V_LESS._replace(
    name="b7410", latent="key and value", recent=False
)  # 16653, 2025-12: -c from the model, --fit; -np auto
_PAD_256 = _FIT._replace(name="b6973", context=4096, one_is_auto=True)  # 17046, 2025-11-07: padding again
_SLOTS = _PAD_256._replace(name="b6907", padding=(1, 1))  # 16736, 2025-11-02: llama-server has 4 unified slots
_NO_PAD = _SLOTS._replace(name="b6868", slots=1, one_is_auto=False)  # 16812, 2025-10-28: no padding
_AUTO_FLASH = _NO_PAD._replace(  # 15434, 2025-08-30: -fa auto
    name="b6325", padding=(256, 32), padded_window=True, whole_hybrid=True, least_batch=64, log=0
)
_STREAMS = _AUTO_FLASH._replace(name="b6073", flash="off")  # 14363 and 14959, 2025-08-02: cells for each sequence
_MICRO = _STREAMS._replace(name="b5554", streams=False, whole_hybrid=False, widest=False)  # 13833, 2025-05-31
_WINDOWS = _MICRO._replace(name="b5427", window="batch")  # 13194, 2025-05-20: the first cache for sliding layers
_LATENT = _WINDOWS._replace(name="b5133", window=None)  # 12801, 2025-04-15: latent attention
_READ = _LATENT._replace(name="b4082", latent="heads")  # 2024-11-15, read in llama-cpp-python 0.3.2
_PAD_32 = _READ._replace(name="b2877", context=None)  # 7257, 2024-05-13: less padding without flash attention
_FLASH = _PAD_32._replace(name="b2775", padding=(256, 256))  # 5021, 2024-04-30: flash attention, and padding for it
_FIRST = _FLASH._replace(name="b1", padding=(1, 1), least_batch=0)

VERSIONS = (
    _FIRST, _FLASH, _PAD_32, _READ, _LATENT, _WINDOWS, _MICRO, _STREAMS, _AUTO_FLASH, _NO_PAD, _SLOTS, _PAD_256, _FIT,
    _V_LESS, _MTP, _GLM_INDEX, _NEWEST,
)  # fmt: skip
