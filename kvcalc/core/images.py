"""How many tokens an image is, by the rule of the model's image processor (transformers 5.24).

Most processors resize an image to a grid of whole tokens and so need its size; some cut it into tiles of one size.
Tokens around an image, which its processor or chat template puts there, count too.
"""

from math import ceil, floor, sqrt
from typing import NamedTuple, TypeAlias, assert_never

from kvcalc.core.model import Model
from kvcalc.core.units import parse_integer
from kvcalc.errors import KvcalcError, shown

__all__ = ["IMAGE_RULES", "Images", "image_tokens", "parse_images", "range_of"]

_MOST, _MOST_SIDE = 10_000, 65_536
_USUAL = 1_024  # pixels of each side, where nobody says: the answer names it


class Images(NamedTuple):
    """Images of one request: how many, and their size in pixels; None where nobody says."""

    number: int
    size: tuple[int, int] | None = None

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height, as they are counted."""
        return self.size or (_USUAL, _USUAL)

    def __str__(self) -> str:
        return str(self.number) if self.size is None else f"{self.number}:{self.size[0]}x{self.size[1]}"


class _Resized(NamedTuple):
    """Sides become multiples of `side`, between so many pixels of area: one token for each square of it."""

    side: int
    least: int
    most: int
    around: int


class _Within(NamedTuple):
    """The largest grid of squares of `side` pixels with at most `most` tokens that keeps the shape."""

    side: int
    most: int
    around: int


class _Rows(NamedTuple):
    """The longer side is at most `longest`; a token for each square of `side`, and one behind each row."""

    side: int
    longest: int


class _Tiles(NamedTuple):
    """Up to `most` tiles of `side` pixels in the grid whose shape is nearest, and with several one of the whole."""

    side: int
    tokens: int
    most: int
    around: int


class _Fixed(NamedTuple):
    """So many, whatever the size."""

    tokens: int


_Rule: TypeAlias = _Resized | _Within | _Rows | _Tiles | _Fixed

# By the word of a preset's `images`. Pixels of Qwen's: preprocessor_config.json of Qwen2.5-VL 7B and of Qwen3-VL, 3.5
# and 3.6. Around: <|vision_start|> and _end; two line ends and the boundaries of Gemma 3; those of Gemma 4; <img> and
# </img> of InternVL.
IMAGE_RULES: dict[str, _Rule] = {
    "qwen2_vl": _Resized(28, 3_136, 12_845_056, 2),
    "qwen3_vl": _Resized(32, 65_536, 16_777_216, 2),
    "gemma3": _Fixed(256 + 4),
    "gemma4": _Within(48, 280, 2),
    "internvl": _Tiles(448, 256, 12, 2),
    "pixtral": _Rows(28, 1_540),
    "llava": _Fixed(576),
}


def parse_images(text: str, what: str) -> Images:
    """`2`, or `2:1920x1080` with width and height in pixels. Raises KvcalcError."""
    number, colon, size = text.strip().lower().partition(":")
    count = parse_integer(number, what, _MOST)
    if not colon:
        return Images(count)
    width, times, height = size.partition("x")
    if not times:
        raise KvcalcError(f"{what}: expected N or N:WIDTHxHEIGHT, such as 2:1920x1080, got {shown(text)}")
    return Images(count, (parse_integer(width, what, _MOST_SIDE), parse_integer(height, what, _MOST_SIDE)))


def image_tokens(model: Model, width: int, height: int) -> int:
    """Tokens of one image of so many pixels. Raises KvcalcError for a model without images, or without a rule here."""
    rule = _rule(model)
    match rule:
        case _Resized(around=around):
            return _resized(rule, width, height) + around
        case _Within(around=around):
            return _within(rule, width, height) + around
        case _Rows(side, longest):
            ratio = max(width / longest, height / longest, 1)
            across, down = (ceil(floor(pixels / ratio) / side) for pixels in (width, height))
            return down * (across + 1)
        case _Tiles(tokens=tokens, around=around):
            tiles = _tiles(rule, width, height)
            return (tiles + (tiles > 1)) * tokens + around
        case _Fixed(tokens):
            return tokens
        case _:
            assert_never(rule)


def range_of(model: Model) -> tuple[int, int]:
    """The fewest and the most tokens of an image of any size."""
    rule = _rule(model)
    match rule:
        case _Resized(side, least, most, around):
            return ceil(least / side**2) + around, most // side**2 + around
        case _Within(most=most, around=around):
            return 1 + around, most + around
        case _Rows(side, longest):
            across = ceil(longest / side)
            return 2, across * (across + 1)
        case _Tiles(tokens=tokens, most=most, around=around):
            return tokens + around, (most + 1) * tokens + around
        case _Fixed(tokens):
            return tokens, tokens
        case _:
            assert_never(rule)


def _rule(model: Model) -> _Rule:
    if model.images is not None:
        return IMAGE_RULES[model.images]
    if model.vision is None and model.encoder_parameters is None:
        raise KvcalcError(f"--images: {model.name} takes no images, as far as its facts say", "leave it out")
    raise KvcalcError(
        f"--images: how many tokens {model.name} makes of an image is not known here", "count them into --context"
    )


def _resized(rule: _Resized, width: int, height: int) -> int:
    """`smart_resize` of Qwen2-VL's image processor."""
    across, down = (max(round(pixels / rule.side), 1) for pixels in (width, height))
    if across * down * rule.side**2 > rule.most:
        shrunk = sqrt(width * height / rule.most)
        across, down = (max(1, floor(pixels / shrunk / rule.side)) for pixels in (width, height))
    elif across * down * rule.side**2 < rule.least:
        grown = sqrt(rule.least / (width * height))
        across, down = (ceil(pixels * grown / rule.side) for pixels in (width, height))
    return across * down


def _within(rule: _Within, width: int, height: int) -> int:
    """`get_aspect_ratio_preserving_size` of Gemma 4's image processor."""
    factor = sqrt(rule.most * rule.side**2 / (width * height))
    across, down = (floor(factor * pixels / rule.side) for pixels in (width, height))
    if not down:
        return min(width // height, rule.most)
    return min(height // width, rule.most) if not across else across * down


def _tiles(rule: _Tiles, width: int, height: int) -> int:
    """`get_optimal_tiled_canvas` of the image processor that InternVL takes (GOT-OCR 2)."""
    best, nearest = 1, float("inf")
    grids = sorted(
        ((i, j) for i in range(1, rule.most + 1) for j in range(1, rule.most + 1) if i * j <= rule.most),
        key=lambda grid: grid[0] * grid[1],
    )
    for across, down in grids:
        off = abs(width / height - across / down)
        if off < nearest or (off == nearest and 2 * width * height > rule.side**2 * across * down):
            best = across * down
        nearest = min(nearest, off)
    return best
