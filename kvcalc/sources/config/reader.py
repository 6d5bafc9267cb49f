"""A config.json becomes the mapping of a preset. Nothing is sized, and nothing is guessed: what is not known refuses.

Pure: mappings in, a mapping out. The file's name serves messages, the preset's name and its `source`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from kvcalc.errors import KvcalcError, escape, shown
from kvcalc.preset.fields import is_integer
from kvcalc.preset.mapping import model_from_preset
from kvcalc.preset.notation import expand
from kvcalc.sources.config import around, families, keys, quantised
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.counts import check_counts
from kvcalc.sources.config.dimensions import weight_facts
from kvcalc.sources.config.kinds import PATTERNS, WINDOWS
from kvcalc.sources.config.language import Part, language_config
from kvcalc.sources.config.layout import Family, described
from kvcalc.sources.config.lookup import BY_HAND, LAYERS, Config
from kvcalc.sources.config.numbers import Fields
from kvcalc.sources.config.parameters import parameter_count

__all__ = ["ASSUMED", "ConfigRead", "preset_from_config", "read_config"]

_DTYPES = {
    "float32": "fp32", "float": "fp32", "fp32": "fp32", "float16": "fp16", "half": "fp16", "fp16": "fp16",
    "bfloat16": "bf16", "bf16": "bf16",
}  # fmt: skip
# Types whose files state no dtype because they are older than the key: what their checkpoints are stored in.
_OLD = {
    **dict.fromkeys(("bart", "ctrl", "gpt2", "gpt_neo", "gptj", "mt5", "t5", "umt5"), "fp32"),
    **dict.fromkeys(("codegen", "gpt_bigcode", "gpt_neox", "opt"), "fp16"),
}
ASSUMED = "The file states no dtype; {} is assumed."
_MOST_CHOSEN = 1 << 20  # tokens, or heads that score them: far above any real model
# Types whose class has a limit that is none of their published models': their files state it, or it is not known.
_UNLIMITED = ("bamba", "falcon", "falcon_h1", "nemotron_h")


class ConfigRead(NamedTuple):
    """The preset that a configuration describes, and what in it is no more than likely, in one line for warnings."""

    preset: dict[str, object]
    doubt: str | None = None


def preset_from_config(
    config: Mapping[str, object],
    *,
    file: str,
    quantization: Mapping[str, object] | None = None,
    assume_dense: bool = False,
) -> dict[str, object]:
    """The preset alone."""
    return read_config(config, file=file, quantization=quantization, assume_dense=assume_dense).preset


def read_config(
    config: Mapping[str, object],
    *,
    file: str,
    quantization: Mapping[str, object] | None = None,
    assume_dense: bool = False,
) -> ConfigRead:
    """The preset that a model's configuration describes.

    `quantization` is the content of hf_quant_config.json, where one lies beside the file. `assume_dense` accepts a type
    that is not known if it is plainly shaped like Llama. Raises KvcalcError: one line with the file and the key.
    """
    part, text = language_config(config, file)
    model_type = text.model_type
    family = families.family_of(text, model_type)
    notes: list[str] = []
    if family is None:
        if not assume_dense:
            _refuse_type(part, text, model_type, lambda: preset_from_config(config, file=file, assume_dense=True))
        family = _plain(text)
        notes.append(f"The model type {model_type} is not known: read as if every layer kept full keys and values.")
    shape = described(text, family)
    notes += _filled(text, shape)
    context = _context(text, family, notes)
    preset: Fields = {**_identity(config, file, model_type), "model_type": model_type}
    preset |= {"source": escape(file), "confidence": "config file read"}
    preset |= _dtypes(part, text, quantised.schemes(part, file, quantization), shape, notes)
    known = text.model_type in families.FAMILIES
    unknown = [*keys.unknown_keys(text, known=known), *around.check_surroundings(part, text, shape)]
    check_counts(text)
    around.check_architectures(part, text, shape)
    if notes:
        preset["note"] = " ".join(notes)
    count = parameter_count(config)
    preset |= {"parameters": count} if count else {}
    preset |= weight_facts(config, len(expand(str(shape["layers"]))))
    preset |= {"max_context": context} if context else {}
    preset |= _chosen(text, shape) | shape
    _, problems = model_from_preset({**preset}, file)
    if problems:  # numbers that are each possible, and do not go together
        raise KvcalcError(str(problems[0]._replace(file=escape(file))), BY_HAND)
    if unknown:  # last: who takes them out of a copy has nothing else to correct in it
        keys.refuse_unknown(unknown)
    return ConfigRead(preset, _doubt(text, shape))


def _doubt(text: Config, shape: Fields) -> str | None:
    """A window that no key of the file speaks of: the class has one, and copies of a model may leave out that it has
    none, as those of EXAONE 4.0 1.2B do.
    """
    stated = [*WINDOWS, "layer_types", "use_sliding_window", text.laid_by or "", *PATTERNS]
    size = next((value for key, value in text.filled.items() if key in WINDOWS and value), None)
    if size is None or any(text.data.get(key) is not None for key in stated) or "sliding" not in str(shape["layers"]):
        return None
    return (
        f"no key of the file speaks of windows: those of {size} tokens are the default of {text.model_type}, "
        'and a model without any says "sliding_window": null'
    )


def _refuse_type(part: Part, text: Config, model_type: str, dense: Callable[[], object]) -> NoReturn:
    """Refuse a type that is not known. `dense` reads the file as a plain decoder's: that it is a way out only where
    it succeeds.
    """
    hint = BY_HAND
    with suppress(KvcalcError):
        dense()
        from shlex import quote  # only on the way to an error

        own = "" if text.file[:1] == "<" else f" (`kvcalc preset {quote(text.file)} --assume-dense > my-model.yaml`)"
        hint = f"if every layer keeps full keys and values, --assume-dense{own}; otherwise {BY_HAND}"
    if "model_type" in part.data or not part.around:
        text.refuse(f"expected a known model type, got {shown(model_type)}", "model_type", hint=hint)
    what = f"expected the type of the language part, since {shown(model_type)} around it implies none; got nothing"
    text.refuse(what, "model_type", hint=hint)


def _plain(text: Config) -> Family:
    """The plain family for a type that is not known, if the file is plainly of that shape."""
    for keys_of in (n.WIDTH, LAYERS, n.HEADS):
        text.number(*keys_of)
    return families.PLAIN


def _filled(text: Config, shape: Fields) -> list[str]:
    """What the class of the type gave because the file leaves it out."""
    idle = list(() if "sliding" in str(shape["layers"]) else WINDOWS)
    if not any(text.data.get(key) for key in WINDOWS):
        idle.append("use_sliding_window")
    filled = [(key, value) for key, value in text.all_filled() if value is None or key not in idle]
    listed = ", ".join(f"{key} {_said(value)}" for key, value in filled)
    notes = [f"Defaults of {text.model_type}, which the file leaves out: {listed}."] if listed else []
    if text.by_rule:
        notes.append(f"Layers by the rule of {text.model_type}, since the file lists none: {shape['layers']}.")
    if text.derived:
        notes.append(f"Derived, since the file does not state it: {', '.join(text.derived.values())}.")
    return notes


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | None) else escape(str(value))


def _context(text: Config, family: Family, notes: list[str]) -> int | None:
    """The limit in tokens, from the first key that states one; the class default where the class is the only source."""
    for key in family.context:
        if text.data.get(key) is not None:
            return text.number(key)
    unstated = [key for key in family.context if key in text.defaults and key not in text.data]
    if not unstated:
        return None
    limit = text.number(unstated[0])
    if text.model_type in _UNLIMITED:
        notes.append(
            f"The file states no limit; the {limit:,} tokens of the class {text.model_type} are not taken for it."
        )
        return None
    notes.append(f"The file states no limit; {limit:,} tokens is the default of {text.model_type}.")
    return limit


def _identity(root: Mapping[str, object], file: str, model_type: str) -> Fields:
    """Name and hub id: `_name_or_path` if it looks like `org/name`, else what the file is called."""
    stated = root.get("_name_or_path")
    if isinstance(stated, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", stated, re.ASCII):
        return {"name": stated.split("/")[1], "id": stated}
    parts = [each for each in re.split(r"[/\\]", file) if each not in ("", ".", "..")]
    if len(parts) > 1 and parts[-1] in ("config.json", "params.json"):
        parts.pop()
    name = parts[-1].removesuffix(".json") if parts else ""
    name = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return {"name": name if name not in ("", "-") else model_type}


def _dtypes(part: Part, text: Config, schemes: Sequence[Config], shape: Fields, notes: list[str]) -> Fields:
    """The dtypes that the file states or implies: of computing, of the weights, of the cache, of recurrent states."""
    dtype = _computed_in(part, text, notes)
    if dtype is None:
        dtype = _OLD.get(text.model_type, "bf16")
        notes.append(ASSUMED.format(dtype))
    if dtype == "fp32":
        notes.append("Stored in fp32: engines that serve compute and cache in 16 bits, which --engine NAME counts.")
    fields: Fields = {"dtype": dtype}
    stored = quantised.weights(schemes)
    # DeepSeek V4: the experts, 98 % of the weights, are fp4 beside a scheme that says fp8 for the rest. ModelOpt's
    # copies name the format of the experts apart.
    weights = stored.dtype
    if text.data.get("expert_dtype") == "fp4":
        experts = [str(scheme.data.get("moe_quant_algo")).upper() for scheme in schemes]
        weights = "nvfp4" if "NVFP4" in experts else "mxfp4"
    if stored.note and weights is None:
        notes.append(stored.note)
    if weights not in (None, dtype):
        fields["weights_dtype"] = weights
        if weights == "fp8" and (block := quantised.block(schemes)):
            fields["weights_block"] = block
        if weights in ("int4", "int8") and (group := quantised.group(schemes)):
            fields["weights_group"], zeros = group
            fields |= {"weights_zeros": True} if zeros else {}
        if whole := quantised.kept(schemes, len(expand(str(shape["layers"])))):
            fields["weights_kept"] = whole
    declared = quantised.kv_dtype(schemes)
    if declared is not None:
        fields["kv_dtype"] = declared
    return fields | _state_dtype(text, shape)


def _computed_in(part: Part, text: Config, notes: list[str]) -> str | None:
    """The dtype of computing, the innermost that is stated. Qwen 1 has flags instead of a name."""
    names = [name for data in (part.data, *part.around) if (name := _named_dtype(data, text)) is not None]
    if len(set(names)) > 1:
        other = next(name for name in names if name != names[0])
        notes.append(f"The file states two dtypes: {names[0]} of the language part counts, not {other} around it.")
    if names:
        return names[0]
    return next((name for name in ("bf16", "fp16", "fp32") if part.data.get(name) is True), None)


def _named_dtype(data: Mapping[str, object], text: Config) -> str | None:
    both = {str(data[key]).removeprefix("torch.") for key in ("dtype", "torch_dtype") if data.get(key)}
    if len(both) > 1:
        text.refuse(f"expected the same as torch_dtype, got {shown(data['dtype'])}", "dtype")
    for key in ("dtype", "torch_dtype", "model_dtype"):
        value = data.get(key)
        if value is None or value == "auto":
            continue
        name = _DTYPES.get(value.removeprefix("torch.")) if isinstance(value, str) else None
        if name is None:
            text.refuse(f"expected float32, float16 or bfloat16, got {shown(value)}", key)
        return name
    return None


def _chosen(text: Config, shape: Fields) -> Fields:
    """How many heads score the tokens of sparse attention, and how many tokens or entries it chooses.

    No matter of the cache: a file that does not say so is read all the same. MiniMax-M3 chooses blocks.
    """
    caches = shape.get("caches") or {}
    assert isinstance(caches, dict)
    if "indexer" not in caches and not any(isinstance(each, dict) and each.get("indexer") for each in caches.values()):
        return {}
    inner = text.data.get("sparse_attention_config")
    data = {**text.data, **inner} if isinstance(inner, dict) else text.data

    def stated(*keys: str) -> int | None:
        values = [value for key in keys if isinstance(value := data.get(key), int)]
        return values[0] if values and is_integer(values[0], 1, _MOST_CHOSEN) else None

    blocks, size = stated("sparse_topk_blocks", "index_topk_blocks"), stated("sparse_block_size", "index_block_size")
    heads = stated("sparse_num_index_heads", "index_n_heads")
    chosen = blocks * size if blocks and size else stated("index_topk")
    return {key: value for key, value in (("index_heads", heads), ("index_topk", chosen)) if value}


def _state_dtype(text: Config, shape: Fields) -> Fields:
    """The dtype of recurrent states, only where the file states one (Qwen3.5, Nemotron 3)."""
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        value = text.data.get(key)
        text.ignore(key)
        if value is None or not set(shape.get("caches", {})) & {"mamba1", "mamba2", "deltanet", "kda"}:  # type: ignore[call-overload]
            continue
        if not isinstance(value, str) or value.removeprefix("torch.") not in _DTYPES:
            text.expected("float32, float16 or bfloat16", key)
        return {"state_dtype": _DTYPES[value.removeprefix("torch.")]}
    return {}
