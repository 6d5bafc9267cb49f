"""The order of packages: what computes knows nothing of what reads, and neither of what shows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "kvcalc"

# A package imports only from lines above its own, and so no two packages import both ways.
ORDER = (
    ("errors", "version"),
    ("jobs",),
    ("core",),
    ("perf",),
    ("traffic",),
    ("serving",),
    ("preset",),
    ("sources",),
    ("library",),
    ("cards",),
    ("commands",),
    ("engines",),
    ("launch",),
    ("grid", "logs", "planner"),
    ("queries",),
    ("views",),
    ("render",),
    ("verifying",),
    ("api",),
    ("kvcalc",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

# Text of people's becomes names and numbers here, which needs to know of neither models nor files.
READERS = (
    "preset.notation",
    "preset.fields",
    "commands.budget",
    "commands.words",
    "commands.variables",
    "commands.shell",
)
BELOW_READERS = ("errors", "core.units", "commands.budget", "commands.variables")

# What computes and what reads text has no files, no terminal and no formats: these import none of IMPURE.
PURE_PACKAGES = ("errors", "version", "jobs", "core", "perf", "traffic", "serving", "engines", "grid", "planner")
PURE_MODULES = (
    *READERS,
    "commands.manifests",
    "commands.flags",
    "commands.versions",
    "launch.programs",
    "logs.compare",
)
IMPURE = {"yaml", "rich", "typer", "os", "json"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "presets" not in path.parts)


def name_of(path: Path) -> str:
    """A module's name below the package; the package itself is called kvcalc, and its folders by their names."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "kvcalc"


NAMES = {name_of(path): path for path in MODULES}
PURE = tuple(name for name in NAMES if name in PURE_MODULES or name.split(".")[0] in PURE_PACKAGES)


def rank_of(name: str) -> int:
    """The line of a module's package in ORDER; KeyError for one that is not listed."""
    return RANK[name.split(".", maxsplit=1)[0]]


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
    """Modules of ours that a module imports. `from kvcalc.core.units import x` is units, `from kvcalc import units` too."""
    found = set()
    for full in imports(path):
        parts = full.split(".")
        if parts[0] != "kvcalc":
            continue
        within = ".".join(parts[1:])
        parent = ".".join(parts[1:-1])
        found.add(within if within in NAMES else parent or "kvcalc")
    return found - {name_of(path)}


def test_every_package_has_its_place() -> None:
    """A new package must be given a line in the order, and a name in it is a package that there is."""
    assert {name.split(".")[0] for name in NAMES} == set(RANK)


def test_few_modules_stand_at_the_root() -> None:
    """What is neither an error, a version nor an entry has a package."""
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_imports_are_found() -> None:
    """The walk sees both ways of writing an import, and those inside of functions."""
    assert {"errors", "preset.mapping", "library.locate"} <= own_imports(NAMES["library.loader"])
    assert "core.dtypes" in own_imports(NAMES["core.request"])
    assert "sources.hub" in own_imports(NAMES["library.locate"])


@pytest.mark.parametrize("name", NAMES)
def test_imports_point_one_way(name: str) -> None:
    """A module imports only from earlier lines of the order, or from its own package."""
    own = name.split(".", maxsplit=1)[0]
    wrong = [
        other
        for other in sorted(own_imports(NAMES[name]))
        if other.split(".")[0] != own and rank_of(other) >= rank_of(name)
    ]
    assert wrong == []


def test_no_two_modules_import_both_ways() -> None:
    """Not even inside of a package, nor inside of functions; a cycle of three is one of two sooner or later."""
    known = {name: own_imports(path) for name, path in NAMES.items()}
    assert sorted((a, b) for a in known for b in known[a] if a < b and a in known.get(b, ())) == []


@pytest.mark.parametrize("name", READERS)
def test_readers_know_no_models(name: str) -> None:
    """The readers of text import at most errors and units of ours."""
    assert sorted(own_imports(NAMES[name]) - set(BELOW_READERS)) == []


@pytest.mark.parametrize("name", PURE)
def test_the_core_is_pure(name: str) -> None:
    """What computes imports no file format, no terminal and no operating system."""
    assert sorted({full.split(".")[0] for full in imports(NAMES[name])} & IMPURE) == []
