"""The groups of layers of a `kv_cache_config`: their kinds, the sizes of their blocks, and where hits may end."""

from __future__ import annotations

import math
from typing import Any

from cacheimpl.kv_cache_manager.common import Layout
from cacheimpl.kv_cache_manager.contexts import ALONE, Ranks, shared_by
from cacheimpl.kv_cache_manager.errors import InvalidSettingError, UnsupportedError
from cacheimpl.kv_cache_manager.kinds import check_groups, drafts_of, reach_of, specs_of
from cacheimpl.kv_cache_manager.paged import paged_layout_of
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.retention import checked
from cacheimpl.kv_cache_manager.rules import Register, Rules
from cacheimpl.kv_cache_manager.sizes import at_least
from cacheimpl.kv_cache_manager.unsupported import Unsupported


def layout_of(
    config: Any,
    scheduler_block_size: int | None,
    hash_block_size: int | None,
    in_flight: int | None,
    rules: Rules,
    ranks: Ranks = ALONE,
    *,
    partial_hits: bool | None = None,
    lookahead: int = 0,
) -> Layout:
    """The groups. `partial_hits`: see `LaterKVCacheManager`.

    Raises `InvalidSettingError`, `InvalidCountError`, `UnsupportedError`.
    """
    try:
        given = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
        _ = config.num_blocks
    except (AttributeError, TypeError) as error:
        wanted = "num_blocks, and kv_cache_groups, each with a kv_cache_spec"
        raise InvalidSettingError(f"kv_cache_config must have {wanted}: {error}") from None
    check_groups(config.kv_cache_groups)
    if not given:
        raise UnsupportedError(Unsupported.NO_GROUP, "kv_cache_groups must have a group")
    reaches = tuple(reach_of(group.kv_cache_spec) for group in config.kv_cache_groups)
    shared = shared_by([group.kv_cache_spec for group in config.kv_cache_groups], reaches, ranks)
    sizes = tuple(at_least("block_size", size, 1) * count for size, count in zip(given, shared, strict=True))
    hashed = at_least("hash_block_size", hash_block_size, 1) if hash_block_size is not None else math.gcd(*sizes)
    aligned = math.lcm(*sizes)
    if scheduler_block_size is not None and at_least("scheduler_block_size", scheduler_block_size, 1) % aligned:
        raise UnsupportedError(
            Unsupported.SCHEDULER_BLOCK_SIZE,
            f"scheduler_block_size must be a multiple of {aligned}, not {scheduler_block_size}",
        )
    if any(size % hashed for size in sizes):
        raise UnsupportedError(
            Unsupported.HASH_BLOCK_SIZE,
            f"hash_block_size must divide the block sizes {sorted(set(sizes))}, and is {hashed}",
        )
    several = len(sizes) > 1
    check_states(reaches, rules)
    saved = tuple(saved_within(group.kv_cache_spec) for group in config.kv_cache_groups)
    beside = any(reach.kind is Kind.STATE and size > hashed for reach, size in zip(reaches, sizes, strict=True))
    partial = beside or any(saved) if partial_hits is None else partial_hits
    if partial:
        check_partial(reaches, sizes, hashed)
    elif beside:
        raise UnsupportedError(
            Unsupported.STATES_BEHIND_BLOCKS, "state-space layers with blocks larger than hash blocks need partial_hits"
        )
    interval = getattr(config, "prefix_cache_retention_interval", None)
    paged = paged_layout_of(config, reaches, sizes, hashed)
    if paged is not None and (partial or lookahead):
        raise UnsupportedError(
            Unsupported.HISPARSE_WITHIN_BLOCKS,
            "HiSparse needs hits that end with a block, and hashes that do not look ahead",
        )
    if paged is not None and ranks != ALONE:
        raise UnsupportedError(
            Unsupported.HISPARSE_IN_PARALLEL,
            "contexts in parallel are not supported with HiSparse: a page is of one rank",
        )
    return Layout(
        reaches,
        sizes,
        hashed,
        hashed if partial else (scheduler_block_size or aligned) if several else aligned,
        drafting(config.kv_cache_groups),
        None if in_flight is None else at_least("max_in_flight_tokens", in_flight, 0),
        checked(interval, reaches, scheduler_block_size or aligned),
        shared,
        partial,
        lookahead,
        saved,
        tuple(drafts_of(group.kv_cache_spec) for group in config.kv_cache_groups),
        paged,
    )


def check_states(reaches: tuple[Reach, ...], rules: Rules) -> None:
    """Raises `UnsupportedError` for state-space layers under rules of early eras."""
    states = any(reach.kind is Kind.STATE for reach in reaches)
    if states and rules.register is Register.SCHEDULED and not rules.aligned:
        raise UnsupportedError(
            Unsupported.STATES_OF_EARLY_RULES,
            "state-space layers are not supported under the rules of 0.20.2 and before",
        )


def check_partial(reaches: tuple[Reach, ...], sizes: tuple[int, ...], hashed: int) -> None:
    """Raises `UnsupportedError` for layers of which no hit can end within a block, beside others."""
    for number, (reach, size) in enumerate(zip(reaches, sizes, strict=True)):
        if reach.kind not in (Kind.FULL, Kind.STATE) and size != hashed:
            raise UnsupportedError(
                Unsupported.LARGE_BLOCKS_BESIDE_PARTIAL_HITS,
                f"group {number} of kv_cache_groups has layers with {reach.kind.value} and blocks of {size} tokens:"
                f" beside hits that end within a block they must be hash blocks, of {hashed} tokens",
            )


def saved_within(spec: Any) -> int | None:
    """Where layers can save a state within a step: at multiples of these tokens from its start. None: nowhere."""
    layers = list(specs_of(spec))
    if not any(getattr(layer, "num_prefill_checkpoint_blocks", 0) for layer in layers):
        return None
    alignment: int | None = getattr(layers[0], "prefill_checkpoint_alignment", None)
    return alignment


def drafting(groups: Any) -> frozenset[int]:
    """The groups with layers of a draft model, and all that have the same layers as one of them."""
    specs = [group.kv_cache_spec for group in groups if getattr(group, "is_eagle_group", False)]
    return frozenset(number for number, group in enumerate(groups) if group.kv_cache_spec in specs)
