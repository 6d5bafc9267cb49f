"""Shell text: what a shell would make of it, for any words; and any text at all."""

import shlex
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.commands.budget import Budget
from kvcalc.commands.shell import read
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
# What the readers look for, in any order.
PIECES = st.sampled_from(
    ["llama-server ", "-m x ", "-c ", "4096", "'", '"', "\\", "\n", "$A", "${A:-", "}", "$(", ")", "`", "(", "A=", "A+=(",
     "if ", "fi\n", "<<E\n", "E\n", "> x", "2>&1", "&", "|", ";", "#", "%A%", "services:\n", "  a:\n", "    image: ",
     "llama.cpp:server\n", "    command: ", "- ", "[Service]\n", "ExecStart=", "Environment=", "bash -c ", "docker run ",
     "ollama run ", "[", "]", "{", "\t", "\r\n", "\x1b", "*a ", "&a ", "<<: ", "export "]
)  # fmt: skip


@given(st.lists(WORDS, max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    """Whatever Python's shlex quotes is read as it was."""
    (command,) = read(shlex.join(["x", *words]), {}, Budget("x")).commands
    assert command.words == ("x", *words)


@given(
    st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), st.from_regex(r"[a-z0-9/. ]{0,9}", fullmatch=True))
)
def test_variables_stand_for_their_values(values: dict[str, str]) -> None:
    """In double quotes each is a part of one word."""
    assignments = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    (command,) = read(assignments + "x " + " ".join(f'"${{{name}}}"' for name in values), {}, Budget("x")).commands
    assert command.words == ("x", *values.values())


@given(st.lists(PIECES | WORDS, max_size=25).map("".join))
def test_any_text_is_understood_or_refused(text: str) -> None:
    """Nothing else is raised."""
    with suppress(KvcalcError):
        launch(None, ["-"], text.encode)


@given(st.lists(PIECES | WORDS, max_size=12))
def test_any_words_are_understood_or_refused(words: list[str]) -> None:
    """The same behind --."""
    with suppress(KvcalcError):
        launch(None, words)
