"""What must hold of admissions under the settings of the prefix cache and of the watermark."""

from __future__ import annotations

from cachespec.kernel import Operation, Outcome, Step
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.view import new_plan


def admitted(before: View, op: Operation, after: View) -> tuple[Scheduled, ...]:
    """The parts of the new plan that belong to requests which waited."""
    return tuple(part for part in new_plan(before, op, after).scheduled if part.request in before.waiting)


def watermark_is_left(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A request that runs alone may take every block."""
    if admitted(before, op, after) == () or len(after.running) == 1:
        return True
    return len(after.kv.free) >= config.watermark


def nothing_is_taken_over(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return config.prefix_caching == 1 or all(
        part.start <= (config.external[part.request] if config.external else 0) for part in admitted(before, op, after)
    )


ADMISSION: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-11",
        "an admission beside another running request leaves at least `watermark` blocks free",
        watermark_is_left,
        lambda c, b, op, o, a: c.watermark > 0 and bool(admitted(b, op, a)) and len(a.kv.free) == c.watermark,
    ),
    Step(
        "KV-6/off",
        "without prefix caching, an admitted request starts behind its external KV and takes no other request's blocks",
        nothing_is_taken_over,
        lambda c, b, op, o, a: c.prefix_caching == 0 and bool(admitted(b, op, a)) and bool(b.kv.registered),
    ),
)
