"""The rules of the released writers where they are not the normative ones, for a ring on its own or embedded.

- 0.11.0: freeing, and an id that nobody was given;
- 0.12.0 to 0.20.2: clearing begins ids again;
- 0.33.0: clearing keeps ids, and drops what readers have handles to.
"""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import REFUSED, Code, Containers, Outcome
from cachespec.ring.chunks import MayGo, Result, Ring, empty_ring, rebased, successor
from cachespec.ring.configuration import Address, Config, Id

SizeAt = Callable[[Address], int]
"""The size that is in memory at this address, for the writer that goes by that."""


def ring_with_a_chunk_that_is_not(containers: Containers) -> Ring:
    """0.11.0 (C-SHM-1): at the start there is an id 0 in the table, and no chunk."""
    empty = empty_ring(containers)
    return empty._replace(starts=empty.starts.set(0, 0))


def reserve_whatever_id(config: Config, ring: Ring, payload: int) -> Result:
    """Every release: an id that a live chunk has is given again (with 2**31 ids there are never so many)."""
    total = payload + config.header
    at = ring.end % config.capacity
    address = ring.end if at + total <= config.capacity else ring.end - at + config.capacity
    if address + total - ring.start > config.capacity:
        return ring, REFUSED
    reserved = ring._replace(
        starts=ring.starts.set(ring.id_end, address),
        sizes=ring.sizes.set(ring.id_end, total),
        id_end=successor(config, ring.id_end),
        end=address + total,
    )
    return reserved, Outcome(Code.DONE, (address, ring.id_end))


def free_chunks_staying_behind(config: Config, ring: Ring, may_go: MayGo, want: int, size_at: SizeAt) -> Result:
    """0.11.0 (C-SHM-1): the start becomes where the chunk was that went, by an address that may be a lap ahead.

    How much is free is what memory says.
    """
    gone: tuple[Id, ...] = ()
    units = 0
    while ring.starts.has(ring.id_start) and units < want and may_go(ring.id_start):
        gone = (*gone, ring.id_start)
        address = ring.starts.get(ring.id_start, 0)
        units = units + size_at(address)
        ring = ring._replace(
            starts=ring.starts.remove(ring.id_start),
            sizes=ring.sizes.remove(ring.id_start),
            id_start=successor(config, ring.id_start),
            start=address,
        )
    return rebased(config, ring), Outcome(Code.DONE, gone)


def ids_between(config: Config, before: Ring, after: Ring) -> tuple[Id, ...]:
    """What a release answers to freeing: the ids that the start has passed.

    If all ids were live and all chunks went, the start is where it was, and the answer is that none went (C-SHM-21).
    """
    passed: tuple[Id, ...] = ()
    identity = before.id_start
    while identity != after.id_start:
        passed, identity = (*passed, identity), successor(config, identity)
    return passed


def live_ids(ring: Ring) -> tuple[Id, ...]:
    """The ids in the table, of which there are few although there may be 2**31 ids.

    They need not follow one another: an id that a live chunk has is given again (C-SHM-11).
    """
    return tuple(identity for identity, _ in ring.starts.items())


def dropped(config: Config, ring: Ring) -> Ring:
    """No chunk is left, even with handles to it."""
    for identity in live_ids(ring):
        ring = ring._replace(starts=ring.starts.remove(identity), sizes=ring.sizes.remove(identity))
    return ring._replace(start=0, end=0)


def clear_beginning_again(config: Config, ring: Ring) -> Ring:
    """0.11.0 to 0.20.2 (C-SHM-7): ids begin at 0 again."""
    return dropped(config, ring)._replace(id_start=0, id_end=0)


def clear_keeping_ids(config: Config, ring: Ring) -> Ring:
    """0.33.0 (C-SHM-12): ids go on; chunks that readers have handles to are dropped as before."""
    return dropped(config, ring)._replace(id_start=ring.id_end)
