"""llama.cpp: what public start-up logs print, from b1 on; the ids are those of the collection they were taken from."""

import re
from typing import NamedTuple

import pytest

import kvcalc
from kvcalc.core.model import Model

from .llama_cpp_asked import model_with, reserved

MIB = 1 << 20


class Log(NamedTuple):
    """`printed`: MiB to two places, cells and layers as they stand in the lines of the log."""

    id: str
    build: str
    model: str | dict[str, object]
    command: str
    printed: dict[str, object]


# Dates without a build stand for one of that time.
LOGS = [
    Log("E221", "b1600", {"heads": 52, "kv_heads": 52, "head_dim": 128, "layers": "60 full"}, "-c 512",  # LLaMA 30B
        {"kv": "780.00", "k": "390.00", "v": "390.00", "cells": 512}),
    Log("E218", "b2000", "llama2-7b", "-c 512", {"kv": "256.00", "k": "128.00", "v": "128.00", "cells": 512}),
    Log("E220", "b2000", "llama2-70b", "-c 512", {"kv": "160.00", "k": "80.00", "v": "80.00", "cells": 512}),
    Log("E305", "b2000", "llama2-7b", "-c 2048", {"kv": "1024.00", "k": "512.00", "v": "512.00", "cells": 2048}),
    Log("E502", "b3000", {"model_type": "gpt_bigcode", "heads": 48, "kv_heads": 1, "head_dim": 128, "layers": "40 full"},
        "-c 2048", {"kv": "40.00", "k": "20.00", "v": "20.00", "cells": 2048}),  # StarCoder 15B
    Log("E495", "b4100", "phi3-mini-4k", "-c 2048", {"kv": "768.00", "k": "384.00", "v": "384.00", "cells": 2048}),
    # No build of that time shortens a window or a chunk.
    Log("E318", "b5300", "llama4-scout", "-c 256000",
        {"kv": "48000.00", "k": "24000.00", "v": "24000.00", "cells": 256000}),
    Log("E505", "b7000", "gpt-oss-20b", "-c 131072 -np 1 -fa on",
        {"kv": "3072.00", "k": "1536.00", "v": "1536.00", "cells": 131072, "layers": 12, "seqs": "1/1",
         "swa_kv": "18.00", "swa_k": "9.00", "swa_v": "9.00", "swa_cells": 768, "swa_layers": 12}),
    Log("E066", "b7000", "gpt-oss-20b", "-c 8192 -ub 128 -ctk q8_0 -ctv q8_0",
        {"kv": "102.00", "k": "51.00", "v": "51.00", "cells": 8192, "layers": 12, "seqs": "1/1",
         "swa_kv": "3.19", "swa_k": "1.59", "swa_v": "1.59", "swa_cells": 256, "swa_layers": 12}),
    Log("E065", "b8467", "qwen3.5-4b", "-c 4096",
        {"rs": "50.25", "rs_cells": 1, "rs_layers": 32, "r": "2.25", "s": "48.00"}),
    Log("E055", "b9496", "qwen3-next-80b", "llama-server -c 131072",
        {"kv": "3072.00", "k": "1536.00", "v": "1536.00", "cells": 131072, "layers": 12, "rs": "301.50", "rs_cells": 4}),
    Log("E060", "b9500", "qwen3.5-35b-a3b", "llama-server -c 65536",
        {"rs": "251.25", "rs_cells": 4, "rs_layers": 40, "r": "11.25", "s": "240.00"}),
    Log("E061", "b9500", "qwen3.6-35b-a3b", "llama-server -np 2 -kvu -c 65536", {"rs": "125.62", "rs_cells": 2}),
    Log("E064", "b9500", "qwen3.6-27b", "-c 8192",
        {"kv": "512.00", "k": "256.00", "v": "256.00", "cells": 8192, "layers": 16, "rs": "149.62", "rs_cells": 1}),
    Log("E085", "b9500", "qwen3.5-27b", "-c 8192 -ctk q4_0 -ctv q4_0",
        {"kv": "144.00", "k": "72.00", "v": "72.00", "cells": 8192, "layers": 16, "seqs": "1/1"}),
    Log("E316", "b9500", {"model_type": "minimax_m2", "heads": 48, "kv_heads": 8, "head_dim": 128, "layers": "62 full"},
        "-c 87296 -ctk q8_0 -ctv q8_0",  # MiniMax M2.5
        {"kv": "11231.69", "k": "5615.84", "v": "5615.84", "cells": 87296, "layers": 62}),
    # An Ollama of 2026, which starts llama-server; four draft tokens make five states of 149.625 MiB.
    Log("E082", "b9500", "qwen3.6-27b", "-c 200704 -ctk q4_0 -ctv q4_0 --spec-type draft-mtp --spec-draft-n-max 4",
        {"kv": "3528.00", "k": "1764.00", "v": "1764.00", "cells": 200704, "layers": 16, "seqs": "1/1",
         "rs": "748.12", "rs_cells": 1}),
    # ik_llama.cpp left llama.cpp before it had a cache for sliding layers: Command A is charged in full, as b5300 does.
    Log("E489", "b5300", {"model_type": "cohere2", "heads": 96, "kv_heads": 8, "head_dim": 128,
                          "layers": "16 x (3 sliding, full)", "caches": {"sliding": {"window": 4096}}},
        "-c 32768 -ub 2048 -fa -ctk q8_0 -ctv q8_0", {"kv": "4352.00", "k": "2176.00", "v": "2176.00", "cells": 32768}),
    # ik_llama.cpp with -mla 3 keeps the latent once, as llama.cpp does since January 2026.
    Log("E500", "b8000", "deepseek-v3", "-c 32768 -ctk q8_0 -ctv q8_0", {"kv": "1166.62", "k": "1166.62", "v": "0.00"}),
]  # fmt: skip


def model(named: str | dict[str, object]) -> Model:
    return kvcalc.load(named) if isinstance(named, str) else model_with(**named)


def printed(log: Log) -> dict[str, object]:
    """The numbers of the lines that llama.cpp would print; builds whose lines look otherwise have sums alone."""
    words = log.command if log.command.startswith("llama-server") else f"llama-cli {log.command}"
    plan = reserved(model(log.model), words, log.build).allocation
    k, v = (sum(dict(charge.parts).get(name, 0) for charge in plan.charges) for name in ("k_bytes", "v_bytes"))
    found: dict[str, object] = {"cells": plan.values["cells"], "kv": k + v, "k": k, "v": v}
    found = {name: number if name == "cells" else f"{number / MIB:.2f}" for name, number in found.items()}
    lines = [(line, SIZES.search(line)) for line in plan.log]
    for i, (line, sizes) in enumerate((line, sizes) for line, sizes in lines if sizes):
        kind = "rs" if "recurrent" in line else "swa" if i and "iswa" in plan.log[1] + plan.log[0] else "kv"
        names = {
            "rs": ("rs_", "rs", "r", "s"),
            "kv": ("", "kv", "k", "v"),
            "swa": ("swa_", "swa_kv", "swa_k", "swa_v"),
        }[kind]
        if names[0] + "layers" in found:  # the context of the draft layers
            continue
        found |= dict(zip(names[1:], sizes.group(1, 5, 6), strict=True))
        found |= {names[0] + "cells": int(sizes[2]), names[0] + "layers": int(sizes[3]), names[0] + "seqs": sizes[4]}
    return found


SIZES = re.compile(
    r"size = +(\S+) MiB \( *(\d+) cells, +(\d+) layers, +(\S+) seqs.*?\), . \(\w+\): +(\S+) MiB, . \(\w+\): +(\S+)"
)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.id)
def test_public_logs(log: Log) -> None:
    """Each number of a start-up log comes out as it was printed, by the rules of its build."""
    found = printed(log)
    assert {name: found[name] for name in log.printed} == log.printed


def test_whisper_cpp_pads_as_well() -> None:
    """whisper.cpp is no engine here, but its sums are those of the model at padded lengths: E290 (tiny) prints 3.15 MB
    and 9.44 MB, which is 448 tokens padded to 512 and 1,500 frames padded to 1,536; E293 (base, late 2023) prints 5.25
    and 17.58 MiB without padding.
    """
    tiny = kvcalc.load("whisper-tiny")
    padded = kvcalc.size(tiny, context=512, encoder_tokens=1536, kv_dtype="fp16")
    assert sorted(group.bytes_per_sequence for group in padded.size.groups) == [3_145_728, 9_437_184]
    base = model_with(
        model_type="whisper", heads=8, kv_heads=8, layers="6 full+cross", caches={"cross": {"tokens": 1500}}
    )
    plain = kvcalc.size(base, context=448, kv_dtype="fp16")
    assert sorted(f"{group.bytes_per_sequence / MIB:.2f}" for group in plain.size.groups) == ["17.58", "5.25"]
