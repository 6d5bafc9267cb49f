"""Keys of a model's configuration that a command line replaces: `--hf-overrides` and `--json-model-override-args`.

Both engines write them over config.json before they read it. A preset is read already: only what limits the length is
followed here, and what could change the cache is refused.
"""

from collections.abc import Iterator, Mapping

from kvcalc.core import dtypes
from kvcalc.errors import KvcalcError, shown

__all__ = ["known", "limit", "parse_object"]

# vLLM, config/model_arch.py; SGLang, utils/hf_transformers_utils.py: the keys that state the limit.
_LIMITS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_sequence_length",
    "max_seq_length", "seq_len",
)  # fmt: skip
_SHAPES = ("model_type", "dtype", "torch_dtype", "hidden_size", "d_model", "n_embd", "quantization_config")


def parse_object(text: str, what: str) -> Mapping[str, object]:
    """A JSON object. Raises KvcalcError for what is none."""
    from kvcalc.sources.jsonfile import parse_object as parse

    try:
        return parse(text.encode(errors="replace"), what)
    except KvcalcError:
        raise KvcalcError(f"{what}: expected a JSON object, got {shown(text)}") from None


def known(dtype: str) -> str | None:
    """Our name of a plain KV format in any of its spellings; None where it is none of ours."""
    try:
        return dtypes.dtype_called(dtype, dtypes.KV, "").name
    except KvcalcError:
        return None


def limit(given: object, flag: str, length: str, *, stated: bool) -> int | None:
    """The limit in tokens that the replaced keys state; None where they state none.

    `flag` names the option in errors; `stated`: the flag `length` says the length anyhow. Raises KvcalcError for keys
    that may change the cache.
    """
    from kvcalc.sources.config.keys import suspicious

    found = None
    for key, value in _keys(given if isinstance(given, Mapping) else {}):
        if key in _LIMITS:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise KvcalcError(f"{flag}: {key}: expected a whole number above zero, got {shown(value)}")
            found = value
        elif key.startswith("rope_") and key != "rope_dim":
            if not stated:  # linear scaling multiplies the limit, others do not
                raise KvcalcError(f"{flag}: {key} may change the model's limit", f"give {length}")
        elif key in _SHAPES or suspicious(key):
            raise KvcalcError(
                f"{flag}: {shown(key)} may change the cache, and a preset is read already",
                "change it in a copy of the config.json, give that as MODEL, and leave the flag out",
            )
    return found


def _keys(given: Mapping[str, object], depth: int = 0) -> Iterator[tuple[str, object]]:
    """The keys and values, also those of the text model's part."""
    for key, value in given.items():
        if isinstance(value, Mapping) and key in ("text_config", "llm_config", "thinker_config") and depth < 4:
            yield from _keys(value, depth + 1)
        else:
            yield str(key), value
