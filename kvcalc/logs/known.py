"""What is worked out once for a log: models by their names, and starts that say the same again and again."""

from contextlib import suppress

from kvcalc.core.model import Model
from kvcalc.engines.log_form import EngineLog, StartLog
from kvcalc.errors import KvcalcError, shown
from kvcalc.library import loader
from kvcalc.logs.compare import Checked
from kvcalc.logs.naming import preset_of

__all__ = ["Names", "Repeated"]

_MOST_MODELS = 64  # looked up for one log
Found = tuple[Checked, list[str]]  # and notes


class Names:
    """Models by the names in a log, each looked up once: a server that crashes in a loop names its own many times."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], tuple[Model, str | None] | KvcalcError] = {}

    def model(self, names: tuple[str, ...]) -> tuple[Model, str | None]:
        """The preset that one of a model's names means, best first, and how it was called. Raises KvcalcError."""
        if names not in self.known:
            if len(self.known) >= _MOST_MODELS:
                raise KvcalcError(f"the log names more than {_MOST_MODELS} models", "say which it is: --model MODEL")
            try:
                self.known[names] = _named(names)
            except KvcalcError as error:
                self.known[names] = error
        found = self.known[names]
        if isinstance(found, KvcalcError):
            raise found
        return found


class Repeated:
    """Starts that say the same as one before, but at other lines: a server that is started over and over."""

    def __init__(self) -> None:
        self.known: dict[object, tuple[list[int], Found]] = {}

    def keep(self, spoken: EngineLog, run: StartLog, found: Found) -> Found:
        """Remember what was found of a start."""
        self.known[self._key(spoken, run)] = [each.number for each in run.found], found
        return found

    def get(self, spoken: EngineLog, run: StartLog) -> Found | None:
        """What was found of such a start, at the lines of this one."""
        before = self.known.get(self._key(spoken, run))
        if before is None:
            return None
        lines, (checked, notes) = before
        now = dict(zip(lines, (each.number for each in run.found), strict=True))
        compared = tuple(
            each._replace(expected=each.expected._replace(number=now[each.expected.number]))
            for each in checked.compared
        )
        failure = checked.failure and checked.failure._replace(line=now[checked.failure.line])
        return checked._replace(compared=compared, failure=failure, run=run), notes

    def _key(self, spoken: EngineLog, run: StartLog) -> object:
        return spoken.engine.name, tuple((tuple(each.says.items()), each[2:]) for each in run.found)


def _named(names: tuple[str, ...]) -> tuple[Model, str | None]:
    """The preset that one of a model's names means, best first, and how it was called."""
    found = preset_of(names)
    if found is not None:
        entry, name = found
        note = None if name.lower() == entry.name else f"{shown(name)} is taken for {entry.name}"
        model = loader.load_entry(entry)
        with suppress(KvcalcError):  # a format without a size: then the weights are counted as published
            model = loader.as_named(model, entry, name)
        return model, note
    if names:
        raise KvcalcError(f"no preset is called {shown(names[0])}", "say which model it is: --model MODEL")
    raise KvcalcError("the log does not name the model", "say which it is: --model MODEL")
