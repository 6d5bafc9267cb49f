"""What stands for MODEL: every way in which people point at a model on their disk or on the hub, and what leads nowhere.

Each way leads to one shape, Llama 3.1 8B cut to four layers: 4 x 2 x 8 KV heads x 128 x 2 B = 16,384 B a token.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kvcalc.cli.main import run
from kvcalc.library import loader

from ..sources.gguf_writer import As, Tensor, gguf_bytes, safetensors_bytes

Refused = Callable[..., tuple[str, str]]  # the fixture of conftest.py

SLOPE = 16_384
REVISION = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"
CONFIG = json.dumps({
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32,
    "num_key_value_heads": 8, "torch_dtype": "bfloat16",
}).encode()  # fmt: skip
KEYS = {
    "general.architecture": "llama", "llama.block_count": 4, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.embedding_length": 4096,
}  # fmt: skip
TENSOR = Tensor("t", (3,), 0, 12)
GGUF = gguf_bytes(KEYS, [TENSOR])
WEIGHTS = safetensors_bytes({"t": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, 12)


def part(number: int, count: int, name: str = "t") -> bytes:
    """A part of a split GGUF file, which only in the first describes the model."""
    keys = KEYS if number == 1 else {}
    split = {"split.no": As("H", number - 1), "split.count": As("H", count)}
    return gguf_bytes({**keys, **split}, [TENSOR._replace(name=name)])


SNAPSHOT = f"hub/models--own--model-1/snapshots/{REVISION}"
FILES = {
    "config.json": CONFIG, "Own__Model-1.json": CONFIG, "UPPER.JSON": CONFIG, "config.json.bak": CONFIG,
    "marked": b"\xef\xbb\xbf" + CONFIG, "m/config.json": CONFIG, "m/model.safetensors": WEIGHTS,
    "m/adapter_model.safetensors": WEIGHTS, "shards/config.json": CONFIG,
    "shards/model-00001-of-00002.safetensors": WEIGHTS, "shards/model-00002-of-00002.safetensors": WEIGHTS,
    "X.GGUF": GGUF, "sha256-abc": GGUF, "one/a.gguf": GGUF,
    "split/M-00001-of-00002.GGUF": part(1, 2), "split/M-00002-of-00002.GGUF": part(2, 2, "u"),
    "missing/m-00001-of-00003.gguf": part(1, 3), "missing/m-00002-of-00003.gguf": part(2, 3, "u"),
    "vision/m.gguf": GGUF, "vision/mmproj-m-f16.gguf": b"GGUF", "eyes/m.gguf": GGUF,
    "eyes/a.gguf": gguf_bytes({"general.architecture": "clip"}),
    "tuned/m.gguf": GGUF, "tuned/lora.gguf": gguf_bytes({**KEYS, "general.type": "adapter"}),
    "several/a.gguf": GGUF, "several/b.gguf": GGUF, "several/c-00001-of-00002.gguf": GGUF,
    "several/c-00002-of-00002.gguf": GGUF, "several/d.gguf": GGUF,
    "bare/model.safetensors": WEIGHTS, "meta/params.json": b'{"dim": 4096, "n_layers": 4, "n_heads": 32}',
    "m/tokenizer.json": b'{"version": "1.0"}',
    # the hub's cache: with refs/main, fetched by its commit alone, two of these, without a snapshot, with GGUF files
    f"{SNAPSHOT}/config.json": CONFIG, "hub/models--own--model-1/refs/main": REVISION.encode(),
    "hub/models--own--model-1/refs/v1": REVISION.encode(), "hub/models--own--model-1/refs/refs/pr/1": REVISION.encode(),
    f"hub/models--own--loose-1/snapshots/{REVISION}/config.json": CONFIG,
    f"hub/models--own--two-1/snapshots/{REVISION}/config.json": CONFIG,
    f"hub/models--own--two-1/snapshots/{OTHER}/config.json": CONFIG,
    "hub/models--own--none-1/refs/main": OTHER.encode(), "hub/models--own--copy-1/config.json": CONFIG,
    f"hub/models--own--gguf-1/snapshots/{REVISION}/m.gguf": GGUF,
    "hub/models--gpt-own/refs/main": REVISION.encode(),
    f"hub/models--gpt-own/snapshots/{REVISION}/config.json": CONFIG,
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with all these files, and links to some."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "link.gguf").symlink_to("sha256-abc")
    (tmp_path / "first.gguf").symlink_to("split/M-00001-of-00002.GGUF")
    (tmp_path / "dangling.gguf").symlink_to("gone/x.gguf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


PAGE = "https://huggingface.co/own/model-1"
WAYS = [
    # source, the name of the model, bytes of the weights
    ("config.json", "config", None), ("Own__Model-1.json", "Own__Model-1", None), ("UPPER.JSON", None, None),
    ("./config.json.bak", None, None), ("./marked", None, None),
    ("m/", "m", 12), ("m/model.safetensors", "m", 12), ("shards/model-00002-of-00002.safetensors", "shards", 24),
    ("X.GGUF", "X", 12), ("./sha256-abc", "sha256-abc", 12), ("link.gguf", "link", 12), ("one/", "a", 12),
    ("vision/", "m", 12), ("eyes/", "m", 12), ("tuned/", "m", 12),
    ("split/", "M", 24), ("split/M-00001-of-00002.GGUF", "M", 24), ("first.gguf", "first", 24),
    ("missing/m-00001-of-00003.gguf", "m", None),
    (SNAPSHOT, "model-1", None), (f"{SNAPSHOT}/", "model-1", None), (f"{SNAPSHOT}/config.json", "model-1", None),
    ("hub/models--own--model-1", "model-1", None), ("hub/models--own--loose-1/", "loose-1", None),
    ("hub/models--gpt-own/", "gpt-own", None), ("hub/models--own--gguf-1", "m", 12),
    ("hub/models--own--copy-1/", "models--own--copy-1", None),
    ("own/model-1", "model-1", None), ("own/loose-1", "loose-1", None),
    ("own/model-1@main", "model-1", None), ("own/model-1@v1", "model-1", None), ("own/model-1@refs/pr/1", None, None),
    (f"own/two-1@{OTHER}", "two-1", None), (f"own/two-1@{OTHER[:7]}", "two-1", None),
    (PAGE, "model-1", None), (f"{PAGE}/", "model-1", None), (f"{PAGE}/tree/main", "model-1", None),
    (f"{PAGE}/tree/v1?library=x#y", "model-1", None), (f"{PAGE}/blob/main/config.json", "model-1", None),
    (f"{PAGE}/resolve/{REVISION}/config.json?download=true", "model-1", None),
    (f"{PAGE}/discussions/7", "model-1", None), ("hf.co/own/model-1", "model-1", None),
    ("HTTP://www.HuggingFace.co/own/model-1/tree/refs%2Fpr%2F1", "model-1", None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "name", "weights"), WAYS, ids=[way[0] for way in WAYS])
def test_a_model_by_any_way_that_leads_to_it(source: str, name: str | None, weights: int | None) -> None:
    """Whatever path, id or address a user has at hand is read, under the name that the model has there."""
    model = loader.load(source)
    assert len(model.layers) == 4
    assert name in (None, model.name)
    assert model.weights_bytes == weights


@pytest.mark.parametrize("source", ["m/", "missing/m-00001-of-00003.gguf", "./marked", "own/model-1@v1"])
@pytest.mark.parametrize("form", ["table", "plain", "markdown"])
def test_notes_are_well_punctuated(source: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences of a file's note stand beside other notes without doubled stops."""
    assert run([source, "--format", form]) == 0
    out = capsys.readouterr().out
    assert [wrong for wrong in ("..", ";;", ".;", ". ;", "; ;", ". .") if wrong in out] == []


def test_a_file_type_behind_a_hub_id() -> None:
    """The model of a repository is sized in the type of file that was asked for, not in 16 bits."""
    model = loader.load("hf.co/own/model-1:Q4_K_M")
    assert model.name == "model-1"
    assert model.weights_dtype is not None
    assert model.weights_dtype.name == "q4_k_m"
    assert loader.load("own/model-1").weights_dtype is None


def test_a_named_revision_stands_in_the_source() -> None:
    """Which revision was read is told; the main one is told as before, and a preset comes before it."""
    sources = {source: loader.load(source).source for source in ("own/model-1", "own/model-1@v1", SNAPSHOT)}
    assert sources == {
        "own/model-1": "config.json of own/model-1",
        "own/model-1@v1": "config.json of own/model-1 at v1",
        SNAPSHOT: f"config.json of own/model-1 at {REVISION}",
    }
    for source in ("meta-llama/Meta-Llama-3-70B@main", "https://huggingface.co/meta-llama/Meta-Llama-3-70B/tree/main"):
        assert loader.load(source).origin == "llama3-70b"
    assert loader.load("https://huggingface.co/gpt2").origin == "gpt2"


def test_a_pipe_is_read_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kvcalc <(curl ...)` sizes the configuration that comes out of the pipe."""
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_bytes, args=[CONFIG])
    writer.start()
    status = run(["./pipe", "--get", "kv.bytes_per_token"])
    writer.join()
    assert (status, capsys.readouterr().out) == (0, f"{SLOPE}\n")


NOWHERE = [
    # source, words of the error, words of the hint
    ("./confg.json", "./confg.json: no such file", "did you mean ./config.json?"),
    ("several/e.gguf", "several/e.gguf: no such file", "several/"),
    ("dangling.gguf", "a link to gone/x.gguf, which is not there", ""),
    ("config.json/x.json", "Not a directory", ""),
    ("sha256-abc", "no preset is called 'sha256-abc'", "./sha256-abc"),
    ("split", "no preset is called 'split'", "split/"),
    ("bare/model.safetensors", "bare/model.safetensors: expected a config.json beside it", "config.json"),
    ("m/adapter_model.safetensors", "expected a file of the model, such as model.safetensors", "m/"),
    ("m/tokenizer.json", "m/tokenizer.json: model_type: expected", "give m/config.json, or its folder"),
    ("several/", "got 4 GGUF models",
     "several/a.gguf, several/b.gguf, several/c-00001-of-00002.gguf and 1 more"),
    ("hub/", "got neither", "hub/models--gpt-own/, hub/models--own--copy-1/, hub/models--own--gguf-1/ and 4 more"),
    ("hub/models--own--two-1", "2 snapshots without",
     f"hub/models--own--two-1/snapshots/{REVISION}, hub/models--own--two-1/snapshots/{OTHER}"),
    ("hub/models--own--none-1", "expected a snapshot of the model, got none", "`kvcalc own/none-1`"),
    ("own/two-1", "and the hub's cache holds 2 revisions of it, and no refs/main that says which counts",
     f"the cache holds own/two-1@{REVISION}, own/two-1@{OTHER}, which can be given"),
    ("own/two-1@0123", "own/two-1@0123: no preset has a revision, and the hub's cache does not hold it",
     f"own/two-1@{REVISION}, own/two-1@{OTHER}"),
    ("own/gguf-1", f"its snapshot {REVISION} in the hub's cache has no config.json", f"hub/models--own--gguf-1/snapshots/{REVISION}/m.gguf"),
    (f"own/gguf-1@{REVISION[:8]}", f"its snapshot {REVISION} in the hub's cache has no config.json", "/m.gguf, which can be given"),
    ("own/none-1", "it is offline, as HF_HUB_OFFLINE says", "kvcalc models"),
    ("own/model-1@v2", "own/model-1@v2: no preset has a revision", f"own/model-1@{REVISION}"),
    ("meta-llama/Meta-Llama-3-70B@v2", "Meta-Llama-3-70B@v2: ", "without a revision it is the preset llama3-70b"),
    ("own/model-1@../../x", "own/model-1@../../x: no such file", ""),
    (f"own/{'a' * 300}", "a: no such file", ""),
    (f"{'a/' * 5000}b", "…", ""),
    (f"{PAGE}/blob/main/model.gguf", "config.json alone is fetched, not model.gguf", "`kvcalc own/model-1`"),
    (f"{PAGE}/tree/v1/original", "config.json alone is fetched, not original", "`kvcalc own/model-1@v1`"),
    (f"{PAGE}/tree/..%2F..%2Fx", "expected the page of a model", "org/name"),
    ("https://huggingface.co/datasets/own/data", "expected the page of a model", "org/name"),
    ("https://huggingface.co/", "expected the page of a model", "org/name"),
    ("https://example.com/config.json", "expected a path, or the address of a model on huggingface.co", "download"),
    ("file:///config.json", "expected a path", "give its path"),
    (f"https://huggingface.co/own/{'a' * 5000}", "expected the page of a model", ""),
]  # fmt: skip


@pytest.mark.parametrize(("source", "error", "hint"), NOWHERE, ids=[row[0][:40] + row[0][40:][-20:] for row in NOWHERE])
def test_what_leads_nowhere_is_one_line_with_a_way_out(source: str, error: str, hint: str, refused: Refused) -> None:
    """A path, an id or an address that cannot be read says why, and what to give in its place."""
    found = refused(source)
    assert error in found[0]
    assert hint in found[1]
    assert (len(found[0]) < 500, len(found[1]) < 500) == (True, True)


@pytest.mark.parametrize("source", ["./config.json", "X.GGUF", "m/", "./sha256-abc"])
def test_the_check_of_a_model_file_says_how_to_make_a_preset_of_it(source: str, refused: Refused) -> None:
    """`models --check` is for presets: for another file it names the command, which works."""
    assert f"`kvcalc preset {source} > my-model.yaml` makes one of it" in refused("models", "--check", source)[0]
    assert run(["preset", source]) == 0


def test_a_missing_part_is_named(refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    """A split file with a part missing is sized; where its weights count, the part is named, and their size is asked for."""
    path = "missing/m-00001-of-00003.gguf"
    error, hint = refused(path, "--vram", "80GB")
    assert error == "--weights: the number of parameters of m is not known: m-00003-of-00003.gguf is missing"
    assert "fetch what is missing, or give the size of its weights" in hint
    assert run([path, "--vram", "80GB", "--weights", "8GB", "--get", "fit.weights_bytes_per_gpu"]) == 0
    assert run([path]) == 0
    assert run(["preset", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith("8000000000\n")
    assert out.count("The weights are not known: m-00003-of-00003.gguf is missing.") == 2
    Path("missing/m-00002-of-00003.gguf").unlink()
    assert "m-00002-of-00003.gguf and 1 more are missing" in refused(path, "--vram", "80GB")[0]


def test_a_cached_file_comes_before_the_preset_where_main_is_asked_for(folder: Path) -> None:
    """`@main` reads the file that the hub's cache holds of a model that a preset describes too; the plain id does not."""
    snapshot = folder / "hub/models--meta-llama--Meta-Llama-3-70B/snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(CONFIG)
    assert [len(loader.load(f"meta-llama/Meta-Llama-3-70B{at}").layers) for at in ("", "@main")] == [80, 4]
    assert (
        loader.load("meta-llama/Meta-Llama-3-70B@main").source == "config.json of meta-llama/Meta-Llama-3-70B at main"
    )
