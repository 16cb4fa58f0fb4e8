"""A model of how long kernels take on a device: from launches, chains of loads, and bytes. It is not a measurement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

LAUNCH = 1.5
"""us: the start of a kernel in a CUDA graph, and the gap before it (assumed)"""
ACCESS = 0.7
"""us: one access to global memory that waits for the one before (assumed)"""
SECTOR = 32
"""bytes: the least that memory moves for an access"""


class Machine(NamedTuple):
    """A device, as its vendor describes it."""

    name: str
    architecture: int
    """Compute capability, tens and ones"""
    gigabytes_per_second: float


MACHINES = (Machine("A100 80GB", 80, 2039), Machine("H100", 90, 3350), Machine("H200", 90, 4800))
ARCHITECTURES = tuple(sorted({machine.architecture for machine in MACHINES}))


def microseconds(machine: Machine, launches: int, accesses: int, sectors: int) -> float:
    """Of a call with so many launches, accesses that wait for one another, and sectors."""
    return LAUNCH * launches + ACCESS * accesses + sectors * SECTOR / machine.gigabytes_per_second / 1000


# The report, as tables ----------------------------------------------------------------------------------------------


RECORD = Path(__file__).parent / "kernels.json"
"""What `cacheproof device --compile --json` printed: the pages show it"""
KERNEL_COLUMNS = (
    *("call", "size", "kernel", "programs", "warps", "architecture", "registers", "spilled bytes", "shared bytes"),
)
MODEL_COLUMNS = ("call", "size", "launches", "accesses", "bytes", *(f"us on {machine.name}" for machine in MACHINES))


def recorded() -> dict[str, Any]:
    """The record."""
    known: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return known


def kernel_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What each kernel uses."""
    numbers = ("registers", "spilled_bytes", "shared_bytes")
    names = ("call", "size", "kernel", "programs", "warps", "architecture", *numbers)
    return [tuple(_text(row[name]) for name in names) for row in report["kernels"]]


def model_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The model of each call."""
    return [
        (
            *(_text(row[name]) for name in ("call", "size", "launches", "accesses", "bytes")),
            *(f"{row['microseconds'][machine.name]:.1f}" for machine in MACHINES),
        )
        for row in report["model"]
    ]


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
