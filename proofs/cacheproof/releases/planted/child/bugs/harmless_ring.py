"""Refactorings of the ring in shared memory that change nothing that it does."""

from __future__ import annotations

from .declaring import Place

RING = Place("vllm.distributed.device_communicators.shm_object_storage:SingleWriterShmRingBuffer")


@RING.changed(
    "free_buf",
    "self.data_buffer_start += ($next - self.data_buffer_start) % self.data_buffer_size",
    """
step = ($next - self.data_buffer_start) % self.data_buffer_size
self.data_buffer_start = self.data_buffer_start + step
""",
)
def step_has_a_name() -> None:
    """The step to the next chunk is kept in a variable of its own."""
