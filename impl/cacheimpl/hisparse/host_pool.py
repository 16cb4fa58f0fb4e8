"""The pool of blocks in the host's memory."""

from __future__ import annotations

from cacheimpl.kv_cache_manager.events import MEDIUM_CPU
from cacheimpl.kv_cache_manager.pool import BlockPool


class HostBlockPool(BlockPool):
    """Blocks in the host's memory. Its events go into the list of the device's pool, and name the medium `CPU`."""

    is_host = True

    def __init__(self, num_blocks: int, device: BlockPool) -> None:
        super().__init__(
            num_blocks,
            device.rules,
            null_block=True,
            several_groups=device.several_groups,
            form=device.form._replace(medium=MEDIUM_CPU),
            hash_block_size=device.hash_block_size,
        )
        self.events = device.events
