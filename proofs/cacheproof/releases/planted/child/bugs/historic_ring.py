"""Historic bugs in the ring in shared memory."""

from __future__ import annotations

from .declaring import Place

RING = Place("vllm.distributed.device_communicators.shm_object_storage:SingleWriterShmRingBuffer")
START = "self.data_buffer_start += ($next - self.data_buffer_start) % self.data_buffer_size"


@RING.changed("free_buf", START, "self.data_buffer_start = address", fixed="#27117")
def start_is_the_chunk_just_freed() -> None:
    """After a free, the ring starts at the freed chunk instead of the next one, and gives out too much."""
