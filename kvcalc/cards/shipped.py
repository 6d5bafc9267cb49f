"""The accelerators and the machine types that are shipped, as facts, and the memory of each that a process gets.

Three numbers go by the name of a card's memory: what it is sold with, what the driver's tool prints, and what the
runtime hands to a process. Engines multiply their share with the third.
"""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kvcalc.core.card import Card, Shares
from kvcalc.library.index import bundled

__all__ = ["RESERVE", "Accelerator", "Machine", "accelerators", "machines", "rented", "sources"]

# What NVIDIA's runtime holds back of the driver's total: 0.35 to 0.85 GiB on the cards where both were read.
RESERVE = int(0.6 * 2**30)


class Accelerator(NamedTuple):
    """The facts of one device, in the units in which they are published. `sources` says where each was read.

    `usable` is the share of unified memory that the GPU may take; `link_gb_s` is between devices of one machine, in one
    direction, and `shares` what kernels attain of the peaks. `machine`: eight for servers
    and cards in slots, four on a tray of GB200, one where memory is unified.
    `memory` and `price` come from a user's own file, whose name is `file`; `here` is how many this machine has, where
    it was asked.
    """

    id: str
    label: str
    vendor: str = ""
    capability: str | None = None
    bf16: bool = True
    marketing_gb: int | None = None
    driver_mib: int | None = None
    runtime_gib: float | None = None
    usable: tuple[int, int] | None = None
    bandwidth_gb_s: float | None = None
    tflops_16bit: float | None = None
    tflops_fp8: float | None = None
    tflops_fp4: float | None = None
    link: str | None = None
    link_gb_s: float | None = None
    shares: Shares = Shares()
    machine: int = 8
    names: tuple[str, ...] = ()  # as the driver prints them, where they do not follow from `id` and `label`
    sources: Mapping[str, str] = {}
    note: str = ""
    memory: int | None = None
    price: float | None = None
    file: str | None = None
    here: int | None = None

    def used(self) -> tuple[int, str]:
        """The memory that a process gets, in bytes, and which key of MEMORY_SOURCES it follows from."""
        if self.memory is not None:
            return self.memory, "file"
        if self.runtime_gib is not None:
            return int(self.runtime_gib * 2**30), "runtime"
        if self.driver_mib is not None:
            if self.vendor == "NVIDIA":
                return self.driver_mib * 2**20 - RESERVE, "driver-less-reserve"
            return self.driver_mib * 2**20, "driver"  # AMD's and Intel's runtimes hand out all of it
        assert self.marketing_gb is not None
        if self.usable is not None:  # memory modules are sold in GiB
            return self.marketing_gb * 2**30 * self.usable[0] // self.usable[1], "unified-share"
        # No card whose totals were read has less than this.
        return self.marketing_gb * 10**9 - RESERVE, "nominal-less-reserve"

    def with_unified(self, gib: int) -> "Accelerator":
        """The same computer with another size of unified memory.

        The GPU's share is what macOS names as recommendedMaxWorkingSetSize in public logs of llama.cpp: 5,461 MiB of 8,
        10,923 of 16, 16,384 of 24 and 21,845 of 32 GiB (2/3); 27,648 of 36, 49,152 of 64, 73,728 of 96 GiB (3/4).
        """
        share = (2, 3) if gib < 36 else (3, 4)
        return self._replace(id=f"{self.id}:{gib}GB", label=f"{self.label}, {gib} GB", marketing_gb=gib, usable=share)

    def card(self) -> Card:
        """What the rest of kvcalc reckons with."""
        memory, source = self.used()
        major, _, minor = (self.capability or "").partition(".")
        return Card(
            name=self.id,
            label=self.label,
            memory=memory,
            capability=(int(major), int(minor)) if major else None,
            vendor=self.vendor,
            bandwidth=_times(self.bandwidth_gb_s, 10**9),
            flops16=_times(self.tflops_16bit, 10**12),
            flops8=_times(self.tflops_fp8, 10**12),
            flops4=_times(self.tflops_fp4, 10**12),
            bf16=self.bf16,
            link=_times(self.link_gb_s, 10**9),
            machine=self.machine,
            price=self.price,
            memory_source=source,
            shares=self.shares,
        )


class Machine(NamedTuple):
    """A machine type of a cloud: `gpus` of a card, none where it has a part of one. `but`: where its cards differ."""

    name: str
    cloud: str
    card: str
    gpus: int
    confidence: str
    cloud_mib: int | None = None
    but: Mapping[str, Any] = {}
    note: str = ""


def _times(number: float | None, unit: int) -> int | None:
    return None if number is None else round(number * unit)


@lru_cache(1)
def _shipped() -> tuple[dict[str, Accelerator], dict[str, list[str]]]:
    data = _read("gpus.json")
    found = {}
    for row in data["cards"]:
        facts = {**row, "sources": row["from"], "names": tuple(row.get("names", ()))}
        del facts["from"]
        attained = [data["attained"][name] for name in facts.pop("attained", ())]
        facts["shares"] = Shares(**{key: share for one in attained for key, share in one["shares"].items()})
        if "usable" in facts:
            facts["usable"] = tuple(facts["usable"])
        found[row["id"]] = Accelerator(**facts)
    return found, data["sources"]


def accelerators() -> dict[str, Accelerator]:
    """Every accelerator that is shipped, by its name."""
    return _shipped()[0]


def sources() -> dict[str, list[str]]:
    """What the words in `Accelerator.sources` stand for: how far a source is to be trusted, and what it is."""
    return _shipped()[1]


@lru_cache(1)
def machines() -> dict[str, Machine]:
    """Every machine type, by its name."""
    return {row["name"]: Machine(**row) for row in _read("machines.json")["machines"]}


@lru_cache(1)
def rented() -> Mapping[str, Mapping[int, tuple[str, ...]]]:
    """The machine types of each card by their number of GPUs: what can be rented."""
    found: dict[str, dict[int, list[str]]] = {}
    for machine in machines().values():
        if machine.gpus:
            found.setdefault(machine.card, {}).setdefault(machine.gpus, []).append(machine.name)
    return {card: {gpus: tuple(names) for gpus, names in sorted(of.items())} for card, of in found.items()}


def _read(name: str) -> Any:
    # JSON: the fastest of the standard library's readers, since --gpu stands in short questions.
    with open(os.path.join(bundled(), name), encoding="utf-8") as file:
        return json.load(file)
