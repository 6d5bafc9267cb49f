"""Levels as they go over time, for a picture: means over equal parts of a time whose end is not known before."""

__all__ = ["Course"]

_PARTS = 256  # of the time at most, at least half as many
_FIRST = 2.0**-10  # seconds of a part to begin with


class Course:
    """Tokens that are held and requests that wait, summed over replicas. Parts double in length as time goes on."""

    def __init__(self) -> None:
        self.seconds = _FIRST
        self.end = 0.0
        self._tokens, self._waiting = [0.0] * _PARTS, [0.0] * _PARTS

    def add(self, start: float, seconds: float, low: float, high: float, waiting: int = 0) -> None:
        """From a time on so many tokens, evenly from one number to another, and so many requests that wait."""
        end = start + seconds
        self.end = max(self.end, end)
        while end >= _PARTS * self.seconds:
            self._tokens, self._waiting = _halved(self._tokens), _halved(self._waiting)
            self.seconds *= 2
        first, last = int(start / self.seconds), int(end / self.seconds)
        for part in range(first, last + 1):
            since, until = max(start, part * self.seconds), min(end, (part + 1) * self.seconds)
            if until > since:
                middle = ((since + until) / 2 - start) / seconds
                self._tokens[part] += (until - since) * (low + (high - low) * middle)
                self._waiting[part] += (until - since) * waiting

    def points(self, replicas: int = 1) -> list[tuple[float, float, float]]:
        """The middle of each part, its mean tokens of a replica, and its mean requests that wait for any."""
        found = []
        for part, (tokens, waiting) in enumerate(zip(self._tokens, self._waiting, strict=True)):
            since = part * self.seconds
            wide = min(self.seconds, self.end - since)
            if wide <= 0:
                break
            found.append((since + wide / 2, tokens / wide / replicas, waiting / wide))
        return found


def _halved(parts: list[float]) -> list[float]:
    """Two neighbours become one, and room is left behind."""
    return [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)] + [0.0] * (len(parts) // 2)
