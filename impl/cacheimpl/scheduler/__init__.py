"""The scheduler of one engine: branch-free functions over columns of requests, plans and the two caches.

`schedule` and, while `remaining` is not 0, `proceed` make a round; `update` takes the output of the oldest plan, and
while requests are `ending`, `release` gives back their blocks. `add`, `abort`, `reset_prefix_cache` and
`reset_encoder_cache` come between rounds.
"""

from cacheimpl.scheduler.requests import abort, add, release, reset_encoder_cache, reset_prefix_cache, update
from cacheimpl.scheduler.rounds import Extent, proceed, remaining, schedule
from cacheimpl.scheduler.state import NO_LIMIT, Config, State, empty

__all__ = [
    "NO_LIMIT",
    "Config",
    "Extent",
    "State",
    "abort",
    "add",
    "empty",
    "proceed",
    "release",
    "remaining",
    "reset_encoder_cache",
    "reset_prefix_cache",
    "schedule",
    "update",
]
