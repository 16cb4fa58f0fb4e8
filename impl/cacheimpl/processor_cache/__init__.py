"""The caches of processed items by the field's names: measures, both sides of the mirror, and their selectors."""

from cacheimpl.object_store.caches import CacheInfo
from cacheimpl.processor_cache.caches import (
    BaseMultiModalCache,
    BaseMultiModalProcessorCache,
    BaseMultiModalReceiverCache,
    LruKeyReplicatedReceiverCache,
    LruKeyReplicatedSenderCache,
    MultiModalProcessorOnlyCache,
    MultiModalProcessorSenderCache,
    MultiModalReceiverCache,
)
from cacheimpl.processor_cache.eras import GhostLRUCache, ReleasedLRUCache
from cacheimpl.processor_cache.errors import (
    EndlessEvictionError,
    ItemNotCachedError,
    MultiModalCacheMissError,
    ProcessorCacheError,
)
from cacheimpl.processor_cache.lru_cache import LRUCache
from cacheimpl.processor_cache.selectors import (
    engine_receiver_cache_from_config,
    processor_cache_from_config,
    processor_only_cache_from_config,
    worker_receiver_cache_from_config,
)
from cacheimpl.processor_cache.sizes import (
    MultiModalCache,
    MultiModalProcessorCacheItem,
    MultiModalProcessorCacheItemMetadata,
)

__all__ = [
    "BaseMultiModalCache",
    "BaseMultiModalProcessorCache",
    "BaseMultiModalReceiverCache",
    "CacheInfo",
    "EndlessEvictionError",
    "GhostLRUCache",
    "ItemNotCachedError",
    "LRUCache",
    "LruKeyReplicatedReceiverCache",
    "LruKeyReplicatedSenderCache",
    "MultiModalCache",
    "MultiModalCacheMissError",
    "MultiModalProcessorCacheItem",
    "MultiModalProcessorCacheItemMetadata",
    "MultiModalProcessorOnlyCache",
    "MultiModalProcessorSenderCache",
    "MultiModalReceiverCache",
    "ProcessorCacheError",
    "ReleasedLRUCache",
    "engine_receiver_cache_from_config",
    "processor_cache_from_config",
    "processor_only_cache_from_config",
    "worker_receiver_cache_from_config",
]
