"""The page in a real browser, without a screen: it draws its chart in light and dark, and loads nothing."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

# Asked of a copy of the page, which itself has no script: what was loaded, and what is really drawn.
ASK = """
<script>
const drawn = (kind) => [...document.querySelectorAll(kind)].filter((part) => {
  const box = part.getBoundingClientRect(), chart = part.ownerSVGElement.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && box.left >= chart.left && box.right <= chart.right
    && box.top >= chart.top && box.bottom <= chart.bottom;
}).length;
const texts = [...document.querySelectorAll("svg text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
const clash = texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([b, q]) =>
  p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4).map(([b]) => a + " / " + b));
document.title = "ANSWER" + JSON.stringify({
  loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
  marks: drawn(".mark"), texts: drawn("text"), all: texts.length, clash,
  ground: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.querySelector(".mark")).fill,
  wide: document.documentElement.scrollWidth, window: innerWidth,
}) + "END";
</script>
"""
SWEEPS = {
    "lines": (["llama3-70b", "-c", "4k..128k:x2", "-b", "1..64:x2", "--gpu", "h100", "--tp", "8"], 42),
    "budgets": (["gemma3-27b", "-c", "1k..64k:+1k", "--tp", "1,2,4", "--gpu", "h100", "-b", "16"], 192),
    "bars": (["llama3-70b", "--tp", "1,2,3,8", "--kv-dtype", "bf16,fp8", "--gpu", "h100"], 6),
}  # fmt: skip


def seen(page: Path, *, dark: bool) -> Any:
    """What the browser says of a page."""
    copy = page.with_name("copy.html")
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{ASK}</body>"), encoding="utf-8")
    assert BROWSER is not None
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [BROWSER, *quiet, scheme, profile, "--window-size=1200,900", "--dump-dom", copy.as_uri()],
        capture_output=True, check=False, text=True, timeout=120, env={**os.environ, "HOME": str(page.parent)},
    )  # fmt: skip
    answer = re.search(r"ANSWER(\{.*?\})END", done.stdout)
    if answer is None:
        pytest.skip(f"the browser did not run: {done.stderr[-200:]}")
    return json.loads(answer[1])


@pytest.mark.parametrize("name", SWEEPS)
def test_a_page_draws_its_chart_and_loads_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mark and text lies inside the chart, no two texts cover one another, and nothing else was asked for."""
    argv, marks = SWEEPS[name]
    page = tmp_path / "page.html"
    assert run(["sweep", *argv, "--html", str(page), "-q"]) == 0
    capsys.readouterr()
    light, dark = seen(page, dark=False), seen(page, dark=True)
    assert light["loaded"] == dark["loaded"] == []
    assert light["marks"] == dark["marks"] == marks
    assert light["texts"] == light["all"]
    assert light["clash"] == []
    assert light["wide"] <= light["window"]
    assert light["ground"] == "rgb(255, 255, 255)"
    assert dark["ground"] != light["ground"]
    assert dark["ink"] != light["ink"]
