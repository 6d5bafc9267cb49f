"""What engines and publications said of caches, beside what kvcalc says: the facts of the tests, fact by fact.

The tests hold each of them; here they are counted, for the page about accuracy.
"""

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from fractions import Fraction
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kvcalc.cli.main import run as kvcalc
from kvcalc.errors import KvcalcError

from .engines import log_cases, test_llama_cpp_measured, test_mlx, test_sglang, test_tensorrt_llm, test_transformers
from .engines import test_llama_cpp_runs as tensors
from .engines import test_vllm as vllm
from .engines.asking import counted, reservation
from .engines.llama_cpp_measured import RUNS as ALLOCATED
from .engines.mlx_runs import FAMILIES, SHAPES
from .engines.transformers_published import PUBLISHED
from .engines.transformers_runs import RUNS as CACHED
from .engines.transformers_small import SMALL
from .library import test_published

__all__ = ["Fact", "facts"]


class Fact(NamedTuple):
    """One number: of which set, in which case, as it was, and as it is said; None where nothing is said, and why."""

    engine: str
    source: str
    case: str
    was: float
    said: float | None
    why: str = ""

    @property
    def error(self) -> float | None:
        """As a part of what it was."""
        return None if self.said is None else abs(self.said - self.was) / abs(self.was) if self.was else 0.0


@cache
def facts() -> tuple[Fact, ...]:
    """All of them."""
    return (*_logs(), *_planned(), *_formulas(), *_allocated(), *_tensors(), *_mlx(), *_transformers(), *_published())


def _logs() -> Iterator[Fact]:
    """Each number of a public log: one that lies between the least and the most that follow from the others is exact,
    since it was rounded for the log.
    """
    with TemporaryDirectory() as folder:
        for name, preset in log_cases.MODELS.items():
            (Path(folder) / f"{name}.yaml").write_text(preset, encoding="utf-8")
        for case in (*log_cases.CASES, *log_cases.FURTHER):
            log = Path(folder) / "engine.log"
            log.write_text("".join(f"{line}\n" for line in case.log), encoding="utf-8")
            words = [f"{folder}/{word}.yaml" if word in log_cases.MODELS else word for word in case.options.split()]
            out = StringIO()
            with redirect_stdout(out), redirect_stderr(StringIO()):
                kvcalc(["check", str(log), *words, "--json"])
            for line in json.loads(out.getvalue())["lines"]:
                said = line["printed"] if line["verdict"] == "match" else line["predicted"]
                case_of = f"{case.id}, {line['quantity']}"
                yield Fact(
                    line["engine"], "public logs of start-ups", case_of, line["printed"], said, line["why"] or ""
                )


_PLANNING = "its own planning code, run"


def _planned() -> Iterator[Fact]:
    """vLLM's planning code on specs built by hand: tokens that it would log."""
    for row in vllm.ORACLES:
        found = counted(row.preset, "vllm", row.budget, row.flags, **row.options)
        yield Fact("vllm", _PLANNING, f"{row.preset} {row.flags}".strip(), row.tokens, found.tokens)
    for each in (*vllm.ROWS, *vllm.FLAGGED):
        found = counted(each.preset, "vllm", each.gib * 2**30, each.flags, **each.options)
        yield Fact("vllm", _PLANNING, f"{each.preset} {each.flags}".strip(), each.tokens, found.tokens)


def _parameters(test: Any) -> list[Any]:
    """The rows that a test is tried on."""
    rows: list[Any] = next(mark.args[1] for mark in test.pytestmark if mark.name == "parametrize")
    return rows


def _formulas() -> Iterator[Fact]:
    """Tokens of 40 GiB by the formulas of SGLang and TensorRT-LLM, and GiB that their logs gave for tokens."""
    for preset, options, flags, tokens, _ in _parameters(test_sglang.test_tokens_in_forty_gib):
        found = counted(preset, "sglang", 40 * 2**30, flags, **options)
        yield Fact("sglang", "its formulas, by hand", f"{preset} {flags}".strip(), tokens, found.tokens)
    for preset, options, _, (tokens, logged) in _parameters(test_sglang.test_a_cell_is_what_logs_divide_by):
        cell = reservation(preset, "sglang", **options).allocation.values["bytes_per_block"]
        yield _rounded("sglang", preset, logged, (tokens + 1) * cell)
    for preset, flags, tokens, _ in _parameters(test_tensorrt_llm.test_tokens_in_forty_gib):
        found = counted(preset, "tensorrt-llm", 40 * 2**30, flags)
        yield Fact("tensorrt-llm", "its formulas, by hand", preset, tokens, found.tokens)
    for preset, options, version, tokens, logged in _parameters(test_tensorrt_llm.test_blocks_of_posted_logs):
        plan = reservation(preset, f"tensorrt-llm{version}", **options).allocation.values
        yield _rounded("tensorrt-llm", preset, logged, tokens // plan["block_size"] * plan["bytes_per_block"])


def _rounded(engine: str, case: str, logged: str, size: int) -> Fact:
    """A size that a log gives in GiB: exact where it has the digits that were logged."""
    exact = f"{size / 2**30:.2f}" == logged
    return Fact(engine, "GiB that logs gave for tokens", case, float(logged), float(logged) if exact else size / 2**30)


def _allocated() -> Iterator[Fact]:
    """What contexts of llama.cpp took; one that it refuses is to be refused."""
    source = "contexts that it allocated"
    for run in ALLOCATED:
        case = f"{run.model} {run.params}".strip()
        if test_llama_cpp_measured.drafting(run):
            continue
        try:
            found = test_llama_cpp_measured.answer(run)
        except KvcalcError as error:
            if run.bytes is not None:
                yield Fact("llama.cpp", source, case, run.bytes, None, error.message)
            continue
        if run.bytes is not None:
            why = "it allocates the encoder's layers, and no model has their count" if "shorter-decoder" in case else ""
            yield Fact("llama.cpp", source, case, run.bytes, found.reserved_total, why)


def _tensors() -> Iterator[Fact]:
    """All tensors of the recorded runs."""
    for case, settings, total, _ in tensors._ALL:
        found = tensors.reserved(tensors.file_of(case), tensors.command(settings))
        yield Fact("llama.cpp", "tensors of recorded runs", f"{case} {settings}", total, found.reserved_total)


def _mlx() -> Iterator[Fact]:
    for row in (*SHAPES, *FAMILIES):
        yield Fact("mlx", "caches that it allocated", row.name, row.total, test_mlx.of_run(row).reserved_total)


def _transformers() -> Iterator[Fact]:
    for row in CACHED:
        found = test_transformers.of_run(row)
        yield Fact("transformers", "caches of recorded runs", row.id, row.total, found.reserved_total)
    for small in SMALL:
        for version, (total, _) in small.sizes.items():
            model = test_transformers.model_of(small.facts)
            found = test_transformers.reservation(model, "max_new_tokens=3", version, context=43, batch=2)
            case = f"{small.facts['model_type']} {version}"
            yield Fact("transformers", "small models, ten versions", case, total, found.reserved_total)
    for name, prompt, decoded, batch, total, _ in PUBLISHED:
        encoder = test_transformers.encoder_of(name, 1500 if name.startswith("whisper") else 77)
        flags = f"max_new_tokens={decoded} dtype=bfloat16"
        model, context = test_transformers.load(name), prompt + decoded
        found = test_transformers.reservation(model, flags, context=context, batch=batch, **encoder)
        yield Fact("transformers", "presets, their configurations run", name, total, found.reserved_total)


def _published() -> Iterator[Fact]:
    """Sizes that papers, vendors and posts printed, in the digits that they printed."""
    for row in test_published.TABLE:
        size = Fraction(test_published.computed(row), test_published.UNITS[row.unit])
        half = Fraction(1, 2 * 10 ** len(row.published.partition(".")[2]))
        printed = float(Fraction(row.published))
        within = abs(size - Fraction(row.published)) <= half
        yield Fact("(exact size)", "papers, vendors, posts", row.id, printed, printed if within else float(size))
