"""The ring as released, on request only: the rules of three times, with their faults, on a segment of ours.

Each is an era of the specification's `ring`, by its tag. They serve to reproduce an engine of that time.
What a caller must not do is refused as in the normative ring, and a segment belongs to its writer as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from cacheimpl.ring.buffer import LARGEST, MayGo, SingleWriterShmRingBuffer, check_function
from cacheimpl.ring.errors import InvalidArgumentError, UnknownAddressError
from cacheimpl.ring.headers import ReleasedHeaders
from cacheimpl.ring.placement import Placement


class RingEra(Enum):
    """When, and how."""

    RING_2025_10 = "M1"
    """0.11.0: from the start there is an id 0 without a chunk, and freeing leaves the start behind (C-SHM-1)."""
    RING_2025_12 = "M2"
    """0.12.0 to 0.20.2: ids begin at 0 again with every clearing (C-SHM-7)."""
    RING_2026_11 = "M3"
    """0.33.0: ids go on, and clearing drops chunks that readers have handles to (C-SHM-12)."""


def check_era(era: object, known: type[Enum]) -> None:
    """Raises `InvalidArgumentError` for what is no era."""
    if not isinstance(era, known):
        raise InvalidArgumentError(f"era must be one of {[one.name for one in known]}, not {era!r}")


@dataclass(slots=True)
class ReleasedPlacement(Placement):
    """Where chunks are, as the writers of every release knew it."""

    guards_ids: ClassVar[bool] = False
    """As if there were always an id: one that a live chunk has is given again (C-SHM-11)."""

    def drop_oldest_staying_behind(self) -> None:
        """0.11.0: the start becomes where the chunk was that goes, by an address that may be a lap ahead (C-SHM-1)."""
        self.totals.pop(self.id_start, None)
        self.start = self.starts.pop(self.id_start)
        self.id_start = (self.id_start + 1) % self.modulus

    def drop_all(self, *, from_zero: bool) -> None:
        """No chunk is left, handed out or not; ids begin again, or go on."""
        self.starts.clear()
        self.totals.clear()
        self.start = self.end = 0
        self.id_end = 0 if from_zero else self.id_end
        self.id_start = self.id_end


class ReleasedRingBuffer(SingleWriterShmRingBuffer):
    """The ring as the release of an era has it.

    No header is struck out, and no barrier taken: a reader may find an old header before new data (C-SHM-16).
    """

    LEAST_ADDRESS = -LARGEST
    """Those of 0.11.0 may lie laps behind, as its start jumps ahead (C-SHM-1)."""

    def __init__(
        self,
        data_buffer_size: int,
        name: str | None = None,
        create: bool = False,  # noqa: FBT001, FBT002  # the field's signature
        *,
        era: RingEra,
        id_modulus: int = 2**31,
        max_readers: int = 64,
    ) -> None:
        """As `SingleWriterShmRingBuffer`, with a header of 8 bytes. Raises `InvalidArgumentError`."""
        check_era(era, RingEra)
        super().__init__(data_buffer_size, name, create, id_modulus=id_modulus, max_readers=max_readers, max_handles=1)
        self.era = era
        self.headers = ReleasedHeaders(self.segment)
        self.placement: ReleasedPlacement = ReleasedPlacement(self.data_buffer_size, self.ID_MAX)
        if era is RingEra.RING_2025_10:
            self.placement.starts[0] = 0

    def free_buf(self, is_free_fn: MayGo, nbytes: int | None = None) -> tuple[int, ...]:
        """Frees as the normative ring does; 0.11.0 counts as free what the memory says of the sizes.

        Returns the ids that the start has passed: none if all ids were live and all chunks went (C-SHM-21).
        """
        before = self.placement.id_start
        gone = super().free_buf(is_free_fn, nbytes)
        self.placement.rebase()
        return gone if self.placement.id_start != before else ()

    def drop_oldest(self) -> int:
        """The oldest chunk gives its bytes back; returns how many. Raises `UnknownAddressError` where there is none."""
        self._as_writer()
        if self.placement.oldest is None:
            raise UnknownAddressError("the ring has no chunk, and so no oldest one")
        if self.era is not RingEra.RING_2025_10:
            return self.placement.drop_oldest()
        with self.access_buf(self.placement.starts[self.placement.id_start]) as (_, (_, size)):
            self.placement.drop_oldest_staying_behind()
            return size

    def clear(self, is_free_fn: MayGo | None = None) -> None:
        """Every chunk goes, read or not: the function plays no part (C-SHM-12)."""
        self._as_writer()
        if is_free_fn is not None:
            check_function("is_free_fn", is_free_fn)
        self.placement.drop_all(from_zero=self.era is not RingEra.RING_2026_11)
