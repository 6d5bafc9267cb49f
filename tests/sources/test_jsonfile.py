"""Reading raw JSON: what published files have that strict JSON lacks, and hostile files, one line each."""

import math
from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.sources import jsonfile


def test_bare_infinity() -> None:
    """Published Nemotron-H files have a bare Infinity, which is a float here, as is NaN."""
    data = jsonfile.parse_object(b'{"time_step_limit": [0.0, Infinity], "x": NaN, "y": -Infinity}', "c.json")
    assert data["time_step_limit"] == [0.0, math.inf]
    assert math.isnan(data["x"])  # type: ignore[arg-type]
    assert data["y"] == -math.inf


def test_byte_order_mark() -> None:
    """A byte order mark before the object is skipped."""
    assert jsonfile.parse_object(b'\xef\xbb\xbf{"a": 1}', "c.json") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": {"n": 1, "m": 2, "n": 1}}', "c.json: n: expected each key once, got it twice in one object"),
        (b"<!doctype html><html>", "c.json: expected JSON, got a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "c.json: expected JSON, got a Git LFS pointer"),
        (b"GGUF\3\0\0\0", "c.json: expected JSON, got a GGUF file"),
        (b'{"a": 1,\n "b": }', "c.json:2: expected JSON, got what is none: Expecting value"),
        (b"", "c.json:1: expected JSON, got what is none: Expecting value"),
        (b"[1]", "c.json: expected a JSON object, got a list"),
        (b"null", "c.json: expected a JSON object, got nothing"),
        (b"Infinity", "c.json: expected a JSON object, got a number"),
        (b'"text"', "c.json: expected a JSON object, got 'text'"),
        (b'{"a":\n "\xff"}', "c.json:2: expected UTF-8 text"),
        (b'{"a": ' + b"9" * 5000 + b"}", "c.json: expected numbers of at most 1,000 digits"),
        (b'{"a": 0.' + b"9" * 5000 + b"}", "c.json: expected numbers of at most 1,000 digits"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "c.json: expected fewer levels of nesting"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "c.json: expected fewer levels of nesting"),
    ],
    ids=[
        "repeated",
        "web page",
        "pointer",
        "gguf",
        "syntax",
        "empty",
        "list",
        "null",
        "number",
        "text",
        "utf-8",
        "digits",
        "decimals",
        "lists",
        "deep",
    ],
)
def test_refused(content: bytes, message: str) -> None:
    """Each fault is one line with the file, the line or the key, and what was expected; and there is a way out."""
    with pytest.raises(KvcalcError) as caught:
        jsonfile.parse_object(content, "c.json")
    assert caught.value.message == message
    assert caught.value.hint


def test_hostile_names_are_escaped() -> None:
    """A control character in a key or in the file's name reaches no terminal."""
    with pytest.raises(KvcalcError) as caught:
        jsonfile.parse_object(b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', "\x1b[31mc.json")
    assert caught.value.message.isprintable()


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read, one that is too large or missing is refused by its name."""
    path = tmp_path / "config.json"
    path.write_bytes(b'{"model_type": "llama"}')
    assert jsonfile.read_object(str(path)) == {"model_type": "llama"}
    with pytest.raises(KvcalcError, match=r"absent.json: No such file"):
        jsonfile.read_object(str(tmp_path / "absent.json"))
    monkeypatch.setattr(jsonfile, "MOST_JSON_BYTES", 10)
    with pytest.raises(KvcalcError, match=r"config.json: expected at most 10 bytes"):
        jsonfile.read_object(str(path))
    with pytest.raises(KvcalcError, match=r"c.json: expected at most 10 bytes"):
        jsonfile.parse_object(path.read_bytes(), "c.json")
