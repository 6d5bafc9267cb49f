"""What a question may say, typed: None is what nobody said, so that a default or an engine's own flag may decide."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.sizing import Size, measure
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError

if TYPE_CHECKING:  # a short question asks about no memory, and imports nothing that it does not need
    from kvcalc.core.adapters import Adapters
    from kvcalc.core.card import Card
    from kvcalc.core.images import Images
    from kvcalc.core.memory import Budget
    from kvcalc.core.weights import Weights

__all__ = [
    "DEFAULT_UTILIZATION", "OPTION_NAMES", "CacheFormat", "EngineChoice", "Memory", "NamedGpu", "RunOptions", "Split",
    "Workload", "budget_for", "budget_of_card", "exact_size", "layout_of", "request_for", "said",
]  # fmt: skip

# Of a named GPU, where no engine says: vLLM's default up to 0.15, and what planners usually count with.
DEFAULT_UTILIZATION = Fraction(9, 10)


class Workload(NamedTuple):
    """What is held at the same time.

    Attributes:
        context: Tokens of each sequence, or `max` for the model's limit. Default: 4,096, or the limit if that is less.
        batch: Sequences over all replicas. Default: 1, or what the engine's own flags say.
        encoder_tokens: Tokens on the encoder's side, for cross-attention. Default: the model's.
        images: Images of each sequence, whose tokens come on top of `context`.
    """

    context: int | Literal["max"] | None = None
    batch: int | None = None
    encoder_tokens: int | None = None
    images: "Images | None" = None

    def of(self, model: Model) -> "Workload":
        """The same with the tokens of its images. Raises KvcalcError where a model takes none, or by no known rule."""
        if self.images is None:
            return self
        from kvcalc.core.images import image_tokens

        tokens = self.images.number * image_tokens(model, *self.images.pixels)
        if self.context == "max":  # they are among as many as the model takes
            return self._replace(images=None)
        context = ask(model, context=self.context, encoder_tokens=self.encoder_tokens).context
        return self._replace(context=context + tokens, images=None)


class CacheFormat(NamedTuple):
    """How keys and values are stored.

    Attributes:
        kv_dtype: A format of both by its name; `auto` is what the model computes in. Default: auto.
        k_dtype: A format of the keys alone.
        v_dtype: A format of the values alone.
        kv_heads: Cached heads in every per-head attention layer, or `all`. Default: the model's own.
    """

    kv_dtype: str | None = None
    k_dtype: str | None = None
    v_dtype: str | None = None
    kv_heads: int | Literal["all"] | None = None


class Split(NamedTuple):
    """How model and batch are split over GPUs: numbers of GPUs each.

    Attributes:
        tp: Tensor-parallel size.
        pp: Pipeline stages.
        dp: Replicas that share the batch.
        dcp: Ranks of tp that split the context between them.
        gpus: All together; alone it means tp.
        ep: Ranks of expert parallelism, each of which has whole experts.
        dp_attention: Whether the replicas share one copy of the experts.
    """

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    dcp: int | None = None
    gpus: int | None = None
    ep: int | None = None
    dp_attention: bool | None = None


class NamedGpu(NamedTuple):
    """A card that somebody named: `text` in his words, and how many where he said it."""

    text: str
    number: int | None
    card: "Card"


class Memory(NamedTuple):
    """What one GPU offers, and what comes off it.

    Attributes:
        vram: Bytes of one GPU.
        gpu: The card whose memory it is.
        kv_memory: Bytes of one GPU for the cache alone.
        utilization: The fraction of the memory that is used. Default: the engine's own, else 0.9 with a card, else 1.
        weights: What the whole model's weights take. Default: auto, by the model's facts.
        overhead: Bytes on each GPU beside weights and cache. Default: an estimate; with `vram` alone 0.
        lora: Adapters that a GPU has room for.
        draft: A model that drafts tokens: its name or path.
        beside: Other models on the same GPU: their names or paths.
    """

    vram: int | None = None
    gpu: NamedGpu | None = None
    kv_memory: int | None = None
    utilization: Fraction | None = None
    weights: "Weights | None" = None
    overhead: int | None = None
    lora: "Adapters | None" = None
    draft: str | None = None
    beside: tuple[str, ...] = ()


_NOTHING = Memory()


class RunOptions(NamedTuple):
    """How an engine runs, which its own flags may say as well: what it takes beside the cache depends on it.

    Attributes:
        max_num_seqs: The most sequences in one step.
        max_num_batched_tokens: The most tokens in one step.
        enforce_eager: No graphs are captured; None where nobody says.
        language_model_only: A model of several kinds of input is loaded without its encoders.
    """

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    language_model_only: bool | None = None

    @property
    def stated(self) -> dict[str, int]:
        """What somebody said, by name."""
        return {name: value for name, value in self._asdict().items() if value}


class EngineChoice(NamedTuple):
    """The engine that is asked.

    Attributes:
        name: `NAME` or `NAME@VERSION`; None where the words alone say it.
        words: Its own command line or flags.
        block_size: Tokens of its block or page. Default: what it chooses.
        run: How it runs, in words of ours.
    """

    name: str | None = None
    words: Sequence[str] | None = None
    block_size: int | None = None
    run: RunOptions = RunOptions()


# Options of ours, which an engine's own command line cannot have behind the `--`.
OPTION_NAMES = frozenset(
    name for part in (Workload, CacheFormat, Split, Memory, EngineChoice, RunOptions) for name in part._fields
) | {"engine", "gpu_file", "format", "json", "get", "quiet", "units", "explain", "assume_dense"}  # fmt: skip


def said(workload: Workload, form: CacheFormat, split: Split, gpu: NamedGpu | None = None) -> dict[str, Any]:
    """What was said, under the names of `request.ask`; the whole layout where a number of GPUs was."""
    counted = split.gpus is not None or (gpu is not None and gpu.number is not None)
    alone = split._replace(gpus=None)._asdict()
    layout = alone | layout_of(split, gpu) if counted else alone
    every = {**workload._asdict(), **form._asdict(), **layout}
    return {name: value for name, value in every.items() if value is not None}


def layout_of(split: Split, gpu: NamedGpu | None = None) -> dict[str, int]:
    """tp, pp, dp and dcp, all of them. Raises KvcalcError where the number of GPUs is another than their product."""
    layout = {"tp": split.tp or 1, "pp": split.pp or 1, "dp": split.dp or 1, "dcp": split.dcp or 1}
    counted = None if gpu is None else gpu.number
    gpus = counted if split.gpus is None else split.gpus
    if gpus is None:
        return layout
    if counted not in (None, gpus):
        raise KvcalcError(f"--gpus: {gpus} contradicts --gpu {gpu and gpu.text}", "leave one of them out")
    if split.tp is None and split.pp is None and split.dp is None:
        return layout | {"tp": gpus}
    if _gpus(layout) != gpus:
        raise _miscounted(split, gpus, layout)
    return layout


def _gpus(layout: Mapping[str, Any]) -> int:
    gpus: int = layout["tp"] * layout["pp"] * layout["dp"]
    return gpus


def _miscounted(split: Split, gpus: int, layout: Mapping[str, Any]) -> KvcalcError:
    option = "--gpu" if split.gpus is None else "--gpus"
    product = f"tp {layout['tp']} x pp {layout['pp']} x dp {layout['dp']}"
    return KvcalcError(f"{option}: {gpus} contradicts {product}", "leave one of them out, or let them agree")


def request_for(
    model: Model,
    workload: Workload,
    form: CacheFormat,
    split: Split,
    gpu: NamedGpu | None = None,
    stated: Mapping[str, object] | None = None,
) -> Request:
    """The request about a model; `stated` is what an engine's own flags say. Raises KvcalcError where both say it."""
    own = said(workload, form, split)
    layout = layout_of(split, gpu)
    gpus = _gpus(layout)
    asked = {**own, **layout}
    stated = stated or {}
    if split.tp is None and {"pp", "dp"} & stated.keys():  # an engine that is told one has 1 of the others
        asked["tp"] = 1
    for name, value in stated.items():
        for option in (name, "kv_dtype") if name.endswith("_dtype") else (name,):
            if option in own:
                raise KvcalcError(
                    f"--{option.replace('_', '-')}: the engine's own flags behind -- say it too",
                    "leave one of them out",
                )
        asked[name] = value
    if (split.gpus is not None or (gpu is not None and gpu.number is not None)) and gpus != _gpus(asked):
        raise _miscounted(split, gpus, asked)
    return ask(model, **asked)


def check_nothing_runs(run: RunOptions) -> None:
    """Where no engine is asked, nothing says how one runs."""
    for name in run.stated:
        what = f"--{name.replace('_', '-')}"
        raise KvcalcError(f"{what}: says how an engine runs, and none is named", "add --engine NAME, such as vllm")


def exact_size(
    model: Model, workload: Workload, form: CacheFormat, split: Split, memory: Memory, engine: EngineChoice
) -> Size:
    """The size where no engine is asked. Raises KvcalcError for blocks and for how to run, which only engines have."""
    check_nothing_runs(engine.run)
    if engine.block_size is not None:
        from kvcalc.launch.registry import all_engines

        having = ", ".join(each.name for each in all_engines() if each.block)
        raise KvcalcError("--block-size: the exact size has no blocks", f"name an engine that has: {having}")
    return measure(request_for(model, workload, form, split, memory.gpu))


def budget_of_card(budget: "Budget | None") -> "Budget | None":
    """The budget where no engine is named: of a named card, a fraction is used."""
    if budget is not None and budget.card is not None and budget.utilization is None:
        return budget._replace(utilization=DEFAULT_UTILIZATION)
    return budget


def budget_for(memory: Memory) -> "Budget | None":
    """What is said about memory; None where nothing is. Raises KvcalcError where two words contradict each other."""
    if memory == _NOTHING:
        return None
    from kvcalc.core.memory import Budget
    from kvcalc.core.overheads import as_stated

    if memory.kv_memory is not None:
        # A card says whose kernels run, and a draft fills the same memory.
        for name in ("vram", "utilization", "weights", "overhead", "lora", "beside"):
            if getattr(memory, name) not in (None, ()):
                raise KvcalcError(
                    f"--kv-memory: contradicts --{name}, since it is the memory of the cache alone",
                    "give either --kv-memory, or --vram or --gpu and what comes off it",
                )
        return Budget(kv_memory=memory.kv_memory)
    card = None if memory.gpu is None else memory.gpu.card
    if memory.vram is not None and card is not None:
        raise KvcalcError("--gpu: contradicts --vram, since it says how much memory there is", "leave one of them out")
    if memory.vram is None and card is None:
        for name in ("utilization", "weights", "overhead", "lora", "draft", "beside"):
            if getattr(memory, name) not in (None, ()):
                raise KvcalcError(f"--{name}: has no effect without a budget", "add --vram SIZE or --gpu NAME")
        return None
    return Budget(
        vram=memory.vram if card is None else card.memory,
        utilization=memory.utilization,
        weights="auto" if memory.weights is None else memory.weights,
        overheads=() if memory.overhead is None else (as_stated("overhead", memory.overhead),),
        card=card,
    )
