"""Arguments of the Python interface become the typed values of a question: a reader for each kind of value.

Python lets a caller give anything for anything, so each reader takes an object and the argument's name, and raises
KvcalcError("NAME: expected X, got Y") for what it cannot read. What a value means is said where the answer is found.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from kvcalc.core.model import Model
from kvcalc.core.units import (
    MOST_BYTES,
    MOST_GPUS,
    MOST_TOKENS,
    Fraction,
    parse_count,
    parse_size,
    parse_tokens,
)
from kvcalc.core.weights import Weights
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError, shown
from kvcalc.jobs import Workers
from kvcalc.queries.options import NamedGpu
from kvcalc.queries.source import Source

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kvcalc.core.adapters import Adapters
    from kvcalc.core.images import Images

__all__ = [
    "adapters_of",
    "bytes_of", "card_of", "cards_of", "choice_of", "context_of", "count_of", "flags_of", "fraction_of",
    "gpus_of", "heads_of", "in_python", "optional", "parameters_of", "path_of", "rate_of", "sequence_of",
    "size_of", "source_of", "switch_of", "text_of", "tokens_of", "weights_of", "words_of",
    "workers_of", "wrong",
]  # fmt: skip

Read = TypeVar("Read")
Word = TypeVar("Word", bound=str)

_MOST_PARAMETERS = 10**16  # as on the command line
_MOST_RATE = 10**12


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


def wrong(what: str, expected: str, value: object) -> KvcalcError:
    """The error of an argument that is of no use."""
    return KvcalcError(f"{what}: expected {expected}, got {shown(value)}")


def optional(read: Callable[[object, str], Read], value: object, what: str) -> Read | None:
    """What `read` makes of a value that was given; None stays None."""
    return None if value is None else read(value, what)


def source_of(model: object, what: str = "model") -> Source:
    """A model that was loaded, or the name or path of one."""
    if isinstance(model, os.PathLike):
        return Source(path_of(model, what))
    if not isinstance(model, Model | str):
        raise wrong(what, "what load() returns, or a name", model)
    return Source(model)


def text_of(value: object, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise wrong(what, "text", value)
    return value


def path_of(value: object, what: str) -> str:
    """A path, as text or as a Path; a Path is never the name of something else."""
    if isinstance(value, os.PathLike):
        path: object = os.fspath(value)
        value = path if not isinstance(path, str) or os.path.dirname(path) else os.path.join(os.curdir, path)
    if not isinstance(value, str) or "\0" in value or not _encodes(value):
        raise wrong(what, "a path", value)
    return value


def _encodes(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def switch_of(value: object, what: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(what, "True or False", value)
    return value


def choice_of(value: object, what: str, *words: Word) -> Word:
    """One of some words."""
    for word in words:
        if isinstance(value, str) and value.strip().lower() == word:
            return word
    raise wrong(what, " or ".join(words), value)


def count_of(value: object, what: str, most: int = MOST_TOKENS, otherwise: str = "") -> int:
    """A whole number above zero; True is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise wrong(what, f"a whole number above zero{otherwise}", value)
    if value > most:
        raise wrong(what, f"1 to {most:,}", value)
    return value


def workers_of(value: object, what: str) -> Workers:
    """Who works for this process: whatever takes work as `concurrent.futures.Executor` does."""
    if not callable(getattr(value, "submit", None)) or isinstance(value, type):
        raise wrong(what, "an executor of concurrent.futures", value)
    executor: Executor = value  # type: ignore[assignment]
    return Workers(executor)


def gpus_of(value: object, what: str) -> int:
    """A number of GPUs."""
    return count_of(value, what, MOST_GPUS)


def tokens_of(value: object, what: str) -> int:
    """Tokens as an int, or as text such as 8k."""
    return parse_tokens(value, what) if isinstance(value, str) else count_of(value, what)


def context_of(value: object, what: str) -> int | Literal["max"]:
    """Tokens as an int or as text, or `max`, the model's limit."""
    if isinstance(value, str):
        return "max" if value.strip().lower() == "max" else parse_tokens(value, what)
    return count_of(value, what, otherwise=" or max")


def heads_of(value: object, what: str) -> int | Literal["all"]:
    return (
        "all"
        if isinstance(value, str) and value.strip().lower() == "all"
        else count_of(value, what, otherwise=" or all")
    )


def parameters_of(value: object, what: str) -> int:
    """A count as an int, or as text such as 8.03B."""
    count = parse_count(value) if isinstance(value, str) else count_of(value, what, _MOST_PARAMETERS - 1)
    if not count or count >= _MOST_PARAMETERS:
        raise wrong(what, "a count such as 8.03B", value)
    return count


def rate_of(value: object, what: str) -> float:
    """Requests a second."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MOST_RATE:  # nan is not
        raise wrong(what, "requests a second, such as 5 or 0.5", value)
    return float(value)


def bytes_of(value: object, what: str, *, zero: bool = True) -> int:
    """Bytes as an int, or text with a unit."""
    if isinstance(value, str):
        return parse_size(value, what, zero=zero)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_BYTES:
        raise wrong(what, "bytes as an int, or text with a unit", value)
    if not value and not zero:
        raise wrong(what, "a size above zero", value)
    return value


def size_of(value: object, what: str) -> int:
    """Bytes of a memory, which are more than none."""
    return bytes_of(value, what, zero=False)


def fraction_of(value: object, what: str) -> Fraction:
    """A fraction as text, or as a float in as many digits as it is written with."""
    if not isinstance(value, int | float | str) or isinstance(value, bool) or value in (float("inf"), -float("inf")):
        raise wrong(what, "a fraction such as 0.9", value)
    return Fraction.parse(value if isinstance(value, str) else _digits(value, what), what)


def _digits(value: float, what: str) -> str:
    if isinstance(value, int) and not 0 <= value <= 1:  # perhaps of more digits than Python prints
        raise wrong(what, "a fraction above 0 and up to 1", value)
    return str(value)


def weights_of(value: object, what: str) -> Weights:
    """`auto`, `none`, a format, or a size."""
    return parse_weights(value, what) if isinstance(value, str) else bytes_of(value, what)


def sequence_of(value: object, what: str, of: str) -> Sequence[object]:
    """A list of one or more values, which a text is not."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        raise wrong(what, of, value)
    if not value:
        raise KvcalcError(f"{what}: expected {of}, got an empty list")
    return value


def words_of(value: object, what: str) -> list[str]:
    """One word or several."""
    if isinstance(value, str):
        return [value]
    return [text_of(word, what) for word in sequence_of(value, what, "text or a list of texts")]


def adapters_of(value: object, what: str) -> "Adapters":
    """Room for adapters, as `4:16`."""
    from kvcalc.core.adapters import parse_adapters

    return parse_adapters(text_of(value, what), what)


def images_of(value: object, what: str) -> "Images":
    """Images of a sequence: a number, or text such as `2:1920x1080`."""
    from kvcalc.core.images import parse_images

    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else text_of(value, what)
    return parse_images(text, what)


def flags_of(value: object, what: str) -> Sequence[str]:
    """The words behind `--`, which may be none."""
    if isinstance(value, list | tuple) and not value:
        return []
    return [text_of(word, what) for word in sequence_of(value, what, "a list of texts")]


def card_of(name: object, file: object) -> NamedGpu | None:
    """The one card that a name means; a file of cards may have it."""
    path = optional(path_of, file, "gpu_file")
    if name is None:
        if path is not None:
            raise KvcalcError("gpu_file: has no effect without gpu", "add gpu=NAME, a card of that file")
        return None
    from kvcalc.cards.names import card_called

    text = text_of(name, "gpu")
    return NamedGpu(text, *card_called(text, file=path))


def cards_of(names: object, file: object) -> list[NamedGpu] | None:
    """The cards of a list, or of a text with commas, each as it may be named alone."""
    path = optional(path_of, file, "gpu_file")
    if names is None:
        return None
    from kvcalc.cards.names import cards_called

    return [
        NamedGpu(card.name if number is None else f"{number}x{card.name}", number, card)
        for number, card in cards_called(",".join(words_of(names, "gpu")), file=path)
    ]
