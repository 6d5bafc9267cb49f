"""How a verb declares its options: as attributes of classes, each written once and shared by the verbs that have it."""

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import typer
from typer.core import TyperCommand

from kvcalc.cli.configuration import take
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.errors import KvcalcError

__all__ = ["Words", "option", "verb"]


class Words:
    """Options as they were typed: each annotated attribute is one, and its value the default.

    A verb's class inherits from those of the options that it shares. An attribute that is declared again has another
    help or completion, and its old place in the list. `taken` says what the user's own defaults have filled in.
    """

    def __init__(self, **typed: Any) -> None:
        self.__dict__.update(typed)
        self.taken = ""

    @classmethod
    def declared(cls) -> dict[str, tuple[Any, Any]]:
        """Annotation and default of each option, in the order in which help lists them."""
        found: dict[str, tuple[Any, Any]] = {}
        for base in cls.__bases__:
            if issubclass(base, Words):
                found.update(base.declared())
        for name, annotation in inspect.get_annotations(cls).items():
            found[name] = (annotation, cls.__dict__[name])
        return found


def option(*names: str, metavar: str, panel: str, help: str, complete: Any = None) -> Any:  # noqa: A002
    """An option that takes a text, which kvcalc's own parsers read: so a mistake reads the same whatever Typer is
    installed.
    """
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, autocompletion=complete)


class _Verb(TyperCommand):
    """A command whose help ends with its examples, a line each, which an epilog would wrap."""

    examples: tuple[str, ...] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        self.write_examples(formatter)

    def write_examples(self, formatter: Any) -> None:
        formatter.write("\nExamples:\n" + "".join(f"  {example}\n" for example in self.examples))


def verb(app: typer.Typer, *examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function whose parameter `words` stands for all options of its class. `examples` end its help."""
    kind_of_command = type("Verb", (_Verb,), {"examples": examples})

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function).parameters
        kind: type[Words] = own["words"].annotation
        options = kind.declared()
        listed = [each.replace(kind=Parameter.KEYWORD_ONLY) for name, each in own.items() if name != "words"]
        listed += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

        def command(**given: Any) -> None:
            words = kind(**{name: given.pop(name) for name in options})
            meta = given["ctx"].meta if "ctx" in given else {}
            taken = take(vars(words), commanded=BEHIND_DASHES in meta)
            if taken is None:
                return function(**given, words=words)
            words.taken = taken.note()
            try:
                function(**given, words=words)
            except KvcalcError as error:
                raise KvcalcError(error.message, "; ".join(filter(None, (error.hint, words.taken)))) from None

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {each.name: each.annotation for each in listed}
        command.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]  # what Typer reads
        app.command(cls=kind_of_command)(command)
        return function

    return register
