"""What reading one text may cost beyond its own length: a short text can ask for very much work.

Variables stand for long values, environments are handed to each command, words are shell texts again. All of it comes
off one budget, so that no way to multiply work adds to another one.
"""

from kvcalc.errors import KvcalcError

__all__ = ["COMMAND", "ENTRY", "INNER_TEXT", "MOST_WORK", "Budget", "OverBudgetError"]

MOST_WORK = 1 << 20  # characters, which take some nanoseconds each; the longest that people paste come to some 10,000
ENTRY = 4  # characters that a word counts for beside its own, or a variable that is handed to one more command
COMMAND = 16  # and a command of a script, in which an engine's program is looked for
INNER_TEXT = 256  # and a text within the text, which is read by itself


class OverBudgetError(KvcalcError):
    """The text asks for more than any start-up command does."""


class Budget:
    """What is left for one text, which `place` is called in messages."""

    def __init__(self, place: str, most: int = MOST_WORK) -> None:
        self.place, self.left = place, most

    def spend(self, characters: int) -> None:
        """Take characters that were made, or will be. Raises OverBudgetError where not as many are left."""
        self.left -= characters
        if self.left < 0:
            raise OverBudgetError(
                f"{self.place}: expected at most {MOST_WORK:,} characters from its variables and from texts within it",
                "give its start-up line alone",
            )
