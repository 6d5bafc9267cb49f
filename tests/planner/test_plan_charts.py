"""The pictures of a plan, against the numbers of its rows."""

import re
from math import isclose
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvcalc.cli.main import run
from kvcalc.cli.values import gpus_of
from kvcalc.core.durations import parse_duration
from kvcalc.perf.latency import Targets
from kvcalc.perf.workload import Length
from kvcalc.queries.plan import DeploymentQuestion, PlanAnswer, answer
from kvcalc.queries.source import Source
from kvcalc.views.chart import Chart, Lines
from kvcalc.views.plan_charts import plan_charts

SVG = "{http://www.w3.org/2000/svg}"
MIXED: dict[str, Any] = {"input": Length(1155), "output": Length(211)}


def asked(gpus: str, **options: Any) -> PlanAnswer:
    return answer(DeploymentQuestion(Source("llama3.1-8b"), gpus=gpus_of(gpus, None), **options))


def lines(chart: Chart) -> Lines:
    assert isinstance(chart, Lines)
    return chart


@pytest.mark.parametrize("engine", [None, "vllm"])
def test_a_row_holds_what_its_curve_says(engine: str | None) -> None:
    """At the context that was asked for, which is one of the curve's, a curve has the sequences of its row."""
    found = asked("l40s,h100", users=10, context=8192, engine=engine)
    (chart,) = plan_charts(found, "--svg")
    curves = {series.name.split()[2].rstrip(","): series for series in lines(chart).series}
    for row in found.proposal.rows[:2]:
        (point,) = [point for point in curves[row.card.name].points if point.x == 8192]
        assert point.y == row.max_sequences
    assert {(limit.label, limit.at) for limit in lines(chart).limits} == {("context", 8192), ("users", 10)}


def test_a_sequence_twice_as_long_has_half_the_room() -> None:
    """The cache of full attention is as large as its tokens are many: rounded down, half or one less."""
    (chart,) = plan_charts(asked("h100", users=4, context=4096), "--svg")
    points = {point.x: point.y for point in lines(chart).series[0].points}
    for tokens in (1024, 2048, 4096, 8192, 16384, 32768, 65536):
        assert points[2 * tokens] == points[tokens] // 2


def test_a_curve_of_times_passes_its_row() -> None:
    """With 16 users on one replica, which is a point of the curve, TPOT is that of the row; and it never falls."""
    found = asked("h100", users=16, **MIXED)
    chart = lines(plan_charts(found, "--svg")[1])
    best = found.best
    assert best is not None
    assert best.load is not None
    assert best.layout.dp == 1
    points = {point.x: point.y for point in chart.series[0].points}
    assert isclose(points[16], best.load.seconds_per_token or 0)
    assert list(points.values()) == sorted(points.values())
    assert max(points) == best.max_sequences


def test_targets_are_lines_and_times_are_at_their_percentile() -> None:
    """A row that meets a target lies below its line at the users that were asked for."""
    targets = Targets(tpot=parse_duration("40ms", "--tpot"), ttft=parse_duration("1s", "--ttft"))
    found = asked("h100", users=16, targets=targets, **MIXED)
    charts = [lines(chart) for chart in plan_charts(found, "--svg")]
    assert [chart.y.title for chart in charts[1:]] == ["TPOT at p95", "TTFT at p95"]
    for chart, target in zip(charts[1:], (0.04, 1.0), strict=True):
        assert ("target", target) in {(limit.label, limit.at) for limit in chart.limits}
        assert all(point.y <= target for series in chart.series for point in series.points if point.x == 16)
    mean = lines(plan_charts(asked("h100", users=16, **MIXED), "--svg")[1])
    assert charts[1].series[0].points[4].y >= mean.series[0].points[4].y


def test_the_files_have_every_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file of SVG with charts one below the other, one page; neither overlaps."""
    svg, html = tmp_path / "plan.svg", tmp_path / "plan.html"
    words = ["--users", "8", "--input", "1155", "--output", "211", "--gpu", "l4,h100", "--svg", str(svg)]
    assert run(["plan", "llama3.1-8b", *words, "--html", str(html), "-q"]) == 0
    whole = ET.fromstring(svg.read_text(encoding="utf-8"))
    inner = whole.findall(f"{SVG}svg")
    tops = [(int(each.get("y", "0")), int(each.get("height", "0"))) for each in inner]
    assert [top for top, _ in tops] == [sum(height for _, height in tops[:i]) for i in range(len(tops))]
    assert int(whole.get("height", "0")) == sum(height for _, height in tops)
    assert len(inner) == len(re.findall("<figure>", html.read_text(encoding="utf-8"))) == 2
    capsys.readouterr()


def test_no_plan_is_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is still no, and the file that is missing is named."""
    path = tmp_path / "plan.svg"
    assert run(["plan", "llama3.3-70b", "--gpu", "1xl4", "--svg", str(path)]) == 1
    assert not path.exists()
    assert "--svg: no row of a plan to draw" in capsys.readouterr().out
