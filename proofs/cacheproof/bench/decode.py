"""One decode step: a slot for one token of every running request.

Every request writes one token a step, so 1 in 16 needs a new block, and as many blocks become full and are registered.
A turn has at least 16 steps and 32,768 slots, after an untimed step: shorter turns of few requests measure how much of
their memory the other contenders have pushed out of the processor's caches. The contents of the blocks are known
before; `hashes` and `burst` measure the hashing.
"""

from __future__ import annotations

from functools import partial

from cacheproof.bench.measure import Goal
from cacheproof.bench.sized import on_tensors, sized

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 24
STEPS, LEAST_SLOTS = 16, 32_768
"""Least numbers of steps and of slots in a turn"""
ON_TENSORS, BY_CALENDAR = "tensors", "calendar"
MANY = 256
"""From this number of requests on, the goal is a multiple of the release's rate"""


def sizes_of(running: int, small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """Sizes of the work."""
    count = max(1, running // SMALL_PART) if small else running
    steps = STEPS if small else max(STEPS, LEAST_SLOTS // count)
    return {"running": count, "block_size": 16, "prompt": 64, "steps": steps, "turns": TURNS}


KINDS = {
    "plain lists": on_tensors("slots:PlainDecode"),
    ON_TENSORS: on_tensors("slots:TensorDecode"),
    BY_CALENDAR: on_tensors("slots:RunningDecode"),
}
BENCHMARKS = tuple(
    sized(
        f"decode-{running}",
        "slots for one token of every running request, and full blocks registered",
        "steps",
        f"{running:,} running requests",
        partial(sizes_of, running),
        KINDS,
        "decode",
        goal=Goal((BY_CALENDAR,), times_the_release=40 if running >= MANY else None, times_the_yardstick=1),
        most_repeats=TURNS,
    )
    for running in RUNNING
)
