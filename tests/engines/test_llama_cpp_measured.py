"""llama.cpp: contexts and command lines as llama.cpp itself took them, in models of all the architectures it knows."""

import re

import pytest

from kvcalc.core.dtypes import KV
from kvcalc.core.model import Model
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.llama_cpp.engine import ENGINE
from kvcalc.errors import KvcalcError

from ..sources.gguf_models import metadata, model_of, preset_from_gguf
from .llama_cpp_asked import question_of, reserved
from .llama_cpp_commands import COMMANDS, Command
from .llama_cpp_commands import MODELS as SMALL
from .llama_cpp_measured import MODELS, RUNS, Run, brief

_FLAGS = {"n_ctx": "-c", "n_seq_max": "-np", "n_batch": "-b", "n_ubatch": "-ub", "flash_attn": "-fa", "type_k": "-ctk",
          "type_v": "-ctv", "kv_unified": "-kvu", "swa_full": "--swa-full"}  # fmt: skip

# Where YaRN scales the limit that stands for -c, a file that states a scaling of its own makes a difference.
_OPEN = [each for each in COMMANDS if "yarn" in each.command and not re.search(r"-c [1-9]|-fit off", each.command)]

_ENCODER = pytest.mark.xfail(
    strict=True, reason="llama.cpp allocates the encoder's layers, and no model has their count"
)


def model(name: str) -> Model:
    """The model of a GGUF file."""
    arch, keys = {**MODELS, **SMALL}[name]
    return model_of(preset_from_gguf(metadata(arch, keys), file=f"{name}.gguf", weights_bytes=None))


def answer(run: Run, **more: object) -> Reservation:
    """What kvcalc says of a run: fields of llama_context_params as flags, and n_rs_seq, which has none of its own."""
    fields = dict(word.partition("=")[::2] for word in run.params.split())
    flags = " ".join(f"{flag} {fields[name]}" for name, flag in _FLAGS.items() if name in fields)
    question = question_of(model(run.model), f"llama-cli -fit off {flags}")  # --fit is the tools', not the library's
    settings = {"n_rs_seq": int(fields["n_rs_seq"])} if "n_rs_seq" in fields else {}
    return reserve(ENGINE, question._replace(settings={**question.settings, **settings, **more}))


def said(found: Reservation) -> list[str]:
    """The log that kvcalc expects, in short."""
    return [words for line in found.allocation.log if (words := brief(line)) is not None]


def name_of(each: Run | Command) -> str:
    return f"{each.model} {each[1]}"


def drafting(run: Run) -> bool:
    """Whether a run is of a context for draft layers alone."""
    return "ctx_type=mtp" in run.params


def named(run: Run):
    return pytest.param(run, id=name_of(run), marks=[_ENCODER] * ("shorter-decoder" in run.model))


@pytest.mark.parametrize("run", [named(run) for run in RUNS if run.bytes and not drafting(run)])
def test_a_context_takes_what_llama_cpp_allocated(run: Run) -> None:
    """The bytes are llama.cpp's, and so is what its log says of each cache: cells, layers, streams, types and sizes."""
    found = answer(run)
    assert found.reserved_total == run.bytes
    assert found.exact_total + sum(difference.bytes for difference in found.differences) == run.bytes
    assert said(found) == run.said
    assert "aborts" not in "".join(found.allocation.warnings)


@pytest.mark.parametrize("run", [run for run in RUNS if drafting(run)], ids=name_of)
def test_draft_layers_get_a_context_of_their_own(run: Run) -> None:
    """Drafting adds the cache that llama.cpp allocates in a context for the draft layers."""
    types = dict(word.partition("=")[::2] for word in run.params.split() if word.startswith("type"))
    types = {name: KV[{"f16": "fp16"}.get(kind, kind)] for name, kind in types.items()}
    drafts = (types.get("type_k", KV["fp16"]), types.get("type_v", KV["fp16"]))
    alone, together = answer(run), answer(run, draft_types=drafts)
    assert together.reserved_total - alone.reserved_total == run.bytes
    assert said(together) == [*said(alone), *run.said]


@pytest.mark.parametrize("run", [run for run in RUNS if run.bytes is None], ids=name_of)
def test_what_llama_cpp_does_not_start_is_refused(run: Run) -> None:
    """Settings that no context comes of get a reason and no number; where llama.cpp aborts, a warning says so."""
    try:
        found = answer(run)
    except KvcalcError:
        return
    assert str(run.said).startswith("aborts")
    assert "aborts" in "".join(found.allocation.warnings)


@pytest.mark.parametrize("asked", COMMANDS, ids=name_of)
def test_a_command_line_is_understood_as_its_program_does(asked: Command) -> None:
    """Flags, variables and defaults of llama-server and llama-cli lead to the caches that they logged, or to a refusal."""
    if isinstance(asked.said, str) or asked in _OPEN:
        with pytest.raises(KvcalcError):
            reserved(model(asked.model), asked.command)
    else:
        assert said(reserved(model(asked.model), asked.command)) == asked.said


def test_many_architectures() -> None:
    """The runs are of more than sixty architectures, each with its own way to lay out caches."""
    assert len({MODELS[run.model][0] for run in RUNS}) > 60
    assert {run.model for run in RUNS} == set(MODELS)
