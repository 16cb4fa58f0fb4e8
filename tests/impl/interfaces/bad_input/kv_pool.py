"""The pool of `KVCacheManager`, and its free queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.impl.interfaces.bad_input.sorts import Call, Face, always, count, lacking, one_of

from cacheimpl.kv_cache_manager import NORMATIVE, BlockPool, FreeKVCacheBlockQueue, KVCacheBlock, KVCacheManagerError
from cacheimpl.kv_cache_manager.errors import FreeQueueError, NoFreeBlocksError


def foreign_block() -> KVCacheBlock:
    return KVCacheBlock(3)


def queued_elsewhere() -> KVCacheBlock:
    blocks = [KVCacheBlock(0), KVCacheBlock(1)]
    FreeKVCacheBlockQueue(blocks)
    return blocks[1]


BLOCK = {
    "nothing": always(None),
    "a number": always(3),
    "of another pool": lambda good: queued_elsewhere(),
}
SEVERAL = {
    "a number": always(3),
    "nothing": always(None),
    "numbers": always([0, 1]),
    "None behind good ones": lambda good: [*good, None],
}


def queue() -> Any:
    """Four blocks, and two that were taken out."""
    made = FreeKVCacheBlockQueue([KVCacheBlock(number) for number in range(6)])
    made.out = made.popleft_n(2)  # type: ignore[attr-defined]  # what the cases refer to
    return made


QUEUE = Face(
    FreeKVCacheBlockQueue,
    queue,
    KVCacheManagerError,
    {
        "__init__": Call(lambda made: {"blocks": [KVCacheBlock(0)]}, {"blocks": one_of(None, 3, [None], [1, 2])}),
        "popleft_n": Call(lambda made: {"n": 2}, {"n": count(0, most=4)}, says=("blocks",)),
        "remove": Call(
            lambda made: {"block": made.free_list_head},
            {"block": BLOCK},
            misuse={"who is out": (FreeQueueError, lambda made: made.remove(made.out[0]))},
        ),
        "append": Call(
            lambda made: {"block": made.out[0]},
            {"block": BLOCK},
            misuse={"who is in": (FreeQueueError, lambda made: made.append(made.free_list_tail))},
        ),
        "prepend": Call(
            lambda made: {"block": made.out[0]},
            {"block": BLOCK},
            misuse={"who is in": (FreeQueueError, lambda made: made.prepend(made.free_list_tail))},
        ),
        "append_n": Call(
            lambda made: {"blocks": made.out},
            {"blocks": SEVERAL},
            misuse={
                "one twice": (FreeQueueError, lambda made: made.append_n([made.out[0], made.out[0]])),
                "one that is in": (FreeQueueError, lambda made: made.append_n([*made.out, made.free_list_head])),
            },
        ),
        "prepend_n": Call(
            lambda made: {"blocks": made.out},
            {"blocks": SEVERAL},
            misuse={"one twice": (FreeQueueError, lambda made: made.prepend_n([made.out[0], made.out[0]]))},
        ),
    },
    {"popleft": "takes nothing", "get_all_free_blocks": "takes nothing"},
)


def empty_queue() -> Any:
    return FreeKVCacheBlockQueue([])


EMPTY_QUEUE = Face(
    None,
    empty_queue,
    KVCacheManagerError,
    {"popleft": Call(lambda made: {}, misuse={"empty": (NoFreeBlocksError, lambda made: made.popleft())}, works=False)},
)


def pool() -> Any:
    made = BlockPool(6, NORMATIVE, null_block=True)
    made.held = [made.take(), made.take()]  # type: ignore[attr-defined]  # what the cases refer to
    return made


POOL = Face(
    BlockPool,
    pool,
    KVCacheManagerError,
    {
        "__init__": Call(
            lambda made: {"num_gpu_blocks": 3, "rules": NORMATIVE},
            {"num_gpu_blocks": count(1), "rules": one_of(None, 3)},
            {
                "null_block": "a flag",
                "several_groups": "a flag",
                "events": "a flag",
                "form": "made by the manager",
                "hash_block_size": "told to others only",
            },
        ),
        "find": Call(
            lambda made: {"key": 3, "content": None}, {}, {"key": "what is not there", "content": "made by the manager"}
        ),
        "copies": Call(lambda made: {"key": 3}, {}, {"key": "what is not there has no copies"}),
        "get_cached_block": Call(
            lambda made: {"block_hash": 3}, {}, {"block_hash": "any", "kv_cache_group_ids": "any"}
        ),
        "register": Call(
            lambda made: {"block": made.held[0], "key": 3, "content": None},
            {"block": BLOCK},
            {"key": "made by the manager", "content": "made by the manager"},
        ),
        "cache_full_blocks": Call(
            lambda made: {
                "request": SimpleNamespace(request_id="0", all_token_ids=[7] * 4),
                "blocks": made.held,
                "num_cached_blocks": 0,
                "num_full_blocks": 2,
                "block_size": 2,
            },
            {
                "request": lacking("request_id", all_token_ids=one_of(None, 7, [1.5] * 4, [None] * 4)),
                "blocks": {**SEVERAL, "of another pool": always([foreign_block()])},
                "num_cached_blocks": count(0),
                "num_full_blocks": count(0),
                "block_size": count(1),
                "kv_cache_group_id": one_of(-1, 1, 1.5, None, "0"),
                "block_mask": one_of([], [True], 3),
            },
        ),
        "evict_blocks": Call(
            lambda made: {"block_ids": [1]}, {"block_ids": one_of(None, 3, "1", [99], [None])}, says=("block",)
        ),
        "forget": Call(lambda made: {"block": made.held[0]}, {"block": BLOCK}),
        "get_new_blocks": Call(lambda made: {"num_blocks": 2}, {"num_blocks": count(0, most=3)}),
        "touch": Call(
            lambda made: {"blocks": made.held}, {"blocks": {**SEVERAL, "of another pool": always([foreign_block()])}}
        ),
        "free_blocks": Call(
            lambda made: {"ordered_blocks": made.held},
            {"ordered_blocks": {**SEVERAL, "of another pool": always([foreign_block()])}},
            says=("block",),
        ),
        "let_go": Call(
            lambda made: {"block": made.held[0]},
            {"block": BLOCK},
            misuse={
                "who is free": (FreeQueueError, lambda made: made.let_go(made.blocks[5])),
                "the null block": (FreeQueueError, lambda made: made.let_go(made.null_block)),
            },
        ),
        "release": Call(
            lambda made: {"blocks": made.held},
            {"blocks": {**SEVERAL, "of another pool": always([foreign_block()])}},
            misuse={"one twice": (FreeQueueError, lambda made: made.release([made.held[0], made.held[0]]))},
        ),
        "unpin_blocks": Call(
            lambda made: {"blocks": made.held, "on_reuse": str},
            {"blocks": {**SEVERAL, "of another pool": always([foreign_block()])}},
            {"on_reuse": "called when a block is taken"},
            misuse={"who is free": (FreeQueueError, lambda made: made.unpin_blocks([made.blocks[5]], str))},
        ),
        "is_mine": Call(lambda made: {"block": made.held[0]}, {}, {"block": "whatever is no block is not there"}),
        "own": Call(lambda made: {"blocks": made.held}, {"blocks": SEVERAL}),
        "block": Call(lambda made: {"number": 3}, {"number": count(0, most=5)}, says=("block",)),
    },
    {
        "take": "takes nothing",
        "take_events": "takes nothing",
        "get_num_free_blocks": "takes nothing",
        "get_usage": "takes nothing",
        "reset_prefix_cache": "takes nothing",
    },
)

FACES = {
    "FreeKVCacheBlockQueue": QUEUE,
    "FreeKVCacheBlockQueue, empty": EMPTY_QUEUE,
    "BlockPool": POOL,
}
