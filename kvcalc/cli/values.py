"""Options as they were typed become the typed values of a question. Raises KvcalcError with the option's name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kvcalc.cli.options import CacheWords, CompanyWords, MemoryWords, RunWords, SplitWords, WorkloadWords
from kvcalc.core.units import MOST_GPUS, Fraction, parse_integer, parse_size, parse_tokens
from kvcalc.errors import KvcalcError
from kvcalc.queries.options import CacheFormat, Memory, NamedGpu, RunOptions, Split, Workload

if TYPE_CHECKING:
    from kvcalc.core.adapters import Adapters
    from kvcalc.core.images import Images
    from kvcalc.core.weights import Weights

__all__ = [
    "cache_of",
    "company_of",
    "context_of",
    "count_of",
    "fraction_of",
    "gpu_of",
    "gpus_of",
    "images_of",
    "kv_heads_of",
    "lora_of",
    "memory_of",
    "refuse_file_alone",
    "run_of",
    "size_of",
    "split_of",
    "tokens_of",
    "weights_of",
    "words_of",
    "workload_of",
]

Default = TypeVar("Default")


def workload_of(words: WorkloadWords) -> Workload:
    """Sequences and their lengths."""
    return Workload(
        context=context_of(words.context),
        batch=count_of(words.batch, "--batch", None),
        encoder_tokens=tokens_of(words.encoder_tokens, "--encoder-tokens", None),
    )


def cache_of(words: CacheWords) -> CacheFormat:
    """Formats of keys and values."""
    return CacheFormat(words.kv_dtype, words.k_dtype, words.v_dtype, kv_heads_of(words.kv_heads))


def split_of(words: SplitWords, *, tp: bool = True) -> Split:
    """The split over GPUs, without tp where that is a list."""
    return Split(
        tp=count_of(words.tp, "--tp", None, MOST_GPUS) if tp else None,
        pp=count_of(words.pp, "--pp", None, MOST_GPUS),
        dp=count_of(words.dp, "--dp", None, MOST_GPUS),
        dcp=count_of(words.dcp, "--dcp", None, MOST_GPUS),
        gpus=count_of(words.gpus, "--gpus", None, MOST_GPUS),
        ep=count_of(words.ep, "--ep", None, MOST_GPUS),
        dp_attention=words.dp_attention or None,
    )


def run_of(words: RunWords) -> RunOptions:
    """How an engine runs."""
    return RunOptions(
        count_of(words.max_num_seqs, "--max-num-seqs", None),
        tokens_of(words.max_num_batched_tokens, "--max-num-batched-tokens", None),
        words.enforce_eager or None,
        words.language_model_only or None,
    )


def memory_of(words: MemoryWords) -> Memory:
    """What one GPU offers, and what comes off it."""
    return Memory(
        vram=size_of(words.vram, "--vram", None),
        gpu=gpu_of(words.gpu, words.gpu_file),
        kv_memory=size_of(words.kv_memory, "--kv-memory", None),
        utilization=fraction_of(words.utilization, "--utilization"),
        weights=weights_of(words.weights),
        overhead=size_of(words.overhead, "--overhead", None, zero=True),
    )


def company_of(words: CompanyWords) -> dict[str, Any]:
    """What else lives on the GPU, by the names that Memory has."""
    return {"lora": lora_of(words.lora), "draft": words.draft, "beside": tuple(words.beside or ())}


def images_of(text: str | None) -> "Images | None":
    """Images of a sequence."""
    if text is None:
        return None
    from kvcalc.core.images import parse_images

    return parse_images(text, "--images")


def lora_of(text: str | None) -> "Adapters | None":
    """Room for adapters."""
    if text is None:
        return None
    from kvcalc.core.adapters import parse_adapters

    return parse_adapters(text, "--lora")


def weights_of(text: str | None) -> "Weights | None":
    """A format of the weights, or their size."""
    if text is None:
        return None
    from kvcalc.core.weights import parse

    return parse(text, "--weights")


def gpu_of(text: str | None, file: str | None) -> NamedGpu | None:
    """The one card that `--gpu` names, which may stand in a file of the asker's own."""
    if text is None:
        refuse_file_alone(file)
        return None
    from kvcalc.cards.names import card_called

    return NamedGpu(text, *card_called(text, file=file))


def refuse_file_alone(file: str | None) -> None:
    """Raise KvcalcError for a file of cards of which none is named."""
    if file is not None:
        raise KvcalcError("--gpu-file: has no effect without --gpu", "add --gpu NAME, a card of that file")


def gpus_of(text: str | None, file: str | None) -> list[NamedGpu] | None:
    """The cards of a list, each as it may be named alone."""
    if text is None:
        return None
    from kvcalc.cards.names import cards_called

    return [
        NamedGpu(card.name if number is None else f"{number}x{card.name}", number, card)
        for number, card in cards_called(text, file=file)
    ]


def context_of(text: str | None) -> int | Literal["max"] | None:
    """Tokens of a sequence, or the model's limit."""
    if text is None:
        return None
    return "max" if text.strip().lower() == "max" else parse_tokens(text, "--context")


def kv_heads_of(text: str | None) -> int | Literal["all"] | None:
    """Cached heads, or all of them."""
    if text is None:
        return None
    return "all" if text.strip().lower() == "all" else parse_integer(text, "--kv-heads")


def count_of(text: str | None, option: str, default: Default, most: int | None = None) -> int | Default:
    """A whole number above zero."""
    if text is None:
        return default
    return parse_integer(text, option) if most is None else parse_integer(text, option, most)


def tokens_of(text: str | None, option: str, default: Default) -> int | Default:
    """A number of tokens."""
    return default if text is None else parse_tokens(text, option)


def size_of(text: str | None, option: str, default: Default, *, zero: bool = False) -> int | Default:
    """Bytes."""
    return default if text is None else parse_size(text, option, zero=zero)


def fraction_of(text: str | None, option: str) -> Fraction | None:
    """A fraction above 0 and up to 1."""
    return None if text is None else Fraction.parse(text, option)


def words_of(text: str | None) -> Sequence[str]:
    """The words of a list in lower case, each once; `auto` where there is none."""
    return ["auto"] if text is None else list(dict.fromkeys(word.strip().lower() for word in text.split(",")))
