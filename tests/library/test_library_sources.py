"""The bundled presets against the published configurations that lie beside the maintainers' repository.

The files are no part of the repository, so what compares with them is skipped where they are absent.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvcalc.core.model import Model
from kvcalc.library import loader

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT.parent / "shared" / "configs"
NAMES = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))

# Names in the index of the files that are no hub ids: copies of a file, or a repository without its size.
ALIASES = {
    "Qwen/Qwen2-7B-Instruct.mediatek": "qwen2-7b",
    "Qwen/Qwen2.5-Omni": "qwen2.5-omni-7b",
    "Qwen/Qwen3-ASR": "qwen3-asr-0.6b",
    "inference-sim-copy/llama-3.1-8b": "llama3.1-8b",
    "inference-sim-copy/llama-4-scout-17b-16e-instruct": "llama4-scout",
    "inference-sim-copy/mixtral-8x22b-v0.1": "mixtral-8x22b",
    "inference-sim-copy/qwen3-30b-a3b": "qwen3-30b-a3b",
    "ktransformers-copy/Llama-4-Scout": "llama4-scout",
}
COMPARED = ("layers", "draft", "dtype", "state_dtype", "kv_dtype", "max_context")


class Differs(NamedTuple):
    """Where a preset knows better than the file: both values, and why."""

    preset: str
    file: str
    key: str
    ours: int | str | None
    read: int | str | None
    reason: str


EDITED = "the copy was edited for a compiler of fixed shapes"
LONGER = "the copy is off the published value, which the preset has"
EXCEPTIONS = (
    Differs("mistral-7b-v0.3", "mistralai__Mistral-7B-Instruct-v0.2.json", "max_context", 32_768, 512, EDITED),
    Differs("qwen-1.8b", "Qwen__Qwen-1_8B-Chat.json", "max_context", 8_192, 512, EDITED),
    Differs("minicpm-v-2.6", "openbmb__MiniCPM-V-2_6.json", "max_context", None, 512, EDITED),
    Differs("internvl2-2b", "OpenGVLab__InternVL2-2B.json", "max_context", None, 512, EDITED),
    Differs("internvl2-4b", "OpenGVLab__InternVL2-4B.json", "max_context", None, 512, EDITED),
    Differs("gemma3-12b", "google__gemma-3-12b-it.json", "max_context", 131_072, 163_840, LONGER),
    Differs("gemma3-27b", "google__gemma-3-27b-it.json", "max_context", 131_072, 163_840, LONGER),
    Differs("olmo3-7b", "allenai__Olmo-3-1025-7B.json", "max_context", 65_536, 8_192, LONGER),
    Differs("minimax-text-01", "MiniMaxAI__MiniMax-Text-01.json", "max_context", 10_240_000, None,
               "the excerpt states no limit, another copy does"),
    Differs("qwen2.5-1.5b", "Qwen__Qwen2.5-1.5B.json", "max_context", 32_768, 131_072,
               "the base model; the preset has the limit of the Instruct model"),
    Differs("laguna-s-2.1", "poolside__Laguna-S-2.1.json", "kv_dtype", None, "fp8",
               "the file is that of the FP8 repository, the preset is the BF16 model"),
    Differs("glm4-9b", "THUDM__glm-4-9b-chat.json", "max_context", 131_072, 512, EDITED),
    Differs("yi-6b", "01-ai__Yi-6B-Chat.json", "max_context", 4_096, 512, EDITED),
    Differs("qwen1.5-1.8b", "Qwen__Qwen1.5-1.8B-Chat.json", "max_context", None, 512, EDITED),
    Differs("chatglm2-6b", "THUDM__chatglm2-6b.json", "max_context", None, 512, EDITED),
    Differs("chatglm3-6b-32k", "THUDM__chatglm3-6b-32k.json", "max_context", None, 16_384, EDITED),
    Differs("hunyuan-a13b", "tencent__Hunyuan-A13B-Instruct.json", "max_context", 32_768, 2_048,
               "the excerpt states no limit, so that the class's default was read"),
    Differs("step-3.7-flash", "stepfun-ai__Step-3.7-Flash.json", "max_context", 262_144, 65_536,
               "the copy was reduced by hand, and vllm-project/recipes states the model's limit"),
)  # fmt: skip

# The folder grows. The least that was there once: files with a preset, and presets whose stated number of parameters is
# within 1 % of the number computed from the shapes in a file.
LEAST_COMPARED, LEAST_COUNTED = 175, 86


class Config(NamedTuple):
    """A published configuration and the model that the reader makes of it."""

    file: str
    model: Model


class Reader:
    """Finds the files of a preset and reads each as the folder it was published in."""

    def __init__(self, index: list[dict[str, Any]], folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}
        for entry in index:
            file = entry["file"]
            if not file.startswith("reduced__") and not file.endswith(".hf_quant_config.json"):
                self.files[file] = ALIASES.get(entry["hub_id"], entry["hub_id"].lower())

    def names(self, preset: Model) -> list[str]:
        """The files that belong to a preset."""
        known = {preset.origin, *(one.lower() for one in preset.ids)}
        return [file for file, owner in self.files.items() if owner in known]

    def configs(self, preset: Model) -> list[Config]:
        """The files of a preset as models, a declared quantisation included."""
        return [Config(file, self._read(file)) for file in self.names(preset)]

    def _read(self, file: str) -> Model:
        folder = self.folder / file.removesuffix(".json")
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_bytes((CONFIGS / file).read_bytes())
        beside = CONFIGS / file.replace(".json", ".hf_quant_config.json")
        if beside.exists():
            (folder / "hf_quant_config.json").write_bytes(beside.read_bytes())
        return loader.load(f"{folder}/")


@pytest.fixture
def reader(shared_json: Callable[[str], Any], tmp_path: Path) -> Reader:
    """The reader of the files beside the repository; skips where they are absent."""
    return Reader(shared_json("configs/INDEX.json"), tmp_path)


def differences(preset: Model, config: Config) -> dict[tuple[str, str], tuple[Any, Any]]:
    """What a preset has otherwise than its file: the preset's value and the file's, by file and key."""
    pairs = {(config.file, key): (getattr(preset, key), getattr(config.model, key)) for key in COMPARED}
    return {
        where: tuple(getattr(value, "name", value) for value in pair)
        for where, pair in pairs.items()
        if pair[0] != pair[1]
    }


def computed(preset: Model, reader: Reader) -> list[int]:
    """The numbers of parameters that the files of a preset come to, where every shape is known."""
    return [config.model.parameters for config in reader.configs(preset) if config.model.parameters]


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_its_file(name: str, reader: Reader) -> None:
    """A preset has the layers, draft layers, dtypes and limit of its published file, named exceptions aside."""
    preset = loader.load(name)
    found = {where: pair for config in reader.configs(preset) for where, pair in differences(preset, config).items()}
    assert found == {(row.file, row.key): (row.ours, row.read) for row in EXCEPTIONS if row.preset == name}


@pytest.mark.parametrize("name", NAMES)
def test_widths_agree_with_its_file(name: str, reader: Reader) -> None:
    """Where no other source of the widths is named, one of the published files has the same widths of weights."""
    preset = loader.load(name)
    if preset.dimensions is None or preset.dimensions_source is not None:
        return
    read = [config.model.dimensions for config in reader.configs(preset)]
    told = [widths for widths in read if widths is not None]
    assert not told or preset.dimensions in told


def test_exceptions_are_needed() -> None:
    """An exception names a preset that ships and two values that differ, and says why."""
    assert [row for row in EXCEPTIONS if row.preset not in NAMES or row.ours == row.read or not row.reason] == []
    assert set(ALIASES.values()) - set(NAMES) == set()


def test_most_presets_have_a_file(reader: Reader) -> None:
    """Presets are compared with files, whatever files come on top; each alias stands for a file that is there."""
    used = {file for name in NAMES for file in reader.names(loader.load(name))}
    assert len(used) >= LEAST_COMPARED
    assert set(ALIASES.values()) <= set(reader.files.values())


def test_parameters_agree_with_the_shapes(reader: Reader) -> None:
    """Every stated number of parameters is within 1 % of the number computed from the file, where that is possible."""
    counts = {name: computed(loader.load(name), reader) for name in NAMES}
    counts = {name: numbers for name, numbers in counts.items() if numbers}
    stated = {name: loader.load(name).parameters or 0 for name in counts}
    off = {n: (stated[n], m) for n, numbers in counts.items() for m in numbers if abs(stated[n] - m) > m / 100}
    assert off == {}
    assert len(counts) >= LEAST_COUNTED


def test_nothing_is_from_memory() -> None:
    """No preset's shape is recalled rather than read."""
    assert [name for name in NAMES if loader.load(name).confidence == "from memory"] == []


def test_the_library_is_large() -> None:
    """At least 400 models ship."""
    assert len(NAMES) >= 400


def test_sources_are_short_and_public() -> None:
    """A source is one short line, and no path on somebody's machine."""
    sources = {name: loader.load(name).source or "" for name in NAMES}
    assert [name for name, text in sources.items() if not 0 < len(text) < 160] == []
    assert [name for name, text in sources.items() if text.startswith(("/", "~"))] == []
