"""What a start costs, by content and not by clock: the modules that are imported and the files that are read."""

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

HEAVY = {
    "rich", "pydantic", "numpy", "importlib.metadata", "importlib.resources", "asyncio", "http", "email",
    "decimal", "fractions",
    "csv", "difflib", "urllib.request", "kvcalc.render.table", "kvcalc.cli.models", "kvcalc.preset.canonical",
}  # fmt: skip
OLD_TYPER = tuple(map(int, version("typer").split(".")[:2])) < (
    0,
    29,
)  # newer ones import pydantic for every command line

PROBE = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from kvcalc.cli.main import run
status = run(sys.argv[1:])
modules = sorted(sys.modules)
import json
print(json.dumps({"status": status, "modules": modules, "opened": opened}), file=sys.stderr)
"""

# The least that any command line of this Typer imports.
FLOOR = """
import sys, typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
@app.command()
def main(model: str, batch: str = "", quiet: bool = typer.Option(False, "--quiet", "-q")) -> None:
    pass
app(["llama3-70b", "--batch", "8", "-q"], standalone_mode=False)
modules = sorted(sys.modules)
import json
print(json.dumps({"modules": modules}), file=sys.stderr)
"""


def probe(code: str, *argv: str) -> Any:
    """What a fresh interpreter reports of itself on standard error, with its standard output under `out`."""
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    return {"out": done.stdout, **json.loads(done.stderr)}


@pytest.fixture(scope="module")
def quiet() -> Any:
    """One run of the shortest question."""
    return probe(PROBE, "llama3-70b", "--batch", "8", "-q")


def test_the_shortest_question_is_answered(quiet: Any) -> None:
    """The probe runs the command line as a user does."""
    assert (quiet["status"], quiet["out"]) == (0, "10737418240\n")


def test_no_heavy_module_is_imported(quiet: Any) -> None:
    """What only other answers need is not imported; Typer's own imports are not ours to choose."""
    floor = set(probe(FLOOR)["modules"])
    assert sorted((HEAVY - floor) & set(quiet["modules"])) == []
    assert not OLD_TYPER or "pydantic" not in quiet["modules"]


def test_a_piped_answer_needs_no_table_renderer() -> None:
    """Text for a pipe, and JSON, do without rich."""
    floor = set(probe(FLOOR)["modules"])
    for argv in ([], ["--json"], ["--explain"], ["--vram", "80GB", "--tp", "8"]):
        modules = set(probe(PROBE, "llama3-70b", *argv)["modules"])
        assert sorted(({"rich", "numpy", "asyncio", "http", "difflib"} - floor) & modules) == []


def test_a_list_needs_no_rich() -> None:
    """The list of all presets is drawn without rich, which would take half as long again as reading them."""
    floor = set(probe(FLOOR)["modules"])
    found = probe(PROBE, "models", "-f", "table")
    assert (found["status"], "─────" in found["out"]) == (0, True)
    assert sorted(({"rich", "difflib", "csv"} - floor) & set(found["modules"])) == []


@pytest.mark.skipif(not OLD_TYPER, reason="newer versions of Typer import three hundred modules by themselves")
def test_the_number_of_modules_is_bounded(quiet: Any) -> None:
    """A slow import shows as many modules before it shows on any clock."""
    assert len(quiet["modules"]) <= 230


def test_our_own_part_of_the_modules_is_small(quiet: Any) -> None:
    """Beyond what Typer and PyYAML import, a run adds our own modules and little else."""
    floor = set(probe("import yaml\n" + FLOOR)["modules"])
    others = [name for name in quiet["modules"] if name not in floor and not name.startswith("kvcalc")]
    assert len(others) <= 20


def test_one_preset_file_is_read(quiet: Any) -> None:
    """A name leads to its file: no other preset is opened."""
    assert [
        path.replace("\\", "/").rsplit("/", 1)[-1] for path in quiet["opened"] if path.endswith((".yaml", ".yml"))
    ] == ["llama3-70b.yaml"]


@pytest.mark.parametrize("name", ["Llama-3-70B", "LLAMA_3_70B"])
def test_another_spelling_reads_no_more_files(name: str) -> None:
    """Spellings are compared by file name, so that they cost no reading."""
    opened = probe(PROBE, name, "-q")["opened"]
    assert len([path for path in opened if path.endswith((".yaml", ".yml"))]) == 1


def test_importing_the_package_imports_nothing_else() -> None:
    """`import kvcalc` loads no submodule, and neither YAML nor Typer, until a name is used."""
    code = "import sys, json, kvcalc\nprint(json.dumps({'modules': sorted(sys.modules)}), file=sys.stderr)"
    modules = probe(code)["modules"]
    assert [name for name in modules if name.startswith(("kvcalc", "yaml", "typer", "rich"))] == ["kvcalc"]


def test_a_name_of_the_package_imports_what_it_needs_and_no_command_line() -> None:
    """The Python interface works without the command line."""
    code = (
        "import sys, json, kvcalc\n"
        "total = kvcalc.size(kvcalc.load('llama3-70b'), batch=8).bytes_total\n"
        "print(json.dumps({'total': total, 'modules': sorted(sys.modules)}), file=sys.stderr)"
    )
    found = probe(code)
    assert found["total"] == 10_737_418_240
    assert [
        name for name in found["modules"] if name.startswith(("kvcalc.cli", "kvcalc.render", "typer", "rich"))
    ] == []
