"""Arguments of the Python interface become the typed values of a question."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from kvcalc.core.model import Model
from kvcalc.core.units import Fraction, parse_size
from kvcalc.core.weights import Weights
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError, shown
from kvcalc.grid.ranges import names
from kvcalc.queries.grid_question import Axes, GridQuestion
from kvcalc.queries.options import CacheFormat, Memory, NamedGpu, Split
from kvcalc.queries.source import Source

__all__ = [
    "GridOptions", "bytes_of", "card_of", "cards_of", "fraction_of", "grid_of", "in_python", "optional", "source_of",
    "weights_of", "words_of",
]  # fmt: skip

Read = TypeVar("Read")


@contextmanager
def in_python() -> Iterator[None]:
    """Errors that name options of the command line name the arguments instead."""
    try:
        yield
    except KvcalcError as error:
        if "--" not in error.message:
            raise
        raise KvcalcError(_OPTION.sub(_argument, error.message), error.hint) from None


_OPTION = re.compile(r"--([a-z][a-z-]*)")


def _argument(option: re.Match[str]) -> str:
    return option[1].replace("-", "_")


def optional(read: Callable[[Any, str], Read], value: object, what: str) -> Read | None:
    """What `read` makes of a value that was given; None stays None."""
    return None if value is None else read(value, what)


def source_of(model: Model | str) -> Source:
    """A model that was loaded, or the name of one."""
    if not isinstance(model, Model | str):
        raise KvcalcError(f"model: expected what load() returns, or a name, got {shown(model)}")
    return Source(model)


def bytes_of(value: int | str, what: str) -> int:
    """Bytes as an int, or text with a unit."""
    if isinstance(value, str):
        return parse_size(value, what, zero=True)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise KvcalcError(f"{what}: expected bytes as an int, or text with a unit, got {shown(value)}")
    return value


def fraction_of(value: float | str, what: str) -> Fraction:
    """A fraction as text, or as a float in as many digits as it is written with."""
    return Fraction.parse(str(value), what)


def weights_of(value: int | str, what: str) -> Weights:
    """`auto`, `none`, a format, or a size."""
    return parse_weights(value, what) if isinstance(value, str) else bytes_of(value, what)


def card_of(name: str | None, file: str | None) -> NamedGpu | None:
    """The one card that a name means."""
    if name is None:
        return None
    from kvcalc.cards.names import card_called

    return NamedGpu(name, *card_called(name, file=file))


def cards_of(names: str | Sequence[str] | None, file: str | None) -> list[NamedGpu] | None:
    """The cards of a list, or of a text with commas, each as it may be named alone."""
    if names is None:
        return None
    from kvcalc.cards.names import cards_called

    text = names if isinstance(names, str) else ",".join(names)
    return [
        NamedGpu(card.name if number is None else f"{number}x{card.name}", number, card)
        for number, card in cards_called(text, file=file)
    ]


def words_of(words: str | Sequence[str]) -> list[str]:
    """One word or several, in lower case."""
    return [words.lower()] if isinstance(words, str) else [word.lower() for word in words]


class GridOptions(TypedDict, total=False):
    """The options of a grid, as the command line has them; None is what was not said.

    Sizes are bytes, or text with a unit. `context`, `batch`, `kv_dtype`, `tp`, `engine`, `gpu` and `weights` are axes:
    one value, a list, or a text such as "4k,8k", and of numbers "1k..64k:x2".
    """

    context: int | str | Sequence[int | Literal["max"]] | None
    batch: int | str | Sequence[int] | None
    encoder_tokens: int | None
    kv_dtype: str | Sequence[str] | None
    k_dtype: str | None
    v_dtype: str | None
    kv_heads: int | Literal["all"] | None
    engine: str | Sequence[str] | None
    vram: int | str | None
    gpu: str | Sequence[str] | None
    gpu_file: str | None
    kv_memory: int | str | None
    utilization: float | str | None
    weights: str | Sequence[str] | None
    overhead: int | str | None
    tp: int | str | Sequence[int] | None
    pp: int | None
    dp: int | None
    dcp: int | None
    gpus: int | None


def grid_of(flags: Sequence[str] | None, **options: Unpack[GridOptions]) -> GridQuestion:
    """The question of a grid; `flags` are the engine's own. Raises KvcalcError."""
    unknown = sorted(options.keys() - GridOptions.__annotations__.keys())
    if unknown:
        raise KvcalcError(f"{unknown[0]}: expected one of {', '.join(GridOptions.__annotations__)}")
    return GridQuestion(
        axes=Axes(
            gpus=cards_of(options.get("gpu"), options.get("gpu_file")),
            weights=_names(options.get("weights"), "weights"),
            engines=_names(options.get("engine"), "engine"),
            kv_dtypes=_names(options.get("kv_dtype"), "kv_dtype"),
            tps=_numbers(options.get("tp")),
            contexts=_numbers(options.get("context")),
            batches=_numbers(options.get("batch")),
        ),
        encoder_tokens=options.get("encoder_tokens"),
        form=CacheFormat(None, options.get("k_dtype"), options.get("v_dtype"), options.get("kv_heads")),
        split=Split(None, options.get("pp"), options.get("dp"), options.get("dcp"), options.get("gpus")),
        memory=Memory(
            vram=optional(bytes_of, options.get("vram"), "vram"),
            kv_memory=optional(bytes_of, options.get("kv_memory"), "kv_memory"),
            utilization=optional(fraction_of, options.get("utilization"), "utilization"),
            overhead=optional(bytes_of, options.get("overhead"), "overhead"),
        ),
        words=flags,
    )


def _names(words: str | Sequence[str] | None, what: str) -> list[str] | None:
    return None if words is None else names(words if isinstance(words, str) else ",".join(words), what)


Number = TypeVar("Number", int, "int | Literal['max']")


def _numbers(values: int | str | Sequence[Number] | None) -> Sequence[Number] | Sequence[int] | str | None:
    return [values] if isinstance(values, int) else values
