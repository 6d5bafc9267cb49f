"""What all engines share: sums over layers, stages and replicas, and differences that add up."""

from typing import NamedTuple

import pytest

from kvcalc.commands.flags import Flags
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.base import Engine, Reservation, reserve
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches
from kvcalc.errors import KvcalcError
from kvcalc.preset.mapping import model_from_preset


class Row(NamedTuple):
    name: str


PADDED = Rule("padded to 100 tokens", "made up for this test")
DOUBLED = Rule("stored twice", "made up for this test")


def plan(question: Question) -> Allocation:
    """An engine that pads each sequence to hundreds of tokens and then stores everything twice."""
    charges = []
    for each in stage_caches(question):
        tokens = question.request.context
        padded = each.exact // tokens * (-(-tokens // 100) * 100)
        steps = (Step(PADDED, padded), Step(DOUBLED, 2 * padded))
        charges.append(Charge("full", each.copies, each.exact, steps, (("k_bytes", 2 * padded),), "", each.stage))
    return Allocation(tuple(charges))


ENGINE = Engine(
    "made-up", (Row("1"),), plan, ("bf16", "fp16"), Flags(), lambda _program, _read, _model: EngineOptions()
)


def reservation(**options: object) -> Reservation:
    """Five layers of 2 heads of 64 in bf16: 5 x 2 x 2 x 64 x 2 B = 2,560 B a token."""
    facts = {"name": "x-1", "dtype": "bf16", "heads": 4, "kv_heads": 2, "head_dim": 64, "layers": "5 full"}
    model, problems = model_from_preset(facts, "x-1")
    assert model is not None, problems
    request = ask(model, **options)  # type: ignore[arg-type]
    return reserve(ENGINE, Question(request, measure(request).placement, Row("1")))


def test_each_rule_has_its_difference() -> None:
    """150 tokens become 200, then 400: 3 x 2,560 x 150 exact, 3 x 2,560 x 50 padding, as much again as both."""
    found = reservation(context=150, batch=3)
    assert found.exact_total == 3 * 2560 * 150
    assert [(d.rule, d.bytes) for d in found.differences] == [(PADDED, 3 * 2560 * 50), (DOUBLED, 3 * 2560 * 200)]
    assert found.reserved_total == 3 * 2560 * 400


def test_a_rule_without_effect_is_not_listed() -> None:
    """200 tokens need no padding."""
    assert [d.rule for d in reservation(context=200).differences] == [DOUBLED]


def test_equal_caches_are_counted_once_for_many_questions() -> None:
    """A fit asks for many numbers of tokens: the counts are kept, and the bytes are those of each question."""
    question = reservation(context=100).question
    assert stage_caches(question.counted().at(2, 300)) == stage_caches(question.at(2, 300))
    assert [(each.copies, each.exact) for each in stage_caches(question.counted().at(2, 300))] == [(5, 2 * 2560 * 300)]


def test_replicas_with_fewer_sequences_are_counted_as_such() -> None:
    """Five sequences on two replicas are 3 and 2; the fullest GPU holds 3."""
    found = reservation(context=100, batch=5, dp=2)
    assert found.reserved_total == 5 * 2560 * 200
    assert found.reserved_per_gpu == 3 * 2560 * 200


def test_replicas_without_a_sequence_hold_nothing() -> None:
    """Two sequences on four replicas."""
    found = reservation(context=100, batch=2, dp=4)
    assert (found.reserved_total, found.reserved_per_gpu) == (2 * 2560 * 200, 2560 * 200)


def test_the_fullest_stage_decides_what_a_gpu_holds() -> None:
    """Five layers on two stages are 2 and 3: 512 B a token and layer."""
    found = reservation(context=100, pp=2)
    assert (found.reserved_total, found.reserved_per_gpu) == (5 * 512 * 200, 3 * 512 * 200)


def test_a_format_that_the_engine_lacks_is_refused_by_its_option() -> None:
    """The engine's own formats are the way out."""
    with pytest.raises(KvcalcError, match="--kv-dtype: made-up has no fp8 cache") as error:
        reservation(kv_dtype="fp8")
    assert error.value.hint == "one of bf16, fp16"


def test_a_format_left_to_the_model_is_the_engines_business() -> None:
    """`auto` is never refused here: engines have their own defaults."""
    assert reservation(kv_dtype="auto", context=100).exact_total == 2560 * 100
