"""The header of GGUF files: what is read of it, and what is refused."""

import os
import struct
import subprocess
import sys
import tracemalloc

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.sources.gguf.header import LongArray, parse
from kvcalc.sources.gguf.parts import read
from kvcalc.sources.gguf.types import REMOVED, TYPES

from .gguf_models import HEADS, metadata
from .gguf_writer import As, Tensor, gguf_bytes, text, value_bytes

# Two tensors: 256 x 2 of q4_k (two blocks of 144 bytes) and 3 of f32 (12 bytes), the second at a multiple of 32.
TENSORS = (Tensor("blk.0.attn_k.weight", (256, 2), 12, 288), Tensor("output_norm.weight", (3,), 0, 12))


def refused(data: bytes) -> KvcalcError:
    """The error for a file of these bytes."""
    with pytest.raises(KvcalcError) as caught:
        parse(data, "m.gguf")
    return caught.value


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_and_tensors(version):
    """Versions 2 and 3 give their scalars, short arrays and tensors with exact bytes."""
    metadata = {"general.architecture": "llama", "llama.block_count": 32, "llama.rope.freq_base": 0.5,
                "llama.attention.head_count_kv": [8, 0, 4], "a.flag": True, "a.big": As("Q", 2**63),
                "a.signed": As("i", -5), "a.bytes": As("B", [1, 2]), "a.small": As("h", [-1])}  # fmt: skip
    header = parse(gguf_bytes(metadata, TENSORS, version=version), "m.gguf")
    assert header.version == version
    assert header.metadata == {
        **metadata, "a.big": 2**63, "a.signed": -5, "a.bytes": [1, 2], "a.small": [-1]
    }  # fmt: skip
    assert [(t.name, t.shape, t.type.name, t.elements, t.bytes, t.offset) for t in header.tensors] == [
        ("blk.0.attn_k.weight", (256, 2), "q4_k", 512, 288, 0),
        ("output_norm.weight", (3,), "fp32", 3, 12, 288),
    ]
    assert (header.weights_bytes, header.elements) == (300, 515)
    assert header.bytes_by_type() == {"q4_k": 288, "fp32": 12}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (["a", "bc"], LongArray("texts", 2)),
        ([7] * 4096, [7] * 4096),
        ([7] * 4097, LongArray("numbers", 4097)),
        ("x" * 4096, "x" * 4096),
        ("x" * 4097, LongArray("bytes of text", 4097)),
    ],
)
def test_long_values_are_skipped(value, kept):
    """Long arrays and texts, and arrays of texts, leave their length, and the key after them is read."""
    header = parse(gguf_bytes({"long": value, "after": 1}), "m.gguf")
    assert header.metadata == {"long": kept, "after": 1}


def test_kept_arrays_have_a_budget():
    """Many short arrays are kept up to 65,536 numbers in all, so that a header cannot grow when it is read."""
    header = parse(gguf_bytes({f"k{i}": As("B", [1] * 4096) for i in range(20)}), "m.gguf")
    assert [isinstance(value, list) for value in header.metadata.values()] == [True] * 16 + [False] * 4


@pytest.mark.parametrize(("number", "name", "row", "size"), [
    (0, "fp32", 1, 4), (1, "fp16", 1, 2), (2, "q4_0", 32, 18), (3, "q4_1", 32, 20), (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24), (8, "q8_0", 32, 34), (9, "q8_1", 32, 36), (10, "q2_k", 256, 84), (11, "q3_k", 256, 110),
    (12, "q4_k", 256, 144), (13, "q5_k", 256, 176), (14, "q6_k", 256, 210), (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66), (17, "iq2_xs", 256, 74), (18, "iq3_xxs", 256, 98), (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18), (21, "iq3_s", 256, 110), (22, "iq2_s", 256, 82), (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1), (25, "i16", 1, 2), (26, "i32", 1, 4), (27, "i64", 1, 8), (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56), (30, "bf16", 1, 2), (34, "tq1_0", 256, 54), (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17), (40, "nvfp4", 64, 36), (41, "q1_0", 128, 18), (42, "q2_0", 64, 18),
])  # fmt: skip
def test_tensor_types(number, name, row, size):
    """Each type of ggml has the block of its struct in ggml-common.h."""
    tensor = parse(gguf_bytes({}, [Tensor("t", (row, 3), number, 3 * size)]), "m.gguf").tensors[0]
    assert (tensor.type.name, tensor.elements, tensor.bytes) == (name, 3 * row, 3 * size)


def test_every_number_of_ggml_is_accounted_for():
    """The 43 numbers of ggml 0.25.3 are known or known to be gone."""
    assert sorted({**TYPES, **REMOVED}) == list(range(43))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "magic: expected GGUF, got ''"),
        (b"GGUF", "version: expected 4 bytes at offset 4, got the end of the file"),
        (b"tjgg" + bytes(40), "magic: expected GGUF, got an old GGJT file"),
        (b"version https://git-lfs", "magic: expected GGUF, got a Git LFS pointer"),
        (b"\x1b[2J" + bytes(40), "magic: expected GGUF, got '\\x1b[2J'"),
        (gguf_bytes({}, version=1), "version: expected 2 or 3, got 1"),
        (gguf_bytes({}, version=4), "version: expected 2 or 3, got 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version: expected a little-endian file, got a big-endian one"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0), "number of tensors: expected at most 0, got 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**64 - 1), "number of keys: expected at most 0, got 18446744073709551615"),
        (gguf_bytes({"a": 1})[:-1], "a: expected 4 bytes at offset 37, got the end of the file"),
    ],
)  # fmt: skip
def test_damaged_beginnings(data, message):
    """A file that is no GGUF file of version 2 or 3, or ends too early, is refused by name in one line."""
    error = refused(data)
    assert error.message == f"m.gguf: {message}"


def with_value(value: bytes) -> bytes:
    """A file with one key, `k`, whose type and value are these bytes, and room behind."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + value + bytes(64)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (struct.pack("<I", 13), "k: expected a value type from 0 to 12, got 13"),
        (struct.pack("<IIQ", 9, 9, 1), "k: expected an array of numbers, truth values or texts, got an array of arrays"),
        (struct.pack("<IIQ", 9, 99, 1), "k: expected an array of numbers, truth values or texts, got 99"),
        (struct.pack("<IIQ", 9, 10, 2**61), "k: expected 18446744073709551616 bytes at offset 49, got the end"),
        (struct.pack("<IIQ", 9, 8, 2**40), "k: expected at most 8 texts, got 1099511627776"),
        (struct.pack("<IIQQ", 9, 8, 2, 2**63), "k: expected 2 texts, got the end of the file"),
        (struct.pack("<IIQQ", 9, 8, 1, 65), "k: expected 1 texts, got the end of the file"),
        (struct.pack("<IQ", 8, 2**64 - 1), "k: expected 18446744073709551615 bytes at offset 45, got the end"),
    ],
)  # fmt: skip
def test_lying_lengths(value, message):
    """A length that leads out of the file is refused before anything of that length is built."""
    tracemalloc.start()
    error = refused(with_value(value))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.message.startswith(f"m.gguf: {message}")
    assert peak < 100_000


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({}, [Tensor("t", (33,), 2, 64)], "t: expected rows of whole q4_0 blocks of 32, got 33"),
        ({}, [Tensor("t", (1, 1, 1, 1, 1), 0, 4)], "t: expected at most 4 dimensions, got 5"),
        ({}, [Tensor("t", (1,), 43, 4)], "t: expected a tensor type of ggml, got type 43"),
        ({}, [Tensor("t", (1,), 31, 4)], "t: expected a tensor type of ggml, got q4_0_4_4, which ggml no longer reads"),
        ({}, [Tensor("t", (1,), 0, 4), Tensor("t", (1,), 0, 4)], "t: expected each tensor once, got a second one"),
        ({}, [Tensor("t", (1,), 0, 4, 16)], "t: expected an offset in multiples of 32, got 16"),
        ({}, [Tensor("t", (9,), 0, 4)], "t: expected data up to byte 100, got a file of 96 bytes"),
        ({}, [Tensor("t", (2**63, 2**63), 0, 4)], "t: expected data up to byte 34028236692093846346337460743176821"),
        ({}, [Tensor("a", (8,), 0, 32), Tensor("b", (8,), 0, 32, 0)], "tensors: expected at most 32 bytes together, got 64"),
        ({"general.alignment": 24}, [], "general.alignment: expected a power of two, got 24"),
        ({"general.alignment": True}, [], "general.alignment: expected a power of two, got True"),
        ({"general.alignment": "32"}, [], "general.alignment: expected a power of two, got '32'"),
    ],
)  # fmt: skip
def test_tensors_that_cannot_be(metadata, tensors, message):
    """Tensors of unknown types, of impossible shapes or outside the file are refused with their name."""
    assert refused(gguf_bytes(metadata, tensors)).message.startswith(f"m.gguf: {message}")


def test_alignment_of_the_file():
    """The data part begins at a multiple of general.alignment, which may be 1."""
    data = gguf_bytes({"general.alignment": 1}, [Tensor("t", (3,), 24, 3), Tensor("u", (2,), 24, 2)], alignment=1)
    assert parse(data, "m.gguf").weights_bytes == 5
    assert (
        refused(data[:-1]).message
        == f"m.gguf: u: expected data up to byte {len(data)}, got a file of {len(data) - 1} bytes"
    )


def test_names_are_escaped_and_repeated_keys_refused():
    """A key that would move the cursor of a terminal is shown escaped; one that stands twice is refused."""
    error = refused(gguf_bytes({"\x1b[2J": As("B", 1)})[:-1])
    assert error.message == "m.gguf: \\x1b[2J: expected 1 bytes at offset 40, got the end of the file"
    twice = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (text("k") + value_bytes(1))
    assert refused(twice).message == "m.gguf: k: expected each key once, got a second one"
    assert "expected UTF-8 text" in refused(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"\xff") + bytes(20)).message
    assert (
        "expected a name of 1 to 65,535 bytes, got 0"
        in refused(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + bytes(40)).message
    )


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_cut_anywhere(cut):
    """A file that ends at any place is refused in one line, never with another exception."""
    data = gguf_bytes({"general.architecture": "llama", "tokens": ["a", "bc"], "heads": [1, 2]}, TENSORS)
    error = refused(data[: min(cut, len(data) - 25)])
    assert error.message.startswith("m.gguf: ")
    assert "\n" not in error.message


def test_big_header_is_read_in_bounded_memory(tmp_path):
    """A header of 8 MB, nearly all of it vocabulary, is skipped by the lengths of its texts: less than 1 MB is built."""
    words = [f"{i:070}" for i in range(100_000)]
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": words,
                "tokenizer.ggml.token_type": As("i", [1] * 100_000), "llama.block_count": 80}  # fmt: skip
    path = tmp_path / "big.gguf"
    path.write_bytes(gguf_bytes(metadata, [Tensor(f"blk.{i}.weight", (32, 2), 2, 36) for i in range(720)]))
    assert path.stat().st_size > 8_000_000
    tracemalloc.start()
    header = read(str(path)).header
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header.metadata["llama.block_count"] == 80
    assert header.metadata["tokenizer.ggml.tokens"] == LongArray("texts", 100_000)
    assert (len(header.tensors), header.weights_bytes) == (720, 720 * 36)
    assert peak < 1_000_000


def part(folder, number: int, count: int, tensors, name: str = "m", **metadata) -> str:
    """One part of a split file, written as llama-gguf-split does."""
    path = folder / f"{name}-{number + 1:05}-of-{count:05}.gguf"
    keys = {"split.no": As("H", number), "split.count": As("H", count), **metadata}
    path.write_bytes(gguf_bytes(keys, tensors))
    return str(path)


def test_split_file(tmp_path):
    """The first part of a split file gives the metadata, and all parts beside it the weights."""
    first = part(tmp_path, 0, 3, [], **{"split.tensors.count": As("i", 2), "general.architecture": "llama"})
    part(tmp_path, 1, 3, TENSORS[:1])
    part(tmp_path, 2, 3, TENSORS[1:])
    whole = read(first)
    assert whole.header.metadata["general.architecture"] == "llama"
    assert (whole.weights_bytes, whole.parameters, whole.missing) == (300, 515, ())


def test_split_file_with_parts_missing(tmp_path):
    """Parts that do not lie beside the first are named, and the weights are not known."""
    first = part(tmp_path, 0, 3, TENSORS[:1], **{"split.tensors.count": As("i", 2)})
    part(tmp_path, 1, 3, TENSORS[1:])
    whole = read(first)
    assert whole.missing == ("m-00003-of-00003.gguf",)
    assert (whole.weights_bytes, whole.parameters) == (None, None)
    os.rename(first, tmp_path / "renamed.gguf")
    assert read(str(tmp_path / "renamed.gguf")).missing == (
        "renamed-00002-of-00003.gguf",
        "renamed-00003-of-00003.gguf",
    )


def test_wrong_parts_of_a_split_file(tmp_path):
    """A later part, a part of another file, a repeated tensor and a wrong total are refused."""
    first, second = part(tmp_path, 0, 2, TENSORS[:1]), part(tmp_path, 1, 2, TENSORS[:1])
    with pytest.raises(KvcalcError, match=r"split: expected each tensor in one part, got the same one in two"):
        read(first)
    with pytest.raises(KvcalcError, match=r"split\.no: expected the first part, got part 2 of 2") as caught:
        read(second)
    assert caught.value.hint == f"give {first}, which describes the model"
    os.replace(part(tmp_path, 1, 3, TENSORS[1:], "other"), second)
    with pytest.raises(KvcalcError, match=r"m-00002-of-00002\.gguf: split\.count: expected 2, got 3"):
        read(first)
    part(tmp_path, 1, 2, TENSORS[1:])
    first = part(tmp_path, 0, 2, TENSORS[:1], **{"split.tensors.count": As("i", 9)})
    with pytest.raises(KvcalcError, match=r"split\.tensors\.count: expected 2, as many as the parts hold, got 9"):
        read(first)


@pytest.mark.parametrize("count", [-1, True, "2", 70_000])
def test_counts_of_parts_that_cannot_be(tmp_path, count):
    """The number of parts is a number of 16 bits."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({"split.count": As("i", count) if count == -1 else count}))
    with pytest.raises(KvcalcError, match=r"split\.count: expected a number from 0 to 65,535, got "):
        read(str(path))


def test_what_is_no_file(tmp_path):
    """Folders, pipes, missing files and names that no file can have are refused without being opened."""
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "empty.gguf").touch()
    for name, message in (
        ("pipe.gguf", "expected a file"),
        ("", "expected a file"),
        ("no.gguf", "No such file or directory"),
        ("empty.gguf", "magic: expected GGUF, got ''"),
        ("\0.gguf", "embedded null byte"),
    ):
        with pytest.raises(KvcalcError, match=message):
            read(str(tmp_path / name))


def test_a_file_is_mapped_no_further_than_its_header(tmp_path):
    """A sparse file of 20 GB is read where a process may map 1 GB, also behind a header that is longer than usual."""
    kvcalc = [sys.executable, "-c", LIMITED, str(tmp_path / "m.gguf")]
    for words in (1, 1 << 19):  # 8 bytes and a text of 60 each: 36 MB, more than is mapped at first
        keys = {**metadata("llama", HEADS, {"block_count": 2}), "tokenizer.ggml.tokens": ["x" * 60] * words}
        tensors = [
            Tensor(f"t{i}", (1 << 15, 1 << 12), 0, 0, i << 29) for i in reversed(range(38))
        ]  # 512 MiB each  # 512 MiB each
        with (tmp_path / "m.gguf").open("wb") as file:
            file.write(gguf_bytes(keys, tensors))
            file.truncate(20 << 30)
        done = subprocess.run(kvcalc, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (f"{38 << 29}\n", "")


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from kvcalc.library import loader
print(loader.load(sys.argv[1]).weights_bytes)
"""
