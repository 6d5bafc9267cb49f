"""The commands of a plan's row: the one that sizes it again, and those that start it with an engine."""

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kvcalc.commands.start import Start
from kvcalc.core.overheads import total
from kvcalc.core.units import Fraction
from kvcalc.planner.rows import PlanRow
from kvcalc.queries.plan import PlanAnswer

if TYPE_CHECKING:
    from kvcalc.engines.base import Engine
    from kvcalc.launch.write import Written

__all__ = ["StartCommand", "Starts", "command", "starts_of"]


class StartCommand(NamedTuple):
    """How an engine is started for a row.

    Attributes:
        words: The command of one server; None where there is none.
        servers: Equal servers that are started so.
        why: Why there is none, where that is worth a word.
    """

    words: str | None
    servers: int = 1
    why: str | None = None


Starts: TypeAlias = Callable[[PlanRow], Mapping[str, StartCommand]]


def starts_of(answer: PlanAnswer) -> Starts:
    """Finds the start commands of a row, by the engine's name: of the engine that was named, else of those that run on
    the card, with what is missing where an engine has no room for the row by its own sizes.
    """
    if answer.engine is not None:
        return partial(_of_named, answer, answer.engine.started.engine.name)
    lacking: dict[tuple[str, Fraction | None], Callable[[PlanRow], str | None]] = {}
    return partial(_of_every, answer, lacking)


def _of_named(answer: PlanAnswer, name: str, row: PlanRow) -> Mapping[str, StartCommand]:
    from kvcalc.launch.write import commands_for

    written = commands_for(_start(answer, row)).get(name)  # a library is no server to start
    return {} if written is None else {name: StartCommand(_joined(written), written.servers)}


def _of_every(
    answer: PlanAnswer, lacking: dict[tuple[str, Fraction | None], Callable[[PlanRow], str | None]], row: PlanRow
) -> Mapping[str, StartCommand]:
    """`lacking` keeps the searches of engines, which the rows of a plan share."""
    from kvcalc.launch.registry import all_engines
    from kvcalc.launch.write import commands_for
    from kvcalc.planner import startable

    wanted, start = answer.proposal.search.question, _start(answer, row)

    def utilization(engine: "Engine") -> Fraction | None:
        if start.utilization is not None or not row.card.name:  # a size that was given leaves no room outside
            return start.utilization
        return row.fit.memory.utilization if startable.same_share(engine) else None

    commands, found = commands_for(start, utilization), {}
    vendor = "" if start.card is None else start.card.vendor
    for engine in all_engines():
        name = engine.name
        runs = not engine.vendors or not vendor or vendor in engine.vendors
        if name not in commands or not runs or (wanted.lengths is not None and not engine.pooled):
            continue
        words, why = _joined(commands[name]), None
        if words is not None:
            key = name, utilization(engine)
            if key not in lacking:
                lacking[key] = startable.lacking(engine, wanted, key[1], answer.question.shared_prefix)
            why = lacking[key](row)
        found[name] = StartCommand(words if why is None else None, commands[name].servers, why)
    return found


def _joined(written: "Written") -> str | None:
    return shlex.join(written.words) if written.refused is None else None


def _start(answer: PlanAnswer, row: PlanRow) -> Start:
    """What is to be started for a row."""
    precision, wanted = row.config.precision, answer.proposal.search.question
    # What an engine takes by itself may depend on the rest of its command.
    stated = answer.engine is not None or answer.question.utilization is not None
    return Start(
        answer.model.ids[0] if answer.model.ids else answer.question.source.text,
        wanted.allowed,
        row.sequences,
        row.layout,
        precision.packed or (None if precision.kv == "auto" else precision.kv),
        None if isinstance(precision.weights, int | str) else precision.weights.name,
        row.fit.memory.utilization if stated else None,
        row.card if row.card.name else None,
        None if answer.engine is None else answer.engine.started.version.name,
        answer.model.dimensions is not None and bool(answer.model.dimensions.experts),
        answer.question.lora,
        answer.question.run.stated,
    )


def command(answer: PlanAnswer, row: PlanRow) -> str | None:
    """The command that sizes a row again; None where a prefix is shared, which has no option there."""
    question = answer.question
    if question.shared_prefix:
        return None
    memory, layout, source = row.fit.memory, row.layout, question.source
    used = "" if memory.utilization is None else f"{memory.utilization.part / memory.utilization.of:.12g}"
    gpu = ["--gpu", row.card.name] if row.card.name else ["--vram", f"{row.card.memory}B"]
    words = ["kvcalc", source.text, "-c", str(row.request.context), "-b", str(row.request.batch), *gpu]
    words += [word for name, size in layout.sizes.items() for word in (f"--{name}", str(size))]
    words += ["--dp-attention"] * (layout.sharing > 1)
    precision = row.config.precision
    words += ["--kv-dtype", precision.kv] if precision.kv != "auto" else []
    if precision.weights != "auto":
        weights = precision.weights if isinstance(precision.weights, int | str) else precision.weights.name
        words += ["--weights", f"{weights}B" if isinstance(weights, int) else weights]
    stated = question.utilization is not None or (not row.card.name and used != "1")
    words += ["--utilization", used] if stated else []
    likely = total(row.lines).likely
    words += ["--overhead", f"{likely}B"] if likely else []
    for name, value in question.run.stated.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    options = {"engine": question.engine, "encoder-tokens": question.encoder_tokens, "gpu-file": question.gpu_file}
    words += [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join([*words, *(["--assume-dense"] if source.assume_dense else [])])
