"""Families with a rule of their own for attention: how heads and sharing are read where the general rules do not do."""

from collections.abc import Sequence

from kvcalc.errors import shown
from kvcalc.preset.notation import SHARED, Names
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.kinds import window
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields, Numbers

__all__ = [
    "bigcode_heads",
    "block_group",
    "chatglm_heads",
    "cross_layer_sharing",
    "dbrx_heads",
    "deci_heads",
    "elm_heads",
    "elm_size",
    "falcon_heads",
    "grouped_blocks",
    "heads_of_layers",
    "mimo_sliding",
    "mpt_heads",
    "pruned",
    "queries_alone",
    "split_heads",
    "step_sliding",
]


def falcon_heads(config: Config) -> Fields:
    """Falcon: the new layout states its groups and ignores `multi_query`; the old one has one head with it, else all.

    The size of a head is always width / heads (FalconConfig).
    """
    queries = n.query_heads(config)
    if config.flag("multi_query") and not config.flag("new_decoder_architecture"):
        config.ignore("num_kv_heads", "n_head_kv")
        cached = 1
    else:
        cached = n.grouped(config, queries, "num_kv_heads", "n_head_kv")
    config.ignore("new_decoder_architecture")
    return {"heads": queries, "kv_heads": cached, "head_dim": n.head_dim(config, queries)}


def bigcode_heads(config: Config) -> Fields:
    """GPT BigCode: one head with `multi_query`, which is the class default."""
    return _repeated(config, n.heads(config, 1 if config.flag("multi_query") else n.query_heads(config)))


def _repeated(config: Config, fields: Fields) -> Fields:
    """`num_key_value_heads` beside the key that counts, as transformers saves a copy of what the class made of that."""
    if config.integer("num_key_value_heads") not in (None, fields["kv_heads"]):
        config.expected(f"{fields['kv_heads']}, as {config.model_type} counts them elsewhere", "num_key_value_heads")
    return fields


def chatglm_heads(config: Config) -> Fields:
    """ChatGLM 2 and 3: `multi_query_group_num` counts only where `multi_query_attention` is true.

    Without them ChatGLMConfig (remote code) has 1 and false.
    """
    queries, groups = n.query_heads(config), "multi_query_group_num"
    config.ignore(groups)
    if config.lists_none("multi_query_attention"):
        config.assume("multi_query_attention", value=False)
    elif config.data["multi_query_attention"] is None:
        config.expected("true or false", "multi_query_attention")
    if not config.flag("multi_query_attention"):
        return n.heads(config, queries)
    if config.lists_none(groups):
        return n.heads(config, config.assume(groups, 1))
    config.number(groups)
    return n.heads(config, n.grouped(config, queries, groups))


def mpt_heads(config: Config) -> Fields:
    """MPT: the kind of attention stands in `attn_config`, and groups have a number there (llm-foundry's attention.py).

    The class of transformers has no groups, and every head with or without `attn_config` (MptAttentionConfig).
    """
    inner, queries = _attention_config(config), n.query_heads(config)
    known = {"multihead_attention": queries, "multiquery_attention": 1, "grouped_query_attention": None}
    kind = inner.text("attn_type")
    if kind not in known:
        inner.expected(f"one of {', '.join(known)}", "attn_type")
    stated = inner.integer("kv_n_heads")
    cached = known[kind] or inner.number("kv_n_heads")
    if stated not in (None, cached):
        inner.expected(f"{cached}, as {kind} has", "kv_n_heads")
    return n.heads(config, _divides(inner, queries, cached))


def dbrx_heads(config: Config) -> Fields:
    """DBRX: key-value heads stand in `attn_config` (DbrxAttentionConfig)."""
    inner, queries = _attention_config(config), n.query_heads(config)
    return _repeated(config, n.heads(config, _divides(inner, queries, inner.number("kv_n_heads"))))


def _attention_config(config: Config) -> Config:
    inner = config.inner("attn_config")
    if inner is None:
        config.expected("a mapping with the heads of keys and values", "attn_config")
    return inner


def _divides(config: Config, queries: int, cached: int) -> int:
    if queries % cached:
        config.expected(f"a divisor of the {queries} query heads", "kv_n_heads")
    return cached


def elm_size(config: Config) -> Fields:
    """OpenELM: only the size of a head is the same in every layer; it is always stated."""
    return {"head_dim": config.number("head_dim")}


def elm_heads(config: Config, where: Sequence[int]) -> Fields:
    """OpenELM: a number of query heads and of key-value heads for each layer."""
    return {
        "heads": _of_layers(config, "num_query_heads", where),
        "kv_heads": _of_layers(config, "num_kv_heads", where),
    }


def deci_heads(config: Config, where: Sequence[int]) -> Fields:
    return {"kv_heads": _of_layers(config, "num_key_value_heads_per_layer", where)}


def queries_alone(config: Config) -> Fields:
    """Query heads and head size at the top, where key-value heads are told for each layer."""
    config.ignore(*n.KV_HEADS)
    return {key: value for key, value in n.heads(config, 1).items() if key != "kv_heads"}


def heads_of_layers(inner: Numbers | None = None) -> Numbers:
    """Laguna: a number of query heads for each layer; in the published files the sliding layers have more."""

    def numbers(config: Config, where: Sequence[int]) -> Fields:
        own = inner(config, where) if inner is not None else {}
        if config.array("num_attention_heads_per_layer") is None:
            config.derive("num_attention_heads_per_layer", n.query_heads(config), "num_attention_heads")
            return own
        if not where:
            return own
        counts = _of_layers(config, "num_attention_heads_per_layer", where)
        return own if counts == n.query_heads(config) else {"heads": counts, **own}

    return numbers


def _of_layers(config: Config, key: str, where: Sequence[int]) -> object:
    """The numbers of a list with one for each layer, for some of the layers: one number if they agree."""
    listed = config.integers(key, 1)
    if listed is None:
        config.expected("a list with a number for each layer", key)
    config.per_layer(key, listed)
    chosen = [listed[i] for i in where]
    return chosen[0] if len(set(chosen)) == 1 else chosen


def cross_layer_sharing(config: Config, layers: list[Names]) -> list[Names]:
    """Hunyuan: with `use_cla`, each `cla_share_factor` layers keep one cache. Without it the factor is idle."""
    config.ignore("cla_share_factor")
    if not config.flag("use_cla"):
        return layers
    factor = config.number("cla_share_factor")
    return [names if i % factor == 0 else tuple(SHARED + x for x in names) for i, names in enumerate(layers)]


def block_group(config: Config, i: int) -> tuple[int | None, Config]:
    """The query heads that share one key-value head in block `i` (None: it keeps no cache), and the block."""
    block = config.data["block_configs"][i]  # type: ignore[index]  # pruned_blocks has looked
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        config.refuse(f"expected a mapping with attention, got {shown(block)}", "block_configs", i)
    inner = Config(attention, config.file, path=(*config.path, "block_configs", str(i), "attention"))
    if inner.flag("no_op") or inner.flag("replace_with_linear"):
        return None, inner
    for key in ("window_length", "sparsify", "num_sink_tokens"):
        if inner.data.get(key):
            inner.expected("attention to every token", key)
    return inner.number("n_heads_in_group"), inner


def grouped_blocks(config: Config, where: Sequence[int]) -> Fields:
    """Nemotron-NAS: key-value heads are query heads / `n_heads_in_group`, which may differ between blocks."""
    queries = n.query_heads(config)
    counts = []
    for i in where:
        group, inner = block_group(config, i)
        if not group or queries % group:
            inner.expected(f"a divisor of the {queries} query heads", "n_heads_in_group")
        counts.append(queries // group)
    return {"kv_heads": counts[0] if len(set(counts)) == 1 else counts}


def pruned(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    return {"kind": "full", "kv_heads": 0}


def step_sliding(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Step 3.5: sliding layers have more query heads, told in `attention_other_setting` (Step3p5Config)."""
    inner = config.inner("attention_other_setting")
    queries = config.integer("num_sliding_attention_heads")
    fields: Fields = {"heads": queries} if queries else {}
    if inner is not None:
        inner.ignore("attention_type", "true_head_dim")
        queries = inner.number("num_attention_heads")
        groups = n.grouped(inner, queries, "num_attention_groups", "num_key_value_heads")
        fields = {"heads": queries, "kv_heads": groups}
        if dim := inner.integer("head_dim"):
            fields["head_dim"] = dim
    return {**fields, "window": window(config)}


def split_heads(config: Config) -> Fields:
    """MiMo V2: keys and values of different widths."""
    fields = n.heads(config)
    k_dim = fields.pop("head_dim")
    return {**fields, "k_dim": k_dim, "v_dim": config.integer("v_head_dim") or k_dim}


def mimo_sliding(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """MiMo V2: sliding layers have heads of their own.

    Twice as many for keys and values as the others where none are stated (MiMoV2FlashAttention), as in the published
    file.
    """
    top = split_heads(config)
    queries = config.integer("swa_num_attention_heads") or n.query_heads(config)
    if config.data.get("swa_num_key_value_heads") is None:
        config.ignore("swa_num_key_value_heads")
        cached = config.assume("swa_num_key_value_heads", 2 * n.grouped(config, queries))
    else:
        cached = n.grouped(config, queries, "swa_num_key_value_heads")
    fields: Fields = {
        "heads": queries,
        "kv_heads": cached,
        "k_dim": config.integer("swa_head_dim"),
        "v_dim": config.integer("swa_v_head_dim"),
    }
    own = {key: value for key, value in fields.items() if value is not None and value != top[key]}
    return {**own, "window": _mimo_window(config)}


def _mimo_window(config: Config) -> int:
    """Tokens before the query, as `sliding_window_size` of the published file counts them.

    MiMoV2FlashConfig makes a `sliding_window` one larger of it, and saves that alone.
    """
    stated = config.integer("sliding_window_size")
    if stated is not None:
        if config.data.get("sliding_window") not in (None, stated, stated + 1):
            config.expected(f"{stated}, as sliding_window_size says", "sliding_window")
        config.ignore("sliding_window")
        return stated
    size = config.number("sliding_window", low=2) - 1
    return config.derive("sliding_window_size", size, "sliding_window - 1")
