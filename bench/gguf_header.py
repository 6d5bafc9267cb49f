"""CPU time and peak memory of reading the header of a GGUF file with a large vocabulary.

    python bench/gguf_header.py [--runs N] [FILE]

Without a file, one is written with 128,256 tokens, 280,147 merges and 720 tensors, as a model of the Llama 3 family has
them (8 MB of header). Each run is a process of its own, and what the imports take is measured the same way and taken
off. This is a benchmark and no test: the limits are 0.1 s and 40 MB. POSIX only.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

TOKENS, MERGES, TENSORS = 128_256, 280_147, 720

CHILD = """\
import resource, sys
from kvcalc.sources.gguf.model import preset_from_gguf
from kvcalc.sources.gguf.parts import read
if sys.argv[1:]:
    found = read(sys.argv[1])
    preset = preset_from_gguf(found.header.metadata, file=sys.argv[1], weights_bytes=found.weights_bytes)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def texts(key: str, values: list[str]) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def big_header() -> bytes:
    """The header of a Llama 3 70B file, with a vocabulary made up, and tensors of one block each."""
    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        number("llama.block_count", 80),
        number("llama.context_length", 8192),
        number("llama.embedding_length", 8192),
        number("llama.attention.head_count", 64),
        number("llama.attention.head_count_kv", 8),
        texts("tokenizer.ggml.tokens", [f"token{i}" for i in range(TOKENS)]),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, TOKENS) + bytes(4 * TOKENS),
        texts("tokenizer.ggml.merges", [f"ab{i} cd{i % 97}" for i in range(MERGES)]),
    ]
    tensors = [
        text(f"blk.{i // 9}.{i % 9}.weight") + struct.pack("<IQQIQ", 2, 32, 1, 2, 32 * i) for i in range(TENSORS)
    ]
    head = b"".join([b"GGUF", struct.pack("<IQQ", 3, TENSORS, len(keys)), *keys, *tensors])
    return head + bytes(-len(head) % 32 + 32 * TENSORS)


def measured(*arguments: str) -> tuple[float, int]:
    """CPU seconds and KiB of memory at most of one process."""
    child = subprocess.run([sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True)
    seconds, memory = child.stdout.split()
    return float(seconds), int(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the reading of a large GGUF header.")
    parser.add_argument("file", nargs="?", help="a GGUF file; default: one made for the purpose")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--write", metavar="FILE", help="write the made one there, and measure nothing")
    arguments = parser.parse_args()
    if arguments.write:
        Path(arguments.write).write_bytes(big_header())
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file
        if path is None:  # by another process: what a child has at most counts from what its parent had
            path = os.path.join(folder, "big.gguf")
            subprocess.run([sys.executable, __file__, "--write", path], check=True)
        measured(path)  # so that bytecode and pages are cached
        runs = [(measured(path), measured()) for _ in range(arguments.runs)]
    seconds = median(read[0] - empty[0] for read, empty in runs)
    memory = median(read[1] - empty[1] for read, empty in runs)
    print(f"{seconds:.3f} s CPU, {memory / 1024:.1f} MiB above the imports, median of {arguments.runs} runs")


if __name__ == "__main__":
    main()
