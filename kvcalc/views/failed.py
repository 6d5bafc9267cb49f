"""A start that failed as values for JSON, and as words for people."""

from typing import TYPE_CHECKING

from kvcalc.core.units import format_bytes
from kvcalc.engines.log_form import Failure

if TYPE_CHECKING:
    from kvcalc.views.types.check import FailedStart

__all__ = ["failure_values", "failure_words"]


def failure_values(failure: Failure, engine: str, run: int) -> "FailedStart":
    """Why a start failed, and what would start; bytes are those of one GPU, or of one device."""
    return {
        "line": failure.line,
        "run": run,
        "engine": engine,
        "what": failure.what,
        "asked_context": failure.context,
        "asked_batch": failure.batch,
        "needed_bytes": failure.needed,
        "available_bytes": failure.available,
        "max_context": failure.max_context,
        "max_batch": failure.max_batch,
        "change": list(failure.flags),
    }


def failure_words(failure: Failure) -> list[str]:
    """What a start that failed asked for, and what would start."""
    asked = "" if failure.context is None else f"{failure.context:,} tokens"
    if failure.batch is not None and failure.batch > 1:
        asked = f"{failure.batch:,} sequences of {asked}"
    sizes = []
    if failure.needed is not None:
        sizes.append(f"{format_bytes(failure.needed)} asked for")
    if failure.available is not None:
        sizes.append(f"{format_bytes(failure.available)} there")
    notes = [": ".join(part for part in (asked, ", ".join(sizes)) if part)] if asked or sizes else []
    if failure.max_context:
        batch = f" in each of {failure.batch:,} sequences" if failure.batch is not None and failure.batch > 1 else ""
        most = f", or {failure.max_batch:,} sequences of {asked}" if failure.max_batch and failure.context else ""
        notes.append(f"would start: {failure.max_context:,} tokens{batch}{most}")
    if failure.flags:
        notes.append(f"to change: {'; '.join(failure.flags)}")
    return notes
