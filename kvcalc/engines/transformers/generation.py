"""A question as transformers runs it: which cache, in which dtype, and how its tokens came in."""

from collections.abc import Collection, Iterator
from math import gcd, lcm
from typing import NamedTuple, cast

from kvcalc.core.dtypes import DType
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import Widths
from kvcalc.core.model import Cache, Compressed, Indexer, Model, Recurrent, Shared
from kvcalc.core.request import Request
from kvcalc.engines.question import Question
from kvcalc.engines.transformers.flags import Settings
from kvcalc.engines.transformers.model_types import Habits, habits_of
from kvcalc.engines.transformers.quantized_cache import Quantised, chunks_waiting, quantised_of
from kvcalc.engines.transformers.versions import Version
from kvcalc.errors import KvcalcError

__all__ = ["Generation", "run_of"]

_MAMBA = frozenset({"mamba1"})
_DYNAMIC = "cache_implementation=dynamic"


class Generation(NamedTuple):
    """`tokens` of each sequence are cached, of which the last forward brought `last`; `decoded` came one by one.

    `beside`: tokens that a window has more than W. `static` is the length of a StaticCache. `widths` are those of the
    exact size, `dtype` the one that the model runs in. `sequences` are those of the fullest replica, each with `beams`
    caches.
    """

    version: Version
    habits: Habits
    settings: Settings
    widths: Widths
    dtype: DType
    tokens: int
    decoded: int
    encoder_tokens: int | None
    sequences: int
    beams: int
    float_states: frozenset[str]
    beside: int
    static: int | None
    quantised: Quantised | None

    @property
    def last(self) -> int:
        """Tokens of the last forward: `_prefill` in generation/utils.py splits the prompt into chunks."""
        if self.decoded:
            return 1
        chunk = self.settings.prefill_chunk_size
        return (self.tokens - 1) % chunk + 1 if chunk else self.tokens

    @property
    def windows(self) -> bool:
        """The cache knows of windows."""
        return self.habits.windows and not self.settings.no_config

    def moments(self, ratios: Collection[int]) -> Iterator["Generation"]:
        """When more may be held than in the end: after chunks, after the prompt, and before the last quantisation.

        What waits for the compressors of these `ratios` is most when one of them has its whole group.
        """
        quantised = self.quantised
        yield from self._chunks(ratios)
        if quantised is None and self.decoded:
            prompt = self.tokens - self.decoded
            yield self._replace(tokens=prompt, decoded=0)
            for tokens in (self.tokens // ratio * ratio for ratio in ratios):
                if tokens > prompt:
                    yield self._replace(tokens=tokens, decoded=tokens - prompt)
        elif quantised is not None and self.decoded > quantised.rest:
            rest, waiting = quantised.rest, quantised.residual - 1
            yield self._replace(tokens=self.tokens - rest - 1, quantised=quantised._replace(rest=waiting))

    def _chunks(self, ratios: Collection[int]) -> Iterator["Generation"]:
        """After whole chunks of the prompt. What waits repeats, and the rest grows: the last ones are enough."""
        chunk, prompt = self.settings.prefill_chunk_size, self.tokens - self.decoded
        if not chunk:
            return
        repeats = lcm(*(ratio // gcd(ratio, chunk) for ratio in ratios))
        if self.quantised is not None:
            repeats = chunks_waiting(self.quantised, chunk)
        for tokens in range(prompt // chunk * chunk, max(prompt - prompt % chunk - repeats * chunk, 0), -chunk):
            yield self._replace(
                tokens=tokens,
                decoded=0,
                quantised=None if self.quantised is None else self.quantised.after(tokens, chunk),
            )


def run_of(question: Question) -> Generation:
    """Raises KvcalcError where transformers has no such cache, or its rule is not known."""
    request, version = question.request, cast("Version", question.version)
    settings = Settings()._replace(**question.settings)  # type: ignore[arg-type]  # the flags' parsers made them
    model = request.model
    habits = habits_of(model, version.name)
    decoded = min(settings.max_new_tokens, request.context - 1)
    quantised = None if habits.own else quantised_of(request, settings, version, decoded)
    static = settings.cache_implementation == "static" and not habits.own
    if not static and model.model_type in version.forgetful and not _shares(model):
        habits = habits._replace(windows=False)
    if settings.no_config and not habits.own:
        _refuse(model, "a DynamicCache() without a config", Indexer, Recurrent, Compressed)
    if static and not habits.static:
        raise KvcalcError(f"cache_implementation: a StaticCache cannot hold the layers of {model.model_type}", _DYNAMIC)
    return Generation(
        version,
        habits,
        settings,
        request.widths,
        _dtype(request, settings, quantised),
        request.context,
        decoded,
        request.encoder_tokens,
        question.sequences,
        max(settings.num_beams, settings.num_return_sequences),
        version.float_states | (_MAMBA if model.model_type in version.float_types else frozenset()),
        int(model.model_type in version.wider),
        max(request.context, settings.max_cache_len) if static else None,
        quantised,
    )


def _shares(model: Model) -> bool:
    return any(isinstance(cache, Shared) for cache in model.distinct_caches)


def _dtype(request: Request, settings: Settings, quantised: Quantised | None) -> DType:
    """The dtype that the model runs in, and so its caches. The KV format that a checkpoint declares is ignored."""
    if settings.dtype is not None:
        return settings.dtype
    k, v = (request.model.dtype if auto else own for own, auto in zip(request.widths[:2], request.auto, strict=True))
    if k != v:
        raise KvcalcError("--k-dtype: keys and values have one dtype in transformers, the model's", "use --kv-dtype")
    return request.model.dtype if quantised else k


def _refuse(model: Model, what: str, *kinds: type[Cache]) -> None:
    for cache in model.distinct_caches:
        if isinstance(cache, kinds):
            raise KvcalcError(
                f"cache_implementation: {what} cannot hold the {cache_name(cache)} of {model.name}", _DYNAMIC
            )
