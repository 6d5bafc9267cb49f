"""The scripts in bench/ are run by hand or for their times, so what they import of the package is held here."""

import ast
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_imports_exists(script: Path) -> None:
    """Each name that a script takes from the package is there."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    for node in taken:
        if node.module and node.module.partition(".")[0] == "kvcalc":
            module = import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def test_the_page_about_accuracy_is_what_its_script_prints() -> None:
    """Numbers in docs/ are measured ones: `python bench/accuracy.py --page > docs/accuracy.md` writes them."""
    root = Path(__file__).resolve().parents[1]
    made = spec_from_file_location("accuracy", root / "bench" / "accuracy.py")
    assert made is not None
    assert made.loader is not None
    accuracy = module_from_spec(made)
    made.loader.exec_module(accuracy)
    assert (root / "docs" / "accuracy.md").read_text(encoding="utf-8") == accuracy.page()


def test_there_are_scripts() -> None:
    """CI runs these five by name."""
    assert {"startup", "listing", "plan", "simulate", "sweep"} <= {path.stem for path in SCRIPTS}
