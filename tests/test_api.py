"""The Python interface: what the package's docstring shows, every verb, and one exception for every mistake."""

import doctest
import inspect
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvcalc
from kvcalc.api.grids import GridOptions
from kvcalc.cli.main import run

LOG = Path(__file__).parent / "logs" / "vllm-llama3.3-70b.log"
TRACES = Path(__file__).parent / "traces"


def test_the_documented_python_session_is_true() -> None:
    """The example in the package's docstring runs as it is printed."""
    results = doctest.testmod(kvcalc)
    assert (results.failed, results.attempted > 3) == (0, True)


def test_sizes_and_fits() -> None:
    """Everything that the package names is there, and answers in whole bytes."""
    assert [name for name in kvcalc.__all__ if not hasattr(kvcalc, name)] == []
    assert set(kvcalc.__all__) <= set(dir(kvcalc))
    size = kvcalc.size(kvcalc.load("Llama-3-70B"), context="max", batch=2, kv_dtype="fp8", tp=8)
    assert (size.bytes_per_token, size.bytes_total, size.bytes_per_gpu) == (163_840, 2_684_354_560, 335_544_320)
    fit = kvcalc.fit(size, vram="80GB", utilization="0.9", weights="fp8", overhead="1GB")
    # 72e9 - 70.55e9 / 8 - 1e9 bytes, and 167,772,160 a sequence of 8,192 tokens
    assert (fit.memory.kv_budget, fit.max_batch, fit.fits) == (62_181_250_000, 370, True)
    assert kvcalc.fit(size, kv_memory=335_544_319).fits is False
    assert kvcalc.fit(size.size, kv_memory=335_544_320).fits is True
    assert "llama3-70b" in kvcalc.models()
    assert "h100-sxm" in kvcalc.gpus()


def command_line(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    """The document that the command line prints."""
    dashes = argv.index("--") if "--" in argv else len(argv)
    run([*argv[:dashes], "--json", *argv[dashes:]])
    return json.loads(capsys.readouterr().out)


# The same question in both languages.
PAIRS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "size": (
        lambda: kvcalc.size("llama3-70b", batch=8, gpu="8xh100", engine="vllm@0.30", utilization=0.8, weights="fp8"),
        ("llama3-70b", "--batch", "8", "--gpu", "8xh100", "--engine", "vllm@0.30", "--utilization", "0.8",
         "--weights", "fp8"),
    ),
    "flags": (
        lambda: kvcalc.size("llama3-8b", engine="llama.cpp", flags=["-c", "32768", "-np", "4", "-ctk", "q8_0"]),
        ("llama3-8b", "--engine", "llama.cpp", "--", "-c", "32768", "-np", "4", "-ctk", "q8_0"),
    ),
    "plan": (
        lambda: kvcalc.plan("llama3.1-8b", users=50, context=8192, gpu=["l4", "h100"], kv_dtype=["auto", "fp8"]),
        ("plan", "llama3.1-8b", "--users", "50", "--context", "8k", "--gpu", "l4,h100", "--kv-dtype", "auto,fp8"),
    ),
    "rate": (
        lambda: kvcalc.plan("llama3.1-8b", input="1155/4083", output="211/451", rate=5, gpu="l4"),
        ("plan", "llama3.1-8b", "--input", "1155/4083", "--output", "211/451", "--rate", "5", "--gpu", "l4"),
    ),
    "simulate": (
        lambda: kvcalc.simulate(
            "llama3.1-8b", gpu="l4", rate=2, input="1155/4083", output="211/451", requests=60, seed=3, burstiness=2,
            replicas=2, router="least-loaded", max_num_seqs=16, ttft="2s", tpot=0.08,
        ),
        ("simulate", "llama3.1-8b", "--gpu", "l4", "--rate", "2", "--input", "1155/4083", "--output", "211/451",
         "--requests", "60", "--seed", "3", "--burstiness", "2", "--replicas", "2", "--router", "least-loaded",
         "--max-num-seqs", "16", "--ttft", "2s", "--tpot", "80ms"),
    ),
    "sessions": (
        lambda: kvcalc.simulate(
            "llama3.1-8b", gpu="l4", rate=0.1, input="300/900", output=80, turns="4/9", think=12.5, requests=60,
            prefix_cache=True,
        ),
        ("simulate", "llama3.1-8b", "--gpu", "l4", "--rate", "0.1", "--input", "300/900", "--output", "80",
         "--turns", "4/9", "--think", "12.5s", "--requests", "60", "--prefix-cache"),
    ),
    "day": (
        lambda: kvcalc.simulate("llama3.1-8b", TRACES / "morning.csv", gpu="l4", bin="1m", prices={"l4": 0.8}),
        ("simulate", "llama3.1-8b", str(TRACES / "morning.csv"), "--gpu", "l4", "--bin", "1m", "--price", "l4=0.8"),
    ),
    "open": (
        lambda: kvcalc.simulate("gemma3-27b", TRACES / "morning.csv", step="30ms", block_size=16),
        ("simulate", "gemma3-27b", str(TRACES / "morning.csv"), "--step", "30ms", "--unlimited", "--block-size", "16"),
    ),
    "curve": (
        lambda: kvcalc.simulate("llama3.1-8b", TRACES / "agents.jsonl", capacity=[40_960, "20GiB"]),
        ("simulate", "llama3.1-8b", str(TRACES / "agents.jsonl"), "--capacity", "40k,20GiB"),
    ),
    "sweep": (
        lambda: kvcalc.sweep("gemma3-27b", context=[1024, 2048], batch=[1, 2], engine=["vllm", "mlx"], vram="80GB"),
        ("sweep", "gemma3-27b", "--context", "1k,2k", "--batch", "1,2", "--engine", "vllm,mlx", "--vram", "80GB"),
    ),
    "range": (
        lambda: kvcalc.sweep("gemma3-27b", context="1k..8k:x2", tp=[1, 2], weights="int4", gpu="l4"),
        ("sweep", "gemma3-27b", "--context", "1k..8k:x2", "--tp", "1,2", "--weights", "int4", "--gpu", "l4"),
    ),
    "compare": (
        lambda: kvcalc.compare("llama3-8b", "deepseek-v3", context=32768, kv_dtype=["auto", "fp8"]),
        ("compare", "llama3-8b", "deepseek-v3", "--context", "32k", "--kv-dtype", "auto,fp8"),
    ),
    "tradeoff": (
        lambda: kvcalc.tradeoff("llama3-8b", input=3000, output=100, gpu="h100", bandwidth_share=0.7, link="nvme"),
        ("tradeoff", "llama3-8b", "--input", "3000", "--output", "100", "--gpu", "h100", "--bandwidth-share", "0.7",
         "--link", "nvme"),
    ),
    "check": (lambda: kvcalc.check(str(LOG)), ("check", str(LOG))),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_both_languages_give_one_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A question has one document, in Python and on the command line; rows are flat, and notebooks get tables."""
    ask, argv = PAIRS[name]
    found = ask()
    document = command_line(capsys, *argv)
    assert json.loads(json.dumps(found.to_dict())) == document
    rows = found.rows()
    assert rows
    assert [value for row in rows for value in row.values() if isinstance(value, dict | list)] == []
    assert found._repr_html_().count("<table>") == found._repr_html_().count("</table>") > 0
    if "rows" in document:
        assert rows == document["rows"]


def test_answers_are_typed() -> None:
    """What an answer holds is there by name, without its document."""
    size = kvcalc.size("llama3-8b", gpu="l4", engine="vllm", context=8192)
    assert (size.fit is not None, size.reservation is not None, size.bytes_per_sequence) == (True, True, 2**30)
    best = kvcalc.plan("llama3-8b", users=10, gpu="h100").best
    assert best is not None
    assert (best.gpus, best.card.name) == (1, "h100-sxm")
    assert [cell.bytes_total for _, cell in kvcalc.sweep("llama3-8b", context="8k", batch=[1, 3]).cells] == [
        2**30,
        3 * 2**30,
    ]
    ratio = kvcalc.tradeoff("llama3-8b", context=4096).comparison.generation.ratio
    assert ratio > 100  # 256 new tokens, each of which would compute some 4,000 again
    assert kvcalc.check(io.BytesIO(LOG.read_bytes())).verdict == "match"
    assert {row["name"] for row in kvcalc.gpus().rows()} >= {"h100-sxm", "l4"}
    assert {row["preset"] for row in kvcalc.models().rows()} >= {"llama3-8b"}


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: kvcalc.load("llama3-7b"), ""),
    (lambda: kvcalc.size(kvcalc.load("gpt2"), batch=0), "batch:"),
    (lambda: kvcalc.size(kvcalc.load("gpt2"), tp=5), "tp:"),
    (lambda: kvcalc.size(kvcalc.load("t5-small"), context="max"), "context:"),
    (lambda: kvcalc.size(7), "model:"),
    (lambda: kvcalc.size("gpt2", vram="80GB", gpu="h100"), "gpu:"),
    (lambda: kvcalc.size("gpt2", block_size=16), "block_size:"),
    (lambda: kvcalc.size("gpt2", utilization=0.9), "utilization:"),
    (lambda: kvcalc.size("gpt2", engine="vlm"), "engine:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2"))), "vram:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80"), "vram:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights="fp61"), "weights:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights=-1), "weights:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", weights=None), "weights:"),
    (lambda: kvcalc.fit(kvcalc.size(kvcalc.load("gpt2")), vram="80GB", kv_memory="1GB"), "kv_memory:"),
    (lambda: kvcalc.plan("gpt2", rate=3), "rate:"),
    (lambda: kvcalc.plan("gpt2", gpu="nosuch"), "gpu:"),
    (lambda: kvcalc.simulate("gpt2"), "trace:"),
    (lambda: kvcalc.simulate("gpt2", "no.csv"), "no.csv:"),
    (lambda: kvcalc.simulate("gpt2", rate=2, input=9, output=9), "gpu:"),
    (lambda: kvcalc.simulate("gpt2", rate=2, input=9, output=9, step=0.03, tp=2), "tp:"),
    (lambda: kvcalc.simulate("gpt2", TRACES / "morning.csv", gpu="l4", prefix_cache=True), "prefix_cache:"),
    (lambda: kvcalc.sweep("gpt2", context="8k..4k"), "context:"),
    (lambda: kvcalc.sweep("gpt2", lenght=4), "lenght:"),
    (kvcalc.compare, "models:"),
    (lambda: kvcalc.tradeoff("gpt2", bandwidth_share=0.5), "bandwidth_share:"),
    (lambda: kvcalc.check("no such log"), "no such log:"),
    (lambda: kvcalc.check(b"xx"), "log:"),
    (lambda: kvcalc.check(io.StringIO("x")), "log:"),
    (lambda: kvcalc.fit("gpt2", vram="80GB"), "size:"),
    (lambda: kvcalc.fit(kvcalc.size("gpt2"), kv_memory="1GB", overhead=0), "kv_memory:"),
    (lambda: kvcalc.fit(kvcalc.size("gpt2", tp=4), gpu="2xl4"), "gpu:"),
    (lambda: kvcalc.size("gpt2", gpu=5), "gpu:"),
    (lambda: kvcalc.size("gpt2", gpu=["l4"]), "gpu:"),
    (lambda: kvcalc.size("gpt2", engine=5), "engine:"),
    (lambda: kvcalc.size("gpt2", engine="vllm", flags="--enforce-eager"), "flags:"),
    (lambda: kvcalc.size("gpt2", gpu_file="cards.yaml"), "gpu_file:"),
    (lambda: kvcalc.sweep("gpt2", context=[]), "context:"),
    (lambda: kvcalc.sweep("gpt2", context=[None, "x"]), "context:"),
    (lambda: kvcalc.sweep("gpt2", engine=5), "engine:"),
    (lambda: kvcalc.plan("gpt2", input=5, output=5, rate="x"), "rate:"),
    (lambda: kvcalc.tradeoff("gpt2", input="x"), "input:"),
    (lambda: kvcalc.tradeoff("gpt2", input=-1), "input:"),
    (lambda: kvcalc.tradeoff("gpt2", input=0), "input:"),
    (lambda: kvcalc.tradeoff("gpt2", output=0), "output:"),
    (lambda: kvcalc.gpus("h100", vendor="amd"), "name:"),
    (lambda: kvcalc.gpus(vendor="acme"), "vendor:"),
    (lambda: kvcalc.models(attention="none such"), "attention:"),
]


@pytest.mark.parametrize(("mistake", "argument"), MISTAKES, ids=range(len(MISTAKES)))
def test_every_mistake_in_python_is_a_kvcalc_error(mistake: Callable[[], object], argument: str) -> None:
    """A program has one exception to catch, which names the argument."""
    with pytest.raises(kvcalc.KvcalcError) as caught:
        mistake()
    assert caught.value.message.startswith(argument)
    assert "--" not in caught.value.message


def _compared(model: Any, **options: Any) -> Any:
    return kvcalc.compare(model, **options)


# A question of each function, to which one argument more is given, or given otherwise.
ASKED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "load": (kvcalc.load, {"source": "gpt2"}),
    "models": (kvcalc.models, {}),
    "gpus": (kvcalc.gpus, {}),
    "size": (kvcalc.size, {"model": "gpt2"}),
    "size on a card": (kvcalc.size, {"model": "gpt2", "gpu": "l4"}),
    "size in an engine": (kvcalc.size, {"model": "gpt2", "gpu": "l4", "engine": "vllm"}),
    "fit": (kvcalc.fit, {"size": kvcalc.size("gpt2"), "gpu": "l4"}),
    "plan": (kvcalc.plan, {"model": "gpt2", "gpu": "l4"}),
    "plan for a rate": (kvcalc.plan, {"model": "gpt2", "gpu": "l4", "input": 5, "output": 5, "rate": 2}),
    "sweep": (kvcalc.sweep, {"model": "gpt2", "gpu": "l4"}),
    "sweep of an engine": (kvcalc.sweep, {"model": "gpt2", "gpu": "l4", "engine": "vllm"}),
    "compare": (_compared, {"model": "gpt2"}),
    "tradeoff": (kvcalc.tradeoff, {"model": "gpt2", "gpu": "l4"}),
    "check": (kvcalc.check, {"log": str(LOG)}),
    "schema": (kvcalc.schema, {"verb": "size"}),
}
ODD: tuple[Any, ...] = (
    None, object(), [], (), {}, set(), b"", b"x", "", "x", "x\0", "\ud800", "a\nb", True, -1, 0, 5, 1.5, -1.5, float("nan"),
    float("inf"), 10**400, [None], [object()], ["x", None], [[]], [float("nan")], io.StringIO("x"),
)  # fmt: skip


def arguments(ask: Callable[..., Any]) -> list[str]:
    """The names of what a function takes, with the options of a grid where it has them."""
    found = inspect.signature(ask).parameters.values()
    named = [each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    return named + list(GridOptions.__annotations__) * any(each.kind is each.VAR_KEYWORD for each in found)


@pytest.mark.parametrize(("name", "argument"), [(name, each) for name in ASKED for each in arguments(ASKED[name][0])])
def test_nothing_that_is_given_for_an_argument_is_another_error(name: str, argument: str) -> None:
    """A value of any type for any argument is answered or refused in one line by a KvcalcError."""
    ask, options = ASKED[name]
    for value in ODD:
        try:
            found = ask(**{**options, argument: value})
            if hasattr(found, "rows"):
                found.rows()
        except kvcalc.KvcalcError as error:
            assert error.message  # noqa: PT017 - an answer is as good
            assert "\n" not in error.message  # noqa: PT017


@pytest.mark.parametrize("engine", [None, "vllm"])
@pytest.mark.parametrize("gpu", ["h100", "2xh100"])
def test_a_fit_is_what_size_says_of_the_same_memory(engine: str | None, gpu: str) -> None:
    """`fit` of a size without a memory is the fit of `size` with it: its engine, its estimates and its count of GPUs."""
    whole = kvcalc.size("llama3.1-8b", context="8k", engine=engine, gpu=gpu)
    later = kvcalc.fit(kvcalc.size("llama3.1-8b", context=8192, engine=engine), gpu=gpu)
    assert tuple(later) == whole.fit
    assert (later.to_dict(), later.rows(), later.warnings) == (whole.to_dict(), whole.rows(), whole.warnings)
    assert later._repr_html_() == whole._repr_html_()


def test_a_fit_without_overhead_is_bare() -> None:
    """With overhead=0 nothing but weights stands beside the cache, and a count of GPUs divides both."""
    size = kvcalc.size("llama3.1-8b", context=8192)
    # 0.9 x 85,018,877,624 B of an H100 less 16.06e9 B, and 2^30 B a sequence; on two GPUs half of both on each
    assert kvcalc.fit(size, gpu="h100", overhead=0).max_batch == (85_018_877_624 * 9 // 10 - 16_060_000_000) // 2**30
    two = kvcalc.fit(size.size, gpu="2xh100", overhead=0).max_batch
    assert two == (85_018_877_624 * 9 // 10 - 8_030_000_000) // 2**29
    formed = kvcalc.size("llama3.1-8b", context=8192, kv_dtype="fp8", tp=2)
    assert kvcalc.fit(formed.size, gpu="h100") == kvcalc.fit(formed, gpu="h100")


def test_lengths_are_ints_or_texts_everywhere() -> None:
    """A context is 8192, "8k" or "max" for every function, as on the command line."""
    assert kvcalc.size("llama3.1-8b", context="8k").bytes_total == 2**30
    assert kvcalc.size("llama3.1-8b", context=" MAX ").size.request.context == 131_072
    plans = [kvcalc.plan("llama3.3-70b", users=100, context=each, gpu="h100").to_dict() for each in (8192, "8k")]
    assert plans[0] == plans[1]
    checks = [kvcalc.check(LOG, model="llama3.3-70b", context=each).verdict for each in (8192, "8k")]
    assert checks[0] == checks[1]
    contexts = [row["context"] for row in kvcalc.sweep("llama3.1-8b", context=["8k", 1024, "max"]).rows()]
    assert contexts == [8192, 1024, 131_072]
    trades = [kvcalc.tradeoff("llama3.1-8b", input=each, output="1k").to_dict() for each in (2048, "2k")]
    assert trades[0] == trades[1]


def test_paths_and_models_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Path is a file, even if a preset has its name; a model that was loaded is itself."""
    model = kvcalc.load("gpt2")
    assert kvcalc.load(model) is model
    preset = (Path(__file__).parent.parent / "presets" / "gpt2.yaml").read_bytes()
    (tmp_path / "mine.yaml").write_bytes(preset)
    monkeypatch.chdir(tmp_path)
    assert kvcalc.size(Path("mine.yaml")).bytes_total == kvcalc.size(model).bytes_total
    assert kvcalc.load(tmp_path / "mine.yaml").layers == model.layers
    with pytest.raises(kvcalc.KvcalcError, match="gpt2"):
        kvcalc.load(Path("gpt2"))


def test_lists_are_filtered_as_on_the_command_line() -> None:
    """`gpus` takes a name, a maker and an order, `models` a family and a kind of attention."""
    assert kvcalc.gpus("h100") == ["h100-sxm"]
    assert kvcalc.gpus("p5.48xlarge") == ["h100-sxm"]
    amd = kvcalc.gpus(vendor="amd", sort="memory")
    assert {row["vendor"].lower() for row in amd.rows()} == {"amd"}
    assert [row["name"] for row in amd.rows()] == amd
    latent = kvcalc.models(attention="mla")
    assert "deepseek-v3" in latent
    assert "llama3-8b" not in latent
    assert set(kvcalc.models(family="llama")) < set(kvcalc.models())


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """The package's lazy names do not swallow mistakes."""
    with pytest.raises(AttributeError, match="nothing_like_this"):
        kvcalc.nothing_like_this  # noqa: B018
