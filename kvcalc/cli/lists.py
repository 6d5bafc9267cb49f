"""The options of grids: those of the other verbs where they take a list, and the files that a chart is drawn into."""

from typing import Annotated

from kvcalc.cli.completion import complete_engines, complete_gpus, complete_kv_dtypes, complete_weights, with_list
from kvcalc.cli.options import (
    AssumeDenseWords,
    CacheWords,
    CompanyWords,
    EngineWords,
    OutputWords,
    RunWords,
    SplitWords,
    WorkloadWords,
)
from kvcalc.cli.parameters import Words, option

__all__ = ["ChartWords", "GridWords"]

_WORK, _CACHE, _ENGINE, _HARDWARE, _OUTPUT = "Workload", "Cache", "Engine", "Hardware", "Output"
_Text = str | None

Contexts = Annotated[_Text, option("--context", "-c", metavar="TOKENS,...", panel=_WORK,
    help="Tokens held per sequence: 4k,32k,max, 1k..128k:x2, 8k..64k:+8k. Default: as for one size.")]  # fmt: skip
Batches = Annotated[_Text, option("--batch", "-b", metavar="N,...", panel=_WORK,
    help="Sequences held at the same time: 1,8,64, 1..64, 1..64:x2, 8..64:+8. Default: 1.")]  # fmt: skip
KvDtypes = Annotated[_Text, option("--kv-dtype", metavar="DTYPE,...", panel=_CACHE,
    complete=with_list(complete_kv_dtypes), help="Formats of keys and values, such as auto,fp8.")]  # fmt: skip
Tps = Annotated[_Text, option("--tp", metavar="N,...", panel=_HARDWARE, help="Tensor-parallel sizes.")]
Gpus = Annotated[_Text, option("--gpu", metavar="[Nx]NAME,...", panel=_HARDWARE, complete=with_list(complete_gpus),
    help="Which GPUs, such as h100,h200, or all: their memory, and what engines choose by it.")]  # fmt: skip
WeightsList = Annotated[_Text, option("--weights", metavar="DTYPE|SIZE,...", panel=_HARDWARE,
    complete=with_list(complete_weights),
    help="What the whole model's weights take. Default: auto, by the preset.")]  # fmt: skip
Engines = Annotated[_Text, option("--engine", metavar="NAME[@VERSION],...", panel=_ENGINE,
    complete=with_list(complete_engines), help="What these engines reserve, beside the exact size.")]  # fmt: skip
Svg = Annotated[_Text, option("--svg", metavar="FILE", panel=_OUTPUT, help="Draw a chart into a file, too.")]
Html = Annotated[_Text, option("--html", metavar="FILE", panel=_OUTPUT,
    help="Write a page with the chart and the numbers, too.")]  # fmt: skip


class ChartWords(Words):
    """Files that a chart is drawn into."""

    svg: Svg = None
    html: Html = None


class GridWords(
    WorkloadWords,
    CacheWords,
    EngineWords,
    RunWords,
    CompanyWords,
    SplitWords,
    ChartWords,
    OutputWords,
    AssumeDenseWords,
):
    """What `sweep` and `compare` take: lists where the other verbs take one value."""

    context: Contexts = None
    batch: Batches = None
    kv_dtype: KvDtypes = None
    engine: Engines = None
    gpu: Gpus = None
    weights: WeightsList = None
    tp: Tps = None
