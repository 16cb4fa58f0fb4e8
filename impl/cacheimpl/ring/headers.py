"""What stands before chunks, live or gone, in the order in which readers may see it change (SHM-10)."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort

from cacheimpl.ring.placement import Placement
from cacheimpl.ring.segment import Segment

NO_CHUNK = -1
"""In the place of an id: no chunk begins here any more. Written before anything else is put there."""
HEADER = struct.Struct("<ii")
"""Id, and size with the header."""
LARGEST_CHUNK = 2**31 - 1
"""Bytes, header included: so many the size can say."""
_ID = struct.Struct("<i")


class Headers:
    """The writer's hand on them; nothing is checked here."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._gone: list[int] = []
        """Ascending: places where the header of a chunk stands that is gone."""

    def begin(self, place: int, identity: int, total: int) -> None:
        """A new chunk of so many bytes, header included, begins here.

        The headers of chunks that are gone are struck out before anything in their place changes. A chunk that is gone
        and begins before this place does not reach it: what lies before was written later, and its header was struck
        out then.
        """
        gone, first = self._gone, bisect_left(self._gone, place)
        while first < len(gone) and gone[first] < place + total:
            self.strike_out(gone.pop(first))
        self._segment.barrier()
        HEADER.pack_into(self._segment.data, place, identity, total)

    def strike_out(self, place: int) -> None:
        """No chunk begins at this place any more."""
        _ID.pack_into(self._segment.data, place, NO_CHUNK)

    def leave_oldest(self, placement: Placement) -> int:
        """The oldest chunk, which there is, gives its bytes back: how many. It can be read until it is in the way."""
        insort(self._gone, placement.starts[placement.id_start] % placement.capacity)
        total = placement.drop_oldest()
        placement.rebase()
        return total


class ReleasedHeaders(Headers):
    """As in every release: no header is struck out, and no barrier taken (C-SHM-16)."""

    def begin(self, place: int, identity: int, total: int) -> None:
        """Nothing is struck out."""
        HEADER.pack_into(self._segment.data, place, identity, total)
