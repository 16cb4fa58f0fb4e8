"""HiSparse: pages of sparse attention in the host's memory, with copies on the device that can be taken away.

The group with the role `hisparse_source` has a block in the host's pool for each page of a request. Groups with a
`HiSparseResidentSpec` have copies of these pages on the device. When a page is full, the workers write it to the host
(`SparseKVPageTransfer`). Its copy on the device then is free for others, and is read until the pool hands it out.
Groups with a `HiSparseHotSpec` give a request the region into which it reads pages that only the host has.
"""

from __future__ import annotations

from cacheimpl.hisparse.coordinator import HiSparseCoordinator, get_hisparse_coordinator
from cacheimpl.hisparse.device_tables import CLASSES
from cacheimpl.hisparse.errors import HiSparseError, InvalidPageError, NoHiSparseError
from cacheimpl.hisparse.host_pool import HostBlockPool
from cacheimpl.hisparse.messages import (
    ACTIVE_TAIL_PAGES,
    KVCacheBlockCopy,
    SparseKVOffloadCommand,
    SparseKVPageTransfer,
    SparseKVResidencyUpdate,
    SparseKVRowMirror,
)
from cacheimpl.hisparse.tables import HiSparseSourceTables
from cacheimpl.kv_cache_manager.paged import HostTier, provide

__all__ = [
    "ACTIVE_TAIL_PAGES",
    "HiSparseCoordinator",
    "HiSparseError",
    "InvalidPageError",
    "KVCacheBlockCopy",
    "NoHiSparseError",
    "SparseKVOffloadCommand",
    "SparseKVPageTransfer",
    "SparseKVResidencyUpdate",
    "SparseKVRowMirror",
    "get_hisparse_coordinator",
]

provide(HostTier(HiSparseSourceTables, CLASSES, HostBlockPool, HiSparseCoordinator))
