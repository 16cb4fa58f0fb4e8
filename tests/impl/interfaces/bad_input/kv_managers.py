"""`KVCacheManager` in both shapes, and the pool and the queue that it shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.impl.interfaces.bad_input.kv_pool import foreign_block
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, amount, count, lacking, one_of
from tests.impl.interfaces.kv_requests import EarlyRequest, kv_cache_config

from cacheimpl.kv_cache_manager import (
    EarlyKVCacheManager,
    KVCacheBlock,
    KVCacheBlocks,
    KVCacheManagerError,
    LaterKVCacheManager,
)
from cacheimpl.kv_cache_manager.errors import (
    AlreadyAllocatedError,
    InvalidCountError,
    NotRunningError,
    RequestMismatchError,
    StaleBlocksError,
    StaleCountError,
    TooManyTokensError,
    UnknownRequestError,
)

SIZE, BLOCKS, LIMIT = 4, 10, 32

REQUEST = lacking("request_id", all_token_ids=one_of(None, 7, [1.5] * 40, [None] * 40, ["a"] * 40))
COUNTED = {**REQUEST, **lacking(num_computed_tokens=count(0))}


def prompt(name: str, first: int = 0, tokens: int = 14, computed: int = 0) -> Any:
    return EarlyRequest(name, list(range(first, first + tokens)), num_computed_tokens=computed)


def early() -> Any:
    """ "running" has 14 tokens in 4 blocks, all executed; "done" has left a prefix; "new" and "other" come."""
    made = EarlyKVCacheManager(SIZE, BLOCKS, LIMIT, num_preallocate_tokens=0)
    return used(made)


def used(made: Any) -> Any:
    made.running, made.new = prompt("running"), prompt("new")
    done = prompt("done", 100)
    for one in (made.running, done):
        made.allocate_slots(one, 14)
        made.commit(one, 14)
        one.num_computed_tokens = 14
    made.free(done)
    made.again = prompt("again", 100)
    made.hits, made.first = made.get_computed_blocks(made.again)[0], made.get_computed_blocks(prompt("x"))[0]
    return made


def later() -> Any:
    made = LaterKVCacheManager(kv_cache_config(BLOCKS + 1, SIZE), LIMIT, log_stats=True)
    return used(made)


LISTS = {
    "a number": always(3),
    "numbers": always([0, 1]),
    "of another pool": always([foreign_block()]),
    "None among them": always([None]),
}

MISUSE = {
    "an id that is used twice": (
        RequestMismatchError,
        lambda made: made.allocate_slots(prompt("running", 50, 20, 14), 1),
    ),
    "more tokens than the longest": (TooManyTokensError, lambda made: made.allocate_slots(made.new, LIMIT + 1)),
    "computed beyond the slots": (
        StaleCountError,
        lambda made: made.allocate_slots(prompt("running", computed=15), 1),
    ),
    "computed without a table": (StaleCountError, lambda made: made.allocate_slots(prompt("new", computed=4), 1)),
}

COMMON = {
    "commit": Call(
        lambda made: {"request": made.running, "num_computed_tokens": 14},
        {"request": REQUEST, "num_computed_tokens": count(0)},
        misuse={
            "unknown": (UnknownRequestError, lambda made: made.commit(made.new, 1)),
            "beyond the slots": (StaleCountError, lambda made: made.commit(made.running, 15)),
            "back": (StaleCountError, lambda made: made.commit(made.running, 13)),
            "freed": (UnknownRequestError, lambda made: made.commit(prompt("done", 100), 14)),
        },
    ),
    "roll_back": Call(
        lambda made: {"request": made.running, "num_computed_tokens": 12},
        {"request": REQUEST, "num_computed_tokens": count(0)},
        misuse={
            "unknown": (UnknownRequestError, lambda made: made.roll_back(made.new, 1)),
            "forwards": (StaleCountError, lambda made: made.roll_back(made.running, 15)),
        },
    ),
    "free": Call(
        lambda made: {"request": made.running},
        {"request": REQUEST},
        misuse={"another's id": (RequestMismatchError, lambda made: made.free(prompt("running", 50)))},
    ),
    "evict_blocks": Call(
        lambda made: {"block_ids": [1, 2]},
        {
            "block_ids": {
                **{f"one is {what}": always([1, bad(None)]) for what, bad in count(0, most=BLOCKS).items()},
                "a number": always(3),
                "nothing": always(None),
            }
        },
        says=("block",),
    ),
}

OPEN = {
    "reset_prefix_cache": "takes nothing",
    "make_prefix_cache_stats": "takes nothing",
}

EARLY = Face(
    EarlyKVCacheManager,
    early,
    KVCacheManagerError,
    {
        "__init__": Call(
            lambda made: {"block_size": 4, "num_gpu_blocks": 10, "max_model_len": 32, "num_preallocate_tokens": 0},
            {
                "block_size": count(1),
                "num_gpu_blocks": count(1),
                "max_model_len": count(1),
                "num_preallocate_tokens": count(0),
                "rules": one_of(None, "normative", 3),
                "hash_function": one_of(None, 3),
            },
            {"sliding_window": "never used, as released", "enable_caching": "a flag", "log_stats": "a flag"},
            says=("number of blocks",),
        ),
        "get_computed_blocks": Call(lambda made: {"request": made.again}, {"request": REQUEST}),
        "allocate_slots": Call(
            lambda made: {
                "request": made.again,
                "num_tokens": 2,
                "new_computed_blocks": made.hits,
            },
            {
                "request": COUNTED,
                "num_tokens": count(1),
                "computed_blocks": LISTS,
                "new_computed_blocks": LISTS,
            },
            misuse={
                **MISUSE,
                "hits of another": (
                    StaleBlocksError,
                    lambda made: made.allocate_slots(made.new, 2, made.hits),
                ),
                "hits for a table": (
                    AlreadyAllocatedError,
                    lambda made: made.allocate_slots(made.running, 2, made.first),
                ),
            },
            says=("block", "request"),
        ),
        "append_slots": Call(
            lambda made: {"request": made.running, "num_tokens": 1},
            {"request": COUNTED, "num_tokens": count(1)},
            misuse={
                "unknown": (UnknownRequestError, lambda made: made.append_slots(made.new, 1)),
                "freed": (UnknownRequestError, lambda made: made.append_slots(prompt("done", 100), 1)),
            },
        ),
        "get_num_common_prefix_blocks": Call(
            lambda made: {"request": made.running, "num_running_requests": 1, "running": ["running"]},
            {"request": REQUEST, "num_running_requests": count(1), "running": one_of("running", 3)},
            misuse={
                "unknown": (UnknownRequestError, lambda made: made.get_num_common_prefix_blocks(made.new, 1)),
                "who does not run": (
                    NotRunningError,
                    lambda made: made.get_num_common_prefix_blocks(
                        EarlyRequest("running", list(range(14)), status=SimpleNamespace(name="WAITING")), 1
                    ),
                ),
            },
        ),
        "free_block_hashes": Call(lambda made: {"request": made.running}, {}, {"request": "nothing is kept of it"}),
        **COMMON,
    },
    OPEN,
)


def nothing(block: KVCacheBlock) -> Any:
    return None


HITS: Sort = {
    "a list": always([]),
    "a number": always(3),
    "for two groups": lambda good: KVCacheBlocks((*good.blocks, ())),
    "of another pool": lambda good: KVCacheBlocks(([foreign_block() for _ in good.blocks[0]],)),
    "None among them": lambda good: KVCacheBlocks(tuple([nothing(block) for block in its] for its in good.blocks)),
    "the null block": lambda good: good,
}


def config(**wrong: Any) -> Any:
    spec = SimpleNamespace(block_size=wrong.pop("block_size", 4))
    group = SimpleNamespace(kv_cache_spec=spec)
    return SimpleNamespace(**{"num_blocks": 11, "kv_cache_groups": [group], **wrong})


COUNTED_ONLY: Sort = {what: bad for what, bad in REQUEST.items() if "all_token_ids: [" not in what}
"""A request whose tokens are counted and not looked at."""
TAKEN = ("take_new_block_ids", "take_kv_cache_block_copies", "take_boundary_state_offloads")
STEPS = ("new_step_starts", "commit_step", *TAKEN)
LATER = Face(
    LaterKVCacheManager,
    later,
    KVCacheManagerError,
    {
        "__init__": Call(
            lambda made: {"kv_cache_config": config(), "max_model_len": 32},
            {
                "kv_cache_config": {
                    **lacking("num_blocks", "kv_cache_groups", num_blocks=count(2)),
                    "without groups": always(config(kv_cache_groups=[])),
                    "with None for groups": always(config(kv_cache_groups=None)),
                    **{f"block_size: {what}": always(config(block_size=bad(None))) for what, bad in count(1).items()},
                },
                "max_model_len": count(1),
                "scheduler_block_size": one_of(0, 6, 1.5, True, "4"),
                "hash_block_size": one_of(0, 8, 1.5, True, "4"),
                "watermark": amount(1.0),
                "dcp_world_size": count(1),
                "pcp_world_size": count(1),
                "num_hash_lookahead_tokens": one_of(-1, 1.5, None, "4"),
                "num_prefill_lookahead": one_of(-1, 1, 1.5, None, "4"),
                "enable_mamba_shared_prefix_checkpoint": one_of(True, 1, None, "4"),
                "rules": one_of(None, 3),
                "hash_function": one_of(None, 3),
            },
            {
                "enable_caching": "a flag",
                "log_stats": "a flag",
                "use_eagle": "a flag",
                "partial_hits": "a flag",
                "enable_kv_cache_events": "a flag",
                "max_in_flight_tokens": "no effect",
                "max_num_batched_tokens": "no effect",
                "metrics_collector": "no effect",
            },
            says=("block", "groups"),
        ),
        "get_computed_blocks": Call(
            lambda made: {"request": made.again, "max_cache_hit_length": 8},
            {"request": REQUEST, "max_cache_hit_length": count(0, optional=True)},
        ),
        "allocate_slots": Call(
            lambda made: {
                "request": made.again,
                "num_new_tokens": 2,
                "num_new_computed_tokens": 12,
                "new_computed_blocks": made.hits,
            },
            {
                "request": COUNTED,
                "num_new_tokens": count(0),
                "num_new_computed_tokens": {
                    what: bad for what, bad in count(0, most=12).items() if what != "whole fraction"
                },
                "new_computed_blocks": {what: bad for what, bad in HITS.items() if what != "the null block"},
                "num_lookahead_tokens": count(0),
                "num_external_computed_tokens": count(0),
                "num_encoder_tokens": count(0, most=0),
                "reserved_blocks": count(0),
            },
            {
                "delay_cache_blocks": "a flag",
                "full_sequence_must_fit": "a flag",
                "has_scheduled_reqs": "a flag",
                "skip_zeroing_group_ids": "nothing is zeroed here",
            },
            misuse={
                **MISUSE,
                "no tokens": (InvalidCountError, lambda made: made.allocate_slots(made.new, 0)),
                "huge": (TooManyTokensError, lambda made: made.allocate_slots(made.new, 2**70)),
                "hits of another": (
                    StaleBlocksError,
                    lambda made: made.allocate_slots(made.new, 2, 12, made.hits),
                ),
                "hits for a table": (
                    AlreadyAllocatedError,
                    lambda made: made.allocate_slots(made.running, 2, 12, made.first),
                ),
                "the null block": (
                    StaleBlocksError,
                    lambda made: made.allocate_slots(made.new, 2, 4, KVCacheBlocks(([made.block_pool.null_block],))),
                ),
            },
            says=("block", "request", "computed tokens", "external", "groups"),
        ),
        "cache_blocks": Call(
            lambda made: {"request": made.running, "num_computed_tokens": 14},
            {"request": REQUEST, "num_computed_tokens": count(0)},
            misuse={
                "unknown": (UnknownRequestError, lambda made: made.cache_blocks(made.new, 1)),
                "beyond the slots": (StaleCountError, lambda made: made.cache_blocks(made.running, 15)),
            },
        ),
        "get_num_common_prefix_blocks": Call(
            lambda made: {"request": made.running, "num_running_requests": 1, "running": ["running"]},
            {"request": REQUEST, "num_running_requests": count(1), "running": one_of("running", 3)},
            misuse={"an unknown id": (UnknownRequestError, lambda made: made.get_num_common_prefix_blocks("nobody"))},
        ),
        "get_blocks": Call(lambda made: {"request_id": "running"}, {}, {"request_id": "a request without a table"}),
        "get_block_ids": Call(lambda made: {"request_id": "x"}, {}, {"request_id": "a request without a table"}),
        "get_computed_blocks_for_connector": Call(
            lambda made: {"request": made.again, "max_cache_hit_length": 8},
            {"request": REQUEST, "max_cache_hit_length": count(0, optional=True)},
        ),
        "prefix_cache_lookup_enabled": Call(lambda made: {"request": made.again}, {"request": COUNTED_ONLY}),
        "record_prefix_cache_stats": Call(
            lambda made: {"request": made.again, "num_hits": 4}, {"request": COUNTED_ONLY, "num_hits": count(0)}
        ),
        "truncate_computed_blocks": Call(
            lambda made: {"blocks": made.hits, "num_computed_tokens": 4},
            {"num_computed_tokens": count(0)},
            {"blocks": "what a look-up has returned"},
            misuse={
                "half a block": (InvalidCountError, lambda made: made.truncate_computed_blocks(made.hits, 3)),
                "more than the hits": (InvalidCountError, lambda made: made.truncate_computed_blocks(made.hits, 400)),
            },
        ),
        "get_block_ids_for_computed_tokens": Call(
            lambda made: {"request_id": "running", "num_computed_tokens": 4},
            {"num_computed_tokens": count(0)},
            {"request_id": "a request without a table"},
        ),
        "estimate_cached_tokens": Call(lambda made: {"request": made.running}, {"request": COUNTED_ONLY}),
        "can_fit_full_sequence": Call(
            lambda made: {"request": made.again},
            {
                "request": COUNTED_ONLY,
                "num_new_computed_tokens": count(0),
                "num_external_computed_tokens": count(0),
                "num_encoder_tokens": count(0),
            },
            {"new_computed_blocks": "what a look-up has returned"},
        ),
        "pop_blocks_for_free": Call(lambda made: {"request": made.running}, {"request": COUNTED_ONLY}),
        "record_blocks_for_zeroing": Call(
            lambda made: {"request_id": "running", "start_token": 4},
            {"start_token": count(0)},
            {"request_id": "a request without a table"},
            misuse={"half a block": (InvalidCountError, lambda made: made.record_blocks_for_zeroing("running", 3))},
        ),
        "remove_skipped_blocks": Call(
            lambda made: {"request_id": "running", "processed_computed_tokens": 14},
            {"processed_computed_tokens": count(0), "total_computed_tokens": count(0, optional=True)},
            {"request_id": "any", "num_prompt_tokens": "no effect"},
        ),
        "create_kv_cache_blocks": Call(lambda made: {"blocks": ([],)}, {}, {"blocks": "a record is made of them"}),
        "finalize_partial_tail_offloads": Call(lambda made: {"request": made.running}, {"request": COUNTED_ONLY}),
        **COMMON,
    },
    {
        **OPEN,
        **dict.fromkeys(STEPS, "takes nothing"),
        "create_empty_block_list": "takes nothing",
        "take_events": "takes nothing",
    },
)


FACES = {"KVCacheManager, early": EARLY, "KVCacheManager, later": LATER}
