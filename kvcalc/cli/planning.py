"""What the options of `plan` ask for, and the search for it."""

import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.formats import NamedEngine, encoder_of, engine_of, precisions_of, smaller, words_of
from kvcalc.cli.options import Given, context_of
from kvcalc.commands.start import Start
from kvcalc.core.card import Card
from kvcalc.core.fitting import warnings as fit_warnings
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction, ceil_div, format_bytes, many, parse_integer, parse_size, parse_tokens
from kvcalc.errors import KvcalcError, shown
from kvcalc.launch.beside import NAMES
from kvcalc.perf.workload import Length, Lengths, lengths
from kvcalc.planner.proposal import Proposal, propose
from kvcalc.planner.question import Backend, Candidate, ExactBackend, PlanQuestion, Precision
from kvcalc.planner.replica import replica_layouts
from kvcalc.planner.search import PlanRow, Search
from kvcalc.views.document import Value
from kvcalc.views.plan import Asked, Line

if TYPE_CHECKING:
    from kvcalc.engines.base import Engine
    from kvcalc.launch.write import Written

__all__ = ["Planned", "planned"]

_MOST_GPUS = 65536
_QUIET_SECONDS, _TICK_SECONDS = 3, 0.1
_CARD_SHARE = Fraction(9, 10)  # of a named GPU, where no engine says
# What can be rented by the hour at most clouds; every other card has to be named.
_USUAL = ("l4", "l40s", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")


class Planned(NamedTuple):
    proposal: Proposal
    asked: Asked
    warnings: list[str]


def planned(model: Model, given: Given) -> Planned:
    """Read the options, search, and keep what the words of the answer need. Raises KvcalcError."""
    engine = engine_of(model, given)
    sizes = _lengths(given)
    context = _context(model, given, sizes)
    question = _plan_question(given, context, sizes)
    prefix = 0 if given["shared_prefix"] is None else parse_tokens(given["shared_prefix"], "--shared-prefix")
    if prefix > context:
        raise KvcalcError(f"--shared-prefix: expected at most the {context:,} tokens of a sequence, got {prefix:,}")
    share = None if given["utilization"] is None else Fraction.parse(given["utilization"], "--utilization")
    precisions = list(precisions_of(model, given, question, engine))
    others = list(smaller(model, given, question, engine, precisions[0]))
    candidates, note = _candidates(given)
    backend: Backend
    if engine is None:
        backend = ExactBackend(share or (Fraction(1, 1) if given["vram"] is not None else _CARD_SHARE), prefix)
    else:
        from kvcalc.planner.engine_fit import EngineBackend

        bare = question.overhead is not None
        backend = EngineBackend(
            engine.started.engine, engine.started.version, engine.settings, share, prefix, bare=bare
        )
    pinned = _pinned(given)
    widest = question.most_gpus if question.across else max(candidate.card.machine for candidate in candidates)
    most = max([question.most_gpus, *(candidate.fixed or 0 for candidate in candidates)])
    found = propose(
        Search(question, backend),
        candidates,
        precisions,
        others,
        replica_layouts(model, most, widest, pinned, context_parallel=backend.context_parallel),
        by_price=_by_price(given, candidates),
        tick=_ticker(),
    )
    asked = _asked(model, given, question, engine, precisions, candidates, prefix, note)
    warnings = [
        *request_warnings(precisions[0].request._replace(context=context)),
        *(engine.warnings if engine else ()),
    ]
    if found.best is not None:
        best = found.best
        warnings += [*fit_warnings(best.fit.memory), *backend.replica_memory(best.config, best.card).warnings]
        if best.max_sequences_low is not None and best.max_sequences_low < question.users:
            of = f"{best.max_sequences_low:,} of {many(question.users, 'sequence')} fit"
            warnings.append(f"if the overheads are the most that was seen, {of}: measure, or take more headroom")
        warnings += _uneven(best, len(model.layers))
    return Planned(found, asked, list(dict.fromkeys(warnings)))


def _uneven(row: PlanRow, layers: int) -> list[str]:
    """Weights are counted as spread evenly: where stages are not equal, the fullest holds more."""
    pp, weights = row.layout.pp, row.fit.memory.weights
    if layers % pp == 0 or not weights:
        return []
    more = ceil_div(weights * pp * ceil_div(layers, pp), layers) - weights
    share = f"pp {pp} does not divide the model's {layers} layers"
    return [f"{share}: its fullest stage holds some {format_bytes(more)} of weights more than counted"]


def _lengths(given: Given) -> Lengths | None:
    named = [name for name in ("input", "output") if given[f"{name}_" if name == "input" else name] is not None]
    if not named:
        if given["rate"] is not None:
            raise KvcalcError("--rate: needs the lengths of requests", "add --input and --output, such as --input 1155")
        return None
    if len(named) == 1:
        other = "output" if named[0] == "input" else "input"
        raise KvcalcError(f"--{named[0]}: needs --{other} beside it", f"add --{other} TOKENS")
    return lengths(Length.parse(given["input_"], "--input"), Length.parse(given["output"], "--output"))


def _context(model: Model, given: Given, sizes: Lengths | None) -> int:
    """The longest sequence: as given, or the 95th percentiles together (the last token is never written)."""
    asked = context_of(given["context"])
    if asked is not None or sizes is None:
        return ask(model, context=asked, encoder_tokens=encoder_of(given)).context
    longest = [Length.parse(given[name], f"--{name.strip('_')}") for name in ("input_", "output")]
    return max(1, round(sum(each.p95 or each.mean for each in longest)) - 1)


def _plan_question(given: Given, context: int, sizes: Lengths | None) -> PlanQuestion:
    if given["overhead"] is not None:
        for name in NAMES:
            if given[name] is not None:
                raise KvcalcError(f"--{name}: contradicts --overhead, which stands for all of them", "leave one out")
    overhead = given["overhead"]
    return PlanQuestion(
        context=context,
        users=1 if given["users"] is None else parse_integer(given["users"], "--users"),
        lengths=sizes,
        rate=None if given["rate"] is None else _rate(given["rate"]),
        most_gpus=64 if given["max_gpus"] is None else parse_integer(given["max_gpus"], "--max-gpus", _MOST_GPUS),
        dp=None if given["dp"] is None else parse_integer(given["dp"], "--dp", _MOST_GPUS),
        across=given["across_machines"],
        overhead=None if overhead is None else parse_size(overhead, "--overhead", zero=True),
        stated={name: parse_size(given[name], f"--{name}", zero=True) for name in NAMES if given[name] is not None},
    )


def _rate(text: str) -> float:
    """Requests a second."""
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    if digits.isascii() and digits.isdigit() and len(digits) <= 12 and int(digits):
        return float(f"{whole or 0}.{decimals or 0}")
    raise KvcalcError(f"--rate: expected requests a second, such as 5 or 0.5, got {shown(text)}")


def _pinned(given: Given) -> Layout:
    sizes = {
        name: 0 if given[name] is None else parse_integer(given[name], f"--{name}", _MOST_GPUS)
        for name in ("tp", "pp", "dcp")
    }
    return Layout(sizes["tp"], sizes["pp"], 0, sizes["dcp"])


def _candidates(given: Given) -> tuple[list[Candidate], str]:
    """The cards to choose from, and a note where nobody named one."""
    from kvcalc.cards.names import all_cards, cards_called

    file = given["gpu_file"]
    if given["vram"] is not None:
        if given["gpu"] is not None or file is not None:
            option = "--gpu-file" if given["gpu"] is None else "--gpu"
            raise KvcalcError(f"{option}: contradicts --vram, since it says how much memory there is", "leave one out")
        return [Candidate(Card("", "such GPUs", parse_size(given["vram"], "--vram")))], ""
    if given["gpu"] is not None:
        return [Candidate(card, count) for count, card in cards_called(given["gpu"], file=file)], ""
    cards = all_cards(file)
    priced = [card for card in cards if card.price is not None]
    chosen = priced or [card for card in cards if card.name in _USUAL]
    names = ", ".join(card.name for card in chosen)
    return [Candidate(card) for card in chosen], f"chosen from {names}; --gpu all takes every card"


def _by_price(given: Given, candidates: list[Candidate]) -> bool:
    match (given["sort"] or "rank").strip().lower():
        case "rank":
            return False
        case "price":
            if all(candidate.card.price is None for candidate in candidates):
                raise KvcalcError(
                    "--sort: no price is known, since none is shipped", "your own GPU file may carry prices"
                )
            return True
        case _:
            raise KvcalcError(f"--sort: expected rank or price, got {shown(given['sort'])}")


def _asked(
    model: Model,
    given: Given,
    question: PlanQuestion,
    engine: NamedEngine | None,
    precisions: list[Precision],
    candidates: list[Candidate],
    prefix: int,
    note: str,
) -> Asked:
    words = []
    for option in ("engine", "encoder_tokens", "gpu_file"):
        if given[option] is not None:
            words += [f"--{option.replace('_', '-')}", given[option]]
    words += ["--assume-dense"] if given["assume_dense"] else []
    return Asked(
        model=given["model"],
        hub_id=model.ids[0] if model.ids else given["model"],
        options=tuple(words),
        request=_values(given, question, engine, precisions, candidates, prefix),
        starts=_starter(engine, question, prefix),
        engine=engine.started.engine.name if engine else None,
        version=engine.started.version.name if engine else None,
        utilization=given["utilization"] is not None,
        shared_prefix=prefix,
        top=10 if given["top"] is None else parse_integer(given["top"], "--top", 10**6),
        notes=(note,) if note else (),
    )


def _values(
    given: Given,
    question: PlanQuestion,
    engine: NamedEngine | None,
    precisions: list[Precision],
    candidates: list[Candidate],
    prefix: int,
) -> dict[str, Value]:
    """Every input and default in force, for JSON."""
    return {
        "context": question.context,
        "users": question.users,
        "input": given["input_"],
        "output": given["output"],
        "rate": question.rate,
        "shared_prefix": prefix,
        "encoder_tokens": precisions[0].request.encoder_tokens,
        "gpus": [
            f"{candidate.fixed}x{candidate.card.name}" if candidate.fixed else candidate.card.name or None
            for candidate in candidates
        ],
        "max_gpus": question.most_gpus,
        "vram_bytes": candidates[0].card.memory if not candidates[0].card.name else None,
        "utilization": given["utilization"],
        "kv_dtype": list(dict.fromkeys(precision.kv for precision in precisions)),
        "weights": words_of(given["weights"]),
        "engine": engine.started.engine.name if engine else None,
        "engine_version": engine.started.version.name if engine else None,
        **{name: None if given[name] is None else int(given[name]) for name in ("tp", "pp", "dp", "dcp")},
        "across_machines": question.across,
        "overhead_bytes": question.overhead,
        "sort": given["sort"] or "rank",
    }


def _starter(
    engine: NamedEngine | None, question: PlanQuestion, prefix: int
) -> Callable[[PlanRow, Start], dict[str, Line]]:
    """Commands of the engines that run on a card and have room for the row, or of the one that was named."""
    kept: dict[tuple[str, Fraction | None], Callable[[PlanRow], str | None]] = {}

    def starts(row: PlanRow, start: Start) -> dict[str, Line]:
        from kvcalc.launch.registry import all_engines
        from kvcalc.launch.write import commands_for

        if engine is not None:
            name = engine.started.engine.name
            written = commands_for(start).get(name)  # a library such as transformers is no server to start
            return {} if written is None else {name: Line(_joined(written), written.servers)}
        from kvcalc.planner.startable import lacking, same_share

        def share(each: "Engine") -> Fraction | None:
            if start.utilization is not None or not row.card.name:  # a size that was given leaves no room outside
                return start.utilization
            return row.fit.memory.utilization if same_share(each) else None

        commands, found = commands_for(start, share), {}
        vendor = "" if start.card is None else start.card.vendor
        for each in all_engines():
            name = each.name
            runs = not each.vendors or not vendor or vendor in each.vendors
            if name not in commands or not runs or (question.lengths is not None and not each.pooled):
                continue
            words, why = _joined(commands[name]), None
            if words is not None:
                key = name, share(each)
                kept[key] = kept.get(key) or lacking(each, question, key[1], prefix)
                why = kept[key](row)
            found[name] = Line(words if why is None else None, commands[name].servers, why)
        return found

    return starts


def _joined(written: "Written") -> str | None:
    return shlex.join(written.words) if written.refused is None else None


def _ticker() -> Callable[[int, int], None] | None:
    """Progress of a long search, where somebody watches."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    began = shown_at = time.monotonic()

    def tick(done: int, steps: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        ended = done == steps
        if ended and shown_at == began:
            return
        if ended or (now - began >= _QUIET_SECONDS and now - shown_at >= _TICK_SECONDS):
            shown_at = now
            sys.stderr.write("\r\x1b[K" + ("" if ended else f"kvcalc: {done:,} of {steps:,} searches"))
            sys.stderr.flush()

    return tick
