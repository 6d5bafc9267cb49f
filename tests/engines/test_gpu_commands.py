"""Command lines of vLLM, SGLang and TensorRT-LLM, as far as a new user and an engineer of theirs took them.

Numbers are worked out beside each case: a token of Llama 3.1 8B is 32 layers x 8 heads x 256 elements x 2 B = 131,072 B,
and 40 GiB hold 327,680 of them; the spec is engines-gpu.md.
"""

import io
import json
import sys
from pathlib import Path

import pytest

from kvcalc.cli.main import run

GIB40 = ("--kv-memory", "40GiB")
LLAMA = "meta-llama/Llama-3.1-8B"


def answer(capsys: pytest.CaptureFixture[str], key: str, *words: str) -> object:
    """One value of the JSON of a question that is answered."""
    status = run(["--get", key, *words])
    out, err = capsys.readouterr()
    assert status in (0, 1), err
    return json.loads(out) if out.strip().startswith(("{", "[")) or out.strip().isdigit() else out.strip()


@pytest.mark.parametrize(
    ("command", "tokens"),
    [
        # argparse takes the beginning of a name, and neither engine forbids it
        (f"vllm serve {LLAMA} --tensor-parallel 2", 655_360),
        (f"sglang serve {LLAMA} --tensor-par 2", 655_360),
        # switches that may be left to the engine, flags of several words, and hf-token, which may stand alone
        (f"sglang serve {LLAMA} --enable-multimodal --tp-size 2", 655_360),
        (f"sglang serve {LLAMA} --no-enable-tf32-matmul --enable-lora --tp-size 2", 655_360),
        (f"sglang serve --cuda-graph-bs-decode 1 2 4 --model-path {LLAMA} --tp-size 2", 655_360),
        (f"vllm serve --served-model-name a b --cudagraph-capture-sizes 1 2 --model {LLAMA} -tp 2", 655_360),
        (f"vllm serve {LLAMA} --hf-token --mm-device-do-normalize -tp 2", 655_360),
        # cli/serve.py: _normalize_positional_model_path
        (f"sglang serve {LLAMA} --tp-size 2", 655_360),
        # utils/argparse_utils.py: EnableDisableAction pairs --disable-x with --enable-x. E.3 7a's model: 62 layers of 16
        # heads x 256 x 2 B a token, 507,904 B, where windows are kept in full
        ("vllm serve google/gemma-3-27b-it --enable-hybrid-kv-cache-manager", 291_658),
        ("vllm serve google/gemma-3-27b-it --disable-hybrid-kv-cache-manager", 84_560),
        # config/vllm.py: LMCache lacks SupportsHMA, Nixl has it. gpt-oss-20b: 24 layers x 8 x 128 x 2 B, 49,152 B, in full
        ('vllm serve openai/gpt-oss-20b --kv-transfer-config {"kv_connector":"LMCacheConnectorV1"}', 873_808),
        ('vllm serve openai/gpt-oss-20b --kv-transfer-config {"kv_connector":"NixlConnector"}', 1_551_920),
        (
            ('vllm serve openai/gpt-oss-20b --kv-transfer-config {"kv_connector":"MultiConnector",'
            '"kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1"}]}}'),
            873_808,
        ),
        # envs.py of 0.33.0: chunks are managed by default. Groups of 12 layers of 65,536 B a block: 54,613 blocks in
        # 40 GiB, of which a sequence takes 65,536, and 3 x 1,536 for a chunk of 8,192 tokens with 16,384 in flight
        ("vllm serve meta-llama/Llama-4-Scout-17B-16E-Instruct --max-model-len 1M", 54_613 * 2**20 // 70_144),
        ("vllm serve meta-llama/Llama-4-Scout-17B-16E-Instruct --max-model-len 1M --disable-hybrid-kv-cache-manager",
         218_448),
        (
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0 vllm serve meta-llama/Llama-4-Scout-17B-16E-Instruct",
            218_448,
        ),
        # a second model: 16 layers of 8 heads x 128 x 2 B more, 16 x 32,768 = 524,288 B a block of 16 tokens beside
        # 2,097,152: 16,384 blocks
        (f'vllm serve {LLAMA} -sc {{"model":"meta-llama/Llama-3.2-1B","num_speculative_tokens":3}}', 262_144),
        (
            (f"vllm serve {LLAMA} --speculative-config.model meta-llama/Llama-3.2-1B "
            "--speculative-config.num_speculative_tokens=3 -cc.mode=3"),
            262_144,
        ),
        # pool_configurator.py: the draft's 16 layers count as the model's own: 48 x 4,096 B = 196,608 B a token
        (
            (f"sglang serve {LLAMA} --speculative-algorithm STANDALONE --speculative-draft-model-path "
            "meta-llama/Llama-3.2-1B"),
            218_453,
        ),
        # 8 groups of one rank: a whole latent each, 70,272 B a token, in either spelling
        ("sglang serve deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention", 611_191),
        # 4 groups of 2 ranks: 4 of 8 heads on each, 65,536 B a token
        (f"sglang serve {LLAMA} --tp 8 --attn-dp-size 4", 655_360),
        # configs/model_config.py: is_hybrid_swa and not disable_hybrid_swa_memory: all 24 layers in full
        ("sglang serve openai/gpt-oss-20b --disable-hybrid-swa-memory", 873_813),
        # resource_manager.py: with attention DP each rank has all heads
        (f"trtllm-serve {LLAMA} --tp_size 4 --enable_attention_dp", 327_680),
    ],
)  # fmt: skip
def test_flags_count_as_the_engine_takes_them(capsys: pytest.CaptureFixture[str], command: str, tokens: int) -> None:
    """Abbreviated, opposite, dotted and JSON flags change the tokens in 40 GiB as they do in the engine."""
    assert answer(capsys, "engine.capacity_tokens", *GIB40, "--", *command.split()) == tokens
    assert "not known to kvcalc" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f'vllm serve {LLAMA} --hf-overrides {{"num_key_value_heads":4}}', "--hf-overrides: 'num_key_value_heads'"),
        (f"vllm serve {LLAMA} --hf-overrides.num_hidden_layers 16", "--hf-overrides: 'num_hidden_layers'"),
        (f'vllm serve {LLAMA} --hf-overrides {{"text_config":{{"head_dim":64}}}}', "--hf-overrides: 'head_dim'"),
        (f'vllm serve {LLAMA} --hf-overrides {{"rope_scaling":{{}}}}', "rope_scaling may change the model's limit"),
        (f"vllm serve {LLAMA} --hf-overrides nonsense", "--hf-overrides: expected a JSON object, got 'nonsense'"),
        (f'sglang serve {LLAMA} --json-model-override-args {{"sliding_window":512}}', "'sliding_window'"),
        (f"vllm serve {LLAMA} --kv-cache-dtype int8", "--kv-cache-dtype: expected a format of vllm's"),
        (f"vllm serve {LLAMA} --kv-cache-dtype octave_k3v4", "--kv-cache-dtype: expected a format of vllm's"),
        (f'vllm serve {LLAMA} -sc {{"method":"mtp","num_speculative_tokens":true}}', "expected a number"),
        (f'vllm serve {LLAMA} -sc {{"method":"eagle3","model":"/no/head","num_speculative_tokens":3}}',
         "the draft model: /no/head"),
        (f"vllm serve {LLAMA} --block-size 17", "--block-size: vllm's kernels take multiples of 16"),
        (f"vllm serve {LLAMA} --attention-config.hisparse_config.x 1", "hisparse_config"),
        (f"VLLM_KV_CACHE_LAYOUT=BLHNC vllm serve {LLAMA}", "VLLM_KV_CACHE_LAYOUT"),
        ("VLLM_MLA_DISABLE=1 vllm serve deepseek-ai/DeepSeek-V3", "VLLM_MLA_DISABLE"),
        (f"trtllm-serve {LLAMA} --kv_cache_config.max_tokens 4096", "kv_cache_config: max_tokens"),
        (f"trtllm-serve {LLAMA} --speculative_config.decoding_type MTP", "--speculative_config"),
    ],
)  # fmt: skip
def test_what_changes_the_cache_by_no_rule_here_is_refused(
    capsys: pytest.CaptureFixture[str], command: str, words: str
) -> None:
    """One line that names the flag and the key, rather than the size of another model."""
    assert run([*GIB40, "--", *command.split()]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # CacheDType of vLLM has 8 and 4 bits only with scales; no engine of these keeps values otherwise than keys
        ("--engine vllm --kv-dtype int8", "--kv-dtype: vllm has no int8 cache"),
        ("--engine vllm --kv-dtype fp32", "--kv-dtype: vllm has no fp32 cache"),
        ("--engine sglang --kv-dtype nvfp4", "--kv-dtype: sglang has no nvfp4 cache"),
        ("--engine vllm --k-dtype fp8", "--v-dtype: vllm keeps keys and values in one format"),
        ("--engine sglang --v-dtype fp8", "--v-dtype: sglang keeps keys and values in one format"),
        ("--engine tensorrt-llm --k-dtype fp8", "--v-dtype: tensorrt-llm keeps keys and values in one format"),
        ("--engine mlx --block-size 16", "--block-size: mlx has no blocks"),
        ("--engine vllm --block-size 0", "--block-size"),
    ],
)
def test_formats_and_blocks_that_an_engine_lacks(capsys: pytest.CaptureFixture[str], options: str, words: str) -> None:
    """Options in front of the dashes are held against the engine too."""
    assert run(["llama3.1-8b", *options.split()]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "blocks"),
    [
        ("vllm", 40 * 2**30 // (64 * 131_072)),
        ("sglang", None),
        ("tensorrt-llm", 40 * 2**30 // (64 * 131_072)),
    ],
)
def test_the_block_size_is_an_option(capsys: pytest.CaptureFixture[str], engine: str, blocks: int | None) -> None:
    """Blocks and pages of 64 tokens, under the name that the contract gives them."""
    engine_values = answer(capsys, "engine", "llama3.1-8b", "--engine", engine, "--block-size", "64", *GIB40)
    assert isinstance(engine_values, dict)
    assert (engine_values["block_size"], engine_values.get("num_blocks")) == (64, blocks)
    assert run(["llama3.1-8b", "--engine", "vllm", "--block-size", "64", "--", "--block-size", "16"]) == 2
    assert "--block-size: the engine's own flags" in capsys.readouterr().err


def test_a_replaced_limit_is_the_length(capsys: pytest.CaptureFixture[str]) -> None:
    """`max_position_embeddings` states the longest sequence, which a server takes where no length is given."""
    words = ("--", "vllm", "serve", LLAMA, "--hf-overrides", '{"max_position_embeddings": 262144}')
    assert answer(capsys, "request.context", *GIB40, *words) == 262_144
    assert answer(capsys, "request.context", *GIB40, *words, "--max-model-len", "8K") == 8192


def test_windows_that_are_off_cut_the_length(capsys: pytest.CaptureFixture[str]) -> None:
    """`_get_and_verify_max_len`: Gemma 3's windows are 1,024 tokens, and the server starts with that length."""
    words = ("--", "vllm", "serve", "google/gemma-3-27b-it", "--disable-sliding-window")
    assert answer(capsys, "request.context", *GIB40, *words) == 1024


def test_kernels_that_are_named_in_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    """CUTLASS's blocks for latents have 128 tokens, wherever they are named."""
    for words in (
        "-ac.backend CUTLASS_MLA",
        "--attention-config.backend=CUTLASS_MLA",
        "--attention-backend CUTLASS_MLA",
    ):
        command = f"vllm serve deepseek-ai/DeepSeek-V3 {words}"
        assert answer(capsys, "engine.block_size", *GIB40, "--", *command.split()) == 128


def test_a_length_that_is_left_to_vllm_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """E.3 row 20: in 6 GiB vLLM reduces 131,072 tokens to 49,136, and starts."""
    words = ("--kv-memory", "6GiB", "--", "vllm", "serve", LLAMA, "--max-model-len", "auto")
    assert run(["--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["request"]["context"], found["engine"]["max_model_len"], found["fit"]["fits"]) == (
        49_136,
        49_136,
        True,
    )
    assert found["engine"]["log_lines"] == [
        "GPU KV cache size: 49,152 tokens, Maximum concurrency for 49,136 tokens per request: 1.00x"
    ]
    assert found["warnings"] == ["vllm reduces the length from 131,072 to 49,136 tokens"]
    assert run(["-q", "--kv-memory", "1MiB", *words[2:]]) == 1  # not one block


def test_tensorrt_llm_takes_the_models_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """`max_seq_len` is inferred where it is not given (D.1)."""
    assert answer(capsys, "request.context", "--", "trtllm-serve", LLAMA) == 131_072
    assert answer(capsys, "request.context", "--", "trtllm-serve", LLAMA, "--max_seq_len", "8192") == 8192


@pytest.mark.parametrize(
    ("file", "command", "key", "value"),
    [
        # utils/argparse_utils.py: _pull_args_from_config: the command's flags count more
        (f"model: {LLAMA}\nmax-model-len: 8192\ntensor-parallel-size: 2\n", "vllm serve --config {}", "engine.num_blocks", 40_960),
        ("max-model-len: 8192\n", f"vllm serve {LLAMA} --config {{}} --max-model-len 4096", "request.context", 4096),
        ("max_model_len: 4K\nenable-prefix-caching: false\n", f"vllm serve {LLAMA} --config {{}}", "request.context", 4096),
        (
            "speculative-config:\n  model: meta-llama/Llama-3.2-1B\n  num_speculative_tokens: 3\n",
            f"vllm serve {LLAMA} --config={{}}", "engine.capacity_tokens", 262_144,
        ),
        (f"model-path: {LLAMA}\ncontext_length: 8192\n", "sglang serve --config {}", "request.context", 8192),
        # llm_args.py: what the file says replaces what the command says
        (
            "kv_cache_config:\n  dtype: fp8\n  tokens_per_block: 64\nmax_seq_len: 8192\n",
            f"trtllm-serve {LLAMA} --max_seq_len 4096 --extra_llm_api_options {{}}", "engine.num_blocks",
            40 * 2**30 // (64 * 65_536),
        ),
        ("max_seq_len: 8192\n", f"trtllm-serve {LLAMA} --max_seq_len 4096 --config {{}}", "request.context", 8192),
    ],
)  # fmt: skip
def test_a_file_of_flags_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, command: str, key: str, value: int
) -> None:
    """The settings that a flag's file holds are settings like those of the command."""
    path = tmp_path / "settings.yaml"
    path.write_text(file)
    assert answer(capsys, key, *GIB40, "--", *command.format(path).split()) == value


def test_a_file_that_is_not_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning says that it was not looked at: the file of a pasted text is another machine's."""
    for words in (
        ["vllm", "serve", LLAMA, "--config", "/no/such.yaml"],
        ["trtllm-serve", LLAMA, "--config=/no/such.yaml"],
    ):
        assert run(["-q", "--", *words]) == 0
        assert "'/no/such.yaml' is not read here, and what it may set was not looked at" in capsys.readouterr().err
    path = tmp_path / "settings.yaml"
    path.write_text("tensor-parallel-size: 3\n")
    text = f"vllm serve {LLAMA} --config {path}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["-q", "--", "-"]) == 0
    assert "is not read here" in capsys.readouterr().err
    path.write_text("tensor-parallel-size: [")
    assert run(["-q", "--", *text.split()]) == 2


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containers:\n- image: vllm/vllm-openai:v0.15.1\n  command: [sh, -c]\n  args: ['vllm serve {}']\n", "0.15.1"),
        ("containers:\n- image: vllm/vllm-openai:v0.26.0\n  command: [vllm, serve, {}]\n", "0.26.0"),
        ("services:\n  x:\n    image: vllm/vllm-openai:v0.28.0\n    entrypoint: vllm serve {}\n", "0.28.0"),
        ("services:\n  x:\n    image: nvcr.io/nvidia/tensorrt-llm/release:0.20.0\n    command: trtllm-serve {}\n", "0.11.0"),
        ("docker run --entrypoint python3 vllm/vllm-openai:v0.27.0 -m vllm.entrypoints.openai.api_server --model {}", "0.27.0"),
        ("docker run vllm/vllm-openai:nightly --model {}", "0.33.0"),
        # an image of one engine that starts another says nothing of its version
        ("docker run vllm/vllm-openai:v0.15.1 trtllm-serve {}", "1.2.0"),
    ],
)  # fmt: skip
def test_the_version_of_an_image_holds_whatever_starts_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, version: str
) -> None:
    """A shell or another entrypoint in front does not make a vLLM of 2025 the newest one."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.format(LLAMA).encode())))
    assert answer(capsys, "engine.version", "--", "-") == version


def test_sglang_logs_its_own_layers_without_the_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    """A draft's pool has a line of its own: 601,333 tokens and a page of 70,272 B are 39.36 GiB of the 40."""
    words = ("--", "sglang", "serve", "deepseek-ai/DeepSeek-V3", "--speculative-algorithm", "EAGLE")
    line = answer(capsys, "engine.log_lines.0", *GIB40, *words)
    assert line == "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 601333, KV size: 39.35 GB"


def test_groups_of_attention_need_the_caches_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """How such ranks share weights is not known, so that a whole GPU's memory is no answer."""
    for words in (["sglang", "serve", LLAMA, "--tp", "8", "--attn-dp-size", "8", "--mem-fraction-static", "0.8"],
                  ["trtllm-serve", LLAMA, "--tp_size", "8", "--enable_attention_dp"]):  # fmt: skip
        assert run(["--vram", "80GB", "--", *words]) == 2
        assert "give --kv-memory" in capsys.readouterr().err


V3 = "deepseek-ai/DeepSeek-V3"


@pytest.mark.parametrize(
    ("command", "tp", "dp", "ep", "shared"),
    [
        (f"vllm serve {V3} --data-parallel-size 16 --enable-expert-parallel", 1, 16, 16, True),
        (f"vllm serve {V3} --data-parallel-size 16", 1, 16, 1, True),  # experts are cut over tp x dp all the same
        (f"vllm serve {V3} -tp 8 -dp 2 -ep", 8, 2, 16, True),
        (f"vllm serve {V3} -tp 16 -ep", 16, 1, 16, False),
        (f"vllm serve {LLAMA} -dp 16", 1, 16, 1, False),
        (f"sglang serve {V3} --tp 16 --dp 16 --enable-dp-attention --ep 16", 1, 16, 16, True),
        (f"sglang serve {V3} --tp 16 --dp 2 --enable-dp-attention", 8, 2, 1, True),
        (f"sglang serve {V3} --tp 16 --ep-size 4", 16, 1, 4, False),
        (f"trtllm-serve {V3} --tp_size 16 --ep_size 16 --enable_attention_dp", 1, 16, 16, True),
        (f"trtllm-serve {V3} --tp_size 16 --ep_size 4", 16, 1, 4, False),
    ],
)
def test_how_experts_are_spread(
    command: str, tp: int, dp: int, ep: int, shared: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attention and cache by tp and dp, experts over all ranks that share them; and no flag is left uncounted."""
    assert run(["--gpu", "16xh200", "-c", "8k", "--json", "--", *command.split()]) in (0, 1)
    document = json.loads(capsys.readouterr().out)
    request = document["request"]
    assert [request[key] for key in ("tp", "dp", "ep", "dp_attention")] == [tp, dp, ep, shared]
    assert not [warning for warning in document["warnings"] if "experts" in warning]
    assert document["fit"]["fits"] is not None


def test_deepseek_on_two_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """DP 16 and EP 16: 16 experts of 58 layers on a GPU, all else whole, in fp8, and 31.25 sequences of 32k at most.

    A latent takes 61 x 576 x 2 B a token. Without a share of the experts no H200 would hold the 671 GB.
    """
    words = ("deepseek-v3", "--gpu", "16xh200", "-c", "32k", "-b", "500", "--json")
    assert run([*words, "--dp", "16", "--ep", "16", "--dp-attention"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    experts = 58 * 3 * 7168 * 2048
    whole = 671_026_419_200 - 256 * experts  # parameters of the checkpoint beside the experts (its index, 2024)
    assert found["fit"]["weights_bytes_per_gpu"] == pytest.approx(16 * experts + whole, rel=0.05)
    assert found["kv"]["bytes_total_per_gpu"] == 32 * 32768 * 61 * 576 * 2
    assert run([*words, "--dp", "16", "--ep", "16"]) in (0, 1)  # 16 ranks of one share by themselves
    assert json.loads(capsys.readouterr().out)["fit"] == found["fit"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["llama3-8b", "--ep", "2", "--tp", "2"], "--ep: Llama 3 8B has no experts"),
        (["deepseek-v3", "--ep", "3", "--tp", "8"], "--ep: 3 does not divide --tp 8"),
        (["deepseek-v3", "--ep", "32", "--tp", "8", "--dp", "2"], "--ep: 32 does not divide the 16 ranks"),
        (["mixtral-8x7b", "--ep", "16", "--dp", "16"], "--ep: 16 ranks are more than the model's 8 experts"),
        (["deepseek-v3", "--dp-attention"], "--dp-attention: one replica shares its experts with none"),
        (["--", "vllm", "serve", LLAMA, "-tp", "2", "-ep"], "--enable-expert-parallel: vLLM refuses it"),
        (["--", "sglang", "serve", V3, "--tp", "8", "--ep", "3"], "--ep-size: 3 does not divide --tp-size 8"),
    ],
)
def test_experts_that_cannot_be_spread(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, which names the option or the engine's flag."""
    assert run(words) == 2
    assert capsys.readouterr().err.startswith(f"kvcalc: error: {says}")


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        # a public log of Whisper on a small card: 173x, since 2,048 tokens are batched there; 8,192 would make it 50x
        ("whisper-large-v3 --context max --kv-memory 65.9GiB --gpu rtx-3090 --engine vllm@0.11.0", "max_concurrency", "173.03"),
        ("whisper-large-v3 --context max --kv-memory 65.9GiB --engine vllm@0.11.0", "max_concurrency", "49.99"),
        # two cards are tp 2: 10 GiB // (16 tokens x 65,536 B) blocks
        ("llama3.1-8b --kv-memory 10GiB --gpu 2xrtx-3090 --engine vllm", "num_blocks", "10240"),
        # states of 24 heads x 128 x 128 x 4 B and 5,120 x 3 x 2 B in pages of 16s of 2,048 B a token: 783, so 784
        ("qwen3.6-27b --tp 2 --engine vllm@0.20.0 -- --enable-prefix-caching", "block_size", "784"),
        # NVIDIA/TensorRT-LLM#1400
        ("llama2-7b --kv-memory 69524783104B --engine tensorrt-llm@0.8", "log_lines",
         '["Allocate 69524783104 bytes for k/v cache. ", "Using 132608 tokens in paged KV cache."]'),
    ],
)  # fmt: skip
def test_memory_of_the_cache_beside_a_card(
    words: str, key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The card says whose kernels run, and which defaults hold; the memory is what was given."""
    front, dashes, behind = words.partition(" -- ")
    assert run([*front.split(), "--get", f"engine.{key}", *([dashes.strip()] if dashes else []), *behind.split()]) == 0
    assert capsys.readouterr().out.strip() == value


@pytest.mark.parametrize("memory", [(), ("--gpu", "h100")], ids=str)
def test_a_pool_of_so_many_blocks_needs_no_memory(memory: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """4,000 blocks x 16 are 64,000 tokens and 1.95 x 32,768, so one sequence of that length, whatever memory there is."""
    words = (*memory, "--", "vllm", "serve", LLAMA, "--num-gpu-blocks-override", "4000", "--max-model-len", "32768")
    assert answer(capsys, "engine.capacity_tokens", *words) == 64_000
    assert answer(capsys, "fit.max_batch", *words) == 1
    assert answer(capsys, "engine.log_lines", *words) == [
        "GPU KV cache size: 64,000 tokens, Maximum concurrency for 32,768 tokens per request: 1.95x"
    ]


def test_a_pool_of_too_few_blocks_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """2,048 blocks x 16 are 32,768 tokens, and one block is the null block, which no sequence can use."""
    start = ("--", "vllm", "serve", LLAMA, "--max-model-len", "32768", "--num-gpu-blocks-override")
    assert (run([*start, "2048"]), run([*start, "2049"])) == (1, 0)
    capsys.readouterr()
    # a block is 16 x 131,072 B on each GPU
    assert answer(capsys, "fit.kv_budget_bytes_per_gpu", *start, "2049") == 2_049 * 2_097_152


@pytest.mark.parametrize(("memory", "warned"), [("10737418240", True), ("0", False)])
def test_a_bound_of_bytes_is_the_memory_of_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], memory: str, warned: bool
) -> None:
    """10 GiB hold 81,920 tokens of 131,072 B, in 2,560 blocks of 32; 0, TensorRT-LLM's default, bounds nothing."""
    path = tmp_path / "options.yaml"
    path.write_text(f"kv_cache_config:\n  max_gpu_total_bytes: {memory}\n")
    words = ("--", "trtllm-serve", LLAMA, "--max_seq_len", "8192", "--extra_llm_api_options", str(path))
    assert (answer(capsys, "warnings", *words) == []) is not warned
    budget = ("--vram", "80GB", "--overhead", "0") if memory == "0" else ()
    # without a bound: 0.9 of what 16.06 GB of weights leave of 80 GB, 439,041 tokens, of which 13,720 blocks are whole
    assert answer(capsys, "engine.num_blocks", *budget, *words) == (2_560 if warned else 13_720)


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (f"vllm serve {LLAMA}", "--max-model-len"),
        (f"sglang serve {LLAMA}", "--context-length"),
        (f"trtllm-serve {LLAMA}", "--max_seq_len"),
    ],
)
def test_a_length_in_front_of_a_command_that_states_none(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is that of the command with its own flag for the length, and a warning names the flag."""
    front, behind = ("--gpu", "h100", "-c", "8k", "--json"), ("--gpu", "h100", "--json")
    assert run([*front, "--", *command.split()]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert run([*behind, "--", *command.split(), flag, "8192"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [asked[key] for key in ("request", "kv", "fit", "engine")] == [
        told[key] for key in ("request", "kv", "fit", "engine")
    ]
    assert [w for w in asked["warnings"] if w not in told["warnings"]] == [
        f"sized as with {flag} 8192, which the command lacks: as it stands it has the model's limit of 131,072 tokens"
    ]
    assert run([*front, "--", *command.split(), flag, "4096"]) == 2
    assert capsys.readouterr().err.startswith("kvcalc: error: --context: the engine's own flags behind -- say it too")
