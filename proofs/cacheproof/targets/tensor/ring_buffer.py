"""Our shared-memory ring by its public face: `python:cacheproof.targets.tensor.ring_buffer:open_ring`.

One writer and readers that have its segment attached, all in this process; a unit is a byte, so the header must have 8.
Which handles are out is played here, as the ring knows nothing of them. The memory is seen through what is read: where
no live chunk is, a header may be struck out that the specification leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from cacheimpl.ring import ReleasedRingBuffer, RingEra, SingleWriterShmRingBuffer
from cacheimpl.ring.errors import InvalidSizeError, RingFullError
from cacheproof.foundation.errors import InputError
from cacheproof.model.target import ByOperation, factory_of, once_reset
from cachespec.kernel import ABSENT, DONE, REFUSED, STALE, Code, Observation, Operation, Outcome
from cachespec.ring import operations as calls
from cachespec.ring.configuration import Config
from cachespec.ring.state import Handle

HEADER = SingleWriterShmRingBuffer.ID_NBYTES + SingleWriterShmRingBuffer.SIZE_NBYTES


class RingTarget(ByOperation):
    """One ring in one configuration, and its successors."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._rings: list[SingleWriterShmRingBuffer] = []
        self.handles: Counter[Handle] = Counter()
        self.number = 0

    @property
    def config(self) -> Config:
        """Raises `TargetError` before `reset`."""
        return once_reset(self._config)

    @property
    def writer(self) -> SingleWriterShmRingBuffer:
        """The one that writes."""
        return self._rings[0]

    def reader(self, number: int) -> SingleWriterShmRingBuffer:
        """One of those that read."""
        return self._rings[1 + number]

    def reset(self, config: Config) -> None:
        if config.header != HEADER:
            raise InputError(f"the header of a chunk has {HEADER} bytes, not {config.header}")
        self._config, self.handles, self.number = config, Counter(), 0
        self.begin()

    def begin(self) -> None:
        """A segment of its own for a writer that begins, and its readers."""
        self.release()
        writer = SingleWriterShmRingBuffer(
            self.config.capacity, create=True, id_modulus=self.config.modulus, max_readers=1, max_handles=1
        )
        readers = [SingleWriterShmRingBuffer(*writer.handle()) for _ in range(self.config.readers)]
        self._rings = [writer, *readers]

    def release(self) -> None:
        """Every ring is closed."""
        for ring in reversed(self._rings):
            ring.close()
        self._rings = []

    def observe(self) -> Mapping[str, Observation]:
        ring = self.writer
        return {
            "ids": tuple(sorted(ring.metadata)),
            "addresses": tuple(ring.metadata[identity] for identity in sorted(ring.metadata)),
            "id_start": ring.monotonic_id_start,
            "id_end": ring.monotonic_id_end,
            "start": ring.data_buffer_start,
            "end": ring.data_buffer_end,
        }

    def close(self) -> None:
        self.release()
        self._config = None

    def may_go(self, identity: int, data: memoryview) -> bool:  # noqa: ARG002  # the field's signature
        """Whether every handle to the chunk of this segment is answered, or revoked."""
        return not any((held[2], held[4]) == (identity, self.number) for held in +self.handles)

    def take(self, operation: calls.Read | calls.Revoke) -> bool:
        """The handle will not be presented again; whether there was one."""
        handle = (operation.reader, operation.content, operation.identity, operation.place, operation.segment)
        self.handles[handle] -= 1
        there = self.handles[handle] >= 0
        self.handles[handle] = max(0, self.handles[handle])
        return there

    def _allocate(self, operation: calls.Allocate) -> Outcome:
        """The chunk is written, and each reader has a handle."""
        size, content = self.config.sizes[operation.content], operation.content
        try:
            address, identity = self.writer.allocate_buf(size)
        except (RingFullError, InvalidSizeError):  # no room now, or never
            return REFUSED
        with self.writer.access_buf(address) as (data, _):
            data[:] = bytes([content + 1]) * size
        place = address % self.config.capacity
        self.handles.update((reader, content, identity, place, self.number) for reader in range(self.config.readers))
        return Outcome(Code.DONE, (address, identity))

    def _read(self, operation: calls.Read) -> Outcome:
        """As a caller of the ring does: segment and id are compared."""
        if not self.take(operation):
            return ABSENT
        if operation.segment != self.number:
            return STALE
        with self.reader(operation.reader).access_buf(operation.place) as (data, (found, _)):
            return Outcome(Code.HIT, tuple(data)) if found == operation.identity else STALE

    def _revoke(self, operation: calls.Revoke) -> Outcome:
        """The handle keeps no chunk any more."""
        return DONE if self.take(operation) else ABSENT

    def _free(self, operation: calls.Free) -> Outcome:
        """Ids."""
        return Outcome(Code.DONE, self.writer.free_buf(self.may_go, operation.want))

    def _clear(self, _: calls.Clear) -> None:
        """The caller says who may go."""
        self.writer.clear(self.may_go)

    def _restart(self, _: calls.Restart) -> None:
        """Another writer, with a segment of its own."""
        self.number += 1
        self.begin()


open_ring = factory_of("ring", RingTarget)
"""The ring, normatively."""


# Eras ---------------------------------------------------------------------------------------------------------------


class ReleasedRingTarget(RingTarget):
    """The ring of an era. Its memory is shown too, as nothing is struck out; handles are answered and not revoked."""

    def __init__(self, era: RingEra) -> None:
        super().__init__()
        self._era = era

    def begin(self) -> None:
        """A segment, and its readers."""
        self.release()
        config, era = self.config, self._era
        writer = ReleasedRingBuffer(config.capacity, create=True, era=era, id_modulus=config.modulus, max_readers=1)
        readers = [ReleasedRingBuffer(*writer.handle(), era=era) for _ in range(config.readers)]
        self._rings = [writer, *readers]
        self.unanswered: Counter[int] = Counter()

    def apply(self, operation: Operation) -> Outcome:
        outcome = super().apply(operation)
        if isinstance(operation, calls.Allocate) and outcome.code is Code.DONE:
            self.unanswered[outcome.values[1]] = self.config.readers
        if isinstance(operation, calls.Read) and outcome.code is Code.HIT:
            self.unanswered[operation.identity] -= 1
        for identity in outcome.values if isinstance(operation, calls.Free) else ():
            del self.unanswered[identity]
        if isinstance(operation, calls.Clear):
            self.unanswered.clear()
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        with self.writer.access_buf(0):  # refuses where the ring is not open
            return {**super().observe(), "memory": tuple(self.writer.segment.data)}

    def may_go(self, identity: int, data: memoryview) -> bool:  # noqa: ARG002  # the field's signature
        """What the writer goes by is the id, which may be another chunk's (C-SHM-7)."""
        return self.unanswered[identity] <= 0


open_ring_2025_10 = factory_of("ring", partial(ReleasedRingTarget, RingEra.RING_2025_10))
"""M1: as 0.11.0."""
open_ring_2025_12 = factory_of("ring", partial(ReleasedRingTarget, RingEra.RING_2025_12))
"""M2: as 0.12.0 to 0.20.2."""
open_ring_2026_11 = factory_of("ring", partial(ReleasedRingTarget, RingEra.RING_2026_11))
"""M3: as 0.33.0."""
