"""The groups of layers of a `kv_cache_config`: their kinds, the sizes of their blocks, and where hits may end."""

from __future__ import annotations

import math
from typing import Any

from cacheimpl.kv_cache_manager.common import Layout
from cacheimpl.kv_cache_manager.contexts import ALONE, Ranks, shared_by
from cacheimpl.kv_cache_manager.errors import InvalidSettingError, UnsupportedError
from cacheimpl.kv_cache_manager.kinds import check_groups, reach_of
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.retention import checked
from cacheimpl.kv_cache_manager.rules import Register, Rules
from cacheimpl.kv_cache_manager.sizes import at_least


def layout_of(
    config: Any,
    scheduler_block_size: int | None,
    hash_block_size: int | None,
    in_flight: int | None,
    rules: Rules,
    ranks: Ranks = ALONE,
) -> Layout:
    """The groups. Raises `InvalidSettingError`, `InvalidCountError`, `UnsupportedError`."""
    try:
        given = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
        _ = config.num_blocks
    except (AttributeError, TypeError) as error:
        wanted = "num_blocks, and kv_cache_groups, each with a kv_cache_spec"
        raise InvalidSettingError(f"kv_cache_config must have {wanted}: {error}") from None
    check_groups(config.kv_cache_groups)
    if not given:
        raise UnsupportedError("kv_cache_groups must have a group")
    reaches = tuple(reach_of(group.kv_cache_spec) for group in config.kv_cache_groups)
    shared = shared_by([group.kv_cache_spec for group in config.kv_cache_groups], reaches, ranks)
    sizes = tuple(at_least("block_size", size, 1) * count for size, count in zip(given, shared, strict=True))
    hashed = at_least("hash_block_size", hash_block_size, 1) if hash_block_size is not None else math.gcd(*sizes)
    aligned = math.lcm(*sizes)
    if scheduler_block_size is not None and at_least("scheduler_block_size", scheduler_block_size, 1) % aligned:
        raise UnsupportedError(f"scheduler_block_size must be a multiple of {aligned}, not {scheduler_block_size}")
    if any(size % hashed for size in sizes):
        raise UnsupportedError(f"hash_block_size must divide the block sizes {sorted(set(sizes))}, and is {hashed}")
    several = len(sizes) > 1
    check_states(reaches, sizes, hashed, rules)
    interval = getattr(config, "prefix_cache_retention_interval", None)
    return Layout(
        reaches,
        sizes,
        hashed,
        (scheduler_block_size or aligned) if several else aligned,
        drafting(config.kv_cache_groups),
        None if in_flight is None else at_least("max_in_flight_tokens", in_flight, 0),
        checked(interval, reaches, scheduler_block_size or aligned),
        shared,
    )


def check_states(reaches: tuple[Reach, ...], sizes: tuple[int, ...], hashed: int, rules: Rules) -> None:
    """Raises `UnsupportedError` for states whose blocks are no hash blocks, and under rules of early eras."""
    states = [number for number, reach in enumerate(reaches) if reach.kind is Kind.STATE]
    if states and rules.register is Register.SCHEDULED and not rules.aligned:
        raise UnsupportedError("state-space layers are not supported under the rules of 0.20.2 and before")
    for number in states:
        if sizes[number] != hashed:
            raise UnsupportedError(
                f"group {number} of kv_cache_groups has state-space layers with blocks of {sizes[number]} tokens, and"
                f" hits within a block are not supported: hash_block_size is {hashed}"
            )


def drafting(groups: Any) -> frozenset[int]:
    """The groups with layers of a draft model, and all that have the same layers as one of them."""
    specs = [group.kv_cache_spec for group in groups if getattr(group, "is_eagle_group", False)]
    return frozenset(number for number, group in enumerate(groups) if group.kv_cache_spec in specs)
