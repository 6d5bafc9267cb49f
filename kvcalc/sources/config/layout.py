"""How one family of model types is read, and what comes out: layers as names of caches, and the numbers of each."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvcalc.errors import shown
from kvcalc.preset import notation
from kvcalc.preset.notation import NONE, Names
from kvcalc.sources.config import drafts
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.drafts import Draft
from kvcalc.sources.config.kinds import Kinds
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields, Numbers

__all__ = ["ATTENTION", "CONTEXT", "SPANS", "Family", "Sharing", "described"]

# The limit in tokens, the most particular spelling first: Qwen 1 states two, and was trained on `seq_length`.
CONTEXT = ("seq_length", "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length",
           "model_max_length", "n_ctx", "sequence_len")  # fmt: skip

ATTENTION: Mapping[str, Names] = {"full": ("full",), "sliding": ("sliding",), "chunked": ("chunked",), NONE: ()}
SPANS: Mapping[str, Numbers] = {"sliding": n.sliding, "chunked": n.chunked}

Sharing = Callable[[Config, list[Names]], list[Names]]


class Family(NamedTuple):
    """How the configurations of a family are read.

    `kinds` gives a word for each layer and `words` the caches that a word stands for; `top` gives the fields at the top
    of the preset and `caches` those of each cache. `draft` gives the draft layers. `share` rewrites
    layers that reuse an earlier cache. `facts` gives other fields of the preset. `ignored` are keys that look as if
    they mattered and, in this family, do not.
    """

    kinds: Kinds
    words: Mapping[str, Names] = ATTENTION
    top: Callable[[Config], Fields] = n.heads
    caches: Mapping[str, Numbers] = SPANS
    draft: Draft = drafts.repeated("full")
    share: Sharing | None = None
    context: Sequence[str] = CONTEXT
    facts: Callable[[Config], Fields] = n.nothing
    ignored: Sequence[str] = ()


def described(config: Config, family: Family) -> Fields:
    """The part of a preset that describes the cache: heads, layers, draft and caches."""
    config.ignore(*family.ignored)
    _check_causal(config)
    _check_halves(config, family)
    layers = [_names(config, family, word) for word in family.kinds(config)]
    if family.share is not None:
        layers = family.share(config, layers)
    drafted = family.draft(config, family.words)
    fields = {**family.facts(config), **family.top(config), "layers": notation.fold(layers)}
    if drafted:
        fields["draft"] = notation.fold(drafted)
    caches: Fields = {}
    for name, numbers in family.caches.items():
        where = [i for i, names in enumerate(layers) if name in names]
        if where or any(name in names for names in drafted):
            caches[name] = numbers(config, where)
        else:
            with config.aside():  # only so that the keys of a cache that no layer has count as understood
                numbers(config, where)
    return fields | ({"caches": caches} if caches else {})


def _check_causal(config: Config) -> None:
    """Refuse a model that reads in both directions, and so computes everything anew: embedding models say so."""
    if not config.flag("is_causal", default=True):
        config.expected("true: a model that reads in both directions keeps no cache", "is_causal")
    if config.get("use_bidirectional_attention")[1] not in (None, False, "vision"):  # of image tokens alone
        config.expected("a model that reads from left to right", "use_bidirectional_attention")


def _check_halves(config: Config, family: Family) -> None:
    """Refuse a decoder that is said to have cross attention where its family has none, and one without an encoder."""
    if ("full", "cross") not in family.words.values():
        for key in ("is_encoder_decoder", "add_cross_attention"):
            if config.flag(key):
                config.expected(f"false, since {config.model_type} is read without cross attention", key)
    elif config.root is config.data and not config.flag("is_encoder_decoder", default=True):
        config.expected(f"true, since {config.model_type} is read with its encoder", "is_encoder_decoder")


def _names(config: Config, family: Family, word: str) -> Names:
    if word not in family.words:
        config.refuse(f"expected one of {', '.join(family.words)}, got {shown(word)}", "layer_types")
    return family.words[word]
