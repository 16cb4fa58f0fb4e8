"""The era of hits that end within a block, each time without one of its faults."""

from __future__ import annotations

from cacheproof.catalogue.mends import Mend, around, transitions
from cachespec.kernel import Transition
from cachespec.partial_hits.configuration import FULL, Config, Request
from cachespec.partial_hits.era_0_33 import allocating, waits_for_state
from cachespec.partial_hits.operations import AllocateSlots, FreeRequest
from cachespec.partial_hits.prefixes import forget, full_hits
from cachespec.partial_hits.state import Pool, Result, Write
from cachespec.partial_hits.worker import writes_of

ERAS = ("K2",)


def written(config: Config, write: Write) -> tuple[int, ...]:
    """The blocks that it changes, and those of full attention that it fills."""
    last = (write.end - 1) // config.block_size
    return write.blocks[write.start // config.block_size if write.group == FULL else last : last + 1]


def waits_for_both(config: Config, pool: Pool, request: Request, found: int) -> bool:
    """A request also waits if the block that is to be copied is computed by the step being planned."""
    if found % config.block_size == 0:
        return waits_for_state(config, pool, request, found)
    source = full_hits(config, pool, request, found)[-1]
    planned = any(
        write.group == FULL and source in written(config, write) for write in writes_of(pool, pool.dispatched)
    )
    return planned or waits_for_state(config, pool, request, found)


def forgetting_what_was_planned(
    free: Transition[Config, Pool, FreeRequest], config: Config, pool: Pool, op: FreeRequest
) -> Result:
    """What the step being planned would have computed of the request cannot be found any more."""
    for write in writes_of(pool, pool.dispatched):
        if write.request == op.request:
            for block in written(config, write):
                pool = forget(pool, block)
    return free(config, pool, op)


MENDS = (
    Mend("C-KV-6", ERAS, around(forgetting_what_was_planned, FreeRequest)),
    Mend("C-KV-34", ERAS, transitions({AllocateSlots: allocating(waits_for_both)})),
)
