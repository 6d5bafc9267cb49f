"""Start-up lines of real deployments, and what each comes to.

Seen in public repositories and issues of 2024 to 2026; of each only what matters was written down again, with paths and
names made short. What must come out was worked out by hand from the engines' documentation of each flag: llama-server has
4 slots in one pool unless -np says otherwise; -c is for all of them, and what each pool has is padded to 256 cells; llama-cli has
one slot.
"""

from typing import NamedTuple


class Line(NamedTuple):
    """Where it was seen; the text; the program, the model in its words, and the engine's settings that must follow.

    `front` is the MODEL that has to be given, where the command's own model is on another machine. `chosen` are words
    behind `-`, `warns` the beginnings of warnings.
    """

    seen: str
    text: str
    program: str
    model: str | None
    values: dict[str, object]
    front: str | None = None
    engine: str | None = None
    chosen: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()


def pool(n_ctx: int, **more: object) -> dict[str, object]:
    """llama-server by default: 4 slots that share all cells."""
    return {"n_ctx": n_ctx, "n_seq_max": 4, "kv_unified": True, **more}


def slots(n_ctx: int, n_seq_max: int = 1, **more: object) -> dict[str, object]:
    """Slots with cells of their own."""
    return {"n_ctx": n_ctx, "n_seq_max": n_seq_max, "kv_unified": False, **more}


Q8 = {"type_k": "q8_0", "type_v": "q8_0"}
Q4 = {"type_k": "q4_0", "type_v": "q4_0"}
SERVER = "llama-server"

# One command each, as it is typed in a shell.
COMMANDS = [
    Line("repository, docstring of a client",
         "llama-server -m model/Qwen2.5-3B-Instruct-Q4_K_M.gguf --port 8080 --ctx-size 4096",
         SERVER, "model/Qwen2.5-3B-Instruct-Q4_K_M.gguf", pool(4096, n_batch=2048, n_ubatch=512), "qwen2.5-3b"),
    Line("repository, README, in the background",
         "~/llama.cpp/build/bin/llama-server -m /path/to/model.gguf --port 8081 -c 4096 &",
         SERVER, "/path/to/model.gguf", pool(4096), "qwen3.5-4b"),
    Line("repository, notes, with the output in a file",
         "llama-server -m data/gguf/Qwen3-4B-Instruct-2507-Q4_K_M.gguf \\\n    -c 8192 -ngl 999 --no-webui --port 8099 > s.log 2>&1 &",
         SERVER, "data/gguf/Qwen3-4B-Instruct-2507-Q4_K_M.gguf", pool(8192), "qwen3-4b"),
    Line("repository, script that starts servers on other machines",
         'ssh mesh-a "nohup llama-server -m ~/models/Qwen3-0.6B-Q8_0.gguf --host 0.0.0.0 --ctx-size 4096 -t 4 --parallel 1 --metrics > ~/micro.log 2>&1 &"',
         SERVER, "~/models/Qwen3-0.6B-Q8_0.gguf", slots(4096), "qwen3-0.6b"),
    Line("the same, in a folder",
         'ssh mesh-c "cd ~/llama.cpp && nohup build/bin/llama-server -m models/Carnice-9B.i1-Q4_K_M.gguf -c 8192 -ngl 99 --parallel 1 -ctk q4_0 -ctv q4_0 -fa"',
         SERVER, "models/Carnice-9B.i1-Q4_K_M.gguf", slots(8192, **Q4, flash_attn="on"), "qwen3-8b"),
    Line("pull request 15077 of llama.cpp",
         "llama-server -hf ggml-org/gpt-oss-120b-GGUF --ctx-size 0 --jinja --flash-attn --n-gpu-layers 99 --reasoning-format none --n-cpu-moe 3",
         SERVER, "ggml-org/gpt-oss-120b-GGUF", pool(131072, flash_attn="on", swa_cells=1024)),  # 4 x 128 + 512
    Line("issue 15263 of llama.cpp",
         'llama-server --model ~/models/gpt-oss-120b-MXFP4-00001-of-00002.gguf --ctx-size 65536 --threads 1 --batch-size 4096 --ubatch-size 2048 -ot ".ffn_(up|down)_exps.=CPU" --flash-attn --top-k 0 --n-gpu-layers 999 --chat-template-kwargs \'{"reasoning_effort":"high"}\'',
         SERVER, "~/models/gpt-oss-120b-MXFP4-00001-of-00002.gguf",
         pool(65536, n_batch=4096, n_ubatch=2048, swa_cells=2560), "gpt-oss-120b"),  # 4 x 128 + 2,048
    Line("issue 14123 of llama.cpp",
         "./llama-server -m ./gemma-3-12b-it-Q4_K_M.gguf --threads 12 --ctx_size 50000 --n_gpu_layers 50 --offline --rope_freq_scale 0.9",
         SERVER, "./gemma-3-12b-it-Q4_K_M.gguf", pool(50176), "gemma3-12b"),  # 196 x 256
    Line("issue of a fork, Windows",
         'llama-server.exe -m "f:\\_AI\\Qwen3.6-35B-A3B-Q2.gguf" --alias "Qwen3.6 35B" --host 127.0.0.1 --n-gpu-layers 999 --fit off --ctx-size 120000 -ctk q8_0 -ctv q8_0 --flash-attn on --batch-size 512 --ubatch-size 512 --no-mmap --mlock --parallel 1 --prio 2 --log-colors off --kv-unified --metrics --jinja',
         SERVER, "f:\\_AI\\Qwen3.6-35B-A3B-Q2.gguf",
         {"n_ctx": 120064, "n_seq_max": 1, "kv_unified": True, **Q8, "n_batch": 512}, "qwen3.6-35b-a3b"),  # 469 x 256
    Line("repository, a leaderboard's form",
         ".\\\\llama-server.exe -hf unsloth/gemma-4-31B-it-qat-GGUF:UD-Q4_K_XL --device Vulkan0 --fit off -ngl 999 -fa on --ctx-size 180000 -np 2 --cache-type-k q8_0 --cache-type-v q8_0 --cache-ram 0 --ctx-checkpoints 0 --no-context-shift --batch-size 256 --ubatch-size 512 --jinja --reasoning off --temp 1.0",
         SERVER, "unsloth/gemma-4-31B-it-qat-GGUF", slots(180224, 2, **Q8, n_ubatch=256), "gemma4-31b"),  # 2 x 352 x 256
    Line("repository, guide for an old machine",
         ".\\\\llama-server.exe -m .\\\\gemma-4-E4B-it-Q4_K_S.gguf -c 64000 -ngl 0 -ctk q4_0 -ctv q4_0 --mmap --temp 1.0 --top-k 64 --host 0.0.0.0",
         SERVER, ".\\gemma-4-E4B-it-Q4_K_S.gguf", pool(64000, **Q4), "gemma4-e4b"),
    Line("repository, README", "llama-server.exe -m path/to/Qwen3.5-35B-A3B.gguf --port 8080 -c 262144",
         SERVER, "path/to/Qwen3.5-35B-A3B.gguf", pool(262144), "qwen3.5-35b-a3b"),
    Line("repository, README",
         "llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ngl 999 -c 28672 -fa on --cache-type-k q8_0 --cache-type-v q8_0",
         SERVER, "unsloth/Qwen3-8B-GGUF", pool(28672, **Q8, flash_attn="on")),
    Line("repository, notes for tuning",
         "taskset -c 0-7 llama-server -m model.gguf --no-mmap --mlock --cache-type-k q8_0 --cache-type-v q8_0 --parallel 4 --cache-prompt",
         SERVER, "model.gguf", slots(4 * 40960, 4, **Q8), "qwen3-8b"),  # the limit for each, while --fit is on
    Line("repository, script for NUMA",
         'nohup env LD_LIBRARY_PATH="/opt/lib" numactl --interleave=all /opt/llama/llama-server --model /m/GLM-4.7-Flash.gguf --alias GLM --ctx-size 32768 --n-gpu-layers 0 --batch-size 512 --ubatch-size 512 --cache-type-k q8_0 --cache-type-v q8_0 --cache-prompt -fa on --no-mmap --cont-batching > s.log 2>&1 &',
         SERVER, "/m/GLM-4.7-Flash.gguf", pool(32768, **Q8, n_batch=512), "glm4.7-flash"),
    Line("repository, benchmark script",
         "systemd-run --scope --collect -q -p MemoryHigh=190G -p AllowedCPUs=0-43 --setenv=LLAMA_ARG_N_PARALLEL=2 llama-server --model big.gguf --ctx-size 524288 --cache-type-k q8_0 --cache-type-v q8_0 --batch-size 2048 --ubatch-size 1024 --no-mmproj --no-ui --offline &",
         SERVER, "big.gguf", slots(524288, 2, **Q8, n_ubatch=1024), "qwen3.6-35b-a3b"),
    Line("repository, script with a service for a while",
         "systemd-run --user --unit=llama-service --description=\"Llama CPP\" bash -c \"llama-server -m '/m/a b.gguf' -t 4 -c 4096 --no-mmap > '/m/server.log' 2>&1\"",
         SERVER, "/m/a b.gguf", pool(4096), "qwen3-8b"),
    Line("repository, README for a toolbox",
         'distrobox enter llama-vulkan -- bash -c "llama-server -m /m/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf --alias moe -ngl 999 --no-mmap --ctx-size 65536 --jinja --cache-type-k q8_0 --cache-type-v q8_0 -b 128 -ub 128"',
         SERVER, "/m/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf", pool(65536, **Q8, n_batch=128, n_ubatch=128), "qwen3.6-35b-a3b"),
    Line("repository, script for a phone", 'screen -dmS llama bash -c "llama-server --model m.gguf -c 2048 2>&1 | tee llama.log"',
         SERVER, "m.gguf", pool(2048), "llama3.2-1b"),
    Line("repository, notes for a profiler", "nsys profile --trace=cuda,nvtx,osrt ~/llama.cpp/build/bin/llama-server -hf unsloth/gpt-oss-120b-GGUF:Q4_K_M -ncmoe 64",
         SERVER, "unsloth/gpt-oss-120b-GGUF", pool(131072)),
    Line("repository, completion in an editor", 'nohup llama-server --fim-qwen-7b-default -ngl 99 --port 8089 >"fim.log" 2>&1 &',
         SERVER, "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF", pool(32768, n_batch=1024, n_ubatch=1024), "qwen2.5-7b"),
    Line("repository, phone",
         "setsid nohup llama-server -m embed.gguf --embedding -c 8192 --host 0.0.0.0 -np 4 -b 1024 -ub 1024 -t 4 </dev/null >embed.log 2>&1 &",
         SERVER, "embed.gguf", slots(8192, 4, n_batch=1024, n_ubatch=1024), "qwen3-0.6b"),
    Line("repository, documentation of images",
         "docker run --gpus all -v /path/to/models:/models local/llama.cpp:server-cuda -m /models/7B/ggml-model-q4_0.gguf --port 8000 -n 512 --n-gpu-layers 100 --ctx-size 32768 --embedding --parallel 4",
         SERVER, "/models/7B/ggml-model-q4_0.gguf", slots(32768, 4), "llama2-7b"),
    Line("repository, guide",
         "docker run --rm --gpus all -p 8080:8080 -v ./models:/app/models -e LLAMA_ARG_MODEL=/app/models/Qwen3.5-9B-Q4_K_M.gguf -e LLAMA_ARG_CTX_SIZE=4096 -e LLAMA_ARG_N_GPU_LAYERS=99 ghcr.io/ggml-org/llama.cpp:server-cuda13",
         SERVER, "/app/models/Qwen3.5-9B-Q4_K_M.gguf", pool(4096), "qwen3.5-4b"),
    Line("repository, image by model and address",
         "docker run --name alpine -p 50000:8080 -e LLAMA_ARG_MODEL_URL=https://huggingface.co/unsloth/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf -e LLAMA_ARG_CTX_SIZE=2048 ghcr.io/ggml-org/llama.cpp:server",
         SERVER, "unsloth/Qwen3-8B-GGUF", pool(2048)),
    Line("repository, hardened container",
         "podman run --rm -d --network none --user 1000:1000 --userns=keep-id --volume /var/lib/models:/models:ro ghcr.io/ggml-org/llama.cpp:server-cuda13 --host /run/llama.sock --model /models/model.gguf --parallel 4 --no-slots",
         SERVER, "/models/model.gguf", slots(4 * 8192, 4), "llama3-8b"),
    Line("repository, two images compared: a tag that names the build",
         "docker run -d --name ref --runtime nvidia -e CUDA_DEVICE_ORDER=PCI_BUS_ID -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server-cuda-b7000 -m /m/a.gguf --mmproj /m/b.gguf -c 8192 -np 1 -sm tensor -ts 50,50 -fa on",
         SERVER, "/m/a.gguf", pool(8192), "llama3-8b"),  # in November 2025 -np 1 was the default of 4
    Line("repository, the image with all programs", "docker run -v /m:/models ghcr.io/ggml-org/llama.cpp:full --run -m /models/7B.gguf -p 'Building' -c 1024 -n 512",
         "tools.sh --run", "/models/7B.gguf", slots(1024), "llama2-7b"),
    Line("repository, an image of its own",
         'docker run --rm --gpus all --ipc=host harmony-bench:cu129 bash -c "llama-server -m /w/qwen2.5-0.5b-instruct-q4_k_m.gguf --port 8001 -np 1 -c 1024 -ctk q8_0 -fa on"',
         SERVER, "/w/qwen2.5-0.5b-instruct-q4_k_m.gguf", slots(1024, type_k="q8_0", type_v="fp16"), "qwen2.5-0.5b"),
    Line("repository, README of a model", "llama-cli -hf ggml-org/gpt-oss-20b-GGUF:Q8_0", "llama-cli", "ggml-org/gpt-oss-20b-GGUF", slots(131072)),
    Line("repository, notes", './build/bin/llama-cli -hf ggml-org/gemma-3-1b-it-GGUF -p "Hello, world!"',
         "llama-cli", "ggml-org/gemma-3-1b-it-GGUF", slots(32768)),
    Line("repository, README of a backend",
         "GGML_OPENVINO_DEVICE=GPU GGML_OPENVINO_STATEFUL_EXECUTION=1 llama-cli -m model.gguf -c 2048 --temp 0 -n 256 -fa 1",
         "llama-cli", "model.gguf", slots(2048, flash_attn="on"), "qwen3-8b"),
    Line("repository, benchmark",
         "llama-cli --seed 147369852 --threads 6 --model m.gguf --ctx_size 32768 --prio 3 -fa --cache-type-k q8_0 --cache-type-v q8_0 --n_gpu_layers 999 --top_k 40 -no-cnv --no-display-prompt --file p.md --simple-io --single-turn --jinja --reasoning-budget 0 --predict 1000",
         "llama-cli", "m.gguf", slots(32768, **Q8, flash_attn="on"), "qwen3-8b"),
    # Ollama
    Line("repository, test run", "env OLLAMA_CONTEXT_LENGTH=16384 OLLAMA_KEEP_ALIVE=60m nohup ollama serve > ollama.log 2>&1 &",
         "ollama serve", None, {"num_ctx": 16384, "num_parallel": 1}, "llama3.1-8b"),
    Line("repository, documentation",
         "docker run -d --gpus=all -v ollama:/models -p 11434:11434 -e OLLAMA_FLASH_ATTENTION=1 -e OLLAMA_KV_CACHE_TYPE=q8_0 --name ollama ollama/ollama",
         "ollama serve", None, {"num_ctx": 4096, "flash_attn": "on", **Q8}, "llama3.1-8b"),
    Line("repository, README", "docker exec -it ollama ollama run llama3.1:8b", "ollama run", "llama3.1:8b", {"num_ctx": 4096}),
    Line("repository, README", 'ollama run llama3.1:8b-instruct-q4_0 "What is 2+2?" --verbose', "ollama run",
         "llama3.1:8b-instruct-q4_0", {"num_ctx": 4096, "num_parallel": 1}),
    Line("repository, README", "ollama run hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M --verbose", "ollama run",
         "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", {"num_ctx": 4096}),
    Line("issue 16480 of Ollama, its settings", "sudo -u ollama OLLAMA_NUM_PARALLEL=2 OLLAMA_CONTEXT_LENGTH=131072 /usr/local/bin/ollama serve",
         "ollama serve", None, {"cells": 131072, "streams": 2, "num_ctx": 131072}, "gpt-oss-120b"),
    Line("repository, container that serves and asks",
         'docker run -e OLLAMA_NUM_PARALLEL=3 --entrypoint sh ollama/ollama -c "ollama serve & sleep 5 && ollama run qwen2.5:7b --keepalive 24h && wait"',
         "ollama run", "qwen2.5:7b", {"num_parallel": 3}),
    # MLX-LM: without --max-tokens 512 tokens by the server, 100 by generate
    Line("repository, README", "mlx_lm.server --model mlx-community/Hermes-3-Llama-3.1-70B-4bit --port 8080",
         "mlx_lm.server", "mlx-community/Hermes-3-Llama-3.1-70B-4bit", {"generated_tokens": 512}, "llama3.1-70b"),
    Line("repository, README, a flag that there is not",
         "mlx_lm.server --model mlx-community/Qwen2.5-7B-Instruct-4bit \\\n  --listen 127.0.0.1:8888",
         "mlx_lm.server", "mlx-community/Qwen2.5-7B-Instruct-4bit", {"generated_tokens": 512}, warns=("'--listen 127.0.0.1:8888' of mlx",)),
    Line("repository, README", "uv run python -m mlx_lm.server --model mlx-community/Llama-3.2-3B-Instruct-4bit --port 8000",
         "mlx_lm.server", "mlx-community/Llama-3.2-3B-Instruct-4bit", {"generated_tokens": 512}),
    Line("repository, record of a test", "~/ai/.venv/bin/python -m mlx_lm server --model ~/ai/Qwen3-4B-Instruct-2507-4bit --port 8090",
         "mlx_lm server", "~/ai/Qwen3-4B-Instruct-2507-4bit", {"generated_tokens": 512}, "qwen3-4b"),
    Line("repository, an application's list of commands",
         "/opt/homebrew/bin/python3 -m mlx_lm.server --model 'mlx-community/Qwen3.6-35B-A3B-8bit' --port 8000 --host 127.0.0.1",
         "mlx_lm.server", "mlx-community/Qwen3.6-35B-A3B-8bit", {"generated_tokens": 512}),
    Line("repository, README", "mlx_lm.server --model mlx-community/Qwen3-30B-A3B-8bit --prefill-step-size 512 --max-tokens 8192",
         "mlx_lm.server", "mlx-community/Qwen3-30B-A3B-8bit", {"prefill_step_size": 512, "generated_tokens": 4095}),
    Line("repository, cookbook in fifty languages: argparse takes the beginning of a name",
         'python -m mlx_lm.generate --model microsoft/Phi-3-mini-4k-instruct --max-token 2048 --prompt  "<|user|>\\nCan you<|end|>"',
         "mlx_lm.generate", "microsoft/Phi-3-mini-4k-instruct", {"generated_tokens": 2048}),
    Line("repository, lesson", 'mlx_lm.generate --model mlx-community/Llama-3.2-3B-Instruct-4bit --prompt "hi"',
         "mlx_lm.generate", "mlx-community/Llama-3.2-3B-Instruct-4bit", {"generated_tokens": 100}),
    Line("repository, notes", "mlx_lm.generate --model ./models/coder-q8 --prompt x --max-tokens 512 --kv-bits 8 --kv-group-size 64 --quantized-kv-start 0",
         "mlx_lm.generate", "./models/coder-q8", {"generated_tokens": 512}, "qwen3-30b-a3b"),
]  # fmt: skip

# Texts that hold a command, as they are pasted on standard input.
TEXTS = [
    Line("repository, unit", """
[Unit]
Description=LLaMA.cpp Server - Qwen3-30B-A3B MoE
After=network.target

[Service]
Type=simple
ExecStart=/usr/local/bin/llama-server \\
  -m /srv/Qwen3-30B-A3B-GGUF/Qwen3-30B-A3B-Q4_K_M.gguf \\
  -c 2048 --port 400 --host 0.0.0.0 -t 2
Restart=on-failure
""", SERVER, "/srv/Qwen3-30B-A3B-GGUF/Qwen3-30B-A3B-Q4_K_M.gguf", pool(2048), "qwen3-30b-a3b"),
    Line("repository, unit of a user: -fa without its word, variables behind the command", """
[Service]
ExecStartPre=/bin/sleep 5
ExecStart=-/usr/local/bin/llama-server \\
  -m %h/models/Qwen3-Coder-30B-A3B-Q8_0.gguf \\
  -ngl 99 \\
  # a comment
  -c ${CTX} \\
  -fa \\
  -cnv
Environment=CUDA_VISIBLE_DEVICES=0 "CTX=32768"
""", SERVER, "%h/models/Qwen3-Coder-30B-A3B-Q8_0.gguf", pool(32768, flash_attn="on"), "qwen3-30b-a3b"),
    Line("repository, script that writes a unit", """#!/usr/bin/env bash
set -euo pipefail
MODEL_DIR=/opt/models
MODEL_FILE="Llama-3.1-8B-Instruct.gguf"
echo "=== Creating systemd services ==="
cat > /etc/systemd/system/llama-server.service <<EOF
[Unit]
Description=Llama.cpp Server
[Service]
ExecStart=/usr/local/bin/llama-server \\\\
    --model ${MODEL_DIR}/${MODEL_FILE} \\\\
    --n-gpu-layers 999 \\\\
    --ctx-size 8192 \\\\
    --parallel 4
EOF
systemctl enable --now llama-server
""", SERVER, "/opt/models/Llama-3.1-8B-Instruct.gguf", slots(8192, 4), "llama3.1-8b"),
    Line("repository, Podman's unit", """
[Container]
Image=ghcr.io/ggml-org/llama.cpp:server-cuda
AddDevice=nvidia.com/gpu=all
Volume=%h/models:/models:z,ro
Exec=-m /models/Qwen3-VL-30B-A3B-Instruct-UD-Q4_K_XL.gguf \\
     --mmproj /models/mmproj-F16.gguf \\
     -c 32768 -ngl 99 --flash-attn on \\
     --cache-type-k q8_0 --cache-type-v q8_0 --jinja
""", SERVER, "/models/Qwen3-VL-30B-A3B-Instruct-UD-Q4_K_XL.gguf", pool(32768, **Q8), "qwen3-vl-30b-a3b"),
    Line("repository, Podman's unit with variables alone", """
[Container]
Image=ghcr.io/ggml-org/llama.cpp:server-cuda
Environment=LLAMA_ARG_CTX_SIZE=262144 LLAMA_ARG_CACHE_TYPE_K=q8_0
Environment=LLAMA_ARG_CACHE_TYPE_V=q8_0 LLAMA_ARG_BATCH=1024 LLAMA_ARG_UBATCH=256
""", SERVER, None, pool(262144, **Q8, n_batch=1024, n_ubatch=256), "qwen3.6-27b"),
    Line("repository, compose file with a list", """
services:
  reranker:
    build: ./reranker_service
    command: python serve.py
  llama:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    command: ["-m", "/models/qwen3-8b-q4_k_m.gguf", "--host", "0.0.0.0",
              "--port", "8000", "-c", "4096", "--jinja", "-fa", "-ngl", "99"]
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
""", SERVER, "/models/qwen3-8b-q4_k_m.gguf", pool(4096, flash_attn="on"), "qwen3-8b"),
    Line("repository, compose file with folded text, under the old owner's name", """
version: '3'
services:
  llama-cpp-server:
    image: ghcr.io/ggerganov/llama.cpp:server-cuda
    ports: ["8080:8080"]
    command: >
      -m /models/mistral-7b-instruct-v0.3.Q3_K_M.gguf
      -c 512
      --host 0.0.0.0
      --n-gpu-layers 99
""", SERVER, "/models/mistral-7b-instruct-v0.3.Q3_K_M.gguf", pool(512), "mistral-7b-v0.3"),
    Line("repository, compose file with variables of the container", """
services:
  llama-cpp:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    environment:
      LLAMA_ARG_MODEL_URL: hf.co/unsloth/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf # alternatively
      LLAMA_ARG_CTX_SIZE: 4096
      LLAMA_ARG_JINJA: true
""", SERVER, "unsloth/Qwen3-8B-GGUF", pool(4096)),
    Line("repository, compose file with defaults", """
services:
  llamacpp:
    image: ghcr.io/ggml-org/llama.cpp:server
    environment:
      - LLAMA_ARG_CTX_SIZE=${LLAMACPP__CTX_SIZE:-8192}
      - LLAMA_ARG_N_GPU_LAYERS=${LLAMACPP__N_GPU_LAYERS:--1}
    command: --model /models/${LLAMACPP__MODEL_FILE:-model.gguf}
""", SERVER, "/models/model.gguf", pool(8192), "qwen3-4b"),
    Line("repository, compose file of several, one of them named", """
x-gpu: &gpu
  deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}
services:
  tender:
    <<: *gpu
    image: ghcr.io/ggml-org/llama.cpp:server
    command: ["-m", "/models/qwen2.5-3b-instruct-q4_k_m.gguf", "-c", "4096", "-t", "16", "--n-predict", "512", "-b", "512"]
  opencode:
    <<: *gpu
    image: ghcr.io/ggml-org/llama.cpp:server
    command: ["-m", "/models/qwen2.5-3b-instruct-q4_k_m.gguf", "-c", "8192", "-t", "16"]
""", SERVER, "/models/qwen2.5-3b-instruct-q4_k_m.gguf", pool(4096, n_batch=512), "qwen2.5-3b", chosen=("tender",)),
    Line("repository, plan for a compose file whose variables stand elsewhere", """
services:
  llamacpp-large:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda@sha256:0123456789abcdef
    command: ["-m", "/models/${LARGE_GGUF}", "--port", "8080", "-c", "${LARGE_CTX}", "-ngl", "${LARGE_LAYERS}"]
""", SERVER, "/models/${LARGE_GGUF}", pool(16384), "qwen3-14b", chosen=("LARGE_CTX=16384",)),
    Line("repository, manifest with a list", """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  template:
    spec:
      containers:
        - name: server
          image: ghcr.io/ggerganov/llama.cpp:server
          args:
            - "--host"
            - "0.0.0.0"
            - "--log-disable"
            - "--model"
            - "/models/llama-3-8b-instruct.gguf"
            - "--ctx-size"
            - "8192"
            - "--hf-repo"
            - "NousResearch/Meta-Llama-3-8B-Instruct-GGUF"
            - "--hf-file"
            - "Meta-Llama-3-8B-Instruct-Q5_K_M.gguf"
---
apiVersion: v1
kind: Service
metadata: {name: llama}
""", SERVER, "NousResearch/Meta-Llama-3-8B-Instruct-GGUF", pool(8192)),
    Line("repository, manifest with a command and a probe", """
spec:
  containers:
  - name: llava
    image: registry.example/tools:1
    command:
      - "llama-server"
      - "-m"
      - "$(MODEL_FILE)"
      - "-c"
      - "$(CTX)"
    env:
    - {name: CTX, value: "4096"}
    - {name: MODEL_FILE, value: /models/llava-1.5-7b-q8_0.gguf}
    - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
    livenessProbe: {exec: {command: [sh, -c, "pgrep llama-server"]}}
""", SERVER, "/models/llava-1.5-7b-q8_0.gguf", pool(4096), "llama2-7b"),
    Line("repository, script with defaults, for a 24 GB card", """#!/bin/sh
#   - 27B-class at >32k is untested on this card: raise CTX only after verifying free VRAM
set -euo pipefail
MODEL=${MODEL:-/models/Qwen3.8-27B-Q4_K_M.gguf}
CTX=${CTX:-32768}
KV=${KV:-q8_0}
TEMP=${TEMP:-0.7}
exec llama-server \\
  -m "$MODEL" \\
  --device "$DEVICE" \\
  --ctx-size "$CTX" \\
  --cache-type-k "$KV" \\
  --cache-type-v "$KV" \\
  --flash-attn auto \\
  --temp "$TEMP" \\
  --port 8080 --host 0.0.0.0 \\
  "$@"
""", SERVER, "/models/Qwen3.8-27B-Q4_K_M.gguf", pool(32768, **Q8), "qwen3.6-27b"),
    Line("the same with another context in front", """
CTX=${CTX:-32768}
exec llama-server -m "$MODEL" --ctx-size "$CTX"
""", SERVER, "$MODEL", pool(65536), "qwen3.6-27b", chosen=("CTX=65536",)),
    Line("repository, script with what is only sometimes there", """
CTX=8192; PORT=8080
exec llama-server -m model.gguf --host 0.0.0.0 --port "$PORT" \\
    -ngl 99 -fa on -c "$CTX" \\
    ${MMPROJ:+--mmproj "$MMPROJ"} \\
    $([ "$AUTO" != on ] && echo "--no-models-autoload") \\
    $SPEC \\
    "$@"
""", SERVER, "model.gguf", pool(8192), "qwen3-8b", warns=('$([ "$AUTO" != on ] && echo', "$SPEC is not known here")),
    Line("repository, script with a list of words", """
BINARY_DIR=/opt/llama
CMD=("$BINARY_DIR/llama-server" "-m" "m.gguf" "-ngl" "99" "-c" "16384" "-b" "1024" "-ub" "256"
     "--cache-type-k" "q8_0" "--cache-type-v" "q8_0" "-fa" "1"   # flags
     "--threads" "8" "--cpu-range" "0-7")
echo "Starting llama-server -m m.gguf"
"${CMD[@]}" > server.log 2>&1
""", SERVER, "m.gguf", pool(16384, **Q8, n_batch=1024, n_ubatch=256), "qwen3-14b"),
    Line("repository, script for an image", """
# Download binaries here: https://github.com/ggml-org/llama.cpp/releases
MODEL_FILENAME="${MODEL_FILENAME:-Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf}"
echo "Running with model at ./${MODEL_FILENAME}"

docker run --gpus all -v ./models:/models -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server -m /models/$MODEL_FILENAME --host 0.0.0.0 --ctx-size 16384 --parallel 8 --n-gpu-layers 20
""", SERVER, "/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", slots(16384, 8), "llama3.1-8b"),
    Line("repository, fork's documentation: everything in variables", """
export LLAMA_ARG_MODEL=/m/model.gguf LLAMA_ARG_N_GPU_LAYERS=99
export LLAMA_ARG_CTX_SIZE=200000 LLAMA_ARG_BATCH=4096 LLAMA_ARG_UBATCH=4096
export LLAMA_ARG_N_PARALLEL=1
export LLAMA_ARG_FLASH_ATTN=on LLAMA_ARG_CACHE_REUSE=0
./build/bin/llama-server
""", SERVER, "/m/model.gguf", slots(200192, flash_attn="on", n_batch=4096, n_ubatch=4096), "qwen3.6-27b"),  # 782 x 256
    Line("repository, script of PowerShell with its own continued lines", """
$cpuMoe = 14
$ctx = 16384
& "$LlamaDir\\llama-server.exe" -m $Model `
  --n-cpu-moe $cpuMoe `
  -ngl 99 `
  -c $ctx `
  --cache-type-k q8_0 --cache-type-v q8_0 `
  --host 127.0.0.1 --port 8081
""", SERVER, "$Model", pool(16384, **Q8), "qwen3-30b-a3b"),
    Line("repository, settings of a proxy that swaps models", """
macros:
  common: "--port 8080 -fa on"
models:
  qwen3-code:
    cmd: >
      ${llama}/bin/llama-server ${common}
      --model /v/Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf
      --cache-type-k q8_0 --cache-type-v q8_0
      --ctx-size 131072
      --n-cpu-moe 33
  qwen3-lite:
    cmd: llama-server --port ${PORT} --model /v/lite.gguf
""", SERVER, "/v/Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf", pool(131072, **Q8, flash_attn="on"), "qwen3-30b-a3b",
         chosen=("qwen3-code",)),
    # Ollama
    Line("repository, unit", """
[Unit]
Description=Ollama Service
[Service]
ExecStart=/usr/local/bin/ollama serve
User=ollama
Environment="OLLAMA_HOST=0.0.0.0:11434"
Environment="OLLAMA_CONTEXT_LENGTH=32768"
Environment="PATH=/usr/local/sbin:/usr/local/bin"
""", "ollama serve", None, {"num_ctx": 32768, "num_parallel": 1}, "qwen3-8b"),
    Line("repository, drop-in of a unit", """
[Service]
Environment="OLLAMA_HOST=0.0.0.0:11434"
Environment="OLLAMA_NUM_PARALLEL=2"
Environment="OLLAMA_KV_CACHE_TYPE=q8_0"
Environment="OLLAMA_FLASH_ATTENTION=1"
""", "", None, {"num_parallel": 2, "flash_attn": "on", **Q8}, "qwen3-8b", engine="ollama"),
    Line("repository, batch job", """
export OLLAMA_HOST="127.0.0.1:${CURRENT_OLLAMA_PORT}"
export OLLAMA_NUM_PARALLEL="${OLLAMA_NUM_PARALLEL:-1}"
export OLLAMA_CONTEXT_LENGTH="${OLLAMA_CONTEXT_LENGTH:-80000}"
unset MAX_CHARS
ollama serve > "$CUR_OLLAMA_LOG" 2>&1 &
if ! wait_for_ollama "http://127.0.0.1:${CURRENT_OLLAMA_PORT}/api/tags"; then
  echo "ERROR: ollama serve did not become ready"
fi
python -u extract.py --target ppi
""", "ollama serve", None, {"num_ctx": 80000}, "llama3.1-8b"),
    Line("repository, script that tries the model", """
export OLLAMA_KEEP_ALIVE=-1
export OLLAMA_NUM_PARALLEL=2
nohup ollama serve > ollama.out 2>&1 &
sleep 15
ollama pull llama3.1:8b
curl -fsS http://localhost:11434/api/tags
ollama run llama3.1:8b "hi"
pkill -f "ollama serve"
""", "ollama run", "llama3.1:8b", {"num_parallel": 2}),
    Line("repository, batch file of Windows", """@echo off
set OLLAMA_FLASH_ATTENTION=1&& set OLLAMA_KV_CACHE_TYPE=q8_0
set OLLAMA_NUM_PARALLEL=2
echo   NUM_PARALLEL=%OLLAMA_NUM_PARALLEL%
start /B ollama serve
""", "ollama serve", None, {"num_parallel": 2, "flash_attn": "on", **Q8}, "qwen3-8b"),
    Line("repository, PowerShell", """
$env:OLLAMA_NUM_PARALLEL = "4"  # Number of parallel requests
$env:OLLAMA_CONTEXT_LENGTH="16384"
ollama serve
""", "ollama serve", None, {"num_parallel": 4, "num_ctx": 16384}, "qwen3-8b"),
    Line("repository, compose file", """
services:
  ollama:
    image: ollama/ollama:rocm
    devices: ["/dev/kfd", "/dev/dri"]
    environment:
      - HSA_OVERRIDE_GFX_VERSION=10.3.0
      - OLLAMA_FLASH_ATTENTION=1
      - OLLAMA_KV_CACHE_TYPE=q8_0
      - OLLAMA_CONTEXT_LENGTH=131072
  open-webui:
    image: ${WEBUI_IMAGE:-ghcr.io/open-webui/open-webui:main}
    ports: ["${WEBUI_PORT:-8080}:8080"]
""", "ollama serve", None, {"num_ctx": 131072, "flash_attn": "on", **Q8}, "llama3.1-8b"),
    Line("repository, compose file whose entrypoint pulls the model", """
services:
  ollama:
    image: ollama/ollama:latest
    entrypoint: ["/bin/sh", "-c"]
    command:
      - |
        ollama serve &
        sleep 5
        ollama pull llama3
        wait
""", "ollama serve", None, {"num_ctx": 4096}, "llama3-8b"),
    Line("repository, manifest", """
apiVersion: apps/v1
kind: Deployment
metadata: {name: ollama-cluster}
spec:
  replicas: 8
  template:
    spec:
      containers:
      - name: ollama
        image: ollama/ollama:latest
        resources: {limits: {nvidia.com/gpu: 1}}
        env:
        - name: OLLAMA_NUM_PARALLEL
          value: "4"
        - name: OLLAMA_FLASH_ATTENTION
          value: "1"
""", "ollama serve", None, {"num_parallel": 4, "flash_attn": "on"}, "llama3.1-8b"),
    Line("repository, manifest with a version: one pool of 3 x 4,096, and windows in blocks of 256", """
containers:
- name: ollama
  image: ollama/ollama:0.12.3          # NEVER use :latest
  env:
  - {name: OLLAMA_NUM_PARALLEL, value: "3"}
""", "ollama serve", None, {"cells": 12288}, "llama3-8b"),
    # MLX-LM
    Line("repository, script", """
ROOT=/srv
nohup mlx_lm.server --model "$MLX_MODEL" \\
    --host 127.0.0.1 --port 8080 \\
    --max-tokens 2048 \\
    > "$ROOT/logs/mlx.log" 2>&1 &
echo "mlx_lm.server PID: $!  (logs: logs/mlx.log)"
""", "mlx_lm.server", "$MLX_MODEL", {"generated_tokens": 2048}, "qwen3-30b-a3b"),
    Line("repository, README with its fences and prompts", """```bash
$ pip install mlx-lm
$ mlx_lm.server --model mlx-community/Llama-3.2-3B-Instruct-4bit --port 8080
```
""", "mlx_lm.server", "mlx-community/Llama-3.2-3B-Instruct-4bit", {"generated_tokens": 512}),
    Line("repository, compose file with an image of its own: its words are flags alone", """
services:
  llama.cpp:
    image: llama.cpp-${NAME}
    cpuset: ${ISOLATE_CPU}
    command: -m /models/7B/ggml-model-q4_0.bin -p "Building a website" -n 1024 -c 2048 --seed 1 -t '${THREADS_CPU}'
  web: {image: nginx}
""", "", "/models/7B/ggml-model-q4_0.bin", slots(2048), "llama2-7b", engine="llama.cpp", chosen=("llama.cpp",)),
    Line("repository, script that starts the same in two functions", """
serve_once() {
  OLLAMA_NUM_PARALLEL=2 ollama serve > a.log 2>&1 &
}
serve_again() {
  OLLAMA_NUM_PARALLEL=2 ollama serve > b.log 2>&1 &
}
""", "ollama serve", None, {"num_parallel": 2}, "llama3-8b"),
    # arguments alone
    Line("issue, list of arguments", "- --model\n- /m/x.gguf\n- --ctx-size=8192\n- -np\n- '2'\n", "", "/m/x.gguf", slots(8192, 2),
         "llama3-8b", engine="llama.cpp"),
    Line("issue, list of arguments on one line", 'args: ["-m", "/m/x.gguf", "-c", "4096"]', "", "/m/x.gguf",
         {"n_ctx": 4096, "n_seq_max": 1}, "llama3-8b", engine="llama.cpp"),
]  # fmt: skip
