"""A user's own file of GPUs: other cards, other facts, prices; and what is wrong with one, by line."""

import json
import os
from pathlib import Path

import pytest

from kvcalc.cards.names import card_called, cards_called
from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError

OWN = """\
h100-sxm:
  price: 2.49
my-a100:
  base: a100-80gb-sxm
  memory: 78.5GiB
  machine: 4
  price: 1
wafer:
  label: A wafer
  memory: 500GB
  capability: 10.0
  bandwidth_gb_s: 9000.5
  tflops_16bit: 12
  bf16: false
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    return str(path)


def test_a_file_adds_cards_and_changes_facts(own: str) -> None:
    """A card of one's own has what the file says, and of its base what the file does not say."""
    mine, wafer = card_called("2xmy-a100", file=own)[1], card_called("wafer", file=own)[1]
    assert (mine.memory, mine.memory_source, mine.machine, mine.price) == (int(78.5 * 2**30), "file", 4, 1)
    assert (mine.bandwidth, mine.capability, mine.flops16) == (2039 * 10**9, (8, 0), 312 * 10**12)
    assert (wafer.label, wafer.memory, wafer.capability) == ("A wafer", 500 * 10**9, (10, 0))
    assert (wafer.bandwidth, wafer.flops16, wafer.flops8, wafer.bf16) == (9_000_500_000_000, 12 * 10**12, None, False)


def test_a_known_card_keeps_its_memory_and_gets_a_price(own: str) -> None:
    """Under the name of a known card stand only the facts that differ."""
    card = card_called("h100", file=own)[1]
    assert (card.memory, card.memory_source, card.price) == (int(79.18 * 2**30), "runtime", 2.49)
    assert len(cards_called("all", file=own)) == 93


def test_files_are_found_in_the_configuration_and_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--gpu-file counts more than KVCALC_GPUS, of which the first counts most, and that more than the configuration."""
    (tmp_path / "config" / "kvcalc").mkdir(parents=True)
    priced = {"config/kvcalc/gpus.yaml": 1, "b.yaml": 2, "a.yaml": 3, "given.yaml": 4}
    for name, price in priced.items():
        (tmp_path / name).write_text(f"l4: {{price: {price}}}\nonly-{price}: {{base: l4}}\n", encoding="utf-8")
    prices = [card_called("l4")[1].price]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    card_called.cache_clear()
    prices.append(card_called("l4")[1].price)
    monkeypatch.setenv("KVCALC_GPUS", os.pathsep.join(str(tmp_path / name) for name in ("a.yaml", "b.yaml")))
    card_called.cache_clear()
    prices += [card_called("l4")[1].price, card_called("l4", file=str(tmp_path / "given.yaml"))[1].price]
    assert prices == [None, 1, 3, 4]
    assert card_called("only-1")[1].price == 1  # the base had that price when this file was read
    card_called.cache_clear()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1:\n  memory: 80\n", "2: x1.memory: expected a size with a unit, got '80', which can be read two ways"),
        (
            "x1:\n  memory: 3GiB\n  speed: 3\n",
            "3: x1.speed: expected a known key, got 'speed' (known here: base, memory, ",
        ),
        ("x1:\n  base: nope\n", "2: x1.base: expected the name of a card, as `kvcalc gpus` lists them, got 'nope'"),
        ("x1:\n  base: l4\n  price: -3\n", "3: x1.price: expected a number above zero and up to 1,000,000, got -3"),
        ("x1:\n  base: l4\n  price: .nan\n", "3: x1.price: expected a number above zero and up to 1,000,000, got nan"),
        ("x1:\n  base: l4\n  bf16: maybe\n", "3: x1.bf16: expected true or false, got 'maybe'"),
        ("x1:\n  base: l4\n  capability: 9\n", "3: x1.capability: expected CUDA's compute capability, such as 9.0"),
        ("x1:\n  base: l4\n  machine: 0\n", "3: x1.machine: expected a whole number from 1 to 1,024, got 0"),
        ("x1:\n  base: l4\n  vendor: Acme\n", "3: x1.vendor: expected one of NVIDIA, AMD, Intel"),
        ('x1:\n  base: l4\n  label: "a\\e[2J"\n', "3: x1.label: expected printable text, got 'a\\x1b[2J'"),
        ("x1:\n  label: A card\n", "1: x1.memory: expected the card's memory, such as 79.2GiB, or `base: h100-sxm`"),
        ("all:\n  memory: 3GiB\n", "1: all: expected the name of a card in a-z, 0-9, '.' and '-', with a letter"),
        ("8xl4:\n  memory: 3GiB\n", "1: 8xl4: expected the name of a card in a-z, 0-9, '.' and '-', with a letter"),
        ("x-1: {base: l4}\nx1: {base: l4}\n", "2: x1: expected a new name, got one that stands here already"),
        ("x1:\n", "1: x1: expected a mapping with the facts of the card, got nothing"),
        ("- x1\n", "1: expected `key: value` lines, got a list"),
        ("x1: {price: 1\n", "2: "),
    ],
)
def test_a_fault_is_told_by_line_and_key(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the file, the line and the key, and what was expected there."""
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    assert run(["llama3-8b", "--gpu", "x1", "--gpu-file", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0].startswith(f"kvcalc: error: {path}:{message}")) == ("", True), err


def test_a_file_that_is_not_there_or_endless_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named by hand must be there, and reading stops at a mebibyte."""
    (tmp_path / "long.yaml").write_text("# " + "x" * 2**20, encoding="utf-8")
    for name, message in (("none.yaml", "No such file or directory"), ("long.yaml", "at most 1,048,576 bytes")):
        monkeypatch.setenv("KVCALC_GPUS", str(tmp_path / name))
        with pytest.raises(KvcalcError, match=message):
            cards_called("h100")


def test_the_answer_says_that_the_memory_is_the_file_s(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON and in words stands where the memory comes from."""
    argv = ["llama3-8b", "--gpu", "my-a100", "--gpu-file", own]
    assert run([*argv, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["fit"]["memory_source"], document["request"]["memory_source"]) == ("file", "file")
    assert run(argv) == 0
    assert "memory of A100 80GB SXM4: as your file gives it" in capsys.readouterr().out


def test_a_file_without_a_card_is_refused(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--gpu-file alone changes nothing, so it was meant otherwise."""
    assert run(["llama3-8b", "--gpu-file", own]) == 2
    assert "--gpu-file: has no effect without --gpu" in capsys.readouterr().err


def test_what_a_card_attains(tmp_path: Path) -> None:
    """A file states shares of its own; those that it leaves out are the base's."""
    file = tmp_path / "gpus.yaml"
    file.write_text("x1:\n  base: b200-sxm\n  tflops_fp4: 8000\n  attained: {flops4: 0.5, latency: 0.00001}\n")
    ((_, card),) = cards_called("x1", file=str(file))
    assert card.flops4 == 8_000 * 10**12
    shares = card.shares
    assert (shares.flops4, shares.latency, shares.flops16) == (0.5, 0.00001, 0.66)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{flops16: 1.2}", "x1.attained.flops16: expected a number above zero and up to 1, got 1.2"),
        ("{speed: 0.5}", "x1.attained.speed: expected a known key, got 'speed'"),
    ],
)
def test_shares_that_are_none(line: str, message: str, tmp_path: Path) -> None:
    """A share is above zero and at most 1."""
    file = tmp_path / "gpus.yaml"
    file.write_text(f"x1:\n  base: l4\n  attained: {line}\n")
    with pytest.raises(KvcalcError) as raised:
        cards_called("x1", file=str(file))
    assert message in str(raised.value)
