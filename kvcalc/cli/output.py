"""How an answer is wanted: its form, the one value that is picked, its units."""

from typing import NamedTuple

from kvcalc.cli.completion import FORMATS
from kvcalc.cli.options import ExplainWords, OutputWords
from kvcalc.core.units import Units
from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["Output", "output_of"]


class Output(NamedTuple):
    """How the answer is wanted: `form` is one of FORMATS, `get` or `quiet`; `keys` are those of `get`."""

    form: str
    keys: tuple[str, ...]
    units: Units
    explain: bool
    taken: str = ""  # from the user's own defaults


def output_of(words: OutputWords, *, terminal: bool, formats: tuple[str, ...] = FORMATS) -> Output:
    """How to answer. Options that ask for two outputs at once contradict each other."""
    explain = isinstance(words, ExplainWords) and words.explain
    wanted = {"--quiet": words.quiet, "--get": bool(words.get), "--json": words.json_}
    form = (words.format_ or "").lower()
    wanted["--format"] = words.format_ is not None and not (words.json_ and form == "json")
    if wanted["--get"]:  # one value of the JSON: that it is JSON may be said beside it
        wanted["--json"] = False
        wanted["--format"] = wanted["--format"] and form != "json"
    asked = [name for name, present in wanted.items() if present]
    if len(asked) > 1:
        raise KvcalcError(f"{asked[0]}: contradicts {asked[1]}, since each asks for an output of its own")
    form = (
        {"--quiet": "quiet", "--get": "get", "--json": "json", "--format": form}[asked[0]]
        if asked
        else ("table" if terminal else "plain")
    )
    if form not in (*formats, "quiet", "get"):
        raise KvcalcError(f"--format: expected one of {', '.join(formats)}, got {shown(form)}", _meant(form, formats))
    units: str = "iec" if words.units is None else words.units
    if units not in ("iec", "si"):
        raise KvcalcError(f"--units: expected iec or si, got {shown(units)}")
    if explain and form in ("quiet", "get", "csv"):
        raise KvcalcError(f"--explain: contradicts {asked[0] if asked else '--format csv'}, which has no room for it")
    return Output(form, tuple(words.get or ()), "si" if units == "si" else "iec", explain, words.taken)


def _meant(word: str, among: tuple[str, ...]) -> str | None:
    close = nearest(word, among, 1)
    return f"did you mean {close[0]}?" if close else None
