"""Files of requests: the columns of public traces, their units, what is left out, and what is refused with its line."""

import gzip
import lzma
from array import array
from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.sources.traces.reader import TraceFile, read_trace


@pytest.fixture
def read(tmp_path: Path) -> "object":
    def from_text(text: str | bytes, unit: str | None = None) -> TraceFile:
        path = tmp_path / "trace"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_trace(str(path), "trace", unit=unit)

    return from_text


# Heads and units as the traces' own READMEs have them: AzurePublicDataset, HPMLL/BurstGPT, kvcache-ai/Mooncake,
# alibaba-edu/qwen-bailian-usagetraces-anon, microsoft/vidur, mutinifni/splitwise-sim.
PUBLIC = {
    "azure": (("TIMESTAMP,ContextTokens,GeneratedTokens\n"
              "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"), 4.314579, (374, 44)),
    "burstgpt": (("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                 "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n"), 40, (472, 18)),
    "mooncake": (('{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
                 '{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}\n'), 3, (6758, 500)),
    "bailian": (('{"chat_id": 1, "timestamp": 2.5, "input_length": 9, "output_length": 5, "hash_ids": [1]}\n'
                '{"chat_id": 1, "timestamp": 4, "input_length": 9, "output_length": 5, "hash_ids": [1]}\n'), 1.5, (9, 5)),
    "vidur": ("arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,7\n0.75,90,8\n", 0.25, (100, 7)),
    "splitwise": ("request_id,arrival_timestamp,prompt_size,token_size\n0,1,100,7\n1,3,90,8\n", 2, (100, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_public_traces_need_no_unit(name: str, read) -> None:  # type: ignore[no-untyped-def]
    """Seconds of the wall clock, of BurstGPT, of vidur; milliseconds of Mooncake."""
    text, later, first = PUBLIC[name]
    trace = read(text).trace
    assert list(trace.arrivals) == pytest.approx([0, later])
    assert (trace.prompts[0], trace.outputs[0]) == first


def test_blocks_are_as_long_as_the_format_says(read) -> None:  # type: ignore[no-untyped-def]
    """512 tokens in Mooncake's, 16 in Qwen-Bailian's; sessions are numbered."""
    mooncake, bailian = read(PUBLIC["mooncake"][0]).trace, read(PUBLIC["bailian"][0]).trace
    assert (mooncake.prefixes.tokens, mooncake.prefixes.blocks) == (512, [(0, 1), (0, 14)])
    assert (bailian.prefixes.tokens, list(bailian.sessions)) == (16, [0, 0])


def test_rows_are_sorted_and_faulty_ones_counted(read) -> None:  # type: ignore[no-untyped-def]
    """The third line has no tokens out, the fourth none that is a number; the fifth is earlier than the second."""
    found = read("time,in,out\n9,5,5\n9,5,0\n9,x,5\n4,6,7\n", "s")
    assert list(found.trace.arrivals) == [0, 5]
    assert list(found.trace.prompts) == [6, 5]
    assert found.unsorted == 2
    assert {(each.reason, each.rows, each.first) for each in found.dropped} == {
        ("no tokens in or none out", 1, 3),
        ("no whole number of tokens", 1, 4),
    }


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_packed(pack, read) -> None:  # type: ignore[no-untyped-def]
    """By what the bytes are, whatever the file is called."""
    assert read(pack(b"time,in,out\r\n0,5,6\r\n1,7,8\r\n"), "ms").trace.arrivals == array("d", [0, 0.001])


def test_parquet(tmp_path: Path) -> None:
    """The same rows in columns."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    from pyarrow import parquet

    table = pyarrow.table({"arrived_at": [0.0, 2.0], "num_prefill_tokens": [4, 5], "num_decode_tokens": [6, 7]})
    parquet.write_table(table, tmp_path / "trace.parquet")
    trace = read_trace(str(tmp_path / "trace.parquet"), "trace.parquet").trace
    assert (list(trace.arrivals), list(trace.prompts), list(trace.outputs)) == ([0, 2], [4, 5], [6, 7])


REFUSED = {
    "nothing": ("", "trace: expected requests, got nothing"),
    "a head alone": ("time,in,out\n", "trace: expected requests, got no row"),
    "no column": ("time,out\n1,2\n", "trace: no column is the tokens of the prompt"),
    "two candidates": ("time,in,input_tokens,out\n1,2,2,3\n", "'in' and 'input_tokens' may both be"),
    "two times": ("t,time,in,out\n1,2,2,3\n", "'t' and 'time' may both be"),
    "no unit": ("time,in,out\n1,2,3\n", "whether its times are seconds or milliseconds is not stated"),
    "before the start": ("arrived_at,num_prefill_tokens,num_decode_tokens\n-1,2,3\n", "trace:2: expected a time"),
    "no time": ("arrived_at,num_prefill_tokens,num_decode_tokens\n1,2,3\nnan,2,3\n", "trace:3: expected a time"),
    "no date": ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:15:46,2,3\n", "trace:2: expected a date"),
    "none that can be": ("time,in,out\n1,0,3\n", "got none that can be: 1 with no tokens in or none out"),
    "half a document": ('{"timestamp": 0, "input_length": 1,\n', "trace:1: expected a JSON object"),
    "a list": ('{"t": 1, "in": 1, "out": 1}\n[1]\n', "trace:2: expected a JSON object"),
    "blocks that are none": ('{"t": 1, "in": 1, "out": 1, "hash_ids": "a"}\n', "trace:1: expected a list of block ids"),
    "no text": (b"\xff\xfe\x00\x01,\n", "trace:1: expected text in UTF-8"),
    "one column": ("hello\nworld\n", "trace:1: expected the names of columns"),
    "an open quote": ('time,in,out\n"1,2,3\n', "trace:2: expected values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_is_refused_with_its_line(name: str, read) -> None:  # type: ignore[no-untyped-def]
    """One line that names the row and what was expected."""
    text, expected = REFUSED[name]
    with pytest.raises(KvcalcError) as caught:
        read(text, "s" if name in ("two candidates", "two times", "none that can be", "blocks that are none", "a list")
             else None)  # fmt: skip
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


AGENT = """{"request_id": "a", "session_id": "s", "timestamp": 1000, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}
{"request_id": "b", "session_id": "t", "timestamp": 1500, "input_length": 600, "output_length": 9, "hash_ids": [1, 3]}
{"request_id": "c", "session_id": "s", "input_length": 700, "output_length": 5, "hash_ids": [1, 2], "wait_for": ["a"],
 "delay": 2, "tool_wait_ms": 3998}
{"request_id": "d", "session_id": "s", "input_length": 900, "output_length": 5, "hash_ids": [1, 2], "delay": 1000}
""".replace(",\n ", ", ")


def test_turns_come_after_the_answers_before_them(read) -> None:  # type: ignore[no-untyped-def]
    """Dynamo's agentic form: a row without a time comes its delay and its tools' time after the row that it names, or the
    one before it of its session; both are milliseconds, and their sum is the gap that was seen.
    """
    found = read(AGENT).trace
    assert list(found.arrivals) == [0, 0.5, 4.0, 5.0]
    assert found.turns is not None
    assert list(found.turns.after) == [-1, -1, 0, 2]
    assert list(found.turns.think) == [0, 0, 4.0, 1.0]
    assert found.prefixes is not None
    assert found.prefixes.blocks[1] == (1, 3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["a"]', '["z"]', "no earlier row"),
        ('["a"]', '["a", "b"]', "several"),
    ],
)
def test_turns_that_wait_for_nobody(old: str, new: str, said: str, read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KvcalcError, match=said):
        read(AGENT.replace(old, new))
