"""Work is bounded, and not only bytes: what a text of n parts costs grows like n, in steps that are counted and in memory.

No clock: Python's calls are counted, of its own functions and of those in C, for a text and for one four times as long.
"""

import gzip
import io
import json
import struct
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvcalc.cli.main import run
from kvcalc.commands.budget import ENTRY, MOST_WORK, Budget, OverBudgetError
from kvcalc.commands.manifests import read
from kvcalc.commands.words import split
from kvcalc.errors import KvcalcError
from kvcalc.preset import notation
from kvcalc.sources import jsonfile
from kvcalc.sources.packed import pieces
from kvcalc.sources.safetensors import folder_tensors

HEAD = "name: x-1\ndtype: bf16\nheads: 8\nkv_heads: 8\nhead_dim: 64\n"
FULL = HEAD + "layers: 4 full\n"
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 32, "torch_dtype": "bfloat16", "vocab_size": 32000, "intermediate_size": 14336,
    "max_position_embeddings": 8192, "architectures": ["LlamaForCausalLM"],
}  # fmt: skip


class Case(NamedTuple):
    """A text of n parts, and how it is given: behind `--`, as a preset, as a configuration, as a log."""

    form: str
    text: Callable[[int], str]


def config(**changes: object) -> str:
    return json.dumps({**LLAMA, **changes})


def starts(n: int) -> str:
    """A server that crashes and starts n times, each time with another length and number."""
    return "".join(
        f"INFO Initializing a V1 LLM engine (v0.9.0) with config: model='meta-llama/Meta-Llama-3-8B', max_seq_len={i}\n"
        f"GPU KV cache size: {1000 + i:,} tokens\nMaximum concurrency for 8,192 tokens per request: 1.00x\n"
        for i in range(1, n + 1)
    )


CASES = {
    "services": Case("--", lambda n: "services:\n" + "".join(
        f"  s{i}: {{image: vllm/vllm-openai, command: --model m{i}}}\n" for i in range(n))),
    "merges": Case("--", lambda n: "services:\n  v:\n    image: a\n    <<: [" + ",".join(
        f"{{k{i}: 1}}" for i in range(n)) + "]\n"),
    "images": Case("--", lambda n: "sudo " + "-x vllm/vllm-openai " * n),
    "images behind docker": Case("--", lambda n: "docker run " + "-x vllm/vllm-openai " * n + "-y vllm/vllm-openai"),
    "flags": Case("--", lambda n: "vllm serve a/b " + " ".join(f"--x{i}" for i in range(n))),
    "abbreviations": Case("--", lambda n: "vllm serve a/b " + "--max " * n),
    "fields": Case("--", lambda n: "vllm serve a/b " + " ".join(f"--hf-overrides.a{i} 1" for i in range(n))),
    "exported": Case("--", lambda n: "".join(f"export A{i}=1\n" for i in range(100)) + "a\n" * n),
    "heredocs": Case("--", lambda n: "".join(f"<<E{i}\nx\nE{i}\n" for i in range(n))),
    "words of a text": Case("--", lambda n: "services: {v: {image: a, command: '" + "a " * n + "'}}\n"),
    "one word of a text": Case("--", lambda n: "services: {v: {image: a, command: " + "a" * n + "}}\n"),
    "units": Case("--", lambda n: "[Unit]\nExecStart=x\n" * n),
    "unknown keys": Case("preset", lambda n: FULL + "".join(f"key{i}: 1\n" for i in range(n))),
    "unknown keys of a cache": Case("preset", lambda n: FULL + "caches:\n  full:\n" + "".join(
        f"    key{i}: 1\n" for i in range(n))),
    "caches that nobody names": Case("preset", lambda n: FULL + "caches:\n" + "".join(
        f"  cache{i}: {{kind: full}}\n" for i in range(n))),
    "names without a cache": Case("preset", lambda n: HEAD + "layers: " + "+".join(f"a{i}" for i in range(n)) + "\n"
        + "caches:\n" + "".join(f"  b{i}: {{kind: full}}\n" for i in range(n))),
    "heads that divide nothing": Case("preset", lambda n: HEAD + f"layers: {n} full\ncaches:\n  full:\n    kv_heads: "
        + str([9 + i for i in range(n)]) + "\n" + "".join(f"    key{i}: 1\n" for i in range(n))),
    "blanks in layers": Case("preset", lambda n: HEAD + f"layers: '4 full{' ' * n}'\n"),
    "digits in layers": Case("preset", lambda n: HEAD + f"layers: '{'1' * n}!'\n"),
    "architectures": Case("config", lambda n: config(architectures=[f"A{i}ForCausalLM" for i in range(n)])),
    "an architecture": Case("config", lambda n: config(architectures=["ForB" * n + "!"])),
    "keys": Case("config", lambda n: config(**{f"x{i}": {"a": 1} for i in range(n)})),
    "starts": Case("log", lambda n: starts(n // 4)),
    "marks": Case("log", lambda n: "n_ctx\n" * n),
    "marks behind carriage returns": Case("log", lambda n: "GPU KV cache size\r" * n),
}  # fmt: skip


def steps(call: Callable[[], object]) -> int:
    """Calls that are made within another one, of Python's functions and of those in C."""
    counted = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return counted


def asked(case: Case, n: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """The question about a case's text of n parts."""
    content = case.text(n).encode()
    if case.form == "--":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return lambda: run(["--", "-"])
    path = folder / f"x{n}.{ {'preset': 'yaml', 'config': 'json', 'log': 'log'}[case.form] }".replace(" ", "")
    path.write_bytes(content)
    return lambda: run(["check", str(path)] if case.form == "log" else [str(path)])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_work_grows_like_the_text(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four times the parts are at most some five times the steps; with the square of them it would be sixteen times."""
    asked(case, 100, tmp_path, monkeypatch)()  # what is imported and kept is not of the text
    one, four = (steps(asked(case, n, tmp_path, monkeypatch)) for n in (100, 400))
    assert four <= 5.5 * one
    assert capsys.readouterr().err.count("kvcalc: error: ") <= 3


def peak_of(call: Callable[[], object]) -> int:
    """The most memory that Python's objects took during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


VARIABLES = "e: &e {" + ",".join(f"k{i}: 1" for i in range(1100)) + "}\nservices:\n"
MULTIPLIED = {
    "variables for each service": VARIABLES + "".join(f"  s{i}: {{image: a, environment: *e}}\n" for i in range(1100)),
    "macros for each service": "macros: {" + ",".join(f"k{i}: 1" for i in range(1100)) + "}\nservices:\n"
    + "".join(f"  s{i}: {{image: a}}\n" for i in range(1100)),
    "words for each service": "e: &e [" + "x," * 2000 + "x]\nservices:\n"
    + "".join(f"  s{i}: {{image: a, command: *e}}\n" for i in range(1100)),
    "a value in each word": "services:\n  v:\n    image: a\n    command: [" + "$A," * 2000 + "$A]\nmacros:\n  A: " + "x" * 2000,
    "a value in each word of a unit": "[Service]\nEnvironment=A=" + "x" * 2000 + "\nExecStart=vllm serve m " + "$A " * 2000,
    "a value in each word of a pod": "containers:\n- image: a\n  env:\n  - {name: A, value: " + "x" * 2000 + "}\n  args: ["
    + "$(A)," * 2000 + "x]\n",
    "a value in each line": "A=" + "x" * 2000 + "\n" + "echo $A\n" * 2000,
    "shells in words": "A='" + "x " * 1000 + "'\n" + 'sudo -x "$A" bash -c "$A $A"\n' * 1000,
    "variables for each inner shell": "env " + " ".join(f"A{i}=1" for i in range(1100)) + " " + "-x 'a b' " * 2000,
    "texts within": "<<E\na: b\nE\n" * 8000,
}  # fmt: skip


@pytest.mark.parametrize("text", MULTIPLIED.values(), ids=MULTIPLIED)
def test_what_multiplies_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """2,000 of one times 2,000 of another would be 4 million: the budget of a text ends it in one line, in 20 MB."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status: list[int] = []
    peak = peak_of(lambda: status.append(run(["--", "-"])))
    err = capsys.readouterr().err
    assert (status, err.splitlines()[0]) == (
        [2], f"kvcalc: error: <stdin>: expected at most {MOST_WORK:,} characters from its variables and from texts within it",
    )  # fmt: skip
    assert peak < 100 * len(text) + 20_000_000


def test_one_budget_counts_all_of_a_text() -> None:
    """Two services with 3 variables cost 4 characters for each: 24, and 24 more where other forms are looked for in
    them; their words cost what they are long and 4 each.
    """
    text = b"e: &e {a: 1, b: 2, c: 3}\nservices:\n  s: {image: x, environment: *e}\n  t: {image: x, environment: *e}\n"
    budget = Budget("x")
    read(text, "x", {}, budget)
    assert MOST_WORK - budget.left == 2 * (2 * 3 * ENTRY)
    with pytest.raises(OverBudgetError, match=r"^x: expected at most"):
        read(text, "x", {}, Budget("x", 23))
    budget = Budget("x")
    read(b"services:\n  s: {image: x, command: [abc, de, $F]}\nmacros: {F: 1234567}\n", "x", {}, budget)
    assert MOST_WORK - budget.left == ENTRY + (3 + ENTRY) + (2 + ENTRY) + (2 + ENTRY) + 7  # and one macro


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []), ("  \n", []), ("a  b\tc\nd", ["a", "b", "c", "d"]), ("'a b' \"c d\"", ["a b", "c d"]), ("a''b \"\"", ["ab", ""]),
        (r"a\ b \"c", ["a b", '"c']), (r'"a\"b\\c\d"', [r"a\"b\c\d".replace(r"\"", '"')]), (r"'a\b'", [r"a\b"]), ("x='a b'c", ["x=a bc"]),
    ],
)  # fmt: skip
def test_words_are_those_of_a_shell(text: str, words: list[str]) -> None:
    """POSIX, Shell & Utilities 2.2: within double quotes a backslash stands for itself but before a quote or another."""
    assert split(text) == words


@pytest.mark.parametrize("text", ["'a", '"a', "a\\", 'a "b\\"', "x 'y' \"z"])
def test_an_open_quote_is_refused(text: str) -> None:
    """And so is a backslash before nothing."""
    with pytest.raises(ValueError, match="quote"):
        split(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4096 " + "+".join(["full"] * 20), "expected at most 65,536 names of caches in all layers"),
        ("16 x (256 " + "+".join(["full"] * 17) + ")", "expected at most 65,536 names"),
    ],
)
def test_names_of_all_layers_are_bounded(text: str, says: str) -> None:
    """A short text could name 4,096 x 20,000 caches."""
    with pytest.raises(ValueError, match=says):
        notation.expand(text)
    assert len(notation.expand("4096 " + "+".join(["full"] * 16))) == 4096


def test_letters_of_a_pattern_are_bounded() -> None:
    """As are names that stand for letters."""
    with pytest.raises(ValueError, match="names of caches"):
        notation.expand_pattern("a" * 4096, {"a": "+".join(["full"] * 20)})


SMALL = {
    "lists": "[]", "mappings": "{}", "entries": '{"a": 1}', "texts": '"ab"', "lists of one": "[1]", "numbers": "1000",
}  # fmt: skip


@pytest.mark.parametrize("value", SMALL.values(), ids=SMALL)
def test_a_configuration_takes_ten_times_its_size(value: str) -> None:
    """Small values take up to 26 times their text in memory; too many of them are refused before they are made.

    32 MB of any values are allowed, since a small file costs little.
    """
    content = b'{"x": [' + b",".join([value.encode()] * (6_000_000 // (len(value) + 1))) + b"]}"

    def parse() -> None:
        with suppress(KvcalcError):
            jsonfile.parse_object(content, "c.json")

    assert peak_of(parse) < 10 * len(content) + 32 * 2**20


def test_a_long_list_of_modules_is_a_configuration() -> None:
    """MiniMax-M3's published file has 3 MB of them, each name some 60 characters long."""
    modules = [f"language_model.model.layers.{i % 60}.block_sparse_moe.experts.{i}.w1" for i in range(45_000)]
    content = json.dumps({"quantization_config": {"ignored_layers": modules}}, indent=2).encode()
    assert len(content) > 3_000_000
    assert jsonfile.parse_object(content, "c.json")["quantization_config"] == {"ignored_layers": modules}


def header(folder: Path, text: bytes, data: int = 0) -> int:
    """A safetensors file with that header, and its length."""
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + data)
    return len(text)


HEADERS = {
    "lists in a tensor": b'{"a":[' + b"[]," * 200_000 + b"1]}",
    "lists in an entry": b'{"a":{"dtype":"F32","shape":[' + b"[]," * 200_000 + b'1],"data_offsets":[0,4]}}',
    "mappings": b"{" + b",".join(b'"%d":{}' % i for i in range(40_000)) + b"}",
    "metadata": b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(40_000)) + b"}}",
    "nested": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
def test_a_header_takes_ten_times_its_size(tmp_path: Path, text: bytes) -> None:
    """A header is read tensor by tensor, and nothing is made of what is no tensor."""
    length = header(tmp_path, text)

    def tensors() -> None:
        with suppress(KvcalcError):
            folder_tensors(str(tmp_path))

    assert peak_of(tensors) < 10 * length


def test_a_real_header_takes_ten_times_its_size(tmp_path: Path) -> None:
    """20,000 tensors named and shaped as those of DeepSeek V3, 2048 x 7168 elements in one byte each."""
    size = 2048 * 7168
    entries = {
        f"model.layers.3.mlp.experts.{i}.down_proj.weight": {
            "dtype": "F8_E4M3", "shape": [7168, 2048], "data_offsets": [i * size, (i + 1) * size],
        }
        for i in range(20_000)
    }  # fmt: skip
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}, separators=(",", ":")).encode()
    length = header(tmp_path, text, 20_000 * size)
    found: list[int] = []
    peak = peak_of(lambda: found.append(sum(tensor.bytes for tensor in folder_tensors(str(tmp_path)))))
    assert found == [20_000 * size]
    assert peak < 10 * length


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"__metadata__":{},}', "header: expected JSON"), (b'{"a":{} "b":{}}', "a: expected a dtype"), (b'{"a"}', "header: expected JSON"),
        (b'{"__metadata__":{"a":"b",}}', "header: expected JSON"), (b'{"__metadata__":{"a":"}"}} x', "header: expected JSON"),
        (b"{ ", "header: expected JSON"), (b'{"a":{"dtype":"}"}}', "header: expected JSON"), (b'{,"a":1}', "header: expected JSON"),
        (b'{"a":[1]}', "a: expected a mapping, got a list"), (b'{"a":{"x":"' + b"x" * 5000 + b'"}}', "a: expected at most 4,096 characters"),
        (b'{"__metadata__":{},"__metadata__":{}}', "__metadata__: expected each key once"),
    ],
)  # fmt: skip
def test_a_header_is_still_json(tmp_path: Path, text: bytes, says: str) -> None:
    """Read member by member, each comma and bracket must be where JSON has it."""
    header(tmp_path, text)
    with pytest.raises(KvcalcError) as caught:
        folder_tensors(str(tmp_path))
    assert caught.value.message.removeprefix(f"{tmp_path}/model.safetensors: ").startswith(says)


def test_metadata_may_be_long_and_have_any_marks(tmp_path: Path) -> None:
    """Trainers put whole JSON texts into it, with brackets and commas of their own."""
    own = json.dumps({"tags": [{"a": [1, 2]}] * 1000, "x": "}"})
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header(tmp_path, json.dumps({"__metadata__": {"ss": own, "b": "c"}, "t": entry}, indent=1).encode(), 8)
    assert [tensor.name for tensor in folder_tensors(str(tmp_path))] == ["t"]


def test_a_small_packed_log_does_not_unpack_to_a_gigabyte() -> None:
    """1,000 times its size is what a megabyte of gzip can hold: it ends behind 100 times, and 64 MB."""
    packed = gzip.compress(bytes(80_000_000))
    read_so_far: list[int] = []
    with pytest.raises(KvcalcError, match=r"^x\.gz: unpacks to more than a log may have$"):
        read_so_far.extend(map(len, pieces(io.BytesIO(packed), 1 << 20, "x.gz")))
    assert sum(read_so_far) <= 2**26 + 100 * len(packed)


def test_a_crash_loop_is_checked_as_far_as_its_work_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of 500 starts contradicts its prediction; those behind the work of a log are named, and not judged."""
    path = tmp_path / "x.log"
    path.write_text(starts(500).replace("max_seq_len", "kv_cache_dtype=auto, max_seq_len"))
    assert run(["check", str(path), "--json", "--kv-memory", "1GiB"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert 10 < len(document["runs"]) < 500
    assert any("more starts could not be checked" in each for each in document["warnings"])


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine may be smaller than the input."""

    def exhausted(_: str, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kvcalc.library.loader.load", exhausted)
    assert run(["llama3-70b"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == (
        "",
        "kvcalc: error: the memory of this machine does not suffice for the input",
    )
