"""A chart as SVG: one file that needs nothing else, holds no script, and is read in light, in dark and on paper.

Series differ in colour, dash and marker, so that a print in black and white tells them apart; each is named where it
ends. The bytes are the same for the same chart.
"""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kvcalc.core.units import Units
from kvcalc.render.drawing import COLOURS, DASHES, apart, marker, px, rule, safe, short, style, text_at
from kvcalc.views.chart import (
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

__all__ = ["render", "stacked"]

_WIDTH, _HEIGHT = 960, 540
_TOP, _BOTTOM, _LEFT = 104, 62, 20
_ABOUT = 125  # letters of a line below the title
_LETTER = 7.3  # the mean width of a letter of 13 px, a little more than sans-serif fonts have
_BOLD = 8.2  # of bold ones
_BAR = 30


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


def stacked(charts: Sequence[Chart], units: Units) -> str:
    """One file with every chart, each below the one before."""
    if len(charts) == 1:
        return render(charts[0], units)
    tops = [0]
    for chart in charts:
        tops.append(tops[-1] + _height(chart))
    size = f'viewBox="0 0 {_WIDTH} {tops[-1]}" width="{_WIDTH}" height="{tops[-1]}"'
    inside = "".join(render(chart, units, top) for chart, top in zip(charts, tops, strict=False))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{inside}</svg>\n'


def _height(chart: Chart) -> int:
    return _HEIGHT if isinstance(chart, Lines) else _TOP + _BOTTOM + _BAR * len(chart.bars)


def render(chart: Chart, units: Units, top: int = 0) -> str:
    """The whole file, or an element of a page or of a file, which begins so many pixels below its top."""
    height = _height(chart)
    inside = _lines(chart, units) if isinstance(chart, Lines) else _bars(chart, units, height)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"' + (f' y="{top}"' if top else "")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kv" role="img" {size}>',
        f"<title>{safe(chart.title)}</title>",
        f"<desc>{safe(chart.about)}</desc>",
        f"<style>{style()}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        text_at(_LEFT, 30, short(chart.title, 80), "title"),
        *_about(chart.about),
        *inside,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _about(text: str) -> Iterator[str]:
    """Two lines at most, which hold so many letters."""
    first, *rest = textwrap.wrap(text, _ABOUT) or [""]
    yield text_at(_LEFT, 52, short(first, _ABOUT), "about")
    if rest:
        yield text_at(_LEFT, 68, short(" ".join(rest), _ABOUT), "about")


def _lines(chart: Lines, units: Units) -> Iterator[str]:
    points = [point for series in chart.series for point in series.points]
    across, upright = ([limit.at for limit in chart.limits if limit.upright is way] for way in (False, True))
    x_ends = extent([*(point.x for point in points), *upright], chart.x.scale)
    y_ends = extent([*(point.y for point in points), *across], chart.y.scale)
    y_ticks = ticks(chart.y, y_ends, units)
    names = [short(series.name) for series in chart.series] if len(chart.series) > 1 else []
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
    yield text_at(_LEFT, frame.top - 16, chart.y.title, "axis")
    for value, text in y_ticks:
        yield rule("grid", frame.left, frame.y(value), frame.right, frame.y(value))
        yield text_at(frame.left - 8, frame.y(value) + 4.5, text, "", "end")
    yield from _x_axis(chart.x, frame, units)
    yield rule("base", frame.left, frame.top, frame.left, frame.bottom)
    for limit in chart.limits:
        yield _limit(limit, frame)
    for i, series in enumerate(chart.series):
        yield from _series(chart, series, i, frame, units)
    yield from _names(names, [series.points[-1] for series in chart.series], frame)
    yield from _limit_names(chart, frame, units)


def _x_axis(axis: Axis, frame: _Frame, units: Units) -> Iterator[str]:
    for value, text in ticks(axis, frame.x_ends, units, int((frame.right - frame.left) / 70)):
        yield rule("grid", frame.x(value), frame.top, frame.x(value), frame.bottom)
        yield text_at(frame.x(value), frame.bottom + 20, text, "", "middle")
    yield rule("base", frame.left, frame.bottom, frame.right, frame.bottom)
    yield text_at((frame.left + frame.right) / 2, frame.bottom + 46, axis.title, "axis", "middle")


def _series(chart: Lines, series: Series, i: int, frame: _Frame, units: Units) -> Iterator[str]:
    """A line and its markers; each marker says its numbers to whoever points at it."""
    colour, size = i % len(COLOURS), 4.5 if len(series.points) <= 40 else 2
    places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
    if len(places) > 1:
        path = " ".join(f"{px(x)},{px(y)}" for x, y in places)
        yield f'<polyline class="line s{colour} d{(i + i // len(COLOURS)) % len(DASHES)}" points="{path}"/>'
    for point, (x, y) in zip(series.points, places, strict=True):
        said = [series.name, amount(point.x, chart.x.unit, units), amount(point.y, chart.y.unit, units), point.note]
        title = safe(": ".join(part for part in said if part))
        yield f'<path class="mark f{colour}" d="{marker(i, x, y, size)}"><title>{title}</title></path>'


def _names(names: Sequence[str], ends: Sequence[Point], frame: _Frame) -> Iterator[str]:
    """Each name beside the end of its line, moved apart where the ends are close, with a thin line that leads there."""
    order = sorted(range(len(names)), key=lambda i: (frame.y(ends[i].y), i))
    heights = apart([frame.y(ends[i].y) for i in order], frame.top, frame.bottom + 30)
    for i, height in zip(order, heights, strict=True):
        x, y = frame.x(ends[i].x), frame.y(ends[i].y)
        lead = f"{px(x + 6)},{px(y)} {px(frame.right + 4)},{px(height)} {px(frame.right + 11)},{px(height)}"
        yield f'<polyline class="lead" points="{lead}"/>'
        yield f'<path class="key f{i % len(COLOURS)}" d="{marker(i, frame.right + 18, height, 4.5)}"/>'
        yield text_at(frame.right + 29, height + 4.5, names[i], "name")


def _limit(limit: Limit, frame: _Frame) -> str:
    if limit.upright:
        return rule("limit", frame.x(limit.at), frame.top, frame.x(limit.at), frame.bottom)
    return rule("limit", frame.left, frame.y(limit.at), frame.right, frame.y(limit.at))


def _limit_names(chart: Lines, frame: _Frame, units: Units) -> Iterator[str]:
    """Each beside its line, at the first place where nothing else is, else above the chart with a key."""
    inked = _inked(chart, frame)
    uprights = [(frame.x(limit.at), float(y)) for limit in chart.limits if limit.upright for y in _rows(frame)]
    above = frame.right
    for limit in chart.limits:
        axis = chart.x if limit.upright else chart.y
        name = f"{limit.label} {amount(limit.at, axis.unit, units)}"
        wide = _BOLD * len(name)
        own = frame.x(limit.at) if limit.upright else None
        taken = inked + [place for place in uprights if place[0] != own]
        free = [corner for corner in _beside(limit, wide, frame) if not _covers(corner, wide, taken)]
        if free:
            yield text_at(*free[0], name, "limits", clear=True)
            inked += [(free[0][0] + step, free[0][1] - 5) for step in range(0, int(wide), 6)]
            continue
        above -= wide + 44
        yield rule("limit", above, frame.top - 20, above + 34, frame.top - 20)
        yield text_at(above + 40, frame.top - 16, name, "limits")


def _rows(frame: _Frame) -> range:
    """Where lines of text may stand in the chart."""
    return range(int(frame.top) + 14, int(frame.bottom), 8)


def _beside(limit: Limit, wide: float, frame: _Frame) -> list[tuple[float, float]]:
    """Where a text of this width may begin beside a limit's line."""
    corners: list[tuple[float, float]]
    if limit.upright:
        x = frame.x(limit.at)
        corners = [(left, y) for y in _rows(frame) for left in (x + 7, x - 7 - wide)]
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
    names = [short(bar.name) for bar in chart.bars]
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
        yield text_at(frame.left - 8, middle + 4.5, name, "", "end")
        yield from _bar(bar, middle, text, frame)
    yield rule("base", frame.left, frame.top, frame.left, frame.bottom)
    if chart.limit and any(bar.limit is not None for bar in chart.bars):
        yield rule("limit", _LEFT, frame.top - 16, _LEFT + 34, frame.top - 16)
        yield text_at(_LEFT + 42, frame.top - 11.5, chart.limit, "limits")


def _bar(bar: Bar, middle: float, text: str, frame: _Frame) -> Iterator[str]:
    """A bar with its amount behind it; one that is over its limit is hollow."""
    if bar.amount is None:
        yield text_at(frame.left + 8, middle + 4.5, short(text, 90), "none")
    else:
        width = frame.x(bar.amount) - frame.left
        over = " over" if bar.limit is not None and bar.amount > bar.limit else ""
        title = safe(": ".join(part for part in (bar.name, text, bar.note) if part))
        yield (
            f'<rect class="mark bar f0{over}" x="{px(frame.left)}" y="{px(middle - 9)}" width="{px(width)}" '
            f'height="18"><title>{title}</title></rect>'
        )
    if bar.limit is not None:
        x = frame.x(bar.limit)
        yield f'<path class="limit solid" d="M{px(x)},{px(middle - 14)}V{px(middle + 14)}"/>'
    if bar.amount is not None:
        behind = frame.x(bar.amount) + 7
        mark = 0 if bar.limit is None else frame.x(bar.limit)
        if behind - 4 < mark < behind + _LETTER * len(text):  # the limit would stand in the text
            behind = mark + 7
        yield text_at(behind, middle + 4.5, text, clear=True)
