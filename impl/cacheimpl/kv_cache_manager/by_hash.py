"""Look-ups of one group of layers by hashes alone, as schedulers that ask for each group by itself make them.

Nothing compares contents here: `allocate_slots` does so when a block is used as a hit (KV-7).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.partial import PartialTables
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.sizes import leading
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.kv_cache_manager.unsupported import Unsupported


def longest_by_hash(group: Tables, hashes: Sequence[Hashable], most: int) -> tuple[list[KVCacheBlock], int]:
    """The blocks and the tokens of the longest prefix of at most `most` tokens that the group has under these hashes.

    Raises `UnsupportedError` for layers that read a window, a chunk or the encoder's tokens.
    """
    if group.reach.kind not in (Kind.FULL, Kind.STATE):
        raise UnsupportedError(
            Unsupported.GROUP_ALONE_BY_HASH, f"layers with {group.reach.kind.value} are not looked up by themselves"
        )
    unit, size = group.chains.hash_size, group.block_size
    first = group.pool.registered.first
    keys = group.chains.keys(hashes[: most // unit])
    unit_of_ends = unit if isinstance(group, PartialTables) else size
    ends = range(unit_of_ends, len(keys) * unit + 1, unit_of_ends)
    if group.reach.kind is Kind.STATE:
        its = next((end for end in reversed(ends) if keys[end // unit - 1] in first), 0)
        return ([*group.nulls((its - 1) // size), first[keys[its // unit - 1]]], its) if its else ([], 0)
    whole = leading(keys[end // unit - 1] in first for end in range(size, len(keys) * unit + 1, size))
    blocks, start = [first[keys[(position + 1) * size // unit - 1]] for position in range(whole)], whole * size
    within = [end for end in ends if start < end < start + size and keys[end // unit - 1] in first]
    return ([*blocks, first[keys[within[-1] // unit - 1]]], within[-1]) if within else (blocks, start)
