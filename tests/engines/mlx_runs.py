"""What MLX-LM 0.32.2 (mlx 0.32.4) really allocated on a CPU: the caches of `generate_step`, by layer.

`SHAPES` are runs of published models cut to a few layers in bf16, recorded by the maintainers; `FAMILIES` were run for
this table, with the smallest configurations that show how each model file makes its caches. A row gives the arrays of
each group of equal layers as the engine prints them: heads, tokens and elements, or the two arrays of a state.
"""

from typing import NamedTuple

BF16, F32 = 2, 4

Facts = dict[str, object]


class Arrays(NamedTuple):
    """Arrays of `layers` equal caches, each as (dimensions, bytes of an element), under the names of JSON."""

    layers: int
    arrays: dict[str, tuple[tuple[tuple[int, ...], int], ...]]


class Run(NamedTuple):
    name: str
    facts: Facts
    prompt: int
    generated: int
    flags: str
    caches: tuple[Arrays, ...]
    total: int


def kv(layers: int, heads: int, tokens: int, k_dim: int, v_dim: int | None = None) -> Arrays:
    v = k_dim if v_dim is None else v_dim
    arrays = {"k_bytes": (((heads, tokens, k_dim), BF16),), "v_bytes": (((heads, tokens, v), BF16),)}
    return Arrays(layers, arrays)


def packed(layers: int, heads: int, tokens: int, words: int, groups: int) -> Arrays:
    """Quantised: words of 32 bits, scales and biases."""
    arrays = (((heads, tokens, words), 4), ((heads, tokens, groups), BF16), ((heads, tokens, groups), BF16))
    return Arrays(layers, {"k_bytes": arrays, "v_bytes": arrays})


def state(layers: int, *arrays: tuple[tuple[int, ...], int]) -> Arrays:
    return Arrays(layers, {"state_bytes": arrays})


def index(layers: int, tokens: int, k_dim: int, v_dim: int) -> Arrays:
    return Arrays(layers, {"index_bytes": (((tokens, k_dim), BF16), ((tokens, v_dim), BF16))})


def _model(model_type: str, layers: str, **rest: object) -> Facts:
    return {"name": "x-1", "model_type": model_type, "dtype": "bf16", "layers": layers, **rest}


_LLAMA = _model("llama", "2 full", heads=32, kv_heads=8, head_dim=128)
_GPT_OSS = _model("gpt_oss", "sliding, full", heads=64, kv_heads=8, head_dim=64, caches={"sliding": {"window": 128}})

SHAPES = (
    Run("Gemma 2 9B: both layers whole", _model("gemma2", "sliding, full", heads=16, kv_heads=8, head_dim=256,
        caches={"sliding": {"window": 4096}}), 600, 3, "", (kv(1, 8, 768, 256), kv(1, 8, 768, 256)), 12582912),
    Run("gpt-oss 20B, decoded past its window", _GPT_OSS, 100, 60, "", (kv(1, 8, 128, 64), kv(1, 8, 256, 64)), 786432),
    Run("gpt-oss 20B, prompt past its window", _GPT_OSS, 600, 3, "", (kv(1, 8, 128, 64), kv(1, 8, 768, 64)), 1835008),
    Run("Jamba", _model("jamba", "4 mamba1, full, 3 mamba1", heads=32, kv_heads=8, head_dim=128,
        caches={"mamba1": {"inner": 8192, "state": 16, "conv": 4}}), 40, 2, "",
        (state(7, ((3, 8192), BF16), ((8192, 16), BF16)), kv(1, 8, 256, 128)), 3227648),
    Run("LFM2 1.2B", _model("lfm2", "2 shortconv, full", heads=32, kv_heads=8, head_dim=64,
        caches={"shortconv": {"width": 2048, "conv": 3}}), 300, 2, "",
        (state(2, ((2, 2048), BF16)), kv(1, 8, 512, 64)), 1064960),
    Run("Llama 3.1 8B in 4 bits", _LLAMA, 1000, 2, "--kv-bits 4 --quantized-kv-start 0",
        (packed(2, 8, 1024, 16, 2),), 2359296),
    Run("Llama 3.1 8B in 6 bits", _LLAMA, 1000, 2, "--kv-bits 6 --quantized-kv-start 0",
        (packed(2, 8, 1024, 24, 2),), 3407872),
    Run("Llama 3.1 8B", _LLAMA, 100, 2, "", (kv(2, 8, 256, 128),), 2097152),
    Run("Llama 3.1 8B in two chunks", _LLAMA, 3000, 2, "", (kv(2, 8, 3072, 128),), 25165824),
    Run("Llama 3.1 8B takes no notice of a most", _LLAMA, 300, 2, "--max-kv-size 512", (kv(2, 8, 512, 128),), 4194304),
    Run("Mamba 2.8B", _model("mamba", "2 mamba1", caches={"mamba1": {"inner": 5120, "state": 16, "conv": 4}}), 40, 2,
        "", (state(2, ((3, 5120), BF16), ((5120, 16), BF16)),), 389120),
    Run("Qwen 3 8B with a most", _model("qwen3", "2 full", heads=32, kv_heads=8, head_dim=128), 1000, 2,
        "--max-kv-size 512", (kv(2, 8, 512, 128),), 4194304),
    Run("Qwen 3 Next", _model("qwen3_next", "3 deltanet, full", heads=16, kv_heads=2, head_dim=256,
        caches={"deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128, "conv": 4}}), 300, 2, "",
        (state(3, ((3, 8192), BF16), ((32, 128, 128), F32)), kv(1, 2, 512, 256)), 7487488),
)  # fmt: skip

_HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 64}
_WINDOW = {"sliding": {"window": 40}}
_LATENT = {"heads": 4, "k_dim": 64, "v_dim": 96, "caches": {"latent": {"rank": 64, "rope": 32}}}
_INDEXED = {**_LATENT, "caches": {"latent": {"rank": 64, "rope": 32}, "indexer": {"dim": 64, "store": "fp8+scale"}}}
_MAMBA2 = {"heads": 8, "head_dim": 32, "groups": 2, "state": 16, "conv": 4}
_LLAMA4 = _model("llama4_text", "3 chunked, full", **_HEADS, caches={"chunked": {"chunk": 64}})
_QWEN = _model("qwen3", "4 full", **_HEADS)
_V3, _V32 = _model("deepseek_v3", "4 latent", **_LATENT), _model("deepseek_v32", "4 latent+indexer", **_INDEXED)

FAMILIES = (
    Run("Mistral's window is none", _model("mistral", "4 sliding", **_HEADS, caches=_WINDOW), 300, 3, "",
        (kv(4, 2, 512, 64),), 1048576),
    Run("a window listed beside full layers", _model("llama", "3 sliding, full", **_HEADS, caches=_WINDOW), 300, 3, "",
        (kv(3, 2, 40, 64), kv(1, 2, 512, 64)), 323584),
    Run("Phi 3's window is none", _model("phi3", "4 sliding", heads=4, kv_heads=2, head_dim=32, caches=_WINDOW), 300, 3,
        "", (kv(4, 2, 512, 32),), 524288),
    Run("Gemma 3", _model("gemma3_text", "3 sliding, full, 2 sliding", **_HEADS, caches=_WINDOW), 300, 3, "",
        (kv(5, 2, 40, 64), kv(1, 2, 512, 64)), 364544),
    Run("Gemma 3, a short prompt in two chunks", _model("gemma3_text", "3 sliding, full, 2 sliding", **_HEADS,
        caches=_WINDOW), 70, 5, "--prefill-step-size 50", (kv(5, 2, 40, 64), kv(1, 2, 256, 64)), 233472),
    Run("Gemma 4: sizes by layer, two that share", _model("gemma4_text", "3 sliding, full, 2 sliding, "
        "shared:sliding, shared:full", **_HEADS, caches={"sliding": {"window": 40}, "full": {"head_dim": 128}}), 300, 3,
        "", (kv(5, 2, 40, 64), kv(1, 2, 512, 128)), 626688),
    Run("Llama 4", _LLAMA4, 300, 3, "", (kv(3, 2, 320, 64), kv(1, 2, 512, 64)), 753664),
    Run("Llama 4 in 8 bits: only the full layer", _LLAMA4, 300, 3,
        "--kv-bits 8 --kv-group-size 32 --quantized-kv-start 0", (kv(3, 2, 320, 64), packed(1, 2, 512, 16, 2)), 638976),
    Run("DeepSeek V3: latents", _V3, 300, 3, "", (kv(4, 1, 512, 64, 32),), 393216),
    Run("DeepSeek V3 with a most", _V3, 300, 3, "--max-kv-size 64 --prefill-step-size 50", (kv(4, 1, 64, 64, 32),), 49152),
    Run("DeepSeek V3 on its way to a most", _V3, 100, 3, "--max-kv-size 400", (kv(4, 1, 355, 64, 32),), 272640),
    Run("DeepSeek V2: heads", _model("deepseek_v2", "4 latent", **_LATENT), 300, 3, "", (kv(4, 4, 512, 64, 96),), 2621440),
    Run("MiniCPM 3: heads, in 8 bits", _model("minicpm3", "4 latent", **{**_LATENT, "v_dim": 32}), 300, 3,
        "--kv-bits 8 --kv-group-size 32 --quantized-kv-start 0", (Arrays(4, {
            "k_bytes": (((4, 512, 16), 4), ((4, 512, 2), BF16), ((4, 512, 2), BF16)),
            "v_bytes": (((4, 512, 8), 4), ((4, 512, 1), BF16), ((4, 512, 1), BF16))}),), 884736),
    Run("DeepSeek V3.2: zeros beside index keys", _V32, 300, 3, "", (kv(4, 1, 512, 64, 32), index(4, 512, 64, 64)), 917504),
    Run("DeepSeek V3.2 takes no notice of bits", _V32, 300, 3, "--kv-bits 4 --quantized-kv-start 200",
        (kv(4, 1, 512, 64, 32), index(4, 512, 64, 64)), 917504),
    Run("MiniMax M3", _model("minimax_m3", "2 full, 2 full+indexer", **_HEADS, caches={"indexer": {"dim": 32}}), 300, 3,
        "", (kv(4, 2, 512, 64), index(2, 512, 32, 0)), 1114112),
    Run("LongCat: two latents a layer", _model("longcat_flash", "2 latent+latent", **_LATENT), 300, 3, "",
        (kv(4, 1, 512, 64, 32),), 393216),
    Run("Kimi Linear", _model("kimi_linear", "3 kda, latent", **{**_LATENT, "caches": {"latent": {"rank": 64, "rope": 32},
        "kda": {"heads": 4, "head_dim": 32, "conv": 4}}}), 300, 3, "",
        (state(3, *[((3, 128), BF16)] * 3, ((4, 32, 32), F32)), kv(1, 1, 512, 64, 32)), 154368),
    Run("Hunyuan Large: shared layers too", _model("hunyuan", "2 x (full, shared:full)", heads=4, kv_heads=2,
        head_dim=32), 300, 3, "", (kv(2, 2, 512, 32), kv(2, 2, 512, 32)), 524288),
    Run("Mamba 2", _model("mamba2", "2 mamba2", caches={"mamba2": _MAMBA2}), 300, 3, "",
        (state(2, ((3, 320), BF16), ((8, 32, 16), F32)),), 36608),
    Run("Falcon H1: two caches in a layer", _model("falcon_h1", "4 full+mamba2", **_HEADS,
        caches={"mamba2": {**_MAMBA2, "groups": 1}}), 300, 3, "",
        (kv(4, 2, 512, 64), state(4, ((3, 288), BF16), ((8, 32, 16), F32))), 1121024),
    Run("Nemotron-H in 8 bits", _model("nemotron_h", "mamba2, none, mamba2, full", **_HEADS, caches={"mamba2": _MAMBA2}),
        300, 3, "--kv-bits 8 --kv-group-size 32 --quantized-kv-start 0",
        (state(2, ((3, 320), BF16), ((8, 32, 16), F32)), packed(1, 2, 512, 16, 2)), 184064),
    Run("RecurrentGemma", _model("recurrent_gemma", "2 rglru, sliding", heads=4, kv_heads=1, head_dim=32,
        caches={"rglru": {"width": 128, "conv": 4}, **_WINDOW}), 300, 3, "",
        (state(2, ((3, 128), BF16), ((128,), BF16)), kv(1, 1, 40, 32)), 7168),
    Run("MiMo V2: heads by layer", _model("mimo_v2_flash", "full, 2 sliding, full", heads=4, kv_heads=2, k_dim=64,
        v_dim=32, caches={"sliding": {"window": 40, "kv_heads": 4}}), 300, 3, "",
        (kv(2, 2, 512, 64, 32), kv(2, 4, 40, 64, 32)), 454656),
    Run("Qwen 3 on its way to a most", _QWEN, 100, 3, "--max-kv-size 400", (kv(4, 2, 355, 64),), 727040),
    Run("Qwen 3 past a most", _QWEN, 300, 3, "--max-kv-size 64 --prefill-step-size 50", (kv(4, 2, 64, 64),), 131072),
    Run("Qwen 3 in 8 bits", _QWEN, 300, 3, "--kv-bits 8 --kv-group-size 32 --quantized-kv-start 0",
        (packed(4, 2, 512, 16, 2),), 589824),
)  # fmt: skip


class Growth(NamedTuple):
    """One cache fed with a prompt in chunks and then token by token; the arrays' tokens in the end and at most."""

    cache: str  # whole, ring or chunks
    prompt: int
    chunk: int
    generated: int
    span: int
    end: int
    most: int


# KVCache, RotatingKVCache and ChunkedKVCache of mlx-lm 0.32.2, fed as generate_step feeds them.
GROWTH = (
    Growth("whole", 1, 2048, 1, 0, 256, 256),
    Growth("whole", 600, 500, 3, 0, 756, 756),
    Growth("whole", 501, 500, 100, 0, 768, 768),
    Growth("whole", 2048, 2048, 1, 0, 2304, 2304),
    Growth("whole", 3000, 2048, 400, 0, 3584, 3584),
    Growth("whole", 5000, 192, 10, 0, 5056, 5056),
    Growth("whole", 3000, 77, 300, 0, 3540, 3540),
    Growth("ring", 600, 2048, 3, 128, 128, 599),
    Growth("ring", 5000, 2048, 100, 1024, 1024, 3071),
    Growth("ring", 900, 2048, 100, 1024, 1024, 1024),
    Growth("ring", 300, 2048, 3, 1024, 555, 555),
    Growth("ring", 2050, 2048, 1, 4096, 2304, 2304),
    Growth("ring", 3000, 500, 20, 4096, 3255, 3255),
    Growth("ring", 1, 2048, 9, 40, 40, 40),
    Growth("chunks", 9000, 2048, 100, 8192, 8448, 9216),
    Growth("chunks", 8092, 2048, 100, 8192, 8192, 8192),
    Growth("chunks", 8093, 2048, 101, 8192, 8448, 8448),
    Growth("chunks", 20000, 2048, 5, 8192, 8448, 10240),
    Growth("chunks", 300, 2048, 3, 64, 320, 512),
    Growth("chunks", 70, 50, 5, 64, 320, 320),
)
