"""Fuzz the readers of files: only KvcalcError may come out, soon, and in memory bounded by the input.

    python tests/sources/fuzz_readers.py --seconds 600 [--seed N] [--readers GSICP]

The readers: G GGUF, S safetensors, I its index, C config.json, P presets.

With atheris installed its engine makes the inputs. Without it they are mutations of small valid files, kept as new
seeds where they reach lines of the readers that no input reached before. Not collected by pytest, whose smoke test
(test_fuzz.py) runs a few hundred of these.
"""

import argparse
import json
import random
import struct
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset.canonical import canonical_text
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources import jsonfile, safetensors
from kvcalc.sources.config.defaults import all_types, class_defaults
from kvcalc.sources.config.reader import preset_from_config
from kvcalc.sources.gguf import header as gguf
from kvcalc.sources.gguf.families import FAMILIES
from kvcalc.sources.gguf.model import preset_from_gguf

if __package__:
    from .gguf_models import own
    from .gguf_writer import As, Tensor, gguf_bytes, safetensors_bytes
else:
    from gguf_models import own
    from gguf_writer import As, Tensor, gguf_bytes, safetensors_bytes

SECONDS = 2.0  # of CPU for one input of some kilobytes, which takes a millisecond
MEMORY = 32 << 20
READERS = "GSICP"
SOURCES = str(Path(gguf.__file__).parents[2])
LONGEST = 1 << 16

NUMBERS = (0, 1, 2, 7, 8, 9, 12, 13, 31, 32, 33, 127, 128, 255, 256, 4096, 4097, 65535, 2**31 - 1, 2**31, 2**32 - 1,
           2**32, 2**40, 2**61, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
WORDS = (b"GGUF", b"general.architecture", b"general.alignment", b"split.count", b"llama", b"gemma3", b"attention.",
         b'"dtype"', b'"F4"', b'"shape"', b'"data_offsets"', b"[", b"]", b"{", b"}", b'"', b"1e999", b"NaN", b"\\ud800",
         b"\xff", b"../")  # fmt: skip


def seeds(readers: str = READERS) -> list[bytes]:
    """Small files that are right, one byte in front saying which of `readers` they are for."""
    return [seed for seed in _all_seeds() if seed[:1].decode() in readers]


def _all_seeds() -> list[bytes]:
    found = [b"P" + Path(entry.path).read_bytes() for entry in loader.entries()]
    for model_type in all_types():
        config = {"model_type": model_type, "torch_dtype": "bfloat16", **class_defaults(model_type)}
        found.append(
            b"C" + json.dumps({key: value for key, value in config.items() if key != "attribute_map"}).encode()
        )
        found.append(b"C" + json.dumps({"model_type": "own_vl", "text_config": {"model_type": model_type}}).encode())
    for arch in FAMILIES:
        metadata = {"general.architecture": arch, **own(arch), "tokenizer.ggml.tokens": ["a", "bc"]}
        found.append(b"G" + gguf_bytes(metadata, [Tensor("t", (32, 2), 2, 36), Tensor("u", (3,), 0, 12)]))
    rows = [Tensor(f"blk.{i}.attn_k.weight", (32, 576 * n), 2, 18 * 576 * n) for i, n in ((1, 2), (3, 1))]
    found.append(b"G" + gguf_bytes(own("qwen3"), rows))
    typed: dict[str, object] = {code: As(code, [1, 2]) for code in "BbHhIifQqd?"}
    found.append(b"G" + gguf_bytes({**own("gpt2"), **typed, "general.alignment": 64}, version=2))
    entry = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
    found.append(b"S" + safetensors_bytes({"a": entry, "__metadata__": {"format": "pt"}}, 12))
    found.append(b"S" + safetensors_bytes({"a": {**entry, "dtype": "F4", "shape": [8, 3]}}, 12))
    found.append(b'I{"metadata": {}, "weight_map": {"a": "model.safetensors"}}')
    return found


def run(data: bytes, folder: Path) -> str | None:
    """Hand one input to its reader: None, or the line it is refused with. Anything else comes out as it is."""
    try:
        if data[:1] == b"G":
            _gguf(data[1:])
        elif data[:1] == b"C":
            _config(data[1:])
        elif data[:1] == b"P":
            loader.load_text(data[1:], "m.yaml")
        elif data[:1] in (b"S", b"I"):
            name = "model.safetensors" if data[:1] == b"S" else safetensors.INDEX
            (folder / name).write_bytes(data[1:])
            safetensors.weigh(safetensors.folder_tensors(str(folder)))
    except KvcalcError as error:
        message = error.message
    else:
        return None
    finally:
        for name in ("model.safetensors", safetensors.INDEX):
            (folder / name).unlink(missing_ok=True)
    assert message.isprintable(), message
    assert len(message) < 1000, message
    return message


def _gguf(data: bytes) -> None:
    header = gguf.parse(data, "m.gguf")
    preset = preset_from_gguf(
        header.metadata,
        file="m.gguf",
        weights_bytes=header.weights_bytes,
        parameters=header.elements,
        held=header.tensors,
    )
    _, problems = model_from_preset(preset, "m.gguf")
    assert not problems, problems


def _config(data: bytes) -> None:
    preset = preset_from_config(jsonfile.parse_object(data, "config.json"), file="config.json")
    model, problems = model_from_preset(preset, "config.json")
    assert not problems, problems
    assert model is not None
    assert loader.load_text(canonical_text(preset).encode(), "config.json") == model


def mutated(data: bytes, random: random.Random, others: list[bytes]) -> bytes:
    """A few changes to an input: bytes, numbers, words, pieces of another, cuts and repetitions."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at = random.randrange(1, max(len(out), 2))
        match random.randrange(8):
            case 0:
                out[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                out[at : at + 8] = struct.pack("<Q", random.choice(NUMBERS))
            case 2:
                out[at : at + 4] = struct.pack("<I", random.choice(NUMBERS) & 0xFFFFFFFF)
            case 3:
                out[at:at] = random.choice(WORDS)
            case 4:
                del out[at : at + random.choice((1, 4, 8, 64))]
            case 5:
                other = random.choice(others)
                begin = random.randrange(len(other))
                out[at:at] = other[begin : begin + random.choice((8, 32, 256))]
            case 6:
                out[at:at] = out[at : at + random.choice((4, 16, 64))] * random.choice((1, 2, 50))
            case 7:
                del out[at:]
    return bytes(out[:LONGEST])


class Coverage:
    """Which lines of the readers were ever run. Lines are told apart only until each was seen once."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.new = False

    def __enter__(self) -> None:
        self.new = False
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: object, _event: str, _argument: object) -> Callable[..., object] | None:
        return self._line if frame.f_code.co_filename.startswith(SOURCES) else None  # type: ignore[attr-defined]

    def _line(self, frame: object, event: str, _argument: object) -> Callable[..., object]:
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)  # type: ignore[attr-defined]
            if place not in self.lines:
                self.lines.add(place)
                self.new = True
        return self._line


def checked(data: bytes, folder: Path) -> None:
    """`run` within the bounds of time and memory."""
    begin = time.process_time()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    run(data, folder)
    used = time.process_time() - begin
    assert used < SECONDS, f"{used:.1f} s"
    grown = tracemalloc.get_traced_memory()[1] - before
    assert grown < MEMORY, f"{grown:,} bytes"


def inputs(seed: int, corpus: list[bytes]) -> Iterator[bytes]:
    """Mutations of a corpus that may grow meanwhile, without an end."""
    source = random.Random(seed)
    while True:
        yield mutated(source.choice(corpus), source, corpus)


def loop(seconds: float, seed: int, readers: str) -> int:
    """Fuzz for so long; 1 if an input was found that must not be."""
    corpus, coverage, count, bad = seeds(readers), Coverage(), 0, 0
    end = time.monotonic() + seconds
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as name:
        for data in inputs(seed, corpus):
            count += 1
            try:
                # Tracing costs a factor of ten, so only some inputs are watched.
                if count % 8 == 0:
                    with coverage:
                        run(data, Path(name))
                    if coverage.new:
                        corpus.append(data)
                else:
                    checked(data, Path(name))
            except Exception as error:  # noqa: BLE001  # anything but KvcalcError is what is looked for
                bad += 1
                print(f"{type(error).__name__}: {error}\n  {data[:2000]!r}")
            if time.monotonic() > end or bad > 9:
                break
    print(f"{count:,} inputs, {len(corpus):,} kept, {len(coverage.lines):,} lines reached, {bad} bad, seed {seed}")
    return int(bad > 0)


def with_atheris(atheris: object, seconds: float, readers: str) -> None:
    """Let libFuzzer make the inputs. It ends the process by itself."""
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as folder:
        for i, seed in enumerate(seeds(readers)):
            (Path(corpus) / str(i)).write_bytes(seed)
        arguments = [sys.argv[0], corpus, f"-max_total_time={int(seconds)}", f"-max_len={LONGEST}", "-timeout=5"]
        atheris.instrument_all()  # type: ignore[attr-defined]
        atheris.Setup(arguments, lambda data: run(data, Path(folder)))  # type: ignore[attr-defined]
        atheris.Fuzz()  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of files.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", default=READERS)
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        return loop(arguments.seconds, arguments.seed, arguments.readers)
    with_atheris(atheris, arguments.seconds, arguments.readers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
