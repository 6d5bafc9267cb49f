"""Model files on the command line: a config.json, a folder, a GGUF file, standard input, and the verb `preset`."""

import io
import json
import struct
import sys
from pathlib import Path

import pytest

from kvcalc.cli.main import run
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset.canonical import canonical_text
from kvcalc.sources.files import is_config

CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "configs"

# A published shape (Llama 3.1 8B) cut to four layers: 4 x 2 x 8 heads x 128 x 2 B = 16,384 B a token.
CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 4,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
SLOPE = 4 * 2 * 8 * 128 * 2


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Standard output of a command that must succeed in silence."""
    status = run(list(argv))
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The error line of a command that must be refused."""
    status = run(list(argv))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (status, out, len(lines) in (1, 2)) == (2, "", True)
    return lines[0].removeprefix("kvcalc: error: ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a configuration and one safetensors file of 3 x 5 bf16 elements, 30 bytes."""
    place = tmp_path / "Own-Model-1"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    header = json.dumps({"w": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]}}).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(30))
    return place


def test_a_configuration_is_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kvcalc path/config.json` sizes it like a preset."""
    assert answer(capsys, str(folder / "config.json"), "--get", "kv.bytes_per_token") == f"{SLOPE}\n"


def test_a_folder_brings_its_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes of the tensors are measured from the headers, not estimated: 30 of them."""
    assert answer(capsys, f"{folder}/", "--get", "model.name") == "Own-Model-1\n"
    assert answer(capsys, f"{folder}/", "--vram", "1GB", "--get", "fit.weights_bytes_per_gpu") == "30\n"
    assert answer(capsys, str(folder), "--vram", "1GB", "--get", "fit.weights_bytes_per_gpu") == "30\n"


def test_weights_are_told_by_dtype(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How many bytes are stored in which format stands in the answer and in the preset."""
    assert "Tensors: 30 B in BF16" in answer(capsys, f"{folder}/")
    assert "weights_bytes: 30\n" in answer(capsys, "preset", f"{folder}/")


@pytest.mark.parametrize(("stored", "dtype", "size"), [("F16", "fp16", 2), ("F32", "fp32", 4), ("BF16", "bf16", 2)])
def test_tensors_tell_the_dtype(
    folder: Path, capsys: pytest.CaptureFixture[str], stored: str, dtype: str, size: int
) -> None:
    """Where the configuration states no dtype, it is that of the tensors, and none is said to be assumed."""
    (folder / "config.json").write_text(json.dumps({k: v for k, v in CONFIG.items() if not k.endswith("dtype")}))
    end = 15 * size
    header = json.dumps({"w": {"dtype": stored, "shape": [3, 5], "data_offsets": [0, end]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(end))
    preset = " ".join(answer(capsys, "preset", f"{folder}/").split())
    assert f"dtype: {dtype} " in preset
    assert f"The file states no dtype; {dtype} is that of the tensors." in preset
    assert "assumed" not in preset
    assert "bf16 is assumed" in answer(capsys, "preset", str(folder / "config.json"))


def test_a_declared_cache_format_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """hf_quant_config.json beside the configuration sets the KV dtype: half of 16 bits."""
    quantisation = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    (folder / "hf_quant_config.json").write_text(json.dumps(quantisation))
    assert answer(capsys, f"{folder}/", "--get", "request.k_dtype").startswith("fp8")
    assert answer(capsys, f"{folder}/", "--get", "kv.bytes_per_token") == f"{SLOPE // 2}\n"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` takes a config.json as well as a preset, and `preset -` turns the one into the other."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CONFIG).encode())))
    assert answer(capsys, "-", "--get", "kv.bytes_per_token") == f"{SLOPE}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CONFIG).encode())))
    text = answer(capsys, "preset", "-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert answer(capsys, "-", "--get", "kv.bytes_per_token") == f"{SLOPE}\n"


def test_a_preset_may_be_written_as_json() -> None:
    """Braces alone do not make a config.json: YAML in flow style is still a preset."""
    text = b'{"name": "Tiny 1", "dtype": "bf16", "heads": 4, "kv_heads": 2, "head_dim": 64, "layers": "2 full"}'
    assert not is_config(text)
    assert len(loader.load_text(text, "x").layers) == 2


@pytest.mark.parametrize("text", ["{}", '{"hidden_size": 64}', '{\n "hello": 1}'])
def test_a_configuration_without_a_type(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has no type and no shape is no configuration: a file, a folder and standard input alike say so."""
    (folder / "config.json").write_text(text)
    for source in (str(folder / "config.json"), f"{folder}/", "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert run([source]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert error.endswith(": model_type: expected the type of a model, as its config.json has it, got nothing")
        assert "fetch the config.json of the model" in hint
        assert "add its type" not in hint  # the class's model would be sized then


def test_a_type_that_was_taken_out_can_be_added(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shape without its type is refused, and the way out of it leads to an answer."""
    bare = {key: value for key, value in CONFIG.items() if key not in ("model_type", "architectures")}
    (folder / "config.json").write_text(json.dumps(bare))
    assert run([f"{folder}/"]) == 2
    assert 'add its type to a copy, such as "model_type": "llama"' in capsys.readouterr().err
    (folder / "config.json").write_text(json.dumps({**bare, "model_type": "llama"}))
    assert answer(capsys, f"{folder}/", "--get", "kv.bytes_per_token") == f"{SLOPE}\n"


def test_an_unknown_type_is_refused_with_a_way_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is never sized by the naive formula in silence; --assume-dense does it aloud."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_type": "novel"}))
    assert "model_type" in refusal(capsys, f"{folder}/")
    assert answer(capsys, f"{folder}/", "--assume-dense", "--get", "kv.bytes_per_token") == f"{SLOPE}\n"
    assert "novel" in answer(capsys, "preset", f"{folder}/", "--assume-dense")
    text = answer(capsys, f"{folder}/", "--assume-dense")
    assert "novel is not known" in text


def test_a_key_that_may_matter_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that nobody explained and that sounds like the cache is one line with its name."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, "kv_memory_compression_ratio": 4}))
    assert "kv_memory_compression_ratio" in refusal(capsys, f"{folder}/")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (
            {"quantization_config": {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}}},
            "kv_cache_group",
        ),
        ({"quantization_config": {"quant_method": "fp8", "kv_cache_dtype": "fp8"}}, "kv_cache_dtype"),
        ({"dtype": "float32"}, "dtype"),
        ({"model_type": "cohere2", "sliding_window": 4096, "sliding_window_pattern": 0}, "sliding_window_pattern"),
        ({"model_type": "jamba", "attn_layer_offset": 9, "attn_layer_period": 8}, "attn_layer_offset"),
        ({"total_ut_steps": 4}, "total_ut_steps"),
        ({"kv_channels": 64}, "kv_channels"),
        ({"model_type": "gpt_neox"}, "num_key_value_heads"),
    ],
    ids=[
        "quark",
        "cache dtype",
        "two dtypes",
        "no period",
        "offset past the period",
        "steps",
        "another type's width",
        "another type's heads",
    ],
)
def test_what_would_change_the_size_in_silence(
    changes: dict[str, object], key: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A declared cache format that is not read, or numbers that contradict each other, are refused by their key."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    assert key in refusal(capsys, f"{folder}/")


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_key_value_heads", "max_position_embeddings"])
def test_a_number_above_all_sense(key: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that is too large is called so, and not one that is not above zero."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, key: 2**40 + 1}))
    assert f"{key}: expected at most 1,099,511,627,776, got 1099511627777" in refusal(capsys, f"{folder}/")


def test_weights_that_cannot_be_read_leave_a_way_to_the_cache(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout without its large files is refused with the path that sizes the cache all the same."""
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0")
    assert run([f"{folder}/"]) == 2
    err = capsys.readouterr().err
    assert "got a Git LFS pointer" in err
    assert f"git lfs pull`; {folder}/config.json sizes the cache without the weights" in err


def test_an_unknown_type_names_the_command_for_this_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The hint has the path that was given, and what it says works."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, "model_type": "novel"}))
    assert run([str(folder / "config.json")]) == 2
    assert f"`kvcalc preset {folder}/config.json --assume-dense > my-model.yaml`" in capsys.readouterr().err
    assert run(["preset", str(folder / "config.json"), "--assume-dense"]) == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"model_type": "llama", "model_type": "llama"}'])
def test_a_faulty_configuration_is_one_line(content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken JSON names the file."""
    (folder / "config.json").write_bytes(content)
    assert "config.json" in refusal(capsys, f"{folder}/")


def test_a_folder_without_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is no model says what is missing."""
    assert "config.json" in refusal(capsys, f"{tmp_path}/")


def test_a_truncated_gguf_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four bytes are no model."""
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert "a.gguf" in refusal(capsys, str(tmp_path / "a.gguf"))


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="the recorded configurations are not beside this checkout")
@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_round_trip(path: Path) -> None:
    """What `preset` prints of a real configuration is canonical, reads back, and is the same model."""
    if path.stem == "INDEX" or path.stem.endswith("hf_quant_config"):
        pytest.skip("no model configuration")
    try:
        mapping = loader.mapping_at(str(path))
    except KvcalcError as error:
        pytest.skip(f"refused: {error}")
    text = canonical_text(mapping)
    again = loader.load_text(text.encode(), "again.yaml")
    model = loader.load(str(path))
    assert again == model
    assert measure(ask(again)).bytes_per_sequence == measure(ask(model)).bytes_per_sequence
    assert canonical_text(loader.mapping_of_text(text.encode(), "again.yaml")) == text
