"""The field's words for what JSON says in codes."""

__all__ = ["limited_by"]

_LIMITS = {
    "kv": "KV cache",
    "weights": "weights",
    "overhead": "overhead",
    "compute": "compute",
    "bandwidth": "bandwidth",
    "model": "model limit",
    "engine": "engine",
    "dtype": "format",
    "unknown": "unknown",
    "latency": "latency",
}


def limited_by(binding: str) -> str:
    """What stops one more sequence or token, in words."""
    return _LIMITS[binding]
