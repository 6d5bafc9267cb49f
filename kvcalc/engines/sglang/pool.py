"""How SGLang divides the memory of its cache into tokens, windows and slots of states, and what it logs of them.

Source: SGLang 0.5.23, `srt/model_executor/pool_configurator.py` and `srt/mem_cache/kv_cache_configurator.py`. The
engine counts in GiB as doubles, and so does this.
"""

from typing import NamedTuple

from kvcalc.core.formula import kept
from kvcalc.core.model import Attention, Recurrent
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.engines.allocation import Capacity
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.cells import Cell, cell_of, draft_layers, formats, page_of, placed, ratio_of, slots_of
from kvcalc.engines.sglang.flags import integer
from kvcalc.errors import KvcalcError

__all__ = ["Pool", "pool_of"]

_STATE_RATIO = Fraction(9, 10)  # --mamba-full-memory-ratio: of states to the rest
_GIB = 2**30


class Pool(NamedTuple):
    """How SGLang divides a budget.

    `cells` by stage; `ratio` of window tokens to full ones; `slots` of states that a running request takes. `draft` is
    the states more that it takes with drafts, `requests` the most at once, `states` a given number of slots. `dtype` as
    torch names it, `length`: of a sequence at most.
    """

    cells: list[Cell]
    page: int
    ratio: Fraction | None
    slots: int
    state_ratio: Fraction
    most_tokens: int | None
    draft: int
    requests: int | None
    states: int | None
    dtype: str
    length: int

    @property
    def limits_tokens(self) -> bool:
        """Whether tokens can run out: not where states alone are kept, unless a flag says how many there are."""
        return self.most_tokens is not None or any(cell.full or cell.window for cell in self.cells)

    def counted(self, budget: int) -> Capacity:
        """Tokens and slots on the stage that has least."""
        cells = [cell for cell in self.cells if cell.full or cell.window] or self.cells
        return min((self._count(cell, budget) for cell in cells), key=lambda each: each.tokens)

    def _count(self, cell: Cell, budget: int) -> Capacity:
        slots, rest = self._states(max(each.state for each in self.cells), budget / _GIB)
        bytes_left = max(int(rest * _GIB), 0)
        share = None if self.ratio is None or not cell.window else self.ratio.part / self.ratio.of
        if share is None and not cell.full:  # a token takes nothing: as many as the slots' requests can have
            requests = 1 if slots is None else slots // self.slots
            tokens = self.most_tokens or requests * ceil_div(self.length, self.page) * self.page
        elif share is None:
            tokens = bytes_left // cell.full
        elif cell.full:  # doubles, as the engine has them: the ratio is one
            tokens = int(bytes_left // (cell.full + share * cell.window))
        else:
            tokens = bytes_left // cell.window
        tokens = min(tokens, self.most_tokens or tokens) // self.page * self.page
        windows = None
        if share is not None:
            windows = int(tokens * share) // self.page * self.page if cell.full else tokens
        values: dict[str, int | str | bool | None] = {"max_running_requests": self.running(tokens, slots)}
        if slots is not None:
            values["state_slots"] = slots
        if windows is not None:
            values["swa_tokens"] = windows
        return Capacity(tokens, None, values, self._log(cell, tokens, windows, slots))

    def running(self, tokens: int, slots: int | None) -> int:
        """Requests that may run at once (`resolve_max_num_reqs`)."""
        estimate = max(min(int(tokens / self.length * 512), 4096), 2048)
        most = min(self.requests or estimate, tokens // 2)
        return most if slots is None else min(most, slots // self.slots)

    def _states(self, each: int, rest: float) -> tuple[int | None, float]:
        """Slots of states, and the GiB left beside them and the one that is never used."""
        if not each:
            return None, rest
        drafts = 0
        slots = self.states
        if slots is None:
            ratio = self.state_ratio.part / self.state_ratio.of
            share = rest * ratio / (1 + ratio) * _GIB
            # With drafts, D states more for each running request, of which there is one for some slots.
            slots = int((share - each * (1 + self.draft)) // (each * (1 + self.draft / self.slots)))
            slots = max(slots, 0)
        if self.draft:
            assert self.requests is not None
            drafts = each * (min(self.requests, slots // self.slots) + 1) * self.draft
        rest -= drafts / _GIB
        return slots, rest - (slots + 1) * each / _GIB

    def _log(self, cell: Cell, tokens: int, windows: int | None, slots: int | None) -> tuple[str, ...]:
        """The lines that the engine prints of a pool; GB there is 2^30."""
        lines = []
        if windows is not None and cell.full:
            lines.append(f"Use sliding window memory pool. full_layer_tokens={tokens}, swa_layer_tokens={windows}")
        elif windows is not None:
            lines.append(f"Use sliding window memory pool (all SWA). swa_layer_tokens={windows}")
        if slots is not None:
            convolution, state = (
                size * (slots + 1) / _GIB for size in (cell.convolution, cell.state - cell.convolution)
            )
            lines.append(
                f"Mamba Cache is allocated. max_mamba_cache_size: {slots}, conv_state size: {convolution:.2f}GB, "
                f"ssm_state size: {state:.2f}GB "
            )
        own = cell.full and tokens
        lines += self._allocated(tokens, cell.full - cell.draft, cell.k) if own else []  # a draft has lines of its own
        if windows is not None:
            lines += self._allocated(windows, cell.window, cell.window_k)
            usage = ((tokens + self.page) * (cell.full - cell.draft) if own else 0) + (
                windows + self.page
            ) * cell.window
            sizes = f"swa size: {windows}, full size: {tokens if own else 0}"
            lines.append(f"SWAKVPool mem usage: {usage / _GIB:.2f} GB, {sizes}")
        return tuple(lines)

    def _allocated(self, tokens: int, both: int, k: int) -> list[str]:
        """One pool, which has a page more than its tokens."""
        rows = tokens + self.page
        sizes = f"KV size: {rows * both / _GIB:.2f} GB"
        if k:
            sizes = f"K size: {rows * k / _GIB:.2f} GB, V size: {rows * (both - k) / _GIB:.2f} GB"
        return [f"KV Cache is allocated. dtype: {self.dtype}, #tokens: {tokens}, {sizes}"]


_TORCH = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32", "fp8": "torch.float8_e4m3fn",
          "fp8_e4m3": "torch.float8_e4m3fn", "fp8_e5m2": "torch.float8_e5m2"}  # fmt: skip


def pool_of(question: Question) -> Pool:
    """The pool of a question, by its flags and SGLang's defaults. Raises KvcalcError where a rule is missing."""
    settings, parts = question.settings, placed(question)
    radix = not settings.get("disable_radix_cache")
    requests, states = integer(settings.get("max_running_requests")), integer(settings.get("max_mamba_cache_size"))
    recurrent = any(isinstance(each.cache, Recurrent) for each in parts)
    draft_layers(question)  # refuses drafts without a rule
    draft = integer(settings.get("draft_tokens")) or 0 if settings.get("algorithm") else 0
    if settings.get("algorithm") and recurrent and not draft:
        raise KvcalcError(
            "--speculative-num-draft-tokens: SGLang's default for a model with states is not known", "give it"
        )
    if settings.get("algorithm") and requests is None:
        requests = 48  # speculative_hook.py
    if states is None and not radix and requests is not None:
        states = requests
    ratio = ratio_of(question)
    full = any(isinstance(each.cache, Attention) and kept(each.cache) is None for each in parts)
    if ratio is not None and full and not radix and integer(settings.get("max_running_requests")):
        raise KvcalcError(
            "--disable-radix-cache: with --max-running-requests SGLang sizes windows by another rule",
            "leave one of them out",
        )
    given, length = settings.get("mamba_full_memory_ratio"), question.request.model.max_context
    stages, stored = range(question.request.layout.pp), formats(question)[0]
    return Pool(
        [cell_of([each for each in parts if each.stage == stage], question) for stage in stages],
        page_of(question),
        ratio,
        slots_of(question) if recurrent else 1,
        given if isinstance(given, Fraction) else _STATE_RATIO,
        integer(settings.get("max_total_tokens")),
        draft,
        requests,
        states,
        _TORCH.get(stored.name, stored.name),
        integer(settings.get("context_length")) or length or question.request.context,
    )
