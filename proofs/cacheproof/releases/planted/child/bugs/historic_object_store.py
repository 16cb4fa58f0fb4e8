"""Historic bugs in the object store in shared memory, and in the ring as the store uses it."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

MODULE = "vllm.distributed.device_communicators.shm_object_storage"
RING = Place(f"{MODULE}:SingleWriterShmRingBuffer")
RECEIVER = Place("vllm.multimodal.cache.shm:ShmObjectStoreReceiverCache")
START = "self.data_buffer_start += ($next - self.data_buffer_start) % self.data_buffer_size"


@RING.changed("free_buf", START, "self.data_buffer_start = address", fixed="#27117")
def start_is_the_chunk_just_freed() -> None:
    """After a free, the ring starts at the freed chunk instead of the next one, and gives out too much."""


@RECEIVER.broken(
    "get_and_update_features", since=PUT_BACK, fixed="#54994", reported="#52041", needs="items in a cached prefix"
)
def handle_in_a_cached_prefix_is_not_acknowledged(released: Any, cache: Any, features: Any) -> Any:
    """The handle of an item in a cached prefix is stripped, so its chunk is never acknowledged."""
    return released(features)
