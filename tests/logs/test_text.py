"""The lines of a log that matter, whatever stands around them, and however hostile the rest is."""

import gzip
import importlib
import io
import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.logs.text import LONGEST_LINE, MOST_LINES, MarkedLine, Marks, marked_lines
from kvcalc.sources.packed import pieces

MARKS = Marks(("engine starts",), ("cache size:",), ("page of",))
LINE = "INFO cache size: 12,345 tokens"


def found(log: bytes, marks: Marks = MARKS) -> list[MarkedLine]:
    return list(marked_lines(io.BytesIO(log), marks))


WRAPPED = {
    "plain": LINE,
    "carriage returns": LINE + "\r",
    "a progress bar before it": f"Loading:  10%|#   |\rLoading: 100%|####|\r{LINE}",
    "docker compose": f"\x1b[36mvllm-1  | \x1b[0m{LINE}",
    "a coloured word in it": LINE.replace("cache", "\x1b[01;31m\x1b[Kcache\x1b[m\x1b[K"),
    "a hyperlink's title": f"\x1b]0;title\x07{LINE}",
    "containerd": f"2026-04-19T12:09:28.974563812Z stderr F {LINE}",
    "systemd": f"Oct 01 05:19:31 host vllm[394624]: {LINE}",
    "docker": json.dumps({"log": LINE + "\n", "stream": "stderr", "time": "2026-04-19T12:09:28Z"}),
    "a logger of JSON": json.dumps({"level": "INFO", "message": LINE, "extra": {"pid": 1}}),
    "both": json.dumps({"kubernetes": {"pod": "a-0"}, "log": json.dumps({"message": LINE})}),
    "JSON behind a name": "a-0 vllm " + json.dumps({"message": LINE}),
    "escaped colours": json.dumps({"log": f"\x1b[0;36m(EngineCore pid=9)\x1b[0;0m {LINE}\n"}),
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
def test_what_stands_around_a_line_is_taken_off(wrapped: str) -> None:
    """Containers, collectors and terminals change nothing in what an engine said, and not where it stands."""
    lines = found(f"first\nsecond\n{wrapped}\nlast\n".encode())
    assert [(line.number, LINE in line.text, "\x1b" in line.text) for line in lines] == [(3, True, False)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding: str) -> None:
    """PowerShell writes UTF-16, and editors a mark in front, or none."""
    assert [line.number for line in found(f"first\n{LINE}\n".encode(encoding))] == [2]


@pytest.mark.parametrize("at", [3, 15, 25])
def test_parts_of_a_line_are_put_together(at: int) -> None:
    """Docker and containerd cut what is longer than 16 KiB, and write each part as a line."""
    parts = (LINE[:at], LINE[at:20], LINE[20:]) if at < 20 else (LINE[:20], LINE[20:at], LINE[at:])
    time = "2026-04-19T12:09:28.974563812Z"
    containerd = "".join(f"{time} stderr {'F' if i == 2 else 'P'} {part}\n" for i, part in enumerate(parts))
    docker = "".join(
        json.dumps({"log": part + "\n" * (i == 2), "stream": "stderr", "time": time}, separators=(",", ":")) + "\n"
        for i, part in enumerate(parts)
    )
    marks = Marks((LINE[:3],), (), ())
    for log in (containerd, docker):
        lines = found(f"first\n{log}{time} stderr F last\n".encode(), marks)
        assert [(line.number, LINE in line.text, "last" in line.text) for line in lines] == [(2, True, False)]


def test_carriage_returns_alone_end_lines() -> None:
    """What a program printed between two of them is one line."""
    lines = found(f"first\r{LINE}\rsecond {LINE}\rlast\r".encode())
    assert [line.text for line in lines] == [LINE, f"second {LINE}"]


@pytest.mark.parametrize("cut", [0, 1, 5, 9])
def test_a_log_may_begin_and_end_anywhere(cut: int) -> None:
    """A line that is whole counts even if the ones around it are cut."""
    log = f"0123456789\n{LINE}\n0123456789\n".encode()
    assert [line.text for line in found(log[cut : len(log) - cut])] == [LINE]
    assert [line.text for line in found(LINE.encode())] == [LINE]


def test_lines_are_numbered_over_all_pieces() -> None:
    """Numbers count from the start of a log of several megabytes."""
    filler = b"a request was answered\n" * 300_000
    assert [line.number for line in found(filler + LINE.encode() + b"\n" + filler + LINE.encode())] == [
        300_001,
        600_002,
    ]


def test_facts_are_looked_for_near_a_start() -> None:
    """Far from an engine's start only what it counts is looked for, and behind the next start all again."""
    filler = b"a request was answered\n" * 1_000_000
    near = f"a page of it\n{LINE}\n".encode()
    lines = found(near + filler + near + filler + b"engine starts\n" + near)
    texts = ["a page of it", LINE]
    assert [line.text for line in lines] == [*texts, LINE, "engine starts", *texts]


@pytest.mark.parametrize(
    "log",
    [b"", b"\0" * 3_000_000, bytes(range(256)) * 10_000, b"\xff\xfe" + b"\xd8" * 99_999, b"\n" * 100_000, b"x" * 5_000_000,
     b"\x1b[" * 500_000, b'{"' * 30_000],
    ids=["empty", "zeros", "all bytes", "half of UTF-16", "empty lines", "one line", "escapes", "braces"],
)  # fmt: skip
def test_what_is_no_log_has_no_lines(log: bytes) -> None:
    """Nothing is found in what is no text, and nothing fails."""
    assert found(log) == []


def test_a_line_without_an_end_is_cut() -> None:
    """Of a line of megabytes only the beginning is read, and the next line counts as the next."""
    beginning, late = f"{LINE} ".encode(), b" cache size: 9"
    lines = found(beginning + b"x" * 5_000_000 + late + b"\n" + LINE.encode() + b"\n")
    assert [(line.number, line.text[: len(LINE)]) for line in lines] == [(1, LINE), (2, LINE)]
    assert max(len(line.text) for line in lines) <= LONGEST_LINE


def test_deep_json_is_text() -> None:
    """Braces without end are no reason to fail."""
    deep = '{"a":' * 10_000 + f'"{LINE}"' + "}" * 10_000
    assert [line.number for line in found(deep.encode())] == [1]


def test_marks_without_end_are_bounded() -> None:
    """A log of nothing but marks is left after a bounded number of them."""
    assert len(found(f"{LINE}\n".encode() * (MOST_LINES + 5))) == MOST_LINES


CHILD = """\
import re, sys
from kvcalc.cli.main import run
status = run(["check", sys.argv[1], "-q"])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(status, int(peak[1]) // 1024, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read where Linux shows it")
@pytest.mark.parametrize("filler", [b"a request was answered\n", b"x"], ids=["lines", "one line"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, filler: bytes) -> None:
    """A log of 100 MB, of lines or of one, takes less than 100 MB of memory (bench/check_log.py measures the time)."""
    log, start = tmp_path / "large.log", (Path(__file__).parent / "vllm-llama3.3-70b.log").read_bytes()
    with log.open("wb") as file:
        for _ in range(100):
            file.write(filler * (1_000_000 // len(filler)))
        file.write(b"\n" + start)
    done = subprocess.run([sys.executable, "-c", CHILD, str(log)], capture_output=True, text=True, check=True)
    status, memory = map(int, done.stderr.splitlines()[-1].split())
    assert (done.stdout, status) == ("match\n", 0)
    assert memory < 100


def test_a_packed_log_is_read_as_it_was() -> None:
    """A rotated log, or several of them one behind the other, need not be unpacked; neither need UTF-16."""
    text = b"noise\n" * 400_000 + b"a MARK\n"
    halves = gzip.compress(text[:1_000_000]) + gzip.compress(text[1_000_000:]) + bytes(512)
    assert list(marked_lines(io.BytesIO(halves), Marks(("MARK",), (), ()))) == [MarkedLine(400_001, "a MARK")]
    other = gzip.compress("a MARK\n".encode("utf-16"))
    assert [each.text for each in marked_lines(io.BytesIO(other), Marks(("MARK",), (), ()))] == ["a MARK"]
    cut = gzip.compress(b"a MARK\n" * 2)[:-8]  # without its check sum, as a full disk leaves it
    assert len(list(marked_lines(io.BytesIO(cut), Marks(("MARK",), (), ())))) == 2


def test_a_faulty_packed_log_is_refused() -> None:
    """What only looks packed, or unpacks without an end, is refused in a line with the name of the file."""
    with pytest.raises(KvcalcError, match=r"^x\.gz: expected a log packed by gzip"):
        list(marked_lines(io.BytesIO(b"\x1f\x8b\x08\0" * 50_000), Marks(("MARK",), (), ()), "x.gz"))
    bomb = io.BytesIO(gzip.compress(bytes(1 << 22)))
    found = pieces(bomb, 1 << 16, "x.gz", most=1 << 20)
    with pytest.raises(KvcalcError, match=r"^x\.gz: unpacks to more"):
        assert [len(piece) for piece in found] == [1 << 16] * 16  # no piece is larger than asked for


# Zstandard's frame of RFC 8878: a magic number, a header with the size of the content, and blocks, here as they stand
# (type 0) or one byte many times (type 1). The last block has the lowest bit of its header set.
def zstd_frame(content: bytes) -> bytes:
    """A frame of one block that is not compressed, of at most 255 bytes."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(content)]) + (len(content) << 3 | 1).to_bytes(3, "little") + content


def zstd_bomb(blocks: int) -> bytes:
    """A frame with a window of 128 KiB, which unpacks to so many times 128 KiB of one byte."""
    block, last = (((1 << 17) << 3 | 1 << 1 | end).to_bytes(3, "little") + b"x" for end in (0, 1))
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (blocks - 1) + last


def unpacks_zstd() -> bool:
    names = ("compression.zstd", "backports.zstd", "pyzstd", "zstandard")
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        return True
    return False


def test_a_log_packed_by_xz_is_read_as_it_was() -> None:
    """Streams may follow each other, with zeros in multiples of 4 behind them (section 2 of the format)."""
    text = b"noise\n" * 400_000 + b"a MARK\n"
    halves = lzma.compress(text[:1_000_000]) + bytes(8) + lzma.compress(text[1_000_000:])
    assert list(marked_lines(io.BytesIO(halves), Marks(("MARK",), (), ()))) == [MarkedLine(400_001, "a MARK")]
    with pytest.raises(KvcalcError, match=r"^x\.xz: expected a log packed by xz"):
        list(pieces(io.BytesIO(b"\xfd7zXZ\x00" + b"\xff" * 50_000), 1 << 16, "x.xz"))
    found = pieces(io.BytesIO(lzma.compress(bytes(1 << 22))), 1 << 16, "x.xz", most=1 << 20)
    with pytest.raises(KvcalcError, match=r"^x\.xz: unpacks to more"):
        assert max(len(piece) for piece in found) <= 1 << 16


@pytest.mark.skipif(
    not unpacks_zstd(), reason="no library for Zstandard: Python 3.14 has one, or pip install zstandard"
)
def test_a_log_packed_by_zstd_is_read_as_it_was() -> None:
    """Frames may follow each other, and are unpacked in parts of bounded size."""
    two = zstd_frame(b"noise\na MARK\n") + zstd_frame(b"another MARK\n")
    lines = list(marked_lines(io.BytesIO(two), Marks(("MARK",), (), ())))
    assert [(line.number, line.text) for line in lines] == [(2, "a MARK"), (3, "another MARK")]
    assert sum(map(len, pieces(io.BytesIO(zstd_bomb(100)), 1 << 20, "x.zst"))) == 100 << 17
    with pytest.raises(KvcalcError, match=r"^x\.zst: expected a log packed by zstd"):
        list(pieces(io.BytesIO(b"\x28\xb5\x2f\xfd" + b"\xff" * 50_000), 1 << 16, "x.zst"))
    with pytest.raises(KvcalcError, match=r"^x\.zst: unpacks to more"):
        assert list(pieces(io.BytesIO(zstd_bomb(1 << 14)), 1 << 20, "x.zst", most=1 << 24))


def test_zstd_without_a_library_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has none before 3.14: the way out is named."""
    for name in ("compression.zstd", "backports.zstd", "pyzstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(KvcalcError, match=r"^x\.zst: a log packed by Zstandard") as caught:
        list(pieces(io.BytesIO(zstd_frame(b"a MARK\n")), 1 << 16, "x.zst"))
    assert "zstd -dc FILE | kvcalc check -" in (caught.value.hint or "")
