"""transformers: what it really allocated comes out, by layer and by version; its arguments mean what they mean there."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api import load
from kvcalc.cli.main import run
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.question import Question
from kvcalc.engines.transformers.engine import ENGINE
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch
from kvcalc.library.loader import entries, load_entry
from kvcalc.preset.mapping import model_from_preset

from .transformers_published import PUBLISHED
from .transformers_runs import MODELS, RUNS, Run
from .transformers_small import SMALL, Small

Refused = Callable[..., tuple[str, str]]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"


def model_of(facts: dict[str, object], dtype: str = "bf16") -> Model:
    model, problems = model_from_preset({"name": "x-1", "dtype": dtype, **facts}, "x-1")
    assert model is not None, problems
    return model


def reservation(model: Model, flags: str = "", version: str = "5.23.0", **options: Any) -> Reservation:
    started = launch(f"transformers@{version}", flags.split())
    stated = ENGINE.options_of(started.program, started.read, model)
    request = ask(model, **{**options, **stated.options})
    return reserve(ENGINE, Question(request, measure(request).placement, started.version, stated.settings))


def of_run(row: Run) -> Reservation:
    return run_of(row, model_of(MODELS[row.model], row.dtype))


def run_of(row: Run, model: Model) -> Reservation:
    return reservation(
        model, row.flags, row.version, context=row.tokens, batch=row.batch, encoder_tokens=row.encoder_tokens
    )


def check(found: Reservation, row: Run) -> None:
    layers: Counter[tuple[str, int]] = Counter()
    for charge in found.allocation.charges:
        for part, amount in charge.parts:
            layers[part.removesuffix("_bytes"), amount // charge.copies] += charge.copies
    assert {key: copies for key, copies in layers.items() if key[1]} == row.tensors
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (row.total, row.storage)


@pytest.mark.parametrize("row", RUNS, ids=lambda row: row.id)
def test_what_was_really_allocated_comes_out_by_layer(row: Run) -> None:
    """The bytes of keys, values, index keys and states of each layer, all of them together, and their live storage."""
    check(of_run(row), row)


@pytest.mark.parametrize("row", [row for row in RUNS if row.classes], ids=lambda row: row.id)
def test_classes_are_named_as_transformers_names_them(row: Run) -> None:
    """The cache's class, and those of its layers with how often each occurs."""
    found = of_run(row).allocation.values
    names = sorted(f"{copies} {name}" for name, copies in (row.classes or {}).items())
    assert found["cache_class"] == row.cache_class
    assert sorted(str(found["layer_classes"]).split(", ")) == names


@pytest.mark.parametrize("row", [row for row in RUNS if row.prefilled], ids=lambda row: row.id)
def test_after_the_prompt_it_held_what_it_says(row: Run) -> None:
    """The same run before its first token was decoded; a window still holds what the prompt attended to."""
    words = [word for word in row.flags.split() if not word.startswith("max_new_tokens=")]
    decoded = sum(int(w.partition("=")[2]) for w in row.flags.split() if w.startswith("max_new_tokens="))
    found = run_of(
        row._replace(flags=" ".join(words), tokens=row.tokens - decoded), model_of(MODELS[row.model], row.dtype)
    )
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (row.prefilled, row.prefilled_storage)


def test_published_configurations_give_the_same(shared_json: Callable[[str], Any]) -> None:
    """Where the recorded runs lie beside the repository, their configurations are read and give the same bytes."""
    checked, wrong = 0, []
    for recorded in shared_json("cases/engine_runs.json"):
        path = SHARED / "run_configs" / f"{recorded['case']}.json"
        if recorded["engine"] != "transformers" or not path.exists():
            continue
        words = {
            "max_new_tokens": recorded["decode"],
            "dtype": recorded["dtype"],
            "prefill_chunk_size": recorded.get("prefill_chunk"),
            "max_cache_len": recorded.get("max_cache_len"),
        }
        flags = [f"{key}={value}" for key, value in words.items() if value]
        flags += {"static": ["cache_implementation=static"], "noconfig": ["past_key_values=DynamicCache()"]}.get(
            recorded["cache"], []
        )
        found = reservation(
            load(str(path)),
            " ".join(flags),
            recorded["version"].split()[0],
            context=recorded["tokens"],
            batch=recorded["batch"],
            encoder_tokens=recorded["enc_tokens"] or None,
        )
        numbers = (
            found.reserved_total,
            found.allocation.values["held_bytes_total"],
            found.allocation.values["cache_class"],
        )
        expected = (recorded["bytes_total"], recorded["storage_total"], recorded["cache_class"])
        wrong += [(recorded["case"], numbers, expected)] if numbers != expected else []
        checked += 1
    assert (checked, wrong) == (52, [])


@pytest.mark.parametrize(
    ("small", "version"),
    [(small, version) for small in SMALL for version in small.sizes],
    ids=lambda value: value.facts["model_type"] if isinstance(value, Small) else value,
)
def test_versions_differ_as_they_really_did(small: Small, version: str) -> None:
    """States in other dtypes, latents expanded, copies: bytes of tensors and of storage, version by version."""
    found = reservation(model_of(small.facts), "max_new_tokens=3", version, context=43, batch=2)
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == small.sizes[version]


# backend, prompt, tokens after it, arguments, bytes of the groups and of what waits: two heads of 64 in fp16, one layer,
# QuantizedCache fed with torch 2.13.0, optimum-quanto 0.2.7 and hqq 0.2.8. Keys and values alike.
QUANTISED = (
    ("5.23.0", "quanto", 100, 5, "nbits=2", 4000, 5),
    ("5.23.0", "quanto", 100, 200, "nbits=4 residual_length=64 q_group_size=32", 23360, 8),
    ("5.23.0", "quanto", 500, 3, "prefill_chunk_size=96", 34560, 23),
    ("5.23.0", "quanto", 500, 3, "prefill_chunk_size=200", 28800, 103),
    ("5.23.0", "quanto", 520, 0, "prefill_chunk_size=50", 36000, 20),
    ("5.23.0", "quanto", 100, 130, "residual_length=0", 16560, 0),
    ("5.23.0", "quanto", 100, 131, "residual_length=1", 16632, 0),
    ("5.15.0", "quanto", 100, 131, "residual_length=1", 16560, 1),
    ("4.57.6", "quanto", 100, 200, "nbits=4 residual_length=64 q_group_size=32", 23360, 8),
    ("5.23.0", "fp8", 100, 5, "", 13444, 0),
    ("5.23.0", "hqq", 100, 5, "nbits=3", 6400, 5),
    ("5.23.0", "hqq", 100, 5, "nbits=1", 2400, 5),
    ("5.23.0", "hqq", 100, 5, "nbits=2", 4000, 5),
    ("5.23.0", "hqq", 100, 5, "nbits=8 q_group_size=128", 13200, 5),
)


@pytest.mark.parametrize(("version", "backend", "prompt", "decoded", "flags", "groups", "waiting"), QUANTISED)
def test_quantised_caches_have_the_sizes_of_the_real_ones(
    version: str, backend: str, prompt: int, decoded: int, flags: str, groups: int, waiting: int
) -> None:
    """Groups with scale and shift, and 256 B for each token that waits to be quantised."""
    model = model_of({"model_type": "llama", "heads": 2, "kv_heads": 2, "head_dim": 64, "layers": "1 full"}, "fp16")
    flags = f"cache_implementation=quantized backend={backend} {flags} max_new_tokens={decoded}"
    found = reservation(model, flags, version, context=prompt + decoded)
    assert found.reserved_total == 2 * (groups + 256 * waiting)


def test_two_sequences_are_quantised_together() -> None:
    """hqq with 3 bits, 97 tokens and 140 after them, batch 2: 28,800 B of groups and 12 tokens of 512 B that wait."""
    model = model_of({"model_type": "llama", "heads": 2, "kv_heads": 2, "head_dim": 64, "layers": "1 full"}, "fp16")
    flags = "cache_implementation=quantized backend=hqq nbits=3 max_new_tokens=140"
    assert reservation(model, flags, context=237, batch=2).reserved_total == 2 * (28800 + 12 * 512)


WINDOW, KERNEL, INDEX = (
    "window keeps W - 1 tokens",
    "kernel columns instead of kernel - 1",
    "index keys in the model's dtype",
)
RULES: tuple[tuple[str, str, str, dict[str, int], dict[str, int]], ...] = (
    ("gemma3-4b", "5.23", "", {"context": 5000}, {WINDOW: -29 * 4096}),
    ("mistral-7b-v0.1", "5.23", "past_key_values=DynamicCache()", {"context": 5000},
        {"window ignored": 32 * (5000 - 4096) * 4096}),
    ("mistral-7b-v0.1", "5.23", "cache_implementation=static", {"context": 5000}, {}),
    ("llama3-8b", "5.23", "cache_implementation=static max_cache_len=8192", {"context": 4096},
        {"static cache of max_cache_len": 4096 * 131072}),
    ("llama3-8b", "5.23", "num_beams=4", {"context": 4096},
        {"a cache for each beam or returned sequence": 3 * 4096 * 131072}),
    ("llama3-8b", "5.23", "num_return_sequences=3 num_beams=2", {"context": 4096},
        {"a cache for each beam or returned sequence": 2 * 4096 * 131072}),
    # 128 heads instead of 8: 60 layers x 120 heads x 64 x 2 x 2 B more for each of 2 x 602 tokens.
    ("falcon-40b", "5.23", "", {"context": 602, "batch": 2}, {"query heads cached": 1204 * 60 * 120 * 64 * 4}),
    # 81,920 B for each token and layer instead of 1,152.
    ("deepseek-v3", "5.14", "", {"context": 4096}, {"expanded latents": 61 * 4096 * (81920 - 1152)}),
    ("deepseek-v3", "5.15", "", {"context": 4096}, {}),
    # 256 B instead of 132.
    ("deepseek-v3.2", "5.23", "", {"context": 4096}, {INDEX: 61 * 4096 * 124}),
    ("glm-5.2", "5.23", "", {"context": 4096}, {INDEX: 21 * 4096 * 124}),
    ("jamba-1.5-mini", "5.23", "", {"context": 4096}, {KERNEL: 28 * 8192 * 2}),
    ("lfm2-2.6b", "5.23", "", {"context": 4096}, {KERNEL: 22 * 2048 * 2}),
    ("llama3-8b", "5.23", "cache_implementation=quantized", {"context": 4096},
        {"quantised with scale and shift": -4096 * 131072 * 23 // 32}),
    ("llama3-8b", "5.23", "dtype=float32", {"context": 4096}, {}),
    ("mamba-130m", "5.23", "dtype=float32", {"context": 4096},
        {"in the model's dtype": 24 * 3 * 1536 * 2, KERNEL: 24 * 1536 * 4}),
    ("whisper-large-v3", "5.23", "cache_implementation=static", {"context": 448}, {}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "version", "flags", "options", "rules"), RULES)
def test_each_rule_adds_what_it_says(
    name: str, version: str, flags: str, options: dict[str, int], rules: dict[str, int]
) -> None:
    """By hand: layers x tokens x what a token takes more. 4.5 of 16 bits leave 23 / 32 out."""
    found = reservation(load(name), flags, version, **options)
    assert {difference.rule.why: difference.bytes for difference in found.differences} == rules
    assert found.reserved_total == found.exact_total + sum(rules.values())


# State bytes of one layer for one sequence in bf16, and what the exact size has: kernel columns, and fp32.
STATES = (
    ("qwen3-next-80b", "deltanet", 2_162_688),
    ("jamba-1.5-mini", "mamba1", 589_824),
    ("nemotron-h-8b", "mamba2", 4_276_224),
    ("falcon-h1-1.5b", "mamba2", 3_174_400),
    ("kimi-linear-48b", "kda", 2_195_456),
    ("lfm2-2.6b", "shortconv", 12_288),
)


@pytest.mark.parametrize(("name", "kind", "size"), STATES)
def test_states_have_the_published_sizes(name: str, kind: str, size: int) -> None:
    """The table of state bytes by engine: transformers keeps kernel columns, and float32."""
    found = reservation(load(name), context=4096)
    charge = next(charge for charge in found.allocation.charges if charge.name == f"{kind} state")
    assert charge.bytes // charge.copies == size


def test_gpt_oss_at_5000_tokens() -> None:
    """126,001,152 B of tensors; right after the prompt 245,760,000 B live."""
    found = reservation(load("gpt-oss-20b"), context=5000)
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (126_001_152, 245_760_000)


def test_gemma_3_4b_at_5000_tokens() -> None:
    """223,916,032 B of tensors, and 696,320,000 B live: the same as without windows. In chunks of 2,048, 331,296,768."""
    for flags, live in (("", 696_320_000), ("prefill_chunk_size=2048", 331_296_768)):
        found = reservation(load("gemma3-4b"), flags, context=5000)
        assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (223_916_032, live)


def test_what_lived_after_the_prompt_must_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma 3 4B with a prompt of 5,000 tokens and 2 after it: 34 layers x 5,000 x 4,096 B right after the prompt."""
    for memory, status in ((34 * 5000 * 4096 - 1, 1), (34 * 5000 * 4096, 0)):
        argv = ["gemma3-4b", "-c", "5002", "--engine", "transformers", "--kv-memory", f"{memory}B", "-q"]
        assert run([*argv, "--", "max_new_tokens=2"]) == status
    capsys.readouterr()


def test_the_most_that_waits_to_be_quantised_must_fit() -> None:
    """128 tokens after 512: all are quantised in the end, and 127 waited before; one layer, keys and values."""
    model = model_of({"model_type": "llama", "heads": 8, "kv_heads": 8, "head_dim": 128, "layers": "1 full"}, "fp16")
    found = reservation(model, "cache_implementation=quantized max_new_tokens=128", context=640)
    assert found.reserved_total == 2 * 640 * 1024 * 9 // 16
    assert found.allocation.peak == 2 * (512 * 1024 * 9 // 16 + 127 * 1024 * 2)


def test_replicas_and_stages() -> None:
    """Five sequences on two replicas are five; a quarter of the layers is on each of four GPUs."""
    llama = load("llama3-8b")
    found = reservation(llama, context=4096, batch=5, dp=2)
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (5 * 4096 * 131072,) * 2
    assert found.reserved_per_gpu == 3 * 4096 * 131072
    assert reservation(llama, context=4096, pp=4).reserved_per_gpu == 4096 * 131072 // 4


# Published V4 Flash at 5,002 tokens on the meta device: two layers of a window alone keep the vector twice; 2 tokens of
# 21 layers and 10 of 20 wait for the compressor.
def test_deepseek_v4_keeps_what_it_really_kept() -> None:
    """Logical bytes and live storage of DynamicCache with its own layers, right after the prompt."""
    found = reservation(load("deepseek-v4-flash"), context=5002)
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (41_090_560, 1_007_802_880)
    assert found.allocation.values["layer_classes"] == (
        "2 DynamicSlidingWindowLayer, 21 DeepseekV4CSACache, 20 DeepseekV4HCACache"
    )


# Real caches of bigger shapes on the meta device, batch 1: model, tokens, decoded of them, tensors and storage.
META = (
    ("llama3.2-11b-vision", "", 601, 1, 288_620_544, 288_620_544),  # 6,404 vision tokens in 8 layers
    ("mimo-v2-flash", "", 602, 2, 39_429_120, 39_628_800),  # its window of 128 is beside the query
)


@pytest.mark.parametrize(("name", "flags", "tokens", "decoded", "total", "storage"), META)
def test_real_caches_on_the_meta_device(
    name: str, flags: str, tokens: int, decoded: int, total: int, storage: int
) -> None:
    """Published shapes whose rules are their own."""
    found = reservation(load(name), f"{flags} max_new_tokens={decoded}", context=tokens)
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (total, storage)


@pytest.mark.parametrize(("name", "prompt", "decoded", "batch", "total", "storage"), PUBLISHED, ids=str)
def test_bundled_models_as_their_published_configurations_ran(
    name: str, prompt: int, decoded: int, batch: int, total: int, storage: int
) -> None:
    """Presets give what transformers allocated for the configuration of the same model."""
    flags = f"max_new_tokens={decoded} dtype=bfloat16"
    encoder = 1500 if name.startswith("whisper") else 77
    found = reservation(load(name), flags, context=prompt + decoded, batch=batch, **encoder_of(name, encoder))
    assert (found.reserved_total, found.allocation.values["held_bytes_total"]) == (total, storage)


def encoder_of(name: str, tokens: int) -> dict[str, int]:
    """The length of the encoder's side, where there is one."""
    return {"encoder_tokens": tokens} if name.startswith(("bart", "t5", "flan", "whisper")) else {}


# Types of code that is not part of transformers.
REMOTE = {
    "baichuan", "bailing_moe", "chatglm", "deepseek", "exaone", "grok-1", "hunyuan", "internlm", "internlm2", "mimo",
    "minicpm", "molmo", "nemotron-nas", "openelm", "orion", "qwen", "rwkv6", "sarvam_mla",
}  # fmt: skip


def test_every_bundled_model_that_transformers_has_is_answered() -> None:
    """All presets are, but those whose type transformers has no class for."""
    refused = set()
    for entry in entries():
        model = load_entry(entry)
        try:
            found = reservation(model)
        except KvcalcError as error:
            refused.add((model.model_type, str(error).split(",")[0]))
        else:
            assert found.reserved_total == found.exact_total + sum(d.bytes for d in found.differences)
    assert refused == {(name, f"model_type: transformers 5.23.0 has no class for '{name}'") for name in REMOTE}


REFUSALS = (
    ("qwen-7b --engine transformers", "model_type: transformers 5.23.0 has no class for 'qwen'"),
    ("gemma4-31b --engine transformers@5.2", "--engine: the caches of 'gemma4_text' are not known for transformers 5.0"),
    ("olmo3-7b --engine transformers@4.57 --tp 2", "--tp: "),
    ("llama3-8b --engine transformers --kv-dtype q8_0", "--kv-dtype: transformers has no q8_0 cache"),
    ("llama3-8b --engine transformers --k-dtype fp32", "--k-dtype: keys and values have one dtype"),
    ("llama3-8b --engine transformers --k-dtype int4", "--k-dtype: keys and values have one format"),
    ("llama3-8b --engine transformers@5.20 --kv-dtype fp8", "backend: transformers 5.20.0 has no fp8 cache"),
    ("gemma3-4b --engine transformers --kv-dtype int4", "cache_implementation: a QuantizedCache cannot hold the sliding"),
    ("whisper-large-v3 --engine transformers -- cache_implementation=quantized",
        "cache_implementation: a QuantizedCache cannot hold the cross"),
    ("jamba-1.5-mini --engine transformers -- past_key_values=DynamicCache()",
        "cache_implementation: a DynamicCache() without a config cannot hold the mamba1 state"),
    ("deepseek-v4-flash --engine transformers -- cache_implementation=static",
        "cache_implementation: a StaticCache cannot hold the layers of deepseek_v4"),
    ("gemma3n-e4b --engine transformers@5.5 -- cache_implementation=static", "cache_implementation: what a static cache shares is not known"),
)  # fmt: skip


@pytest.mark.parametrize(("argv", "says"), REFUSALS)
def test_what_cannot_be_known_is_refused_in_one_line(refused: Refused, argv: str, says: str) -> None:
    """Types that transformers has not, caches that it cannot make, and what it splits over GPUs in a way not read."""
    assert refused(*argv.split())[0].startswith(says)


def test_some_models_have_a_cache_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """MiniMax ignores cache_implementation, as transformers warns too; Kimi K2 is sized as DeepSeek V3."""
    minimax = model_of(MODELS["minimax-text-01"])
    own = reservation(minimax, "cache_implementation=static", context=4096)
    assert own.reserved_total == reservation(minimax, context=4096).reserved_total
    assert "a cache of its own" in own.allocation.warnings[0]
    for name, says in (("kimi-k2", "sized as deepseek_v3"), ("minimax-text-01", "sized as minimax")):
        assert run([name, "--engine", "transformers", "-q"]) == 0
        assert says in capsys.readouterr().err


def test_layers_that_share_in_theory_store_in_transformers() -> None:
    """Hunyuan's cross-layer attention: four layers of 8 x 128 at 51 tokens held 835,584 B on the meta device."""
    facts = {"model_type": "hunyuan_v1_moe", "heads": 32, "kv_heads": 8, "head_dim": 128}
    found = reservation(model_of({**facts, "layers": "2 x (full, shared:full)"}), context=51)
    assert (found.reserved_total, found.allocation.values["layer_classes"]) == (835_584, "4 DynamicLayer")


# Gemma 3 12B: 40 windows of 1,024 and 8 full layers, 8,192 B a token in each. The last whole chunk of 512 ends at 20,480
# tokens, where windows keep a view of 1,023 + 512; 20 tokens later it is one of 1,023 + 20.
CHUNKED = (
    (20_480, 8_192 * (8 * 20_480 + 40 * 1_535)),
    (20_500, 8_192 * (8 * 20_480 + 40 * 1_535)),
    (20_991, 8_192 * (8 * 20_991 + 40 * 1_534)),
    (400, 8_192 * 48 * 400),
)


@pytest.mark.parametrize(("context", "peak"), CHUNKED)
def test_the_peak_is_that_of_the_fullest_chunk(context: int, peak: int) -> None:
    """A longer prompt never needs less, so that the largest context agrees with what fits."""
    found = reservation(load("gemma3-12b"), "prefill_chunk_size=512", context=context)
    assert found.allocation.values["peak_bytes_per_gpu"] == found.allocation.needed == peak


def test_the_peak_of_chunks_is_the_most_of_all_shorter_prompts() -> None:
    """Compressors of 4 and 128 tokens, and chunks that match neither: no shorter prompt holds more than the peak."""
    model, most = load("deepseek-v4-flash"), 0
    for context in range(1, 400):
        plan = reservation(model, "prefill_chunk_size=24", context=context).allocation
        held = plan.values["held_bytes_total"]
        assert isinstance(held, int)
        most = max(most, held) if context % 24 == 0 else most
        assert plan.needed == max(most, held), context


def test_the_memory_asked_for_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """What a fit asks for stands in the engine's section where it is not what is reserved; every sum has a source."""
    asked = "gemma3-12b -c 20500 --kv-memory 80GB --engine transformers --explain -- prefill_chunk_size=512"
    assert run(asked.split()) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["peak on one GPU, which must fit", "1.718 GiB", "1845166080"] in rows
    assert ["KV cache asked for", "1.718 GiB", "1845166080"] in rows
    assert ["note", "a prompt of 20,500 tokens in chunks of 512, and none generated (max_new_tokens)"] in rows
    sources = {row[0]: row[-1] for row in rows if row[0].startswith("transformers 5.23.0, ")}
    assert sources["transformers 5.23.0, full attention"].startswith("as the exact size")
    assert all(sources.values())
