"""What every verb needs from the world: text from standard input, and text written to standard output or a file."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kvcalc.cli.options import AssumeDenseWords
from kvcalc.cli.output import Output
from kvcalc.cli.streams import drop_output
from kvcalc.errors import KvcalcError, escape, shown, shown_path
from kvcalc.preset.yaml_file import MOST_FILE_BYTES
from kvcalc.queries.source import Source
from kvcalc.views.document import picked

if TYPE_CHECKING:
    from kvcalc.views.report import Report

__all__ = ["check_targets", "emit", "save", "source_of", "standard_input", "write"]

Document = TypeVar("Document", bound=Mapping[str, object])


def source_of(model: str | None, words: AssumeDenseWords) -> Source:
    """Where the model that a MODEL argument names comes from; `-` is standard input."""
    return Source(model, words.assume_dense, standard_input)


def standard_input(expected: str = "a preset or a config.json", example: str = "kvcalc - < config.json") -> bytes:
    """All of standard input, bounded. `example` is a command into which what is `expected` is piped."""
    from kvcalc.sources.faults import disguise

    try:
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_FILE_BYTES + 1)
    except OSError as error:  # a folder
        raise KvcalcError(f"<stdin>: {error.strerror}", f"pipe a file in, such as `{example}`") from None
    other = disguise(content)
    if other is not None:
        raise KvcalcError(f"<stdin>: expected {expected}, got {other[0]}", other[1])
    if not content.strip():
        raise KvcalcError(f"<stdin>: expected {expected}, got nothing", f"pipe one in, such as `{example}`")
    if len(content) > MOST_FILE_BYTES:
        raise KvcalcError(f"<stdin>: expected at most {MOST_FILE_BYTES:,} bytes", "give it by its path")
    return content


def emit(
    output: Output,
    document: Callable[[], Document],
    report: Callable[[], "Report"],
    headline: Callable[[], object],
    rows: Callable[[Document], Sequence[Mapping[str, object]]] | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write an answer in the form that was asked for. Each renderer is imported only when it is used.

    `headline` is what --quiet prints, `rows` what the lines of CSV are: by default, one. Only what is printed is made.
    Forms that have no room for `warnings` leave them to standard error.
    """
    if output.taken:
        document, report = _with_warning(document, output.taken), _with_note(report, output.taken)
        warnings = (*warnings, output.taken)
    if output.form in ("quiet", "get", "csv"):
        for warning in warnings:
            print(f"kvcalc: warning: {escape(warning)}", file=sys.stderr)
    match output.form:
        case "table":
            answer = report()
            if all(section.keys for section in answer.sections):
                from kvcalc.render import columns

                write(columns.render(answer, output.units))
            else:
                from kvcalc.render import table

                write(table.render(answer, output.units))
        case "plain":
            from kvcalc.render import plain

            write(plain.render(report(), output.units))
        case "markdown":
            from kvcalc.render import markdown

            write(markdown.render(report(), output.units))
        case "json":
            from kvcalc.render.data import as_json

            write(as_json(document()))
        case "csv":
            from kvcalc.render.data import as_csv

            values = document()
            write(as_csv(rows(values) if rows else [values]))
        case form:
            from kvcalc.render.data import raw

            values_of = [headline()] if form == "quiet" else picked(document(), output.keys)
            write("".join(f"{raw(value)}\n" for value in values_of))


def _with_warning(document: Callable[[], Document], taken: str) -> Callable[[], Document]:
    def warned() -> Document:
        values: Any = {**document()}
        values["warnings"] = [*values.get("warnings", ()), taken]
        return values  # type: ignore[no-any-return]  # the same keys

    return warned


def _with_note(report: Callable[[], "Report"], taken: str) -> Callable[[], "Report"]:
    def noted() -> "Report":
        made = report()
        return made._replace(notes=[*made.notes, taken])

    return noted


def write(text: str) -> bool:
    """Write a result. A reader that has gone away is no failure: `kvcalc ... | head -1` must not read as "no".

    False: nobody reads on.
    """
    try:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name may hold what an ASCII locale cannot show
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            raise KvcalcError(f"standard output: {error.strerror}") from None
        return False
    return True


def check_targets(targets: Mapping[str, str | None], read: Iterable[str | None]) -> None:
    """Refuse to write, under the options of `targets`, into no file, into one twice, or over one that is `read`."""
    sources = [path for path in read if path and path != "-" and os.path.exists(path)]
    taken: dict[str, str] = {}
    for option, path in targets.items():
        if path is None:
            continue
        if path.strip() in ("", "-"):
            raise KvcalcError(f"{option}: expected a file, got {shown(path)}", "standard output is /dev/stdout")
        if any(_same_file(path, source) for source in sources):
            raise KvcalcError(f"{option}: {shown_path(path)} is read, and would be written over", "name another file")
        for other, its in taken.items():
            if _same_file(path, its):
                raise KvcalcError(f"{other}: contradicts {option}, since both name the same file", "name another file")
        taken[option] = path


def _same_file(one: str, other: str) -> bool:
    """Both are one file, under whatever names; a device takes anything twice."""
    try:
        if os.path.exists(one) and os.path.exists(other):
            return os.path.isfile(one) and os.path.samefile(one, other)
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a null byte
        return False


def save(path: str, text: str, option: str) -> None:
    """Write a file whole or not at all: a half-written one would be taken for the answer."""
    import tempfile

    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe has no other name
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        folder, name = os.path.split(os.path.realpath(path))
        handle, draft = tempfile.mkstemp(prefix=f".{name[:60]}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(draft, 0o666 & ~mask)
            os.replace(draft, os.path.join(folder, name))
        except BaseException:
            os.unlink(draft)
            raise
        print(f"written: {shown_path(path)}", file=sys.stderr)
    except OSError as error:
        raise KvcalcError(f"{option}: {shown_path(path)}: {error.strerror}") from None
    except ValueError:  # a null byte
        raise KvcalcError(f"{option}: expected a path, got {shown(path)}") from None
