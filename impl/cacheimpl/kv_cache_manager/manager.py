"""`KVCacheManager`, with the methods and attributes of the field, in both of its shapes.

Until 0.7 it is made from block counts, returns lists of blocks, and has a separate call for running requests. From 0.11
on it is made from a `kv_cache_config`, returns `KVCacheBlocks`, and has one call for all requests.
"""

from __future__ import annotations

from typing import Any, overload

from cacheimpl.kv_cache_manager.common import CommonCalls
from cacheimpl.kv_cache_manager.contents import HashFunction
from cacheimpl.kv_cache_manager.early import EarlyCalls
from cacheimpl.kv_cache_manager.later import LaterCalls
from cacheimpl.kv_cache_manager.protocols import KVCacheConfig
from cacheimpl.kv_cache_manager.rules import NORMATIVE, Rules


class KVCacheManager(CommonCalls):
    """Which block holds which keys and values, and which prefixes a new request can reuse.

    `KVCacheManager(...)` makes the shape that its first argument asks for, as `pathlib.Path` does: block counts give an
    `EarlyKVCacheManager`, a `kv_cache_config` gives a `LaterKVCacheManager`. Both are instances of this class.

    The manager reads of a request: `request_id`, `all_token_ids`, `num_computed_tokens`; items, adapter and salt if
    the request has them (see `contents.generate_block_hash_extra_keys`); `block_hashes` if it brings keys. A refused
    call changes nothing; `cacheimpl.kv_cache_manager.errors` lists the exceptions.
    """

    @overload
    def __new__(
        cls,
        block_size: int,
        num_gpu_blocks: int,
        max_model_len: int,
        sliding_window: int | None = None,
        enable_caching: bool = True,  # noqa: FBT001, FBT002  # the released signature
        num_preallocate_tokens: int = 64,
        log_stats: bool = False,  # noqa: FBT001, FBT002  # the released signature
        *,
        rules: Rules = NORMATIVE,
        hash_function: HashFunction = hash,
    ) -> EarlyKVCacheManager: ...
    @overload
    def __new__(
        cls,
        kv_cache_config: KVCacheConfig,
        max_model_len: int,
        *,
        enable_caching: bool = True,
        use_eagle: bool = False,
        log_stats: bool = False,
        enable_kv_cache_events: bool = False,
        scheduler_block_size: int | None = None,
        hash_block_size: int | None = None,
        watermark: float = 0.0,
        rules: Rules = NORMATIVE,
        hash_function: HashFunction = hash,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
        num_hash_lookahead_tokens: int = 0,
        num_prefill_lookahead: int = 0,
        enable_mamba_shared_prefix_checkpoint: bool = False,
        max_in_flight_tokens: int | None = None,
        max_num_batched_tokens: int | None = None,
        metrics_collector: object = None,
        partial_hits: bool | None = None,
    ) -> LaterKVCacheManager: ...
    def __new__(cls, *arguments: Any, **named: Any) -> Any:  # the overloads say what is taken and made
        """An empty manager of the shape that the arguments are for; its own constructor checks them."""
        if cls is not KVCacheManager:
            return super().__new__(cls)
        early = "block_size" in named or (bool(arguments) and isinstance(arguments[0], int))
        return super().__new__(EarlyKVCacheManager if early else LaterKVCacheManager)


class EarlyKVCacheManager(EarlyCalls, KVCacheManager):
    """`KVCacheManager` until 0.7; lists of blocks come and go.

    `sliding_window` has no effect, as released. `num_preallocate_tokens`: slots taken in advance with every new block,
    as far as blocks are free and the longest request can use them.
    """


class LaterKVCacheManager(LaterCalls, KVCacheManager):
    """`KVCacheManager` from 0.11 on, for groups of layers of different kinds in one pool.

    Block 0 is reserved as the null block. Of `kv_cache_config` are read `num_blocks` and
    `kv_cache_groups[i].kv_cache_spec`: its `block_size`, the name of its class, and its window or chunk. Kinds that the
    specification's groups of layers do not have raise `UnsupportedError` (see `kinds`). If
    `scheduler_block_size` is given, as from 0.33 on, `get_computed_blocks` returns three values. With `use_eagle` the
    last block of a prefix hit is computed again. With `enable_kv_cache_events` `take_events` reports registrations and
    evictions.

    `partial_hits`: whether a hit may end within a block of full attention or state-space layers, with a hash block.
    None: beside state-space layers whose blocks are larger than hash blocks, as in 0.33.0. `num_hash_lookahead_tokens`:
    tokens behind a block that must be equal for a hit, too; hashes that requests bring must cover as many.
    """
