"""Caches that transformers 5.23.0 and 4.57.6 allocated, layer by layer (torch 2.13.0, meta device or CPU).

Copied from the recorded runs; the models are those of published configurations, or of the classes' defaults, as presets
have them. Sizes are bytes of one layer, for all sequences.
"""

from typing import NamedTuple

# fmt: off


class Run(NamedTuple):
    model: str
    version: str
    batch: int
    tokens: int
    encoder_tokens: int | None
    dtype: str
    flags: str
    cache_class: str
    classes: dict[str, int] | None
    tensors: dict[tuple[str, int], int]  # (part, bytes of one layer): layers
    total: int
    storage: int
    prefilled: int | None
    prefilled_storage: int | None

    @property
    def id(self) -> str:
        return f"{self.model} {self.version} {self.batch} x {self.tokens} {self.dtype} {self.flags}"


MODELS = {
    "llama-2layer": {"model_type": "llama", "heads": 8, "kv_heads": 8, "head_dim": 128, "layers": "2 full"},
    "bamba-9b": {"model_type": "bamba", "heads": 32, "kv_heads": 8, "head_dim": 128, "layers":
        "mamba2, 3 x (8 mamba2, full), 4 mamba2", "caches": {"mamba2": {"heads": 128, "head_dim": 64, "groups": 1,
        "state": 128, "conv": 4}}},
    "codegen-default": {"model_type": "codegen", "heads": 16, "kv_heads": 16, "head_dim": 256, "layers": "28 full"},
    "deepseek-v32": {"model_type": "deepseek_v32", "heads": 128, "k_dim": 192, "v_dim": 128, "layers":
        "61 latent+indexer", "caches": {"latent": {"rank": 512, "rope": 64}, "indexer": {"dim": 128, "store":
        "fp8+scale"}}},
    "falcon-7b-mqa": {"model_type": "falcon", "heads": 71, "kv_heads": 1, "head_dim": 64, "layers": "32 full"},
    "falcon-h1-1.5b": {"model_type": "falcon_h1", "heads": 8, "kv_heads": 2, "head_dim": 128, "layers":
        "24 full+mamba2", "caches": {"mamba2": {"heads": 48, "head_dim": 64, "groups": 1, "state": 256, "conv": 4}}},
    "falcon-mamba-7b": {"model_type": "falcon_mamba", "layers": "64 mamba1", "caches": {"mamba1": {"inner": 8192,
        "state": 16, "conv": 4}}},
    "gemma2-9b": {"model_type": "gemma2", "heads": 16, "kv_heads": 8, "head_dim": 256, "layers":
        "21 x (sliding, full)", "caches": {"sliding": {"window": 4096}}},
    "gemma3-27b-text": {"model_type": "gemma3_text", "heads": 32, "kv_heads": 16, "head_dim": 128, "layers":
        "10 x (5 sliding, full), 2 sliding", "caches": {"sliding": {"window": 1024}}},
    "gemma4-e2b-like-text": {"model_type": "gemma4_text", "heads": 8, "kv_heads": 1, "head_dim": 256, "layers":
        "3 x (4 sliding, full), 4 x (4 shared:sliding, shared:full)", "caches": {"sliding": {"window": 512}, "full":
        {"head_dim": 512}}},
    "glm-moe-dsa-default": {"model_type": "glm_moe_dsa", "heads": 64, "k_dim": 256, "v_dim": 256, "layers":
        "78 latent+indexer", "caches": {"latent": {"rank": 512, "rope": 64}, "indexer": {"dim": 128, "store":
        "fp8+scale"}}},
    "glm4-9b": {"model_type": "glm4", "heads": 32, "kv_heads": 2, "head_dim": 128, "layers": "40 full"},
    "glm4-moe-lite-default": {"model_type": "glm4_moe_lite", "heads": 20, "k_dim": 256, "v_dim": 256, "layers":
        "47 latent", "caches": {"latent": {"rank": 512, "rope": 64}}},
    "glm4.5-moe": {"model_type": "glm4_moe", "heads": 96, "kv_heads": 8, "head_dim": 128, "layers": "92 full"},
    "gpt-neo-default": {"model_type": "gpt_neo", "heads": 16, "kv_heads": 16, "head_dim": 128, "layers":
        "12 x (full, sliding)", "caches": {"sliding": {"window": 256}}},
    "gptbigcode-mha": {"model_type": "gpt_bigcode", "heads": 16, "kv_heads": 16, "head_dim": 64, "layers": "4 full"},
    "gptj-6b": {"model_type": "gptj", "heads": 16, "kv_heads": 16, "head_dim": 256, "layers": "28 full"},
    "granite-4.0-h-tiny": {"model_type": "granitemoehybrid", "heads": 12, "kv_heads": 4, "head_dim": 128, "layers":
        "4 x (5 mamba2, full, 4 mamba2)", "caches": {"mamba2": {"heads": 48, "head_dim": 64, "groups": 1, "state":
        128, "conv": 4}}},
    "llama4-scout-text": {"model_type": "llama4_text", "heads": 40, "kv_heads": 8, "head_dim": 128, "layers":
        "12 x (3 chunked, full)", "caches": {"chunked": {"chunk": 8192}}},
    "mamba2-codestral-7b": {"model_type": "mamba2", "layers": "64 mamba2", "caches": {"mamba2": {"heads": 128,
        "head_dim": 64, "groups": 8, "state": 128, "conv": 4}}},
    "mbart-default": {"model_type": "mbart", "heads": 16, "kv_heads": 16, "head_dim": 64, "layers": "12 full+cross",
        "caches": {"cross": {"tokens": "input"}}, "encoder_tokens": 1024},
    "minimax-text-01": {"model_type": "minimax", "heads": 64, "kv_heads": 8, "head_dim": 128, "layers":
        "10 x (7 lightning, full)", "caches": {"lightning": {"heads": 64, "head_dim": 128}}},
    "mistral-7b-v0.1": {"model_type": "mistral", "heads": 32, "kv_heads": 8, "head_dim": 128, "layers": "32 sliding",
        "caches": {"sliding": {"window": 4096}}},
    "mpt-7b": {"model_type": "mpt", "heads": 32, "kv_heads": 32, "head_dim": 128, "layers": "32 full"},
    "olmo3-7b": {"model_type": "olmo3", "heads": 32, "kv_heads": 32, "head_dim": 128, "layers":
        "8 x (3 sliding, full)", "caches": {"sliding": {"window": 4096}}},
    "opt-6.7b": {"model_type": "opt", "heads": 32, "kv_heads": 32, "head_dim": 128, "layers": "32 full"},
    "persimmon-default": {"model_type": "persimmon", "heads": 64, "kv_heads": 64, "head_dim": 64, "layers":
        "36 full"},
    "phi-2": {"model_type": "phi", "heads": 32, "kv_heads": 32, "head_dim": 80, "layers": "32 full"},
    "qwen2-7b": {"model_type": "qwen2", "heads": 28, "kv_heads": 4, "head_dim": 128, "layers": "28 full"},
    "qwen3-8b": {"model_type": "qwen3", "heads": 32, "kv_heads": 8, "head_dim": 128, "layers": "36 full"},
    "qwen3.5-text-default": {"model_type": "qwen3_5_text", "heads": 16, "kv_heads": 4, "head_dim": 256, "layers":
        "8 x (3 deltanet, full)", "caches": {"deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128,
        "conv": 4}}},
    "seed-oss-default": {"model_type": "seed_oss", "heads": 80, "kv_heads": 8, "head_dim": 128, "layers": "64 full"},
    "smollm3-3b": {"model_type": "smollm3", "heads": 16, "kv_heads": 4, "head_dim": 128, "layers": "36 full"},
    "starcoder-mqa": {"model_type": "gpt_bigcode", "heads": 48, "kv_heads": 1, "head_dim": 128, "layers": "40 full"},
    "starcoder2-7b": {"model_type": "starcoder2", "heads": 36, "kv_heads": 4, "head_dim": 128, "layers": "32 sliding",
        "caches": {"sliding": {"window": 4096}}},
    "whisper-large-v3": {"model_type": "whisper", "heads": 20, "kv_heads": 20, "head_dim": 64, "layers":
        "32 full+cross", "caches": {"cross": {"tokens": 1500}}},
    "v4-deepseek_v2": {"model_type": "deepseek_v2", "heads": 16, "k_dim": 192, "v_dim": 128, "layers": "2 latent",
        "caches": {"latent": {"rank": 512, "rope": 64}}},
    "v4-gpt_bigcode": {"model_type": "gpt_bigcode", "heads": 8, "kv_heads": 1, "head_dim": 128, "layers": "2 full"},
    "v4-mamba2": {"model_type": "mamba2", "layers": "2 mamba2", "caches": {"mamba2": {"heads": 8, "head_dim": 64,
        "groups": 8, "state": 128, "conv": 4}}},
    "v4-minimax": {"model_type": "minimax", "heads": 8, "kv_heads": 2, "head_dim": 128, "layers": "lightning, full",
        "caches": {"lightning": {"heads": 8, "head_dim": 128}}},
}

RUNS = [
    Run("llama-2layer", "5.23.0", 1, 513, None, "float16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=1", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 296960): 2, ("v", 296960): 2}, 1187840, 1187840, 1179648, 1179648),
    Run("llama-2layer", "5.23.0", 1, 612, None, "float16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=100", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 499712): 2, ("v", 499712): 2}, 1998848, 1998848, 1179648, 1179648),
    Run("llama-2layer", "5.23.0", 1, 639, None, "float16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=127", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 555008): 2, ("v", 555008): 2}, 2220032, 2220032, 1179648, 1179648),
    Run("llama-2layer", "5.23.0", 1, 640, None, "float16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=128", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 368640): 2, ("v", 368640): 2}, 1474560, 1474560, 1179648, 1179648),
    Run("llama-2layer", "5.23.0", 2, 513, None, "bfloat16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=1", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 593920): 2, ("v", 593920): 2}, 2375680, 2375680, 2359296, 2359296),
    Run("llama-2layer", "5.23.0", 1, 513, None, "float16",
        "cache_implementation=quantized backend=hqq nbits=4 max_new_tokens=1", "QuantizedCache", {"HQQQuantizedLayer":
        2}, {("k", 296960): 2, ("v", 296960): 2}, 1187840, 1187840, 1179648, 1179648),
    Run("llama-2layer", "5.23.0", 1, 513, None, "float16",
        "cache_implementation=quantized backend=hqq nbits=8 max_new_tokens=1", "QuantizedCache", {"HQQQuantizedLayer":
        2}, {("k", 559104): 2, ("v", 559104): 2}, 2236416, 2236416, 2228224, 2228224),
    Run("llama-2layer", "5.23.0", 1, 501, None, "float16",
        "cache_implementation=quantized backend=quanto nbits=4 max_new_tokens=1", "QuantizedCache",
        {"QuantoQuantizedLayer": 2}, {("k", 290048): 2, ("v", 290048): 2}, 1160192, 1160192, 1152000, 1152000),
    Run("bamba-9b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"LinearAttentionLayer":
        29, "DynamicLayer": 3}, {("state", 8523776): 29, ("k", 2465792): 3, ("v", 2465792): 3}, 261984256, 261984256,
        261935104, 261935104),
    Run("codegen-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer":
        28}, {("k", 9863168): 28, ("v", 9863168): 28}, 552337408, 552337408, 550502400, 550502400),
    Run("deepseek-v32", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicIndexedLayer": 61}, {("k", 1232896): 61, ("v", 154112): 61, ("index", 308224): 61}, 103409152,
        103409152, 103065600, 103065600),
    Run("deepseek-v32", "5.23.0", 2, 302, None, "bfloat16",
        "cache_implementation=static max_cache_len=3000 max_new_tokens=2", "StaticCache", {"StaticIndexedLayer": 61},
        {("k", 6144000): 61, ("v", 768000): 61, ("index", 1536000): 61}, 515328000, 515328000, 515328000, 515328000),
    Run("falcon-7b-mqa", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 32},
        {("k", 154112): 32, ("v", 154112): 32}, 9863168, 9863168, 9830400, 9830400),
    Run("falcon-h1-1.5b", "5.23.0", 1, 2, None, "bfloat16", "", "DynamicCache",
        {"LinearAttentionAndFullAttentionLayer": 24}, {("k", 1024): 24, ("v", 1024): 24, ("state", 3174400): 24},
        76234752, 76234752, 76234752, 76234752),
    Run("falcon-h1-1.5b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionAndFullAttentionLayer": 24}, {("k", 616448): 24, ("v", 616448): 24, ("state", 6348800): 24},
        181960704, 181960704, 181862400, 181862400),
    Run("falcon-h1-1.5b", "5.23.0", 2, 302, None, "bfloat16",
        "cache_implementation=static max_cache_len=3000 max_new_tokens=2", "StaticCache",
        {"LinearAttentionAndStaticFullAttentionLayer": 24}, {("k", 3072000): 24, ("v", 3072000): 24, ("state",
        6348800): 24}, 299827200, 299827200, 299827200, 299827200),
    Run("falcon-mamba-7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 64}, {("state", 1179648): 64}, 75497472, 75497472, 75497472, 75497472),
    Run("gemma2-9b", "5.23.0", 1, 5002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 21, "DynamicLayer": 21}, {("k", 16773120): 21, ("v", 16773120): 21, ("k",
        20488192): 21, ("v", 20488192): 21}, 1564975104, 1565147136, 1564631040, 1720320000),
    Run("gemma2-9b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 21, "DynamicLayer": 21}, {("k", 4931584): 42, ("v", 4931584): 42}, 414253056,
        414253056, 412876800, 412876800),
    Run("gemma3-27b-text", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 52, "DynamicLayer": 10}, {("k", 4931584): 62, ("v", 4931584): 62}, 611516416,
        611516416, 609484800, 609484800),
    Run("gemma4-e2b-like-text", "5.23.0", 1, 5002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 12, "DynamicLayer": 3, "DummyLayer": 20}, {("k", 261632): 12, ("v", 261632): 12,
        ("k", 5122048): 3, ("v", 5122048): 3}, 37011456, 37023744, 36999168, 92160000),
    Run("gemma4-e2b-like-text", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 12, "DynamicLayer": 3, "DummyLayer": 20}, {("k", 523264): 12, ("v", 523264): 12,
        ("k", 1232896): 3, ("v", 1232896): 3}, 19955712, 19980288, 19931136, 22118400),
    Run("gemma4-e2b-like-text", "5.23.0", 2, 302, None, "bfloat16",
        "cache_implementation=static max_cache_len=3000 max_new_tokens=2", "StaticCache", {"StaticSlidingWindowLayer":
        12, "StaticLayer": 3, "DummyLayer": 20}, {("k", 524288): 12, ("v", 524288): 12, ("k", 6144000): 3, ("v",
        6144000): 3}, 49446912, 49446912, 49446912, 49446912),
    Run("glm-moe-dsa-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicIndexedLayer": 78}, {("k", 1232896): 78, ("v", 154112): 78, ("index", 308224): 78}, 132228096,
        132228096, 131788800, 131788800),
    Run("glm4-9b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 40},
        {("k", 616448): 40, ("v", 616448): 40}, 49315840, 49315840, 49152000, 49152000),
    Run("glm4-moe-lite-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicLayer": 47}, {("k", 1232896): 47, ("v", 154112): 47}, 65189376, 65189376, 64972800, 64972800),
    Run("glm4.5-moe", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 92},
        {("k", 2465792): 92, ("v", 2465792): 92}, 453705728, 453705728, 452198400, 452198400),
    Run("gpt-neo-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer":
        24}, {("k", 4931584): 24, ("v", 4931584): 24}, 236716032, 236716032, 235929600, 235929600),
    Run("gptbigcode-mha", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 4},
        {("k", 2465792): 4, ("v", 2465792): 4}, 19726336, 19726336, 19660800, 19660800),
    Run("gptj-6b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 28},
        {("k", 9863168): 28, ("v", 9863168): 28}, 552337408, 552337408, 550502400, 550502400),
    Run("granite-4.0-h-tiny", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 36, "DynamicLayer": 4}, {("state", 3198976): 36, ("k", 1232896): 4, ("v", 1232896):
        4}, 125026304, 125026304, 124993536, 124993536),
    Run("llama4-scout-text", "5.23.0", 1, 9002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 36, "DynamicLayer": 12}, {("k", 16775168): 36, ("v", 16775168): 36, ("k",
        18436096): 12, ("v", 18436096): 12}, 1650278400, 1650425856, 1650180096, 1769472000),
    Run("llama4-scout-text", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 36, "DynamicLayer": 12}, {("k", 2465792): 48, ("v", 2465792): 48}, 236716032,
        236716032, 235929600, 235929600),
    Run("mamba2-codestral-7b", "5.23.0", 1, 52, None, "float16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 64}, {("state", 4276224): 64}, 273678336, 273678336, 273678336, 273678336),
    Run("mamba2-codestral-7b", "5.23.0", 1, 52, None, "float32", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 64}, {("state", 4358144): 64}, 278921216, 278921216, 278921216, 278921216),
    Run("mamba2-codestral-7b", "5.23.0", 2, 62, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 64}, {("state", 8552448): 64}, 547356672, 547356672, 547356672, 547356672),
    Run("mbart-default", "5.23.0", 2, 602, 600, "bfloat16", "max_new_tokens=2", "EncoderDecoderCache",
        {"DynamicLayer": 24}, {("k", 2465792): 12, ("v", 2465792): 12, ("k", 2457600): 12, ("v", 2457600): 12},
        118161408, 118161408, 117964800, 117964800),
    Run("minimax-text-01", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "MiniMaxCache", {"DynamicLayer":
        80}, {("k", 2465792): 10, ("v", 2465792): 10, ("state", 4194304): 70}, 342917120, 342917120, 342753280,
        342753280),
    Run("mistral-7b-v0.1", "5.23.0", 1, 5000, None, "bfloat16", "prefill_chunk_size=2048", "DynamicCache",
        {"DynamicSlidingWindowLayer": 32}, {("k", 8386560): 32, ("v", 8386560): 32}, 536739840, 655228928, 536739840,
        655228928),
    Run("mistral-7b-v0.1", "5.23.0", 1, 5000, None, "bfloat16", "", "DynamicCache", {"DynamicSlidingWindowLayer": 32},
        {("k", 8386560): 32, ("v", 8386560): 32}, 536739840, 655360000, 536739840, 655360000),
    Run("mistral-7b-v0.1", "5.23.0", 1, 5002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 32}, {("k", 8386560): 32, ("v", 8386560): 32}, 536739840, 536870912, 536739840,
        655360000),
    Run("mistral-7b-v0.1", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 32}, {("k", 2465792): 32, ("v", 2465792): 32}, 157810688, 157810688, 157286400,
        157286400),
    Run("mistral-7b-v0.1", "5.23.0", 1, 5002, None, "bfloat16", "past_key_values=DynamicCache() max_new_tokens=2",
        "DynamicCache", {"DynamicLayer": 32}, {("k", 10244096): 32, ("v", 10244096): 32}, 655622144, 655622144,
        655360000, 655360000),
    Run("mistral-7b-v0.1", "5.23.0", 2, 302, None, "bfloat16",
        "cache_implementation=static max_cache_len=3000 max_new_tokens=2", "StaticCache", {"StaticSlidingWindowLayer":
        32}, {("k", 12288000): 32, ("v", 12288000): 32}, 786432000, 786432000, 786432000, 786432000),
    Run("mpt-7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 32}, {("k",
        9863168): 32, ("v", 9863168): 32}, 631242752, 631242752, 629145600, 629145600),
    Run("olmo3-7b", "5.23.0", 1, 5002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 24, "DynamicLayer": 8}, {("k", 33546240): 24, ("v", 33546240): 24, ("k",
        40976384): 8, ("v", 40976384): 8}, 2265841664, 2266234880, 2265579520, 2621440000),
    Run("olmo3-7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 24, "DynamicLayer": 8}, {("k", 9863168): 32, ("v", 9863168): 32}, 631242752,
        631242752, 629145600, 629145600),
    Run("opt-6.7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 32},
        {("k", 9863168): 32, ("v", 9863168): 32}, 631242752, 631242752, 629145600, 629145600),
    Run("persimmon-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer":
        36}, {("k", 9863168): 36, ("v", 9863168): 36}, 710148096, 710148096, 707788800, 707788800),
    Run("phi-2", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 32}, {("k",
        6164480): 32, ("v", 6164480): 32}, 394526720, 394526720, 393216000, 393216000),
    Run("qwen2-7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 28},
        {("k", 1232896): 28, ("v", 1232896): 28}, 69042176, 69042176, 68812800, 68812800),
    Run("qwen3-8b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 36},
        {("k", 2465792): 36, ("v", 2465792): 36}, 177537024, 177537024, 176947200, 176947200),
    Run("qwen3.5-text-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"LinearAttentionLayer": 24, "DynamicLayer": 8}, {("state", 4325376): 24, ("k", 2465792): 8, ("v", 2465792):
        8}, 143261696, 143261696, 143130624, 143130624),
    Run("seed-oss-default", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer":
        64}, {("k", 2465792): 64, ("v", 2465792): 64}, 315621376, 315621376, 314572800, 314572800),
    Run("smollm3-3b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 36},
        {("k", 1232896): 36, ("v", 1232896): 36}, 88768512, 88768512, 88473600, 88473600),
    Run("starcoder-mqa", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache", {"DynamicLayer": 40},
        {("k", 308224): 40, ("v", 308224): 40}, 24657920, 24657920, 24576000, 24576000),
    Run("starcoder2-7b", "5.23.0", 1, 5002, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 32}, {("k", 4193280): 32, ("v", 4193280): 32}, 268369920, 268435456, 268369920,
        327680000),
    Run("starcoder2-7b", "5.23.0", 2, 602, None, "bfloat16", "max_new_tokens=2", "DynamicCache",
        {"DynamicSlidingWindowLayer": 32}, {("k", 1232896): 32, ("v", 1232896): 32}, 78905344, 78905344, 78643200,
        78643200),
    Run("whisper-large-v3", "5.23.0", 2, 602, 1500, "bfloat16", "max_new_tokens=2", "EncoderDecoderCache",
        {"DynamicLayer": 64}, {("k", 3082240): 32, ("v", 3082240): 32, ("k", 7680000): 32, ("v", 7680000): 32},
        688783360, 688783360, 688128000, 688128000),
    Run("whisper-large-v3", "5.23.0", 2, 302, 1500, "bfloat16",
        "cache_implementation=static max_cache_len=3000 max_new_tokens=2", "EncoderDecoderCache", {"StaticLayer": 64},
        {("k", 15360000): 32, ("v", 15360000): 32, ("k", 7680000): 32, ("v", 7680000): 32}, 1474560000, 1474560000,
        1474560000, 1474560000),
    Run("v4-deepseek_v2", "4.57.6", 2, 300, None, "bfloat16", "", "DynamicCache", None, {("k", 3686400): 2, ("v",
        2457600): 2}, 12288000, 12288000, None, None),
    Run("v4-gpt_bigcode", "4.57.6", 2, 300, None, "bfloat16", "", "EncoderDecoderCache", None, {("k", 153600): 2,
        ("v", 153600): 2}, 614400, 614400, None, None),
    Run("v4-mamba2", "4.57.6", 2, 300, None, "bfloat16", "", "Mamba2Cache", None, {("state", 303104): 2}, 606208, 606208, None, None),
    Run("v4-minimax", "4.57.6", 2, 300, None, "bfloat16", "", "MiniMaxCache", None, {("k", 307200): 1, ("v", 307200):
        1, ("state", 524288): 1}, 1138688, 1138688, None, None),
]
