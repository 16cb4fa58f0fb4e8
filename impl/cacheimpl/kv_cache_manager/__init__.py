"""`KVCacheManager` for one request at a time: blocks shared by prefix, taken from the free queue."""

from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue, KVCacheBlock, KVCacheBlocks
from cacheimpl.kv_cache_manager.contents import (
    BlockHashType,
    generate_block_hash_extra_keys,
    hash_request_tokens,
)
from cacheimpl.kv_cache_manager.errors import KVCacheManagerError
from cacheimpl.kv_cache_manager.events import AllBlocksCleared, BlockRemoved, BlockStored, KVCacheEvent
from cacheimpl.kv_cache_manager.hashing import get_request_block_hasher, hash_block_tokens, init_none_hash
from cacheimpl.kv_cache_manager.manager import EarlyKVCacheManager, KVCacheManager, LaterKVCacheManager
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.rules import KV_2025_02, KV_2025_10, KV_2026_11, NORMATIVE, Register, Rules

__all__ = [
    "KV_2025_02",
    "KV_2025_10",
    "KV_2026_11",
    "NORMATIVE",
    "AllBlocksCleared",
    "BlockHashType",
    "BlockPool",
    "BlockRemoved",
    "BlockStored",
    "EarlyKVCacheManager",
    "FreeKVCacheBlockQueue",
    "KVCacheBlock",
    "KVCacheBlocks",
    "KVCacheEvent",
    "KVCacheManager",
    "KVCacheManagerError",
    "LaterKVCacheManager",
    "Register",
    "Rules",
    "generate_block_hash_extra_keys",
    "get_request_block_hasher",
    "hash_block_tokens",
    "hash_request_tokens",
    "init_none_hash",
]
