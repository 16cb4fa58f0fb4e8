"""One decode step: a slot for one token of every running request.

Every request writes one token a step, so 1 in 16 needs a new block, and as many blocks become full and are registered.
A turn has at least 16 steps, after an untimed one. The contents of the blocks are known before; `hashes` and `burst`
measure the hashing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheproof.bench.measure import Benchmark, Contender, Goal, Make, Released

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 24
STEPS, LEAST_SLOTS = 16, 4096
"""Least numbers of steps and of slots in a turn: a turn of a few microseconds would say nothing"""
ON_TENSORS, BY_CALENDAR = "tensors", "calendar"
MANY = 256
"""From this number of requests on, the goal is a multiple of the release's rate"""


def sizes(running: int, *, small: bool) -> dict[str, int]:
    """Sizes of the work."""
    count = max(1, running // SMALL_PART) if small else running
    steps = STEPS if small else max(STEPS, LEAST_SLOTS // count)
    return {"running": count, "block_size": 16, "prompt": 64, "steps": steps, "turns": TURNS}


def make(running: int) -> Make:
    """Our contenders at this number of running requests."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.slots import PlainDecode, RunningDecode, TensorDecode  # noqa: PLC0415  # torch is an extra

        asked = sizes(running, small=small)
        return {
            "plain lists": PlainDecode(**asked),
            ON_TENSORS: TensorDecode(**asked),
            BY_CALENDAR: RunningDecode(**asked),
        }

    return contenders


def released(running: int) -> Callable[[bool], Released]:
    """The same work of a release."""
    return lambda small: Released("decode", sizes(running, small=small))


BENCHMARKS = tuple(
    Benchmark(
        name=f"decode-{running}",
        about="slots for one token of every running request, and full blocks registered",
        unit="steps",
        size=f"{running:,} running requests",
        contenders=make(running),
        goal=Goal((BY_CALENDAR,), times_the_release=40 if running >= MANY else None, times_the_yardstick=1),
        released=released(running),
        timed=True,
        most_repeats=TURNS,
    )
    for running in RUNNING
)
