"""A whole scheduler step while every running request decodes: budgets, slots, the plan, and the update from its output.

A unit is `schedule` and `update_from_output`. No request waits, and none needs the slow path for single requests. Other
steps cost more; their number depends on the load. `items` is the same with requests that have an item each in their
prompts.
"""

from __future__ import annotations

from functools import partial

from cacheproof.bench.measure import Goal
from cacheproof.bench.plain_steps import PlainSteps
from cacheproof.bench.sized import on_tensors, sized

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 16
STEPS, LEAST_TOKENS = 16, 4096
"""Least numbers of steps and of tokens in a turn: a turn of a few microseconds would say nothing"""
MANY = 256
"""From this number of requests on, the goal is a multiple of the release's rate"""
ON_TENSORS, WITH_ITEMS = "tensors", "tensors, with places for items"


def sizes_of(running: int, small: bool) -> dict[str, int]:  # noqa: FBT001  # called with nothing else
    """Sizes of the work."""
    count = max(1, running // SMALL_PART) if small else running
    steps = STEPS if small else max(STEPS, LEAST_TOKENS // count)
    return {"running": count, "block_size": 16, "prompt": 64, "steps": steps, "turns": TURNS}


KINDS = {
    "plain lists": PlainSteps,
    ON_TENSORS: on_tensors("steps:TensorSteps"),
    WITH_ITEMS: on_tensors("steps:TensorStepsWithItems"),
}


def shares(*, small: bool) -> list[str]:
    """The share of such steps in two loads: the figures hold for steps in which no request takes the slow path."""
    from cacheproof.bench.tensor import loads  # noqa: PLC0415  # torch is an extra

    return [str(share) for share in loads.shares(small=small)]


BENCHMARKS = tuple(
    sized(
        f"step-{running}",
        "a whole scheduler step, one token for every running request",
        "steps",
        f"{running:,} running requests",
        partial(sizes_of, running),
        KINDS,
        "step",
        {"items": 0},
        goal=Goal((ON_TENSORS,), times_the_release=40 if running >= MANY else None, times_the_yardstick=1),
        most_repeats=TURNS,
        beside=shares,
    )
    for running in RUNNING
)
