"""Operations of the ring on tensors: one ring, out of place, branch-free, a burst of chunks at a time.

Chunks lie one behind the other and the window of what is occupied is one lap at most. So a burst wraps once at the
most, and addresses are prefix sums; chunks go from the oldest on, so what goes is a prefix by age.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, either
from cacheimpl.ring.state import NO_CHUNK, Config, Ring, empty

Result = tuple[Ring, Answer]


class Reserved(NamedTuple):
    """Where the items of a burst were put."""

    addresses: Tensor
    """[items] int64, laps included; arbitrary where not placed"""
    ids: Tensor
    """[items] int64; arbitrary where not placed"""
    placed: Tensor
    """[items] bool"""


def live(ring: Ring) -> Tensor:
    """[rows] bool: rows of live chunks."""
    return ring.addresses != NO_CHUNK


def by_age(ring: Ring) -> Tensor:
    """[rows] int64: the row of the oldest chunk, of the next, and so on."""
    rows = ring.addresses.shape[0]
    return (ring.id_start + torch.arange(rows, device=ring.addresses.device)) % rows


# Reserving ----------------------------------------------------------------------------------------------------------


def reserve(config: Config, ring: Ring, payloads: Tensor, asked: Tensor) -> tuple[Ring, Reserved]:
    """Chunks for a burst of payloads ([items] int64, bytes; where `asked`, [items] bool), up to the first without room.

    As `allocate` one after the other, until one is refused: the ones behind it are not placed, whether they have room
    or not (SHM-1, SHM-5, SHM-7).
    """
    totals = torch.where(asked, payloads + config.header, 0)
    addresses = addresses_of(config, ring, totals)
    turns = asked.cumsum(0) - 1
    has_row = live(ring).sum() + turns < ring.addresses.shape[0]
    has_room = (addresses + totals - ring.start <= config.capacity) & has_row
    placed = asked & (has_room | ~asked).long().cumprod(0).bool()
    reserved = Reserved(addresses, (ring.id_end + turns) % config.modulus, placed)
    return with_chunks(config, ring, reserved, totals), reserved


def addresses_of(config: Config, ring: Ring, totals: Tensor) -> Tensor:
    """[items] int64: behind the newest chunk and each other (SHM-1).

    From the first on that would reach across the end, they are in the next lap.
    """
    before = totals.cumsum(0) - totals
    at = torch.where(ring.end < config.capacity, ring.end, ring.end - config.capacity)
    wraps = at + before + totals > config.capacity
    skipped = torch.where(wraps, before, before.sum() + before.new_full((), 2**62)).amin()
    return torch.where(wraps, ring.end - at + config.capacity + before - skipped, ring.end + before)


def with_chunks(config: Config, ring: Ring, reserved: Reserved, totals: Tensor) -> Ring:
    """The ring with the chunks that were placed."""
    rows, count = ring.addresses.shape[0], reserved.placed.sum()
    row = torch.where(reserved.placed, reserved.ids % rows, rows)
    spare = ring.addresses.new_zeros(1)
    return ring._replace(
        addresses=torch.cat((ring.addresses, spare)).scatter(0, row, reserved.addresses)[:rows],
        totals=torch.cat((ring.totals, spare)).scatter(0, row, totals)[:rows],
        id_end=(ring.id_end + count) % config.modulus,
        end=torch.where(reserved.placed, reserved.addresses + totals, ring.end).amax(),
    )


def allocate(config: Config, ring: Ring, payload: Tensor) -> Result:
    """`allocate_buf(size)`: a burst of one. Its address and id, or refused."""
    sizes = payload.reshape(1)
    after, reserved = reserve(config, ring, sizes, torch.ones_like(sizes, dtype=torch.bool))
    placed, values = reserved.placed[0], torch.cat((reserved.addresses, reserved.ids))
    return after, Answer(either(placed, Code.DONE, Code.REFUSED), values, 2 * placed.long())


# Freeing ------------------------------------------------------------------------------------------------------------


def going(ring: Ring, may_go: Tensor, want: Tensor) -> Tensor:
    """[rows] bool, by age: the oldest chunks that may go, until so many bytes are free (SHM-2, SHM-6)."""
    row = by_age(ring)
    totals = ring.totals.gather(0, row)
    freed_before = totals.cumsum(0) - totals
    goes = (live(ring) & may_go).gather(0, row) & (freed_before < want)
    return goes.long().cumprod(0).bool()


def free(config: Config, ring: Ring, may_go: Tensor, want: Tensor) -> Result:
    """`free_buf(is_free, want)`: `may_go` is [rows] bool, `want` in bytes. The ids of what went, the oldest first."""
    goes, ages = going(ring, may_go, want), torch.arange(ring.addresses.shape[0], device=ring.addresses.device)
    count = goes.sum()
    ids = torch.where(goes, (ring.id_start + ages) % config.modulus, -1)
    return without_oldest(config, ring, goes), Answer(torch.full_like(count, int(Code.DONE)), ids, count)


def without_oldest(config: Config, ring: Ring, goes: Tensor) -> Ring:
    """The ring without a prefix by age ([rows] bool). The start moves to the chunk that is now the oldest (C-SHM-1)."""
    row, rows = by_age(ring), ring.addresses.shape[0]
    leaves = torch.zeros_like(goes).scatter(0, row, goes)
    addresses = torch.where(leaves, NO_CHUNK, ring.addresses)
    id_start = (ring.id_start + goes.sum()) % config.modulus
    oldest = addresses.gather(0, (id_start % rows).reshape(1))[0]
    start = ring.start + (oldest - ring.start) % config.capacity
    back = torch.where(start >= config.capacity, config.capacity, 0)
    left = oldest != NO_CHUNK
    return ring._replace(
        addresses=addresses,
        totals=torch.where(leaves, 0, ring.totals),
        id_start=id_start,
        start=torch.where(left, start - back, 0),
        end=torch.where(left, ring.end - back, 0),
    )


def clear(config: Config, ring: Ring, may_go: Tensor) -> Result:
    """`clear()`: everything goes that may, up to the first that may not; ids go on (C-SHM-7)."""
    after, answered = free(config, ring, may_go, config.capacity)
    return after, answered._replace(length=torch.zeros_like(answered.length))


def begin_again(config: Config, ring: Ring) -> Result:
    """A new writer, with a segment of its own: no chunks, and ids from 0."""
    code = torch.full_like(ring.id_start, int(Code.DONE))
    return empty(ring.addresses.shape[0], ring.addresses.device), Answer(code, code.new_empty((0,)), code * 0)
