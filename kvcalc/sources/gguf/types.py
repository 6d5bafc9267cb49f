"""The tensor types of ggml by their numbers: enum ggml_type in ggml.h, block sizes of the structs in ggml-common.h.

Read at llama.cpp 0c1e57098 (ggml 0.25.3).
"""

from kvcalc.core.dtypes import WEIGHTS, DType

__all__ = ["REMOVED", "TYPES"]

TYPES = {
    number: WEIGHTS[name]
    for number, name in {
        0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k",
        12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
        20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0",
        39: "mxfp4",
    }.items()
} | {
    9: DType("q8_1", 32, 36),
    24: DType("i8", 1, 1),
    25: DType("i16", 1, 2),
    26: DType("i32", 1, 4),
    27: DType("i64", 1, 8),
    28: DType("f64", 1, 8),
    40: DType("nvfp4", 64, 36),  # ggml packs four blocks of 16 into one
    41: DType("q1_0", 128, 18),
    42: DType("q2_0", 64, 18),
}  # fmt: skip

# Numbers that no longer mean anything: the formats were dropped, or moved from the file to the moment of loading.
REMOVED = {
    4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8",
    36: "iq4_nl_4_4", 37: "iq4_nl_4_8", 38: "iq4_nl_8_8",
}  # fmt: skip
