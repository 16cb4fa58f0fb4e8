"""What the writers for the ring and for the store on it have in common."""

from __future__ import annotations

MODULE = "vllm.distributed.device_communicators.shm_object_storage"
RELEASED_HEADER = 8
"""Bytes before a chunk: its id and its size."""
RELEASED_IDS = 1 << 31
"""So many ids there are until they come round."""
