"""A whole scheduler step while every running request decodes: budgets, slots, the plan, and what its output changes.

That is `schedule` and `update_from_output`. Nobody waits and nothing remains for a request alone: other steps cost
more, and how many there are depends on the load. `items` is the same with requests whose prompts showed an item each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheproof.bench.measure import Benchmark, Contender, Goal, Make, Released
from cacheproof.bench.plain_steps import PlainSteps

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 16
STEPS, LEAST_TOKENS = 16, 4096
"""Steps of a turn, and tokens that it computes at least: a turn of a few microseconds would say nothing"""
MANY = 256
"""From so many requests on, times the release are asked for"""
ON_TENSORS, WITH_ITEMS = "tensors", "tensors, with places for items"


def sizes(running: int, *, small: bool) -> dict[str, int]:
    """Of the work."""
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
    """The figures are those of steps in which no request is taken alone: how many steps of two loads are such ones."""
    from cacheproof.bench.tensor import loads  # noqa: PLC0415  # torch is an extra

    return [str(share) for share in loads.shares(small=small)]


def released(running: int, items: int) -> Callable[[bool], Released]:
    """The same of a release."""
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
