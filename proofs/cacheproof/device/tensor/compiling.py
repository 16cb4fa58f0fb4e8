"""Kernels compiled without a device: registers, spills, shared memory, launches, and the sectors that a call moves."""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.interpreter import interpreter_builder

from cacheimpl.kernels import FusedLookUp, FusedStep
from cacheimpl.kernels.decoding import Launch
from cacheproof.device.estimate import ARCHITECTURES, MACHINES, SECTOR, microseconds
from cacheproof.device.tensor.speed import BLOCK_SIZE, decoding

RUNNING = (256, 1024, 4096, 16_384, 65_536)
PROMPTS, BLOCKS_OF_A_PROMPT = 256, 512
ACCESSES = {"count_uses": 3, "decode_turns": 4, "fill_keys": 1, "lead_copies": 2, "find_prefix": 4}
"""Of each kernel: the longest chain of accesses to global memory, each of which needs what the one before has loaded"""
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


def look_up(prompts: int, blocks: int) -> Call:
    """New prompts, in a pool with room for all of them."""
    engine, rows = decoding(prompts, BLOCK_SIZE * (blocks - 6), "cpu")
    tokens = torch.full_like(rows, BLOCK_SIZE * blocks)
    call = FusedLookUp(engine.config, engine.pool, prompts)
    return Call("look-up", f"{prompts:,} prompts of {BLOCK_SIZE * blocks:,} tokens", call.launches(rows, tokens))


def calls(*, small: bool) -> Iterator[Call]:
    """What is compiled; a small run takes the smallest step in one launch and in two."""
    yield from map(decode_step, (RUNNING[0], RUNNING[2]) if small else RUNNING)
    if not small:
        yield look_up(PROMPTS, BLOCKS_OF_A_PROMPT)


def report(show: Callable[[str], object], *, small: bool = False) -> dict[str, Any]:
    """Of each call its kernels for each architecture, and the model of its time on each machine."""
    kernels, estimates = [], []
    for call in calls(small=small):
        for launch in call.launches:
            for architecture in ARCHITECTURES:
                show(f"compiling {launch.name} for sm_{architecture}, {call.size}")
                kernels.append({"call": call.name, "size": call.size, **compiled(launch, architecture)})
        show(f"counting what a {call.name} moves, {call.size}")
        estimates.append({"call": call.name, "size": call.size, **estimated(call)})
    return {"triton": triton.__version__, "kernels": kernels, "model": estimates}


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


def estimated(call: Call) -> dict[str, Any]:
    """Launches, chain of accesses and sectors of a call, and the time that follows for each machine."""
    sectors = 0
    for launch in call.launches:
        with counted() as moved:
            launch.kernel.launch(launch.programs, launch.warps, **launch.given)
        sectors += moved[0]
    launches, accesses = len(call.launches), sum(ACCESSES[launch.name] for launch in call.launches)
    times = {one.name: round(microseconds(one, launches, accesses, sectors), 1) for one in MACHINES}
    return {"launches": launches, "accesses": accesses, "bytes": sectors * SECTOR, "microseconds": times}


@contextmanager
def counted() -> Iterator[list[int]]:
    """Counts the sectors that the interpreter loads and stores: each instruction of a program by itself."""
    moved, replaced = [0], ("create_masked_load", "create_masked_store", "create_atomic_rmw")
    own = {name: getattr(interpreter_builder, name) for name in replaced}

    def counting(name: str, pointers: int, mask: int) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            addresses = torch.from_numpy(given[pointers].data.astype("int64")).flatten()
            chosen = addresses[torch.from_numpy(given[mask].data.astype("bool")).flatten()]
            moved[0] += int(torch.unique(chosen // SECTOR).numel())
            return own[name](*given)

        return call

    places = dict(zip(replaced, ((0, 1), (0, 2), (1, 3)), strict=True))
    try:
        for name, (pointers, mask) in places.items():
            setattr(interpreter_builder, name, counting(name, pointers, mask))
        yield moved
    finally:
        for name in replaced:
            delattr(interpreter_builder, name)
