"""The order of modules: what computes knows nothing of what reads, and neither of what shows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "kvcalc"

# A module imports only from lines above its own. A name that ends in a dot stands for a whole folder.
ORDER = (
    ("errors", "verbs", "version"),
    ("units",),
    ("charts", "dtypes", "grids"),
    ("model",),
    ("formula",),
    ("sharding", "hardware", "links", "roofline", "workload"),
    ("request", "weights"),
    ("flops", "overheads", "sizing"),
    ("fitting", "demands", "serving", "tradeoffs"),
    ("deployment", "spreading"),
    ("planning",),
    ("searching",),
    ("ranking",),
    ("reasons",),
    ("proposing",),
    ("variables",),
    ("notation", "reading", "scripts", "yamlfile"),
    ("manifests",),
    ("caches",),
    ("preset",),
    ("sources.",),
    ("finding",),
    ("accelerators", "localgpus"),
    ("gpufiles",),
    ("cards",),
    ("locating",),
    ("canonical", "library", "explain"),
    ("flags", "versions"),
    ("reserving",),
    ("holding", "sweeping"),
    ("startable",),
    ("logform",),
    ("starting",),
    ("checking", "engines.", "spelling"),
    ("launching",),
    ("logs.",),
    ("report", "document"),
    ("checked", "gridview", "planned", "reserved", "sized", "traded"),
    ("swept", "telling", "tradecurve"),
    ("compared",),
    ("charting",),
    ("cardlist", "catalogue"),
    ("render.",),
    ("verifying.",),
    ("api",),
    ("kvcalc",),
    ("cli.",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

# Text of people's becomes names and numbers here, which needs to know of neither models nor files.
READERS = ("notation", "reading", "variables", "scripts")
BELOW_READERS = ("errors", "verbs", "version", "units", "variables")

# What computes and what reads text has no files, no terminal and no formats: PURE imports none of these.
IMPURE = {"yaml", "rich", "typer", "os", "json"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "presets" not in path.parts)


def name_of(path: Path) -> str:
    """A module's name below the package; the package itself is called kvcalc, and its folders by their names."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "kvcalc"


NAMES = {name_of(path): path for path in MODULES}
ENGINES = tuple(name for name in NAMES if name.split(".")[0] == "engines")
PURE = (
    *(name for names in ORDER[:15] for name in names),
    *(
        *READERS,
        "manifests",
        "flags",
        "versions",
        "reserving",
        "holding",
        "startable",
        "sweeping",
        "starting",
        "logform",
        "checking",
    ),
    *ENGINES,
)


def rank_of(name: str) -> int:
    """The line of a module in ORDER; KeyError for one that is not listed."""
    return RANK[name] if name in RANK else RANK[name.split(".", maxsplit=1)[0] + "."]


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a module imports, at its top or inside a function."""
    package = ["kvcalc", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                yield from (f"{origin}.{alias.name}" for alias in names)


def own_imports(path: Path) -> set[str]:
    """Modules of ours that a module imports. `from kvcalc.units import x` is units, `from kvcalc import units` too."""
    found = set()
    for full in imports(path):
        parts = full.split(".")
        if parts[0] != "kvcalc":
            continue
        within = ".".join(parts[1:])
        parent = ".".join(parts[1:-1])
        found.add(within if within in NAMES else parent or "kvcalc")
    return found - {name_of(path)}


def test_every_module_has_its_place() -> None:
    """A new module must be given a line in the order."""
    assert [name for name in NAMES if name not in RANK and f"{name.split('.')[0]}." not in RANK] == []


def test_imports_are_found() -> None:
    """The walk sees both ways of writing an import: library loads presets through three other modules."""
    assert {"errors", "model", "preset", "yamlfile"} <= own_imports(NAMES["library"])
    assert "dtypes" in own_imports(NAMES["request"])


@pytest.mark.parametrize("name", NAMES)
def test_imports_point_one_way(name: str) -> None:
    """A module imports only from earlier lines of the order; inside a folder its modules may import one another."""
    folder = name.split(".", maxsplit=1)[0]
    wrong = [
        other
        for other in sorted(own_imports(NAMES[name]))
        if rank_of(other) >= rank_of(name) and not (f"{folder}." in RANK and other.split(".")[0] == folder)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", READERS)
def test_readers_know_no_models(name: str) -> None:
    """The readers of text import at most errors and units of ours."""
    assert sorted(own_imports(NAMES[name]) - set(BELOW_READERS)) == []


@pytest.mark.parametrize("name", PURE)
def test_the_core_is_pure(name: str) -> None:
    """What computes imports no file format, no terminal and no operating system."""
    assert sorted({full.split(".")[0] for full in imports(NAMES[name])} & IMPURE) == []
