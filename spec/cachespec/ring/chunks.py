"""The writer's private side of the ring: which chunks there are and where, and nothing of what is in them.

Chunks are placed one behind the other, none across the end of the data (SHM-1), and go in the order in which they came
(SHM-6). Whoever embeds a ring keeps a `Ring` and calls `reserve`, `free_chunks` and `clear_chunks`; which chunks may go
is the embedder's business, said by a function of the id, as in the engine. Every function takes only `capacity`,
`header` and `modulus` of the configuration.

Addresses run on into a second lap, so that end minus start is what is occupied. A place is an address less the laps
before it. When the start enters the second lap, start and end go back by one lap; addresses that were given out do
not, so of those only the place means something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec.kernel import REFUSED, Code, Containers, Map, Outcome
from cachespec.ring.configuration import Address, Config, Id

MayGo = Callable[[Id], bool]
"""Whether the chunk of this id may be freed: every handle to it is answered."""


class Ring(NamedTuple):
    """What the writer alone knows."""

    starts: Map[Id, Address]
    """Live chunks, and where each begins."""
    sizes: Map[Id, int]
    """Live chunks, and the units of each, header included."""
    id_start: Id
    """The oldest live chunk, if there is one."""
    id_end: Id
    """The id of the next chunk."""
    start: Address
    """Where the oldest live chunk begins; 0 if there is none."""
    end: Address
    """Behind the newest live chunk; at least `start`, at most `capacity` beyond it."""


Result = tuple[Ring, Outcome]


def empty_ring(containers: Containers) -> Ring:
    """No chunks."""
    return Ring(starts=containers.map(), sizes=containers.map(), id_start=0, id_end=0, start=0, end=0)


def place(config: Config, address: Address) -> int:
    """Where in the data this address is, for an address of the first lap or the second."""
    return address if address < config.capacity else address - config.capacity


def successor(config: Config, identity: Id) -> Id:
    """The id after this one."""
    return identity + 1 if identity + 1 < config.modulus else 0


# Reserving ----------------------------------------------------------------------------------------------------------


def candidate(config: Config, ring: Ring, total: int) -> Address:
    """SHM-1: behind the newest chunk, or at the beginning of the next lap if it would reach across the end."""
    at = place(config, ring.end)
    return ring.end if at + total <= config.capacity else ring.end - at + config.capacity


def reserve(config: Config, ring: Ring, payload: int) -> Result:
    """Reserves a chunk for `size` units: returns its address and id, or refuses and changes nothing (SHM-7).

    SHM-5: an id that a live chunk has is not given to another, however few ids there are; the released engines
    overwrite it, which 2**31 chunks would have to be alive for.
    """
    total = payload + config.header
    address = candidate(config, ring, total)
    if address + total - ring.start > config.capacity or ring.starts.has(ring.id_end):
        return ring, REFUSED
    reserved = ring._replace(
        starts=ring.starts.set(ring.id_end, address),
        sizes=ring.sizes.set(ring.id_end, total),
        id_end=successor(config, ring.id_end),
        end=address + total,
    )
    return reserved, Outcome(Code.DONE, (address, ring.id_end))


# Freeing ------------------------------------------------------------------------------------------------------------


def free_chunks(config: Config, ring: Ring, may_go: MayGo, want: int) -> Result:
    """SHM-6: frees from the oldest on, until enough units are free or a chunk is still needed; returns the ids.

    SHM-2: what may not go stays, and so does everything behind it.
    """
    gone: tuple[Id, ...] = ()
    units = 0
    while goes_next(ring, may_go, want - units):
        gone = (*gone, ring.id_start)
        units = units + ring.sizes.get(ring.id_start, 0)
        ring = without_oldest(config, ring)
    return rebased(config, ring), Outcome(Code.DONE, gone)


def goes_next(ring: Ring, may_go: MayGo, wanting: int) -> bool:
    """The test of the freeing loop."""
    return wanting > 0 and ring.starts.has(ring.id_start) and may_go(ring.id_start)


def without_oldest(config: Config, ring: Ring) -> Ring:
    """The body of the freeing loop: `starts` becomes shorter.

    SHM-1: the start moves to the chunk that is now the oldest (C-SHM-1: it stayed behind, or jumped ahead by a lap).
    """
    left = ring._replace(
        starts=ring.starts.remove(ring.id_start),
        sizes=ring.sizes.remove(ring.id_start),
        id_start=successor(config, ring.id_start),
    )
    if not left.starts.has(left.id_start):
        return left._replace(start=0, end=0)
    ahead = place(config, left.starts.get(left.id_start, 0)) - place(config, left.start)
    return left._replace(start=left.start + (ahead if ahead >= 0 else ahead + config.capacity))


def rebased(config: Config, ring: Ring) -> Ring:
    """Start and end, one lap back if the start has entered the second."""
    if ring.start < config.capacity:
        return ring
    return ring._replace(start=ring.start - config.capacity, end=ring.end - config.capacity)


def clear_chunks(config: Config, ring: Ring, may_go: MayGo) -> Result:
    """Everything goes that may; what is behind a chunk that may not goes when that does, by freeing.

    SHM-2, SHM-10: a handle that is not answered stays good, so no reader finds another chunk in its place. Ids go on
    (C-SHM-7: they began again at 0, and an old handle led to a new chunk).
    """
    return free_chunks(config, ring, may_go, config.capacity)
