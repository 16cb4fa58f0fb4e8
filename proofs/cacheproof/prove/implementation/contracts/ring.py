"""Positions of chunks, as the writer computes them on plain integers, beside the specification's ring."""

from __future__ import annotations

from icontract import ensure, require

from cacheimpl.ring.eras import ReleasedPlacement
from cacheimpl.ring.placement import Placement
from cacheproof.prove.contract import Beside, Pair
from cachespec.kernel import REFUSED, Code, Outcome
from cachespec.kernel.containers import FrozenMap
from cachespec.ring import chunks, era_chunks
from cachespec.ring.chunks import Ring
from cachespec.ring.configuration import Config

HEADER = 2
MODULUS = 3
"""Ids; two chunks are live at most, or three if the ring may be out of ids."""


def config_of(capacity: int) -> Config:
    """A ring of this many units."""
    return Config(capacity=capacity, modulus=MODULUS, header=HEADER, sizes=(1,))


def ring_of(starts: tuple[int, ...], sizes: tuple[int, ...], start: int, end: int) -> Ring:
    """The specification's ring with these chunks, ids from 0 on."""
    return Ring(
        starts=FrozenMap.of(enumerate(starts)),
        sizes=FrozenMap.of(enumerate(sizes)),
        id_start=0,
        id_end=len(starts) % MODULUS,
        start=start,
        end=end,
    )


def placed(
    kind: type[Placement], capacity: int, starts: tuple[int, ...], sizes: tuple[int, ...], start: int, end: int
) -> Placement:
    """The same of the implementation."""
    made = kind(capacity, MODULUS, dict(enumerate(starts)), dict(enumerate(sizes)))
    made.id_end, made.start, made.end = len(starts) % MODULUS, start, end
    return made


def same(mine: Placement, its: Ring) -> bool:
    """Ids, addresses, sizes, start and end."""
    return (
        tuple(sorted(mine.starts.items())) == tuple(its.starts.items())
        and tuple(sorted(mine.totals.items())) == tuple(its.sizes.items())
        and (mine.id_start, mine.id_end) == (its.id_start, its.id_end)
        and (mine.start, mine.end) == (its.start, its.end)
    )


def reserved(mine: Placement, payload: int) -> Outcome:
    """Address and id of a new chunk. Without room `reserve` raises a `MemoryError`, which CrossHair cannot follow."""
    return Outcome(Code.DONE, mine.reserve(payload + HEADER)) if mine.has_room(payload + HEADER) else REFUSED


def is_ring(capacity: int, start: int, used: int, payload: int) -> bool:
    """The start is in the first lap, no more is occupied than there is, and a chunk has data."""
    return capacity > HEADER and 0 <= start < capacity and 0 < used <= capacity and payload > 0


@require(is_ring)
@ensure(lambda result: result)
def reserve(capacity: int, start: int, used: int, payload: int, *, has_id: bool) -> bool:
    """A chunk is placed behind the newest one, at the beginning of the next lap, or not at all."""
    live, end = 1 if has_id else MODULUS, start + used
    chunk = ((start,) * live, (used,) * live)
    mine, its = placed(Placement, capacity, *chunk, start, end), ring_of(*chunk, start, end)
    its, outcome = chunks.reserve(config_of(capacity), its, payload)
    return reserved(mine, payload) == outcome and same(mine, its)


@require(is_ring)
@ensure(lambda result: result)
def reserve_as_released(capacity: int, start: int, used: int, payload: int) -> bool:
    """M1 to M3: an id of a live chunk is given again."""
    chunk, end = ((start,) * MODULUS, (used,) * MODULUS), start + used
    mine, its = placed(ReleasedPlacement, capacity, *chunk, start, end), ring_of(*chunk, start, end)
    its, outcome = era_chunks.reserve_whatever_id(config_of(capacity), its, payload)
    return reserved(mine, payload) == outcome and same(mine, its)


def are_two(capacity: int, start: int, ahead: int, sizes: tuple[int, int]) -> bool:
    """The second chunk begins ahead of the first, within a lap."""
    return capacity > HEADER and 0 <= start < capacity and 0 < ahead < capacity and min(sizes) > HEADER


@require(lambda capacity, start, ahead, sizes, want: are_two(capacity, start, ahead, sizes) and want >= 0)
@ensure(lambda result: result)
def free_two(capacity: int, start: int, ahead: int, sizes: tuple[int, int], want: int) -> bool:
    """The oldest chunks go until enough is free; the start follows, and goes back by a lap if it is in the second."""
    starts = (start, start + ahead)
    mine = placed(Placement, capacity, starts, sizes, start, starts[1] + sizes[1])
    its = ring_of(starts, sizes, start, starts[1] + sizes[1])
    its, _ = chunks.free_chunks(config_of(capacity), its, lambda identity: True, want)
    freed = 0
    while freed < want and mine.oldest is not None:
        freed += mine.drop_oldest()
    mine.rebase()
    return same(mine, its)


@require(lambda capacity, start, size: capacity > HEADER and 0 <= start < 2 * capacity and size > HEADER)
@ensure(lambda result: result)
def stay_behind(capacity: int, start: int, size: int) -> bool:
    """M1: the start becomes where the freed chunk was."""
    mine = placed(ReleasedPlacement, capacity, (start,), (size,), start, start + size)
    its = ring_of((start,), (size,), start, start + size)
    its, _ = era_chunks.free_chunks_staying_behind(
        config_of(capacity), its, lambda identity: True, 1, lambda address: size
    )
    assert isinstance(mine, ReleasedPlacement)
    mine.drop_oldest_staying_behind()
    mine.rebase()
    kept = mine.starts == {} and mine.id_start == its.id_start and not its.starts.length
    return kept and (mine.start, mine.end) == (its.start, its.end)


@require(lambda capacity, start, size: capacity > HEADER and 0 <= start < capacity and size > HEADER)
@ensure(lambda result: result)
def drop_all(capacity: int, start: int, size: int, *, from_zero: bool) -> bool:
    """M2, M3: every chunk is dropped; ids begin again, or go on."""
    mine = placed(ReleasedPlacement, capacity, (start,), (size,), start, start + size)
    its = ring_of((start,), (size,), start, start + size)
    again = bool(from_zero)
    clear = era_chunks.clear_beginning_again if again else era_chunks.clear_keeping_ids
    assert isinstance(mine, ReleasedPlacement)
    mine.drop_all(from_zero=again)
    return same(mine, clear(config_of(capacity), its))


RINGS = "any capacity, start and sizes"
CHUNK = {"capacity": 16, "start": 3, "used": 4, "payload": 5}
LEDGER = {
    "reserve": Beside(f"{RINGS}, with a free id and without", Placement.address_for, {**CHUNK, "has_id": True}, 4),
    "reserve_as_released": Beside(f"{RINGS}, no free id", Placement.take, CHUNK, 4),
    "free_two": Beside(
        f"{RINGS}, 2 live chunks",
        Placement.drop_oldest,
        {"capacity": 16, "start": 13, "ahead": 3, "sizes": (3, 4), "want": 3},
        4,
    ),
    "stay_behind": Beside(
        f"{RINGS}, 1 live chunk",
        ReleasedPlacement.drop_oldest_staying_behind,
        {"capacity": 16, "start": 19, "size": 4},
    ),
    "drop_all": Beside(
        f"{RINGS}, 1 live chunk", ReleasedPlacement.drop_all, {"capacity": 16, "start": 3, "size": 4, "from_zero": True}
    ),
}


# Arithmetic of both -------------------------------------------------------------------------------------------------


def specified_address(capacity: int, start: int, used: int, payload: int) -> int:
    """Where the specification places a chunk; -1 if it has no room."""
    if not is_ring(capacity, start, used, payload):
        raise ValueError
    ring = ring_of((), (), start, start + used)
    address = chunks.candidate(config_of(capacity), ring, payload + HEADER)
    return address if address + payload + HEADER - start <= capacity else -1


def implemented_address(capacity: int, start: int, used: int, payload: int) -> int:
    """Where the implementation places it."""
    if not is_ring(capacity, start, used, payload):
        raise ValueError
    address = placed(Placement, capacity, (), (), start, start + used).address_for(payload + HEADER)
    return -1 if address is None else address


def specified_successor(identity: int) -> int:
    """The id after one of three."""
    return chunks.successor(config_of(16), identity) if identity in (0, 1, 2) else identity


def implemented_successor(identity: int) -> int:
    """The id after a chunk that is placed."""
    known = next((number for number in range(MODULUS) if number == identity), None)
    if known is None:
        return identity
    mine = Placement(16, MODULUS, id_end=known)
    mine.take(0, 4)
    return mine.id_end


PAIRS = {
    "address": Pair(
        "the address of the next chunk",
        specified_address,
        implemented_address,
        Placement.address_for,
        CHUNK,
        "any capacity, start and size of a ring",
    ),
    "successor": Pair(
        "the id after an id", specified_successor, implemented_successor, Placement.take, {"identity": 2}, "3 ids"
    ),
}
