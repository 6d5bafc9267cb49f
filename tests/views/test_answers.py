"""Answers as people and programs meet them: sums that add up, warnings that are seen, columns that stay the same."""

import csv
import io
import re
from pathlib import Path

import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.core.explain import terms
from kvcalc.core.fitting import fit
from kvcalc.core.memory import Budget
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.library.loader import load, load_text

from ..tiny_preset import tiny

GB = 10**9


def both(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    status = run(list(argv))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def evaluated(sum_: str) -> int:
    """The value of a sum as --explain writes it, its words left out, by Python's own arithmetic."""
    tokens = re.findall(r"floor|[0-9][0-9,]*|[()+/]| x ", sum_)
    text = "".join({" x ": "*", "/": "//", "floor": ""}.get(token, token.replace(",", "")) for token in tokens)
    value: int = eval(text.replace("()", ""))
    return value


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama3-70b", {"batch": 8}),
        ("gemma3-27b", {"context": 100_000, "batch": 3, "pp": 4}),
        ("deepseek-v3.2", {"tp": 8, "dcp": 2}),
        ("deepseek-v4-flash", {"context": 5_002}),
        ("qwen3.5-27b", {"batch": 2, "tp": 2}),
        ("falcon-h1-1.5b", {"context": 777}),
        ("whisper-large-v3", {"batch": 5}),
        ("mimo-v2-flash", {"k_dtype": "fp8", "v_dtype": "bf16"}),
        ("llama4-scout", {"context": 20_000}),
    ],
)
def test_every_sum_has_its_result(model: str, options: dict[str, object]) -> None:
    """Whatever --explain writes before the equals sign has the value that stands behind it."""
    for term in terms(measure(ask(load(model), **options)), None):  # type: ignore[arg-type]
        assert (term.name, evaluated(term.sum)) == (term.name, term.bytes)


def test_the_largest_batch_is_explained_per_replica() -> None:
    """492 sequences on two replicas are 246 on each.

    The last of three stages has 27 of 80 layers, half of their matrices at tp 2 and all of their norms, and half of the
    head: 80 GB less 2 x (27 x 427,835,392 + 525,344,768) B are 55,846,199,296 B; / 226,492,416 = 246.6.
    """
    size = measure(ask(load("llama3-70b"), batch=100, tp=2, pp=3, dp=2))
    answer = fit(size, Budget(vram=80 * GB))
    term = next(term for term in terms(size, answer) if term.name == "largest batch")
    assert (answer.max_batch, term.bytes) == (492, 246 * 226_492_416)
    assert "492" in term.source


def test_the_fullest_gpu_is_explained_by_its_own_layers() -> None:
    """Gemma 3 27B on four stages: stage 2 holds layers 15 to 30, of which every sixth (17, 23, 29) is full."""
    size = measure(ask(load("gemma3-27b"), context=100_000, pp=4))
    local = [term for term in terms(size, None) if term.name.startswith("GPU of stage")]
    assert sum(term.bytes for term in local) == size.bytes_per_gpu
    assert [term.sum.split(" layer")[0] for term in local if "full" in term.name] == ["3"]


@pytest.mark.parametrize("form", [["-q"], ["--get", "kv.bytes_total"], ["-f", "csv"]])
def test_warnings_are_seen_where_the_answer_has_no_room(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A context above the limit is said on standard error, and the answer stays clean."""
    status, out, err = both(capsys, "llama3-70b", "-c", "128k", *form)
    assert (status, err.startswith("kvcalc: warning: 131,072 tokens are above"), "warning" in out.split("\n")[0]) == (
        0, True, form == ["-f", "csv"],
    )  # fmt: skip


def test_rough_weights_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters x mxfp4 leave out what gpt-oss stores in bf16, and the answer says so; a given size has no doubt."""
    _, _, err = both(capsys, "gpt-oss-20b", "--vram", "80GB", "-q")
    assert "weights estimated as 20.9B parameters x 4.25 bits (mxfp4)" in err
    assert both(capsys, "gpt-oss-20b", "--vram", "80GB", "--weights", "13.8GB", "-q")[2] == ""
    assert both(capsys, "llama3-8b", "--vram", "80GB", "-q")[2] == ""


def test_csv_has_the_same_columns_for_every_question(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of different models and questions can be appended to one file."""
    questions = (["llama3-70b"], ["mamba-2.8b"], ["t5-small", "--vram", "8GB"], ["gpt2", "--kv-memory", "1GB"])
    headers = {tuple(csv.reader(io.StringIO(both(capsys, *argv, "-f", "csv")[1])).__next__()) for argv in questions}
    assert len(headers) == 1


@pytest.mark.parametrize("argv", [["gemma3-27b", "--vram", "80GB"], ["models", "--family", "gemma"], ["whisper-tiny"]])
def test_plain_rows_have_the_fields_of_their_heading(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Under a heading every row has as many fields, so that awk and cut can count on them."""
    lines = [line.split("\t") for line in both(capsys, *argv)[1].splitlines()]
    heads = [i for i, line in enumerate(lines) if "bytes" in line]
    assert heads
    for i in heads:
        assert {len(line) for line in lines[i : i + 3] if line[0] not in ("weights", "note", "layers")} == {
            len(lines[i])
        }


def test_formats_without_keys_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    """A KV dtype changes nothing in a state-space model, which is said; K and V are not spoken of."""
    _, out, _ = both(capsys, "mamba-2.8b", "--kv-dtype", "fp8")
    assert ("K and V" in out, "--kv-dtype: changes nothing" in out) == (False, True)


def test_a_window_above_the_limit_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    """Phi-3 mini 128K states a window of 262,144 tokens, twice its limit: the slope never falls."""
    assert "past windows" not in both(capsys, "phi3-mini-128k")[1]
    assert "past windows" in both(capsys, "gemma3-27b", "-c", "512")[1]


def test_pruned_layers_are_no_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """Nemotron Super's attention without heads is in no group, and all groups have eight heads."""
    assert both(capsys, "nemotron-super-49b", "--get", "kv.layers.0.count")[1] == "49\n"
    assert both(capsys, "nemotron-super-49b", "--get", "kv.layers.1.count")[0] == 2


def test_a_base_does_not_lend_its_name() -> None:
    """Whose facts they were, and how good, is not true of a preset that changes them."""
    model = load_text(b"base: llama3-70b\nname: Mine\nlayers: 40 full\n", "mine.yaml")
    assert (model.ids, model.source, model.confidence, model.max_context) == ((), None, None, 8192)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda model: kvcalc.size(model, context=4096.5),
        lambda model: kvcalc.size(model, context="long"),
        lambda model: kvcalc.size(model, batch=True),
        lambda model: kvcalc.size(model, kv_dtype=8),
        lambda model: kvcalc.size(model, kv_heads=1.5),
        lambda _: kvcalc.size(70),  # type: ignore[arg-type]
        lambda _: kvcalc.load(None),  # type: ignore[arg-type]
        lambda model: kvcalc.fit(kvcalc.size(model), vram=-1),
        lambda model: kvcalc.fit(kvcalc.size(model), vram=80.5),
    ],
    ids=["decimals", "text", "flag", "number as format", "half a head", "name", "nothing", "below zero",
         "decimal bytes"],
)  # fmt: skip
def test_wrong_types_in_python(mistake) -> None:  # type: ignore[no-untyped-def]
    """A value of the wrong type is a KvcalcError that names the argument, as Python spells it."""
    with pytest.raises(kvcalc.KvcalcError) as caught:
        mistake(kvcalc.load("llama3-70b"))
    assert re.match(r"[a-z_]+: expected ", caught.value.message)


def test_values_are_short_to_read() -> None:
    """What a prompt shows of a model or a size fits a few lines."""
    model = kvcalc.load("llama3-70b")
    assert len(repr(model)) < 1000
    assert repr(kvcalc.size(model, batch=8)) == "<Size of Llama 3 70B, batch 8 at 4,096 tokens: 10,737,418,240 B>"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "source and confidence not stated"),
        ("source: a table\n", "confidence not stated"),
        ("source: config.json of x\nconfidence: config file read\n", None),
        ("source: a table\nconfidence: third-party table\n", "third-party table"),
    ],
)
def test_an_answer_says_how_good_its_facts_are(
    more: str, said: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer that rests on anything but a published file says so, also where the preset says nothing of it."""
    (tmp_path / "tiny-1.yaml").write_text(tiny() + more, encoding="utf-8")
    assert run([str(tmp_path / "tiny-1.yaml"), "-f", "plain"]) == 0
    out = capsys.readouterr().out
    assert (f"the model's facts: {said}" in out, "the model's facts" in out) == (said is not None, said is not None)
