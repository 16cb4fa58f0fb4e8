"""`kv_blocks`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cacheimpl import kv_blocks as tensors
from cacheimpl.kv_blocks import operations as functions
from cacheproof.model.registry import component_named
from cacheproof.tensor_models.kv_blocks_environment import every_call, guards
from cacheproof.tensor_models.model import (
    Function,
    Row,
    TensorModel,
    TensorOperation,
    always,
    named,
    no_operands,
    table,
)
from cachespec.kernel import FrozenMap, FrozenQueue, Operation
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks.configuration import NOTHING, Config, blocks_for, hash_of, limit_of
from cachespec.kv_blocks.state import Holding, Pool


def tables_of(config: Config, device: str) -> tensors.Config:
    """A table has as many positions as the longest request that the engine admits, and contents as far as they go."""
    positions = max(1, blocks_for(config, limit_of(config)))
    chains = [(*chain, *[NOTHING] * positions)[:positions] for chain in config.chains]
    count = 1 + max((content for chain in config.chains for content in chain), default=NOTHING)
    return tensors.configuration(
        torch.tensor(chains, device=device),
        torch.tensor(config.lengths, device=device),
        block_size=config.block_size,
        limit=limit_of(config),
        hashes=torch.tensor([hash_of(config, content) for content in range(count)], dtype=torch.int64, device=device),
    )


# Operands -----------------------------------------------------------------------------------------------------------


class Operands:
    """The operands of each operation, for the names that a configuration has."""

    def __init__(self, config: Config) -> None:
        self.requests, self.blocks = len(config.lengths), config.blocks
        self.positions = max(1, blocks_for(config, limit_of(config)))

    def request(self, request: int) -> int:
        """The row."""
        return named("request", request, self.requests)

    def of_request(self, operation: Any) -> tuple[int, ...]:
        """The row."""
        return (self.request(operation.request),)

    def of_look_up(self, operation: Any) -> tuple[int, ...]:
        """The row, and how many tokens the request has."""
        return self.request(operation.request), operation.tokens

    def of_commit(self, operation: Any) -> tuple[int, ...]:
        """The row, and up to where it is computed."""
        return self.request(operation.request), operation.computed

    def of_allocation(self, operation: Any) -> tuple[int, ...]:
        """The row, the two counts, and the hits."""
        hits = self.padded(operation.hits)
        return self.request(operation.request), operation.computed, operation.tokens, len(operation.hits), *hits

    def of_groups(self, operation: Any) -> tuple[int, ...]:
        """Both rows, the two counts, and the hits of both groups."""
        counts = len(operation.hits), len(operation.other_hits)
        hits = *self.padded(operation.hits), *self.padded(operation.other_hits)
        rows = self.request(operation.request), self.request(operation.other)
        return *rows, operation.external, operation.tokens, *counts, *hits

    def padded(self, hits: tuple[int, ...]) -> tuple[int, ...]:
        """As many as a table has positions; no table is longer, so what is left out cannot be cached."""
        known = tuple(named("block", block, self.blocks) for block in hits)
        return (*known, *[self.blocks] * self.positions)[: self.positions]

    def of_block(self, operation: Any) -> tuple[int, ...]:
        """The block."""
        return (named("block", operation.block, self.blocks),)

    def of_running(self, operation: Any) -> tuple[int, ...]:
        """The row, and for each request whether it runs."""
        running = {self.request(request) for request in operation.running}
        return self.request(operation.request), *(int(request in running) for request in range(self.requests))


# State --------------------------------------------------------------------------------------------------------------


HOLDING = ("blocks", "registered", "origin", "computed", "scheduled")
"""The tensors that hold the fields of a `Holding`, in its order."""


def decode(config: Config, row: Row) -> Pool:
    """The queue from its head on; copies in the order of their stamps."""
    requests = [request for request, count in enumerate(row["blocks"][:-1]) if count > 0]
    columns = [row[name] for name in HOLDING]
    holdings = {request: Holding(*(column[request] for column in columns)) for request in requests}
    cells = len(row["order"]) - 1
    queue = [row["order"][(row["head"] + place) % cells] for place in range(row["free"])]
    carried = carried_of(row["carried"])
    return Pool(
        tables=FrozenMap(
            ((request, position), row["tables"][request][position])
            for request, holding in holdings.items()
            for position in range(holding.blocks)
        ),
        holdings=FrozenMap(holdings.items()),
        references=FrozenMap((block, count) for block, count in enumerate(row["references"][:-1]) if count != 0),
        free=FrozenQueue((block, 1) for block in queue),
        registered=FrozenMap(carried.items()),
        prefix_map=FrozenMap(sorted(copies_of(config, carried, row["stamp"]).items())),
        null=NOTHING,
        bytes=FrozenMap(carried_of(row["bytes"]).items()),
    )


def carried_of(contents: list[int]) -> dict[int, int]:
    """Blocks that have a content, with it."""
    return {block: content for block, content in enumerate(contents[:-1]) if content >= 0}


def copies_of(config: Config, carried: dict[int, int], stamps: list[int]) -> dict[int, tuple[int, ...]]:
    """For each hash the blocks that carry it, by their stamps."""
    copies: dict[int, tuple[int, ...]] = {}
    for block in sorted(carried, key=stamps.__getitem__):
        known = hash_of(config, carried[block])
        copies[known] = (*copies.get(known, ()), block)
    return copies


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("kv_blocks")
    tables, operands, enabled = tables_of(config, device), Operands(config), guards(config, device)
    parts: tuple[tuple[type[Operation], Function, Callable[[Any], tuple[int, ...]]], ...] = (
        (calls.GetComputedBlocks, functions.get_computed_blocks, operands.of_look_up),
        (calls.AllocateSlots, functions.allocate_slots, operands.of_allocation),
        (calls.AllocateGroups, functions.allocate_groups, operands.of_groups),
        (calls.Commit, functions.commit, operands.of_commit),
        (calls.RollBack, functions.roll_back, operands.of_commit),
        (calls.FreeRequest, functions.free_request, operands.of_request),
        (calls.Withdraw, functions.withdraw, operands.of_request),
        (calls.EvictBlock, functions.evict_block, operands.of_block),
        (calls.ResetPrefixCache, functions.reset_prefix_cache, no_operands),
        (calls.CommonPrefix, functions.common_prefix, operands.of_running),
    )
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=tensors.empty(tables, config.blocks),
        layout=tensors.layout(tables, config.blocks),
        operations=table(*(TensorOperation(*part, enabled.get(part[0], always)) for part in parts)),
        domain=lambda: every_call(config),
        decode=lambda row: decode(config, row),
    )
