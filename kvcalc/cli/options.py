"""The options that mean the same in every verb, and how their texts become values.

All options arrive as text and are parsed by kvcalc's own parsers, so that a mistake reads the same whatever Typer is
installed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from kvcalc.core import dtypes
from kvcalc.core.fitting import Budget
from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.units import Fraction, Units, parse_integer, parse_size, parse_tokens
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError, nearest, shown

if TYPE_CHECKING:
    from kvcalc.core.card import Card

__all__ = [
    "FORMATS",
    "Output",
    "budget_of",
    "card_of",
    "context_of",
    "layout_of",
    "options_of",
    "output_of",
    "request_of",
]

FORMATS = ("table", "plain", "json", "csv", "markdown")
_MOST_GPUS = 65536


def complete_models(incomplete: str) -> list[str]:
    from kvcalc.library.loader import entries

    return [entry.name for entry in entries() if entry.name.startswith(incomplete.lower())]


def complete_kv_dtypes(incomplete: str) -> list[str]:
    return [name for name in ("auto", *dtypes.KV) if name.startswith(incomplete)]


def complete_weights(incomplete: str) -> list[str]:
    return [name for name in ("auto", "none", *dtypes.WEIGHTS) if name.startswith(incomplete)]


def complete_engines(incomplete: str) -> list[str]:
    from kvcalc.launch.registry import all_engines

    return [engine.name for engine in all_engines() if engine.name.startswith(incomplete.lower())]


def complete_gpus(incomplete: str) -> list[str]:
    """Names of cards and machine types, behind what is typed already: `8x`, or cards and a comma."""
    import re

    begun = re.sub(r".*,\s*|[0-9]+[x*]", "", incomplete, flags=re.DOTALL)
    before = incomplete[: len(incomplete) - len(begun)]
    return [before + name for name in [*complete_gpu_names(begun), "all", "local"] if name.startswith(begun)]


def complete_gpu_names(incomplete: str) -> list[str]:
    from kvcalc.cards.names import names

    return [name for name in names() if name.lower().startswith(incomplete.lower())]


def complete_formats(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


def _option(*names: str, metavar: str, help: str, panel: str, complete: Any = None) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, autocompletion=complete)


_MODEL: Any = typer.Argument(
    metavar="MODEL",
    help="A preset's name; a YAML preset, config.json, model folder or GGUF file (- for standard input); a hub id.",
    autocompletion=complete_models,
    show_default=False,
)
ModelArgument = Annotated[str, _MODEL]
ModelOrCommand = Annotated[str | None, _MODEL]  # an engine's own command behind -- may name the model instead

AssumeDense = Annotated[bool, typer.Option("--assume-dense", help="Read a config.json of an unknown type as full "
    "attention in every layer, if it is plainly shaped like Llama.")]  # fmt: skip

_WORK, _CACHE, _ENGINE, _HARDWARE, _OUTPUT = "Workload", "Cache", "Engine", "Hardware", "Output"
_Text = str | None

Context = Annotated[_Text, _option("--context", "-c", metavar="TOKENS", panel=_WORK,
    help="Tokens held per sequence: 4096, 128k (1k is 1,024), max. Default: 4,096 or the limit if less.")]  # fmt: skip
Batch = Annotated[_Text, _option("--batch", "-b", metavar="N", panel=_WORK,
    help="Sequences held at the same time, over all replicas. Default: 1.")]  # fmt: skip
EncoderTokens = Annotated[_Text, _option("--encoder-tokens", metavar="N", panel=_WORK,
    help="Length on the encoder's side, for cross-attention.")]  # fmt: skip
KvDtype = Annotated[_Text, _option("--kv-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of keys and values. Default: auto, what the model computes in.")]  # fmt: skip
KDtype = Annotated[_Text, _option("--k-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of the keys alone.")]  # fmt: skip
VDtype = Annotated[_Text, _option("--v-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of the values alone.")]  # fmt: skip
KvHeads = Annotated[_Text, _option("--kv-heads", metavar="N|all", panel=_CACHE,
    help="Cached heads in every per-head attention layer, instead of the model's own.")]  # fmt: skip
Vram = Annotated[_Text, _option("--vram", metavar="SIZE", panel=_HARDWARE,
    help="Memory of one GPU, such as 80GB or 79.2GiB: what fits into it.")]  # fmt: skip
Gpu = Annotated[_Text, _option("--gpu", metavar="[Nx]NAME", panel=_HARDWARE, complete=complete_gpus,
    help="Which GPU: h100, 8xrtx4090, a machine type (p5.48xlarge), local. `kvcalc gpus` lists them.")]  # fmt: skip
GpuFile = Annotated[_Text, _option("--gpu-file", metavar="FILE", panel=_HARDWARE,
    help="GPUs of your own for --gpu, in YAML: other cards, other facts, prices.")]  # fmt: skip
KvMemory = Annotated[_Text, _option("--kv-memory", metavar="SIZE", panel=_HARDWARE,
    help="Memory of one GPU for the cache alone, with weights and overheads already off.")]  # fmt: skip
Utilization = Annotated[_Text, _option("--utilization", metavar="F", panel=_HARDWARE,
    help="Share of the memory to use. Default: 1.0, with --gpu 0.9, with --engine its own.")]  # fmt: skip
WeightsOption = Annotated[_Text, _option("--weights", metavar="auto|none|DTYPE|SIZE", panel=_HARDWARE,
    complete=complete_weights, help="What the whole model's weights take. Default: auto, by the preset.")]  # fmt: skip
Overhead = Annotated[_Text, _option("--overhead", metavar="SIZE", panel=_HARDWARE,
    help="What else takes memory on each GPU. Default: 0.")]  # fmt: skip
Tp = Annotated[_Text, _option("--tp", metavar="N", panel=_HARDWARE, help="Tensor-parallel size.")]
Pp = Annotated[_Text, _option("--pp", metavar="N", panel=_HARDWARE, help="Pipeline stages.")]
Dp = Annotated[_Text, _option("--dp", metavar="N", panel=_HARDWARE, help="Replicas that share the batch.")]
Dcp = Annotated[_Text, _option("--dcp", metavar="N", panel=_HARDWARE,
    help="Ranks of tp that split the context between them.")]  # fmt: skip
Gpus = Annotated[_Text, _option("--gpus", metavar="N", panel=_HARDWARE,
    help="Number of GPUs: alone it means --tp N, else tp x pp x dp must agree.")]  # fmt: skip
Engine = Annotated[_Text, _option("--engine", metavar="NAME[@VERSION]", panel=_ENGINE, complete=complete_engines,
    help="What this engine reserves, beside the exact size. Its flags or a command may follow a --.")]  # fmt: skip
BlockSize = Annotated[_Text, _option("--block-size", metavar="N", panel=_ENGINE,
    help="Tokens of the engine's block or page. Default: what it chooses by model and GPU.")]  # fmt: skip
Format = Annotated[_Text, _option("--format", "-f", metavar="|".join(FORMATS), panel=_OUTPUT, complete=complete_formats,
    help="Default: table on a terminal, plain (tab-separated) elsewhere.")]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.", rich_help_panel=_OUTPUT)]
Get = Annotated[_Text, _option("--get", metavar="KEY", panel=_OUTPUT,
    help="One value of the JSON, by its dotted path, such as model.name.")]  # fmt: skip
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="The headline alone, raw: a number or names.", rich_help_panel=_OUTPUT)
]
UnitsOption = Annotated[_Text, _option("--units", metavar="iec|si", panel=_OUTPUT,
    help="GiB (2^30) or GB (10^9) in text. Default: iec.")]  # fmt: skip
Explain = Annotated[bool, typer.Option("--explain", rich_help_panel=_OUTPUT,
    help="Each term of the sum, with its rule, numbers and source.")]  # fmt: skip

Given = Mapping[str, Any]  # a verb's parameters by name, as Typer has them: texts, None where not given, and flags


def request_of(model: Model, given: Given, stated: Mapping[str, object] | None = None) -> Request:
    """The question that the options ask about a model; `stated` is what an engine's own flags say instead."""
    asked = _asked(given)
    gpus = asked["tp"] * asked["pp"] * asked["dp"]
    if given["tp"] is None and {"pp", "dp"} & (stated or {}).keys():  # an engine that is told one has 1 of the others
        asked["tp"] = 1
    for name, value in (stated or {}).items():
        for option in (name, "kv_dtype") if name.endswith("_dtype") else (name,):
            if given[option] is not None:
                raise KvcalcError(
                    f"--{option.replace('_', '-')}: the engine's own flags behind -- say it too",
                    "leave one of them out",
                )
        asked[name] = value
    if (given["gpus"] or card_of(given)[0]) and gpus != asked["tp"] * asked["pp"] * asked["dp"]:
        raise _miscounted(given, gpus, asked)
    return ask(model, **asked)


def options_of(given: Given) -> dict[str, Any]:
    """What the options say, under the names of `request.ask`, and nothing that was left to a default."""
    layout = ("tp", "pp", "dp", "dcp") if given["gpus"] or card_of(given)[0] else ()
    return {name: value for name, value in _asked(given).items() if given[name] is not None or name in layout}


def _asked(given: Given) -> dict[str, Any]:
    """All that `request.ask` takes."""
    return {
        "context": context_of(given["context"]),
        "batch": _whole(given, "batch"),
        "kv_dtype": "auto" if given["kv_dtype"] is None else given["kv_dtype"],
        "k_dtype": given["k_dtype"],
        "v_dtype": given["v_dtype"],
        "kv_heads": _kv_heads(given["kv_heads"]),
        "encoder_tokens": None
        if given["encoder_tokens"] is None
        else parse_tokens(given["encoder_tokens"], "--encoder-tokens"),
        **layout_of(given),
    }


def context_of(text: str | None) -> int | Literal["max"] | None:
    if text is None:
        return None
    return "max" if text.strip().lower() == "max" else parse_tokens(text, "--context")


def _kv_heads(text: str | None) -> int | Literal["all"] | None:
    if text is None:
        return None
    return "all" if text.strip().lower() == "all" else parse_integer(text, "--kv-heads")


def _whole(given: Given, name: str, most: int | None = None) -> int:
    text = given[name]
    if text is None:
        return 1
    return parse_integer(text, f"--{name}", most) if most else parse_integer(text, f"--{name}")


def layout_of(given: Given) -> dict[str, int]:
    """How the options split the model and the batch."""
    layout = {name: _whole(given, name, _MOST_GPUS) for name in ("tp", "pp", "dp", "dcp")}
    counted = card_of(given)[0]
    if given["gpus"] is None and counted is None:
        return layout
    gpus = counted if given["gpus"] is None else parse_integer(given["gpus"], "--gpus", _MOST_GPUS)
    assert gpus is not None
    if counted not in (None, gpus):
        raise KvcalcError(f"--gpus: {gpus} contradicts --gpu {given['gpu']}", "leave one of them out")
    if all(given[name] is None for name in ("tp", "pp", "dp")):
        return layout | {"tp": gpus}
    if layout["tp"] * layout["pp"] * layout["dp"] != gpus:
        raise _miscounted(given, gpus, layout)
    return layout


def _miscounted(given: Given, gpus: int, layout: Mapping[str, int]) -> KvcalcError:
    option = "--gpu" if given["gpus"] is None else "--gpus"
    product = f"tp {layout['tp']} x pp {layout['pp']} x dp {layout['dp']}"
    return KvcalcError(f"{option}: {gpus} contradicts {product}", "leave one of them out, or let them agree")


def card_of(given: Given) -> "tuple[int | None, Card | None]":
    """How many GPUs --gpu names, and which; nothing where it is not there."""
    if given.get("gpu") is None:
        if given.get("gpu_file") is not None:
            raise KvcalcError("--gpu-file: has no effect without --gpu", "add --gpu NAME, a card of that file")
        return None, None
    from kvcalc.cards.names import card_called

    return card_called(given["gpu"], file=given.get("gpu_file"))


def budget_of(given: Given) -> Budget | None:
    """What the options say about memory; None where they say nothing."""
    if given["kv_memory"] is not None:
        for name in ("vram", "utilization", "weights", "overhead"):  # --gpu says whose kernels run
            if given[name] is not None:
                raise KvcalcError(
                    f"--kv-memory: contradicts --{name}, since it is the memory of the cache alone",
                    "give either --kv-memory, or --vram or --gpu and what comes off it",
                )
        return Budget(kv_memory=parse_size(given["kv_memory"], "--kv-memory"))
    card = card_of(given)[1]
    if given["vram"] is not None and card is not None:
        raise KvcalcError("--gpu: contradicts --vram, since it says how much memory there is", "leave one of them out")
    if given["vram"] is None and card is None:
        for name in ("utilization", "weights", "overhead"):
            if given[name] is not None:
                raise KvcalcError(f"--{name}: has no effect without a budget", "add --vram SIZE or --gpu NAME")
        return None
    return Budget(
        vram=parse_size(given["vram"], "--vram") if card is None else card.memory,
        utilization=None if given["utilization"] is None else Fraction.parse(given["utilization"], "--utilization"),
        weights="auto" if given["weights"] is None else parse_weights(given["weights"], "--weights"),
        overhead=0 if given["overhead"] is None else parse_size(given["overhead"], "--overhead", zero=True),
        card=card,
    )


class Output(NamedTuple):
    """How the answer is wanted: `form` is one of FORMATS, `get` or `quiet`."""

    form: str
    key: str
    units: Units
    explain: bool


def output_of(given: Given, *, terminal: bool, formats: tuple[str, ...] = FORMATS) -> Output:
    """How to answer. Options that ask for two outputs at once contradict each other."""
    wanted = {"--quiet": given["quiet"], "--get": given["get"] is not None, "--json": given["json_"]}
    form = (given["format_"] or "").lower()
    wanted["--format"] = given["format_"] is not None and not (given["json_"] and form == "json")
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
    units: str = "iec" if given["units"] is None else given["units"]
    if units not in ("iec", "si"):
        raise KvcalcError(f"--units: expected iec or si, got {shown(units)}")
    if given["explain"] and form in ("quiet", "get", "csv"):
        raise KvcalcError(f"--explain: contradicts {asked[0] if asked else '--format csv'}, which has no room for it")
    return Output(form, given["get"] or "", "si" if units == "si" else "iec", given["explain"])


def _meant(word: str, among: tuple[str, ...]) -> str | None:
    close = nearest(word, among, 1)
    return f"did you mean {close[0]}?" if close else None
