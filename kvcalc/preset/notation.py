"""The one-line language for the layers of a model: `10 x (5 sliding, full), 2 sliding`. Text to names and back.

items := item {"," item}
item  := [N] name | N "x" "(" items ")"
name  := word {"+" word}, where a word is a cache's name, "none", or "shared:" and a cache's name
"""

import re
from collections.abc import Sequence
from functools import cache

__all__ = ["MOST_LAYERS", "NONE", "SHARED", "Names", "expand", "expand_pattern", "fold"]

Names = tuple[str, ...]  # the caches of one layer; () for a layer without a cache

NONE = "none"
SHARED = "shared:"
MOST_LAYERS = 4096  # against slips like `800000 full`; the deepest published decoder has a few hundred
_MOST_DEPTH = 8
_MOST_TEXT = 65536
_MOST_SHORTEST = 256  # layers for which every way of folding is tried; the time grows with the square
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:[.][0-9]+)?|[.][0-9]+)")
_TOKEN = re.compile(r"[(),]|[^\s(),]+")
_MOST_NAMES = 1 << 16  # of caches in all layers


def expand(text: str) -> list[Names]:
    """The layers that `text` stands for, in order. Raises ValueError with the reason."""
    if len(text) > _MOST_TEXT:
        raise ValueError(f"expected at most {_MOST_TEXT:,} characters")
    tokens = _TOKEN.findall(text)
    layers, rest = _items(tokens, 0, 0)
    if rest < len(tokens):
        raise ValueError(f"expected a comma, got '{tokens[rest][:60]}'")
    return _counted(layers)


def _counted(layers: list[Names]) -> list[Names]:
    """The layers, if they do not name more caches than can be told apart in time."""
    if sum(map(len, layers)) > _MOST_NAMES:
        raise ValueError(f"expected at most {_MOST_NAMES:,} names of caches in all layers")
    return layers


def expand_pattern(pattern: str, letters: dict[str, str]) -> list[Names]:
    """The layers of a published one-letter string. Raises ValueError for a letter without a meaning."""
    if not 1 <= len(pattern) <= MOST_LAYERS:
        raise ValueError(f"expected 1 to {MOST_LAYERS:,} letters")
    unknown = sorted(set(pattern) - set(letters))
    if unknown:
        raise ValueError(f"no meaning given for the letter '{unknown[0]}'")
    meanings = {letter: _names(letters[letter]) for letter in set(pattern)}
    return _counted([meanings[letter] for letter in pattern])


def _items(tokens: list[str], at: int, depth: int) -> tuple[list[Names], int]:
    layers: list[Names] = []
    while True:
        item, at = _item(tokens, at, depth)
        layers += item
        if len(layers) > MOST_LAYERS:
            raise ValueError(f"expected at most {MOST_LAYERS:,} layers")
        if at == len(tokens) or tokens[at] != ",":
            return layers, at
        at += 1


def _item(tokens: list[str], at: int, depth: int) -> tuple[list[Names], int]:
    count, start = 1, at
    if at < len(tokens) and re.fullmatch(r"[0-9]{1,9}", tokens[at]):
        count, at = int(tokens[at]), at + 1
        if not 1 <= count <= MOST_LAYERS:
            raise ValueError(f"expected a count of 1 to {MOST_LAYERS:,}, got {count}")
    elif at < len(tokens) and _NUMBER.fullmatch(tokens[at]):
        raise ValueError(f"expected counts that are whole numbers above zero, got '{tokens[at][:60]}'")
    if at > start and tokens[at : at + 2] == ["x", "("]:
        if depth == _MOST_DEPTH:
            raise ValueError(f"expected at most {_MOST_DEPTH} levels of parentheses")
        inner, at = _items(tokens, at + 2, depth + 1)
        if tokens[at : at + 1] != [")"]:
            raise ValueError("expected ')'")
        at += 1
    else:
        word = tokens[at] if at < len(tokens) else "the end"
        if at == len(tokens) or word in "(),":
            raise ValueError(f"expected a cache's name, or `N x (...)`, got {word[:60]}")
        inner, at = [_names(word)], at + 1
    if count * len(inner) > MOST_LAYERS:
        raise ValueError(f"expected at most {MOST_LAYERS:,} layers")
    return inner * count, at


def _names(word: str) -> Names:
    if word == NONE:
        return ()
    names = tuple(word.split("+"))
    if not all(names) or NONE in names:
        raise ValueError(f"expected names joined by '+', got '{word[:60]}'")
    return names


def fold(layers: Sequence[Names]) -> str:
    """The shortest text for `layers` with at most one level of parentheses; beyond 256 layers a short one."""
    words = tuple("+".join(names) if names else NONE for names in layers)
    if len(words) > _MOST_SHORTEST:
        return _greedy(words)

    @cache
    def rest(at: int) -> str:
        """The shortest text for the layers from `at` on. Blocks before runs, longer runs first, among equals."""
        if at == len(words):
            return ""
        best = ""
        for end, item in _candidates(words, at):
            text = item + (", " + rest(end) if end < len(words) else "")
            if not best or len(text) < len(best):
                best = text
        return best

    for at in range(len(words) - 1, -1, -1):  # from the end, so that no call is ever more than one level deep
        rest(at)
    return rest(0)


def _greedy(words: tuple[str, ...]) -> str:
    """A short text for very many layers: at each place the item that covers most, the shorter one among equals."""
    items, at = [], 0
    while at < len(words):
        at, item = max(_candidates(words, at), key=lambda candidate: (candidate[0], -len(candidate[1])))
        items.append(item)
    return ", ".join(items)


def _candidates(words: tuple[str, ...], at: int) -> list[tuple[int, str]]:
    """(end, text) of each item that could begin at `at`."""
    found = []
    left = len(words) - at
    for period in range(2, min(left // 2, 32) + 1):
        block = words[at : at + period]
        if len(set(block)) == 1:
            continue
        repeats = 1
        while words[at + repeats * period : at + (repeats + 1) * period] == block:
            repeats += 1
        if repeats > 1:
            found.append((at + repeats * period, f"{repeats} x ({_runs(block)})"))
    length = 1
    while length < left and words[at + length] == words[at]:
        length += 1
    # A part of a run may be the start of a block; of a very long run only the whole is tried, to stay quick.
    shortest = 0 if length <= 64 else length - 1
    return found + [(at + n, _run(n, words[at])) for n in range(length, shortest, -1)]


def _run(count: int, word: str) -> str:
    return word if count == 1 else f"{count} {word}"


def _runs(words: tuple[str, ...]) -> str:
    items, start = [], 0
    for at in range(1, len(words) + 1):
        if at == len(words) or words[at] != words[start]:
            items.append(_run(at - start, words[start]))
            start = at
    return ", ".join(items)
