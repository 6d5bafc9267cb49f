"""What vLLM takes beside weights and cache, against numbers that its logs print and arithmetic by hand."""

import shlex
from dataclasses import replace
from typing import Any

import pytest

from kvcalc.cards.names import card_called
from kvcalc.commands.versions import pick
from kvcalc.core.overheads import Overhead, total
from kvcalc.core.request import ask
from kvcalc.core.sharding import place
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.batches import batch_of
from kvcalc.engines.vllm.engine import ENGINE
from kvcalc.launch.command import launch
from kvcalc.library import loader

from .startups import answers, summary

GIB = 2**30


def lines(
    preset: str, card: str, version: str, *, tp: int = 1, pp: int = 1, ep: int = 1, context: int = 8192, **settings: Any
) -> dict[str, Overhead]:
    asked = question(preset, card, version, tp, pp, context, settings, ep)
    return {line.name: line for line in ENGINE.memory(*asked)}


def question(
    preset: str, name: str, version: str, tp: int, pp: int, context: int, settings: dict[str, Any], ep: int = 1
) -> tuple[Question, int]:
    card = card_called(name)[1]
    request = ask(loader.load(preset), context=context, tp=tp, pp=pp, ep=ep)
    row, _ = pick(ENGINE.versions, version, "vllm")
    return Question(request, place(request.model, request.layout), row, settings, card=card), card.memory


# The peak of the profile run beside the weights, as logs print it in GiB ("PyTorch activation peak memory takes").
# Qwen3-32B, Qwen3-8B and the others of tests/facts/startups.json; gpt-oss-20b, Qwen3-0.6B and Llama-3.1-8B from
# discussions of --max-num-seqs.
@pytest.mark.parametrize(
    ("preset", "card", "version", "tp", "context", "printed"),
    [
        ("gpt-oss-20b", "h100-sxm", "0.11.1", 1, 8192, 7.38),
        ("qwen3-0.6b", "h100-sxm", "0.11.1", 1, 8192, 5.56),
        ("llama3.1-8b", "h100-sxm", "0.11.1", 1, 8192, 4.76),
        ("llama3.3-70b", "h100-sxm", "0.11.1", 2, 8192, 4.84),
        ("qwen3-32b", "h100-sxm", "0.11.2", 1, 16000, 5.64),
        ("qwen3-32b", "h100-sxm", "0.11.2", 2, 16000, 5.64),  # logits are gathered: tp does not divide them
        ("mistral-small-24b", "h100-sxm", "0.11.0", 1, 16000, 2.12),  # its image has FlashInfer's sampler
        ("qwen3-8b", "rtx-a6000", "0.14.1", 1, 40960, 1.40),
        ("qwen3-8b", "rtx-4090", "0.10.2", 1, 1024, 1.40),
        ("phi-4-mini", "a100-40gb-sxm", "0.7.0", 1, 2048, 1.83),
        ("qwen2.5-1.5b", "l40s", "0.7.0", 1, 4096, 1.40),
    ],
)  # fmt: skip
def test_the_peak_that_logs_print(preset: str, card: str, version: str, tp: int, context: int, printed: float) -> None:
    found = lines(preset, card, version, tp=tp, context=context)["activations"]
    assert abs(found.size.likely / GIB - printed) < 0.15
    assert found.size.low < found.size.likely <= found.size.high


def test_sorting_keeps_38_bytes_for_each_logit() -> None:
    """1,024 sequences x 151,936 logits x 38.3 B + 8,192 tokens x 4,096 x 2 B of hidden states on an H100."""
    found = lines("qwen3-8b", "h100-sxm", "0.16.0")["activations"]
    assert found.size.likely == 1024 * 151_936 * 383 // 10 + 8192 * 4096 * 2
    assert "1,024 sequences x 151,936 logits x 38.3 B" in found.rule


def test_fewer_sequences_give_memory_back() -> None:
    """Llama 70B on H100s: 256 sequences instead of 1,024 give 3.5 GiB back; 768 x 128,256 x 38.3 B are 3.51 GiB.

    With 256 sequences the forward pass needs more, on four cards 8,192 x 2 B x (2 x 8,192 + 3 x 28,672 / 4) = 0.58 GiB.
    """
    before = lines("llama3.3-70b", "h100-sxm", "0.16.0", tp=4)
    after = lines("llama3.3-70b", "h100-sxm", "0.16.0", tp=4, max_num_seqs=256)
    assert before["activations"].saving == "256 sequences instead of 1,024 (--max-num-seqs): + 3.513 GiB"
    assert before["activations"].size.likely - after["activations"].size.likely == pytest.approx(
        768 * 128_256 * 38.3, abs=1
    )


def test_a_forward_pass_counts_where_few_sequences_are_sampled() -> None:
    """16 sequences of Qwen3-8B: 8,192 tokens x 2 B x (2 x 4,096 + 3 x 12,288) are more than sampling."""
    found = lines("qwen3-8b", "h100-sxm", "0.16.0", max_num_seqs=16)["activations"]
    assert found.size.likely == 8192 * 2 * (2 * 4096 + 3 * 12_288)
    assert found.saving.startswith("--max-num-batched-tokens 4096")


def test_the_second_model_runner_counts_tokens_for_penalties() -> None:
    """From 0.25 on dense models have it: 6 B a logit for a while, and 4 B and a bit for good."""
    found = lines("qwen3-8b", "rtx-4090", "0.25.0")
    logits = 256 * 151_936
    assert found["penalties"].size.likely == logits * 33 // 8
    assert found["activations"].size.likely == max(logits * 6 + 2048 * 4096 * 2, 2048 * 2 * (2 * 4096 + 3 * 12_288))
    assert "penalties" not in lines("qwen3-30b-a3b", "rtx-4090", "0.25.0")
    assert "penalties" in lines("qwen3-30b-a3b", "rtx-4090", "0.33.0")


@pytest.mark.parametrize(
    ("card", "version", "batch"),
    [
        ("h100-sxm", "0.18.0", (1024, 8192)), ("a100-80gb-sxm", "0.18.0", (256, 2048)), ("l40s", "0.18.0", (256, 2048)),
        ("b200-sxm", "0.18.0", (1024, 8192)), ("b200-sxm", "0.33.0", (1024, 16384)),
        ("gb10-dgx-spark", "0.20.0", (1024, 8192)), ("gb10-dgx-spark", "0.33.0", (256, 2048)),
        ("h100-sxm", "0.8.0", (256, 8192)),  # V0: a prompt in one piece, of up to 8,192 tokens here
    ],
)  # fmt: skip
def test_the_limits_of_a_batch(card: str, version: str, batch: tuple[int, int]) -> None:
    """`get_batch_defaults` of the wheels, for a context of 8,192 tokens."""
    asked, memory = question("llama3.1-8b", card, version, 1, 1, 8192, {})
    assert batch_of(asked, memory) == batch


def test_short_contexts_limit_the_batch() -> None:
    """--max-num-batched-tokens is at most --max-num-seqs x --max-model-len: 4 x 512."""
    asked, memory = question("llama3.1-8b", "h100-sxm", "0.33.0", 1, 1, 512, {"max_num_seqs": 4})
    assert batch_of(asked, memory) == (4, 2048)


def test_workspaces_of_experts() -> None:
    """DeepSeek R1 at tp 8: 8,192 tokens x 8 experts x 2 buffers x 7,168 x 2 B = 1.75 GiB, kept in 0.14 and from 0.17.

    On MI300X it is 8.22 GiB beside the weights in 0.13.0 and 9.97 in 0.14.1: 1.75 more.
    """
    size = 8192 * 8 * 2 * 7168 * 2
    kept = {
        version: lines("deepseek-v3", "mi300x", version, tp=8)["expert workspaces"].size.likely
        for version in ("0.14.1", "0.16.0", "0.18.0")
    }
    assert set(kept.values()) == {size}
    assert "expert workspaces" not in lines("deepseek-v3", "mi300x", "0.13.0", tp=8)
    hopper = {
        v: lines("deepseek-v3", "h200-sxm", v, tp=8)["expert workspaces"].size.likely for v in ("0.16.0", "0.18.0")
    }
    assert hopper == {"0.16.0": 0, "0.18.0": size}
    assert lines("deepseek-v3", "b200-sxm", "0.18.0", tp=8)["expert workspaces"].size.likely == 0  # FlashInfer's
    spread = lines("minimax-m2.7", "h200-sxm", "0.18.0", tp=8, ep=8)["expert workspaces"]
    assert spread.size.likely == 8192 * 3072 * 2


def test_graphs_come_off_the_pool_from_0_20_on() -> None:
    """Before that they are captured beside it, with --enforce-eager never; on ROCm they are counted from 0.22 on."""
    by_version = {v: lines("llama3.1-8b", "h100-sxm", v)["graphs"].inside for v in ("0.11.1", "0.19.1", "0.20.0")}
    assert by_version == {"0.11.1": False, "0.19.1": False, "0.20.0": True}
    assert [lines("llama3.1-8b", "mi300x", v)["graphs"].inside for v in ("0.20.0", "0.22.0")] == [False, True]
    assert "graphs" not in lines("llama3.1-8b", "h100-sxm", "0.33.0", enforce_eager=True)
    assert not lines("llama3.1-8b", "h100-sxm", "0.33.0", count_graphs=False)["graphs"].inside


def test_the_buffers_of_a_fused_all_reduce() -> None:
    """From 0.17 on with tp 2, 4 or 8 on Hopper and Blackwell of data centres, until 0.33 not beside pp."""
    name = "all-reduce workspace"
    assert name in lines("llama3.3-70b", "h100-sxm", "0.17.0", tp=4)
    assert name not in lines("llama3.3-70b", "h100-sxm", "0.16.0", tp=4)
    assert name not in lines("llama3.3-70b", "h100-sxm", "0.17.0", tp=4, pp=2)
    assert name in lines("llama3.3-70b", "h100-sxm", "0.33.0", tp=4, pp=2)
    assert name not in lines("llama3.3-70b", "a100-80gb-sxm", "0.33.0", tp=4)
    assert name not in lines("llama3.3-70b", "h100-sxm", "0.33.0", tp=4, enforce_eager=True)


def test_an_encoder_counts_unless_it_is_left_out() -> None:
    assert "encoder" in lines("qwen3-vl-30b-a3b", "h100-sxm", "0.18.0")
    assert "encoder" not in lines("qwen3-vl-30b-a3b", "h100-sxm", "0.18.0", language_model_only=True)
    assert "encoder" not in lines("qwen3-30b-a3b", "h100-sxm", "0.18.0")


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        ("--enforce-eager", {"enforce_eager": True}),
        ("-O0", {"enforce_eager": True}),
        ('--compilation-config {"cudagraph_mode":"NONE"}', {"enforce_eager": True}),
        ("--language-model-only", {"language_model_only": True}),
        ('--limit-mm-per-prompt {"image":0,"video":0}', {"language_model_only": True}),
        ("--limit-mm-per-prompt image=0", {"language_model_only": True}),
        ("--limit-mm-per-prompt image=2", {}),
        ("--max-num-seqs 64 --max-num-batched-tokens 4K", {"max_num_seqs": 64, "max_num_batched_tokens": 4096}),
        ("--performance-mode throughput", {"performance_mode": "throughput"}),
    ],
)  # fmt: skip
def test_flags_that_change_its_memory(flags: str, setting: dict[str, object]) -> None:
    started = launch("vllm", shlex.split(flags.replace('"', '\\"')))
    assert started.warnings == ()
    assert ENGINE.options_of(started.program, started.read, loader.load("llama3.1-8b")).settings == setting


def test_what_is_not_known_says_so() -> None:
    """Without the widths of its weights, a model has the range of what was seen, and the field that is missing."""
    asked, memory = question("llama3.1-8b", "h100-sxm", "0.33.0", 1, 1, 8192, {})
    bare = asked._replace(request=asked.request._replace(model=replace(asked.request.model, dimensions=None)))
    found = {line.name: line for line in ENGINE.memory(bare, memory)}
    assert "`dimensions`" in found["activations"].rule
    assert found["activations"].size.low < found["activations"].size.likely < found["activations"].size.high


def test_the_terms_agree_with_public_start_ups() -> None:
    """With the weights that logs print: what must come out for pools above 10 GiB."""
    found = summary(
        (each, each.logged) for each in answers() if each.logged is not None and each.row["available_gib"] > 10
    )
    assert found.rows >= 88
    assert found.median < 0.005
    assert found.p90 < 0.03
    assert found.inside > 0.95
    assert found.width < 1.2
    assert found.over < 0.05


def test_the_terms_agree_with_public_start_ups_in_gib() -> None:
    """Beside the weights: half of the start-ups within 0.2 GiB, nine in ten within 0.5."""
    errors = sorted(abs(each.logged.kv_budget - each.available) / GIB for each in answers() if each.logged is not None)
    assert errors[len(errors) // 2] < 0.2
    assert errors[len(errors) * 9 // 10] < 0.6
    assert all(total(each.counted.overheads).likely > 0 for each in answers())
