"""Where chunks are: the arithmetic of the ring on plain integers, for a writer that places one chunk at a time.

The same rules on tensors are in `cacheimpl.ring.operations`; both are held to the specification.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cacheimpl.ring.errors import RingFullError


@dataclass(slots=True)
class Placement:
    """What the writer alone knows. Addresses run on into a second lap; only their residue by `capacity` is a place."""

    guards_ids: ClassVar[bool] = True
    """Whether an id that a live chunk has is given to no other."""

    capacity: int
    """Bytes of data."""
    modulus: int
    """How many ids there are."""
    starts: dict[int, int] = field(default_factory=dict)
    """Live chunks, and the address of each as it was given out."""
    totals: dict[int, int] = field(default_factory=dict)
    """Live chunks, and the bytes of each, header included: never read from memory that others can write."""
    id_start: int = 0
    """The oldest live chunk, if there is one."""
    id_end: int = 0
    """The id of the next chunk."""
    start: int = 0
    """Where the oldest live chunk begins; 0 if there is none."""
    end: int = 0
    """Behind the newest live chunk."""

    def address_for(self, total: int) -> int | None:
        """Where a chunk of so many bytes, header included, would begin; None where it has no room or no id.

        Behind the newest chunk, or at the beginning of the next lap if it would reach across the end (SHM-1).
        """
        address, capacity = self.end, self.capacity
        at = address % capacity
        if at + total > capacity:
            address += capacity - at
        has_id = self.id_end not in self.starts or not self.guards_ids
        return address if address + total - self.start <= capacity and has_id else None

    def has_room(self, total: int) -> bool:
        """Whether a chunk of so many bytes, header included, would be placed."""
        return self.address_for(total) is not None

    def reserve(self, total: int) -> tuple[int, int]:
        """Address and id of a new chunk. Raises `RingFullError`, and then nothing has changed (SHM-7)."""
        address = self.address_for(total)
        if address is None:
            raise RingFullError(f"no room for a chunk of {total} bytes, header included, until older ones go")
        return address, self.take(address, total)

    def take(self, address: int, total: int) -> int:
        """The id of a new chunk at an address that `address_for` has given."""
        identity = self.id_end
        self.starts[identity], self.totals[identity] = address, total
        self.id_end = (identity + 1) % self.modulus
        self.end = address + total
        return identity

    def give_up_newest(self, end: int) -> None:
        """As before the last `reserve`, where `end` was this: what was reserved could not be written."""
        self.id_end = (self.id_end - 1) % self.modulus
        del self.starts[self.id_end], self.totals[self.id_end]
        self.end = end

    @property
    def oldest(self) -> int | None:
        """The id of the chunk that goes next (SHM-6)."""
        return self.id_start if self.id_start in self.starts else None

    def drop_oldest(self) -> int:
        """The oldest chunk goes; there must be one. Returns the bytes that it had."""
        total = self.totals.pop(self.id_start)
        del self.starts[self.id_start]
        self.id_start = (self.id_start + 1) % self.modulus
        if self.id_start in self.starts:
            self.start += (self.starts[self.id_start] - self.start) % self.capacity
        else:
            self.start = self.end = 0
        return total

    def rebase(self) -> None:
        """Start and end go one lap back when the start has entered the second; addresses given out do not."""
        if self.start >= self.capacity:
            self.start -= self.capacity
            self.end -= self.capacity
