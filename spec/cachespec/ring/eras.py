"""What released engines did, as differences from the normative ring.

- ring-2025-10 (M1), released with 0.11.0;
- ring-2025-12 (M2), released with 0.12.0 to 0.20.2;
- ring-2026-11 (M3), released with 0.33.0: 32 bytes of secret come before the data, which plays no part here.
"""

from __future__ import annotations

from dataclasses import replace

from cachespec.kernel import DONE, NORMATIVE, Code, Containers, Outcome, Variant
from cachespec.ring.chunks import Ring, free_chunks
from cachespec.ring.configuration import Config
from cachespec.ring.environment import calls, readable
from cachespec.ring.era_chunks import (
    clear_beginning_again,
    clear_keeping_ids,
    free_chunks_staying_behind,
    ids_between,
    live_ids,
    reserve_whatever_id,
    ring_with_a_chunk_that_is_not,
)
from cachespec.ring.memory import read_size, write_chunk
from cachespec.ring.operations import Allocate, Clear, Free, Restart, Revoke
from cachespec.ring.state import Segment, View, initial, view
from cachespec.ring.transitions import TRANSITIONS, forgotten, issue, may_go

Result = tuple[Segment, Outcome]

NOBODY_TELLS = "the writer never learns that a handle will not be presented (C-SHM-4)"
GONE_TOGETHER = "the engine dies with its frontend, so no reader attaches to a second segment"


def allocate(config: Config, segment: Segment, op: Allocate) -> Result:
    """An id is given again even if a live chunk has it."""
    ring, outcome = reserve_whatever_id(config, segment.ring, config.sizes[op.content])
    if outcome.code is not Code.DONE:
        return segment, outcome
    address, identity = outcome.values
    at = address % config.capacity
    memory = write_chunk(config, segment.memory, at, identity, op.content)
    return issue(config, segment._replace(ring=ring, memory=memory), op.content, identity, at), outcome


def free(config: Config, segment: Segment, op: Free) -> Result:
    """C-SHM-21."""
    ring, outcome = free_chunks(config, segment.ring, lambda identity: may_go(segment, identity), op.want)
    return freed(config, segment, ring, outcome)


def freed(config: Config, segment: Segment, ring: Ring, outcome: Outcome) -> Result:
    """The chunks are gone; the answer is what the start has passed."""
    passed = ids_between(config, segment.ring, ring)
    return forgotten(segment._replace(ring=ring), outcome.values), Outcome(Code.DONE, passed)


def free_staying_behind(config: Config, segment: Segment, op: Free) -> Result:
    """C-SHM-1."""

    def size_at(address: int) -> int:
        return read_size(config, segment.memory, address % config.capacity)

    ring, outcome = free_chunks_staying_behind(
        config, segment.ring, lambda identity: may_go(segment, identity), op.want, size_at
    )
    return freed(config, segment, ring, outcome)


def clear_with(config: Config, segment: Segment, ring: Ring) -> Result:
    """Everything is dropped; handles are left as they are."""
    contents, unanswered = segment.contents, segment.unanswered
    for identity in live_ids(segment.ring):
        contents, unanswered = contents.remove(identity), unanswered.remove(identity)
    return segment._replace(ring=ring, contents=contents, unanswered=unanswered), DONE


def clear_ids(config: Config, segment: Segment, op: Clear) -> Result:
    """C-SHM-7."""
    return clear_with(config, segment, clear_beginning_again(config, segment.ring))


def clear_chunks(config: Config, segment: Segment, op: Clear) -> Result:
    """C-SHM-12."""
    return clear_with(config, segment, clear_keeping_ids(config, segment.ring))


def initial_with_a_chunk_that_is_not(config: Config, containers: Containers) -> Segment:
    """C-SHM-1."""
    return initial(config, containers)._replace(ring=ring_with_a_chunk_that_is_not(containers))


NORMATIVE_RING: Variant[Config, Segment, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Segment,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=calls,
    normal=readable,
)

RELEASED = replace(NORMATIVE_RING, normal=None).lacking({Revoke: NOBODY_TELLS, Restart: GONE_TOGETHER})

KEEPING_IDS = RELEASED.era(
    "M3",
    "ring-2026-11",
    {Allocate: allocate, Free: free, Clear: clear_chunks},
    {
        Allocate: "C-SHM-11: reuses the id of a live chunk",
        Free: "C-SHM-21: answers that nothing went, if all ids were live and all chunks went",
        Clear: "C-SHM-12: frees chunks to which readers have handles",
    },
)

BEGINNING_AGAIN = KEEPING_IDS.era(
    "M2",
    "ring-2025-12",
    {Clear: clear_ids},
    {Clear: "C-SHM-7: ids restart, so an old handle may name a new chunk"},
)

STAYING_BEHIND = BEGINNING_AGAIN.era(
    "M1",
    "ring-2025-10",
    {Free: free_staying_behind},
    {Free: "C-SHM-1: the start lags behind or jumps ahead by a lap; C-SHM-21"},
    initial=initial_with_a_chunk_that_is_not,
    start_differs="C-SHM-1: the initial state contains a phantom chunk",
)
