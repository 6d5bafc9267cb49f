"""SGLang's second cache in the host's memory (`--enable-hierarchical-cache`), on each rank as large as its flags say.

Source: SGLang 0.5.23, `srt/mem_cache/pool_host/base.py: HostKVCache`: `--hicache-size` in GB (1e9 B) of each rank, the
rank with fewest tokens counting for all, else `--hicache-ratio` times the tokens of the GPU's pool; a page more.
"""

from collections.abc import Callable

from kvcalc.core.model import Attention, Latent
from kvcalc.engines.allocation import Capacity
from kvcalc.engines.host_tier import HostTier, values_of
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.cells import draft_layers
from kvcalc.engines.sglang.pool import Pool
from kvcalc.errors import KvcalcError

__all__ = ["host_facts", "with_host"]

_RATIO = 2.0  # --hicache-ratio of server_args.py


def _asked(question: Question) -> bool:
    if not question.settings.get("hicache"):
        return False
    if question.settings.get("disable_radix_cache"):  # server_args.py: mutually exclusive
        raise KvcalcError("--enable-hierarchical-cache: sglang refuses it with --disable-radix-cache", "leave one out")
    return True


def _one_kind(question: Question, pool: Pool) -> bool:
    """Whether one host pool has all that is cached: windows, states, index keys and drafts have others."""
    plain = all(isinstance(cache, Attention | Latent) for cache in question.request.model.distinct_caches)
    return (
        plain
        and not draft_layers(question)
        and all(cell.full and not cell.window and not cell.state for cell in pool.cells)
    )


def _tier(question: Question, pool: Pool, on_gpu: int | None) -> HostTier | None:
    """The tier of one replica; None where its size rests on a pool that is not known."""
    layout, size = question.request.layout, question.settings.get("hicache_size")
    ranks = layout.tp * layout.pp
    widest = max(cell.full for cell in pool.cells)
    known = _one_kind(question, pool)
    if isinstance(size, int) and size:
        if not known:
            return HostTier(size * ranks, None)
        tokens = size // widest
    elif on_gpu is None or not known:
        return None
    else:
        ratio = question.settings.get("hicache_ratio", _RATIO)
        assert isinstance(ratio, float)
        tokens = int(on_gpu * ratio)
    tokens = (tokens // pool.page + 1) * pool.page
    return HostTier(tokens * layout.tp * sum(cell.full for cell in pool.cells), tokens)


def with_host(question: Question, pool: Pool) -> Callable[[int], Capacity]:
    """What the pool counts in a budget, and behind it the host."""
    if not _asked(question):
        return pool.counted

    def counted(budget: int) -> Capacity:
        found = pool.counted(budget)
        return found._replace(values={**found.values, **values_of(_tier(question, pool, found.tokens))})

    return counted


def host_facts(question: Question, pool: Pool) -> tuple[str, ...]:
    """What is known of the tier before the pool is."""
    if not _asked(question):
        return ()
    tier = _tier(question, pool, None)
    if tier is not None:
        return (tier.said(),)
    if not _one_kind(question, pool):
        return ("the host keeps a second cache, whose size is not known of several kinds of caches",)
    return (f"the host keeps {question.settings.get('hicache_ratio', _RATIO):g} times the tokens of the GPU's pool",)
