"""Bugs in the tensor code of the KV blocks: by name, what catches each, the function, the right and the wrong text."""

from __future__ import annotations

from tests.impl.kv_blocks_prefix_bugs import (
    ADMISSION,
    DECODING,
    EXECUTION,
    FORGETTING,
    PREFIX,
    PREFIX_MUTANTS,
    RELEASING,
    SLOTS,
    SPREADING,
)

from cachespec.kv_blocks import Config

SCOPES = {
    "any call": Config(
        2, 3, ((0, 1), (0, 2)), (4, 3), steps=(2, 4), withdrawals=1, evictions=1, resets=1, disciplined=0
    ),
    "again": Config(1, 4, ((0, 1),), (2,), repeats=1),
    "old hit": Config(1, 3, ((0,), (0, 1), (2, 3)), (1, 2, 2)),
    "copies": Config(1, 5, ((0, 2), (0, 2), (1, 3)), (2, 2, 2), hashes=(0, 0, 2, 3)),
    "cascade": Config(1, 4, ((0, 1), (0, 1)), (2, 2), commons=1),
    "drafts": Config(2, 4, ((0, 1),), (4,), steps=(1, 2), drafts=1),
    "too few": Config(1, 3, ((0, 1), (2, 3)), (2, 2), groups=1),
    "groups": Config(1, 4, ((0, 1), (2, 3)), (2, 2), groups=1),
    "one chain": Config(1, 4, ((0, 1, 2),), (3,), evictions=1),
    "back": Config(2, 3, ((0, 1), (0,)), (4, 3), steps=(2, 3), rollbacks=1),
}


MUTANTS: dict[str, tuple[str, str, str, str]] = {
    # slots
    "the longest request is refused": (
        "any call",
        f"{SLOTS}.allocate_slots",
        "$end > $config.limit",
        "$end >= $config.limit",
    ),
    "a table may be too long": ("drafts", f"{SLOTS}.allocate_slots", "$end > $config.limit", "$end < 0"),
    "a new table may be too long": ("crowd", f"{ADMISSION}.admit", "$end > $config.limit", "$end < 0"),
    "one block too many is asked for": (
        "any call",
        f"{SLOTS}.asked",
        "$config.block_size - 1",
        "$config.block_size",
    ),
    "the last free block is never given": (
        "any call",
        f"{SLOTS}.allocate_slots",
        "$ask.up_to > $pool.free",
        "$ask.up_to >= $pool.free",
    ),
    "tokens of another moment": (
        "crowd",
        f"{SLOTS}.allocate_slots",
        "$computed.clamp($written, $planned)",
        "$computed.clamp(min=$written)",
    ),
    "nothing is something": (
        "any call",
        f"{SLOTS}.allocate_slots",
        "$x | ($ask.up_to > $pool.free)",
        "$ask.up_to > $pool.free",
    ),
    "taken from the back": (
        "any call",
        f"{SLOTS}.with_slots",
        "$pieces.rank + $pool.head",
        "$pieces.rank + $pool.head + $pool.free - total",
    ),
    "what is taken can still be found": (
        "any call",
        f"{SLOTS}.with_slots",
        "$write.put($pool.carried, $taken, $nothing)",
        "$pool.carried",
    ),
    "what is taken keeps its KV": (
        "any call",
        f"{SLOTS}.with_slots",
        "$x if $write.history else $pool.bytes",
        "$pool.bytes",
    ),
    "what is taken has no reference": (
        "any call",
        f"{SLOTS}.with_slots",
        "$write.put($pool.references, $taken, $there.long())",
        "$write.put($pool.references, $taken, torch.zeros_like($taken))",
    ),
    "the free count stays": ("any call", f"{SLOTS}.with_slots", "$pool.free - $total", "$pool.free"),
    "scheduled as far as the blocks go": (
        "any call",
        f"{SLOTS}.with_slots",
        "torch.where($done, $ask.end, $ask.planned)",
        "$ask.planned + given",
    ),
    "everybody begins at the first free block": (
        "crowd",
        f"{SLOTS}.with_slots",
        "$pieces.rank",
        "0 * $pieces.rank",
    ),
    "those behind a refusal go on": ("crowd", f"{SLOTS}.allocate_slots", "$y.cumsum(0)", "$y.long()"),
    "the head runs off the end": (
        "crowd",
        f"{SLOTS}.with_slots",
        "wrapped($pool, $pieces.rank + $pool.head)",
        "($pieces.rank + $pool.head).clamp(max=$pool.order.shape[0] - 2)",
    ),
    "the count of blocks in eight bits": (
        "wide crowd",
        f"{SLOTS}.asked",
        "$needs.cumsum(0)",
        "$needs.cumsum(0, dtype=torch.int8).long()",
    ),
    # admission
    "a second table": ("again", f"{ADMISSION}.admit", "($found > 0) & ($held > 0)", "($found > 0) & ($held < 0)"),
    "hits are not looked at again": (
        "any call",
        f"{ADMISSION}.are_cached",
        "$carried == $contents",
        "$carried == $carried",
    ),
    "a hit of another place": (
        "any call",
        f"{ADMISSION}.are_cached",
        "$config.contents.index_select(0, $requests)",
        "$config.contents.index_select(0, $requests).roll(1, 1)",
    ),
    "hits count as free room": (
        "old hit",
        f"{ADMISSION}.admit",
        "$ask.up_to + $revived.cumsum(0)",
        "$ask.up_to",
    ),
    "a hit stays free": (
        "old hit",
        f"{ADMISSION}.without_held",
        "$pool.references.index_select(0, $blocks) > 0",
        "$pool.references.index_select(0, $blocks) < 0",
    ),
    "a hit is not held": ("any call", f"{ADMISSION}.adopt", "torch.ones_like", "torch.zeros_like"),
    "a hit is computed again": (
        "any call",
        f"{ADMISSION}.adopt",
        "$write.add($pool.computed, $requests, $tokens)",
        "$pool.computed",
    ),
    "hits have no origin": (
        "any call",
        f"{ADMISSION}.adopt",
        "$write.add($pool.origin, $requests, $tokens)",
        "$pool.origin",
    ),
    "a block that two adopt is free twice": (
        "crowd",
        f"{ADMISSION}.revived_by",
        "$first & is_idle($pool, $adopted)",
        "is_idle($pool, $adopted)",
    ),
    "no request loses its hits": (
        "crowd",
        f"{ADMISSION}.may_lose_hits",
        "$taken.index_select(0, $adopter)",
        "0",
    ),
    "a request that has lost its hits is refused": ("crowd", f"{ADMISSION}.admit", "~$lost & $x", "$x"),
    # execution
    "a block is full too early": (
        "any call",
        f"{EXECUTION}.commit",
        "full_blocks($config, $unregistered, $done, $width)",
        "full_blocks($config, $unregistered + 1, $done, $width)",
    ),
    "a block is full too late": (
        "any call",
        f"{EXECUTION}.commit",
        "full_blocks($config, $unregistered, $done, $width)",
        "full_blocks($config, $unregistered - 1, $done, $width)",
    ),
    "what was never scheduled was executed": (
        "any call",
        f"{EXECUTION}.commit",
        "$computed.clamp($written, $planned)",
        "$computed.clamp(min=$written)",
    ),
    "a gap is closed": (
        "any call",
        f"{EXECUTION}.commit",
        "torch.where($x, $null, $now.blocks)",
        "$now.blocks",
    ),
    "the latest copy is found": (
        "copies",
        f"{PREFIX}.first_copies",
        "$pool.stamp[:-1]",
        "1000 - $pool.stamp[:-1]",
    ),
    "a block that holds nothing is found": (
        "any call",
        f"{PREFIX}.first_copies",
        "$nobody.scatter_reduce_(0, $carried + 1, *$rest)",
        "$nobody.scatter_reduce_(0, $carried.clamp(min=0) + 1, *$rest)",
    ),
    "copies of one burst have one stamp": (
        "crowd",
        f"{EXECUTION}.commit",
        "$pieces.rank",
        "0 * $pieces.rank",
    ),
    "the clock stands still": (
        "crowd",
        f"{EXECUTION}.commit",
        "$pool.clock + $pieces.total",
        "$pool.clock",
    ),
    # several turns at once
    "more blocks than there is room for": (
        "crowd",
        f"{SLOTS}.allocate_slots",
        "$ask.too_wide | $x",
        "$ask.too_wide",
    ),
    "more full blocks than there is room for": (
        "crowd",
        f"{EXECUTION}.commit",
        "$up_to <= constant($most, $computed.device)",
        "$up_to >= 0",
    ),
    "one piece fewer": (
        "crowd",
        f"{SPREADING}.spread",
        "Pieces(*$first, $rank < $total, $total)",
        "Pieces(*$first, $rank < $total - 1, $total)",
    ),
    "pieces of the turn before": (
        "crowd",
        f"{SPREADING}.spread",
        "right=True",
        "",
    ),
    "pieces in one place": (
        "crowd",
        f"{SPREADING}.spread",
        "($counts - $up_to).index_select(0, $turn) + $rank",
        "torch.zeros_like($turn)",
    ),
    "the blocks of two are one": (
        "crowd",
        f"{SPREADING}.spread",
        "None if $width == 1 else $x",
        "None if $width >= 1 else $x",
    ),
    # releasing
    "a shared block is free at once": (
        "any call",
        f"{RELEASING}.release",
        "$references.index_select(0, $flat) == 0",
        "$references.index_select(0, $flat) >= 0",
    ),
    "a reference is not given back": (
        "any call",
        f"{RELEASING}.release",
        "$write.add($pool.references, $flat, $x)",
        "$write.add($pool.references, $flat, 0 * $flat)",
    ),
    "the beginning of the sequence goes first": (
        "any call",
        f"{RELEASING}.release",
        "$write.put(*$first, $blocks.flip(1).flatten())",
        "$write.put(*$first, flat)",
    ),
    "useless blocks go to the back": (
        "any call",
        f"{RELEASING}.release",
        "(($freed & ~$cached).flatten(), $x)",
        "(($freed & $cached & ~$cached).flatten(), $freed.flip(1).flatten())",
    ),
    "pushed on top of the first": (
        "any call",
        f"{RELEASING}.release",
        "$pool.head - $front.cumsum(0)",
        "$pool.head - $front.cumsum(0) + 1",
    ),
    "the first to let go frees the block": (
        "crowd",
        f"{RELEASING}.is_last",
        "-$turns[:, None].expand_as($blocks).flatten()",
        "$turns[:, None].expand_as($blocks).flatten()",
    ),
    "tokens in flight are lost": (
        "any call",
        f"{RELEASING}.landed",
        "torch.minimum($planned, $lengths)",
        "torch.zeros_like($planned)",
    ),
    # a decode step
    "two full blocks in one step": (
        "crowd",
        f"{DECODING}.decode",
        "$unwritten > $config.block_size",
        "$unwritten > 2 * $config.block_size",
    ),
    "a block before it is needed": (
        "crowd",
        f"{DECODING}.decode",
        "($planned == $room).long",
        "($planned + 1 == $room).long",
    ),
    "the last free block is kept": ("crowd", f"{DECODING}.decode", "$rank < $pool.free", "$rank < $pool.free - 1"),
    "slots without a block": (
        "crowd",
        f"{DECODING}.decode",
        "torch.minimum($pool.free, $most_of_all)",
        "$most_of_all",
    ),
    "the next block but one": (
        "crowd",
        f"{DECODING}.decode",
        "wrapped($pool, $pool.head + $rank)",
        "wrapped($pool, $pool.head + 1 + $rank)",
    ),
    "registered again": (
        "crowd",
        f"{DECODING}.decode",
        "$unwritten.index_select(0, $turn) >= $one",
        "$unwritten.index_select(0, $turn) >= 0",
    ),
    "a decoded gap is closed": (
        "crowd",
        f"{DECODING}.decode",
        "torch.where($y(0, $who), $null, $ended)",
        "$ended",
    ),
    "a gap in every table": (
        "any call",
        f"{FORGETTING}.evict_blocks",
        "severed($after)",
        "~pool.severed",
    ),
    "no gap where one is made": (
        "any call",
        f"{FORGETTING}.evict_blocks",
        "severed($after)",
        "pool.severed",
    ),
    "a gap before the last registered block": (
        "one chain",
        "cacheimpl.kv_blocks.state.severed",
        "$pool.registered - 1",
        "$pool.registered - 2",
    ),
    "a gap that stays with the row": (
        "any call",
        f"{RELEASING}.cleared",
        "$write.put($column, $requests, $x)",
        "$column if $column.dtype == torch.bool else $write.put($column, $requests, $x)",
    ),
    "a block that is not full is registered": (
        "crowd",
        f"{DECODING}.decode",
        "torch.where($filled, $behind - $one, $spare)",
        "torch.where($filled | ~full, $behind - $one, $spare)",
    ),
    "a new block has no owner": (
        "crowd",
        f"{DECODING}.decode",
        "$write.put($pool.references, $blocks, $more)",
        "$pool.references",
    ),
    "what is refused is executed no more": (
        "crowd",
        f"{DECODING}.decode",
        "$write.put(*$first, torch.where($executed, *$rest))",
        "$write.put(*$first, torch.where(done, *$rest))",
    ),
    **PREFIX_MUTANTS,
}
