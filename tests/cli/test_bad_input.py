"""Faulty preset files: each ends in one line that names the file, the line and the key, whatever the file holds."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kvcalc.cli.main import run

from ..tiny_preset import tiny

Refused = Callable[..., tuple[str, str]]  # the fixture of conftest.py


class Bad(NamedTuple):
    """A file's content, and what its error line must contain."""

    id: str
    content: str | bytes
    says: tuple[str, ...]


DEEP = 5000
LAUGHS = "a: &a [1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
)

FILES = [
    # not a YAML mapping
    Bad("empty", "", ()),
    Bad("only a comment", "# nothing\n", ()),
    Bad("only null", "null\n", (":1",)),
    Bad("a list", "- a\n- b\n", (":1", "list")),
    Bad("a text", "llama\n", (":1",)),
    Bad("a number", "5\n", (":1",)),
    Bad("binary", bytes(range(128, 256)) * 10, ("UTF-8",)),
    Bad("NUL on line 2", b"name: a\nid: \0b\n", (":2",)),
    Bad("invalid UTF-8 on line 2", b"name: a\nid: \xff\xfe\n", (":2", "UTF-8")),
    Bad("UTF-16", tiny().encode("utf-16"), ("UTF-8",)),
    Bad("a control character on line 2", b"name: a\nid: \x1b[31m\n", ()),
    Bad("above 1 MiB", tiny() + "#" * 2**20, ("1,048,576 bytes",)),
    Bad("nested lists", "a: " + "[" * DEEP + "]" * DEEP, ()),
    Bad("nested mappings", "a: " + "{b: " * DEEP + "1" + "}" * DEEP, ()),
    Bad("nested blocks", "".join(" " * i + "a:\n" for i in range(1200)), ()),
    Bad("unclosed list", "name: [a\nlayers: 1 full\n", (":2",)),
    Bad("unclosed quote", 'name: "a\n', ()),
    Bad("alias bomb", tiny(caches="5") + LAUGHS, (":7", "caches", "a mapping")),
    Bad("alias bomb as a value", LAUGHS + tiny(kv_heads="*k"), ()),
    Bad("alias bomb as a key", LAUGHS + "? *k\n: 1\n", ()),
    Bad("a list in itself", tiny(name="&a [*a]"), (":1", "name")),
    Bad("a mapping in itself", tiny(caches="&a {full: *a}"), (":7",)),
    Bad("unknown alias", tiny(heads="*x"), (":3",)),
    Bad("merge key", tiny() + "<<: {count: 2}\n", (":7", "<<")),
    Bad("merge key inside", tiny() + "caches:\n  full:\n    <<: {kv_heads: 1}\n", (":9", "<<")),
    Bad("two documents", tiny() + "---\n" + tiny(), (":7",)),
    Bad("a tab as indent", "name: a\ncaches:\n\tfull: {}\n", (":3",)),
    *(Bad(f"heads: {text}", tiny(heads=text), (":3: heads: expected a number in plain decimal digits", f"'{text}'"))
      for text in ("010", "1:20", "6_4", "0x10", "0b11", "1_0.5", "1:20.5")),
    Bad("an octal number in a list", tiny() + "caches:\n  full: {kv_heads: [2, 010]}\n", (":8", "kv_heads", "'010'")),
    Bad("an unknown key of a cache", tiny() + "caches:\n  full: {zebra: 2}\n", (":8", "known here: ", "kv_heads")),
    Bad("an unknown key", tiny() + "zebra: 2\n", (":7", "zebra", "kvcalc models llama3-8b --format yaml")),
    Bad("duplicate key", tiny() + "heads: 8\n", (":7", "'heads'", "second")),
    Bad("duplicate key inside", tiny() + "caches:\n  full: {kv_heads: 1, kv_heads: 2}\n",
        (":8", "'kv_heads'", "second")),
    Bad("python tag", tiny(name="!!python/object/apply:os.system [ls]"), (":1",)),
    Bad("python name tag", tiny(name="!!python/name:os.system"), (":1",)),
    Bad("unknown tag", tiny(heads="!secret 4"), (":3",)),
    Bad("empty int", tiny(heads='!!int ""'), ()),
    Bad("impossible timestamp", tiny(heads="!!timestamp x"), ()),
    Bad("impossible bool", tiny(heads="!!bool x"), ()),
    Bad("impossible date", tiny(heads="2024-99-99"), ()),
    Bad("set", tiny(caches="!!set {full}"), (":7", "tag")),
    Bad("bytes", tiny(name="!!binary aGVsbG8="), (":1", "name")),
    Bad("date as name", tiny(name="2024-01-01"), (":1", "name")),
    # keys
    Bad("misspelt key", tiny(max_contxt="8192"), (":7", "max_contxt", "did you mean 'max_context'?")),
    Bad("misspelt required key", tiny(kv_heads=None, kv_head="2"), (":6", "kv_head", "did you mean 'kv_heads'?")),
    Bad("misspelt layers", tiny(layers=None, layer="2 full"), (":6", "layer", "did you mean 'layers'?")),
    Bad("misspelt key of a cache", tiny(layers="2 sliding", caches="{sliding: {windw: 8}}"),
        (":7", "did you mean 'window'?")),
    Bad("number as key", tiny() + "7: 1\n", ("7",)),
    Bad("null as key", tiny() + "~: 1\n", ()),
    Bad("list as key", tiny() + "? [a]\n: 1\n", ()),
    Bad("control characters in a key", tiny() + '"\\e[31mred\\x07": 1\n', (":7", "\\x1b[31mred\\x07")),
    Bad("key of 900 letters", tiny() + "k" * 900 + ": 1\n", (":7",)),
    Bad("no name", tiny(name=None), ("name",)),
    Bad("no dtype", tiny(dtype=None), ("dtype", "bf16")),
    Bad("no layers", tiny(layers=None), ("layers",)),
    Bad("no heads", tiny(heads=None), ("heads",)),
    Bad("no kv_heads", tiny(kv_heads=None), ("kv_heads",)),
    Bad("no head_dim", tiny(head_dim=None), ("head_dim",)),
    # values
    Bad("control characters in the name", tiny(name='"\\e]0;title\\x07"'), (":1", "name", "\\x1b]0;title\\x07")),
    Bad("right-to-left override in the name", tiny(name='"\u202egnp"'), (":1", "name", "\\u202e")),
    Bad("control characters in an id", tiny(id='"a/\\e[2J"'), (":7", "id")),
    Bad("empty name", tiny(name="''"), (":1", "name")),
    Bad("number as name", tiny(name="5"), (":1", "name", "5")),
    Bad("list as name", tiny(name="[a]"), (":1", "name")),
    Bad("mapping as id", tiny(id="{a: b}"), (":7", "id")),
    Bad("number in ids", tiny(id="[a/b, 5]"), (":7", "id")),
    Bad("text as heads", tiny(heads="four"), (":3", "heads", "'four'")),
    Bad("quoted number as heads", tiny(heads="'4'"), (":3", "heads", "'4'")),
    Bad("true as heads", tiny(heads="true"), (":3", "heads", "True")),
    Bad("true as kv_heads", tiny(kv_heads="yes"), (":4", "kv_heads")),
    Bad("decimals as heads", tiny(heads="4.0"), (":3", "heads", "4.0")),
    Bad("not a number as heads", tiny(heads=".nan"), (":3", "heads")),
    Bad("infinite heads", tiny(heads=".inf"), (":3", "heads")),
    Bad("zero heads", tiny(heads="0"), (":3", "heads", "above zero")),
    Bad("negative heads", tiny(heads="-4"), (":3", "heads", "-4")),
    Bad("negative kv_heads", tiny(kv_heads="-1"), (":4", "kv_heads", "-1")),
    Bad("huge heads", tiny(heads="1" + "0" * 30), (":3", "heads", "at most 1,099,511,627,776")),
    Bad("heads just above the bound", tiny(heads=str(2**40 + 1)), (":3", "at most 1,099,511,627,776, got 1099511627777")),
    Bad("huge entry of a list", tiny(caches=f"{{full: {{kv_heads: [1, {2**50}]}}}}"), (":7", "kv_heads", "at most 1,0")),
    Bad("name of 5,000 letters", tiny(name="n" * 5000), (":1", "name", "at most 300 characters, got 5,000")),
    Bad("heads of 4,000 digits", tiny(heads="9" * 4000), (":3", "heads")),
    Bad("heads of 5,000 digits", tiny(heads="9" * 5000), ()),
    Bad("heads of 100,000 octal digits", tiny(heads="0" + "7" * 100_000), (":3", "heads")),
    Bad("heads in base 60", tiny(heads=":".join(["59"] * 5000)), (":3", "heads")),
    Bad("kv_heads that do not divide heads", tiny(kv_heads="3"), (":4", "kv_heads", "4", "3")),
    Bad("more kv_heads than heads", tiny(kv_heads="8"), (":4", "kv_heads")),
    Bad("zero head_dim", tiny(head_dim="0"), (":5", "head_dim")),
    Bad("list as head_dim at the top", tiny(head_dim="[64, 64]"), (":5", "head_dim")),
    Bad("zero max_context", tiny(max_context="0"), (":7", "max_context")),
    Bad("text as max_context", tiny(max_context="8k"), (":7", "max_context", "'8k'")),
    Bad("unknown dtype", tiny(dtype="fp61"), (":2", "dtype", "'fp61'", "fp16")),
    Bad("a dtype one cannot compute in", tiny(dtype="int4"), (":2", "dtype")),
    Bad("number as dtype", tiny(dtype="16"), (":2", "dtype", "16")),
    Bad("unknown kv_dtype", tiny(kv_dtype="q9_0"), (":7", "kv_dtype", "'q9_0'")),
    Bad("mixed weights_dtype", tiny(weights_dtype="q4_k_m"), (":7", "weights_dtype", "'q4_k_m'")),
    Bad("int8 as state_dtype", tiny(state_dtype="int8"), (":7", "state_dtype")),
    Bad("parameters as a word", tiny(parameters="lots"), (":7", "parameters", "'lots'")),
    Bad("parameters with decimals", tiny(parameters="70.55"), (":7", "parameters")),
    Bad("negative parameters", tiny(parameters="-7B"), (":7", "parameters")),
    Bad("true parameters", tiny(parameters="true"), (":7", "parameters")),
    Bad("parameters beyond all sense", tiny(parameters="99999999T"), (":7", "parameters")),
    Bad("misspelt confidence", tiny(confidence="from memry"), (":7", "confidence", "did you mean 'from memory'?")),
    # layers
    Bad("layers as a number", tiny(layers="80"), (":6", "layers")),
    Bad("layers as a list", tiny(layers="[full, full]"), (":6", "layers")),
    Bad("layers as true", tiny(layers="true"), (":6", "layers")),
    Bad("empty layers", tiny(layers="''"), (":6", "layers")),
    Bad("null layers", tiny(layers="null"), (":6", "layers")),
    Bad("misspelt kind", tiny(layers="2 ful"), (":6", "'ful'", "did you mean 'full'?")),
    Bad("unknown cache", tiny(layers="2 zebra"), (":6", "'zebra'")),
    Bad("unclosed parenthesis", tiny(layers="2 x (full"), (":6", "')'")),
    Bad("unopened parenthesis", tiny(layers="2 full)"), (":6", "')'")),
    Bad("parentheses without a count", tiny(layers="(full, full)"), (":6", "(")),
    Bad("empty parentheses", tiny(layers="2 x ()"), (":6", "layers")),
    Bad("no layers of a kind", tiny(layers="0 full"), (":6", "0")),
    Bad("negative count of layers", tiny(layers="-1 full"), (":6", "-1")),
    Bad("huge count of layers", tiny(layers="99999999 full"), (":6", "4,096")),
    Bad("a count of 5,000 digits", tiny(layers="9" * 5000 + " full"), (":6", "layers")),
    Bad("huge product of layers", tiny(layers="4096 x (4096 x (full))"), (":6", "4,096")),
    Bad("deep parentheses", tiny(layers="1 x (" * 2000 + "full" + ")" * 2000), (":6", "parentheses")),
    Bad("x without parentheses", tiny(layers="3 x full"), (":6", "layers")),
    Bad("missing comma", tiny(layers="2 full sliding"), (":6", "comma")),
    Bad("double comma", tiny(layers="full,, full"), (":6", "layers")),
    Bad("trailing comma", tiny(layers="'2 full,'"), (":6", "layers")),
    Bad("dangling plus", tiny(layers="2 full+"), (":6", "'full+'")),
    Bad("none with another cache", tiny(layers="2 full+none"), (":6", "'full+none'")),
    Bad("sharing nothing", tiny(layers="shared:full, full"), (":6", "'shared:full'")),
    Bad("count that disagrees", tiny(count="3"), (":7", "count", "2", "3")),
    Bad("pattern with a letter without meaning", tiny(layers="{pattern: FX, letters: {F: full}}"), (":6", "'X'")),
    Bad("pattern without letters", tiny(layers="{pattern: FF}"), (":6", "letters")),
    Bad("letters without pattern", tiny(layers="{letters: {F: full}}"), (":6", "pattern")),
    Bad("pattern with another key", tiny(layers="{pattern: F, letters: {F: full}, colour: 1}"), (":6", "colour")),
    Bad("layers that keep nothing", tiny(layers="2 none"), ("Tiny 1", "nothing")),
    Bad("draft with an unknown cache", tiny(draft="zebra"), (":7", "'zebra'")),
    # caches
    Bad("caches as a list", tiny(caches="[full]"), (":7", "caches", "a mapping")),
    Bad("cache as a number", tiny(caches="{full: 5}"), (":7", "full", "a mapping")),
    Bad("unused cache", tiny(caches="{sliding: {window: 4}}"), (":7", "sliding")),
    Bad("misspelt kind of a cache", tiny(layers="2 a", caches="{a: {kind: slidng, window: 4}}"),
        (":7", "kind", "'slidng'", "sliding")),
    Bad("cache without a kind", tiny(layers="2 a", caches="{a: {window: 4}}"), ("'a'", "kind")),
    Bad("window of zero", tiny(layers="2 sliding", caches="{sliding: {window: 0}}"), (":7", "window")),
    Bad("sliding without a window", tiny(layers="2 sliding"), ("window",)),
    Bad("wrong length of a list", tiny(caches="{full: {kv_heads: [1, 2, 2]}}"), (":7", "kv_heads", "2", "3")),
    Bad("wrong entry of a list", tiny(caches="{full: {kv_heads: [1, x]}}"), (":7", "kv_heads", "'x'")),
    Bad("true in a list", tiny(caches="{full: {kv_heads: [1, true]}}"), (":7", "kv_heads", "True")),
    Bad("list entry that does not divide heads", tiny(caches="{full: {kv_heads: [2, 3]}}"), (":7", "kv_heads", "3")),
    Bad("latent without rank", tiny(layers="2 latent", caches="{latent: {rope: 64}}"), (":7", "rank")),
    Bad("mamba without numbers", tiny(layers="2 mamba1", caches="{mamba1: {inner: 8, conv: 4}}"), (":7", "state")),
    Bad("a heads key under mamba1",
        tiny(layers="1 mamba1", caches="{mamba1: {inner: 8, state: 8, conv: 4, heads: 2}}"), (":7", "heads")),
    Bad("misspelt input", tiny(layers="2 full+cross", caches="{cross: {tokens: inputs}}"),
        (":7", "tokens", "'inputs'")),
    Bad("unknown store", tiny(layers="2 indexer", caches="{indexer: {dim: 8, store: fp9}}"), (":7", "store", "'fp9'")),
    Bad("rope wider than the key", tiny(caches="{full: {rope: 128}}"), (":7", "rope", "64", "128")),
    # bases
    Bad("unknown base", tiny(base="nope-123"), (":7", "base", "'nope-123'")),
    Bad("number as base", tiny(base="5"), (":7", "base", "5")),
    Bad("list as base", tiny(base="[gpt2]"), (":7", "base")),
    Bad("empty base", tiny(base="''"), (":7", "base")),
    Bad("escape sequence as base", tiny(base='"\\e[31m-1"'), (":7", "base", "\\x1b[31m-1")),
]  # fmt: skip


@pytest.mark.parametrize("bad", FILES, ids=[bad.id for bad in FILES])
def test_a_faulty_file_is_refused_in_one_line(
    bad: Bad, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, nothing on standard output, and one printable line that says where and what."""
    monkeypatch.chdir(tmp_path)
    Path("bad-1.yaml").write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    error, _ = refused("bad-1.yaml")
    if bad.id != "layers that keep nothing":  # a sound file, and a question without an answer
        assert error.startswith("bad-1.yaml")
    assert [word for word in bad.says if word not in error] == []
    assert len(error) < 500


@pytest.mark.parametrize("bad", [bad for bad in FILES if bad.id != "layers that keep nothing"], ids=lambda bad: bad.id)
def test_the_check_finds_what_sizing_refuses(
    bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`models --check` exits 2 for every file that cannot be sized, one printable line for each fault."""
    monkeypatch.chdir(tmp_path)
    Path("bad-1.yaml").write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    status = run(["models", "--check", "bad-1.yaml"])
    out, err = capsys.readouterr()
    lines = err.removesuffix("\n").split("\n")
    assert (status, out) == (2, "")
    assert [
        line
        for line in lines
        if not line.startswith(("kvcalc: error: bad-1.yaml", "  hint: ")) or not line.isprintable()
    ] == []


@pytest.mark.parametrize("name", ["bad-1.yaml", "bad one.yaml", "-bad.yaml"])
def test_the_hint_is_a_command_that_can_be_typed(name: str, refused: Refused, tmp_path: Path) -> None:
    """Of several faults the first is told, and the hint lists the others with the path that the user gave."""
    path = tmp_path / name
    path.write_text(tiny(heads="four", dtype="fp7", count="x"), encoding="utf-8")
    shown = f"'{path}'" if " " in name else str(path)
    assert refused(str(path))[1] == f"  hint: and 2 more; `kvcalc models --check {shown}` lists them all"


def test_no_hint_has_a_word_in_place_of_the_users() -> None:
    """`kvcalc preset NAME` was typed as it stood: commands in messages can be typed as they are."""
    package = Path(__file__).resolve().parents[2] / "kvcalc"
    commands = [
        command
        for path in sorted(package.rglob("*.py"))
        for command in re.findall(r"`(kvcalc [^`]*)`", path.read_text(encoding="utf-8"))
    ]
    assert len(commands) > 10
    assert [command for command in commands if re.search(r"\b(NAME|FILE|SOURCE|PATH|FOLDER)\b", command)] == []
