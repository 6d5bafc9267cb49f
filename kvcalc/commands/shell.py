"""Shell text read as the commands in it: quotes, variables, continued lines, redirections, pipes. Nothing is run.

What only a shell can know stays as it stands: `$(...)`, and variables that have no value, or several, in the text.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.commands.budget import COMMAND, ENTRY, INNER_TEXT, Budget
from kvcalc.commands.variables import expand
from kvcalc.errors import KvcalcError

__all__ = ["ASSIGNMENT", "Command", "Script", "read"]

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class Command(NamedTuple):
    """One command: its words, the variables that it is started with, the line or the service where it stands.

    Where a container's `image` is named, the words are those that follow its entrypoint; `within` is the image also
    where they bring their own program. `unread` names files of further variables.
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = {}
    name: str = ""
    image: str = ""
    unread: str = ""
    within: str = ""


class Script(NamedTuple):
    """The commands of a text, and the texts within it (`<<EOF`), each with the line where it begins."""

    commands: list[Command]
    texts: list[tuple[int, str]]


# On Windows `^` and a backtick continue lines, and a backslash in front of a letter belongs to a path.
_INNER = r"(?:[^()]|\([^()]*\))*+"
_TOKEN = re.compile(
    rf"""
    (?P<gap>(?:[ \t\r]|[\\^]\r?\n|(?<=[ \t])`\r?\n)+)
  | (?P<comment>(?<![^\s;&|(])\#[^\n]*)
  | (?P<text><<-?[ ]*(?P<quote>['"]?)(?P<mark>\w+)['"]?)
  | (?P<redirect>\d?(?:>>|>\||<<<|<>|[<>])(?:&[\d-])?|&>>?)
  | (?P<end>\n|;;?&?|&&?|\|\|?|[()])
  | '(?P<single>[^']*)'
  | "(?P<double>(?:[^"\\$`]|\\.|\$\({_INNER}\)|[\\$`])*+)"
  | (?P<run>\$\({_INNER}\)|`[^`\n]*`)
  | (?P<variable>\$\{{(?:[^{{}}]|\$?\{{[^{{}}]*\}})*+\}}|\$[@*]|\$\w+|%\w+%)
  | \\(?P<escaped>[^\w.])
  | (?P<plain>[^\s'"\\$`%;&|<>()]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SETS = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL | re.ASCII)
_POWERSHELL = re.compile(r"\$(env:)?(\w+) ?= ?(.*)", re.DOTALL | re.IGNORECASE)
_EXPORTING = ("export", "set", "setx")
_SETTING = (*_EXPORTING, "declare", "typeset", "local", "readonly")

# Words in front of a command, by what they add to the depth of conditions and loops around it.
_KEYWORDS = {
    **dict.fromkeys(("if", "for", "while", "until", "case", "select", "{"), 1),
    **dict.fromkeys(("fi", "done", "esac", "}"), -1),
    **dict.fromkeys(("then", "else", "elif", "do", "!", "$"), 0),  # the last is a prompt, copied with its command
}
_LONGEST = 10_000  # characters of a value that is kept


def read(text: str, given: Mapping[str, str], budget: Budget) -> Script:
    """The commands of a script, in order. `given` are variables whose values the text does not change.

    Raises KvcalcError for a quote that is not closed, and OverBudgetError.
    """
    reader = _Reader(given, budget)
    at, line = 0, 1
    marks: list[tuple[str, str]] = []
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        kind, at = token.lastgroup or "", token.end()
        if kind == "text":
            marks.append((token["mark"], token["quote"]))
        elif kind == "plain" and token[0] in ("'", '"'):
            raise KvcalcError(f"line {line}: a quote is opened and not closed")
        else:
            reader.take(kind, token[kind], line)
        line += token[0].count("\n")
        if marks and token[0] == "\n":
            mark, quote = marks.pop(0)
            body, at = _until(text, at, mark)
            budget.spend(INNER_TEXT)
            reader.texts.append((line, body if quote else reader.unescaped(body)))
            line += body.count("\n")
    reader.take("end", "\n", line)
    return Script(reader.commands, reader.texts)


def _until(text: str, at: int, mark: str) -> tuple[str, int]:
    """The lines from `at` on up to one that is `mark` alone, and where that ends; else all that is left."""
    begin = at
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        if text[begin:end].strip(" \t\r") == mark:
            return text[at:begin], end
        begin = end + 1
    return text[at:], len(text)


def _flags(value: str) -> str:
    """A value that holds flags is several words, like an array's."""
    return "\0".join(value.split()) if value.startswith("-") else value


class _Reader:
    """What is known while a script is read from top to bottom."""

    def __init__(self, given: Mapping[str, str], budget: Budget) -> None:
        budget.spend(ENTRY * len(given))
        self.budget = budget
        self.given = dict(given)
        self.values = {name: _flags(value) for name, value in given.items()}
        self.exported = set(given)
        self.unsure: set[str] = set()  # set in one branch only, or differently in two: those have no value here
        self.depth = 0
        self.commands: list[Command] = []
        self.texts: list[tuple[int, str]] = []
        self.words: list[str] = []
        self.word: list[str] | None = None
        self.line = 0
        self.array: str | None = None
        self.target = False  # the next word is the file of a redirection
        self.environment: Mapping[str, str] | None = None  # of the next command, until a variable changes

    def take(self, kind: str, text: str, line: int) -> None:
        """One token."""
        match kind:
            case "gap" | "comment":
                self.close()
            case "redirect":
                self.close()
                self.target = "&" not in text[1:]
            case "end":
                self.end(text, line)
            case "double":
                if text not in ("$@", "$*", "${@}"):
                    self.add(self.unescaped(text), "\0", line)
            case "variable":
                value = self.expanded(text)
                if value:
                    self.add(value, "\0 \t\r\n", line)
            case _:
                self.add(text, "\0", line)

    def expanded(self, text: str) -> str:
        return expand(text, self.values, self.budget, self.unsure)

    def unescaped(self, text: str) -> str:
        """What stands between double quotes. An escaped `$` is no variable's."""
        parts = re.split(r"\\([$`\"\\\n])", text)
        return "".join(part.strip("\n") if i % 2 else self.expanded(part) for i, part in enumerate(parts))

    def add(self, text: str, between: str, line: int) -> None:
        """Text that goes on with a word, or is several: those of an array, or all that blanks separate."""
        if not self.words and self.word is None:
            self.line = line
        for i, part in enumerate(re.split(f"[{between}]+", text)):
            if i:
                self.close()
            self.word = self.word or []
            self.word.append(part)

    def close(self) -> None:
        """The end of a word."""
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        if self.target:
            self.target = False
        elif word in _KEYWORDS and not self.words and self.array is None:
            self.depth = max(self.depth + _KEYWORDS[word], 0)
        else:
            self.words.append(word)

    def end(self, text: str, line: int) -> None:
        """The end of a command, or of a line within an array."""
        if text == "(" and self.word and self.word[-1].endswith("=") and _SETS.fullmatch("".join(self.word)):
            self.array, self.word = "".join(self.word), None
            return
        self.close()
        if self.array is not None and text != ")":
            return
        words, self.words = self.words, []
        self.target = False
        if self.array is not None:
            self.assign(self.array + "\0".join(words))
            self.array = None
        elif words:
            self.finish(words, self.line or line)

    def finish(self, words: list[str], line: int) -> None:
        """Keep a command, or the variables that it sets."""
        self.budget.spend(COMMAND)
        powershell = _POWERSHELL.fullmatch(" ".join(words)) if words[0].startswith("$") else None
        start = next((i for i, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)), len(words))
        if powershell:
            self.assign(f"{powershell[2]}={powershell[3]}", exported=bool(powershell[1]))
        elif start == len(words):
            for word in words:
                self.assign(word)
        elif words[start] in _SETTING:
            for word in words[start + 1 :]:
                self.assign(word, exported=words[start] in _EXPORTING or "-x" in words)
        else:
            self.commands.append(Command(tuple(words[start:]), self.started_with(words[:start]), str(line)))

    def started_with(self, assignments: list[str]) -> Mapping[str, str]:
        """The variables of a command: what is exported and given, which commands share, and those in front of it."""
        if self.environment is None:
            self.budget.spend(ENTRY * (len(self.exported) + len(self.given)))
            exported = {name: self.values[name] for name in self.exported if name in self.values}
            self.environment = exported | self.given
        if not assignments:
            return self.environment
        self.budget.spend(ENTRY * (len(self.environment) + len(assignments)))
        own = {match[1]: match[2] for word in assignments if (match := ASSIGNMENT.fullmatch(word))}
        return {**self.environment, **own}

    def assign(self, text: str, *, exported: bool = False) -> None:
        """`NAME=VALUE`, `NAME+=VALUE`, or a NAME that is to be exported."""
        self.environment = None
        match = _SETS.fullmatch(text)
        name = match[1] if match else text
        if exported:
            self.exported.add(name)
        if match is None or name in self.given:
            return
        before = self.values.get(name)
        value = f"{before}\0{match[3]}" if match[2] and before else match[3]
        if len(value) > _LONGEST:
            self.unsure.add(name)
            self.values.pop(name, None)
        elif not self.depth:
            self.unsure.discard(name)
            self.values[name] = value
        elif before is None and name not in self.unsure:
            self.unsure.add(name)
            self.values[name] = value
        elif before is not None and before != value:
            self.unsure.add(name)
            del self.values[name]
