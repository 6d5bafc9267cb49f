"""The accelerators of this machine, as its driver's own tool prints them. No shell, and not long."""

import json
import shutil
import subprocess
from collections import Counter
from typing import NamedTuple

from kvcalc.errors import KvcalcError, escape, shown

__all__ = ["Device", "ask"]

_SECONDS = 5
_MOST_TEXT = 1 << 16
_MOST_DEVICES = 1024

_NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_AMD = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")


class Device(NamedTuple):
    """A device as a tool prints it. GB10 prints no memory, since it shares the system's."""

    name: str
    mib: int | None
    vendor: str


def ask(what: str) -> Counter[Device]:
    """How many of which. Raises KvcalcError where no tool answers."""
    faults = []
    for command, read in ((_NVIDIA, _nvidia), (_AMD, _amd)):
        program = shutil.which(command[0])
        if program is None:
            continue
        try:
            found = read(_run((program, *command[1:])))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = "no answer in time" if isinstance(error, subprocess.TimeoutExpired) else "no list of GPUs"
            faults.append(f"{command[0]}: {said}")
            continue
        if found:
            return Counter(found[:_MOST_DEVICES])
        faults.append(f"{command[0]}: no GPU")
    reason = "; ".join(faults) or "found neither nvidia-smi nor rocm-smi"
    raise KvcalcError(f"{what}: local: {reason}", "name the GPU, such as h100, or give --vram SIZE")


def _run(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)  # noqa: S603  # a fixed list of words, and no shell
    return done.stdout[:_MOST_TEXT].decode(errors="replace")


def _nvidia(text: str) -> list[Device]:
    """`NVIDIA H100 80GB HBM3, 81559` for each device."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        name, comma, memory = line.rpartition(",")
        if not comma:
            raise ValueError(line)
        found.append(_device(name, _mib(memory), "NVIDIA"))
    return found


def _amd(text: str) -> list[Device]:
    """A mapping of card0 and so on to what is known of them, under keys that changed with versions."""
    found, cards = [], json.loads(text)
    for key, card in cards.items() if isinstance(cards, dict) else ():
        if not (isinstance(card, dict) and key.startswith("card")):
            continue
        names = [card.get(name) for name in ("Card Series", "Card series", "Card Model", "Card model")]
        name = next((one for one in names if isinstance(one, str) and not one.startswith("0x")), "")
        total = str(card.get("VRAM Total Memory (B)", ""))
        found.append(_device(name, int(total[:20]) // 2**20 if total.isdecimal() else None, "AMD"))
    return found


def _device(name: str, mib: int | None, vendor: str) -> Device:
    name = escape(name.strip())[:80]
    if not name:
        raise ValueError(shown(name))
    return Device(name, mib, vendor)


def _mib(text: str) -> int | None:
    text = text.strip().removesuffix("MiB").strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= 9 and int(text) else None
