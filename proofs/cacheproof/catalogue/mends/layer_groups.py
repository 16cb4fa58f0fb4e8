"""The eras of the groups of layers, each without one of their faults."""

from __future__ import annotations

from cacheproof.catalogue.mends import Mend, transitions
from cachespec.layer_groups import era_0_11, era_later
from cachespec.layer_groups.configuration import Config, Group, Request
from cachespec.layer_groups.era_later import IN_0_20, IN_0_33, IN_THE_SAME_STEP
from cachespec.layer_groups.era_rules import Hits, estimate_all
from cachespec.layer_groups.operations import AllocateSlots, FreeRequest
from cachespec.layer_groups.state import Pool
from cachespec.layer_groups.transitions import TRANSITIONS, needed_by_new


def as_taken(config: Config, pool: Pool, request: Request, hits: Hits, start: int, end: int) -> int:
    """C-KV-14: what a new request takes is what it is said to need."""
    if pool.progress.has(request):
        return estimate_all(config, pool, request, hits, start, end)
    found = len(hits[0]) * (config.sizes[0] if config.sizes else config.hash_size)
    return needed_by_new(config, pool, request, found, start, end)


def named_always(config: Config, group: Group, *, fresh: bool) -> int:
    """C-KV-24: a running request needs no more than it has."""
    return era_0_11.named_at_first(config, group, fresh=True)


EARLY = IN_0_20._replace(behind=era_later.give_back_processed)
TOUCHED = IN_0_20._replace(beginning=era_later.hits_first)
WAITING = IN_THE_SAME_STEP._replace(waits=IN_0_20.waits)
SETTLED = era_0_11.IN_0_11._replace(settled=lambda progress: progress.computed)
NAMED = era_0_11.IN_0_11._replace(named=named_always)

MENDS = (
    Mend("C-KV-12", ("K1b",), transitions({AllocateSlots: era_later.allocating(TOUCHED)})),
    Mend("C-KV-14", ("K1b",), transitions({AllocateSlots: era_later.allocating(IN_0_20._replace(needed=as_taken))})),
    Mend("C-KV-14", ("K2",), transitions({AllocateSlots: era_later.allocating(IN_0_33._replace(needed=as_taken))})),
    Mend("C-KV-15", ("K1", "K1b"), transitions({FreeRequest: TRANSITIONS[FreeRequest]})),
    Mend("C-KV-22", ("K1b",), transitions({AllocateSlots: era_later.allocating(EARLY)})),
    Mend("C-KV-22", ("K1",), transitions({AllocateSlots: era_0_11.allocating(SETTLED)})),
    Mend("C-KV-23", ("K1b-same-step",), transitions({AllocateSlots: era_later.allocating(WAITING)})),
    Mend("C-KV-24", ("K1",), transitions({AllocateSlots: era_0_11.allocating(NAMED)})),
)
