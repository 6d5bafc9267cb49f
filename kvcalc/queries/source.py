"""Where the model of a question comes from: a value, a name, or a text that is piped in."""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

__all__ = ["Source", "load_model", "other_model"]


def _no_text(expected: str, example: str) -> bytes:  # noqa: ARG001 - one signature for all
    raise KvcalcError(f"-: expected {expected}, and there is no standard input here", "give it by its name or path")


class Source(NamedTuple):
    """A model, or how to find it.

    Attributes:
        model: The model, or MODEL as it was typed: a name, a path, a hub id, or `-`. None where a command names it.
        assume_dense: A config.json of an unknown type is read as full attention, if it is plainly shaped like Llama.
        read_text: Gives the text behind `-`; it takes what is expected, in words for an error, and a command
            into which it is piped.
    """

    model: Model | str | None
    assume_dense: bool = False
    read_text: Callable[[str, str], bytes] = _no_text

    @property
    def text(self) -> str:
        """What was typed, for a command that is to be typed again; the model's name where it is a value."""
        return self.model if isinstance(self.model, str) else "" if self.model is None else self.model.name


def other_model(source: Source, name: str, what: str) -> Model:
    """A model beside the one that is asked about, which may be on another machine. Raises KvcalcError that names
    `what` asks for it.
    """
    try:
        return load_model(source, name)
    except KvcalcError as error:
        hint = "its name or folder here, or its layers as `draft` in a copy of the model's preset, with method mtp"
        raise KvcalcError(f"{what}: {error.message}", error.hint if what.startswith("--") else hint) from None


def load_model(source: Source, name: str | None = None) -> Model:
    """The model of a source, or another one that is found in the same way. Raises KvcalcError."""
    wanted = source.model if name is None else name
    match wanted:
        case None:
            raise KvcalcError("MODEL: expected a model", "try `kvcalc llama3-70b --batch 8`, or see `kvcalc --help`")
        case "-":
            content = source.read_text("a preset or a config.json", "kvcalc - < config.json")
            return loader.load_text(content, "<stdin>", assume_dense=source.assume_dense)
        case str():
            return loader.load(wanted, assume_dense=source.assume_dense)
        case _:
            return wanted
