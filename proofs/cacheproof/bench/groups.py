"""Groups of layers: full attention and a sliding window in one pool, beside full attention alone.

`decode` is a step of one token for every running request, `admit` a new prompt that evicts, `hit` a cached prompt. The
classes serve one request at a time. A release serves two groups.

Bursts on tensors have tables of full attention only, so both groups of `tensor_decode` and `tensor_admit` are full
attention. A release takes no second group of full attention; its second group has a window wider than any request
instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cacheproof.bench.measure import Benchmark, Goal
from cacheproof.bench.sized import Sizes, on_tensors, sized

TURNS = 24
WIDEST = 1 << 20
"""Tokens of a window that no request outgrows."""
ONE, TWO = "one group", "two groups"
GOAL = Goal((TWO,), times_the_release=1, times_the_yardstick=0.5)
"""Goals: at most twice the time of one group, and at most the time of a release with two."""


def decode_sizes(small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """256 requests whose contexts are longer than the window."""
    running = 16 if small else 256
    return {"running": running, "block_size": 16, "prompt": 256, "window": 128, "steps": 16, "turns": TURNS}


def full_decode_sizes(small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """The same without a window."""
    return {name: size for name, size in decode_sizes(small).items() if name != "window"}


def cycle_sizes(hit: int, small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """A pool with room for 2 prompts in each group: when one of the 4 comes again, its blocks have been evicted."""
    tokens = 512 if small else 8192
    pool = {"tokens": tokens, "block_size": 16, "blocks": tokens // 8}
    return {**pool, "window": tokens // 8, "hit": hit, "times": 4}


def admit_sizes(small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """A burst of prompts, and a pool with room for one burst and a little more in each group."""
    requests, tokens = (4, 128) if small else (64, 2048)
    return {"requests": requests, "tokens": tokens, "block_size": 16, "blocks": requests * tokens // 16 * 17 // 16}


def grouped(name: str, about: str, unit: str, size: str, sizes: Sizes, kind: str, work: str, **more: Any) -> Benchmark:
    """One group beside two of them, on this class of `bench.tensor`."""
    kinds = {shown: on_tensors(kind, groups=groups) for shown, groups in ((ONE, 1), (TWO, 2))}
    return sized(f"groups-{name}", about, unit, size, sizes, kinds, work, goal=GOAL, **more)


BENCHMARKS = (
    grouped(
        "tensor_decode",
        "slots for one token of every running request, on tensors",
        "steps",
        "256 running requests, two groups of full attention",
        full_decode_sizes,
        "grouped_bursts:TensorSteps",
        "grouped_decode",
        of_release={"window": WIDEST, "groups": 2},
        most_repeats=TURNS,
    ),
    grouped(
        "tensor_admit",
        "new prompts at once, hashed before: look up, slots, register, on tensors",
        "prompts",
        "64 prompts of 2,048 tokens, two groups of full attention",
        admit_sizes,
        "grouped_bursts:TensorAdmissions",
        "grouped_burst",
        of_release={"window": WIDEST, "groups": 2},
    ),
    grouped(
        "decode",
        "slots for one token of every running request, one request at a time",
        "steps",
        "256 running requests, a window of 128 tokens",
        decode_sizes,
        "grouped:ManagerDecode",
        "grouped_decode",
        of_release={"groups": 2},
        most_repeats=TURNS,
    ),
    *(
        grouped(
            name,
            f"a {said} prompt: look up, slots, free",
            "prompts",
            "8,192 tokens, a window of 1,024",
            partial(cycle_sizes, hit),
            "grouped:ManagerCycle",
            "grouped_cycle",
            of_release={"groups": 2},
        )
        for name, said, hit in (("admit", "new", 0), ("hit", "cached", 1))
    ),
)
