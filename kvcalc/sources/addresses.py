"""The text behind an address that the user gives, such as a server's /metrics: read once, bounded, and nothing else."""

from io import BytesIO

from kvcalc.errors import KvcalcError, escape

__all__ = ["fetched", "is_address"]

_SECONDS = 10.0  # a server that is asked every few seconds answers in milliseconds
_SCHEMES = ("http://", "https://")


def is_address(text: str) -> bool:
    """Whether a name is an address and no file."""
    return text.lower().startswith(_SCHEMES)


def fetched(address: str, most: int) -> BytesIO:
    """What stands there, up to `most` bytes and one. Raises KvcalcError for whoever does not answer in time."""
    from http.client import HTTPException
    from time import monotonic
    from urllib.request import HTTPDefaultErrorHandler as Errors
    from urllib.request import HTTPErrorProcessor as Statuses
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

    opener = OpenerDirector()  # no file, no ftp, and no way to another address
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), Errors(), Statuses()):
        opener.add_handler(handler)
    until, pieces, size = monotonic() + _SECONDS, [], 0
    try:
        with opener.open(Request(address, headers={"Accept": "text/plain"}), timeout=_SECONDS) as answer:  # noqa: S310 - both schemes are http
            while size <= most and monotonic() < until and (piece := answer.read1(1 << 16)):
                pieces.append(piece)
                size += len(piece)
    except (OSError, HTTPException, ValueError) as error:
        why = str(getattr(error, "reason", None) or error) or type(error).__name__
        raise _unanswered(address, escape(why)) from None
    if monotonic() >= until:
        raise _unanswered(address, f"no whole answer in {_SECONDS:g} s")
    return BytesIO(b"".join(pieces)[: most + 1])


def _unanswered(address: str, why: str) -> KvcalcError:
    return KvcalcError(
        f"{escape(address)}: {why}", "the address of the server's metrics, such as http://host:8000/metrics"
    )
