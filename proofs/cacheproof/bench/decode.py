"""One decode step: a slot for one token of every running request.

Every request writes one token a step, so one in sixteen needs a new block, and as many blocks become full and can be
found. A turn is sixteen steps or more, and one before them that is not timed. What blocks hold is known before; to hash
it is measured by `hashes` and `burst`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cacheproof.bench.measure import Benchmark, Contender, Goal, Make, Released

RUNNING = (16, 64, 256, 1024, 4096)
SMALL_PART = 64
TURNS = 24
STEPS, LEAST_SLOTS = 16, 4096
"""Steps of a turn, and slots that it gives at least: a turn of a few microseconds would say nothing"""
ON_TENSORS, BY_CALENDAR = "tensors", "calendar"
MANY = 256
"""From so many requests on, times the release are asked for"""


def sizes(running: int, *, small: bool) -> dict[str, int]:
    """Of the work."""
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
    """The same of a release."""
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
