"""The blocks of one replica: those in use, and those of prompts that stay until their room is needed."""

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["Pool"]


class Pool:
    """Blocks by number. Blocks of prompts have the trace's ids, each of `each` blocks of the engine, and are shared."""

    def __init__(self, blocks: int, each: int) -> None:
        self.blocks, self.each = blocks, each
        self.used = 0
        self.shared = 0  # ids that a request has of another, each time one does
        self._holders: dict[int, int] = {}  # of ids in use
        self._kept: OrderedDict[int, None] = OrderedDict()  # ids that nobody uses, the oldest first

    def leading(self, ids: Sequence[int]) -> int:
        """How many of the first ids are there."""
        run = 0
        for one in ids:
            if one not in self._holders and one not in self._kept:
                break
            run += 1
        return run

    def missing(self, ids: Sequence[int], own: int) -> int:
        """Blocks that a request takes beside those in use: of ids, and `own` ones."""
        if not ids:
            return own
        return own + self.each * sum(one not in self._holders for one in ids)

    def take(self, ids: Sequence[int], own: int) -> None:
        """Take the blocks of a request, which are known to fit."""
        holders = self._holders
        for one in ids:
            count = holders.get(one, 0)
            holders[one] = count + 1
            if count:
                self.shared += 1
            else:
                self.used += self.each
                self._kept.pop(one, None)
        self.used += own
        self._make_room()

    def grow(self, blocks: int) -> None:
        """More of a request's own."""
        self.used += blocks
        self._make_room()

    def give_back(self, ids: Sequence[int], own: int, more: Sequence[int] = (), *, keep: bool) -> None:
        """A request's own blocks, and what nobody else uses of its ids, which may stay as the newest, with `more` ids
        that are of its own blocks.

        The last ones go first when room is needed, so that a leading run is left (vLLM frees in reverse order,
        `v1/core/single_type_kv_cache_manager.py`; SGLang and TensorRT-LLM evict leaves of their trees).
        """
        self.used -= own
        if keep and more:
            for one in reversed(more):
                self._kept[one] = None
                self._kept.move_to_end(one)
        holders = self._holders
        for one in reversed(ids):
            holders[one] -= 1
            if holders[one]:
                self.shared -= 1
            else:
                del holders[one]
                self.used -= self.each
                if keep:
                    self._kept[one] = None
                    self._kept.move_to_end(one)
        if more:
            self._make_room()

    def _make_room(self) -> None:
        if self._kept:
            room = (self.blocks - self.used) // self.each
            while len(self._kept) > max(room, 0):
                self._kept.popitem(last=False)
