"""A whole scheduler step while every running request decodes: budgets, slots, the plan, and the update from its output.

A unit is `schedule` and `update_from_output`. No request waits, and none needs the slow path for single requests. Other
steps cost more; their number depends on the load. `items` is the same with requests that have an item each in their
prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheproof.bench.measure import Benchmark, Contender, Goal, Make, Released
from cacheproof.bench.plain_steps import PlainSteps

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 16
STEPS, LEAST_TOKENS = 16, 4096
"""Least numbers of steps and of tokens in a turn: a turn of a few microseconds would say nothing"""
MANY = 256
"""From this number of requests on, the goal is a multiple of the release's rate"""
ON_TENSORS, WITH_ITEMS = "tensors", "tensors, with places for items"


def sizes(running: int, *, small: bool) -> dict[str, int]:
    """Sizes of the work."""
    count = max(1, running // SMALL_PART) if small else running
    steps = STEPS if small else max(STEPS, LEAST_TOKENS // count)
    return {"running": count, "block_size": 16, "prompt": 64, "steps": steps, "turns": TURNS}


def make(running: int) -> Make:
    """Our contenders at this number of running requests."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.steps import TensorSteps, TensorStepsWithItems  # noqa: PLC0415  # torch is an extra

        asked = sizes(running, small=small)
        return {
            "plain lists": PlainSteps(**asked),
            ON_TENSORS: TensorSteps(**asked),
            WITH_ITEMS: TensorStepsWithItems(**asked),
        }

    return contenders


def shares(*, small: bool) -> list[str]:
    """The share of such steps in two loads: the figures hold for steps in which no request takes the slow path."""
    from cacheproof.bench.tensor import loads  # noqa: PLC0415  # torch is an extra

    return [str(share) for share in loads.shares(small=small)]


def released(running: int, items: int) -> Callable[[bool], Released]:
    """The same work of a release."""
    return lambda small: Released("step", {**sizes(running, small=small), "items": items})


BENCHMARKS = tuple(
    Benchmark(
        name=f"step-{running}",
        about="a whole scheduler step, one token for every running request",
        unit="steps",
        size=f"{running:,} running requests",
        contenders=make(running),
        goal=Goal((ON_TENSORS,), times_the_release=40 if running >= MANY else None, times_the_yardstick=1),
        released=released(running, 0),
        timed=True,
        most_repeats=TURNS,
        beside=shares,
    )
    for running in RUNNING
)
