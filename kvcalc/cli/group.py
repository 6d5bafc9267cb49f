"""`kvcalc MODEL` is `kvcalc size MODEL`: a group of verbs with a default, each verb imported only when it is called."""

import copy
from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command as command_of

from kvcalc.errors import KvcalcError, shown

__all__ = ["BEHIND_DASHES", "DEFAULT_VERB", "VERBS", "VERB_MODULES", "ModelOrVerbGroup"]

DEFAULT_VERB = "size"

# Where the words behind `--` are found in a context's `meta`: an engine's own command line, which Typer must not read.
BEHIND_DASHES = "kvcalc.behind_dashes"

# Every verb that the command line has or will have. A verb is one word of letters and a preset's name never is, so that
# no verb added later can take a model's name away.
_ABOUT = ("help", "version")  # verbs that speak of kvcalc itself
VERBS = (
    "size", "plan", "sweep", "compare", "simulate", "tradeoff", "check", "verify", "models", "gpus", "preset", *_ABOUT,
)  # fmt: skip

# Building eleven verbs of 28 options
# would cost a third of the start-up, so only the one that was called is imported.
VERB_MODULES = {
    "size": "kvcalc.cli.size",
    "plan": "kvcalc.cli.plan",
    "sweep": "kvcalc.cli.sweep",
    "compare": "kvcalc.cli.compare",
    "simulate": "kvcalc.cli.simulate",
    "tradeoff": "kvcalc.cli.tradeoff",
    "check": "kvcalc.cli.check",
    "verify": "kvcalc.cli.verify",
    "models": "kvcalc.cli.models",
    "gpus": "kvcalc.cli.gpus",
    "preset": "kvcalc.cli.preset",
}
_READS_FLAGS = (DEFAULT_VERB, "sweep", "check")  # verbs that an engine's own flags may follow


class ModelOrVerbGroup(TyperGroup):
    """Reads `kvcalc THING ...` as `kvcalc size THING ...` unless THING is a verb or an option of the group itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERB_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERB_MODULES:
            return None
        command = command_of(import_module(VERB_MODULES[cmd_name]).app)
        command.name = cmd_name
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args = _as_options(args)
        elif args[:1] in (["help"], ["version"]):  # completion: what may follow is what may stand first
            args = args[1:]
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        first = args[0].split("=", 1)[0] if args else ""
        if first in VERBS and first not in VERB_MODULES:
            raise KvcalcError(f"{first}: this version of kvcalc does not have this command yet")
        if args and first not in own and first not in VERB_MODULES:
            args = [DEFAULT_VERB, *args]
        if "--" in args:
            dashes = args.index("--")
            args, ctx.meta[BEHIND_DASHES] = args[:dashes], args[dashes + 1 :]
            if args[0] not in _READS_FLAGS:
                raise KvcalcError(f"--: {args[0]} does not read an engine's own command line", "kvcalc MODEL -- ...")
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Verbs, and what may follow the default verb: models, or its options."""
        items = super().shell_complete(ctx, incomplete)
        verb = self.get_command(ctx, DEFAULT_VERB)
        with verb.make_context(DEFAULT_VERB, [], parent=ctx, resilient_parsing=True) as inner:
            source = verb if incomplete.startswith("-") else verb.params[0]
            known = {item.value for item in items}
            return items + [item for item in source.shell_complete(inner, incomplete) if item.value not in known]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["MODEL [OPTIONS]", "or", "COMMAND ..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the group shows the default verb's parameters as its own."""
        verb = self.get_command(ctx, DEFAULT_VERB)
        view = copy.copy(self)
        view.params = [*verb.params, *self.params]
        TyperGroup.format_help(view, ctx, formatter)
        verb.write_examples(formatter)


def _as_options(args: list[str]) -> list[str]:
    """`kvcalc`, `kvcalc help`, `kvcalc help VERB` and `kvcalc version` in the words of options."""
    match args:
        case [] | ["help"] | ["help" | "version", "--help" | "-h"]:
            return ["--help"]
        case ["version"]:
            return ["--version"]
        case ["help", verb] if verb in VERBS:
            return ["--help"] if verb in _ABOUT else [verb, "--help"]
        case ["help", *_]:
            raise KvcalcError(
                f"help: expected one command, got {shown(' '.join(args[1:]))}", f"one of {', '.join(VERB_MODULES)}"
            )
        case ["version", *others]:
            raise KvcalcError(f"version: expected no more words, got {shown(' '.join(others))}", "leave them out")
        case _:
            return args
