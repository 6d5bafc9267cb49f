"""The options of grids: those of the other verbs where they take a list, and the files that a chart is drawn into."""

from typing import Annotated, Any

import typer

from kvcalc.cli import options as o

__all__ = ["Batches", "Contexts", "Engines", "Gpus", "Html", "KvDtypes", "Svg", "Tps", "WeightsList"]

_WORK, _CACHE, _ENGINE, _HARDWARE, _OUTPUT = "Workload", "Cache", "Engine", "Hardware", "Output"
_Text = str | None


def _listed(*names: str, metavar: str, text: str, panel: str, complete: Any = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, autocompletion=complete)


def _last(complete: Any) -> Any:
    """Completion of the last word of a list."""

    def words(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in complete(last)]

    return words


Contexts = Annotated[_Text, _listed("--context", "-c", metavar="TOKENS,...", panel=_WORK,
    text="Tokens held per sequence: 4k,32k,max, 1k..128k:x2, 8k..64k:+8k. Default: as for one size.")]  # fmt: skip
Batches = Annotated[_Text, _listed("--batch", "-b", metavar="N,...", panel=_WORK,
    text="Sequences held at the same time: 1,8,64, 1..64, 1..64:x2, 8..64:+8. Default: 1.")]  # fmt: skip
KvDtypes = Annotated[_Text, _listed("--kv-dtype", metavar="DTYPE,...", panel=_CACHE,
    complete=_last(o.complete_kv_dtypes), text="Formats of keys and values, such as auto,fp8.")]  # fmt: skip
Tps = Annotated[_Text, _listed("--tp", metavar="N,...", panel=_HARDWARE, text="Tensor-parallel sizes.")]
Gpus = Annotated[_Text, _listed("--gpu", metavar="[Nx]NAME,...", panel=_HARDWARE, complete=_last(o.complete_gpus),
    text="Which GPUs, such as h100,h200, or all: their memory, and what engines choose by it.")]  # fmt: skip
WeightsList = Annotated[_Text, _listed("--weights", metavar="DTYPE|SIZE,...", panel=_HARDWARE,
    complete=_last(o.complete_weights),
    text="What the whole model's weights take. Default: auto, by the preset.")]  # fmt: skip
Engines = Annotated[_Text, _listed("--engine", metavar="NAME[@VERSION],...", panel=_ENGINE,
    complete=_last(o.complete_engines), text="What these engines reserve, beside the exact size.")]  # fmt: skip
Svg = Annotated[_Text, _listed("--svg", metavar="FILE", panel=_OUTPUT, text="Draw a chart into a file, too.")]
Html = Annotated[_Text, _listed("--html", metavar="FILE", panel=_OUTPUT,
    text="Write a page with the chart and the numbers, too.")]  # fmt: skip
