"""Small models as ten versions of transformers cached them: `generate` on a CPU in bf16, torch 2.13.0.

Two sequences with a prompt of 40 tokens, and four new tokens: three more were cached, one by one. `sizes` are bytes of
all tensors and of their storage from that version on; what came before was not run, or could not be.
"""

from typing import NamedTuple

# fmt: off


class Small(NamedTuple):
    facts: dict[str, object]
    sizes: dict[str, tuple[int, int]]


HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 16}
MHA = {"heads": 4, "kv_heads": 4, "head_dim": 32}
MAMBA2 = {"mamba2": {"heads": 8, "head_dim": 16, "groups": 1, "state": 32, "conv": 4}}
GROUPS = {"mamba2": {"heads": 8, "head_dim": 16, "groups": 2, "state": 32, "conv": 4}}
DELTANET = {"deltanet": {"k_heads": 2, "k_dim": 16, "v_heads": 4, "v_dim": 16, "conv": 4}}
# Keys of 16 + 8, values of 16 and four heads, or 32 + 8.
LATENT = {"heads": 4, "k_dim": 24, "v_dim": 16, "caches": {"latent": {"rank": 32, "rope": 8}}}
OLD_LATENT, NEW_LATENT = (110080, 110080), (27520, 27520)

SMALL = (
    Small({"model_type": "mamba", "layers": "4 mamba1", "caches": {"mamba1": {"inner": 64, "state": 16, "conv": 4}}},
          {"5.0.0": (20480, 20480), "5.5.4": (20480, 20480), "5.14.1": (36864, 36864), "5.23.0": (36864, 36864)}),
    Small({"model_type": "falcon_mamba", "layers": "4 mamba1",
           "caches": {"mamba1": {"inner": 64, "state": 16, "conv": 4}}},
          {"5.0.0": (20480, 20480), "5.14.1": (36864, 36864)}),
    Small({"model_type": "mamba2", "layers": "4 mamba2", "caches": GROUPS},
          {"5.0.0": (81920, 81920), "5.10.4": (81920, 81920), "5.14.1": (147456, 147456)}),
    Small({"model_type": "jamba", **HEADS, "layers": "2 x (mamba1, full)",
           "caches": {"mamba1": {"inner": 128, "state": 16, "conv": 4}}},
          {"4.57.6": (58880, 58880), "5.4.0": (58880, 58880), "5.5.4": (42496, 42496), "5.14.1": (58880, 58880)}),
    Small({"model_type": "bamba", **HEADS, "layers": "mamba2, full, mamba2", "caches": MAMBA2},
          {"4.57.6": (49920, 49920), "5.5.4": (49920, 49920), "5.14.1": (82688, 82688)}),
    Small({"model_type": "granitemoehybrid", **HEADS, "layers": "mamba2, full, mamba2", "caches": MAMBA2},
          {"4.57.6": (49920, 49920), "5.14.1": (82688, 82688)}),
    Small({"model_type": "falcon_h1", **HEADS, "layers": "4 full+mamba2", "caches": MAMBA2},
          {"4.57.6": (121856, 121856), "5.5.4": (121856, 121856), "5.14.1": (187392, 187392)}),
    Small({"model_type": "nemotron_h", **HEADS, "layers": "mamba2, full, none, mamba2", "caches": GROUPS},
          {"5.4.0": (51968, 51968), "5.14.1": (84736, 84736)}),
    Small({"model_type": "zamba2", **MHA, "layers": "mamba2, full+mamba2, mamba2", "caches": MAMBA2},
          {"4.57.6": (102400, 102400), "5.5.4": (102400, 102400), "5.14.1": (151552, 151552)}),
    Small({"model_type": "qwen3_next", **HEADS, "layers": "3 deltanet, full", "caches": DELTANET},
          {"4.57.6": (41728, 41728), "5.5.4": (29440, 29440), "5.14.1": (41728, 41728)}),
    Small({"model_type": "qwen3_5_text", **HEADS, "layers": "3 deltanet, full", "caches": DELTANET},
          {"5.4.0": (41728, 41728), "5.6.2": (29440, 29440), "5.23.0": (41728, 41728)}),
    Small({"model_type": "olmo_hybrid", **HEADS, "layers": "3 deltanet, full", "caches": DELTANET},
          {"5.15.0": (41728, 41728)}),
    Small({"model_type": "lfm2", **HEADS, "layers": "shortconv, full, 2 shortconv",
           "caches": {"shortconv": {"width": 64, "conv": 3}}},
          {"4.57.6": (14080, 14080), "5.5.4": (13312, 13312), "5.23.0": (13312, 13312)}),
    Small({"model_type": "minimax", **HEADS, "layers": "2 x (lightning, full)",
           "caches": {"lightning": {"heads": 4, "head_dim": 16}}},
          {"4.57.6": (30208, 30208), "5.14.1": (30208, 30208), "5.23.0": (30208, 30208)}),
    Small({"model_type": "rwkv", "layers": "2 rwkv4", "caches": {"rwkv4": {"width": 64}}}, {"5.15.0": (4096, 4096)}),
    # One KV head, a window of 16; the states are on the modules.
    Small({"model_type": "recurrent_gemma", "heads": 4, "kv_heads": 1, "head_dim": 16, "layers": "2 rglru, sliding",
           "caches": {"rglru": {"width": 64, "conv": 4}, "sliding": {"window": 16}}},
          {"5.4.0": (4480, 5120), "5.23.0": (4480, 5120)}),
    # The last four of ten layers reuse a window of 16 and a full layer. Before 5.6 what is shared was kept twice.
    Small({"model_type": "gemma3n_text", **HEADS, "layers": "4 sliding, full, sliding, 3 shared:sliding, shared:full",
           "caches": {"sliding": {"window": 16}}},
          {"4.57.6": (34304, 31488), "5.5.4": (34304, 31488), "5.6.2": (30208, 31488), "5.23.0": (30208, 31488)}),
    # Before 5.14 a model of these types without shared layers had a cache that knew of no windows.
    Small({"model_type": "gemma4_text", **HEADS, "layers": "sliding, full", "caches": {"sliding": {"window": 16}}},
          {"5.5.4": (22016, 22016), "5.6.0": (22016, 22016), "5.13.0": (22016, 22016), "5.14.0": (14848, 15104),
           "5.23.0": (14848, 15104)}),
    Small({"model_type": "gpt_neo", "heads": 4, "kv_heads": 4, "head_dim": 16, "layers": "full, sliding",
           "caches": {"sliding": {"window": 16}}},
          {"4.57.6": (44032, 44032), "5.23.0": (44032, 44032)}),
    Small({"model_type": "falcon", **HEADS, "layers": "2 full"}, {"4.57.6": (44032, 44032), "5.23.0": (44032, 44032)}),
    *(Small({"model_type": name, **LATENT, "layers": layers}, sizes) for name, layers, sizes in (
        ("deepseek_v2", "4 latent", {"4.57.6": OLD_LATENT, "5.15.0": NEW_LATENT}),
        ("deepseek_v3", "4 latent", {"4.57.6": OLD_LATENT, "5.14.1": OLD_LATENT, "5.15.0": NEW_LATENT}),
        ("longcat_flash", "2 latent+latent", {"4.57.6": OLD_LATENT, "5.14.0": OLD_LATENT, "5.15.0": NEW_LATENT}),
        ("minicpm3", "4 latent", {"5.14.1": OLD_LATENT, "5.15.0": NEW_LATENT}),
    )),
)
