"""Settings of vLLM that come in another's name: fields of objects (`--additional-config`), variables of its past."""

from collections.abc import Iterator, Mapping, MutableMapping

from kvcalc.commands.versions import parse
from kvcalc.engines.vllm.versions import Version
from kvcalc.errors import shown

__all__ = ["carried"]

# Fields of 0.33.0 that set what flags of their own set: `arg_utils.py` writes those flags into this object.
_ADDITIONAL = {"gdn_prefill_backend": "gdn_backend", "kda_prefill_backend": "kda_backend"}
_ATTENTION = {"backend": "backend"}

# Fields that change neither the cache nor its blocks (`config/attention.py`, and what the models of 0.33.0 read).
_HARMLESS = {
    "--additional-config": ("kda_decode_backend", "kda_spec_decode_backend", "decode_backend"),
    "--attention-config": (
        "flash_attn_version", "flash_attn_max_num_splits_for_cuda_graph", "tokenspeed_mla_min_split_kv",
        "tq_max_kv_splits_for_cuda_graph", "use_trtllm_attention", "disable_flashinfer_q_quantization",
        "mla_prefill_backend", "use_prefill_query_quantization", "trtllm_ragged_backend", "indexer_sparse_logits",
        "indexer_tp_shard_min_rows", "use_non_causal", "sparse_mla_force_mqa", "sparse_mla_prefill_workspace_factor",
        "flex_attn_block_m", "flex_attn_block_n", "use_prefill_decode_attention", "hisparse_config", "indexer_kv_dtype",
    ),
}  # fmt: skip

_LAST_WITH_VARIABLE = (0, 14)  # the wheel of 0.11.0 reads VLLM_ATTENTION_BACKEND, that of 0.15.1 does not


def carried(values: Mapping[str, object], settings: MutableMapping[str, object], version: object) -> list[str]:
    """Put the settings that other flags carry in their places, behind those of the flags that set them; warnings."""
    given = (("--additional-config", values.get("additional"), _ADDITIONAL),
             ("--attention-config", values.get("attention"), _ATTENTION))  # fmt: skip
    warnings: list[str] = []
    for flag, found, fields in given:
        inner: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        for name, key in fields.items():
            if inner.get(name) is not None:
                settings.setdefault(key, str(inner[name]).strip().lower())
        warnings += _unread(flag, inner, fields)
    variable = values.get("old_backend")
    if isinstance(variable, str) and isinstance(version, Version):
        if parse(version.name, "--engine") < _LAST_WITH_VARIABLE:
            settings.setdefault("backend", variable)
        else:
            said = f"VLLM_ATTENTION_BACKEND={shown(variable)}: vllm {version.name} does not read it"
            warnings.append(f"{said}; it has --attention-backend")
    return warnings


def _unread(flag: str, given: Mapping[str, object], fields: Mapping[str, str]) -> Iterator[str]:
    """Fields that are neither counted nor known to be harmless."""
    for name, value in given.items():
        if name not in fields and name not in _HARMLESS[flag] and value is not None:
            yield f"{flag}: {shown(name)} is not known to kvcalc, and was taken to leave the cache as it is"
