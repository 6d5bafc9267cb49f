"""An engine's own flags: every way in which its users write them means the same."""

import pytest

from kvcalc.commands.flags import Flag, Flags, read_flags, word
from kvcalc.core.units import parse_integer
from kvcalc.errors import KvcalcError

FLAGS = Flags(
    ("serve",),
    (
        Flag("context", ("-c", "--ctx-size"), parse_integer, env=("ARG_CTX_SIZE",)),
        Flag("model", ("-m", "--model"), word),
        Flag("unified", ("-kvu", "--kv-unified"), env=("ARG_KV_UNIFIED",)),
        Flag("unified", ("--no-kv-unified",), constant=False),
        Flag("flash", ("-fa",), word, bare="on"),
    ),
    words=frozenset({"--temp", "-ngl"}),
    switches=frozenset({"--verbose"}),
    underscores=True,
)


def values(*words: str, **env: str) -> dict[str, object]:
    """What is read, where nothing had to be warned of."""
    read = read_flags(words, FLAGS, env, "engine")
    assert read.warnings == ()
    return dict(read.values)


@pytest.mark.parametrize("words", [("-c", "4096"), ("-c=4096",), ("--ctx-size", "4096"), ("--ctx-size=4096",)])
def test_a_flag_is_read_in_each_of_its_forms(words: tuple[str, ...]) -> None:
    """Short and long, with a blank and with an equals sign."""
    assert values(*words) == {"context": 4096}


def test_a_variable_in_front_means_its_flag_and_the_flag_wins() -> None:
    """As engines have it, the command line comes before the environment."""
    assert values(ARG_CTX_SIZE="8192") == {"context": 8192}
    assert values("-c", "4096", ARG_CTX_SIZE="8192") == {"context": 4096}


def test_the_last_of_two_flags_counts() -> None:
    """Also where two names set one thing."""
    assert values("-c", "1", "-c", "2") == {"context": 2}
    assert values("-kvu", "--no-kv-unified") == {"unified": False}


@pytest.mark.parametrize(
    ("written", "meant"),
    [("--kv-unified", True), ("--kv-unified=on", True), ("--kv-unified=0", False), ("--no-kv-unified=true", False),
     ("--no-kv-unified=false", True)],
)  # fmt: skip
def test_a_switch_may_say_its_value(written: str, meant: object) -> None:
    """A switch alone holds; with a value it holds if that says yes."""
    assert values(written) == {"unified": meant}


def test_a_variable_may_switch_off() -> None:
    """`X=0` in front is no."""
    assert values(ARG_KV_UNIFIED="0") == {"unified": False}


def test_flags_that_cannot_change_the_cache_are_passed_over_in_silence() -> None:
    """With their words, which may look like numbers below zero."""
    assert values("--temp", "0.7", "-ngl", "-1", "--verbose", "-m", "x.gguf") == {"model": "x.gguf"}


def test_a_flag_that_is_not_known_is_named_and_takes_its_word() -> None:
    """Its word is not mistaken for the model; a flag behind it is not swallowed."""
    read = read_flags(["--new", "7", "-c", "4096", "prompt", "--other", "-m", "x"], FLAGS, {}, "engine")
    assert dict(read.values) == {"context": 4096, "model": "x"}
    assert read.others == ("prompt",)
    assert [warning.split(" of ")[0] for warning in read.warnings] == ["'--new 7'", "'--other'"]


def test_a_flag_may_stand_without_its_word() -> None:
    """Where older versions had a switch: a flag behind it, or nothing, is not its word."""
    assert values("-fa", "-c", "1") == {"flash": "on", "context": 1}
    assert values("-fa") == {"flash": "on"}
    assert values("-fa", "off", "-c", "1") == {"flash": "off", "context": 1}


def test_underscores_may_stand_for_hyphens_in_long_names() -> None:
    """Not in their words, and not in short names."""
    assert values("--ctx_size", "1", "--model", "a_b") == {"context": 1, "model": "a_b"}


@pytest.mark.parametrize(
    ("words", "says"),
    [(["-c"], "-c: expected a value"), (["-c", "many"], "-c: expected"), (["--kv-unified=perhaps"], "--kv-unified: expected on or off")],
)  # fmt: skip
def test_a_faulty_flag_is_refused_by_its_name(words: list[str], says: str) -> None:
    """A wrong number is worse than a refusal."""
    with pytest.raises(KvcalcError) as error:
        read_flags(words, FLAGS, {}, "engine")
    assert error.value.message.startswith(says)
