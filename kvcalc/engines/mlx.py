"""MLX-LM: growing arrays, in blocks of 256 tokens."""

from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.explain import cache_name
from kvcalc.flags import Flag, Flags, Read, word
from kvcalc.model import Attention, Model
from kvcalc.reserving import Asked, Charge, Engine, Held, Plan, Question, Rule, Step, held, without_tp
from kvcalc.units import ceil_div, parse_integer

__all__ = ["ENGINE"]


class Version(NamedTuple):
    """What changed between versions."""

    name: str


VERSIONS = (Version("0.32.2"),)

_BLOCKS = Rule("whole blocks of 256 tokens", "mlx-lm 0.32.2, models/cache.py: KVCache.step")


def plan(question: Question) -> Plan:
    without_tp(question, "mlx")
    return Plan(tuple(_charge(each, question) for each in held(question)))


def _charge(each: Held, question: Question) -> Charge:
    match each.cache:
        case Attention(reach="full"):
            tokens = ceil_div(question.request.context, 256) * 256
            size = each.exact // question.request.context * tokens
            return Charge(
                cache_name(each.cache),
                each.copies,
                each.exact,
                (Step(_BLOCKS, size),),
                (("k_bytes", size // 2), ("v_bytes", size // 2)),
                f"{tokens} tokens",
                each.stage,
            )
        case _:
            raise KvcalcError("not yet")


def asked(program: str, read: Read, model: Model) -> Asked:  # noqa: ARG001
    return Asked(knobs={k: v for k, v in read.values.items() if k != "model"})


ENGINE = Engine(
    "mlx",
    VERSIONS,
    plan,
    ("fp32", "fp16", "bf16"),
    Flags(
        ("mlx_lm.generate", "mlx_lm generate"),
        (Flag("model", ("--model",), word), Flag("kv_bits", ("--kv-bits",), parse_integer)),
    ),
    asked,
)
