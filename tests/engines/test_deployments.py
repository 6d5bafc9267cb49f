"""Texts that start an engine, in the forms that people keep them: each comes to the command that its program starts.

Forms are those of the documentation of SkyPilot, GitHub Actions, Ansible, GitLab, KServe, Ray Serve, KubeRay, the charts
bjw-s app-template and vllm-project/production-stack, Docker and Ollama.
"""

import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch

QWEN = "Qwen/Qwen3-8B"


class Form(NamedTuple):
    """A text, and what it starts: a program, the model, what is read of its flags, and the version."""

    text: str
    model: str | None = QWEN
    program: str = "vllm serve"
    values: dict[str, object] = {}
    version: str | None = None


LONG: dict[str, object] = {"context": 32768}
FORMS = {
    "skypilot": Form(f"""
name: qwen
envs: {{LEN: 32768}}
resources: {{accelerators: "A100:8"}}
setup: |
  pip install vllm
run: |
  echo starting
  vllm serve {QWEN} --max-model-len $LEN
""", values=LONG),
    "a workflow of GitHub": Form(f"""
on: push
env: {{MODEL: {QWEN}}}
jobs:
  test:
    env: {{LEN: "1024"}}
    steps:
    - uses: actions/checkout@v4
    - name: serve
      env: {{LEN: "32768"}}
      run: |
        vllm serve $MODEL --max-model-len "$LEN" &
        sleep 5
""", values=LONG),
    "ansible, shell": Form(f"- hosts: gpu\n  tasks:\n  - name: serve\n    ansible.builtin.shell: vllm serve {QWEN} --max-model-len 32768\n",
                           values=LONG),
    "ansible, command": Form(f"- tasks:\n  - ansible.builtin.command: vllm serve {QWEN} --max-model-len 32768\n", values=LONG),
    "gitlab": Form(f"serve:\n  stage: test\n  script:\n  - pip list\n  - vllm serve {QWEN} --max-model-len 32768\n", values=LONG),
    "cloud-init": Form(f"runcmd:\n- [vllm, serve, {QWEN}, --max-model-len, '32768']\n", values=LONG),
    "a ConfigMap": Form(f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: scripts}}
data:
  start.sh: |
    exec vllm serve {QWEN} --max-model-len 32768
""", values=LONG),
    "kserve": Form("""
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama3}
spec:
  predictor:
    model:
      modelFormat: {name: huggingface}
      args: [--model_id=meta-llama/Meta-Llama-3-8B-Instruct, --model_name=llama3, --max-model-len=8192]
""", "meta-llama/Meta-Llama-3-8B-Instruct", values={"context": 8192}),
    "kserve, storage": Form("""
kind: InferenceService
spec: {predictor: {model: {modelFormat: {name: vLLM}}}}
---
kind: InferenceService
spec: {predictor: {model: {modelFormat: {name: huggingface}, storageUri: "hf://Qwen/Qwen3-8B", args: [--dtype, half]}}}
""", values={"dtype": "half"}),
    "kserve, a runtime": Form("""
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
spec:
  containers:
  - args: [--model=/mnt/models/, --tensor-parallel-size=2, --max-model-len=2048]
    image: quay.io/opendatahub/tgis-vllm@sha256:0123456789abcdef
    name: kserve-container
""", "/mnt/models/", values={"tp": 2, "context": 2048}),
    "kserve, for models": Form("""
kind: LLMInferenceService
metadata: {name: q}
spec:
  model: {uri: "hf://Qwen/Qwen3-8B"}
  parallelism: {tensor: 2, data: 4}
  template:
    containers:
    - name: main
      env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 32768 --kv-cache-dtype fp8"}]
    - {name: other, args: [--port, "1"]}
""", values={"tp": 2, "dp": 4, "kv_dtype": "fp8", **LONG}),
    "app-template": Form(f"""
controllers:
  main:
    containers:
      app:
        image: {{repository: vllm/vllm-openai, tag: v0.11.0@sha256:0123}}
        args: [--model, {QWEN}, --max-model-len, "32768"]
""", values=LONG, version="v0.11.0", program="vllm serve"),
    "production-stack": Form(f"""
servingEngineSpec:
  modelSpec:
  - name: q
    repository: vllm/vllm-openai
    tag: v0.11.0
    modelURL: {QWEN}
    vllmConfig: {{v1: 1, maxModelLen: 32768, tensorParallelSize: 2, enablePrefixCaching: false, extraArgs: ["--max-num-seqs", "8"]}}
""", values={"tp": 2, "max_num_seqs": 8, "enable_prefix_caching": False, **LONG}, version="v0.11.0"),
    "ray serve": Form(f"""
applications:
- name: llm
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {{model_id: q, model_source: {QWEN}}}
      engine_kwargs: {{tensor_parallel_size: 2, max_model_len: 32768, enable_prefix_caching: true, kv_cache_dtype: null}}
""", values={"tp": 2, "enable_prefix_caching": True, **LONG}),
    "kuberay": Form(f"""
kind: RayService
spec:
  serveConfigV2: |
    applications:
    - args:
        llm_configs:
        - model_loading_config: {{model_id: {QWEN}}}
          engine_kwargs: {{max_model_len: 32768}}
  rayClusterConfig: {{headGroupSpec: {{template: {{spec: {{containers: [{{name: ray, image: "rayproject/ray-llm:2.46"}}]}}}}}}}}
""", values=LONG),
    "dockerfile": Form(f"""
# syntax=docker/dockerfile:1
ARG TAG=v0.11.0
FROM vllm/vllm-openai:${{TAG}}
RUN pip install x && \\
    # a comment between
    echo done
CMD ["--model", "{QWEN}", "--max-model-len", "32768"]
""", values=LONG, version="v0.11.0"),
    "dockerfile, a shell's text": Form(f"""FROM python:3.12 AS build
CMD ["sglang", "serve"]
FROM --platform=linux/amd64 nvidia/cuda:12.8.0-runtime
ENV LEN=32768 MODEL={QWEN}
ENTRYPOINT exec vllm serve $MODEL --max-model-len $LEN
""", values=LONG),
    "dockerfile, two lists": Form(
        f'FROM x\nENTRYPOINT ["vllm"]\nCMD ["serve", "{QWEN}", "--max-model-len", "32768"]\n', values=LONG),
    "modelfile": Form('FROM llama3.1:8b\nPARAMETER num_ctx 16384\nPARAMETER stop "<|end|>"\nSYSTEM """\nFROM nothing\n"""\n',
                      "llama3.1-8b", "ollama run", {"num_ctx": 16384}),
    "a modelfile of one line": Form("FROM llama3.1:8b\n", "llama3.1-8b", "ollama run"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_a_text_starts(form: Form) -> None:
    """The program, its model and its settings, and the version that an image has."""
    started = launch(None, ["-"], form.text.encode) if "storage" not in form.text else None
    if started is None:  # the first of the two names no model
        started = launch(None, ["-"], form.text.split("---")[-1].encode)
    assert (started.program, started.model) == (form.program, form.model)
    assert {key: started.read.values.get(key) for key in form.values} == form.values
    assert started.version_asked == form.version


@pytest.mark.parametrize(
    "text",
    [
        "description: |\n  run vllm serve Qwen/Qwen3-8B to start\n",
        "run: |\n  import vllm\n  print('it''s')\n",
        "run: echo 'vllm serve Qwen/Qwen3-8B'\n",
        "spec: {predictor: {model: {modelFormat: {name: sklearn}, args: [--model_id=x]}}}\n",
        "spec: {predictor: {model: {modelFormat: {name: huggingface}, args: [--model_id=x, --backend=huggingface]}}}\n",
        "containers: [{image: x/vllm-exporter, args: [--port, '1']}]\n",
        "containers: [{image: x/myvllm, args: [--model=x]}]\n",
        "FROM vllm/vllm-openai\nCMD echo\nENTRYPOINT true\n",
        "image: {repository: nginx, tag: v1}\nargs: [--model=x]\n",
    ],
)
def test_what_starts_none(text: str) -> None:
    """A text that only speaks of an engine, or has another program, is not read as its command."""
    with pytest.raises(KvcalcError, match="no command of an engine"):
        launch(None, ["-"], text.encode)


def test_a_file_in_place_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kvcalc -- FILE` reads it, also by the name of one of its services; `kvcalc FILE` says so. Qwen3 8B: 147,456 B."""
    monkeypatch.chdir(tmp_path)
    Path("compose.yaml").write_text(
        f"services:\n  a: {{image: vllm/vllm-openai, command: [--model, {QWEN}, --max-model-len, '1024']}}\n"
        f"  b: {{image: vllm/vllm-openai, command: [--model, {QWEN}, --max-model-len, '2048']}}\n"
    )
    Path("Dockerfile").write_text(FORMS["dockerfile"].text)
    Path("start.sh").write_text(f"#!/bin/sh\nvllm serve {QWEN} --max-model-len 1024\n")
    for words, tokens in ((["start.sh"], 1024), (["./start.sh"], 1024), (["compose.yaml", "b"], 2048),
                          (["Dockerfile"], 32768)):  # fmt: skip
        assert run(["--get", "kv.bytes_total", "--", *words]) == 0
        assert capsys.readouterr().out == f"{147456 * tokens}\n"
    assert run(["--", "compose.yaml"]) == 2
    assert "hint: name one of them: -- compose.yaml a" in capsys.readouterr().err
    for name in ("compose.yaml", "Dockerfile", "./Dockerfile", "start.sh", "./start.sh"):
        assert run([name]) == 2
        assert f"`kvcalc -- {name}` sizes the engine that it starts" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"services: {}\n")))
    assert run(["-"]) == 2
    assert "`kvcalc -- -` sizes" in capsys.readouterr().err
    Path("config.json").write_text(json.dumps({"model_type": "llama"}))
    assert run(["--", "config.json"]) == 2
    assert "got the configuration of a model\n  hint: kvcalc config.json" in capsys.readouterr().err
    Path("vllm").write_text("a file that is called like a program")
    assert launch(None, ["vllm", "serve", QWEN]).program == "vllm serve"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('FROM x\nCMD ["vllm", 3]\n', "<stdin>:2: expected a list of words in quotes"),
        ("FROM x\nENV A='b\n", "<stdin>:2: a quote is opened and not closed"),
        ('FROM x\nCMD ["a"\n', "<stdin>:2: expected a list"),
        # control characters of a name do not reach the terminal
        ('services: {"a\\tb": {image: vllm/vllm-openai, command: "\'"}}\n', r"<stdin>: a\tb: a quote"),
    ],
)
def test_faulty_files_end_in_one_line(text: str, says: str) -> None:
    """With the line, and nothing else."""
    with pytest.raises(KvcalcError) as caught:
        launch(None, ["-"], text.encode)
    assert caught.value.message.startswith(says)
