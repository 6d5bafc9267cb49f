"""Flags that change what memory holds and that no rule here counts: what each does, and what may rest on it.

An engine has a table of them, by the names that its flags and variables have. A flag that stands in it is named before
a verdict, and no "does not fit" rests on one by which a GPU may hold less than was counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from kvcalc.errors import escape

__all__ = ["Effect", "Effects", "Uncounted", "Way", "effects", "found", "said", "settled", "touching"]

# What a GPU may hold, beside what was counted: less, more, either; or nothing else, where it is the host that holds.
Way = Literal["less", "more", "either", "host"]

_ALWAYS = "*"  # the word of a flag that only takes back what another of its kind says


class Effect(NamedTuple):
    """What a flag changes, in words that follow its name: `keeps weights in the host's memory`.

    `key`: flags of one key are spellings of one setting, whose last counts. `most`: bytes by which it changes a GPU's
    memory at most, None where nothing here says. `idle`: words with which it changes nothing. `cache`: it also changes
    what the cache takes on a GPU, and so counts beside a budget of the cache alone.
    """

    key: str
    what: str
    way: Way
    most: int | None = None
    idle: frozenset[str] = frozenset()
    cache: bool = False


Effects = Mapping[str, Effect]


class Uncounted(NamedTuple):
    """A flag as it was typed, or a variable, and what it changes."""

    flag: str
    effect: Effect


def effects(
    key: str,
    names: str,
    what: str,
    way: Way,
    *,
    most: int | None = None,
    idle: str = "",
    cache: bool = False,
    back: str = "",
) -> dict[str, Effect]:
    """The rows of one setting. `names` and `idle` are words with blanks between; `back`: names that take it back."""
    effect = Effect(key, what, way, most, frozenset(idle.split()), cache)
    taken_back = effect._replace(idle=frozenset({_ALWAYS}))
    return {**dict.fromkeys(names.split(), effect), **dict.fromkeys(back.split(), taken_back)}


def found(given: Sequence[tuple[str, str]], table: Effects) -> tuple[Uncounted, ...]:
    """What of the flags with their words has an effect: of each setting the last that was given."""
    last: dict[str, Uncounted | None] = {}
    for name, word in given:
        effect = table.get(name)
        if effect is None:
            continue
        idle = _ALWAYS in effect.idle or word.strip().lower() in effect.idle
        last.pop(effect.key, None)
        last[effect.key] = None if idle else Uncounted(f"{name} {word}".strip(), effect)
    return tuple(each for each in last.values() if each is not None)


def touching(uncounted: Iterable[Uncounted], *, cache_alone: bool) -> tuple[Uncounted, ...]:
    """Those that matter to a budget: all of them, or with a budget of the cache alone those that change that."""
    return tuple(each for each in uncounted if each.effect.cache or not cache_alone)


_WAYS: Mapping[Way, str] = {
    "less": "a GPU may hold less than is counted here",
    "more": "a GPU may hold more than is counted here",
    "either": "a GPU may hold more or less than is counted here",
    "host": "the host's memory is not counted here",
}


def said(each: Uncounted) -> str:
    """One line that names a flag."""
    return f"{escape(each.flag)[:80]} {each.effect.what}: {_WAYS[each.effect.way]}"


def settled(fits: bool, lacking: int, uncounted: Iterable[Uncounted]) -> bool | None:
    """Whether it fits, or None: it does not by `lacking` bytes of a GPU, and a flag may make up for those."""
    if fits:
        return True
    less = [each.effect.most for each in uncounted if each.effect.way in ("less", "either")]
    known = [most for most in less if most is not None]
    return None if len(known) < len(less) or (known and sum(known) >= lacking) else False
