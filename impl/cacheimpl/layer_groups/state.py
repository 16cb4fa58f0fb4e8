"""The state of groups of layers: tables of each request in each group, one free queue, and one prefix map.

A request, a group and a block are rows. Blocks and keys have one row more than there are: the last one, `spare`, takes
what masked elements write, so no operation asks whether an index exists, and nothing is read from it that decides
anything. The null block is a block: its number is in the state, and only its number is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.kv_blocks.state import cells_for
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.layer_groups.groups import Layers, alignment, caches, check
from cacheimpl.layer_groups.retention import retained


class Config(NamedTuple):
    """What the state refers to. `positions` is the length of the longest table; a `prefix` is one that may be a hit."""

    size: Tensor
    """[groups] int64, tokens of a block"""
    chunk: Tensor
    """[groups] int64, tokens: see `Layers.chunk`"""
    back: Tensor
    """[groups] int64, tokens: see `Layers.back`"""
    encoder: Tensor
    """[groups] int64, tokens of the encoder; 0 for other kinds"""
    is_state: Tensor
    """[groups] bool: whether a block holds a state"""
    is_written: Tensor
    """[groups] bool: whether a block holds the KV of the request's tokens"""
    caches: Tensor
    """[] bool: whether anything is found by prefix"""
    prefixes: Tensor
    """[prefixes] int64, tokens: 0, and where a block ends in every group"""
    first: Tensor
    """[prefixes, groups] int64: the first position that the token behind the prefix reads"""
    last: Tensor
    """[prefixes, groups] int64: the positions before this one have to be findable, those of draft layers included"""
    retained: Tensor
    """[requests, groups, positions] bool: whether the block at a position can be found once it is written"""
    keys: Tensor
    """[requests, groups, positions] int64: the key of each full block, which is its group and its content; `keys` where
    the request has no content"""
    lengths: Tensor
    """[requests] int64, tokens: how many a request has at most"""
    prompts: Tensor
    """[requests] int64, tokens: how many it has when it is looked up"""


class Pool(NamedTuple):
    """Unused cells of the queue and of the stamps, and the spare rows, hold anything; nothing is read from them."""

    tables: Tensor
    """[requests, groups, positions] int32: the block at each position; the null block where the group needs none, and
    behind the end of the table"""
    lengths: Tensor
    """[requests, groups] int64: positions of each table, those with the null block included (derived)"""
    registered: Tensor
    """[requests, groups] int64: so many of its positions, from the first, were hits or were passed by the registration
    (derived)"""
    found: Tensor
    """[requests] int64, tokens: history, those of its hit"""
    loaded: Tensor
    """[requests] int64, tokens: history, those of its hit and those that were loaded from outside"""
    computed: Tensor
    """[requests] int64, tokens: those before this one have their KV written"""
    ends: Tensor
    """[requests, steps] int64, tokens: where each step in flight ends, the oldest first; 0 behind the last"""
    flying: Tensor
    """[requests] int64: how many steps are in flight"""
    scheduled: Tensor
    """[requests] int64, tokens: those before this one have slots; 0 where a request has no tables (derived)"""
    references: Tensor
    """[blocks + 1] int64: how many places in tables a block has; none of the null block is counted (derived)"""
    order: Tensor
    """[cells + 1] int64: the free queue, a circular buffer of a power of two cells; the last cell is nowhere"""
    head: Tensor
    """[] int64: where the queue begins, the block that is taken next"""
    free: Tensor
    """[] int64: how many blocks are in the queue (derived)"""
    carried: Tensor
    """[blocks + 1] int64: the key under which a block can be found, -1 where under none"""
    stamp: Tensor
    """[blocks + 1] int64: when the block was registered; of copies the one with the least is found"""
    clock: Tensor
    """[] int64: not less than any stamp"""
    this_step: Tensor
    """[keys + 1] bool: history, states that the current step computes"""
    null: Tensor
    """[] int64: the null block"""
    bytes: Tensor
    """[blocks + 1] int64: history, of which key a full block really has the KV, or the state; -1 of none"""


def configuration(
    groups: Sequence[Layers],
    contents: Tensor,
    lengths: Tensor,
    prompts: Tensor,
    *,
    hash_size: int,
    count: int,
    retention: int | None = None,
    shared: Tensor | None = None,
) -> Config:
    """The configuration of requests in these groups.

    `contents`: [requests, hash blocks] int64, below `count`; -1 where there is none. `lengths` and `prompts`:
    [requests] int64, tokens. `retention`: tokens between the prefixes whose windows and states can be found, beside
    those of the prompt and of the `shared` tokens ([requests] int64); 0: no others, None: all. Raises
    `LayerGroupsError` for groups that there are not, and for such an interval.
    """
    check(groups, hash_size)
    device, longest = contents.device, max(1, int(lengths.max()))
    positions = max(one.slots(longest) for one in groups)
    unit = alignment(groups)
    latest = (longest - 1) // unit if caches(groups) else 0
    prefixes = unit * torch.arange(latest + 1, device=device)

    def column(values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    kinds = [one.reach.kind for one in groups]
    config = Config(
        size=column([one.size for one in groups]),
        chunk=column([one.chunk for one in groups]),
        back=column([one.back for one in groups]),
        encoder=column([one.encoder for one in groups]),
        is_state=column([kind is Kind.STATE for kind in kinds]).bool(),
        is_written=column([kind.is_by_token for kind in kinds]).bool(),
        caches=torch.tensor(caches(groups), device=device),
        prefixes=prefixes,
        first=prefixes[:, None],
        last=prefixes[:, None] // column([one.size for one in groups]) + column([one.proofs for one in groups]),
        retained=retained(groups, prompts, shared, positions, retention),
        keys=_keys(groups, contents, positions, hash_size, count),
        lengths=lengths,
        prompts=prompts,
    )
    return config._replace(first=first_needed(config, prefixes[:, None]))


def _keys(groups: Sequence[Layers], contents: Tensor, positions: int, hash_size: int, count: int) -> Tensor:
    """[requests, groups, positions] int64."""
    none, rows = len(groups) * count, []
    known = torch.nn.functional.pad(contents, (0, 1), value=-1)
    for number, one in enumerate(groups):
        ends = (torch.arange(positions, device=contents.device) + 1) * (one.size // hash_size)
        content = known.index_select(1, (ends - 1).clamp(max=contents.shape[1]))
        rows.append(torch.where(content < 0, none, number * count + content))
    return torch.stack(rows, 1)


def first_needed(config: Config, tokens: Tensor) -> Tensor:
    """[..., groups] int64: the first position that the token behind these ([..., 1] int64, or []) reads.

    A sliding window and a chunk end with that token; a state-space layer reads the state behind the last token.
    """
    skipped = tokens - tokens % config.chunk - config.back
    return skipped.clamp(min=0) // config.size


def slots_of(config: Config, tokens: Tensor) -> Tensor:
    """[..., groups] int64: the length of a table with slots for so many tokens ([..., 1] int64, or [])."""
    return (torch.where(config.encoder > 0, config.encoder, tokens) + (config.size - 1)) // config.size


def empty(config: Config, blocks: int, *, keys: int, steps: int = 1) -> Pool:
    """So many blocks: the first is the null block; the others are free, the first one first.

    `keys`: how many there are, the groups times the contents. `steps`: how many steps of a request may be in flight.
    """
    requests, groups, positions = config.keys.shape
    device = config.keys.device

    def filled(*shape: int, value: int = 0) -> Tensor:
        return torch.full(shape, value, dtype=torch.int64, device=device)

    cells = cells_for(blocks)
    order = torch.arange(cells + 1, device=device) + 1
    return Pool(
        tables=filled(requests, groups, positions).int(),
        lengths=filled(requests, groups),
        registered=filled(requests, groups),
        found=filled(requests),
        loaded=filled(requests),
        computed=filled(requests),
        ends=filled(requests, steps),
        flying=filled(requests),
        scheduled=filled(requests),
        references=filled(blocks + 1),
        order=order.clamp(max=blocks),
        head=filled(),
        free=filled(value=blocks - 1),
        carried=filled(blocks + 1, value=-1),
        stamp=filled(blocks + 1),
        clock=filled(),
        this_step=filled(keys + 1).bool(),
        null=filled(),
        bytes=filled(blocks + 1, value=-1),
    )


def spare_block(pool: Pool) -> int:
    """The row of blocks that takes what masked elements write; also how many blocks there are."""
    return pool.references.shape[0] - 1


def spare_key(pool: Pool) -> int:
    """The row of keys that stands for none; also how many there are."""
    return pool.this_step.shape[0] - 1


def places_of(config: Config) -> Tensor:
    """[positions] int64: 0, 1, 2 and so on."""
    return torch.arange(config.keys.shape[2], device=config.keys.device)
