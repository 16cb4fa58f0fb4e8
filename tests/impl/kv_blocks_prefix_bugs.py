"""Bugs in the prefix map, in steps back and in groups of the KV blocks: entries as in `kv_blocks_bugs`."""

from __future__ import annotations

ADMISSION, SLOTS, EXECUTION = (f"cacheimpl.kv_blocks.{name}" for name in ("admission", "slots", "execution"))
RELEASING, PREFIX, FORGETTING = (f"cacheimpl.kv_blocks.{name}" for name in ("releasing", "prefix", "forgetting"))
GROUPS, DECODING, SPREADING = (f"cacheimpl.kv_blocks.{name}" for name in ("groups", "decoding", "spreading"))

PREFIX_MUTANTS: dict[str, tuple[str, str, str, str]] = {
    # the prefix map
    "all tokens are found": (
        "any call",
        f"{PREFIX}.get_computed_blocks",
        "$ends >= $tokens[:, None]",
        "$ends > $tokens[:, None]",
    ),
    "a prefix with a gap": (
        "crowd",
        f"{PREFIX}.get_computed_blocks",
        "$missed.cumsum(1, dtype=torch.int32)",
        "$missed.int()",
    ),
    "one that does not run is asked": ("cascade", f"{PREFIX}.common_prefix", "$same | ~$running[:, None]", "$same"),
    "what is behind an evicted block is found": (
        "any call",
        f"{FORGETTING}.evict_blocks",
        "torch.where($its, $pool.tables.long(), $null)",
        "torch.where($its & ($null < 0), $pool.tables.long(), $null)",
    ),
    "only the next block behind an evicted one goes": (
        "crowd",
        f"{FORGETTING}.evict_blocks",
        "torch.where($its, $asked, $turns).cummin(1).values",
        "torch.where($its, $asked, $turns)",
    ),
    "what a turn takes along is evicted again": (
        "crowd",
        f"{FORGETTING}.evict_blocks",
        "$taken_along.index_select(0, $blocks) >= $turn",
        "$turn >= 0",
    ),
    "a block is evicted twice": (
        "crowd",
        f"{FORGETTING}.evict_blocks",
        "$first.index_select(0, $blocks) == $turn",
        "$turn >= 0",
    ),
    "the null block is evicted": (
        "crowd",
        f"{FORGETTING}.evict_blocks",
        "($content >= 0) & ($blocks < $null)",
        "$content >= 0",
    ),
    "the last turn of a content counts": (
        "crowd",
        f"{FORGETTING}.evict_blocks",
        "$blocks.new_full(($none + 1,), $turns).scatter_reduce(0, $behind, $when, 'amin')",
        "$blocks.new_full(($none + 1,), $turns).scatter_reduce(0, $behind, $turns - 1 - 0 * $when, 'amin')",
    ),
    "a reset while blocks are held": (
        "any call",
        f"{FORGETTING}.reset_prefix_cache",
        "$pool.free == null_block($pool)",
        "$pool.free >= 0",
    ),
    # going back
    "what is computed again can be found": (
        "back",
        f"{EXECUTION}.roll_back",
        "torch.where($again, -1, $pool.carried)",
        "$pool.carried",
    ),
    "a shared block is computed again": (
        "back",
        f"{EXECUTION}.roll_back",
        "$known & $current & ~$shared",
        "$known & $current",
    ),
    "what is registered stays so": (
        "back",
        f"{EXECUTION}.roll_back",
        "$pool.registered.clamp(max=$first)",
        "$pool.registered",
    ),
    "a step is in flight afterwards": (
        "back",
        f"{EXECUTION}.roll_back",
        "torch.where($who, $computed, $pool.scheduled)",
        "$pool.scheduled",
    ),
    # groups
    "the second table has no room": (
        "too few",
        f"{GROUPS}.allocate_groups",
        "$ask.up_to[1]",
        "$ask.up_to[0]",
    ),
    "what is loaded needs no blocks": (
        "groups",
        f"{GROUPS}.allocate_groups",
        "$found * $config.block_size + $external",
        "$found * $config.block_size",
    ),
}
