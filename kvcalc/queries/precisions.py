"""Formats of cache and weights that a plan chooses from: those that were asked for, and smaller ones to tell of."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.weights import parse as parse_weights
from kvcalc.core.weights import weigh
from kvcalc.planner.question import PlanQuestion, Precision
from kvcalc.queries.options import RunOptions, check_nothing_runs

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch

__all__ = ["NamedEngine", "PrecisionMaker", "engine_named"]

_AS_IT_IS = RunOptions()

# Smaller formats that the answer tells of, the first of each that an engine has.
_SMALLER_CACHES = (("fp8", "q8_0"), ("int4", "nvfp4", "q4_0"))
_SMALLER_WEIGHTS = ("fp8", "int4")


class NamedEngine(NamedTuple):
    """The engine that was named, with its own settings and what it says about options that were left to it."""

    started: "Launch"
    settings: Mapping[str, object]
    warnings: tuple[str, ...]

    @property
    def formats(self) -> tuple[str, ...]:
        return self.started.engine.formats


def engine_named(name: str | None, model: Model, run: RunOptions = _AS_IT_IS) -> NamedEngine | None:
    """The engine that `NAME[@VERSION]` names; None for no name. Raises KvcalcError for one that is not known, and for
    a way to run that it does not have.
    """
    if name is None:
        check_nothing_runs(run)
        return None
    from kvcalc.launch.command import launch
    from kvcalc.launch.running import told

    started = told(launch(name, None), run.stated)
    stated = started.engine.options_of(started.program, started.read, model)
    return NamedEngine(started, stated.settings, (*started.warnings, *stated.warnings))


class PrecisionMaker(NamedTuple):
    """What all precisions of one plan share.

    Attributes:
        model: The model.
        question: What is asked of the plan: its context and sequences.
        engine: The engine that was named.
        encoder_tokens: Tokens on the encoder's side.
    """

    model: Model
    question: PlanQuestion
    engine: NamedEngine | None
    encoder_tokens: int | None

    def every(self, kv_dtypes: Sequence[str], weights: Sequence[str]) -> Iterator[Precision]:
        """Each pair of formats. Raises KvcalcError for a format that nobody knows."""
        for kv in kv_dtypes:
            for format_ in weights:
                yield self._precision(kv, format_)

    def smaller(
        self, kv_dtypes: Sequence[str], weights: Sequence[str], first: Precision
    ) -> Iterator[tuple[str, Precision]]:
        """What was not asked for and is smaller, with its option: quality is given up by nobody but the asker."""
        for names in _SMALLER_CACHES:
            possible = [name for name in names if self.engine is None or name in self.engine.formats]
            if not possible or first.request.unused or possible[0] in kv_dtypes:
                continue
            other = self._precision(possible[0], weights[0])
            if _bits(other.request) < _bits(first.request):
                yield "--kv-dtype", other
        if list(weights) == ["auto"] and self.model.parameters is not None:
            for name in _SMALLER_WEIGHTS:
                smaller = self._precision(kv_dtypes[0], name)
                if 10 * smaller.whole.bytes < 9 * first.whole.bytes:
                    yield "--weights", smaller

    def _precision(self, kv: str, weights: str) -> Precision:
        """One pair of formats as a request. What an engine computes in by itself stands for auto."""
        packed, name = None, kv
        if self.engine is not None:
            started = self.engine.started
            if kv in started.engine.packed:
                packed, name = kv, started.engine.packed[kv]
            if kv == "auto":
                stated = started.engine.options_of(started.program, started.read, self.model)
                name = str({**stated.defaults, **stated.options}.get("kv_dtype", "auto"))
        question = self.question
        request = ask(
            self.model,
            context=question.context,
            batch=question.users,
            kv_dtype=name,
            encoder_tokens=self.encoder_tokens,
        )
        if kv == "auto":
            request = request._replace(auto=(True, True))
        parsed = parse_weights(weights, "--weights")
        called = ""
        if parsed == "auto":
            called = (self.model.weights_dtype or self.model.dtype).name
        elif not isinstance(parsed, str | int):
            called = parsed.name
        return Precision(kv, parsed, request, weigh(self.model, parsed), called, packed)


def _bits(request: Request) -> float:
    k = request.widths.k
    return k.block_bytes / k.block
