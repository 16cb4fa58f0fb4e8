"""What it was run on."""

from __future__ import annotations

import platform
import subprocess
from typing import Any

import torch

from cacheproof.bench.measure import machine as host


def machine(device: str) -> dict[str, Any]:
    """The device by its name, its driver, CUDA, torch, and the host."""
    told: dict[str, Any] = {
        "device": "cpu",
        "torch": str(torch.__version__),
        "host": host(),
        "kernel": platform.release(),
    }
    if torch.device(device).type != "cuda":
        return told
    properties = torch.cuda.get_device_properties(torch.device(device))
    return {
        **told,
        "device": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        "driver": driver(),
    }


def driver() -> str | None:
    """The version of the driver, as its own tool says it; None where that is not there."""
    words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout  # noqa: S603  # the driver's own tool
    except (OSError, subprocess.SubprocessError):
        return None
    return told.splitlines()[0].strip() if told.strip() else None
