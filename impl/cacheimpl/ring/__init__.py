"""The shared-memory ring: for real (`buffer`, on a `segment`), and its metadata as tensors (`state`, `operations`)."""

from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.eras import ReleasedRingBuffer, RingEra
from cacheimpl.ring.segment import remove_stale, stale_segments

__all__ = ["ReleasedRingBuffer", "RingEra", "SingleWriterShmRingBuffer", "remove_stale", "stale_segments"]
