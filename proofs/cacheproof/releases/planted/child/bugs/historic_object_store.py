"""Historic bugs in the object store in shared memory, and in the ring as the store uses it."""

from __future__ import annotations

from .declaring import Place

MODULE = "vllm.distributed.device_communicators.shm_object_storage"
RING = Place(f"{MODULE}:SingleWriterShmRingBuffer")
START = "self.data_buffer_start += ($next - self.data_buffer_start) % self.data_buffer_size"


@RING.changed("free_buf", START, "self.data_buffer_start = address", fixed="#27117")
def start_is_the_chunk_just_freed() -> None:
    """After a free, the ring starts at the freed chunk instead of the next one, and gives out too much."""
