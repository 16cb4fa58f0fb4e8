"""The scheduler of one engine: branch-free functions over columns of requests, plans and the two caches.

`schedule` and, while `remaining` is not 0, `proceed` make a round; `update` takes the output of the oldest plan, and
while requests are `ending`, `release` lets them go. `add`, `compiled`, `abort`, `reset_prefix_cache`, `reset_running`
and `reset_encoder_cache` come between rounds. `shown` and `finished` list a plan, and who is finished by an update.
`engine.Scheduler` calls all of them for an engine.
"""

from cacheimpl.scheduler.connector import bring_output, lose_output
from cacheimpl.scheduler.plans import shown
from cacheimpl.scheduler.requests import (
    abort,
    add,
    compiled,
    finished,
    release,
    reset_encoder_cache,
    reset_prefix_cache,
    reset_running,
    update,
)
from cacheimpl.scheduler.rounds import Extent, proceed, remaining, schedule
from cacheimpl.scheduler.state import NO_LIMIT, Config, Plan, State, blank_plans, empty
from cacheimpl.scheduler.transfers import fail_load, failed_step, finish_load, finish_send

__all__ = [
    "NO_LIMIT",
    "Config",
    "Extent",
    "Plan",
    "State",
    "abort",
    "add",
    "blank_plans",
    "bring_output",
    "compiled",
    "empty",
    "fail_load",
    "failed_step",
    "finish_load",
    "finish_send",
    "finished",
    "lose_output",
    "proceed",
    "release",
    "remaining",
    "reset_encoder_cache",
    "reset_prefix_cache",
    "reset_running",
    "schedule",
    "shown",
    "update",
]
