"""How checkpoints in a format store each part: the mix of types that their files have, and what they may have."""

from collections.abc import Mapping
from functools import cache
from math import lcm
from typing import NamedTuple

from kvcalc.core.dtypes import COMPUTE, FP32, WEIGHTS, DType
from kvcalc.core.model import Kept
from kvcalc.core.parts import Role

__all__ = ["FILES", "KEPT", "NAMES", "WeightFormat", "format_of"]

Stored = Mapping[Role, DType]
_Roles = tuple[Role, ...]


class WeightFormat(NamedTuple):
    """The type of each role in files of a format: `packed` for matrices, but `other` where those differ by role.

    `tied`: of the table of embeddings where it is the output head too. `low` and `high` replace roles in the smallest
    and the largest files that are called so; `moe` those of models with experts. `spread` is what files differ by in
    either direction beyond that, in thousandths.
    """

    name: str
    packed: DType
    other: Stored
    source: str
    tied: DType | None = None
    moe: Stored = {}
    low: Stored = {}
    high: Stored = {}
    spread: tuple[int, int] = (0, 0)
    narrow: "WeightFormat | None" = None


BF16 = COMPUTE["bf16"]
_WIDE: tuple[Role, ...] = ("embedding", "head", "router", "norm", "encoder")

# The roles that a checkpoint keeps in 16 bits, by the words of a preset.
KEPT: Mapping[Kept, tuple[Role, ...]] = {
    "attention": ("query", "key", "value", "output", "latent"),
    "state": ("state",),
    "dense": ("up", "down"),
    "shared": ("shared_up", "shared_down"),
    "experts": ("expert_up", "expert_down"),
    "head": ("head",),
}


def _all(dtype: DType, *roles: Role) -> dict[Role, DType]:
    return dict.fromkeys(roles, dtype)


_PLAIN = _all(BF16, *_WIDE)
_ATTENTION = _all(BF16, *KEPT["attention"], *KEPT["state"])
_BESIDE_EXPERTS = _ATTENTION | _all(BF16, *KEPT["dense"], *KEPT["shared"], "rest")

# Groups of 128 weights with a 16-bit scale and a 4-bit zero point (AutoAWQ and GPTQModel, their usual group_size); of
# 64 with an fp32 scale, or an 8-bit one and a second fp32 for 256 of those (bitsandbytes; Dettmers 2023, arXiv
# 2305.14314, section 3). The least that is called int4 is a symmetric group of 128, the most one of 32 (Kimi K2.5).
_GROUPED = DType("int4", 256, 133)
_SYMMETRIC = DType("int4", 64, 33)
_SMALL_GROUPS = DType("int4", 64, 37)
_NF4, _NF4_TWICE = DType("nf4", 16, 9), DType("nf4", 16384, 8452)

_LINEAR: tuple[Role, ...] = ("query", "key", "value", "output", "latent", "state", "up", "down", "shared_up",
                             "shared_down", "expert_up", "expert_down", "rest")  # fmt: skip

_CHECKPOINTS = ("fp8", "int8", "int4", "awq", "gptq", "nf4", "fp4", "nvfp4", "mxfp4",
                "mlx_3bit", "mlx_4bit", "mlx_5bit", "mlx_6bit", "mlx_8bit")  # fmt: skip
_EIGHT_SOURCE = "linear layers in 8 bits, tables, routers and norms in 16"
_FOUR_SOURCE = "linear layers in 4 bits and scales, tables, routers and norms in 16"


@cache
def _checkpoints() -> dict[str, WeightFormat]:
    """What vLLM and transformers load. Which layers stay in 16 bits: the ignore lists of published configurations.

    All name lm_head and routers. Those of NVIDIA's NVFP4 keep attention and recurrent layers where there are experts
    (DeepSeek V3.1 and V3.2, GLM-5, Kimi K2.6, MiniMax-M2.5, Qwen3.5), some shared experts too; that of Qwen3-32B keeps
    none, that of Gemma 4 31B attention. MXFP4 packs the routed experts alone (gpt-oss, Kimi K3), and kernels pad them.
    """
    eight = [WeightFormat(name, WEIGHTS[name], _PLAIN, _EIGHT_SOURCE, high=_ATTENTION)
             for name in ("fp8", "int8")]  # fmt: skip
    four = [WeightFormat(name, _GROUPED, _PLAIN, _FOUR_SOURCE, low=_all(_SYMMETRIC, *_LINEAR),
                         high=_all(_SMALL_GROUPS, *_LINEAR)) for name in ("int4", "awq", "gptq")]  # fmt: skip
    nf4 = [WeightFormat(name, _NF4, _PLAIN, _FOUR_SOURCE, low=_all(_NF4_TWICE, *_LINEAR)) for name in ("nf4", "fp4")]
    nvfp4, mxfp4 = WEIGHTS["nvfp4"], WEIGHTS["mxfp4"]
    padded = DType("mxfp4", 32 * 18, 17 * 19)
    found = [
        *eight,
        *four,
        *nf4,
        WeightFormat("nvfp4", nvfp4, _PLAIN, _FOUR_SOURCE, moe=_ATTENTION, low=_all(nvfp4, *_LINEAR),
                     high=_BESIDE_EXPERTS),
        WeightFormat("mxfp4", mxfp4, _PLAIN, "routed experts in 4.25 bits, all else in 16", moe=_BESIDE_EXPERTS,
                     low=_all(mxfp4, *_LINEAR), high=_all(padded, "expert_up", "expert_down")),
        *(_mlx(bits) for bits in (3, 4, 5, 6, 8)),
    ]  # fmt: skip
    assert tuple(each.name for each in found) == _CHECKPOINTS
    return {each.name: each for each in found}


def _mlx(bits: int) -> WeightFormat:
    """Groups of 64 with a 16-bit scale and a 16-bit bias, of 32 at the most; tables too (mlx-lm 0.32, convert.py)."""
    packed, small = DType(f"mlx_{bits}bit", 16, 2 * bits + 1), DType(f"mlx_{bits}bit", 8, bits + 1)
    wide = _all(BF16, "router", "norm", "encoder")
    source = f"matrices and tables in {bits} bits and scales, routers and norms in 16"
    return WeightFormat(packed.name, packed, wide, source, tied=packed, high=_all(small, *_LINEAR, "embedding", "head"))


def _mix(text: str) -> DType:
    """`q4_k` or `q4_k 8 q6_k`: a type, and how many sixteenths of the layers have another."""
    first, *rest = text.split()
    if not rest:
        return WEIGHTS[first]
    share, other = int(rest[0]), WEIGHTS[rest[1]]
    base = WEIGHTS[first]
    block = lcm(base.block, other.block)
    parts = (16 - share) * base.block_bytes * (block // base.block) + share * other.block_bytes * (block // other.block)
    return DType(f"{first}/{other.name}", 16 * block, parts)


# llama_tensor_get_type in src/llama-quant.cpp (llama.cpp 007dbbf3f): the type of a file for most tensors; for the
# output head, and the table of embeddings where it serves as one; for the table otherwise; for values, outputs of
# attention and the matrices out of feed-forward parts. A dash: as most. Layers that get more bits are the first and
# the last eighth and every third between (8 of 16), the first eighth (2), or the first sixteenth (1). Values are those
# of models with four query heads or more to a KV head. Left out are rules for Falcon, for models with exactly 8
# experts and for fused projections, which are within `spread`; so is what publishers change by hand: Ollama's library
# has files 9 % larger (Qwen3.5 122B, 81 GB).
_RULES = """
    name     most     head  table    values       outputs  down
    q2_k     q2_k     q6_k  -        q4_k         q3_k     q3_k
    q2_k_s   q2_k     q6_k  -        q4_k         -        q2_k 2 q4_k
    q3_k_s   q3_k     q6_k  -        -            -        -
    q3_k_m   q3_k     q6_k  -        q4_k         q4_k     q4_k 1 q5_k
    q3_k_l   q3_k     q6_k  -        q5_k         q5_k     q5_k
    q4_k_s   q4_k     q6_k  -        q4_k 2 q5_k  -        q4_k 2 q5_k
    q4_k_m   q4_k     q6_k  -        q4_k 8 q6_k  -        q4_k 8 q6_k
    q5_k_s   q5_k     q6_k  -        -            -        -
    q5_k_m   q5_k     q6_k  -        q5_k 8 q6_k  -        q5_k 8 q6_k
    q6_k     q6_k     q6_k  -        -            -        -
    q8_0     q8_0     q8_0  -        -            -        -
    q4_0     q4_0     q6_k  -        -            -        -
    q4_1     q4_1     q6_k  -        -            -        -
    q5_0     q5_0     q6_k  -        -            -        -
    q5_1     q5_1     q6_k  -        -            -        -
    iq1_s    iq1_s    q5_k  q2_k     q4_k         iq2_xxs  iq1_s 2 q2_k
    iq1_m    iq1_m    q5_k  q2_k     q4_k         iq2_xxs  iq1_m 2 q2_k
    iq2_xxs  iq2_xxs  q5_k  q2_k     q4_k         -        iq2_xxs 2 q2_k
    iq2_xs   iq2_xs   q5_k  q2_k     q4_k         -        iq2_xs 2 q2_k
    iq2_s    iq2_xs   q5_k  iq3_s    q4_k         iq3_s    iq2_xs 2 iq3_s
    iq2_m    iq2_s    q5_k  iq3_s    q4_k         iq3_s    iq2_s 2 iq3_s
    iq3_xxs  iq3_xxs  q5_k  iq3_s    q4_k         iq3_s    -
    iq3_xs   iq3_s    q6_k  -        q4_k         -        -
    iq3_s    iq3_s    q6_k  -        q4_k         -        -
    iq3_m    iq3_s    q6_k  -        q4_k         q4_k     iq3_s 2 q4_k
    iq4_nl   iq4_nl   q6_k  -        q5_k         -        -
    iq4_xs   iq4_xs   q6_k  -        q5_k         -        -
    tq1_0    tq1_0    q6_k  q4_k     -            -        -
    tq2_0    tq2_0    q6_k  q4_k     -            -        -
"""
# llama-quantize's own shorter names; and queries and keys, and the middle of the matrices in, of two of them.
_SHORT = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}
_QUERIES = {"iq3_xxs": "iq2_s", "iq3_xs": "iq3_xxs"}
_INTO = {"iq3_xs": "iq3_s 12 iq3_xxs"}

_DOWN: tuple[Role, ...] = ("down", "shared_down", "expert_down")
_UP: tuple[Role, ...] = ("up", "shared_up", "expert_up")
_GGUF_SOURCE = "llama.cpp's rule for such files (llama_tensor_get_type)"


FILES = tuple(line.split()[0] for line in _RULES.split("\n")[2:] if line.strip())
NAMES = (*_CHECKPOINTS, *FILES)


# What stands in for a type of blocks of 256 where a row does not fill them (tensor_type_fallback, the same file).
_FALLBACK = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "tq1_0": "q4_0",
             "tq2_0": "q4_0"}  # fmt: skip


def _stands_in(cell: str) -> str:
    words = (_FALLBACK.get(word, "iq4_nl" if word.startswith("iq") else word) for word in cell.split())
    return " ".join(words)


def _file(name: str) -> WeightFormat:
    """A GGUF file as llama-quantize makes it. Norms and routers are in fp32, the projector of a tower in fp16."""
    cells = next(line for line in _RULES.split("\n")[2:] if line.split()[:1] == [name]).strip().split("  ")
    found = [cell.strip() for cell in cells if cell.strip()][1:]
    return _of_cells(name, found)._replace(narrow=_of_cells(name, [_stands_in(cell) for cell in found]))


def _of_cells(name: str, cells: list[str]) -> WeightFormat:
    most, head, table, values, outputs, down = cells
    other: dict[Role, DType] = {**_all(FP32, "router", "norm"), "encoder": BF16, "head": WEIGHTS[head]}
    by_role: list[tuple[_Roles, str]] = [(("embedding",), table), (("value",), values), (("output",), outputs)]
    by_role += [(_DOWN, down), (("query", "key"), _QUERIES.get(name, "-")), (_UP, _INTO.get(name, "-"))]
    for roles, cell in by_role:
        if cell != "-":
            other |= _all(_mix(cell), *roles)
    return WeightFormat(name, WEIGHTS[most], other, _GGUF_SOURCE, tied=WEIGHTS[head], spread=(30, 90))


@cache
def format_of(name: str) -> WeightFormat | None:
    """The mix of files in the format called `name`, by llama-quantize's shorter names too; None for plain types."""
    name = _SHORT.get(name, name)
    return _file(name) if name in FILES else _checkpoints().get(name)
