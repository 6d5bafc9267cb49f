"""What Ollama's printed sizes should be.

Sources: llm/llama_server.go of Ollama fb3076099; for the engine of its own before 0.30 ml/device.go of 0.11 to 0.24.
"""

from collections.abc import Iterator, Sequence

from kvcalc.engines.llama_cpp import check as llama
from kvcalc.engines.llama_cpp.variations import rows
from kvcalc.engines.log_form import GIB, MIB, Expected, MatchedLine, StartLog
from kvcalc.engines.ollama.engine import server_question
from kvcalc.engines.ollama.versions import Version
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["UNITS", "expect"]

UNITS = {"KiB": 2**10, "MiB": MIB, "GiB": GIB, "TiB": 2**40}
_OF_SERVER = ("cells", "kv_mib", "buffer_mib", "rs_mib", "rs_buffer_mib", "kv_refused")


def expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """What Ollama prints for each device, and what its llama-server prints."""
    yield from _own(question, run)
    if any(name in each.says for each in run.found for name in _OF_SERVER):
        version = question.version
        assert isinstance(version, Version)
        build = version.build or rows(run)[-1]  # one inside an older Ollama is known by its lines alone
        yield from llama.expect(server_question(question._replace(version=version._replace(build=build))), run)


def _own(question: Question, run: StartLog) -> Iterator[Expected]:
    """Devices share the cache: what one holds follows from the whole and the others."""
    groups: list[list[MatchedLine]] = []
    for found in run.found:
        if "own" not in found.says:
            continue
        if not groups or any(each.says["own"] == found.says["own"] for each in groups[-1]):
            groups.append([])  # it is told again, once it is loaded
        groups[-1].append(found)
    if not groups:
        return
    try:
        total, why = sum(charge.bytes for charge in run.engine.allocate(question).charges), ""
    except KvcalcError as error:  # nothing to say of it, where the llama-server's lines may follow
        total, why = None, error.message
    for group in groups:
        yield from _devices(group, total, why, run)


def _devices(group: Sequence[MatchedLine], total: int | None, why: str, run: StartLog) -> Iterator[Expected]:
    sizes = [
        (found.number, printed, found.says["own_unit"], UNITS[found.says["own_unit"]] * run.giga // GIB)
        for found in group if (printed := found.get("own_size", 1)) is not None
    ]  # fmt: skip
    for i, (number, printed, unit, scale) in enumerate(sizes):
        if total is None:
            yield Expected(number, "kv", printed, unit, scale, why=why)
            continue
        others = [(each.whole(by), *each.bounds(by)) for _, each, _, by in (*sizes[:i], *sizes[i + 1 :])]
        whole, low, high = (sum(other[k] for other in others) for k in range(3))
        yield Expected(number, "kv", printed, unit, scale, max(total - high, 0), max(total - whole, 0), total - low)
