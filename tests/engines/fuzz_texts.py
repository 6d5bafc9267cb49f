"""Fuzz the readers of texts that start engines, and of files of flags: only KvcalcError may come out, and soon.

    python -m tests.engines.fuzz_texts --count 200000 [--seed N] [--reader T|C]

T: manifests, units, Dockerfiles and scripts behind `-- -`; C: files that `--config` names. Inputs are mutations of small
right ones: of bytes, of lines, and of parts of other seeds. Not collected by pytest, whose test_fuzz_texts.py runs a few
hundred of these.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch
from kvcalc.library import loader

from .launch_lines import COMMANDS as LINES
from .launch_lines import TEXTS
from .test_deployments import FORMS

SECONDS = 2.0  # for one input of some kilobytes, which takes some milliseconds
LONGEST = 1 << 14

WORDS = ("$", "${", "}", "$(", "`", "'", '"', "\\", "\n", ": ", "- ", "|\n  ", "{", "}", "[", "]", "&a ", "*a", "<<: *a",
         "---\n", "!!int ", "null", "true", ".inf", "0x10", "1e999", "%", "#", "\t", "\r", "\ufeff", "\u2028", "\x00",
         "\x1b[2J", "FROM ", "PARAMETER num_ctx ", "ENTRYPOINT ", "CMD [", "ENV A=$A$A", "run: |\n  ", "image: ",
         "command: ", "args: ", "env: ", "envFrom: x", "services:", "kind: ", "modelFormat: {name: vllm}",
         "engine_kwargs: ", "vllmConfig: ", "serveConfigV2: |\n  ", "vllm serve ", "llama-server ", "ollama run ",
         "sglang serve ", "--max-model-len ", "--config ", "--cpu-offload-gb ", "--additional-config ", "-c ", "99999999999",
         "-1", "<<EOF\n", "EOF\n", "\u202e", "--model.a.b ")  # fmt: skip

CONFIGS = (
    "model: Qwen/Qwen3-8B\ntensor-parallel-size: 2\nmax-model-len: 32768\nkv-cache-dtype: fp8\n",
    "max_model_len: 4096\nenable-prefix-caching: true\nenable-lora: false\nserved-model-name: [a, b]\n",
    "additional-config: {gdn_prefill_backend: triton}\nspeculative-config: {method: mtp, num_speculative_tokens: 2}\n",
    "hf-overrides: {max_position_embeddings: 8192}\ncompilation-config: {cudagraph_capture_sizes: [1, 2]}\n",
    "kv_cache_config: {dtype: fp8, tokens_per_block: 64, free_gpu_memory_fraction: 0.8}\nmax_seq_len: 4096\n",
    "context-length: 4096\nmem-fraction-static: 0.8\ndisable-radix-cache: true\nquantization: fp8\ncpu-offload-gb: 4\n",
)  # fmt: skip
STARTS = (
    ("vllm", ["vllm", "serve", "m"]), ("sglang", ["sglang", "serve", "m"]), ("tensorrt-llm", ["trtllm-serve", "m"]),
)  # fmt: skip


def seeds(reader: str) -> list[str]:
    """Small texts that are right."""
    if reader == "C":
        return list(CONFIGS)
    return [*(form.text for form in FORMS.values()), *(line.text for line in TEXTS), *(line.text for line in LINES)]


def inputs(seed: int, reader: str) -> Iterator[bytes]:
    """Mutations without end."""
    chance, texts = random.Random(seed), seeds(reader)
    while True:
        made = chance.choice(texts)
        for _ in range(chance.randint(1, 6)):
            made = _mutated(made, chance, texts)[:LONGEST]
        content = made.encode(errors="surrogatepass")
        if chance.random() < 0.03:
            at = chance.randrange(len(content) + 1)
            content = content[:at] + chance.randbytes(chance.randint(1, 4)) + content[at:]
        yield content


def _mutated(text: str, chance: random.Random, texts: list[str]) -> str:
    at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    match chance.randrange(8):
        case 0:
            return text[:at] + chance.choice(WORDS) + text[at:]
        case 1:
            return text[:at] + text[min(to, at + 20) :]
        case 2:
            return text[:at] + text[at : at + 40] * chance.choice((2, 3, 50)) + text[at:]
        case 3:
            return (
                text[:at]
                + chr(chance.choice((0, 9, 10, 27, 34, 39, 58, 92, 123, 0x2028, 0xD800, 0x10FFFF)))
                + text[at:]
            )
        case 4:
            other = chance.choice(texts)
            begin = chance.randrange(len(other) + 1)
            return text[:at] + other[begin : begin + 80] + text[at:]
        case 5:
            lines = text.split("\n")
            chance.shuffle(lines)
            return "\n".join(lines)
        case 6:
            lines = text.split("\n")
            i = chance.randrange(len(lines))
            lines[i] = " " * chance.randint(0, 6) + lines[i].lstrip()
            return "\n".join(lines)
        case _:
            word = chance.choice(WORDS)
            return text[:at] + word * chance.choice((1, 2, 200)) + text[to if to - at < 30 else at :]


def run(content: bytes, reader: str, folder: Path, turn: int) -> str | None:
    """Hand one input to its reader: None, or the line it is refused with. Anything else comes out as it is."""
    model = _MODEL
    try:
        if reader == "T":
            started = launch(None, ["-"], lambda: content)
        else:
            path = folder / "c.yaml"
            path.write_bytes(content)
            engine, words = STARTS[turn % len(STARTS)]
            started = launch(engine, [*words, "--config", str(path)])
        stated = started.engine.options_of(started.program, started.read, model)
    except KvcalcError as error:
        message, hint = error.message, error.hint or ""
    else:
        assert [line for line in (*started.warnings, *stated.warnings) if not line.isprintable()] == []
        return None
    assert (message + hint).isprintable(), (message, hint)
    assert len(message) < 2000, message
    return message


_MODEL = loader.load("qwen3-8b")


def checked(content: bytes, reader: str, folder: Path, turn: int) -> tuple[str | None, float]:
    """The same, with the seconds of CPU that it took, which are bounded."""
    began = time.process_time()
    outcome = run(content, reader, folder, turn)
    took = time.process_time() - began
    assert took < SECONDS, (took, content)
    return outcome, took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", default="T")
    asked = parser.parse_args()
    read, longest, began = 0, 0.0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn, content in enumerate(inputs(asked.seed, asked.reader)):
            if turn == asked.count:
                break
            try:
                outcome, took = checked(content, asked.reader, folder, turn)
            except BaseException:
                Path(f"fuzz-{asked.reader}-{turn}.txt").write_bytes(content)
                print("at", turn, flush=True)
                raise
            read += outcome is None
            longest = max(longest, took)
    print(f"{asked.count:,} inputs, {read:,} read, longest {longest:.3f} s, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
