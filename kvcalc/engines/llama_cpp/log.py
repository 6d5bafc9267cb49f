"""How the start-up of llama.cpp reads, and of what is built on it, from 2023 on.

Sources: the LLAMA_LOG_INFO calls in src/llama-kv-cache*.cpp, llama-memory-recurrent.cpp, llama-context.cpp,
llama-model.cpp and llama-model-loader.cpp of llama.cpp 0c1e57098 and of older copies; logs that people posted.
"""

import re
from collections.abc import Iterator, Sequence

from kvcalc.engines.llama_cpp.check import expect
from kvcalc.engines.llama_cpp.failed import FAILURES, failure
from kvcalc.engines.llama_cpp.variations import rules_of, variations, ways
from kvcalc.engines.log_form import MIB, LogFacts, LogForm, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.log_terms import Parts

__all__ = ["FORM", "LINES", "TERMS", "flash_of", "metadata_of"]

_CONTEXT = ("llama_context", "llama_new_context_with_model", "llama_init_from_model")
_SETTINGS = ("n_seq_max", "n_ctx", "n_ctx_seq", "n_batch", "n_ubatch", "flash_attn", "kv_unified")
_ASKED = (  # January to April 2025
    r"_init: kv_size = (?P<kv_cells>\d+), offload = \d, type_k = '(?P<k_type>\w+)', type_v = '(?P<v_type>\w+)'"
)
_SLOTS = (
    r"n_slots = (?P<n_slots>\d+)(?:, n_ctx_slot = (?P<slot_cells>\d+)(?:, kv_unified = '(?P<slots_unified>\w+)')?)?"
)


def _mib(name: str, unit: str = "MiB") -> str:
    """A size. What was printed as MB in 2023 was counted in MiB."""
    return rf" *(?P<{name}>[\d.]+) (?:{unit})"


def _typed(part: str, what: str) -> str:
    """`K (f16):  224.00 MiB`."""
    return rf"{what} \((?P<{part}_type>\w+)\):{_mib(f'{part}_mib')}"


_SIZE = rf"(?<!recurrent: )\bsize +={_mib('kv_mib')}"
_OF_CACHE = (
    _SIZE + r" \( *(?P<cells>\d+) cells, +(?P<layers>\d+) layers(?:, +(?P<seqs>\d+)(?:/ *(?P<streams>\d+))? seqs)?\)"
    rf"(?:, {_typed('k', 'K')}, {_typed('v', 'V')})?"
)
_OF_ITSELF = (  # until May 2025; c^KV is ik_llama.cpp's
    rf"[Kk][Vv] self size +={_mib('kv_mib', 'MB|MiB')}"
    rf"(?:, {_typed('k', '(?:K|(?P<fork>c.KV))')})?(?:, {_typed('v', 'V')})?"
)
_OF_STATES = (
    rf"llama_memory_recurrent: +size +={_mib('rs_mib')} \( *(?P<rs_cells>\d+) cells?, +(?P<rs_layers>\d+) layers"
    r"(?:, +(?P<rs_seqs>\d+) seqs(?: +(?P<rs_seq>\d+) rs_seq)?)?\)?"
    rf"(?:,? *R \(f32\):{_mib('r_f32_mib')}, S \(f32\):{_mib('s_f32_mib')})?(?:, P \(f32\):{_mib('p_f32_mib')})?"
)
_FILE = r"loaded meta data with \d+ key-value pairs and \d+ tensors from (?P<file>\S.{0,299}?)(?: \(version|$)"
_KEY = r"- kv +\d+: +(?P<key>[\w.-]{1,80}) (?P<type>[\w,\[\]]{1,24}) += (?P<value>.{0,400})"

LINES = (
    line("starting llama", r"msg=.?starting (?P<ollama>llama.server)", "start"),
    line("starting runner", r"msg=.?starting (?P<ollama>runner)", "start"),
    line("starting runner", r"msg=.?starting (?P<ollama>runner)", "lasting"),  # and starts that are not told of
    line("build", r"\bbuild(?:_info)?(?:: | = |: b)(?P<build>\d{2,6})(?: \(|-[0-9a-f]{6})"),
    line("loaded meta data with", _FILE, "start"),
    line("llama_model_loader: - kv", _KEY),
    line("print_info: ", r"print_info: n_head_kv +=\s+(?P<n_head_kv>\[[\d, ]{1,4000}\])"),
    line("print_info: ", r"print_info: n_head +=\s+(?P<n_head>\[[\d, ]{1,4000}\])"),
    line("print_info: ", r"\bgeneral\.name +=\s+(?P<name>\S.{0,119})"),
    line("llama_context", r"(?P<context>constructing) llama_context"),
    *(line(mark, rf"{mark}: +{name} +=\s+(?P<{name}>\w+)") for mark in _CONTEXT for name in _SETTINGS),
    line("kv_size = ", _ASKED),
    line("n_slots", _SLOTS),
    line("full-size SWA cache", r"using (?P<swa_full>full-size) SWA cache"),
    line("size =", r"creating +(?P<cache>[\w -]{2,40}?) KV cache, size =\s+(?P<cells>\d+) cells", "count"),
    line("size =", rf"(?P<device>\S{{1,40}}) KV buffer size ={_mib('buffer_mib')}", "count"),
    line("size =", rf"(?P<device>\S{{1,40}}) RS buffer size ={_mib('rs_buffer_mib')}", "count"),
    line("self size", _OF_ITSELF, "count"),
    line("size =", _OF_CACHE, "count"),
    line("size =", _OF_STATES, "count"),
    line(" model buffer size", rf"(?P<device>\S{{1,40}}) model buffer size ={_mib('model_mib')}", "memory"),
    line(
        " compute buffer size",
        rf"(?P<device>(?!CPU|\S{{1,30}}_Host)\S{{1,40}}) compute buffer size (?:=|is){_mib('compute_mib')}",
        "memory",
    ),
    line("compute capability", r"Device 0: (?P<card>[^,]{3,60}), compute capability", "memory"),
    *FAILURES,
)


def _said(run: StartLog) -> LogFacts:
    """What the log says of the model, down to its metadata, and of the context."""
    build = run.last("build")
    names = [name for name in (run.last("file"), run.last("name")) if name]
    version = f"b{build}" if build else None
    stated = {"kv_dtype": run.last("k_type") is not None, "batch": _sequences(run) is not None}
    return LogFacts(
        tuple(names),
        version,
        tuple(_words(run)),
        metadata=metadata_of(run),
        rules=rules_of(run),
        open=frozenset(name for name, known in stated.items() if not known),
    )


def _sequences(run: StartLog) -> int | None:
    """How many sequences there are, in whatever line says so."""
    stated = (plain(run.last(name)) for name in ("n_seq_max", "seqs", "rs_seqs", "rs_cells", "n_slots"))
    return next(filter(None, stated), None)


def _of_slots(run: StartLog, unified: str | None) -> str | None:
    """The context of all slots together: they share it, or each has its own."""
    slots, cells = plain(run.last("n_slots")), plain(run.last("slot_cells"))
    if not slots or not cells:
        return None
    return str(cells if unified == "true" else cells * slots)


_FLASH = {"1": "on", "0": "off", "enabled": "on", "disabled": "off", "auto": "auto"}


def _words(run: StartLog) -> Iterator[str]:
    """The command line that such a context comes from."""
    sequences = _sequences(run)
    unified = run.last("kv_unified") or run.last("slots_unified")
    streams, cells = plain(run.last("streams")) or 1, plain(run.first("kv_cells") or run.first("cells"))
    n_ctx = run.last("n_ctx") or (str(cells * streams) if cells else _of_slots(run, unified))
    if n_ctx is not None:
        yield from ("-c", n_ctx)
    if sequences is not None:
        yield from ("-np", str(sequences))
        if unified == "true" or (unified is None and sequences > 1 and streams == 1):
            yield "-kvu"
    k_type = run.first("k_type")
    types = {"k_type": k_type, "v_type": k_type if run.first("fork") else run.first("v_type")}
    for name, flag in (("n_batch", "-b"), ("n_ubatch", "-ub"), ("k_type", "-ctk"), ("v_type", "-ctv")):
        value = types.get(name) or run.first(name)
        if value is not None:
            yield from (flag, value)
    flash = flash_of(run, types["v_type"])
    if flash is not None:
        yield from ("-fa", flash)
    if run.last("swa_full") is not None:
        yield "--swa-full"
    drafted = plain(run.last("rs_seq"))
    if drafted:
        yield from ("--spec-type", "draft-mtp", "--spec-draft-n-max", str(drafted))


def flash_of(run: StartLog, v_type: str | None) -> str | None:
    """Whether flash attention is on, off, or on if it can be. Values in blocks cannot be without it."""
    if v_type not in (None, "f32", "f16", "bf16"):
        return "on"
    return _FLASH.get(run.last("flash_attn") or "")


def metadata_of(run: StartLog) -> dict[str, object] | None:
    """The metadata of the model's file, where the log lists all of it that matters; long arrays are cut there."""
    found: dict[str, object] = {}
    for each in run.found:
        key, kind, text = (each.says.get(name) for name in ("key", "type", "value"))
        if key is None or kind is None or text is None or key.startswith("tokenizer."):
            continue
        value = _value(kind, text.strip())
        if value is not None:
            found[key] = value
        else:
            found.setdefault(key, _CUT)
    arch = found.get("general.architecture")
    for name, key in (("n_head", "head_count"), ("n_head_kv", "head_count_kv")):
        listed = run.last(name)
        if listed is not None and f"{arch}.attention.{key}" in found:
            found[f"{arch}.attention.{key}"] = [int(number) for number in re.findall(r"\d+", listed)]
    cut = any(value is _CUT for key, value in found.items() if key.startswith(f"{arch}."))
    return None if arch is None or cut or f"{arch}.block_count" not in found else found


_CUT = object()


def _value(kind: str, text: str) -> object:
    """A value as the loader prints it; None for an array that is cut, or what is no value."""
    if kind.startswith("arr["):
        if text.endswith("...") or not re.fullmatch(r"\[[\w ,.+-]*\]", text):
            return None
        parts = [_value(kind[4:].split(",", maxsplit=1)[0], part.strip()) for part in text[1:-1].split(",")]
        return None if None in parts else parts
    if kind == "bool":
        return {"true": True, "false": False}.get(text)
    if re.fullmatch(r"[ui]\d{1,2}", kind):
        return int(text) if re.fullmatch(r"-?\d{1,20}", text, re.ASCII) else None
    if re.fullmatch(r"f\d\d", kind):
        return float(text) if re.fullmatch(r"-?\d{1,20}\.\d{1,20}", text, re.ASCII) else None
    return text if kind == "str" else None


def _claims(found: Sequence[MatchedLine]) -> bool:
    return not any("ollama" in each.says for each in found)


TERMS = {
    "model_mib": Parts("weights", ("all weights",), unit="MiB", scale=MIB, summed=True),
    "compute_mib": Parts("compute", ("compute buffer",), unit="MiB", scale=MIB),
}

FORM = LogForm(LINES, _said, expect, ways, variations, failure, _claims, pooled=False, sorted=False, terms=TERMS)
