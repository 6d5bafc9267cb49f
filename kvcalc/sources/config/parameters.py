"""How many parameters a model has, from the shapes of its weights: an exact count, or none where a shape is not known.

Only for families whose weights are all described by the configuration: plain decoders with gated feed-forward parts,
mixtures of experts, latent attention, and hybrids with Mamba or gated delta-net layers. Draft layers are not counted,
nor are models with a tower for images or sound, whose shape is not read here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.preset.notation import expand
from kvcalc.sources.config import families
from kvcalc.sources.config.language import language_config
from kvcalc.sources.config.layout import described
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import width

__all__ = ["parameter_count"]


class _Style(NamedTuple):
    """What the layers of a type have besides their matrices.

    `norms`: weights of the width in each layer. `qkv_bias`, `o_bias`: biases of the projections. `qk_norm`: norms of
    queries and keys, one for a head (`head`) or one over all heads (`all`). `gated`: queries come with a gate.
    """

    norms: int = 2
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str = ""


_QWEN2, _QWEN3 = _Style(qkv_bias=True), _Style(qk_norm="head")
_STYLES = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "ministral", "ministral3", "phi3", "granite", "smollm3",
                     "internlm2", "minicpm", "baichuan", "Yi", "gemma", "exaone", "aquila"), _Style()),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen"), _QWEN2),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "exaone4"), _QWEN3),
    "gemma2": _Style(norms=4),
    "gemma3_text": _Style(norms=4, qk_norm="head"),
    **dict.fromkeys(("olmo2", "olmo3"), _Style(qk_norm="all")),
    "cohere": _Style(norms=1),
    "internlm": _Style(qkv_bias=True, o_bias=True),
    "glm4_moe": _Style(qkv_bias=True),
    "minimax_m2": _Style(qk_norm="all"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite",
                     "minicpm3", "jamba", "bamba", "mamba", "mamba2", "falcon_mamba", "nemotron_h", "granitemoehybrid"),
                    _Style()),
    **dict.fromkeys(("lfm2", "hunyuan", "hunyuan_v1_dense"), _QWEN3),
}  # fmt: skip

_ROUTER_BIAS = ("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe", "glm4_moe_lite", "minimax_m2",
                "nemotron_h")  # fmt: skip
# Types whose gated feed-forward part is half as wide as stated, both halves counted (Qwen 1).
_HALVED = ("qwen",)
_TOWERS = ("vision_config", "audio_config", "vision_tower", "mm_vision_tower", "mm_hidden_size", "vision_tower_cfg",
           "img_processor", "embd_layer", "query_num")  # fmt: skip
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def parameter_count(config: Mapping[str, object]) -> int | None:
    """The number of parameters, or None where the shape of some weights is not known."""
    try:
        part, text = language_config(config, "")
        family = families.family_of(text, text.model_type)
        style = _STYLES.get(text.model_type)
        vocabulary = text.integer("vocab_size")
        if family is None or style is None or vocabulary is None or part.around or any(config.get(k) for k in _TOWERS):
            return None
        return _Counter(text, style, described(text, family)).total(vocabulary)
    except (KvcalcError, _UnknownShapeError):
        return None


class _UnknownShapeError(Exception):
    """A part of the model whose shape the configuration does not tell."""


class _Counter:
    """Counts the weights of one model layer by layer."""

    def __init__(self, text: Config, style: _Style, shape: Mapping[str, object]) -> None:
        self.text, self.style, self.shape = text, style, shape
        self.width = width(text)
        caches = shape.get("caches")
        self.caches: Mapping[str, Mapping[str, int]] = caches if isinstance(caches, dict) else {}

    def total(self, vocabulary: int) -> int:
        tied = self.text.flag("tie_word_embeddings") or self.text.flag("tie_embedding")
        layers = expand(str(self.shape["layers"]))
        counted = sum(self._layer(i, names) for i, names in enumerate(layers))
        return counted + vocabulary * self.width * (1 if tied else 2) + self.width

    def _layer(self, i: int, names: tuple[str, ...]) -> int:
        mixing = sum(self._mixer(name) for name in names)
        if self.text.model_type in ("mamba", "mamba2", "falcon_mamba"):
            return mixing + self.width
        if self.text.model_type == "nemotron_h":  # every layer is one thing only
            return self.width + (mixing or self._nemotron_part(i))
        return mixing + self._feed_forward(i) + self.style.norms * self.width

    def _mixer(self, name: str) -> int:
        counts = {
            "full": self._attention, "sliding": self._attention, "latent": self._latent, "indexer": self._indexer,
            "mamba1": self._mamba1, "mamba2": self._mamba2, "deltanet": self._deltanet, "shortconv": self._shortconv,
        }  # fmt: skip
        if name not in counts:
            raise _UnknownShapeError
        return counts[name]()

    def _attention(self) -> int:
        heads, kv_heads, dim = (self._number(key) for key in ("heads", "kv_heads", "head_dim"))
        queries, cached = heads * dim, kv_heads * dim
        gated = 2 if self.text.flag("attn_output_gate", default=self.text.model_type == "qwen3_next") else 1
        count = self.width * (gated * queries + 2 * cached) + queries * self.width
        biased = self.text.flag("attention_bias") or self.text.flag("bias")
        if self.style.qkv_bias or biased:
            count += queries + 2 * cached
        if self.style.o_bias or (biased and not self.style.qkv_bias):
            count += self.width
        return count + {"head": 2 * dim, "all": queries + cached, "": 0}[self.style.qk_norm]

    def _number(self, key: str) -> int:
        value = self.shape.get(key)
        if not isinstance(value, int):
            raise _UnknownShapeError
        return value

    def _latent(self) -> int:
        """Latent attention: down to the rank and up again, for queries too where they have a rank."""
        heads, k_dim, v_dim = (self._number(key) for key in ("heads", "k_dim", "v_dim"))
        rank, rope = self.caches["latent"]["rank"], self.caches["latent"]["rope"]
        lora = self.text.integer("q_lora_rank")
        queries = heads * k_dim
        count = self.width * queries if lora is None else lora * (self.width + 1 + queries)
        return (
            count
            + self.width * (rank + rope)
            + rank
            + rank * heads * (k_dim - rope + v_dim)
            + heads * v_dim * self.width
        )

    def _indexer(self) -> int:
        heads, dim = self.text.number("index_n_heads"), self.caches["indexer"]["dim"]
        return self.text.number("q_lora_rank") * heads * dim + self.width * (dim + heads) + 2 * dim

    def _mamba1(self) -> int:
        """Mamba: projections in and out, a convolution with a bias, and the discretised state matrices."""
        inner, state, conv = (self.caches["mamba1"][key] for key in ("inner", "state", "conv"))
        _, stated = self.text.get("time_step_rank", "mamba_dt_rank")
        step = stated if isinstance(stated, int) else -(-self.width // 16)
        count = 3 * self.width * inner + inner * (conv + 1) + inner * (step + 2 * state) + step * inner + inner
        norms = step + 2 * state if self.text.model_type == "jamba" else 0
        return count + inner * state + inner + norms

    def _mamba2(self) -> int:
        heads, dim, groups, state, conv = (
            self.caches["mamba2"][key] for key in ("heads", "head_dim", "groups", "state", "conv")
        )
        inner, mixed = heads * dim, heads * dim + 2 * groups * state
        return self.width * (inner + mixed + heads) + mixed * (conv + 1) + 3 * heads + inner + inner * self.width

    def _deltanet(self) -> int:
        k_heads, k_dim, v_heads, v_dim, conv = (
            self.caches["deltanet"][key] for key in ("k_heads", "k_dim", "v_heads", "v_dim", "conv")
        )
        values = v_heads * v_dim
        mixed = 2 * k_heads * k_dim + values
        return self.width * (mixed + 2 * values + 2 * v_heads) + mixed * conv + 2 * v_heads + v_dim

    def _shortconv(self) -> int:
        conv = self.caches["shortconv"]["conv"]
        return 4 * self.width * self.width + self.width * conv

    def _feed_forward(self, i: int) -> int:
        experts = self.text.integer(*_EXPERTS, low=0) or 0
        if experts and self._sparse(i):
            return self._mixture(experts)
        return 3 * self.width * self._dense_width()

    def _dense_width(self) -> int:
        if self.text.model_type in _HALVED:
            return self.text.number("intermediate_size") // 2
        wide = self.text.integer("shared_intermediate_size", low=0)
        if wide:  # Granite 4: what its experts have beside them is the whole part where it has no experts
            return wide
        wide = self.text.integer("block_ff_dim")
        if wide is None:
            return self.text.number("intermediate_size")
        if not self.text.flag("block_auto_adjust_ff_dim", default=True):
            return wide
        unit = self.text.integer("block_multiple_of") or 256  # LFM2: two thirds of what is stated, rounded up
        return -(-(2 * wide // 3) // unit) * unit

    def _sparse(self, i: int) -> bool:
        """Layer `i` has experts: not the first dense ones, not those listed, and by period where there is one."""
        listed = self.text.words("mlp_layer_types")
        if listed is not None and i < len(listed):
            return listed[i] == "sparse"
        if i < (self.text.integer("first_k_dense_replace", low=0) or 0) or i in (
            self.text.integers("mlp_only_layers") or []
        ):
            return False
        step = self.text.integer("decoder_sparse_step", "expert_layer_period") or 1
        offset = self.text.integer("expert_layer_offset", low=0)
        return i % step == offset if offset is not None else (i + 1) % step == 0

    def _mixture(self, experts: int) -> int:
        if self.text.model_type == "jamba":
            return experts * 3 * self.width * self.text.number("intermediate_size") + self.width * experts
        wide = self.text.integer("moe_intermediate_size") or self.text.number("intermediate_size")
        count = experts * 3 * self.width * wide + self.width * experts
        if self.text.model_type in _ROUTER_BIAS:
            count += experts
        if beside := self.text.integer("shared_intermediate_size", low=0):
            return count + 3 * self.width * beside
        shared = self.text.integer("shared_expert_intermediate_size", low=0)
        if shared:  # Qwen: one shared expert with a gate of its own
            return count + 3 * self.width * shared + self.width
        return count + (self.text.integer("n_shared_experts", low=0) or 0) * 3 * self.width * wide

    def _nemotron_part(self, i: int) -> int:
        """Nemotron-H: a layer without a cache is a feed-forward part of two matrices, or a mixture of those."""
        pattern, blocks = self.text.text("hybrid_override_pattern"), self.text.words("layers_block_type")
        dense = pattern[i] == "-" if pattern else bool(blocks) and blocks is not None and blocks[i] == "mlp"
        if dense:
            return 2 * self.width * self.text.number("intermediate_size")
        experts, wide = self.text.number("n_routed_experts"), self.text.number("moe_intermediate_size")
        latent = self.text.integer("moe_latent_size")
        count = experts * 2 * (latent or self.width) * wide + experts * (self.width + 1)
        shared = self.text.integer("n_shared_experts", low=0) or 0
        count += 2 * self.width * shared * self.text.number("moe_shared_expert_intermediate_size", low=0)
        return count + (2 * self.width * latent if latent else 0)
