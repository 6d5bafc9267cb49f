"""GGUF files with latent, compressed and recurrent layers, drafts and decoders."""

import pytest

import kvcalc
from kvcalc.core.model import Attention, Latent

from .gguf_models import DSV4, HEADS, INDEX, KDA, MIXED, MLA, SSM, WINDOW, model_of, preset, refused


def test_latent_attention():
    """With the per-head sizes apart the cache is one vector of rank + rope; the head count of the cache is no matter."""
    data = preset("deepseek2", 3, MLA)
    assert (data["layers"], data["caches"]) == ("3 latent", {"latent": {"rank": 512, "rope": 64}})
    assert (data["heads"], data["k_dim"], data["v_dim"]) == (16, 192, 128)
    assert "kv_heads" not in data


def test_latent_attention_of_old_files():
    """Files without the per-head sizes keep all heads, which the note says; half of the sizes is refused."""
    old = {"attention.head_count": 16, "attention.key_length": 192, "attention.value_length": 128,
           "attention.kv_lora_rank": 512}  # fmt: skip
    data = preset("deepseek2", 3, old)
    assert (data["layers"], data["kv_heads"], data["k_dim"], data["v_dim"]) == ("3 full", 16, 192, 128)
    assert "latent, of rank 512, but this file is from before" in data["note"]
    message = refused("deepseek2", 3, old, {"attention.key_length_mla": 192})
    assert (
        message
        == "m.gguf: deepseek2.attention.value_length_mla: expected the width of one head before compression, got nothing"
    )
    assert "key_length_mla" in refused("kimi-k3", 3, old, KDA)
    data = preset("minicpm3", 3, {**old, "attention.kv_lora_rank": 256})
    assert data["layers"] == "3 full"
    assert "latent, of rank 256, but its GGUF files keep all heads" in data["note"]


def test_widths_that_are_no_latent():
    """A key narrower than the latent, or a value that is not the latent, is refused."""
    assert "expected kv_lora_rank and the rotary part" in refused("deepseek2", 1, MLA, {"attention.key_length": 500})
    assert "expected kv_lora_rank and the rotary part" in refused("deepseek2", 1, MLA, {"attention.value_length": 128})


@pytest.mark.parametrize(
    ("arch", "keys", "layers", "indexer"),
    [
        ("deepseek32", {}, "4 latent+indexer", {"dim": 128, "store": "fp8+scale"}),
        ("glm-dsa", {"context_length": 202752}, "4 latent+indexer", {"dim": 128, "store": "fp8+scale"}),
        ("glm-dsa", {"context_length": 1048576}, "3 latent+indexer, latent", {"dim": 128, "store": "fp8+scale"}),
        ("glm-dsa", {"attention.indexer.types": [1, 0, 0, 1]}, "latent+indexer, 2 latent, latent+indexer",
         {"dim": 128, "store": "fp8+scale"}),
        ("hy_v4", {"attention.indexer.types": [1, 0, 1, 0]}, "2 x (latent+indexer, latent)", {"dim": 128}),
        ("hy_v4", {"attention.indexer.top_k": 0}, "4 latent", None),
    ],
)  # fmt: skip
def test_index_keys_of_latent_attention(arch, keys, layers, indexer):
    """The layers that own an indexer keep its key beside the latent."""
    if keys.get("attention.indexer.top_k") == 0:
        keys = {**keys, "attention.indexer.key_length": 0}
    data = preset(arch, 4, MLA, INDEX, keys)
    assert (data["layers"], data["caches"].get("indexer")) == (layers, indexer)


def test_how_sparse_attention_chooses():
    """Heads and tokens of an index are read where both are in units that the file explains."""
    data = preset("deepseek32", 4, MLA, INDEX)
    assert (data["index_heads"], data["index_topk"]) == (64, 2048)
    blocks = preset("minimax-m3", 3, HEADS, INDEX, {"attention.indexer.block_size": 128})
    assert "index_topk" not in blocks
    assert "index_topk" not in preset("deepseek2", 3, MLA)


def test_index_keys_of_plain_attention():
    """MiniMax M3 has index keys behind its leading dense blocks, and chooses whole blocks of tokens."""
    data = preset("minimax-m3", 3, HEADS, INDEX, {"leading_dense_block_count": 1, "attention.indexer.block_size": 128})
    assert (data["layers"], data["caches"]) == ("full, 2 full+indexer", {"indexer": {"dim": 128, "block": 128}})


def test_compressed_attention():
    """DeepSeek V4 keeps a window in every layer and entries for 4 or 128 tokens in most; other ratios are refused."""
    data = preset("deepseek4", 4, DSV4, {"attention.compress_ratios": [0, 4, 128, 0, 0], "nextn_predict_layers": 1})
    assert (data["layers"], data["draft"]) == ("window, window+csa, window+hca", "window")
    assert data["caches"] == {
        "window": {"kind": "sliding", "rope": 64, "window": 128},
        "csa": {"kind": "compressed", "ratio": 4, "dim": 512, "rope": 64, "overlap": True, "indexer": 128},
        "hca": {"kind": "compressed", "ratio": 128, "dim": 512, "rope": 64},
    }
    assert (data["kv_heads"], data["k_dim"], data["v_dim"]) == (1, 512, 0)
    for ratios in ([0, 8], [4]):
        assert "deepseek4.attention.compress_ratios: expected" in refused(
            "deepseek4", 2, DSV4, {"attention.compress_ratios": ratios}
        )
    keys = {"attention.compress_ratios": [0, 0], "attention.head_count_kv": 2}
    assert "expected 1 in block 0, one vector" in refused("deepseek4", 2, DSV4, keys)


def test_latent_attention_of_two_sizes():
    """Dots 3 slides over a smaller latent in most layers, written as one vector that is key and value."""
    data = preset("dots3note", 3, MLA, INDEX, WINDOW, {
        "attention.head_count": [16, 8, 16], "attention.sliding_window_pattern": [0, 1, 0], "attention.indexer.types": [1, 0, 1],
        "attention.kv_lora_rank_swa": 256, "attention.key_length_swa": 320, "attention.value_length_swa": 256,
        "attention.key_length_mla_swa": 128, "attention.value_length_mla_swa": 64,
    })  # fmt: skip
    assert data["layers"] == "latent+indexer, sliding, latent+indexer"
    latent, sliding = model_of(data).layers[0][0], model_of(data).layers[1][0]
    assert latent == Latent(512, 64, 16, 192, 128)
    assert sliding == Attention("sliding", 8, 1, 320, 0, 1024, 64)


@pytest.mark.parametrize(
    ("arch", "keys", "layers", "caches"),
    [
        ("mamba", {**SSM, "ssm.group_count": 0}, "3 mamba1", {"mamba1": {"inner": 4096, "state": 128, "conv": 4}}),
        ("mamba2", SSM, "3 mamba2", {"mamba2": {"heads": 32, "head_dim": 128, "groups": 16, "state": 128, "conv": 4}}),
        ("jamba", {**MIXED, **SSM, "ssm.group_count": 0}, "mamba1, full, mamba1",
         {"mamba1": {"inner": 4096, "state": 128, "conv": 4}}),
        ("granitehybrid", {**MIXED, **SSM}, "mamba2, full, mamba2",
         {"mamba2": {"heads": 32, "head_dim": 128, "groups": 16, "state": 128, "conv": 4}}),
        ("plamo2", {**MIXED, **SSM, "ssm.group_count": 0, "attention.head_count": [0, 8, 0], "attention.key_length": 64,
                    "attention.value_length": 64},
         "mamba1, full, mamba1", {"mamba1": {"inner": 4096, "state": 128, "conv": 4}}),
        ("falcon-h1", {**HEADS, **SSM}, "3 full+mamba2",
         {"mamba2": {"heads": 32, "head_dim": 128, "groups": 16, "state": 128, "conv": 4}}),
        ("nemotron_h_moe", {**MIXED, **SSM, "feed_forward_length": [0, 0, 32]}, "mamba2, full, none",
         {"mamba2": {"heads": 32, "head_dim": 128, "groups": 16, "state": 128, "conv": 4}}),
        ("qwen35moe", {**HEADS, **SSM, "full_attention_interval": 3}, "2 deltanet, full",
         {"deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128, "conv": 4}}),
        ("qwen3next", {**HEADS, **SSM, "attention.recurrent_layers": [True, False, True]}, "deltanet, full, deltanet",
         {"deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128, "conv": 4}}),
        ("minimax-01", {**HEADS, "full_attention_interval": 2}, "lightning, full, lightning",
         {"lightning": {"heads": 8, "head_dim": 64}}),
        ("lfm2moe", {**MIXED, "shortconv.l_cache": 3}, "shortconv, full, shortconv", {"shortconv": {"width": 512, "conv": 3}}),
        ("lfm2", {**MIXED, "shortconv.l_cache": 3, **WINDOW}, "shortconv, sliding, shortconv",
         {"shortconv": {"width": 512, "conv": 3}, "sliding": {"window": 1024}}),
        ("kimi-k3", {**MLA, **KDA, "attention.head_count_kv": [0, 0, 1]}, "2 kda, latent",
         {"kda": {"heads": 16, "head_dim": 128, "conv": 4}, "latent": {"rank": 512, "rope": 64}}),
        ("rwkv7", {"embedding_length": 512, "wkv.head_size": 64, "attention.head_count": 0}, "3 rwkv",
         {"rwkv": {"width": 512, "head_dim": 64}}),
        ("arwkv7", {"embedding_length": 512, "wkv.head_size": 64, "attention.head_count": 0, "token_shift_count": 1},
         "3 shift+wkv", {"shift": {"kind": "shortconv", "width": 512, "conv": 2},
                         "wkv": {"kind": "lightning", "heads": 8, "head_dim": 64}}),
        ("glm5-next", {**MLA, **KDA, **INDEX, "attention.indexer.kpool": 4, "attention.head_count_kv": [0, 0, 1]},
         "2 kda, latent+indexer", {"kda": {"heads": 16, "head_dim": 128, "conv": 4}, "latent": {"rank": 512, "rope": 64},
                                   "indexer": {"dim": 384}}),
        ("qwen4exp", {**HEADS, **SSM, **INDEX, "full_attention_interval": 3, "ple.layers": [1], "ple.ngram_size": 3,
                      "ple.conv_kernel": 4, "hyper_connection.count": 2},
         "deltanet, deltanet+ngrams, full+indexer",
         {"deltanet": {"k_heads": 16, "k_dim": 128, "v_heads": 32, "v_dim": 128, "conv": 4},
          "ngrams": {"kind": "shortconv", "width": 3072, "conv": 4}, "indexer": {"dim": 128}}),
    ],
)  # fmt: skip
def test_recurrent_and_hybrid_models(arch, keys, layers, caches):
    """Each recurrent architecture has its states where its file has no KV heads, or where its interval says."""
    data = preset(arch, 3, keys)
    assert (data["layers"], data["caches"]) == (layers, caches)


def test_draft_layers():
    """Blocks counted by nextn_predict_layers are the draft and no part of the model; they slide where the file says."""
    data = preset("glm4moe", 5, HEADS, nextn_predict_layers=1)
    assert (data["layers"], data["draft"]) == ("4 full", "full")
    data = preset("qwen35", 5, HEADS, SSM, nextn_predict_layers=1)
    assert (data["layers"], data["draft"]) == ("3 deltanet, full", "full")
    keys = {"attention.sliding_window_pattern": [0, 1, 1], "attention.head_count_kv": [1, 2, 2]}
    data = preset("mimo2", 3, HEADS, WINDOW, keys, nextn_predict_layers=1)
    assert (data["layers"], data["draft"]) == ("full, sliding", "sliding")
    data = preset("exaone-moe", 5, HEADS, WINDOW, nextn_predict_layers=1)
    assert (data["layers"], data["draft"]) == ("3 sliding, full", "full")
    data = preset("nemotron_h_moe", 4, MIXED, SSM, {
        "attention.head_count_kv": [0, 2, 0, 2], "feed_forward_length": [0, 0, 32, 0]}, nextn_predict_layers=1)  # fmt: skip
    assert (data["layers"], data["draft"]) == ("mamba2, full, none", "full")
    assert "expected fewer than the 2 blocks" in refused("glm4moe", 2, HEADS, nextn_predict_layers=2)


def test_draft_layers_with_other_numbers_have_names_of_their_own():
    """A draft layer of other heads than the layers that have the name of its kind does not borrow that name."""
    data = preset("glm4moe", 5, HEADS, {"attention.head_count_kv": [2, 2, 4, 2, 8]}, nextn_predict_layers=3)
    assert (data["layers"], data["draft"]) == ("2 full", "draft-full, full, draft-full-2")
    assert data["caches"] == {
        "draft-full": {"kind": "full", "kv_heads": 4},
        "draft-full-2": {"kind": "full", "kv_heads": 8},
    }


def test_encoder_decoder():
    """T5 is sized by its decoder, with a cross cache of the encoder's tokens that llama.cpp does without."""
    keys = {"attention.head_count": 8, "attention.key_length": 64, "attention.value_length": 64, "context_length": 512}
    data = preset("t5", 6, keys, {"attention.relative_buckets_count": 32, "decoder_start_token_id": 0})
    assert (data["layers"], data["encoder_tokens"]) == ("6 full+cross", 512)
    assert model_of(data).layers == kvcalc.load("t5-small").layers
    assert preset("t5", 6, keys, decoder_block_count=3)["layers"] == "3 full+cross"


def test_layers_that_are_not_the_blocks():
    """Nanbeige runs its blocks several times; Granite Switch has a layer of one head for its adapters."""
    assert preset("nanbeige", 3, HEADS, num_loops=2)["layers"] == "6 full"
    assert "nanbeige.num_loops: expected" in refused("nanbeige", 300, HEADS, num_loops=2)
    data = preset("graniteswitch", 3, HEADS, {"adapters.count": 4})
    assert (data["layers"], data["caches"]) == (
        "3 full, router",
        {"router": {"kind": "full", "heads": 1, "kv_heads": 1}},
    )
