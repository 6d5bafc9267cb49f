"""What a TAB offers behind an option. All of it is imported when it is asked for: most calls complete nothing."""

from collections.abc import Callable, Iterable

from typer import Context

from kvcalc.core import dtypes

__all__ = [
    "FORMATS", "Complete", "complete_engines", "complete_formats", "complete_gpu_names", "complete_gpus",
    "complete_keys", "complete_kv_dtypes", "complete_models", "complete_weights", "of_words", "with_list",
]  # fmt: skip

FORMATS = ("table", "plain", "json", "csv", "markdown")

Complete = Callable[[str], list[str]]


def complete_models(incomplete: str) -> list[str]:
    from kvcalc.library.loader import entries

    return [entry.name for entry in entries() if entry.name.startswith(incomplete.lower())]


def complete_kv_dtypes(incomplete: str) -> list[str]:
    return [name for name in ("auto", *dtypes.KV) if name.startswith(incomplete)]


def complete_weights(incomplete: str) -> list[str]:
    return [name for name in ("auto", "none", *dtypes.WEIGHTS) if name.startswith(incomplete)]


def complete_engines(incomplete: str) -> list[str]:
    from kvcalc.launch.registry import all_engines

    return [engine.name for engine in all_engines() if engine.name.startswith(incomplete.lower())]


def complete_gpus(incomplete: str) -> list[str]:
    """Names of cards and machine types, behind what is typed already: `8x`, or cards and a comma."""
    import re

    begun = re.sub(r".*,\s*|[0-9]+[x*]", "", incomplete, flags=re.DOTALL)
    before = incomplete[: len(incomplete) - len(begun)]
    return [before + name for name in [*complete_gpu_names(begun), "all", "local"] if name.startswith(begun)]


def complete_gpu_names(incomplete: str) -> list[str]:
    from kvcalc.cards.names import names

    return [name for name in names() if name.lower().startswith(incomplete.lower())]


def complete_keys(ctx: Context, incomplete: str) -> list[str]:
    """Paths of the JSON that the verb answers with."""
    from kvcalc.views.schema import DOCUMENTS, paths_of

    documents = DOCUMENTS.get(ctx.info_name or "", ())
    known = dict.fromkeys(path for document in documents for path in paths_of(document))
    return [path for path in known if path.startswith(incomplete)]


def complete_formats(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


def of_words(words: Callable[[], Iterable[str]]) -> Complete:
    """Completion of one of some words, whatever their case."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.lower().startswith(incomplete.lower())]

    return complete


def with_list(complete: Complete) -> Complete:
    """Completion of the last word of a list."""

    def words(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in complete(last)]

    return words
