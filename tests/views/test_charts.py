"""Charts as values and as SVG: round ticks, a mark for each point, nothing from elsewhere."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from kvcalc.render import svg
from kvcalc.views.chart import Axis, Bar, Bars, Limit, Lines, Point, Series, extent, scale_of, ticks

SVG = "{http://www.w3.org/2000/svg}"
GIB, K = 2**30, 1024


@pytest.mark.parametrize(
    ("axis", "ends", "units", "expected"),
    [
        (Axis("", "bytes"), (0, 66 * GIB), "iec", [f"{n} GiB" if n else "0 B" for n in range(0, 61, 10)]),
        (Axis("", "bytes"), (0, 66e9), "si", [f"{n} GB" if n else "0 B" for n in range(0, 61, 10)]),
        (Axis("", "bytes", "log2"), (GIB, 8 * GIB), "iec", ["1 GiB", "2 GiB", "4 GiB", "8 GiB"]),
        (Axis("", "bytes", "log2"), (1e9, 1e12), "si", ["1 GB", "10 GB", "100 GB", "1 TB"]),
        (Axis("", "tokens", "log2"), (4 * K, 32 * K), "iec", ["4k", "8k", "16k", "32k"]),
        (Axis("", "tokens"), (0, 40 * K), "iec", ["0", "5k", "10k", "15k", "20k", "25k", "30k", "35k", "40k"]),
        (Axis(""), (0, 4), "iec", ["0", "1", "2", "3", "4"]),
        (Axis("", "s", "log10"), (1e-3, 1), "iec", ["1 ms", "10 ms", "100 ms", "1 s"]),
        (Axis("", "FLOP", "log10"), (1e9, 1e15), "iec", ["1 GFLOP", "10 GFLOP", "100 GFLOP", "1 TFLOP", "10 TFLOP",
                                                          "100 TFLOP", "1 PFLOP"]),
    ],
)  # fmt: skip
def test_ticks(axis: Axis, ends: tuple[float, float], units: str, expected: list[str]) -> None:
    """Ticks stand at round numbers of the unit that is shown: powers of 1,024 for GiB, of ten for GB."""
    texts = [text for _, text in ticks(axis, ends, units, 9)]
    assert texts == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 4, 8, 16], "log2"), (range(1, 65), "linear"), ([4 * K, 8 * K, 16 * K], "linear"), ([5], "linear"),
     ([K * 2**i for i in range(8)], "log2"), ([0, 1, 10, 100], "linear")],
    ids=str,
)  # fmt: skip
def test_scale_of(values: list[int], expected: str) -> None:
    """What was doubled is drawn at equal distances, and what was counted too."""
    assert scale_of(list(values)) == expected


def test_extent_begins_at_zero() -> None:
    """A linear axis of sizes begins at zero, so that twice as high is twice as much; its top has air."""
    low, high = extent([5, 10], "linear")
    assert low == 0
    assert 10 < high < 11


def lines(**changes: object) -> Lines:
    series = tuple(
        Series(f"batch {b}", tuple(Point(K * 2**i, b * 1000 * 2**i) for i in range(5))) for b in range(1, 25)
    )
    chart = Lines("A <title> & more", 'what "was" asked', Axis("context", "tokens", "log2"),
                  Axis("size", "bytes", "log2"), series, (Limit("budget", 200_000), Limit("ridge", 3000, upright=True)))  # fmt: skip
    return chart._replace(**changes)


def bars() -> Bars:
    return Bars("sizes", "asked", Axis("size", "bytes"),
                (Bar("a", 10 * GIB, 5 * GIB), Bar("b & c", GIB, 5 * GIB), Bar("d", None, None, "refused")), "budget")  # fmt: skip


def marks(text: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(text).iter() if "mark" in element.get("class", "").split()]


def test_one_mark_for_each_point() -> None:
    """Every number of the chart is drawn once, and says itself to whoever points at it."""
    found = marks(svg.render(lines(), "iec"))
    assert len(found) == 24 * 5
    assert found[0][0].tag == f"{SVG}title"
    assert found[0][0].text == "batch 1: 1k: 1000 B"
    assert len(marks(svg.render(bars(), "iec"))) == 2


def test_series_differ_without_colour() -> None:
    """No two of the 24 lines have both marker and dash in common with the same colour: a print tells them apart."""
    tree = ET.fromstring(svg.render(lines(), "iec"))
    strokes = [line.get("class") for line in tree.iter(f"{SVG}polyline") if "line" in line.get("class", "").split()]
    assert len(strokes) == len(set(strokes)) == 24
    names = [text.text for text in tree.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(names) == sorted(f"batch {b}" for b in range(1, 25))


def test_names_do_not_overlap() -> None:
    """The names beside the ends of lines stand a line of text apart, however close the lines end."""
    close = tuple(Series(f"s{i}", (Point(1, 100 + i), Point(2, 200 + i))) for i in range(20))
    tree = ET.fromstring(svg.render(lines(series=close, limits=()), "iec"))
    heights = sorted(float(text.get("y", "")) for text in tree.iter(f"{SVG}text") if text.get("class") == "name")
    assert min(b - a for a, b in pairwise(heights)) >= 15.9


@pytest.mark.parametrize("chart", [lines(), bars()], ids=["lines", "bars"])
def test_nothing_from_elsewhere(chart: Lines | Bars) -> None:
    """The file loads nothing and runs nothing: no script, no reference, no address but the name of the format."""
    text = svg.render(chart, "si")
    assert re.findall(r"https?:[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"<script|<a |href|url\(|@import|<image|<use|\bon[a-z]+=", text) == []
    tree = ET.fromstring(text)
    assert (tree.get("role"), tree[0].tag, tree[1].tag) == ("img", f"{SVG}title", f"{SVG}desc")
    assert (tree[0].text, tree[1].text) == (chart.title, chart.about)
    assert "prefers-color-scheme:dark" in text


def test_the_same_chart_has_the_same_bytes() -> None:
    """Drawn twice, a chart can be compared and kept under version control."""
    assert svg.render(lines(), "iec") == svg.render(lines(), "iec")


def test_a_long_description_takes_two_lines() -> None:
    """Both fit into the 920 pixels between the margins, at some 7 pixels a letter, and a third is told by its dots."""
    for count in (25, 60):  # of eight letters and a blank: 224 or 539 letters
        text = " ".join(["sentence"] * count)
        tree = ET.fromstring(svg.render(lines(about=text), "iec"))
        found = [element for element in tree.iter(f"{SVG}text") if element.get("class") == "about"]
        said = " ".join(element.text or "" for element in found)
        assert [element.get("y") for element in found] == ["52", "68"]
        assert max(len(element.text or "") for element in found) <= 920 // 7
        assert said == text if count == 25 else text.startswith(said.removesuffix("…")) and said.endswith("…")


def test_hostile_names() -> None:
    """A name cannot break out of its text, nor bring characters that XML does not have."""
    evil = "</text><script>alert(1)</script>\x00\x1b[31m\ud800\u202e]]>&"
    chart = lines(title=evil, about=evil, series=(Series(evil, (Point(1, 1, evil), Point(2, 2))),) * 2)
    tree = ET.fromstring(svg.render(chart, "iec").encode())
    assert [element.tag for element in tree.iter() if "script" in element.tag] == []


def test_a_flat_chart_and_a_single_point() -> None:
    """Equal values, one point and a zero have their places too."""
    for series in ((Point(1, 5),), (Point(1, 5), Point(2, 5)), (Point(1, 0), Point(2, 0))):
        chart = lines(series=(Series("s", series),), limits=(), x=Axis("x"), y=Axis("y", "bytes"))
        assert len(marks(svg.render(chart, "iec"))) == len(series)
    one = lines(series=(Series("s", (Point(4096, 5),)),), limits=())
    assert len(marks(svg.render(one, "iec"))) == 1


@pytest.mark.parametrize("second", [300, 400, 500, 1_000, 4_095])
def test_names_of_upright_limits_keep_apart(second: int) -> None:
    """Two limits close together: each name is read, and neither lies on the other's line."""
    limits = (Limit("asked", second, upright=True), Limit("ridge", 295, upright=True))
    tree = ET.fromstring(svg.render(lines(limits=limits), "iec"))
    names = [text for text in tree.iter(f"{SVG}text") if "limits" in (text.get("class") or "")]
    places = [(float(text.get("x", "0")), float(text.get("y", "0")), len("".join(text.itertext()))) for text in names]
    assert len(places) == 2
    (x1, y1, letters), (x2, y2, _) = sorted(places)
    assert abs(y1 - y2) >= 14 or x2 - x1 >= 7 * letters
