"""The shared-memory ring: for real (`buffer`, on a `segment`), and its metadata as tensors (`state`, `operations`)."""

from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.segment import remove_stale, stale_segments

__all__ = ["SingleWriterShmRingBuffer", "remove_stale", "stale_segments"]
