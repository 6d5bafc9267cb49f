"""The weights of safetensors folders: what is summed from the headers, and what is refused."""

import json
import os
import struct
import tracemalloc

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.sources.safetensors import BITS, Weights, folder_tensors, weigh
from kvcalc.sources.shards import INDEX

from .gguf_writer import safetensors_bytes


def tensors(*entries):
    """A header of tensors (name, dtype, shape, bytes), one after the other, and the length of their data."""
    header, end = {}, 0
    for name, dtype, shape, size in entries:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return header, end


def write(folder, name, *entries):
    """A safetensors file of these tensors."""
    header, end = tensors(*entries)
    (folder / name).write_bytes(safetensors_bytes({"__metadata__": {"format": "pt"}, **header}, end))


def index(folder, weight_map, name=INDEX):
    """An index of these tensors."""
    (folder / name).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def refused(folder):
    """The message for a folder, without the way to it."""
    with pytest.raises(KvcalcError) as caught:
        folder_tensors(str(folder))
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(f"{folder}/").removeprefix(f"{folder}: ")


A, B, C = ("a", "BF16", (2, 3), 12), ("b", "F32", (4,), 16), ("c", "BF16", (), 2)


def test_single_file(tmp_path):
    """A single file gives its bytes by dtype, the largest first, and the number of elements."""
    write(tmp_path, "model.safetensors", A, B, C)
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 14}, 30, 11)


def test_shards(tmp_path):
    """The shards that an index names are summed; tensors that it does not place there are left out."""
    write(tmp_path, "one.safetensors", A, B)
    write(tmp_path, "two.safetensors", B, C)
    index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 14}, 30, 11)


def test_copies_in_another_format_do_not_count(tmp_path):
    """Mistral's consolidated copies beside the model's files are no second model; alone they are the model."""
    write(tmp_path, "consolidated.safetensors", A, B)
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 12}, 28, 10)
    write(tmp_path, "model-00001-of-00002.safetensors", A)
    write(tmp_path, "model-00002-of-00002.safetensors", B)
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 12}, 28, 10)
    index(tmp_path, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 12}, 28, 10)


def test_consolidated_shards(tmp_path):
    """Consolidated shards are read by their own index, or as the set that they are."""
    write(tmp_path, "consolidated-00001-of-00002.safetensors", A)
    write(tmp_path, "consolidated-00002-of-00002.safetensors", B)
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16, "BF16": 12}, 28, 10)
    index(tmp_path, {"b": "consolidated-00002-of-00002.safetensors"}, "consolidated.safetensors.index.json")
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"F32": 16}, 16, 4)


def test_folders_without_weights(tmp_path):
    """A folder without a safetensors file, or with an adapter alone, has no weights to measure."""
    (tmp_path / "config.json").write_text("{}")
    assert folder_tensors(str(tmp_path)) == []
    write(tmp_path, "adapter_model.safetensors", A)
    assert folder_tensors(str(tmp_path)) == []


def test_another_name(tmp_path):
    """A file of any other name counts where it is the only one; of several none can be chosen."""
    write(tmp_path, "gptq_model-4bit.safetensors", A)
    assert weigh(folder_tensors(str(tmp_path))) == Weights({"BF16": 12}, 12, 6)
    write(tmp_path, "other.safetensors", A)
    assert refused(tmp_path) == (
        "*.safetensors: expected model.safetensors, or shards with model.safetensors.index.json, "
        "got gptq_model-4bit.safetensors, other.safetensors"
    )


def test_missing_shards(tmp_path):
    """A shard that is not there is named, whether an index or the names of the others tell of it."""
    write(tmp_path, "model-00001-of-00003.safetensors", A)
    write(tmp_path, "model-00003-of-00003.safetensors", B)
    assert refused(tmp_path) == "model-00002-of-00003.safetensors: expected a shard, got nothing"
    index(tmp_path, {"a": "model-00001-of-00003.safetensors", "c": "model-00002-of-00003.safetensors"})
    assert refused(tmp_path) == f"{INDEX}: model-00002-of-00003.safetensors: expected a shard, got nothing"
    index(tmp_path, {"a": "model-00003-of-00003.safetensors"})
    assert refused(tmp_path) == (
        f"{INDEX}: a: expected a tensor of model-00003-of-00003.safetensors, got nothing of that name"
    )


@pytest.mark.parametrize(
    "shard", ["../x.safetensors", "/etc/x.safetensors", "a/../../x", "..\\x", "C:x", "", ".", "a//b", "a\0b", 7, None, ["x"]]
)  # fmt: skip
def test_shards_outside_the_folder(tmp_path, shard):
    """An index cannot lead out of its folder."""
    index(tmp_path, {"a": shard})
    assert refused(tmp_path).startswith(f"{INDEX}: a: expected a file inside the folder, got ")


def test_shards_in_a_folder_and_behind_links(tmp_path):
    """Shards may lie in a folder inside, and links are followed: the hub's cache is made of them."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot" / "in").mkdir(parents=True)
    write(tmp_path / "blobs", "0123", A)
    os.symlink(tmp_path / "blobs" / "0123", tmp_path / "snapshot" / "in" / "x.safetensors")
    index(tmp_path / "snapshot", {"a": "in/x.safetensors"})
    assert weigh(folder_tensors(str(tmp_path / "snapshot"))) == Weights({"BF16": 12}, 12, 6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "weight_map: expected a mapping of tensors to files, got nothing"),
        ('{"weight_map": []}', "weight_map: expected a mapping of tensors to files, got a list"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "a: expected each key once, got a second one"),
        ("{", "header: expected JSON, got something else"),
        ("[" * 100_000, "header: expected JSON, got something else"),
        ('{"weight_map": ' + "1" * 5000 + "}", "header: expected JSON, got something else"),
    ],
)
def test_damaged_index(tmp_path, content, message):
    """An index that is no JSON, too deep, or without a mapping is refused."""
    (tmp_path / INDEX).write_text(content)
    assert refused(tmp_path) == f"{INDEX}: {message}"


def test_an_index_above_the_limits(tmp_path):
    """An index has at most 100 MB and 10,000 files, and names that a file can have; the large one here is sparse."""
    index(tmp_path, {f"t{i}": f"{i}.safetensors" for i in range(10_001)})
    assert refused(tmp_path) == f"{INDEX}: weight_map: expected at most 10,000 files, got 10001"
    index(tmp_path, {"t": "x" * 300})
    assert refused(tmp_path) == f"{'x' * 300}: File name too long"
    with (tmp_path / INDEX).open("wb") as file:
        file.truncate(100_000_001)
    assert refused(tmp_path) == f"{INDEX}: size: expected at most 100,000,000 bytes, got 100000001"


@pytest.mark.parametrize(("dtype", "bits"), BITS.items())
def test_dtypes(tmp_path, dtype, bits):
    """Each dtype of the format has its width, those below a byte included."""
    write(tmp_path, "model.safetensors", ("t", dtype, (8, 2), 2 * bits))
    assert weigh(folder_tensors(str(tmp_path))) == Weights({dtype: 2 * bits}, 2 * bits, 16)


T = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"[]", 0, "header: expected a mapping, got a list"),
        (b"{}" + b" " * 6, 1, "data: expected 0 bytes, got 1"),
        (b'{"a": 1}', 0, "a: expected a mapping, got 1"),
        (b"\xff\xfe", 0, "header: expected JSON, got something else"),
        ({"t": T}, 7, "data: expected 8 bytes, got 7"),
        ({"t": {**T, "dtype": "F3"}}, 8, "t: expected a dtype, one of BOOL, U8,"),
        ({"t": {**T, "dtype": ["F32"]}}, 8, "t: expected a dtype, one of BOOL, U8,"),
        ({"t": {**T, "shape": [3]}}, 8, "t: expected data_offsets for 3 elements of F32, got 0 to 8"),
        ({"t": {**T, "shape": [-2]}}, 8, "t: expected a shape of whole numbers, got a list"),
        ({"t": {**T, "shape": [2.0]}}, 8, "t: expected a shape of whole numbers, got a list"),
        ({"t": {**T, "shape": [True, 2]}}, 8, "t: expected a shape of whole numbers, got a list"),
        ({"t": {**T, "shape": [2**62, 2**62]}}, 8, "t: expected a shape of whole numbers, got a list"),
        ({"t": {**T, "shape": [1] * 65}}, 8, "t: expected a shape of whole numbers, got a list"),
        ({"t": {**T, "shape": "2"}}, 8, "t: expected a shape of whole numbers, got '2'"),
        ({"t": {**T, "data_offsets": [8, 0]}}, 8, "t: expected data_offsets for 2 elements of F32, got 8 to 0"),
        ({"t": {**T, "data_offsets": [0, 8, 9]}}, 8, "t: expected two data_offsets, got a list"),
        ({"t": {**T, "data_offsets": [4, 12]}}, 12, "t: expected data from byte 0 on, after the tensor before, got 4"),
        ({"t": T, "u": T}, 16, "u: expected data from byte 8 on, after the tensor before, got 0"),
        ({"t": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, 2, "t: expected data_offsets for 3 elements of F4"),
        ({"\x1b[2J": 1}, 0, "\\x1b[2J: expected a mapping, got 1"),
    ],
)  # fmt: skip
def test_headers_that_lie(tmp_path, header, data, message):
    """Shapes, dtypes and offsets that contradict each other or the file are refused with the tensor's name."""
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(header, data))
    assert refused(tmp_path).startswith(f"model.safetensors: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "size: expected 10 bytes or more, got an empty file"),
        (b"\x02\0\0", "size: expected 10 bytes or more, got 3"),
        (struct.pack("<Q", 3) + b"{}", "header length: expected 2 to 2, got 3"),
        (struct.pack("<Q", 2**64 - 1) + b"{}", "header length: expected 2 to 2, got 18446744073709551615"),
        (struct.pack("<Q", 0) + b"{}", "header length: expected 2 to 2, got 0"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "header: expected that of a safetensors file, got a Git LFS pointer",
        ),
    ],
)
def test_lying_lengths(tmp_path, content, message):
    """A header length that leads out of the file is refused before anything of that length is read."""
    (tmp_path / "model.safetensors").write_bytes(content)
    tracemalloc.start()
    found = refused(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.startswith(f"model.safetensors: {message}")
    assert peak < 1_000_000


def test_a_header_above_the_limit(tmp_path):
    """No header is longer than 100 MB, whatever the file's size; the file here is sparse."""
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(200_000_000)
    assert refused(tmp_path) == "model.safetensors: header length: expected 2 to 100,000,000, got 100000001"


def test_what_is_no_folder(tmp_path):
    """A missing folder, a pipe in place of a file, and a name that no folder can have are refused."""
    for folder, message in ((tmp_path / "no", "No such file or directory"), ("\0", "embedded null")):
        with pytest.raises(KvcalcError, match=message):
            folder_tensors(str(folder))
    os.symlink(tmp_path / "gone", tmp_path / "model.safetensors")
    assert refused(tmp_path) == "model.safetensors: no such file"
    os.unlink(tmp_path / "model.safetensors")
    os.mkfifo(tmp_path / "model.safetensors")
    assert refused(tmp_path) == "model.safetensors: expected a file"
