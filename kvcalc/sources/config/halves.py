"""Decoders with cross attention: models of two halves, and language models that look at vision tokens."""

from collections.abc import Mapping, Sequence

from kvcalc.preset.notation import Names
from kvcalc.sources.config import drafts
from kvcalc.sources.config import kinds as k
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.layout import Family
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields

__all__ = ["FAMILIES"]

# What describes the encoder, which keeps nothing. transformers answers `num_hidden_layers` with the encoder's count.
_ENCODER = (
    "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "num_hidden_layers", "num_attention_heads",
    "attention_type", "attention_window", "block_size", "num_random_blocks", "num_global_tokens",
    "stagger_local_blocks", "local_radius", "global_block_size", "encoder_attention_type",
    "max_encoder_position_embeddings", "num_layers", "num_encoder_layers", "num_heads",
)  # fmt: skip
_BOTH: Mapping[str, Names] = {"full": ("full", "cross"), "sliding": ("sliding", "cross")}


def _input(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Cross attention over as many tokens as the request has."""
    return {"tokens": "input"}


def _bart_heads(config: Config) -> Fields:
    queries = config.number("decoder_attention_heads")
    return {"heads": queries, "kv_heads": queries, "head_dim": n.head_dim(config, queries)}


def _bart_input(config: Config) -> Fields:
    """The encoder's limit as the default length of its input, at most 1,024 (Pegasus-X and LED read far more)."""
    limit = config.integer("max_position_embeddings", "max_encoder_position_embeddings")
    return {"encoder_tokens": min(limit or 1024, 1024)}


def _t5_layers(config: Config) -> list[str]:
    """T5: as many decoder layers as encoder layers where the file does not say (T5Config).

    `num_hidden_layers` is another name of the encoder's, and comes too late to count for the decoder.
    """
    if config.get("num_decoder_layers")[1] is not None:
        return k.all_of("full", "num_decoder_layers")(config)
    counts = k.all_of("full", "num_layers")(config)
    if config.integer("num_hidden_layers") not in (None, len(counts)):
        config.expected(f"{len(counts)}, as num_layers says", "num_hidden_layers")
    return counts


def _t5_heads(config: Config) -> Fields:
    queries = config.number("num_heads", "num_attention_heads")
    return {"heads": queries, "kv_heads": queries, "head_dim": config.number("d_kv")}


def _short_input(config: Config) -> Fields:  # noqa: ARG001
    """T5 has no limit (its positions are relative); it was trained on inputs of 512 tokens."""
    return {"encoder_tokens": 512}


def _whisper_cross(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Whisper always encodes 30 seconds: 1,500 positions."""
    return {"tokens": config.number("max_source_positions")}


def _mllama_layers(config: Config) -> list[str]:
    """Llama 3.2 Vision: the layers listed look at the image alone; the layer count includes them."""
    chosen = config.indices("cross_attention_layers", 0, config.layers() - 1)
    if chosen is None:
        config.by_rule = True
        chosen = [3, 8, 13, 18, 23, 28, 33, 38]  # MllamaTextConfig
    where = set(chosen)
    return ["cross" if i in where else "full" for i in range(config.layers())]


def _mllama_input(config: Config) -> Fields:
    """One image: all its tiles, each of a patch grid and one class token (4 x 1,601 in the published files)."""
    config.ignore("num_mtp_modules")
    vision = config.root.get("vision_config")
    tower = Config(vision if isinstance(vision, dict) else {}, config.file, path=("vision_config",))
    side = (tower.integer("image_size") or 560) // (tower.integer("patch_size") or 14)
    return {"encoder_tokens": (tower.integer("max_num_tiles") or 4) * (side * side + 1)}


_BART = Family(
    k.all_of("full", "decoder_layers"), _BOTH, _bart_heads, {"cross": _input}, drafts.none, facts=_bart_input,
    context=("max_position_embeddings", "max_decoder_position_embeddings"), ignored=_ENCODER,
)  # fmt: skip
_T5 = Family(
    _t5_layers, _BOTH, _t5_heads, {"cross": _input}, drafts.none, facts=_short_input, context=(), ignored=_ENCODER
)
_T5_GEMMA = Family(
    k.windowed(k.as_listed(k.cycle("sliding", "full"))), _BOTH, caches={"sliding": n.sliding, "cross": _input},
    draft=drafts.none, facts=_short_input,
)  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "led", "m2m_100", "marian", "mbart",
                     "mvp", "nllb-moe", "pegasus", "pegasus_x", "plbart"), _BART),
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "switch_transformers", "udop"), _T5),
    "whisper": _BART._replace(caches={"cross": _whisper_cross}, facts=n.nothing, context=("max_target_positions",)),
    "t5_gemma_module": _T5_GEMMA,
    **dict.fromkeys(("t5gemma2_decoder", "t5gemma2_text"), _T5_GEMMA._replace(
        kinds=k.windowed(k.as_listed(k.every(6, "sliding_window_pattern"))))),
    "mllama_text_model": Family(_mllama_layers, {"full": ("full",), "cross": ("cross",)}, caches={"cross": _input},
                                draft=drafts.none, facts=_mllama_input),
}  # fmt: skip
