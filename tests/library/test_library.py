"""Where presets are found, under which names, and how one starts from another."""

import os
from pathlib import Path

import pytest

from kvcalc.core.model import Attention, Dimensions, Model
from kvcalc.errors import DocumentError, KvcalcError
from kvcalc.library import loader

BODY = "dtype: bf16\nheads: 8\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"


def write(folder: Path, name: str, text: str) -> Path:
    """A preset file; `text` is added to a whole preset unless it starts from another."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text if "base:" in text else f"name: {name}\n{BODY}{text}", encoding="utf-8")
    return path


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of presets named in KVCALC_PRESETS."""
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.mark.parametrize(
    "name", ["llama3-70b", "Llama3-70B", "llama-3-70b", "LLAMA_3_70B", "llama 3 70b", "llama3.70b", "llama370b"]
)
def test_names_in_any_spelling(name: str) -> None:
    """Neither case nor separators matter in a preset's name."""
    model = loader.load(name)
    assert (model.name, model.origin) == ("Llama 3 70B", "llama3-70b")


@pytest.mark.parametrize(
    "hub_id", ["meta-llama/Meta-Llama-3-70B", "META-LLAMA/META-LLAMA-3-70B", "meta-llama/meta-llama-3-70b-instruct"]
)
def test_hub_ids_in_any_case(hub_id: str) -> None:
    """A hub id finds the preset that names it as its own."""
    assert loader.load(hub_id).origin == "llama3-70b"


@pytest.mark.parametrize("name", ["Meta-Llama-3-70B", "meta-llama-3-70b-instruct"])
def test_names_of_hub_ids(name: str) -> None:
    """The last part of a hub id is a name too."""
    assert loader.load(name).origin == "llama3-70b"


def test_a_repository_of_gguf_files_is_its_model() -> None:
    """Repositories of converted files are named after what they hold, whoever converted it."""
    assert loader.load("ggml-org/gpt-oss-20b-GGUF").origin == "gpt-oss-20b"
    assert loader.load("unsloth/qwen3-8b-gguf").origin == "qwen3-8b"


def test_part_of_a_hub_id_is_none() -> None:
    """A hub id is matched whole, though the file contains its beginning."""
    with pytest.raises(KvcalcError, match=r"^meta-llama/Meta-Llama-3-7: no preset has this hub id"):
        loader.load("meta-llama/Meta-Llama-3-7")


def test_a_hub_id_of_ones_own(mine: Path) -> None:
    """A user's preset may claim a hub id, before the bundled preset that has it."""
    write(mine, "own-70b", "id: Meta-Llama/meta-llama-3-70B\n")
    assert loader.load("meta-llama/Meta-Llama-3-70B").origin == "own-70b"


def test_folders_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KVCALC_PRESETS in its order, then the configuration folder, then the bundled presets."""
    listed = [tmp_path / "a", tmp_path / "missing", tmp_path / "b"]
    monkeypatch.setenv("KVCALC_PRESETS", os.pathsep.join(map(str, [*listed, ""])))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folders = [*listed, tmp_path / "config" / "kvcalc" / "presets"]
    presets: tuple[list[str], ...] = (["one-1"], [], ["one-1", "two-2"], ["two-2", "tri-3", "llama3-70b"])
    for folder, names in zip(folders, presets, strict=True):
        for name in names:
            write(folder, name, f"source: {folder.name}\n")
    assert [Path(folder) for folder in loader.folders()[:-1]] == folders
    sources = {name: loader.load(name).source for name in ("one-1", "two-2", "tri-3", "llama3-70b")}
    assert sources == {"one-1": "a", "two-2": "b", "tri-3": "presets", "llama3-70b": "presets"}


def test_configuration_folder_without_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_CONFIG_HOME the configuration folder is ~/.config."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert loader.folders()[0] == str(tmp_path / ".config" / "kvcalc" / "presets")


def test_entries_name_each_preset_once(mine: Path) -> None:
    """A user's preset stands for the bundled one of its name, however that is spelt."""
    path = write(mine, "llama-3-70b", "")
    found = {entry.name: entry.path for entry in loader.entries()}
    assert found["llama-3-70b"] == str(path)
    assert "llama3-70b" not in found
    assert "llama3-8b" in found
    assert list(found) == sorted(found)


def test_other_files_are_no_presets(mine: Path) -> None:
    """Hidden files and other endings are left alone; .yml counts."""
    write(mine, ".hidden-1", "")
    (mine / "notes-1.txt").write_text("no preset")
    write(mine, "short-1", "").rename(mine / "short-1.yml")
    assert [entry.name for entry in loader.entries() if entry.path.startswith(str(mine))] == ["short-1"]


def test_ambiguous_names_are_refused(mine: Path) -> None:
    """Of two files whose names differ by separators alone each is found as it is written; another spelling is refused."""
    paths = sorted(str(write(mine, name, "")) for name in ("own-7b", "own7b"))
    assert [loader.load(name).origin for name in ("own-7b", "own7b")] == ["own-7b", "own7b"]
    with pytest.raises(KvcalcError) as caught:
        loader.load("OWN_7B")
    assert str(caught.value) == f"'OWN_7B' could be {paths[0]} or {paths[1]}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("lama3-70b", "llama3-70b"), ("mixtral-8x7", "mixtral-8x7b"), ("qwen3-next-80", "qwen3-next-80b")],
)
def test_unknown_names_get_the_nearest(name: str, hint: str) -> None:
    """A misspelt name is refused with the names closest to it, the likeliest first."""
    with pytest.raises(KvcalcError) as caught:
        loader.load(name)
    assert str(caught.value) == f"no preset is called '{name}'"
    assert str(caught.value.hint).startswith(f"did you mean {hint}")


def test_unknown_names_like_nothing() -> None:
    """Where nothing is close, the list is named."""
    with pytest.raises(KvcalcError) as caught:
        loader.load("zzzzzzzzzzzzzzzz")
    assert caught.value.hint == "`kvcalc models` lists all presets"


def test_unknown_hub_ids_get_the_nearest() -> None:
    """An unknown hub id is refused with the presets closest to its name."""
    with pytest.raises(KvcalcError) as caught:
        loader.load("somebody/llama3-70b-x")
    assert str(caught.value).startswith("somebody/llama3-70b-x: no preset has this hub id")
    assert "llama3-70b" in str(caught.value.hint)


@pytest.mark.parametrize("path", ["./nowhere-1", "/no/such/file", "../x/y/z"])
def test_paths_that_are_not_there(path: str) -> None:
    """What can only be a path is refused as one."""
    with pytest.raises(KvcalcError, match=r"no such file$"):
        loader.load(path)


def test_a_path_is_read_as_one(tmp_path: Path) -> None:
    """A path needs no name that a preset could have."""
    assert loader.load(str(write(tmp_path, "Any Name", ""))).name == "Any Name"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("llama3", None),
        ("command-r", None),
        ("phi-3.5", None),
        ("7b", None),
        ("dbrx", "expected a name with a digit or a hyphen, so that no command can have the same"),
        ("size", "expected a name with a digit or a hyphen, so that no command can have the same"),
        ("Llama3", "expected a name of a-z, 0-9, '.' and '-'"),
        ("llama_3", "expected a name of a-z, 0-9, '.' and '-'"),
        ("-3", "expected a name of a-z, 0-9, '.' and '-'"),
        (".3", "expected a name of a-z, 0-9, '.' and '-'"),
        ("", "expected a name of a-z, 0-9, '.' and '-'"),
        ("llama-3\n", "expected a name of a-z, 0-9, '.' and '-'"),
        ("lläma-3", "expected a name of a-z, 0-9, '.' and '-'"),
    ],
)
def test_name_rule(name: str, fault: str | None) -> None:
    """Lower case, digits, dots and hyphens, with at least one digit or hyphen."""
    assert loader.name_fault(name) == fault


def test_a_preset_named_like_a_word_is_refused(mine: Path) -> None:
    """A user's preset that a verb could hide is refused, and the hint says what to do."""
    write(mine, "mymodel", "")
    with pytest.raises(KvcalcError, match=r"expected a name with a digit or a hyphen") as caught:
        loader.load("mymodel")
    assert caught.value.hint == "rename the file"


def full(kv_heads: int, dim: int = 64) -> tuple[Attention]:
    return (Attention("full", 8, kv_heads, dim, dim),)


def sliding(window: int, kv_heads: int = 2) -> tuple[Attention]:
    return (Attention("sliding", 8, kv_heads, 64, 64, window),)


def load(text: str) -> Model:
    return loader.load_text(text.encode(), "text")


def test_base_keys_are_replaced(mine: Path) -> None:
    """A preset that starts from another has its keys, those it states replaced; whose facts they are is not handed on."""
    write(mine, "parent-1", "source: here\nmax_context: 100\n")
    write(mine, "child-1", "base: parent-1\nname: Child\nkv_heads: 4\n")
    model = loader.load("child-1")
    assert (model.name, model.source, model.max_context, model.layers) == ("Child", None, 100, (full(4), full(4)))


def test_the_source_of_widths_goes_with_them(mine: Path) -> None:
    """Widths that a preset has from its base keep the source that the base names; its own do not get that source."""
    write(mine, "parent-1", "dimensions: {hidden: 8}\ndimensions_source: a table\n")
    write(mine, "child-1", "base: parent-1\n")
    write(mine, "child-2", "base: parent-1\ndimensions: {hidden: 9}\n")
    found = [(model.dimensions, model.dimensions_source) for model in map(loader.load, ("child-1", "child-2"))]
    assert found == [(Dimensions(hidden=8), "a table"), (Dimensions(hidden=9), None)]


def test_base_caches_merge_field_by_field(mine: Path) -> None:
    """Entries of `caches` merge by name: a field given here replaces that field alone."""
    caches = "caches: {near: {kind: sliding, window: 10, kv_heads: 1}, far: {kind: sliding, window: 20}}"
    write(mine, "parent-1", f"layers: near, far\n{caches}\n".replace("layers", "draft"))
    model = load("{base: parent-1, layers: 'near, far, full', caches: {near: {window: 99}, full: {kv_heads: 8}}}")
    assert model.layers == (sliding(99, kv_heads=1), sliding(20), full(8))


def test_bases_of_bases(mine: Path) -> None:
    """A chain is followed to its end, the nearest file on top; the name of a base has any spelling."""
    write(mine, "one-1", "source: one\nmax_context: 1\nencoder_tokens: 1\n")
    write(mine, "two-2", "base: One_1\nmax_context: 2\nencoder_tokens: 2\n")
    model = load("{base: TWO2, encoder_tokens: 3}")
    assert (model.max_context, model.encoder_tokens, len(model.layers)) == (2, 3, 2)


def test_base_of_the_same_name_is_the_bundled_one(mine: Path) -> None:
    """A user's preset may change the bundled preset whose name it takes."""
    write(mine, "llama3-70b", "base: llama3-70b\nmax_context: 32768\n")
    model = loader.load("llama3-70b")
    assert (model.name, model.max_context, len(model.layers)) == ("Llama 3 70B", 32_768, 80)


@pytest.mark.parametrize("start", ["one-1", "two-2", "self-1"])
def test_cycles_are_refused(mine: Path, start: str) -> None:
    """Presets that start from one another in a circle are refused at the line that closes it."""
    write(mine, "one-1", "base: two-2\n")
    write(mine, "two-2", "# a comment\nbase: one-1\n")
    write(mine, "self-1", "base: self-1\n")
    closing = {"one-1": ("two-2", 2, "one-1"), "two-2": ("one-1", 1, "two-2"), "self-1": ("self-1", 1, "self-1")}
    file, line, name = closing[start]
    with pytest.raises(DocumentError) as caught:
        loader.load(start)
    assert str(caught.value) == (
        f"{mine / file}.yaml:{line}: base: expected another preset to start from: no preset is called '{name}'"
    )


def test_long_chains_are_refused(mine: Path) -> None:
    """Nine presets that start from one another are no model's description."""
    write(mine, "p-0", "")
    for i in range(1, 10):
        write(mine, f"p-{i}", f"base: p-{i - 1}\n")
    assert loader.load("p-8").name == "p-0"
    with pytest.raises(DocumentError, match=r"base: expected at most 8 presets that start from one another$"):
        loader.load("p-9")


@pytest.mark.parametrize("base", ["[a]", "3", "{}", "true"])
def test_a_base_is_a_name(base: str) -> None:
    """Only text can name a preset."""
    with pytest.raises(DocumentError, match=r"base: expected the name of a preset, got "):
        load(f"{{name: M, base: {base}}}")


def test_faults_of_a_base_stand_where_they_are(mine: Path) -> None:
    """A fault in a base is reported with the file and line of the base."""
    path = write(mine, "parent-1", "max_context: many\n")
    child = write(mine, "child-1", "base: parent-1\nname: Child\nencoder_tokens: none\n")
    faults = [(problem.file, problem.line, problem.path) for problem in loader.problems_of(str(child))]
    assert faults == [(str(child), 3, ("encoder_tokens",)), (str(path), 7, ("max_context",))]


def test_check_finds_all_faults(tmp_path: Path) -> None:
    """Every fault of a file is found in one pass, in the order of its lines."""
    path = write(tmp_path, "bad-1", "kv_hads: 3\nmax_context: -1\nweights_dtype: fp7\n")
    assert [(p.line, p.path) for p in loader.problems_of(str(path))] == [
        (7, ("kv_hads",)),
        (8, ("max_context",)),
        (9, ("weights_dtype",)),
    ]


def test_a_faulty_number_at_the_top_is_one_fault(tmp_path: Path) -> None:
    """A number that all caches take from the top is reported where it stands, and not once more as missing there."""
    path = tmp_path / "bad-1.yaml"
    path.write_text(f"name: M\n{BODY}".replace("heads: 8", "heads: many", 1))
    assert [(p.line, p.path) for p in loader.problems_of(str(path))] == [(3, ("heads",))]


def test_check_of_a_sound_file_finds_nothing(tmp_path: Path) -> None:
    """A file without a fault has no problems."""
    assert loader.problems_of(str(write(tmp_path, "good-1", ""))) == []
