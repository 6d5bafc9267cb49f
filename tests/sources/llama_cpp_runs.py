"""Metadata of GGUF files, and the cache tensors that llama.cpp 0c1e57098 allocated for each on a CPU.

Copied from the recorded runs of llama-cpp-python 0.3.36, keys of no consequence left out; the files were written for
the purpose, with the shapes of published models. A tensor is (part, elements of a row, cells, layers).
"""

from typing import NamedTuple

# fmt: off


class Run(NamedTuple):
    case: str
    arch: str
    metadata: dict[str, object]
    ubatch: int
    tensors: list[tuple[str, int, int, str]]


RUNS = [
    Run("cohere2-command-r7b", "cohere2", {
        "block_count": 32, "context_length": 8192, "attention.head_count": 32, "attention.head_count_kv": 8,
        "attention.key_length": 128, "attention.value_length": 128, "attention.sliding_window": 4096,
        "embedding_length": 4096, "rope.dimension_count": 128,
    }, 128, [
        ("k", 1024, 10240, "3 7 11 15 19 23 27 31"),
        ("v", 1024, 10240, "3 7 11 15 19 23 27 31"),
        ("k", 1024, 4352, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30"),
        ("v", 1024, 4352, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30"),
    ]),
    Run("deci-var-heads", "deci", {
        "block_count": 8, "context_length": 131072, "embedding_length": 1024,
        "attention.head_count": [8, 8, 8, 0, 8, 8, 0, 8], "attention.head_count_kv": [2, 4, 1, 0, 8, 2, 0, 2],
        "attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128,
    }, 512, [
        ("k", 256, 1024, "0 5 7"),
        ("v", 256, 1024, "0 5 7"),
        ("k", 512, 1024, "1"),
        ("v", 512, 1024, "1"),
        ("k", 128, 1024, "2"),
        ("v", 128, 1024, "2"),
        ("k", 0, 1024, "3 6"),
        ("v", 0, 1024, "3 6"),
        ("k", 1024, 1024, "4"),
        ("v", 1024, 1024, "4"),
    ]),
    Run("deepseek-v2-lite-legacy", "deepseek2", {
        "block_count": 27, "context_length": 163840, "attention.head_count": 16, "attention.head_count_kv": 16,
        "attention.key_length": 192, "attention.value_length": 128, "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64, "expert_count": 2, "leading_dense_block_count": 1,
    }, 512, [
        ("k", 3072, 1024, "0-26"),
        ("v", 2048, 1024, "0-26"),
    ]),
    Run("deepseek-v2-lite-mla", "deepseek2", {
        "block_count": 27, "context_length": 163840, "attention.head_count": 16, "attention.head_count_kv": 1,
        "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192,
        "attention.value_length_mla": 128, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
        "expert_count": 2, "leading_dense_block_count": 1,
    }, 512, [
        ("k", 576, 1024, "0-26"),
    ]),
    Run("deepseek-v32-dsa", "deepseek32", {
        "block_count": 62, "nextn_predict_layers": 1, "context_length": 163840, "attention.head_count": 128,
        "attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512,
        "attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.kv_lora_rank": 512,
        "attention.q_lora_rank": 32, "rope.dimension_count": 64, "attention.indexer.head_count": 64,
        "attention.indexer.key_length": 128, "attention.indexer.top_k": 2048, "expert_count": 2,
        "leading_dense_block_count": 3,
    }, 512, [
        ("k", 576, 512, "0-60"),
        ("k", 128, 512, "0-60"),
    ]),
    Run("deepseek-v4-like", "deepseek4", {
        "block_count": 8, "context_length": 131072, "attention.head_count": 8, "attention.head_count_kv": 1,
        "attention.key_length": 512, "attention.value_length": 512, "embedding_length": 512,
        "rope.dimension_count": 64, "attention.sliding_window": 128, "attention.q_lora_rank": 64,
        "attention.output_group_count": 8, "attention.output_lora_rank": 32,
        "attention.compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128], "attention.compress_rope_freq_base": 160000.0,
        "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 512,
        "expert_count": 2, "leading_dense_block_count": 1,
    }, 512, [
        ("k", 512, 768, "0-7"),
        ("k", 512, 8448, "2 4 6"),
        ("k", 512, 512, "3 5 7"),
        ("k", 128, 8448, "2 4 6"),
        ("dsv4_csa_state_kv", 1024, 8, "2 4 6"),
        ("dsv4_csa_state_score", 1024, 8, "2 4 6"),
        ("dsv4_hca_state_kv", 512, 128, "3 5 7"),
        ("dsv4_hca_state_score", 512, 128, "3 5 7"),
        ("dsv4_lid_state_kv", 256, 8, "2 4 6"),
        ("dsv4_lid_state_score", 256, 8, "2 4 6"),
    ]),
    Run("falcon-40b", "falcon", {
        "block_count": 60, "context_length": 2048, "embedding_length": 1024, "attention.head_count": 16,
        "attention.head_count_kv": 8,
    }, 512, [
        ("k", 512, 1024, "0-59"),
        ("v", 512, 1024, "0-59"),
    ]),
    Run("falcon-7b-mqa", "falcon", {
        "block_count": 32, "context_length": 2048, "embedding_length": 4544, "attention.head_count": 71,
        "attention.head_count_kv": 1,
    }, 512, [
        ("k", 64, 1024, "0-31"),
        ("v", 64, 1024, "0-31"),
    ]),
    Run("gemma2-9b", "gemma2", {
        "block_count": 42, "context_length": 8192, "attention.head_count": 16, "attention.head_count_kv": 8,
        "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 4096,
    }, 300, [
        ("k", 2048, 512, "1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41"),
        ("v", 2048, 512, "1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41"),
        ("k", 2048, 512, "0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40"),
        ("v", 2048, 512, "0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40"),
    ]),
    Run("gemma3-27b", "gemma3", {
        "block_count": 62, "context_length": 131072, "attention.head_count": 32, "attention.head_count_kv": 16,
        "attention.key_length": 128, "attention.value_length": 128, "attention.sliding_window": 1024,
    }, 512, [
        ("k", 2048, 5120, "5 11 17 23 29 35 41 47 53 59"),
        ("v", 2048, 5120, "5 11 17 23 29 35 41 47 53 59"),
        ("k", 2048, 1536, "0-4 6-10 12-16 18-22 24-28 30-34 36-40 42-46 48-52 54-58 60-61"),
        ("v", 2048, 1536, "0-4 6-10 12-16 18-22 24-28 30-34 36-40 42-46 48-52 54-58 60-61"),
    ]),
    Run("gemma3-4b", "gemma3", {
        "block_count": 34, "context_length": 131072, "attention.head_count": 8, "attention.head_count_kv": 4,
        "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 1024,
    }, 128, [
        ("k", 1024, 10240, "5 11 17 23 29"),
        ("v", 1024, 10240, "5 11 17 23 29"),
        ("k", 1024, 1280, "0-4 6-10 12-16 18-22 24-28 30-33"),
        ("v", 1024, 1280, "0-4 6-10 12-16 18-22 24-28 30-33"),
    ]),
    Run("gemma3n-e4b", "gemma3n", {
        "block_count": 35, "context_length": 32768, "attention.head_count": 8, "attention.head_count_kv": 2,
        "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 512,
        "embedding_length": 256,
        "attention.sliding_window_pattern": [c == "1" for c in "11110111101111011110111101111011110"],
        "attention.shared_kv_layers": 15,
    }, 128, [
        ("k", 512, 10240, "4 9 14 19"),
        ("v", 512, 10240, "4 9 14 19"),
        ("k", 512, 768, "0-3 5-8 10-13 15-18"),
        ("v", 512, 768, "0-3 5-8 10-13 15-18"),
    ]),
    Run("gemma4-e2b-like", "gemma4", {
        "block_count": 35, "context_length": 131072, "attention.head_count": 8, "attention.head_count_kv": 1,
        "attention.key_length": 512, "attention.value_length": 512, "attention.key_length_swa": 256,
        "attention.value_length_swa": 256, "attention.sliding_window": 512, "attention.shared_kv_layers": 20,
        "attention.sliding_window_pattern": [c == "1" for c in "11110111101111011110111101111011110"],
        "rope.dimension_count": 512, "rope.dimension_count_swa": 256,
    }, 512, [
        ("k", 512, 10240, "4 9 14"),
        ("v", 512, 10240, "4 9 14"),
        ("k", 256, 1024, "0-3 5-8 10-13"),
        ("v", 256, 1024, "0-3 5-8 10-13"),
    ]),
    Run("glm4-9b", "glm4", {
        "block_count": 40, "context_length": 32768, "embedding_length": 4096, "attention.head_count": 32,
        "attention.head_count_kv": 2, "attention.key_length": 128, "attention.value_length": 128,
        "rope.dimension_count": 64,
    }, 512, [
        ("k", 256, 512, "0-39"),
        ("v", 256, 512, "0-39"),
    ]),
    Run("glm4.5-moe-nextn", "glm4moe", {
        "block_count": 93, "nextn_predict_layers": 1, "context_length": 131072, "attention.head_count": 96,
        "attention.head_count_kv": 8, "attention.key_length": 128, "attention.value_length": 128,
        "rope.dimension_count": 64, "expert_count": 2, "leading_dense_block_count": 3,
    }, 512, [
        ("k", 1024, 1024, "0-91"),
        ("v", 1024, 1024, "0-91"),
    ]),
    Run("gpt-oss-20b", "gpt-oss", {
        "block_count": 24, "context_length": 131072, "attention.head_count": 64, "attention.head_count_kv": 8,
        "attention.key_length": 64, "attention.value_length": 64, "attention.sliding_window": 128, "expert_count": 2,
    }, 2048, [
        ("k", 512, 10240, "1 3 5 7 9 11 13 15 17 19 21 23"),
        ("v", 512, 10240, "1 3 5 7 9 11 13 15 17 19 21 23"),
        ("k", 512, 2304, "0 2 4 6 8 10 12 14 16 18 20 22"),
        ("v", 512, 2304, "0 2 4 6 8 10 12 14 16 18 20 22"),
    ]),
    Run("gpt2", "gpt2", {
        "block_count": 12, "context_length": 1024, "embedding_length": 768, "attention.head_count": 12,
    }, 512, [
        ("k", 768, 1024, "0-11"),
        ("v", 768, 1024, "0-11"),
    ]),
    Run("granite-4.0-h-tiny", "granitehybrid", {
        "block_count": 40, "context_length": 131072, "embedding_length": 1536, "attention.head_count": 12,
        "attention.head_count_kv": [0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0],
        "ssm.conv_kernel": 4, "ssm.inner_size": 3072, "ssm.state_size": 128, "ssm.time_step_rank": 48,
        "ssm.group_count": 1, "rope.dimension_count": 128, "expert_count": 2,
    }, 512, [
        ("k", 512, 1024, "5 15 25 35"),
        ("v", 512, 1024, "5 15 25 35"),
        ("r", 9984, 1, "0-4 6-14 16-24 26-34 36-39"),
        ("s", 393216, 1, "0-4 6-14 16-24 26-34 36-39"),
    ]),
    Run("jamba-v0.1", "jamba", {
        "block_count": 32, "context_length": 262144, "embedding_length": 4096, "attention.head_count": 32,
        "attention.head_count_kv": [0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0],
        "ssm.conv_kernel": 4, "ssm.inner_size": 8192, "ssm.state_size": 16, "ssm.time_step_rank": 256,
        "expert_count": 2,
    }, 512, [
        ("k", 1024, 2048, "4 12 20 28"),
        ("v", 1024, 2048, "4 12 20 28"),
        ("r", 24576, 1, "0-3 5-11 13-19 21-27 29-31"),
        ("s", 131072, 1, "0-3 5-11 13-19 21-27 29-31"),
    ]),
    Run("kimi-linear-48b", "kimi-linear", {
        "block_count": 27, "context_length": 1048576, "embedding_length": 256, "attention.head_count": 32,
        "attention.head_count_kv": [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1],
        "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192,
        "attention.value_length_mla": 128, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
        "ssm.conv_kernel": 4, "kda.head_dim": 128, "expert_count": 2, "leading_dense_block_count": 1,
    }, 512, [
        ("k", 576, 2048, "3 7 11 15 19 23 26"),
        ("r", 36864, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-25"),
        ("s", 524288, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-25"),
    ]),
    Run("lfm2-1.2b", "lfm2", {
        "block_count": 16, "context_length": 128000, "embedding_length": 2048, "attention.head_count": 32,
        "attention.head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0], "shortconv.l_cache": 3,
    }, 512, [
        ("k", 512, 2048, "2 5 8 10 12 14"),
        ("v", 512, 2048, "2 5 8 10 12 14"),
        ("r", 4096, 1, "0-1 3-4 6-7 9 11 13 15"),
        ("s", 0, 1, "0-1 3-4 6-7 9 11 13 15"),
    ]),
    Run("llama-2-7b-mha", "llama", {
        "block_count": 32, "context_length": 4096, "embedding_length": 4096, "attention.head_count": 32,
    }, 512, [
        ("k", 4096, 512, "0-31"),
        ("v", 4096, 512, "0-31"),
    ]),
    Run("llama-3.1-8b", "llama", {
        "block_count": 32, "context_length": 131072, "attention.head_count": 32, "attention.head_count_kv": 8,
        "attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128,
    }, 512, [
        ("k", 1024, 5120, "0-31"),
        ("v", 1024, 5120, "0-31"),
    ]),
    Run("llama4-scout", "llama4", {
        "block_count": 48, "context_length": 10485760, "attention.head_count": 40, "attention.head_count_kv": 8,
        "attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128, "expert_count": 2,
    }, 128, [
        ("k", 1024, 10240, "3 7 11 15 19 23 27 31 35 39 43 47"),
        ("v", 1024, 10240, "3 7 11 15 19 23 27 31 35 39 43 47"),
        ("k", 1024, 8448, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30 32-34 36-38 40-42 44-46"),
        ("v", 1024, 8448, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30 32-34 36-38 40-42 44-46"),
    ]),
    Run("mamba-2.8b", "mamba", {
        "block_count": 64, "context_length": 1048576, "embedding_length": 2560, "attention.head_count": 0,
        "ssm.conv_kernel": 4, "ssm.inner_size": 5120, "ssm.state_size": 16, "ssm.time_step_rank": 160,
    }, 512, [
        ("r", 15360, 1, "0-63"),
        ("s", 81920, 1, "0-63"),
    ]),
    Run("mamba2-codestral-7b-8layers", "mamba2", {
        "block_count": 8, "context_length": 1048576, "embedding_length": 4096, "attention.head_count": 0,
        "ssm.conv_kernel": 4, "ssm.inner_size": 8192, "ssm.state_size": 128, "ssm.time_step_rank": 128,
        "ssm.group_count": 8,
    }, 512, [
        ("r", 30720, 1, "0-7"),
        ("s", 1048576, 1, "0-7"),
    ]),
    Run("minimax-m3-msa-like", "minimax-m3", {
        "block_count": 8, "context_length": 131072, "attention.head_count": 16, "attention.head_count_kv": 4,
        "attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 64,
        "attention.indexer.head_count": 4, "attention.indexer.key_length": 128, "attention.indexer.top_k": 16,
        "attention.indexer.block_size": 128, "attention.indexer.local_blocks": 1, "expert_count": 2,
        "leading_dense_block_count": 3,
    }, 512, [
        ("k", 512, 5120, "0-7"),
        ("v", 512, 5120, "0-7"),
        ("k", 128, 5120, "3-7"),
        ("v", 128, 5120, "3-7"),
    ]),
    Run("minimax-text-01", "minimax-01", {
        "block_count": 80, "context_length": 131072, "embedding_length": 256, "attention.head_count": 64,
        "attention.head_count_kv": 8, "attention.key_length": 128, "attention.value_length": 128,
        "rope.dimension_count": 64, "full_attention_interval": 8, "expert_count": 2,
    }, 512, [
        ("k", 1024, 2048, "7 15 23 31 39 47 55 63 71 79"),
        ("v", 1024, 2048, "7 15 23 31 39 47 55 63 71 79"),
        ("r", 0, 1, "0-6 8-14 16-22 24-30 32-38 40-46 48-54 56-62 64-70 72-78"),
        ("s", 1048576, 1, "0-6 8-14 16-22 24-30 32-38 40-46 48-54 56-62 64-70 72-78"),
    ]),
    Run("mixtral-8x7b", "llama", {
        "block_count": 32, "context_length": 32768, "attention.head_count": 32, "attention.head_count_kv": 8,
        "attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128, "expert_count": 2,
    }, 512, [
        ("k", 1024, 1024, "0-31"),
        ("v", 1024, 1024, "0-31"),
    ]),
    Run("nemotron-h-8b", "nemotron_h", {
        "block_count": 52, "context_length": 8192, "embedding_length": 4096, "attention.head_count": 32,
        "attention.head_count_kv": [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "feed_forward_length": [0, 32, 0, 32, 0, 32, 0, 0, 32, 0, 32, 0, 32, 0, 32, 0, 32, 0, 0, 32, 0, 32, 0, 32, 0, 32, 0, 32, 0, 0, 32, 0, 32, 0, 32, 0, 32, 0, 32, 0, 0, 32, 0, 32, 0, 32, 0, 32, 0, 32, 0, 32],
        "attention.key_length": 128, "attention.value_length": 128, "ssm.conv_kernel": 4, "ssm.inner_size": 8192,
        "ssm.state_size": 128, "ssm.time_step_rank": 128, "ssm.group_count": 8,
    }, 512, [
        ("k", 1024, 2048, "7 18 29 40"),
        ("v", 1024, 2048, "7 18 29 40"),
        ("r", 30720, 1, "0 2 4 6 9 11 13 15 17 20 22 24 26 28 31 33 35 37 39 42 44 46 48 50"),
        ("s", 1048576, 1, "0 2 4 6 9 11 13 15 17 20 22 24 26 28 31 33 35 37 39 42 44 46 48 50"),
    ]),
    Run("openelm-270m", "openelm", {
        "block_count": 16, "context_length": 2048, "embedding_length": 1280,
        "attention.head_count": [12, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20],
        "attention.head_count_kv": [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5], "attention.key_length": 64,
        "attention.value_length": 64,
    }, 512, [
        ("k", 192, 1024, "0-4"),
        ("v", 192, 1024, "0-4"),
        ("k", 256, 1024, "5-11"),
        ("v", 256, 1024, "5-11"),
        ("k", 320, 1024, "12-15"),
        ("v", 320, 1024, "12-15"),
    ]),
    Run("phi3-mini-4k", "phi3", {
        "block_count": 32, "context_length": 4096, "attention.head_count": 32, "attention.head_count_kv": 32,
        "embedding_length": 3072, "rope.dimension_count": 96, "attention.sliding_window": 2047,
    }, 512, [
        ("k", 3072, 1024, "0-31"),
        ("v", 3072, 1024, "0-31"),
    ]),
    Run("qwen2-7b", "qwen2", {
        "block_count": 28, "context_length": 131072, "attention.head_count": 28, "attention.head_count_kv": 4,
        "attention.key_length": 128, "attention.value_length": 128, "embedding_length": 3584,
    }, 512, [
        ("k", 512, 4352, "0-27"),
        ("v", 512, 4352, "0-27"),
    ]),
    Run("qwen3-30b-a3b", "qwen3moe", {
        "block_count": 48, "context_length": 40960, "attention.head_count": 32, "attention.head_count_kv": 4,
        "attention.key_length": 128, "attention.value_length": 128, "expert_count": 2,
    }, 512, [
        ("k", 512, 1024, "0-47"),
        ("v", 512, 1024, "0-47"),
    ]),
    Run("qwen3-8b", "qwen3", {
        "block_count": 36, "context_length": 40960, "attention.head_count": 32, "attention.head_count_kv": 8,
        "attention.key_length": 128, "attention.value_length": 128,
    }, 512, [
        ("k", 1024, 512, "0-35"),
        ("v", 1024, 512, "0-35"),
    ]),
    Run("qwen3-next-80b", "qwen3next", {
        "block_count": 48, "context_length": 262144, "embedding_length": 256, "attention.head_count": 16,
        "attention.head_count_kv": 2, "attention.key_length": 256, "attention.value_length": 256,
        "rope.dimension_count": 64, "ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128,
        "ssm.time_step_rank": 32, "ssm.group_count": 16, "full_attention_interval": 4, "expert_count": 2,
    }, 512, [
        ("k", 512, 2048, "3 7 11 15 19 23 27 31 35 39 43 47"),
        ("v", 512, 2048, "3 7 11 15 19 23 27 31 35 39 43 47"),
        ("r", 24576, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30 32-34 36-38 40-42 44-46"),
        ("s", 524288, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30 32-34 36-38 40-42 44-46"),
    ]),
    Run("qwen3.5-like-nextn", "qwen35", {
        "block_count": 33, "nextn_predict_layers": 1, "context_length": 262144, "embedding_length": 256,
        "attention.head_count": 16, "attention.head_count_kv": 4, "attention.key_length": 256,
        "attention.value_length": 256, "rope.dimension_count": 64, "ssm.conv_kernel": 4, "ssm.inner_size": 4096,
        "ssm.state_size": 128, "ssm.time_step_rank": 32, "ssm.group_count": 16, "full_attention_interval": 4,
    }, 512, [
        ("k", 1024, 2048, "3 7 11 15 19 23 27 31"),
        ("v", 1024, 2048, "3 7 11 15 19 23 27 31"),
        ("r", 24576, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30"),
        ("s", 524288, 1, "0-2 4-6 8-10 12-14 16-18 20-22 24-26 28-30"),
    ]),
    Run("rwkv6-1.6b", "rwkv6", {
        "block_count": 24, "context_length": 1048576, "embedding_length": 2048, "attention.head_count": 0,
        "wkv.head_size": 64,
    }, 512, [
        ("r", 4096, 1, "0-23"),
        ("s", 131072, 1, "0-23"),
    ]),
    Run("starcoder-mqa", "starcoder", {
        "block_count": 40, "context_length": 8192, "embedding_length": 6144, "attention.head_count": 48,
        "attention.head_count_kv": 1,
    }, 512, [
        ("k", 128, 1024, "0-39"),
        ("v", 128, 1024, "0-39"),
    ]),
]
