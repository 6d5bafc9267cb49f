"""Which other readings there are of a log of llama.cpp: what it leaves open, and rules of other builds."""

from collections.abc import Iterator, Sequence

from kvcalc.core.formula import kept
from kvcalc.core.model import Latent, Recurrent
from kvcalc.engines.llama_cpp.versions import VERSIONS, Version
from kvcalc.engines.log_form import StartLog, Variation, Way, Ways
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.question import Question

__all__ = ["rows", "rules_of", "variations", "ways"]

_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # of a batch
_LARGEST = 2048  # -b where nothing is said
_SLOTS = (1, 2, 3, 4, 6, 8, 16, 32, 64)
_DRAFTED = range(1, 9)  # tokens that a draft may propose


def rules_of(run: StartLog) -> str | None:
    """The newest build that prints in this way."""
    newest = rows(run)[-1]
    return newest.name if newest != VERSIONS[-1] else None


def rows(run: StartLog) -> list[Version]:
    """The builds that may have printed a run."""
    found = list(VERSIONS)
    sized = [each.says for each in run.found if "kv_mib" in each.says]
    states = [each.says for each in run.found if "rs_mib" in each.says]
    if any("fork" in says for says in sized):  # ik_llama.cpp, which kept latents early
        return found
    if any("cells" not in says for says in sized):  # KV self size, until the first caches for sequences
        found = [row for row in found if (row.padded_window and not row.streams) or row.window in (None, "batch")]
    newer = any(run.last(name) for name in ("n_ctx_seq", "kv_unified", "slots_unified"))  # since cells may be shared
    if newer or any("streams" in says for says in sized):
        found = [row for row in found if row.streams]
    elif any("seqs" in says for says in sized):
        found = [row for row in found if row.window and not row.streams]
    if any("SWA" in each.says.get("cache", "") for each in run.found):
        found = [row for row in found if row.window]
    if states:
        log = 3 if any("p_f32_mib" in says for says in states) else 2 if any("rs_seq" in says for says in states) else 1
        found = [row for row in found if row.log == log or (log == 1 and not row.log) or "r_f32_mib" not in states[0]]
    return found or list(VERSIONS)


def ways(question: Question, run: StartLog, version: str | None) -> Ways:
    """What is not stated, with the values that it may have."""
    settings, caches = question.settings, question.request.model.distinct_caches
    windows = any(map(kept, caches))
    states = any(isinstance(c, Recurrent) for c in caches)
    builds = rows(run)
    largest = settings.get("n_batch")
    most = largest if isinstance(largest, int) else max(_SIZES)
    batches = any(row.window == "batch" for row in builds) and version is None
    # whether it matters, the settings that would state it, and the ways
    table: tuple[tuple[bool, str, Sequence[Way]], ...] = (
        (windows, "n_ubatch", [_micro(size, largest) for size in _SIZES if size <= most]),
        (run.last("streams") is None, "", list(_sequences(question, run))),
        (windows and not _announced(run), "swa_full", [_full()]),
        (windows and batches, "n_batch", [_knob("n_batch", size, f"-b {size}") for size in _SIZES]),
        (True, "flash_attn", [_knob("flash_attn", "off", "-fa off")]),
        (states and not plain(run.last("rs_seq")), "n_rs_seq",
         [_knob("n_rs_seq", n, f"states kept for {n} drafted tokens") for n in _DRAFTED]),
        (version is None, "", [_version(row) for row in reversed(builds) if row != question.version]),
        (run.last("key") is None, "", list(_before_latents(question))),  # of a build: it comes last
    )  # fmt: skip
    return [each for matters, stated, each in table if matters and each and stated not in settings]


def variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:
    """What the log would have said if it were so, and builds of other years than it names."""
    caches = question.request.model.distinct_caches
    windows = any(map(kept, caches))
    closed = [*([_full()] if windows and _announced(run) else []), *_before_latents(question)]
    for way in closed:
        yield Variation(way.words, way.change(question))
    if version is not None:
        for row in VERSIONS:
            if row != question.version:
                yield Variation(f"the rules of another time, llama.cpp {row.name}", question._replace(version=row))


def _announced(run: StartLog) -> bool:
    """Windows at full length are warned of just before the caches are announced (llama-kv-cache-iswa.cpp)."""
    return any("cache" in each.says for each in run.found)


def _slots(run: StartLog) -> str | None:
    """What says how many sequences there are."""
    names = ("n_seq_max", "seqs", "rs_seqs", "rs_cells", "n_slots")
    return next((said for name in names if (said := run.last(name)) is not None), None)


def _sequences(question: Question, run: StartLog) -> Iterator[Way]:
    """Numbers of sequences, with cells of their own and with shared ones, where the log does not say either."""
    told = question.sequences
    unified = run.last("kv_unified") or run.last("slots_unified")
    n_ctx = question.settings.get("n_ctx")
    tokens = n_ctx if isinstance(n_ctx, int) else question.request.context * told
    known = _slots(run) is not None or told > 1
    for count in (told,) if known else _SLOTS:
        for shared in (True, False):
            now = bool(question.settings.get("kv_unified"))
            if (count == 1 and shared) or (count == told and shared == now) or tokens < count:
                continue
            if unified is not None and shared != (unified == "true"):
                continue
            yield _slotted(count, tokens, shared=shared)


def _slotted(count: int, tokens: int, *, shared: bool) -> Way:
    def change(question: Question) -> Question:
        settings = {**question.settings, "n_seq_max": count, "n_ctx": tokens, "kv_unified": shared}
        return question.at(count, tokens // count)._replace(settings=settings)

    return Way("n_seq_max", f"-np {count}" + (" -kvu" if shared else ""), change)


def _full() -> Way:
    return _knob("swa_full", True, "windows at full length (--swa-full)")


def _micro(size: int, largest: object) -> Way:
    """A micro-batch, and a batch that is not smaller."""

    def change(question: Question) -> Question:
        batch = question.settings.get("n_batch", max(_LARGEST, size))
        return question._replace(settings={**question.settings, "n_ubatch": size, "n_batch": batch})

    larger = f" -b {size}" if largest is None and size > _LARGEST else ""
    return Way("n_ubatch", f"-ub {size}{larger}", change)


def _before_latents(question: Question) -> Iterator[Way]:
    """Files that were converted before llama.cpp knew latents hold a model of many heads."""
    row, caches = question.version, question.request.model.distinct_caches
    if not isinstance(row, Version) or row.latent == "heads" or not any(isinstance(c, Latent) for c in caches):
        return

    def change(question: Question) -> Question:
        assert isinstance(question.version, Version)
        return question._replace(version=question.version._replace(latent="heads"))

    yield Way("file", "a file from before latents had keys of their own, every head kept", change)


def _version(row: Version) -> Way:
    return Way("version", f"the rules of llama.cpp {row.name}", lambda question: question._replace(version=row))


def _knob(name: str, value: object, words: str) -> Way:
    return Way(name, words, lambda question: question._replace(settings={**question.settings, name: value}))
