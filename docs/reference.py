"""Write the two pages that follow from the code: options.md from the declared options, json.md from the types.

python docs/reference.py
"""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer.main

from kvcalc.cli.group import VERB_MODULES
from kvcalc.views.schema import DOCUMENTS

HERE = Path(__file__).parent
TYPES = HERE.parent / "kvcalc" / "views" / "types"

# The unit of a key follows from its name: bytes are integers under any that says so.
UNITS = (
    ("bytes_per_second", "bytes a second"),
    ("tokens_per_second", "tokens a second"),
    ("requests_per_second", "requests a second"),
    ("per_second", "a second"),
    ("bytes", "bytes"),
    ("seconds", "seconds"),
    ("tokens", "tokens"),
    ("context", "tokens"),
    ("flops", "FLOP"),
    ("gb_s", "GB/s"),
    ("tflops", "TFLOP/s"),
    ("driver_mib", "MiB"),
    ("runtime_gib", "GiB"),
    ("price", "money an hour"),
)
_JSON = """# JSON

Every key of what `--json` prints, by verb; `--get` takes the same paths, with a number or `*` for an entry of a list.
Keys never change their meaning within `/1`, and new ones may be added. `kvcalc.schema(verb)` is the JSON Schema.
"""
_HEAD = "| key | type | unit | meaning |\n| --- | --- | --- | --- |\n"
NAMES = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "None": "null"}


def options_page() -> str:
    """Every verb with every option that it takes."""
    parts = ["# Options\n\nEvery verb with its options, as `kvcalc help VERB` has them.\n"]
    for verb, module in VERB_MODULES.items():
        command = typer.main.get_command(import_module(module).app)
        parts.append(f"\n## kvcalc {verb}\n\n{(command.help or '').strip()}\n\n| option | meaning |\n| --- | --- |\n")
        parts += [f"| {piped(name)} | {cell(text)} |\n" for name, text in options_of(command)]
        parts.append("\n```sh\n" + "".join(f"{example}\n" for example in command.examples) + "```\n")  # type: ignore[attr-defined]
    return "".join(parts)


def options_of(command: Any) -> Iterator[tuple[str, str]]:
    """Names and meaning of each parameter."""
    for each in command.params:
        if each.name == "help":
            continue
        if each.param_type_name == "argument":
            yield f"`{each.metavar or each.name.upper()}`", each.help or ""
            continue
        metavar = f" {each.metavar}" if each.metavar and not each.is_flag else ""
        yield ", ".join(f"`{name}{metavar if i == 0 else ''}`" for i, name in enumerate(each.opts)), each.help or ""


def json_page() -> str:
    """Every key of each verb's document, with its unit and what it says."""
    parts = [_JSON]
    known = kinds()
    for verb, documents in DOCUMENTS.items():
        for document in documents:
            about = (document.__doc__ or "").strip()
            parts.append(f"\n## {verb}: {document.__name__}\n\n{about}\n\n{_HEAD}")
            rows = keys(document.__name__, known)
            parts += [f"| `{path}` | {kind} | {unit} | {cell(said)} |\n" for path, kind, unit, said in rows]
    return "".join(parts)


class Kind(NamedTuple):
    """A TypedDict as it is written: its bases, and for each key annotation and the comment behind it."""

    bases: list[str]
    keys: dict[str, tuple[str, str]]


def kinds() -> dict[str, Kind]:
    """Every type of the documents by its name."""
    found = {}
    for file in sorted(TYPES.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for one in ast.parse(text).body:
            if isinstance(one, ast.ClassDef):
                fields = [
                    part for part in one.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                ]
                found[one.name] = Kind(
                    [base.id for base in one.bases if isinstance(base, ast.Name)],
                    {
                        part.target.id: (
                            ast.unparse(part.annotation),
                            lines[(part.end_lineno or 1) - 1].partition("  # ")[2],
                        )
                        for part in fields
                        if isinstance(part.target, ast.Name)
                    },
                )
    return found


def keys(name: str, known: dict[str, Kind], before: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, unit and meaning of each key."""
    for base in known[name].bases:
        if base in known:
            yield from keys(base, known, before)
    for key, (kind, said) in known[name].keys.items():
        number = re.search(r"\b(int|float)\b", kind)
        unit = next((unit for part, unit in UNITS if part in key), "") if number else ""
        yield before + key, worded(kind, known), unit, said
        for part in dict.fromkeys(re.findall(r"\w+", kind)):
            if part in known:
                yield from keys(part, known, f"{before}{key}.*." if "list[" in kind else f"{before}{key}.")


def worded(kind: str, known: dict[str, Kind]) -> str:
    """An annotation in words; a name that is none of the types is that of some words."""
    kind = re.sub(r"NotRequired\[(.*)\]", r"\1", kind)
    words = []
    for part in re.split(r" \| (?![^\[]*\])", kind):
        if part in NAMES:
            words.append(NAMES[part])
        elif part.startswith("list["):
            words.append("list")
        else:
            words.append("object" if part in known or part.startswith("dict[") else "text")
    return " or ".join(dict.fromkeys(words))


def piped(text: str) -> str:
    """Code as it may stand in a table."""
    return text.replace("|", "\\|")


def cell(text: str) -> str:
    """Text as it may stand in a table."""
    return piped(" ".join(text.split())).replace("<", "&lt;").replace("*", "\\*")


PAGES = {"options.md": options_page, "json.md": json_page}


def main() -> int:
    """Write both pages."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
