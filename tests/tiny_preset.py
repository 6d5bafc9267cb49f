"""A sound preset of a few lines, for tests that make it faulty."""

KEYS = {"name": "Tiny 1", "dtype": "bf16", "heads": "4", "kv_heads": "2", "head_dim": "64", "layers": "2 full"}


def tiny(**changes: str | None) -> str:
    """A sound preset but for `changes`, a key a line: name 1, dtype 2, heads 3, kv_heads 4, head_dim 5, layers 6."""
    keys = {**KEYS, **changes}
    return "".join(f"{key}: {value}\n" for key, value in keys.items() if value is not None)
