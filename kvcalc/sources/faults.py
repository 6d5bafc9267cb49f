"""How the readers of model files say what is wrong with a file, and the ways out that they have in common."""

from kvcalc.errors import KvcalcError, escape, shown

__all__ = ["CUT", "GGUF_MAGIC", "Phrase", "disguise", "fault", "unreadable"]

GGUF_MAGIC = b"GGUF"

CUT = "the file is cut short or damaged: fetch it again"


class Phrase(str):
    """Words of ours, which stand in a message without quotes."""

    __slots__ = ()


def fault(file: str, key: str, expected: str, got: object, hint: str | None = None) -> KvcalcError:
    """A fault of a file, in the form that all readers of weights use. `got` is a value of the file, or a Phrase."""
    value = str(got) if isinstance(got, Phrase) else shown(got)
    return KvcalcError(f"{escape(file)}: {escape(key)[:200]}: expected {expected}, got {value}", hint)


def unreadable(path: str, error: OSError | ValueError) -> KvcalcError:
    """A file or folder that the system does not let us read; ValueError: no file can have such a name."""
    return KvcalcError(f"{escape(path)}: {escape(getattr(error, 'strerror', None) or str(error))}")


def disguise(start: bytes) -> tuple[Phrase, str] | None:
    """What a file that begins so plainly is in place of the one that was meant, and the way out."""
    if start.startswith(GGUF_MAGIC):
        return Phrase("a GGUF file"), "give it by its path, such as ./model.gguf"
    if start.startswith(b"version "):
        return Phrase("a Git LFS pointer"), "fetch the file itself, for instance with `git lfs pull`"
    if start[:5].lower() in (b"<!doc", b"<html"):
        hint = "download the file itself: in its address on the hub, /resolve/ stands in place of /blob/"
        return Phrase("a web page"), hint
    return None
