"""Draft layers: the multi-token prediction that is trained with a model and stands outside its layer count."""

from collections.abc import Callable, Mapping, Sequence

from kvcalc.errors import shown
from kvcalc.preset.notation import Names
from kvcalc.sources.config.lookup import DRAFTS, Config

__all__ = ["Draft", "appended", "at_indices", "listed", "none", "patterned", "repeated"]

Draft = Callable[[Config, Mapping[str, Names]], list[Names]]

_MOST = 64


def none(config: Config, words: Mapping[str, Names]) -> list[Names]:  # noqa: ARG001
    """Families that have no draft layers: a key that counts some is then not understood."""
    return []


def _count(config: Config) -> int:
    key, _ = config.get(*DRAFTS)
    count = config.integer(key, low=0) or 0
    each = config.integer("mtp_transformer_layers", low=0)
    if key == "num_mtp_modules" and each is not None:  # MiniMax-M2: three modules of one layer
        count *= each
    if not config.flag("use_mtp", default=True):
        return 0
    if count > _MOST:
        config.expected(f"at most {_MOST} draft layers", key)
    return count


def repeated(*names: str) -> Draft:
    """Every draft layer holds the same caches."""
    return lambda config, words: [names] * _count(config)  # noqa: ARG005


def appended(key: str, otherwise: str, spell: Callable[[object], str]) -> Draft:
    """Draft layers are the entries of a list of layers beyond the model's own, and `otherwise` where it has none."""

    def draft(config: Config, words: Mapping[str, Names]) -> list[Names]:
        count = _count(config)
        rest = (config.array(key) or [])[config.layers() :][:count]
        spelt = [spell(entry) for entry in rest] if len(rest) == count else [otherwise] * count
        return [words.get(word, words[otherwise]) for word in spelt]

    return draft


def patterned(letters: Mapping[str, str], spellings: Mapping[str, str]) -> Draft:
    """Nemotron-H: one draft module is listed as letters or words, and repeated; layers without a cache are left out."""

    def draft(config: Config, words: Mapping[str, Names]) -> list[Names]:
        count = _count(config)
        pattern = config.text("mtp_hybrid_override_pattern")
        listed: Sequence[str] = config.words("mtp_layers_block_type") or []
        if pattern:
            listed = [letters.get(letter, letter) for letter in pattern[:_MOST]]
        spelt = [spellings.get(word, word) for word in listed[:_MOST]] or ["full"]
        for word in spelt:
            if word not in words:
                config.refuse(f"expected one of {', '.join(words)}, got {shown(word)}", "mtp_layers_block_type")
        return [words[word] for word in spelt if words[word]] * count

    return draft


def listed(key: str, otherwise: str) -> Draft:
    """Mellum: a list of its own for the draft layers."""

    def draft(config: Config, words: Mapping[str, Names]) -> list[Names]:
        count = _count(config)
        spelt = config.words(key) or [otherwise] * count
        config.per_layer(key, spelt, count)
        return [words.get(word.removesuffix("_attention"), words[otherwise]) for word in spelt[:count]]

    return draft


def at_indices(key: str, word: str, others: str) -> Draft:
    """Inkling: the indices of the sliding ones among the draft layers."""

    def draft(config: Config, words: Mapping[str, Names]) -> list[Names]:
        count = _count(config)
        config.ignore(key)
        chosen = config.indices(key, 0, count - 1) if count else None
        return [words[word if i in (chosen or []) else others] for i in range(count)]

    return draft
