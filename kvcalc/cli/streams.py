"""Standard output and standard error as they may be: closed, full, or nobody reads on."""

import errno
import os
import sys
from contextlib import suppress
from typing import Any

__all__ = ["drop_output", "fill_streams", "is_unwritten"]

# What a write says of a full disk, a limit, a broken device; of other files an error names the file.
_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def is_unwritten(error: BaseException) -> bool:
    """Whether an error says that standard output cannot be written."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN


def drop_output() -> None:
    """Let what is left go nowhere, or it would raise again when Python closes the stream at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Forgiving:
    """Standard error, whose loss is no reason for another exit status."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def fill_streams() -> None:
    """Put something in place of what the caller closed: without standard error Python prints to standard output, and
    the next file that is opened would take the number of a closed one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = _Forgiving(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115
