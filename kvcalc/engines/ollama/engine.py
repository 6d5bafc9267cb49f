"""Ollama: from 0.30 on a llama-server with Ollama's own settings, before that engines of its own."""

from collections.abc import Iterator

from kvcalc.core.dtypes import KV
from kvcalc.core.overheads import Overhead
from kvcalc.engines.allocation import Allocation, Device
from kvcalc.engines.base import Engine
from kvcalc.engines.llama_cpp import engine as llama_cpp
from kvcalc.engines.llama_cpp.archs import arch_of
from kvcalc.engines.ollama.flags import FLAGS, model_of, options_of, stored
from kvcalc.engines.ollama.model_names import preset_of
from kvcalc.engines.ollama.runner import plan_of_its_own
from kvcalc.engines.ollama.versions import VERSIONS, Version
from kvcalc.engines.placement import without_tp
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE", "server_question"]

_F16 = KV["fp16"]
_DEFAULT_CONTEXT = 4096  # server/routes.go: below 23 GiB of VRAM


def allocate(question: Question) -> Allocation:
    """What Ollama's server starts for one model. Raises KvcalcError for what it does not do."""
    without_tp(question, "ollama")
    version, settings, request = question.version, question.settings, question.request
    assert isinstance(version, Version)
    alone = arch_of(request.facts) in version.alone
    if alone and question.sequences > 1:
        raise KvcalcError(
            f"--batch: Ollama runs {arch_of(request.facts)} with one sequence at a time, got {question.sequences:,}",
            "use --dp for more servers",
        )
    k, v = (_F16 if auto else own for own, auto in zip(request.widths[:2], request.auto, strict=True))
    if k != v:
        raise KvcalcError("--k-dtype: Ollama has one type for keys and values, OLLAMA_KV_CACHE_TYPE", "use --kv-dtype")
    if k.block > 1 and settings.get("flash") is False:
        raise KvcalcError(
            f"OLLAMA_KV_CACHE_TYPE: {k.name} needs flash attention, which OLLAMA_FLASH_ATTENTION switches off",
            "leave one of them out",
        )
    if version.build is None:
        num_batch = settings.get("num_batch")
        found = plan_of_its_own(question, num_batch if isinstance(num_batch, int) else None, settings.get("flash"))
    else:
        found = llama_cpp.allocate(server_question(question))
        own = {"num_ctx": request.context, "num_parallel": question.sequences, "num_batch": found.values["n_batch"]}
        found = found._replace(values={**found.values, **own})
    facts = (*found.facts, *_facts(question))
    return found._replace(facts=facts, most_sequences=1 if alone else found.most_sequences)


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:
    """The buffers of the llama-server that it starts; those of its own runner, until 0.30, were as large."""
    return llama_cpp.ENGINE.memory(_as_server(question), vram)


def placed(question: Question, weights: int, devices: int) -> tuple[Device, ...]:
    """What lies where, by the same rules."""
    assert llama_cpp.ENGINE.devices is not None
    return llama_cpp.ENGINE.devices(_as_server(question), weights, devices)


def _as_server(question: Question) -> Question:
    """--fit is Ollama's own: it leaves no margin, and moves layers itself (server/sched.go)."""
    version = question.version
    assert isinstance(version, Version)
    if version.build is None:
        question = question._replace(version=version._replace(build=VERSIONS[1].build))
    asked = server_question(question)
    return asked._replace(settings={**asked.settings, "fit": False})


def server_question(question: Question) -> Question:
    """The question that llama-server is asked, with the settings that llm/llama_server.go passes on.

    It gets -c and -np for sequences that share no cells.
    """
    version, num_batch = question.version, question.settings.get("num_batch")
    assert isinstance(version, Version)
    assert version.build is not None
    given = num_batch if isinstance(num_batch, int) else None
    return question._replace(version=version.build, settings=_settings(question, given))


def _settings(question: Question, num_batch: int | None) -> dict[str, object]:
    set_ = question.settings.get("flash")
    flash = "auto" if set_ is None else "on" if set_ else "off"
    batch = num_batch or _batch(question.request.context * question.sequences, flash)
    settings: dict[str, object] = {"n_batch": batch, "n_ubatch": batch, "flash_attn": flash}
    drafted = question.settings.get("drafted")
    if drafted and question.request.model.draft:
        settings |= {"n_rs_seq": drafted, "draft_types": (_F16, _F16)}
    return settings


def _batch(tokens: int, flash: str) -> int:
    """server/sched.go, automaticGenerationBatch: by the context of all sequences; without flash attention, on CUDA."""
    if flash == "off" or tokens <= 4096:
        return 512
    return 1024 if tokens <= 32768 else 2048


def _facts(question: Question) -> Iterator[str]:
    """What rests on the machine, which is not known here."""
    version, settings, request = question.version, question.settings, question.request
    assert isinstance(version, Version)
    if not settings.get("told") and request.context == min(
        _DEFAULT_CONTEXT, request.model.max_context or _DEFAULT_CONTEXT
    ):
        yield "num_ctx as Ollama has it below 23 GiB of VRAM; from there it is 32,768, from 47 GiB on 262,144"
    if version.build is None:
        return
    if "num_batch" not in settings:
        yield "num_batch as where memory is not short" + (
            "; without flash attention, as on CUDA with more than 8 GiB" if settings.get("flash") is False else ""
        )
    if request.model.draft and not settings.get("drafted"):
        yield "without drafts; where the file has draft layers, Ollama drafts 4 tokens: draft_num_predict=4 counts them"


ENGINE = Engine(
    "ollama",
    VERSIONS,
    allocate,
    llama_cpp.ENGINE.formats,
    FLAGS,
    options_of,
    model_of,
    llama_cpp.ENGINE.most_sequences,
    named=preset_of,
    stored=stored,
    common_share=False,
    memory=memory,
    devices=placed,
    grows=True,
    run_flags={"max_num_batched_tokens": "num_batch"},
    lacks={"max_num_seqs": "--batch N counts its slots (OLLAMA_NUM_PARALLEL), each of which has its cells"},
)
