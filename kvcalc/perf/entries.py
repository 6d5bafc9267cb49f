"""How many entries of a cache a query looks at, by its position, and the sums of that over positions in closed form."""

from typing import Literal, NamedTuple, assert_never

__all__ = ["Seen", "triangle"]


class Seen(NamedTuple):
    """How many entries a query at position t, counted from 1, looks at, and sums of that in closed form.

    `tokens`: itself and all before it. `chunk`: those since its chunk of `size` tokens began. `entries`: one for every
    `size` tokens that are complete. `fixed`: `size`, whatever the position. Never more than `most`, if that is not 0.
    """

    kind: Literal["tokens", "chunk", "entries", "fixed"]
    size: int = 1
    most: int = 0

    def at(self, t: int) -> int:
        """What one query at position t looks at."""
        match self.kind:
            case "tokens":
                seen = t
            case "chunk":
                seen = (t - 1) % self.size + 1
            case "entries":
                seen = t // self.size
            case "fixed":
                seen = self.size
            case _:
                assert_never(self.kind)
        return min(seen, self.most) if self.most else seen

    def prefix(self, n: int) -> int:
        """What the queries of a prefix of n tokens look at together: the sum of `at` over 1 to n."""
        over = self._over(n)
        return self._rising(n - over) + over * self.most

    def prefixes(self, n: int) -> int:
        """What is looked at if every prefix up to n tokens is computed anew: the sum of `prefix` over 1 to n."""
        over = self._over(n)
        rising = n - over
        return self._risings(rising) + over * self._rising(rising) + self.most * triangle(over)

    def _over(self, n: int) -> int:
        """How many of n positions are past the one from which on `most` holds."""
        if not self.most or self.kind not in ("tokens", "entries"):
            return 0
        return max(n - (self.most if self.kind == "tokens" else self.most * self.size - 1), 0)

    def _rising(self, n: int) -> int:
        """`prefix` without `most`."""
        match self.kind:
            case "tokens":
                return triangle(n)
            case "chunk":
                return n // self.size * triangle(self.size) + triangle(n % self.size)
            case "entries":  # positions 0 to n: each whole run of `size` sees one entry more than the run before
                runs, rest = divmod(n + 1, self.size)
                return self.size * triangle(runs - 1) + rest * runs
            case "fixed":
                return n * self.size
            case _:
                assert_never(self.kind)

    def _risings(self, n: int) -> int:
        """`prefixes` without `most`."""
        size = self.size
        match self.kind:
            case "tokens":
                return _tetrahedron(n)
            case "chunk":  # prefixes of 0 to n tokens, by the whole chunks in them
                runs, rest = divmod(n + 1, size)
                whole = size * triangle(runs - 1) + rest * runs
                return whole * triangle(size) + runs * _tetrahedron(size - 1) + _tetrahedron(rest - 1)
            case "entries":
                runs, rest = divmod(n + 2, size)
                inner = size * size * _tetrahedron(runs - 2) + triangle(size - 1) * triangle(runs - 1)
                return inner + rest * size * triangle(runs - 1) + runs * triangle(rest - 1)
            case "fixed":
                return size * triangle(n)
            case _:
                assert_never(self.kind)


def triangle(n: int) -> int:
    """1 + 2 + ... + n."""
    return n * (n + 1) // 2 if n > 0 else 0


def _tetrahedron(n: int) -> int:
    """The sum of the first n triangles."""
    return n * (n + 1) * (n + 2) // 6 if n > 0 else 0
