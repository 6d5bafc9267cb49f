"""A chart as SVG: one file that needs nothing else, holds no script, and is read in light, in dark and on paper.

Series differ in colour, dash and marker, so that a print in black and white tells them apart; each is named where it
ends. The bytes are the same for the same chart.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape as escape_xml

from kvcalc.charts import (
    Axis,
    Bar,
    Bars,
    Chart,
    Limit,
    Lines,
    Number,
    Point,
    Scale,
    Series,
    amount,
    extent,
    position,
    ticks,
)
from kvcalc.errors import escape
from kvcalc.units import Units

__all__ = ["render"]

_WIDTH, _HEIGHT = 960, 540
_TOP, _BOTTOM, _LEFT = 104, 62, 20
_LETTER = 7.3  # the mean width of a letter of 13 px, a little more than sans-serif fonts have
_LINE = 16  # of text
_LONGEST_NAME = 48  # letters of a name; more would leave no room for the chart
_BAR = 30

# Dark enough for white and bright enough for black, and told apart with any sight (after Okabe and Ito 2008).
_LIGHT = ("#0067a3", "#b84700", "#007353", "#9c3f80", "#7a6000", "#4a4a4a")
_DARK = ("#62bdf0", "#ff9d5c", "#46d3a4", "#ec93cd", "#e8cb52", "#cfcfcf")
_DASHES = ("", "8 4", "2 4", "11 4 2 4")

_STYLE = """
.kv{background:#fff;color:#1b1f24;font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.kv text{fill:currentColor}.kv .title{font-size:18px;font-weight:600}
.kv .axis{font-weight:600}.kv text.about{fill:#57606a}
.kv .ground{fill:#fff}.kv .grid{stroke:#d9dde2;stroke-width:1}.kv .base{stroke:#6a737d;stroke-width:1.2}
.kv .line{fill:none;stroke-width:2.2;stroke-linejoin:round}.kv .lead{stroke:#8a929b;stroke-width:.8;fill:none}
.kv .halo{stroke:#fff;stroke-width:4;stroke-linejoin:round;paint-order:stroke}
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


class _Frame(NamedTuple):
    """The part of the picture that the axes span, in pixels, and what lies at its edges."""

    left: float
    right: float
    top: float
    bottom: float
    x_ends: tuple[float, float]
    x_scale: Scale
    y_ends: tuple[float, float] = (0, 1)
    y_scale: Scale = "linear"

    def x(self, value: Number) -> float:
        return self.left + (self.right - self.left) * position(value, self.x_ends, self.x_scale)

    def y(self, value: Number) -> float:
        return self.bottom - (self.bottom - self.top) * position(value, self.y_ends, self.y_scale)


def render(chart: Chart, units: Units) -> str:
    """The whole file, or an element of a page."""
    height = _HEIGHT if isinstance(chart, Lines) else _TOP + _BOTTOM + _BAR * len(chart.bars)
    inside = _lines(chart, units) if isinstance(chart, Lines) else _bars(chart, units, height)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kv" role="img" {size}>',
        f"<title>{_safe(chart.title)}</title>",
        f"<desc>{_safe(chart.about)}</desc>",
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        _text(_LEFT, 30, _short(chart.title, 100), "title"),
        _text(_LEFT, 52, _short(chart.about, 140), "about"),
        *inside,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style() -> str:
    def colours(palette: Sequence[str]) -> str:
        return "".join(f".kv .s{i}{{stroke:{c}}}.kv .f{i}{{fill:{c};stroke:{c}}}" for i, c in enumerate(palette))

    dashes = "".join(f".kv .d{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(_DASHES) if dash)
    dark = _STYLE_DARK + colours(_DARK)
    return f"{_STYLE}{colours(_LIGHT)}{dashes}\n@media screen and (prefers-color-scheme:dark){{{dark}\n}}\n"


def _lines(chart: Lines, units: Units) -> Iterator[str]:
    points = [point for series in chart.series for point in series.points]
    across, upright = ([limit.at for limit in chart.limits if limit.upright is way] for way in (False, True))
    x_ends = extent([*(point.x for point in points), *upright], chart.x.scale)
    y_ends = extent([*(point.y for point in points), *across], chart.y.scale)
    y_ticks = ticks(chart.y, y_ends, units)
    names = [_short(series.name) for series in chart.series] if len(chart.series) > 1 else []
    frame = _Frame(
        left=_LEFT + 10 + _LETTER * max(len(text) for _, text in y_ticks),
        right=_WIDTH - _LEFT - (_LETTER * max(map(len, names)) + 30 if names else 10),
        top=_TOP,
        bottom=_HEIGHT - _BOTTOM,
        x_ends=x_ends,
        x_scale=chart.x.scale,
        y_ends=y_ends,
        y_scale=chart.y.scale,
    )
    yield _text(_LEFT, frame.top - 16, chart.y.title, "axis")
    for value, text in y_ticks:
        yield _rule("grid", frame.left, frame.y(value), frame.right, frame.y(value))
        yield _text(frame.left - 8, frame.y(value) + 4.5, text, "", "end")
    yield from _x_axis(chart.x, frame, units)
    yield _rule("base", frame.left, frame.top, frame.left, frame.bottom)
    for limit in chart.limits:
        yield _limit(limit, frame)
    for i, series in enumerate(chart.series):
        yield from _series(chart, series, i, frame, units)
    yield from _names(names, [series.points[-1] for series in chart.series], frame)
    yield from _limit_names(chart, frame, units)


def _x_axis(axis: Axis, frame: _Frame, units: Units) -> Iterator[str]:
    for value, text in ticks(axis, frame.x_ends, units, int((frame.right - frame.left) / 70)):
        yield _rule("grid", frame.x(value), frame.top, frame.x(value), frame.bottom)
        yield _text(frame.x(value), frame.bottom + 20, text, "", "middle")
    yield _rule("base", frame.left, frame.bottom, frame.right, frame.bottom)
    yield _text((frame.left + frame.right) / 2, frame.bottom + 46, axis.title, "axis", "middle")


def _series(chart: Lines, series: Series, i: int, frame: _Frame, units: Units) -> Iterator[str]:
    """A line and its markers; each marker says its numbers to whoever points at it."""
    colour, size = i % len(_LIGHT), 4.5 if len(series.points) <= 40 else 2
    places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
    if len(places) > 1:
        path = " ".join(f"{_px(x)},{_px(y)}" for x, y in places)
        yield f'<polyline class="line s{colour} d{(i + i // len(_LIGHT)) % len(_DASHES)}" points="{path}"/>'
    for point, (x, y) in zip(series.points, places, strict=True):
        said = [series.name, amount(point.x, chart.x.unit, units), amount(point.y, chart.y.unit, units), point.note]
        title = _safe(": ".join(part for part in said if part))
        yield f'<path class="mark f{colour}" d="{_marker(i, x, y, size)}"><title>{title}</title></path>'


def _marker(i: int, x: float, y: float, r: float) -> str:
    """The outline of one of six markers around a place."""
    corners: tuple[tuple[float, float], ...]
    match i % len(_LIGHT):
        case 0:
            return f"M{_px(x - r)},{_px(y)}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0z"
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
    return "M" + "L".join(f"{_px(x + dx)},{_px(y + dy)}" for dx, dy in corners) + "z"


def _names(names: Sequence[str], ends: Sequence[Point], frame: _Frame) -> Iterator[str]:
    """Each name beside the end of its line, moved apart where the ends are close, with a thin line that leads there."""
    order = sorted(range(len(names)), key=lambda i: (frame.y(ends[i].y), i))
    heights = _apart([frame.y(ends[i].y) for i in order], frame.top, frame.bottom + 30)
    for i, height in zip(order, heights, strict=True):
        x, y = frame.x(ends[i].x), frame.y(ends[i].y)
        lead = f"{_px(x + 6)},{_px(y)} {_px(frame.right + 4)},{_px(height)} {_px(frame.right + 11)},{_px(height)}"
        yield f'<polyline class="lead" points="{lead}"/>'
        yield f'<path class="key f{i % len(_LIGHT)}" d="{_marker(i, frame.right + 18, height, 4.5)}"/>'
        yield _text(frame.right + 29, height + 4.5, names[i], "name")


def _apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
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


def _limit(limit: Limit, frame: _Frame) -> str:
    if limit.upright:
        return _rule("limit", frame.x(limit.at), frame.top, frame.x(limit.at), frame.bottom)
    return _rule("limit", frame.left, frame.y(limit.at), frame.right, frame.y(limit.at))


def _limit_names(chart: Lines, frame: _Frame, units: Units) -> Iterator[str]:
    """Each beside its line, at the first place where no series runs, else above the chart with a key."""
    inked = _inked(chart, frame)
    above = frame.right
    for limit in chart.limits:
        axis = chart.x if limit.upright else chart.y
        name = f"{limit.label} {amount(limit.at, axis.unit, units)}"
        wide = _LETTER * len(name)
        free = [corner for corner in _beside(limit, wide, frame) if not _covers(corner, wide, inked)]
        if free:
            yield _text(*free[0], name, "limits halo")
            continue
        above -= wide + 44
        yield _rule("limit", above, frame.top - 20, above + 34, frame.top - 20)
        yield _text(above + 40, frame.top - 16, name, "limits")


def _beside(limit: Limit, wide: float, frame: _Frame) -> list[tuple[float, float]]:
    """Where a text of this width may begin beside a limit's line."""
    corners: list[tuple[float, float]]
    if limit.upright:
        x = frame.x(limit.at)
        corners = [
            (left, y) for y in range(int(frame.top) + 14, int(frame.bottom), 8) for left in (x + 7, x - 7 - wide)
        ]
    else:
        y = frame.y(limit.at)
        corners = [(left, y + dy) for left in range(int(frame.left) + 8, int(frame.right), 8) for dy in (-7, 17)]
    return [(x, y) for x, y in corners if frame.left < x < frame.right - wide and frame.top + 8 < y < frame.bottom]


def _covers(corner: tuple[float, float], wide: float, inked: Sequence[tuple[float, float]]) -> bool:
    left, base = corner
    return any(left - 6 < x < left + wide + 6 and base - 15 < y < base + 6 for x, y in inked)


def _inked(chart: Lines, frame: _Frame) -> list[tuple[float, float]]:
    """Places that the series run through, some pixels apart."""
    found = []
    for series in chart.series:
        places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
        found += places[-1:]
        for (x1, y1), (x2, y2) in pairwise(places):
            steps = int(max(abs(x2 - x1), abs(y2 - y1)) / 6) + 1
            found += [(x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(steps)]
    return found


def _bars(chart: Bars, units: Units, height: float) -> Iterator[str]:
    names = [_short(bar.name) for bar in chart.bars]
    texts = [bar.note if bar.amount is None else amount(bar.amount, chart.axis.unit, units) for bar in chart.bars]
    known = [value for bar in chart.bars for value in (bar.amount, bar.limit) if value is not None]
    frame = _Frame(
        left=_LEFT + 10 + _LETTER * max(map(len, names)),
        right=_WIDTH - _LEFT - _LETTER * 12,
        top=_TOP - 14,
        bottom=height - _BOTTOM,
        x_ends=extent(known or [1], "linear"),
        x_scale="linear",
    )
    yield from _x_axis(chart.axis, frame, units)
    for i, (bar, name, text) in enumerate(zip(chart.bars, names, texts, strict=True)):
        middle = frame.top + _BAR * (i + 0.5) + 4
        yield _text(frame.left - 8, middle + 4.5, name, "", "end")
        yield from _bar(bar, middle, text, frame)
    yield _rule("base", frame.left, frame.top, frame.left, frame.bottom)
    if chart.limit and any(bar.limit is not None for bar in chart.bars):
        yield _rule("limit", _LEFT, frame.top - 16, _LEFT + 34, frame.top - 16)
        yield _text(_LEFT + 42, frame.top - 11.5, chart.limit, "limits")


def _bar(bar: Bar, middle: float, text: str, frame: _Frame) -> Iterator[str]:
    """A bar with its amount behind it; one that is over its limit is hollow."""
    if bar.amount is None:
        yield _text(frame.left + 8, middle + 4.5, _short(text, 90), "none")
    else:
        width = frame.x(bar.amount) - frame.left
        over = " over" if bar.limit is not None and bar.amount > bar.limit else ""
        title = _safe(": ".join(part for part in (bar.name, text, bar.note) if part))
        yield (
            f'<rect class="mark bar f0{over}" x="{_px(frame.left)}" y="{_px(middle - 9)}" width="{_px(width)}" '
            f'height="18"><title>{title}</title></rect>'
        )
    if bar.limit is not None:
        x = frame.x(bar.limit)
        yield f'<path class="limit solid" d="M{_px(x)},{_px(middle - 14)}V{_px(middle + 14)}"/>'
    if bar.amount is not None:
        yield _text(frame.x(bar.amount) + 7, middle + 4.5, text, "halo")


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{named} x="{_px(x)}" y="{_px(y)}"{placed}>{_safe(text)}</text>'


def _rule(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{_px(x1)}" y1="{_px(y1)}" x2="{_px(x2)}" y2="{_px(y2)}"/>'


def _px(value: float) -> str:
    """Tenths of a pixel, which no eye can see, so that the same chart has the same bytes on every machine."""
    return f"{value:.1f}".removesuffix(".0")


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    text = escape(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _safe(text: str) -> str:
    return escape_xml(escape(text), {'"': "&quot;"})
