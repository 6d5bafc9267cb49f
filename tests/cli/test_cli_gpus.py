"""The verb gpus: the list, one card with its sources, a machine type."""

import csv
import io
import json
from pathlib import Path

import pytest

from kvcalc.cli.main import run
from kvcalc.cli.options import complete_gpus


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert run(["gpus", *argv]) == 0
    return capsys.readouterr().out


def test_all_cards_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """91 accelerators, by name, with what a process gets of their memory."""
    assert len(answer(capsys, "--quiet").split()) == 91
    document = json.loads(answer(capsys, "--json"))
    assert (document["schema"], document["model"], document["warnings"]) == ("kvcalc.gpus/1", None, [])
    l4 = next(one for one in document["gpus"] if one["name"] == "l4")
    # planning.md, section 1: 24 GB, 23034 MiB, 21.95 GiB
    assert (l4["marketing_gb"], l4["driver_mib"], l4["runtime_gib"]) == (24, 23034, 21.95)
    assert (l4["memory_bytes"], l4["memory_source"]) == (int(21.95 * 2**30), "runtime")
    rows = list(csv.DictReader(io.StringIO(answer(capsys, "-f", "csv"))))
    assert (len(rows), rows[0]["name"]) == (91, "a10")


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        (["--sort", "memory"], "apple-m3-ultra"),  # 3/4 of 512 GiB
        (["--sort", "name"], "a10"),
        (["--sort", "bandwidth", "--vendor", "apple"], "apple-m3-ultra"),  # 819 GB/s
        (["--sort", "flops", "--vendor", "AMD"], "mi355x"),  # 2516.6
        (["--sort", "memory", "--vendor", "intel"], "gaudi3"),
    ],
    ids=" ".join,
)
def test_the_list_is_sorted_and_chosen(argv: list[str], first: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The most comes first."""
    assert answer(capsys, *argv, "-q").split()[0] == first


def test_prices_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cheapest first, and cards without a price last; with no price at all, sorting by it is refused."""
    path = tmp_path / "gpus.yaml"
    path.write_text("l4: {price: 0.7}\nh100-sxm: {price: 2.5}\nt4: {price: 0.35}\n", encoding="utf-8")
    assert answer(capsys, "--sort", "price", "--gpu-file", str(path), "-q").split()[:4] == [
        "t4",
        "l4",
        "h100-sxm",
        "a10",
    ]
    assert run(["gpus", "--sort", "price"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == "kvcalc: error: --sort price: no card has a price"


def test_one_card_has_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    """The three numbers of memory stand side by side, each with where it was read, and who has the card."""
    document = json.loads(answer(capsys, "h100", "--json"))
    facts = {one["fact"]: (one["value"], one["confidence"]) for one in document["gpu"]["facts"]}
    assert facts["memory, as sold"][0] == "80 GB"
    assert facts["memory, driver"] == ("81,559 MiB", "read")
    assert facts["memory, runtime"] == ("79.18 GiB", "read")
    assert facts["link in a machine"] == ("NVLink, 450 GB/s in a direction", "read")
    assert ("p5.48xlarge", 8) in [(one["name"], one["gpus"]) for one in document["machines"]]
    text = answer(capsys, "rtx4090")
    for said in ("memory, driver\t24,564 MiB\tread: ", "fp8, dense\t330.3 TFLOP/s\tfrom memory: not looked up"):
        assert said in text


def test_every_fact_that_is_shipped_has_a_source(capsys: pytest.CaptureFixture[str]) -> None:
    """No number stands without where it was read, or that it was not."""
    for name in answer(capsys, "-q").split():
        for one in json.loads(answer(capsys, name, "--json"))["gpu"]["facts"]:
            assert one["value"] is None or (one["source"] and (one["confidence"] or one["fact"] == "memory, as sold"))


def test_a_machine_type_shows_its_card(capsys: pytest.CaptureFixture[str]) -> None:
    """What a cloud calls a machine leads to the card, also where it has only a part of one."""
    document = json.loads(answer(capsys, "p4d.24xlarge", "--json"))
    assert (document["machine"]["gpus"], document["gpu"]["name"]) == (8, "a100-40gb-sxm")
    assert answer(capsys, "P4D.24xlarge", "-q") == "p4d.24xlarge\n"
    assert "a part of l4" in answer(capsys, "g6f.large")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["h1oo"], "gpus: 'h1oo' is not in the table of GPUs"),
        (["gaudi"], "gpus: 'gaudi' is not one card"),
        (["--vendor", "acme"], "--vendor: expected one of NVIDIA, AMD, Intel, Apple, Google, AWS, got 'acme'"),
        (["--sort", "prize"], "--sort: expected one of memory, bandwidth, flops, price, name, got 'prize'"),
        (["h100", "--sort", "name"], "gpus: NAME and --sort contradict each other"),
    ],
)
def test_a_mistake_is_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is not known is named, with what there is."""
    assert run(["gpus", *argv]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"kvcalc: error: {message}"


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_table_fits_the_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing wraps, whatever is left out."""
    monkeypatch.setenv("COLUMNS", width)
    lines = answer(capsys, "-f", "table").splitlines()
    assert (len(lines), max(map(len, lines)) <= int(width)) == (93, True)


@pytest.mark.parametrize(
    ("begun", "expected"),
    [
        ("h100-s", ["h100-sxm"]),
        ("8xmi30", ["8xmi300x"]),
        ("l4,p5.4", ["l4,p5.4xlarge", "l4,p5.48xlarge"]),
        ("loc", ["local"]),
    ],
)
def test_names_are_completed(begun: str, expected: list[str]) -> None:
    """A tab completes cards and machine types, also behind a number and a comma."""
    assert complete_gpus(begun) == expected


def test_the_answer_says_which_memory_was_used(capsys: pytest.CaptureFixture[str]) -> None:
    """--gpu names a card, and the answer which of its numbers was reckoned with; of --vram, that it was given."""
    for argv, source, words in (
        (["--gpu", "h100"], "runtime", "memory of H100 SXM5 80GB: as its runtime reports it"),
        (["--gpu", "rtx3090"], "driver-less-reserve", "memory of GeForce RTX 3090: its driver's total less 0.6 GiB"),
        (["--gpu", "tpu-v6e"], "nominal-less-reserve", "memory of TPU v6e (Trillium): estimated: its nominal GB"),
        (["--vram", "80GB"], "given", "VRAM given"),
    ):
        assert run(["llama3-8b", *argv, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["fit"]["memory_source"] == document["request"]["memory_source"] == source
        assert run(["llama3-8b", *argv]) == 0
        assert words in capsys.readouterr().out


def test_a_template_of_prices_is_filled_in_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every card of a machine type is in it once, with no price; as it is it changes nothing, filled in it counts."""
    empty = answer(capsys, "--prices-template")
    path = tmp_path / "prices.yaml"
    path.write_text(empty, encoding="utf-8")
    assert empty.count("\nl4:\n  price:\n") == empty.count("\nh100-sxm:\n") == 1
    assert "# 8 GPUs: p5.48xlarge" in empty  # AWS: 8 x H100
    listed = json.loads(answer(capsys, "--json", "--gpu-file", str(path)))["gpus"]
    assert all(one["price"] is None for one in listed)
    path = tmp_path / "filled.yaml"
    path.write_text(empty.replace("\nl4:\n  price:", "\nl4:\n  price: 0.7"), encoding="utf-8")
    assert answer(capsys, "--sort", "price", "--gpu-file", str(path), "-q").split()[0] == "l4"
    assert "\nl4:\n  price: 0.7\n" in answer(capsys, "--prices-template", "--gpu-file", str(path))


@pytest.mark.parametrize("words", [["l4"], ["--json"], ["--sort", "name"], ["-q"]], ids=" ".join)
def test_a_template_of_prices_takes_no_other_form(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gpus", "--prices-template", *words]) == 2
    assert capsys.readouterr().err.startswith("kvcalc: error: --prices-template: contradicts")
