"""Which cards a plan chooses from, how many of each a machine has, and in which order rows are wanted."""

from collections.abc import Sequence
from math import prod

from kvcalc.core.card import Card
from kvcalc.errors import KvcalcError
from kvcalc.planner.question import Candidate
from kvcalc.planner.ranking import Order
from kvcalc.queries.plan_question import DeploymentQuestion

__all__ = ["SLOWEST", "candidates_of", "check_number", "order_of"]

_MAKERS = ("NVIDIA", "AMD")  # on whose cards the servers run that a plan writes commands for


def candidates_of(question: DeploymentQuestion) -> tuple[list[Candidate], str]:
    """The cards to choose from, and a note where nobody named them."""
    from kvcalc.cards.names import all_cards
    from kvcalc.cards.shipped import rented

    if question.vram is not None:
        if question.gpus is not None or question.gpu_file is not None:
            option = "--gpu-file" if question.gpus is None else "--gpu"
            raise KvcalcError(f"{option}: contradicts --vram, since it says how much memory there is", "leave one out")
        return [Candidate(Card("", "such GPUs", question.vram))], ""
    if question.gpus is not None and question.gpus != "all":
        named = [Candidate(gpu.card, gpu.number, _counts(gpu.card)) for gpu in question.gpus]
        return _priced(question, named), ""
    cards = [card for card in all_cards(question.gpu_file) if not card.unified]
    note = "computers whose memory is shared with the host are proposed only when named"
    if question.gpus is None:
        own = [card for card in cards if card.price is not None or card.name in question.prices]
        cards = own or [card for card in cards if card.name in rented() and card.vendor in _MAKERS and card.bf16]
        note = f"chosen from the {len(cards)} cards of clouds' machine types; --gpu all takes every card"
        if own:
            note = (
                f"chosen from {', '.join(card.name for card in cards)}, which have a price; --gpu all takes every card"
            )
    searched = [Candidate(card, None, _counts(card), _slowest(question)) for card in cards]
    return _priced(question, searched), note


SLOWEST = 0.1  # seconds a token: nobody rents what reads slower than people, unless told to


def _slowest(question: DeploymentQuestion) -> float | None:
    """The ceiling for a token on cards that were searched, where no target sets one."""
    return None if question.targets is not None and question.targets.tpot is not None else SLOWEST


def _counts(card: Card) -> tuple[int, ...]:
    """How many of a card one machine may have: those of machine types, else a power of two up to a whole machine."""
    from kvcalc.cards.shipped import rented

    types = rented().get(card.name)
    if types is not None:
        return tuple(types)
    return tuple(count for count in (1, 2, 4, 8) if count <= card.machine) or (1,)


def _priced(question: DeploymentQuestion, candidates: list[Candidate]) -> list[Candidate]:
    """The same with the prices that were given. Raises KvcalcError for that of a card that is not among them."""
    known = {each.card.name for each in candidates}
    for name in question.prices:
        if name not in known:
            raise KvcalcError(f"--price: {name} is not among the cards that are searched", "--gpu names them")
    return [
        each._replace(card=each.card._replace(price=question.prices.get(each.card.name, each.card.price)))
        for each in candidates
    ]


def check_number(question: DeploymentQuestion, candidates: Sequence[Candidate]) -> None:
    """Some number of GPUs that may be taken must be one that the split, as far as it is fixed, comes to."""
    split = question.split
    sizes = {"tp": split.tp, "pp": split.pp, "dp": split.dp}
    fixed = {name: size for name, size in sizes.items() if size is not None}
    least = prod(fixed.values())

    def possible(number: int | None) -> bool:
        if number is None:
            return least <= question.max_gpus
        return number == least if len(fixed) == len(sizes) else number % least == 0

    if any(possible(candidate.fixed) for candidate in candidates):
        return
    number, words = candidates[0].fixed, " x ".join(f"--{name} {size}" for name, size in fixed.items())
    option, most = ("--max-gpus", question.max_gpus) if number is None else ("--gpu", number)
    raise KvcalcError(f"{option}: {most:,} contradicts {words}", "leave one of them out, or let them agree")


def order_of(question: DeploymentQuestion, candidates: Sequence[Candidate]) -> Order:
    if question.sort == "price" and all(candidate.card.price is None for candidate in candidates):
        raise KvcalcError("--sort: no price is known, since none is shipped", "--price h100=2.49, or your own GPU file")
    if question.sort in ("tpot", "rate") and question.input is None:
        raise KvcalcError(f"--sort: {question.sort} needs the lengths of requests", "add --input and --output")
    return question.sort
