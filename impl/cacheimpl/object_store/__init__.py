"""The object store in shared memory: items that P0 puts there once, and that every worker reads there."""

from cacheimpl.object_store.caches import ShmObjectStoreReceiverCache, ShmObjectStoreSenderCache
from cacheimpl.object_store.eras import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.serde import MsgpackSerde
from cacheimpl.object_store.storage import ShmObjectStorageHandle, SingleWriterShmObjectStorage

__all__ = [
    "MsgpackSerde",
    "ReleasedObjectStorage",
    "ShmObjectStorageHandle",
    "ShmObjectStoreReceiverCache",
    "ShmObjectStoreSenderCache",
    "SingleWriterShmObjectStorage",
    "StoreEra",
]
