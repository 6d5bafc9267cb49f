"""The parts of a drawing: its colours, its texts, its markers."""

from collections.abc import Sequence
from xml.sax.saxutils import escape as escape_xml

from kvcalc.errors import escape

__all__ = ["COLOURS", "DASHES", "apart", "marker", "px", "rule", "safe", "short", "style", "text_at"]

_LINE = 16  # of text
_LONGEST_NAME = 48  # letters of a name; more would leave no room for the chart

# Dark enough for white and bright enough for black, and told apart with any sight (after Okabe and Ito 2008).
COLOURS = ("#0067a3", "#b84700", "#007353", "#9c3f80", "#7a6000", "#4a4a4a")
_DARK = ("#62bdf0", "#ff9d5c", "#46d3a4", "#ec93cd", "#e8cb52", "#cfcfcf")
DASHES = ("", "8 4", "2 4", "11 4 2 4")

_STYLE = """
.kv{background:#fff;color:#1b1f24;font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.kv text{fill:currentColor}.kv .title{font-size:18px;font-weight:600}
.kv .axis{font-weight:600}.kv text.about{fill:#57606a}
.kv .ground{fill:#fff}.kv .grid{stroke:#d9dde2;stroke-width:1}.kv .base{stroke:#6a737d;stroke-width:1.2}
.kv .line{fill:none;stroke-width:2.2;stroke-linejoin:round}.kv .lead{stroke:#8a929b;stroke-width:.8;fill:none}
.kv .halo{stroke:#fff;stroke-width:4;stroke-linejoin:round}
.kv .limit{stroke:#b00020;stroke-width:2.4;stroke-dasharray:14 5}.kv text.limits{fill:#b00020;font-weight:600}
.kv .solid{stroke-dasharray:none}
.kv .over{fill-opacity:.35;stroke-dasharray:5 3}.kv .bar{stroke-width:1.4}.kv .none{font-style:italic}
"""
_STYLE_DARK = """
.kv{background:#14171c;color:#e6e9ed}.kv .ground{fill:#14171c}
.kv .grid{stroke:#333a42}.kv .base{stroke:#98a1ab}
.kv text.about{fill:#98a1ab}
.kv .halo{stroke:#14171c}
.kv .limit{stroke:#ff7b7b}.kv text.limits{fill:#ff9c9c}
"""


def style() -> str:
    def colours(palette: Sequence[str]) -> str:
        return "".join(f".kv .s{i}{{stroke:{c}}}.kv .f{i}{{fill:{c};stroke:{c}}}" for i, c in enumerate(palette))

    dashes = "".join(f".kv .d{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(DASHES) if dash)
    dark = _STYLE_DARK + colours(_DARK)
    return f"{_STYLE}{colours(COLOURS)}{dashes}\n@media screen and (prefers-color-scheme:dark){{{dark}\n}}\n"


def marker(i: int, x: float, y: float, r: float) -> str:
    """The outline of one of six markers around a place."""
    corners: tuple[tuple[float, float], ...]
    match i % len(COLOURS):
        case 0:
            return f"M{px(x - r)},{px(y)}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z"
        case 1:
            corners = ((-r, -r), (r, -r), (r, r), (-r, r))
        case 2:
            corners = ((0, -1.3 * r), (1.2 * r, r), (-1.2 * r, r))
        case 3:
            corners = ((0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0))
        case 4:
            corners = ((0, 1.3 * r), (1.2 * r, -r), (-1.2 * r, -r))
        case _:
            corners = ((-1.6 * r, -0.6 * r), (1.6 * r, -0.6 * r), (1.6 * r, 0.6 * r), (-1.6 * r, 0.6 * r))
    return "M" + "L".join(f"{px(x + dx)},{px(y + dy)}" for dx, dy in corners) + "z"


def apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Heights in ascending order, none closer than a line of text, as near as may be to those wanted."""
    step = min(_LINE, (bottom - top) / max(len(wanted), 1))
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, heights[-1] + step if heights else top))
    last = bottom
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], last)
        last = heights[i] - step
    return heights


def text_at(x: float, y: float, text: str, style: str = "", anchor: str = "start", *, clear: bool = False) -> str:
    """A text; one that must stay `clear` of what it lies on has its own outline in the colour of the ground under it,
    as an element of its own: not every program knows `paint-order`.
    """
    named = f' class="{style}"' if style else ""
    placed = f' x="{px(x)}" y="{px(y)}"' + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    under = f'<text class="halo" aria-hidden="true"{placed}>{safe(text)}</text>' if clear else ""
    return f"{under}<text{named}{placed}>{safe(text)}</text>"


def rule(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{px(x1)}" y1="{px(y1)}" x2="{px(x2)}" y2="{px(y2)}"/>'


def px(value: float) -> str:
    """Tenths of a pixel, which no eye can see, so that the same chart has the same bytes on every machine."""
    return f"{value:.1f}".removesuffix(".0")


def short(name: str, most: int = _LONGEST_NAME) -> str:
    text = escape(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def safe(text: str) -> str:
    return escape_xml(escape(text), {'"': "&quot;"})
