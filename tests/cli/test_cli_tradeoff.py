"""The verb `tradeoff`: its numbers, its words, its curve and its refusals."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

Asked = Callable[..., Any]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """The document of a command line."""

    def asked(*argv: str) -> Any:
        assert run(["tradeoff", *argv, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return asked


def test_without_a_gpu(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """FLOPs and bytes, no seconds, and a sentence that says so."""
    found = asked("llama3.1-8b", "--input", "1155", "--output", "211")
    assert found["schema"] == "kvcalc.tradeoff/1"
    assert round(found["flops"]["generation"]["ratio"], 1) == 194.5
    assert found["kv"]["bytes_total"] == 1_366 * 131_072
    assert (found["seconds"], found["prefix"], found["request"]["gpu"]) == (None, None, None)
    assert run(["tradeoff", "llama3.1-8b"]) == 0
    assert "no GPU is named" in capsys.readouterr().out


def test_with_a_gpu(asked: Asked) -> None:
    """The prefix of 8,000 tokens of the planning notes at half of the peak, 294 ms by its FLOPs and a little more by the
    clock, since attention is slower in short prompts; and what a GPU says of the weights.
    """
    found = asked("llama3.1-8b", "--prompt", "8000", "--gpu", "h100", "--compute-share", "0.5", "--link", "nvme,25GB/s")
    assert found["prefix"]["recompute_seconds"] == pytest.approx(0.294, rel=0.03)
    assert [round(1000 * link["load_seconds"]) for link in found["prefix"]["links"]] == [150, 42]
    assert found["seconds"]["ridge_tokens"] == 295
    assert found["seconds"]["saves_time"] is True
    assert found["seconds"]["tokens_whose_cache_equals_weights"] == 122_528
    assert found["request"]["compute_share"] == 0.5
    assert found["request"]["bandwidth_share"] == 0.85


@pytest.mark.parametrize(
    ("options", "said"),
    [  # an H100 has 79.18 GiB = 85.02e9 B, of which 0.9 is 76.52e9; an H200 150.1e9 and 135.1e9; vLLM takes some 6e9
        (["llama3-70b", "--gpu", "h100"], "the weights do not fit on h100-sxm"),  # 70.55e9 x 2 B = 141.1e9
        (["llama3-70b", "--gpu", "2xh200"], None),  # 70.55e9 and 4,096 x 163,840 B = 0.67e9 on each
        (["llama3-70b", "--gpu", "2xh100", "-b", "9"], "the weights and this cache do not fit on 2 x h100-sxm"),  # 6.04e9
        (["llama3-70b", "--gpu", "2xh200", "-b", "80"], None),  # 53.7e9: 130.3e9 in all
        (["llama3-70b", "--gpu", "h100", "--weights", "int4"], None),  # 35.3e9
        (["llama3-70b"], None),
    ],
    ids=str,
)  # fmt: skip
def test_times_on_a_gpu_that_cannot_hold_it(asked: Asked, options: list[str], said: str | None) -> None:
    """Seconds that nobody will see are named as such; the answer stays, since other GPUs are asked about with it."""
    found = asked(*options)
    assert [warning.partition(":")[0] for warning in found["warnings"]] == ([said] if said else [])
    assert (found["memory"] and found["memory"]["fits"]) == (said is None if "--gpu" in options else None)


def test_the_cache_of_70b_on_four(asked: Asked) -> None:
    """`--gpu 4xh100` and `--tp 4` are one question, and four GPUs share the weights."""
    one, other = (asked("llama3-70b", *options) for options in (("--gpu", "4xh100"), ("--gpu", "h100", "--tp", "4")))
    assert one == other
    assert one["request"]["tp"] == 4
    assert one["seconds"]["tokens_whose_cache_equals_weights"] == 430_603
    assert one["seconds"]["ridge_tokens"] == 295


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ([], (3_840, 256)),
        (["-c", "8k"], (7_936, 256)),
        (["-c", "100"], (50, 50)),
        (["-c", "2"], (1, 1)),
        (["--input", "1000"], (1_000, 256)),
        (["--output", "96"], (4_000, 96)),
        (["--input", "1k", "--output", "1"], (1_024, 1)),
        (["--input", "1000", "-c", "4000"], (1_000, 3_000)),
        (["--input", "1000", "-c", "4000", "--output", "3000"], (1_000, 3_000)),
        (["-c", "max", "--output", "72"], (131_000, 72)),
    ],
)
def test_lengths(asked: Asked, options: list[str], lengths: tuple[int, int]) -> None:
    """Prompt and new tokens are the context together, and two of them give the third."""
    request = asked("llama3.1-8b", *options)["request"]
    assert (request["input"], request["output"]) == lengths
    assert request["context"] == sum(lengths)


@pytest.mark.parametrize("prompt", [1, 100, 290, 300, 5_000])
def test_the_text_claims_no_time_below_the_ridge(prompt: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Below 295 tokens the answer says that no time is saved, and prints no ratio of times."""
    assert run(["tradeoff", "llama3.1-8b", "--input", str(prompt), "--output", "2", "--gpu", "h100"]) == 0
    out = capsys.readouterr().out
    times = [line for line in out.splitlines() if line.startswith("time:")]
    assert len(times) == 2
    assert all(line.endswith("below the ridge") == (prompt < 295) for line in times)
    assert ("and no time" in out) == (prompt < 295)


def test_weights_of_eight_bits(asked: Asked) -> None:
    """Half the bytes, computed at twice the speed with fp8 and no faster with int8."""
    for dtype, ridge in (("fp8", 295), ("int8", 147), ("bf16", 295)):
        found = asked("llama3.1-8b", "--gpu", "h100", "--weights", dtype)
        assert found["seconds"]["ridge_tokens"] == ridge


def test_a_table_at_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No line is wider than the terminal, and no number is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["tradeoff", "deepseek-v3.2", "-c", "128k", "-b", "32", "--gpu", "8xh100", "--format", "table"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "time: token 131,072, batch 32" in out


@pytest.mark.parametrize("gpu", [[], ["--gpu", "h100"]])
def test_the_curve(gpu: list[str], tmp_path: Path, asked: Asked) -> None:
    """A picture with both lines, written beside the answer; an older one is replaced."""
    file = tmp_path / "curve.svg"
    file.write_text("old", encoding="utf-8")
    asked("llama3.1-8b", *gpu, "--svg", str(file))
    text = " ".join(ET.fromstring(file.read_text(encoding="utf-8")).itertext())
    assert "with the cache" in text
    assert "without the cache" in text
    assert ("ridge" in text) == bool(gpu)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--link", "nvme"], "--link: has no effect without a GPU"),
        (["--compute-share", "0.5"], "--compute-share: has no effect without a GPU"),
        (["--weights", "fp8"], "--weights: has no effect without a GPU"),
        (["--gpu", "h100", "--weights", "none"], "--weights: none leaves nothing to read"),
        (["--gpu", "h100", "--compute-share", "1.5"],
         "--compute-share: expected a share above 0 and up to 1, such as 0.9, got '1.5'"),
        (["--gpu", "h100", "--link", "pcie6"], "--link: expected a link, got 'pcie6'"),
        (["--input", "0"], "--input: expected 1 to 1,099,511,627,776, got '0'"),
        (["--input", "5000", "-c", "4096"], "--input: a context of 4,096 has no room for a prompt and new tokens"),
        (["--output", "4096"], "--output: a context of 4,096 has no room for a prompt and new tokens"),
        (["-c", "1"], "--context: a context of 1 has no room for a prompt and new tokens"),
        (["--input", "10", "--output", "10", "-c", "30"],
         "--context: 30 contradicts a prompt of 10 and 10 new tokens"),
        (["--parameters", "many"], "--parameters: expected a count such as 8.03B, got 'many'"),
        (["--gpu", "4xh100", "--tp", "2"], "--gpu: 4 contradicts tp 2 x pp 1 x dp 1"),
        (["--svg", "/no/such/folder/a.svg"], "--svg: /no/such/folder/a.svg: No such file or directory"),
    ],
)  # fmt: skip
def test_refusals(options: list[str], message: str, refused: Callable[..., tuple[str, str]]) -> None:
    """One line that names the option."""
    assert refused("tradeoff", "llama3.1-8b", *options)[0] == message


def test_a_model_whose_parameters_are_not_known(
    tmp_path: Path, refused: Callable[..., tuple[str, str]], asked: Asked
) -> None:
    """It is refused with a way out, which works."""
    file = tmp_path / "m.yaml"
    file.write_text("name: M\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n", encoding="utf-8")
    message, hint = refused("tradeoff", str(file))
    assert message == "--parameters: the number of parameters of M is not known"
    assert "--parameters 8.03B" in hint
    found = asked(str(file), "--parameters", "1M", "--gpu", "h100")
    assert found["flops"]["per_token_outside_attention"] == 2_000_000
    assert found["request"]["weights_bytes"] == 2_000_000


def test_values_that_need_a_gpu(refused: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    """A time without a GPU is refused with the way to it, and CSV has the same columns either way."""
    assert refused("tradeoff", "llama3.1-8b", "--get", "seconds.token.ratio") == (
        "--get: 'seconds.token.ratio' needs a GPU", "  hint: add --gpu NAME",
    )  # fmt: skip
    heads = []
    for gpu in ([], ["--gpu", "h100"]):
        assert run(["tradeoff", "llama3.1-8b", *gpu, "--format", "csv"]) == 0
        heads.append(capsys.readouterr().out.splitlines()[0])
    assert heads[0] == heads[1]
    assert "prefix.break_even_bytes_per_second" in heads[0]


def test_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet is how many times less a cache computes."""
    assert run(["tradeoff", "llama3.1-8b", "--input", "8192", "--output", "1024", "-q"]) == 0
    assert round(float(capsys.readouterr().out), 1) == 960.3


def test_an_encoders_cache_is_not_weighed_up(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """To compute it again the encoder would have to run, which is not counted: no break-even is claimed."""
    found = asked("whisper-large-v3", "--gpu", "l4")
    assert found["prefix"] is None
    assert found["seconds"]["token"]["ratio"] > 1
    assert run(["tradeoff", "whisper-large-v3", "--gpu", "l4"]) == 0
    assert "encoder" in capsys.readouterr().out


def test_experts_below_the_ridge(capsys: pytest.CaptureFixture[str]) -> None:
    """A pass over 209 tokens reads more experts than one token does: that a cache saves, and it alone.

    45.1 of 46.7e9 parameters are in experts, so that a token meets 1.6 + 45.1 / 4 = 12.88e9, which are stated as 12.9.
    """
    assert run(["tradeoff", "mixtral-8x7b", "--gpu", "2xh100", "--input", "200", "--output", "10"]) == 0
    assert "time only as far as it reads fewer experts: 209 tokens are below the ridge, 294" in capsys.readouterr().out


def test_tiers(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """A token of Llama 70B is 2 x 80 x 8 x 128 x 2 B = 327,680 B and a prompt of 3,840 of them 1,258,291,200 B: 200 GiB
    hold 170.67 of them, 2 TB hold 1,589.5. At 50 GB/s one takes 25.166 ms; its share of the time to compute it again is
    the share that must be found. At 1 GB/s it takes 1.258 s, longer than computing it.
    """
    found = asked("llama3.1-70b", "--gpu", "4xh100", "--tier", "cpu=200GiB@50GB/s", "--tier", "disk=2TB@1GB/s")
    prefix = found["prefix"]
    cpu, disk = prefix["tiers"]
    assert (cpu["prompts"], cpu["tokens"]) == (170, 200 * 2**30 // 327_680)
    assert (disk["prompts"], disk["tokens"]) == (1_589, 2 * 10**12 // 327_680)
    assert cpu["load_seconds"] == pytest.approx(1_258_291_200 / 50e9)
    assert cpu["pays_from_hit_rate"] == pytest.approx(1_258_291_200 / 50e9 / prefix["recompute_seconds"])
    assert disk["pays_from_hit_rate"] is None
    # Each of the four has two of the eight heads, and so a quarter of a prompt.
    assert prefix["gpu_prompts"] == found["memory"]["kv_budget_bytes_per_gpu"] // (1_258_291_200 // 4)
    assert found["warnings"] == ["--tier disk: loading takes at least as long as computing again: it saves no time"]
    assert run(["tradeoff", "llama3.1-70b", "--gpu", "4xh100", "--tier", "cpu=1GiB@50GB/s", "-f", "plain"]) == 0
    assert "it holds no more prompts than the GPUs do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["llama3-8b", "--tier", "cpu=1GiB@50GB/s"], "--tier: has no effect without a GPU"),
        (["llama3-8b", "--gpu", "h100", "--tier", "cpu=1GiB"], "says no rate"),
        (["whisper-large-v3", "--gpu", "h100", "--tier", "cpu=1GiB@50GB/s"], "--tier: running the encoder again"),
    ],
    ids=["no GPU", "no rate", "an encoder"],
)
def test_tiers_that_cannot_be(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert run(["tradeoff", *options]) == 2
    assert said in capsys.readouterr().err
