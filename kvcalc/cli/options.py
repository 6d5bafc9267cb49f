"""The options of the command line, each declared once, in classes of those that verbs take together."""

from typing import Annotated, Any

import typer

from kvcalc.cli.completion import (
    FORMATS,
    complete_engines,
    complete_formats,
    complete_gpus,
    complete_keys,
    complete_kv_dtypes,
    complete_models,
    complete_weights,
)
from kvcalc.cli.parameters import Words, option

__all__ = [
    "AssumeDenseWords",
    "CacheWords",
    "CompanyWords",

    "EngineWords",
    "ExplainWords",
    "GpuWords",
    "ImageWords",
    "MemoryWords",
    "ModelArgument",
    "ModelOrCommand",
    "OutputWords",
    "RunWords",
    "SplitWords",
    "WorkloadWords",
]  # fmt: skip

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

Context = Annotated[_Text, option("--context", "-c", metavar="TOKENS", panel=_WORK,
    help="Tokens held per sequence: 4096, 128k (1k is 1,024), max. Default: 4,096 or the limit if less.")]  # fmt: skip
Batch = Annotated[_Text, option("--batch", "-b", metavar="N", panel=_WORK,
    help="Sequences held at the same time, over all replicas. Default: 1.")]  # fmt: skip
EncoderTokens = Annotated[_Text, option("--encoder-tokens", metavar="N", panel=_WORK,
    help="Length on the encoder's side, for cross-attention.")]  # fmt: skip
ImagesOf = Annotated[_Text, option("--images", metavar="N[:WxH]", panel=_WORK,
    help="Images of each sequence, whose tokens come on top: 2, or 2:1920x1080 in pixels.")]  # fmt: skip
KvDtype = Annotated[_Text, option("--kv-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of keys and values. Default: auto, what the model computes in.")]  # fmt: skip
KDtype = Annotated[_Text, option("--k-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of the keys alone.")]  # fmt: skip
VDtype = Annotated[_Text, option("--v-dtype", metavar="DTYPE", panel=_CACHE, complete=complete_kv_dtypes,
    help="Format of the values alone.")]  # fmt: skip
KvHeads = Annotated[_Text, option("--kv-heads", metavar="N|all", panel=_CACHE,
    help="Cached heads in every per-head attention layer, instead of the model's own.")]  # fmt: skip
Vram = Annotated[_Text, option("--vram", metavar="SIZE", panel=_HARDWARE,
    help="Memory of one GPU, such as 80GB or 79.2GiB: what fits into it.")]  # fmt: skip
Gpu = Annotated[_Text, option("--gpu", metavar="[Nx]NAME", panel=_HARDWARE, complete=complete_gpus,
    help="Which GPU: h100, 8xrtx4090, a machine type (p5.48xlarge), local. `kvcalc gpus` lists them.")]  # fmt: skip
GpuFile = Annotated[_Text, option("--gpu-file", metavar="FILE", panel=_HARDWARE,
    help="GPUs of your own for --gpu, in YAML: other cards, other facts, prices.")]  # fmt: skip
KvMemory = Annotated[_Text, option("--kv-memory", metavar="SIZE", panel=_HARDWARE,
    help="Memory of one GPU for the cache alone, with weights and overheads already off.")]  # fmt: skip
Utilization = Annotated[_Text, option("--utilization", metavar="F", panel=_HARDWARE,
    help="Share of the memory to use. Default: 1.0, with --gpu 0.9, with --engine its own.")]  # fmt: skip
Weights = Annotated[_Text, option("--weights", metavar="auto|none|DTYPE|SIZE", panel=_HARDWARE,
    complete=complete_weights, help="What the whole model's weights take. Default: auto, by the preset.")]  # fmt: skip
Overhead = Annotated[_Text, option("--overhead", metavar="SIZE", panel=_HARDWARE,
    help="What else takes memory on each GPU. Default: an estimate; with --vram alone 0.")]  # fmt: skip
Lora = Annotated[_Text, option("--lora", metavar="N:RANK", panel=_HARDWARE,
    help="Room for N LoRA adapters of the largest rank: 4:16.")]  # fmt: skip
Draft = Annotated[_Text, option("--draft", metavar="MODEL", panel=_HARDWARE, complete=complete_models,
    help="A model that drafts tokens on the same GPUs: its weights and its cache.")]  # fmt: skip
Beside = Annotated[list[str] | None, option("--beside", metavar="MODEL", panel=_HARDWARE, complete=complete_models,
    help="Another model on the same GPU: its weights and one sequence of it; again for more.")]  # fmt: skip
Tp = Annotated[_Text, option("--tp", metavar="N", panel=_HARDWARE, help="Tensor-parallel size.")]
Pp = Annotated[_Text, option("--pp", metavar="N", panel=_HARDWARE, help="Pipeline stages.")]
Dp = Annotated[_Text, option("--dp", metavar="N", panel=_HARDWARE, help="Replicas that share the batch.")]
Dcp = Annotated[_Text, option("--dcp", metavar="N", panel=_HARDWARE,
    help="Ranks of tp that split the context between them.")]  # fmt: skip
Ep = Annotated[_Text, option("--ep", metavar="N", panel=_HARDWARE,
    help="Ranks that share the experts, each with whole ones. Above --tp, over --dp too.")]  # fmt: skip
DpAttention = Annotated[bool, typer.Option("--dp-attention", rich_help_panel=_HARDWARE,
    help="The --dp replicas of attention share one copy of the experts.")]  # fmt: skip
Gpus = Annotated[_Text, option("--gpus", metavar="N", panel=_HARDWARE,
    help="Number of GPUs: alone it means --tp N, else tp x pp x dp must agree.")]  # fmt: skip
Engine = Annotated[_Text, option("--engine", metavar="NAME[@VERSION]", panel=_ENGINE, complete=complete_engines,
    help="What this engine reserves, beside the exact size. Its flags or a command may follow a --.")]  # fmt: skip
BlockSize = Annotated[_Text, option("--block-size", metavar="N", panel=_ENGINE,
    help="Tokens of the engine's block or page. Default: what it chooses by model and GPU.")]  # fmt: skip
MaxNumSeqs = Annotated[_Text, option("--max-num-seqs", metavar="N", panel=_ENGINE,
    help="The most sequences in one step of the engine. Default: its own, which may depend on the GPU.")]  # fmt: skip
MaxNumBatchedTokens = Annotated[_Text, option("--max-num-batched-tokens", metavar="N", panel=_ENGINE,
    help="The most tokens in one step of the engine. Default: its own.")]  # fmt: skip
EnforceEager = Annotated[bool, typer.Option("--enforce-eager", rich_help_panel=_ENGINE,
    help="The engine captures no graphs.")]  # fmt: skip
LanguageModelOnly = Annotated[bool, typer.Option("--language-model-only", rich_help_panel=_ENGINE,
    help="The engine loads a model of several kinds of input without its encoders.")]  # fmt: skip
Format = Annotated[_Text, option("--format", "-f", metavar="|".join(FORMATS), panel=_OUTPUT, complete=complete_formats,
    help="Default: table on a terminal, plain (tab-separated) elsewhere.")]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.", rich_help_panel=_OUTPUT)]
Get = Annotated[list[str] | None, option("--get", metavar="KEY", panel=_OUTPUT, complete=complete_keys,
    help="A value of the JSON by its path: model.name, options.*.gpu. Several: a line each.")]  # fmt: skip
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="The headline alone, raw: a number or names.", rich_help_panel=_OUTPUT)
]
Units = Annotated[_Text, option("--units", metavar="iec|si", panel=_OUTPUT,
    help="GiB (2^30) or GB (10^9) in text. Default: iec.")]  # fmt: skip
NoConfig = Annotated[bool, typer.Option("--no-config", rich_help_panel=_OUTPUT,
    help="Leave out the defaults of your own config.yaml.")]  # fmt: skip
Explain = Annotated[bool, typer.Option("--explain", rich_help_panel=_OUTPUT,
    help="Each term of the sum, with its rule, numbers and source.")]  # fmt: skip


class WorkloadWords(Words):
    """What is held at the same time."""

    context: Context = None
    batch: Batch = None
    encoder_tokens: EncoderTokens = None


class ImageWords(WorkloadWords):
    """The same, with images."""

    images: ImagesOf = None


class CacheWords(Words):
    """How keys and values are stored."""

    kv_dtype: KvDtype = None
    k_dtype: KDtype = None
    v_dtype: VDtype = None
    kv_heads: KvHeads = None


class EngineWords(Words):
    """The engine that is asked."""

    engine: Engine = None


class BlockWords(Words):
    """The blocks of the engine."""

    block_size: BlockSize = None


class RunWords(Words):
    """How the engine runs."""

    max_num_seqs: MaxNumSeqs = None
    max_num_batched_tokens: MaxNumBatchedTokens = None
    enforce_eager: EnforceEager = False
    language_model_only: LanguageModelOnly = False


class GpuWords(Words):
    """The card."""

    gpu: Gpu = None
    gpu_file: GpuFile = None


class MemoryWords(Words):
    """What one GPU offers, and what comes off it."""

    vram: Vram = None
    gpu: Gpu = None
    gpu_file: GpuFile = None
    kv_memory: KvMemory = None
    utilization: Utilization = None
    weights: Weights = None
    overhead: Overhead = None


class CompanyWords(MemoryWords):
    """The same, with what else lives on the GPU."""

    lora: Lora = None
    draft: Draft = None
    beside: Beside = None


class SplitWords(Words):
    """How model and batch are split over GPUs."""

    tp: Tp = None
    pp: Pp = None
    dp: Dp = None
    dcp: Dcp = None
    ep: Ep = None
    dp_attention: DpAttention = False
    gpus: Gpus = None


class OutputWords(Words):
    """How the answer is wanted."""

    format_: Format = None
    json_: Json = False
    get: Get = None
    quiet: Quiet = False
    units: Units = None
    no_config: NoConfig = False


class ExplainWords(OutputWords):
    """The same, where an answer can be explained."""

    explain: Explain = False


class AssumeDenseWords(Words):
    """How a file of an unknown type is read."""

    assume_dense: AssumeDense = False
