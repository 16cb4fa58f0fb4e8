"""Kernels compiled without a device: registers, spills and shared memory."""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from cacheimpl.kernels import FusedLookUp, FusedRound, FusedStep
from cacheimpl.kernels.decoding import Launch
from cacheimpl.scheduler import Extent
from cacheproof.device.records import ARCHITECTURES
from cacheproof.device.tensor.speed import BLOCK_SIZE, decoding, decoding_scheduler

RUNNING = (256, 1024, 4096, 16_384, 65_536)
PROMPTS, BLOCKS_OF_A_PROMPT = 256, 512
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
"""What the tool for compiled programs says of one; registers that do not fit are spilled to its stack"""


class Call(NamedTuple):
    """A call in kernels."""

    name: str
    size: str
    launches: list[Launch]


def decode_step(running: int) -> Call:
    """All of them get a token, and one in sixteen a block."""
    engine, rows = decoding(running, 1, "cpu")
    step = FusedStep(engine.config, engine.pool, running, most=max(1, 2 * running // BLOCK_SIZE))
    return Call("decode step", f"{running:,} requests", step.launches(rows))


def scheduling_round(running: int) -> Call:
    """All of them run, and get a token each. A larger round has the same kernels as one of 1,024 requests."""
    scheduler = decoding_scheduler(running, 1, "cpu")
    step = FusedRound(scheduler.config, scheduler.state, Extent(1, 0, 0, 1, 1, 1, items=False))
    return Call("round", f"{running:,} requests", [*step.launches()])


def look_up(prompts: int, blocks: int) -> Call:
    """New prompts, in a pool with room for all of them."""
    engine, rows = decoding(prompts, BLOCK_SIZE * (blocks - 6), "cpu")
    tokens = torch.full_like(rows, BLOCK_SIZE * blocks)
    call = FusedLookUp(engine.config, engine.pool, prompts)
    return Call("look-up", f"{prompts:,} prompts of {BLOCK_SIZE * blocks:,} tokens", call.launches(rows, tokens))


def calls(*, small: bool) -> Iterator[Call]:
    """What is compiled; a small run takes the smallest step in one launch and in two."""
    yield from map(decode_step, (RUNNING[0], RUNNING[2]) if small else RUNNING)
    yield from map(scheduling_round, RUNNING[:1] if small else RUNNING[:2])
    if not small:
        yield look_up(PROMPTS, BLOCKS_OF_A_PROMPT)


def report(show: Callable[[str], object], *, small: bool = False) -> dict[str, Any]:
    """Of each call its kernels for each architecture."""
    kernels = []
    for call in calls(small=small):
        for launch in call.launches:
            for architecture in ARCHITECTURES:
                show(f"compiling {launch.name} for sm_{architecture}, {call.size}")
                kernels.append({"call": call.name, "size": call.size, **compiled(launch, architecture)})
    return {"triton": triton.__version__, "kernels": kernels}


def compiled(launch: Launch, architecture: int) -> dict[str, Any]:
    """What the assembler says of the kernel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a default of the next release, which is about floating point
        target, options = GPUTarget("cuda", architecture, 32), {"num_warps": launch.warps}
        kernel = triton.compile(launch.kernel.source(launch.given), target=target, options=options)
    usage = USAGE.search(told_of(kernel.asm["cubin"]))
    assert usage is not None, f"nothing is known of {launch.name}"
    return {
        "kernel": launch.name,
        "architecture": f"sm_{architecture}",
        "programs": launch.programs,
        "warps": launch.warps,
        "registers": int(usage[1]),
        "spilled_bytes": int(usage[2]) + int(usage[3]),
        "shared_bytes": int(kernel.metadata.shared),
    }


def told_of(program: bytes) -> str:
    """What a compiled program uses, by the tool that comes with Triton."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(program)
        words = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(path)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603  # Triton's own
