"""What was measured on a device, and what the kernels use: records that the pages show as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARCHITECTURES = (80, 90)
"""Compute capabilities, tens and ones, that the kernels are compiled for: of an A100, and of an H100 or H200"""

HERE = Path(__file__).parent
KERNELS = HERE / "kernels.json"
"""What `cacheproof device --compile --json` printed"""
MEASURED = HERE / "measured.json"
"""What `cacheproof device` wrote on a device"""
KERNEL_COLUMNS = (
    *("call", "size", "kernel", "programs", "warps", "architecture", "registers", "spilled bytes", "shared bytes"),
)
CHECK_COLUMNS = ("check", "result", "seconds", "what was done")
FIGURE_COLUMNS = ("figure", "size", "median", "least to most")


def record(path: Path) -> dict[str, Any]:
    """One of the records."""
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return known


def kernel_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What each kernel uses."""
    numbers = ("registers", "spilled_bytes", "shared_bytes")
    names = ("call", "size", "kernel", "programs", "warps", "architecture", *numbers)
    return [tuple(_text(row[name]) for name in names) for row in report["kernels"]]


def check_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What became of each check."""
    return [
        (
            f"`{one['name']}`",
            one["status"],
            f"{one['seconds']:.0f}",
            ", ".join(f"{count:,} {what}" for what, count in one["counts"].items()),
        )
        for one in result["checks"]
    ]


def figure_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Each figure that was measured, with its spread."""
    return [
        (
            f"`{one['name']}`",
            one["size"],
            f"{rounded(one['median'])} {one['unit']}",
            f"{rounded(one['least'])} to {rounded(one['most'])}",
        )
        for one in result["figures"]
        if "size" in one  # the example says what it did in words
    ]


def machine_line(machine: Mapping[str, Any]) -> str:
    """The device with its software, and the host, in one sentence."""
    device = f"{machine['device']}, driver {machine['driver']}, CUDA {machine['cuda']}, torch {machine['torch']}"
    host = machine["host"]
    return f"{device}; {host['processor']}, {host['cores']} cores, {host['python']}."


def rounded(value: float) -> str:
    """Three digits that count, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
