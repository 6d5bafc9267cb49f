"""MLX-LM: what it really allocated comes out, by layer; its flags mean what they mean there."""

from collections.abc import Callable
from math import prod
from typing import Any

import pytest

from kvcalc.api import load
from kvcalc.cli.main import run
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.mlx.engine import ENGINE
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch
from kvcalc.library.loader import entries, load_entry
from kvcalc.preset.mapping import model_from_preset

from .mlx_runs import FAMILIES, GROWTH, SHAPES, Growth, Run

Refused = Callable[..., tuple[str, str]]


def model_of(facts: dict[str, object]) -> Model:
    model, problems = model_from_preset(facts, "x-1")
    assert model is not None, problems
    return model


def reservation(model: Model, flags: str, **options: Any) -> Reservation:
    started = launch("mlx", flags.split())
    stated = ENGINE.options_of(started.program, started.read, model)
    request = ask(model, **options)
    return reserve(ENGINE, Question(request, measure(request).placement, started.version, stated.settings))


def of_run(run: Run) -> Reservation:
    return reservation(
        model_of(run.facts), f"--max-tokens {run.generated} {run.flags}", context=run.prompt + run.generated
    )


@pytest.mark.parametrize("row", [*SHAPES, *FAMILIES], ids=lambda row: row.name)
def test_what_was_really_allocated_comes_out_by_layer(row: Run) -> None:
    """The arrays of each group of layers, and all of them together, to the byte."""
    found = of_run(row)
    expected = [
        (group.layers, {name: group.layers * sum(prod(shape) * size for shape, size in arrays)
                        for name, arrays in group.arrays.items()})
        for group in row.caches
    ]  # fmt: skip
    got = [(charge.copies, dict(charge.parts)) for charge in found.allocation.charges]
    assert sorted(got, key=str) == sorted(expected, key=str)
    assert found.reserved_total == row.total


@pytest.mark.parametrize("row", [*SHAPES, *FAMILIES], ids=lambda row: row.name)
def test_the_differences_lead_from_the_exact_size_to_the_reserved_one(row: Run) -> None:
    """Each rule has its line, and none is hidden."""
    found = of_run(row)
    exact = measure(found.question.request).bytes_total
    assert found.exact_total == exact
    assert found.reserved_total == exact + sum(difference.bytes for difference in found.differences)


@pytest.mark.parametrize("row", GROWTH, ids=str)
def test_arrays_grow_as_those_of_the_engine(row: Growth) -> None:
    """Two heads of 32 in bf16 are 256 B a token, in one layer with the cache that was fed."""
    layers, caches = {
        "whole": ("full", {}),
        "ring": ("sliding", {"sliding": {"window": row.span}}),
        "chunks": ("chunked", {"chunked": {"chunk": row.span}}),
    }[row.cache]
    kind = "llama4_text" if row.cache == "chunks" else "gemma3_text"
    facts = {"name": "x-1", "model_type": kind, "dtype": "bf16", "heads": 2, "kv_heads": 2, "head_dim": 32}
    model = model_of({**facts, "layers": layers, **({"caches": caches} if caches else {})})
    flags = f"--prefill-step-size {row.chunk} -m {row.generated}"
    found = reservation(model, flags, context=row.prompt + row.generated)
    assert found.reserved_total == 256 * row.end
    assert found.allocation.values["peak_bytes_per_gpu"] == 256 * row.most


def test_several_sequences_take_as_many_caches() -> None:
    """BatchGenerator with three equal prompts of 300 tokens: keys and values of (3, 2, 512, 64) and (3, 2, 40, 64)."""
    gemma = next(row for row in FAMILIES if row.name == "Gemma 3")
    assert reservation(model_of(gemma.facts), "-m 3", context=303, batch=3).reserved_total == 1093632


RULES = (
    ("gemma2-9b", "", {"context": 8192}, {"window ignored": 21 * 4096 * 2 * 8 * 256 * 2}),
    ("mistral-7b-v0.1", "", {"context": 8192}, {"window ignored": 32 * 4096 * 2 * 8 * 128 * 2}),
    ("gemma3-27b", "", {"context": 8192}, {}),
    ("llama3-8b", "", {"context": 4097}, {"whole blocks of 256 tokens": 255 * 131072}),
    ("qwen3-8b", "--max-kv-size 4096", {"context": 8192}, {"--max-kv-size": -4096 * 147456}),
    ("deepseek-v2-lite", "", {"context": 4096}, {"expanded latents": 27 * 4096 * (16 * (192 + 128) - 576) * 2}),
    ("deepseek-v3.2", "", {"context": 4096},
        {"in the model's dtype": 61 * 4096 * (256 - 132), "zeros beside index keys": 61 * 4096 * 256}),
    ("llama4-scout", "", {"context": 16384}, {"a block beside the chunk": 36 * 256 * 2 * 8 * 128 * 2}),
    ("jamba-1.5-mini", "", {"context": 4096}, {"state in its own dtype": -28 * 8192 * 16 * 2}),
    ("llama3-8b", "--kv-bits 8", {"context": 8192}, {"quantised in groups": -8192 * 65536 * 15 // 16}),
    ("llama3-8b", "--kv-bits 8", {"context": 4864}, {}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "flags", "options", "rules"), RULES)
def test_each_rule_adds_what_it_says(name: str, flags: str, options: dict[str, int], rules: dict[str, int]) -> None:
    """By hand: layers x tokens x what a token takes more. 8 bits in groups of 64 are 8.5 of 16: 15 / 32 are saved."""
    found = reservation(load(name), flags, **options)
    assert {difference.rule.why: difference.bytes for difference in found.differences} == rules


_AT_ONCE = ("--quantized-kv-start", "0")
REFUSALS = (
    (["falcon-40b", "--engine", "mlx"], "model_type: 'falcon' is none of those"),
    (["t5-small", "--engine", "mlx"], "model_type: 't5' is none of those"),
    (["glm-5.2", "--engine", "mlx"], "model_type: MLX-LM's glm_moe_dsa has an indexer in every layer"),
    (["llama3-8b", "--engine", "mlx", "--tp", "2"], "--tp: "),
    (["llama3-8b", "--engine", "mlx", "--pp", "2"], "--pp: "),
    (["llama3-8b", "--engine", "mlx", "--batch", "33"], "--batch: MLX-LM decodes at most 32 sequences together"),
    (["llama4-scout", "--engine", "mlx", "--batch", "2"], "--batch: MLX-LM decodes one sequence at a time"),
    (["llama3-8b", "--batch", "2", "--", "mlx_lm.generate"], "--batch: MLX-LM decodes one sequence at a time"),
    (["llama3-8b", "--engine", "mlx", "--kv-dtype", "fp8"], "--kv-dtype: mlx has no fp8 cache"),
    (["llama3-8b", "--engine", "mlx", "--v-dtype", "fp16"], "--k-dtype: keys and values have one dtype"),
    (["gpt-oss-20b", "--engine", "mlx", "--", "--kv-bits", "4", *_AT_ONCE], "--kv-bits: MLX-LM 0.32.2 cannot quantise rotating"),
    (["gemma2-9b", "--engine", "mlx", "--", "--kv-bits", "4", *_AT_ONCE], "--kv-bits: MLX-LM 0.32.2 cannot quantise what gemma2"),
    (["deepseek-v3", "--engine", "mlx", "--", "--kv-bits", "4", *_AT_ONCE], "--kv-bits: MLX-LM 0.32.2 cannot quantise latents"),
    (["phi-2", "--engine", "mlx", "--", "--kv-bits", "4", *_AT_ONCE], "--kv-bits: MLX-LM 0.32.2 cannot quantise what phi"),
    (["granite3.3-2b", "--engine", "mlx", "--", "--kv-bits", "4", "--kv-group-size", "128"],
        "--kv-group-size: 128 does not divide the head size 64"),
    (["llama3-8b", "--engine", "mlx", "--", "--kv-bits", "7"], "--kv-bits: expected one of 2, 3, 4, 5, 6, 8"),
    (["llama3-8b", "--engine", "mlx", "--", "--max-kv-size", "4"], "--max-kv-size: expected 5 or more"),
    (["ministral3-8b", "--engine", "mlx", "--", "--max-kv-size", "512"], "--max-kv-size: MLX-LM heeds it where"),
    (["llama3-8b", "--", "mlx_lm.chat", "--kv-bits", "4"], "--kv-bits: mlx_lm.chat has no such option"),
    (["llama3-8b", "--", "mlx_lm.server", "--max-kv-size", "512"], "--max-kv-size: mlx_lm.server has no such option"),
    (["llama3-8b", "--", "mlx_lm.generate", "--draft-model", "x"], "--draft-model: MLX-LM keeps the cache of a second"),
)  # fmt: skip


@pytest.mark.parametrize(("argv", "says"), REFUSALS)
def test_what_cannot_be_known_is_refused_in_one_line(refused: Refused, argv: list[str], says: str) -> None:
    """Model types that were not read, caches that MLX-LM has not, and flags at which it fails."""
    assert refused(*argv)[0].startswith(says)


PROGRAMS = (
    ("mlx_lm.generate --model {} --prompt hello -qa", 100),
    ("mlx_lm generate --model {}", 100),
    ("python -m mlx_lm.generate --model={} -p - --temp 0.7", 100),
    ("python3 -m mlx_lm generate --model {} --trust-remote-code", 100),
    ("mlx_lm.chat --model {} --system-prompt x", 256),
    ("python -m mlx_lm chat --model {}", 256),
    ("mlx_lm.server --model {} --port 8080 --host 0.0.0.0 --prompt-cache-size 4", 512),
    ("mlx_lm server --model {} --log-level DEBUG", 512),
    ("mlx_lm.generate --model {} --max-tokens 7", 7),
    ("mlx_lm.generate -m 8 --model {}", 8),
    ("env HF_HOME=x /opt/bin/mlx_lm.generate --model {} -m=9", 9),
)


@pytest.mark.parametrize(("command", "generated"), PROGRAMS)
def test_every_way_to_start_it_is_understood(capsys: pytest.CaptureFixture[str], command: str, generated: int) -> None:
    """The model is the command's, and so are the tokens that it generates by default; nothing is warned of."""
    assert run(["--get", "engine.generated_tokens", "--", *command.format("llama3-8b").split()]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"{generated}\n", "")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("llama3-8b --engine mlx -- --max-kv-size 512", "--max-kv-size changes nothing"),
        ("falcon-h1-7b --engine mlx -- --kv-bits 4", "--kv-bits changes nothing"),
        ("llama3-8b -- mlx_lm.generate --prompt-cache-file x", "--prompt-cache-file: the file is not opened"),
        ("llama3-8b --engine mlx@0.20 --quiet", "mlx 0.20 is older than all versions"),
        ("llama3-8b -- mlx_lm.generate --no-such-flag 3", "'--no-such-flag 3' of mlx is not known"),
    ],
)
def test_what_changes_nothing_is_said(capsys: pytest.CaptureFixture[str], argv: str, says: str) -> None:
    """MLX-LM passes over some flags in silence."""
    words = argv.split()
    assert run([*words[:1], *([] if "--quiet" in words else ["--quiet"]), *words[1:]]) == 0
    assert says in capsys.readouterr().err


def test_the_prompt_must_fit_and_not_only_what_is_left_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma 3 1B at 8,192 tokens, of which 8,092 are the prompt: in the end 4 full layers of 8,192 and 22 windows of
    512, 1,024 B a token. The last chunk but the prompt's last token has 8,091 - 3 x 2,048 = 1,947 tokens, and stands in
    each window beside 511 earlier ones.
    """
    end, most = (4 * 8192 + 22 * 512) * 1024, (4 * 8192 + 22 * (511 + 1947)) * 1024
    for memory, status in ((most - 1, 1), (most, 0)):
        argv = ["gemma3-1b", "--context", "8192", "--engine", "mlx", "--kv-memory", f"{memory}B"]
        assert run([*argv, "--get", "engine.reserved_bytes_total"]) == status
        assert capsys.readouterr().out == f"{end}\n"


@pytest.mark.parametrize(
    ("command", "most"), [("mlx_lm.server", 32), ("mlx_lm.server --decode-concurrency 8", 8), ("mlx_lm.generate", 1)]
)
def test_one_process_decodes_only_so_many(capsys: pytest.CaptureFixture[str], command: str, most: int) -> None:
    """However much memory there is."""
    assert run(["llama3-8b", "--kv-memory", "1TB", "--get", "fit.max_batch", "--", *command.split()]) == 0
    assert capsys.readouterr().out == f"{most}\n"


def test_a_model_without_a_type_is_refused() -> None:
    """MLX-LM chooses the model file by it."""
    model = model_of({"name": "x-1", "dtype": "bf16", "heads": 2, "kv_heads": 2, "head_dim": 64, "layers": "2 full"})
    with pytest.raises(KvcalcError, match="model_type: MLX-LM chooses its caches by it"):
        reservation(model, "", context=10)


def test_a_declared_format_of_the_checkpoint_is_not_read() -> None:
    """An FP8 checkpoint's cache is in the model's dtype: twice the exact size, beside the block."""
    facts = {"name": "x-1", "model_type": "qwen3", "dtype": "bf16", "kv_dtype": "fp8", "heads": 2, "kv_heads": 2,
             "head_dim": 64, "layers": "2 full"}  # fmt: skip
    found = reservation(model_of(facts), "", context=256)
    assert (found.exact_total, found.reserved_total) == (256 * 512, 256 * 1024)
    assert [difference.rule.why for difference in found.differences] == ["in the model's dtype"]


# Types of presets that MLX-LM has no model file for, or one that cannot load them (GLM-5.2 and 5.3 share indexers), or
# that was not run (bailing_hybrid).
WITHOUT = """
    arcee bailing_hybrid baichuan bamba bart bloom chatglm deepseek_v4 exaone4_5_text falcon glm4v_moe_text glm4v_text
    grok-1 hunyuan_v1_moe internlm minimax_m1
    minimax_text_01 mllama_text_model molmo mpt opt orion qwen2_5_omni_text qwen3_asr_text rwkv6 sarvam_mla step3p7 t5 whisper zamba2
"""


def test_every_preset_is_answered_or_refused() -> None:
    """In MLX-LM as `ls mlx_lm/models` and its MODEL_REMAPPING have it."""
    refused = set()
    for entry in entries():
        model = load_entry(entry)
        try:
            found = reservation(model, "")
        except KvcalcError:
            refused.add(model.model_type)
            continue
        assert found.reserved_total == found.exact_total + sum(difference.bytes for difference in found.differences)
    assert refused == {*WITHOUT.split(), "glm_moe_dsa"}


def test_nothing_is_quantised_before_its_start(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    """Rotating caches fail once there are 5,000 tokens, and below that --kv-bits changes nothing."""
    for name, flags in (("gemma3-12b", ""), ("qwen3-8b", " --max-kv-size 4096"), ("deepseek-v3", "")):
        words = f"--kv-bits 8{flags}".split()
        model = load(name)
        plain = reservation(model, flags, context=4999)
        assert reservation(model, f"--kv-bits 8{flags}", context=4999).reserved_total == plain.reserved_total
        says = refused(name, "-c", "5000", "--engine", "mlx", "--", *words)[0]
        assert says.startswith("--kv-bits: MLX-LM 0.32.2 cannot quantise")
        asked = [name, "-c", "4096", "--engine", "mlx", "--kv-memory", "1TB", "--get"]
        assert run([*asked, "fit.max_context", "--", *words]) == 0
        assert run([*asked, "fit.context_binding", "--", *words]) == 0
        assert capsys.readouterr().out.split() == ["4999", "engine"]
