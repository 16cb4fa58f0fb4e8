"""`layer_groups`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from cacheimpl import layer_groups as tensors
from cacheimpl.layer_groups import Kind, Layers, Reach
from cacheimpl.layer_groups import operations as functions
from cacheproof.model.registry import component_named
from cacheproof.tensor_models.layer_groups_environment import every_call, guards
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
from cachespec.layer_groups import operations as calls
from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    FULL,
    NOTHING,
    STATE,
    WINDOW,
    Config,
    Key,
    is_drafting,
    prompt_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.state import Pool, Progress
from cachespec.layer_groups.state import Row as TableRow

KINDS = {FULL: Kind.FULL, WINDOW: Kind.WINDOW, CHUNK: Kind.CHUNK, STATE: Kind.STATE, CROSS: Kind.CROSS}
"""The implementation's name for each kind of the specification."""


def layers_of(config: Config) -> list[Layers]:
    """The groups; the span of cross attention is the encoder's tokens."""
    groups = []
    for group, kind in enumerate(config.kinds):
        span, crosses = span_of(config, group), kind == CROSS
        reach = Reach(KINDS[kind], 0 if crosses else span)
        groups.append(Layers(reach, size_of(config, group), span if crosses else 0, is_drafting(config, group)))
    return groups


def contents_of(config: Config) -> int:
    """How many contents there may be."""
    return 1 + max((content for chain in config.chains for content in chain), default=NOTHING)


def tables_of(config: Config, device: str) -> tensors.Config:
    """Contents as far as a request has some."""
    longest = max(1, *(len(chain) for chain in config.chains))
    chains = [(*chain, *[NOTHING] * longest)[:longest] for chain in config.chains]
    prompts = [prompt_of(config, request) for request in range(len(config.lengths))]
    return tensors.configuration(
        layers_of(config),
        torch.tensor(chains, device=device),
        torch.tensor(config.lengths, device=device),
        torch.tensor(prompts, device=device),
        hash_size=config.hash_size,
        count=contents_of(config),
        retention=None if config.retention < 0 else config.retention,
        shared=torch.tensor(config.shared_prefixes, device=device) if config.shared_prefixes else None,
    )


def steps_of(config: Config) -> int:
    """How many steps of a request may be in flight; callers without discipline schedule as many as there are tokens."""
    return config.ahead + 1 if config.disciplined else max(1, *config.lengths)


# Operands -----------------------------------------------------------------------------------------------------------


class Operands:
    """The operands of each operation, for the names that a configuration has."""

    def __init__(self, config: Config) -> None:
        self.requests = len(config.lengths)

    def of_request(self, operation: Any) -> tuple[int, ...]:
        """The row."""
        return (named("request", operation.request, self.requests),)

    def of_allocation(self, operation: Any) -> tuple[int, ...]:
        """The row, and the two counts."""
        return *self.of_request(operation), operation.external, operation.tokens


# State --------------------------------------------------------------------------------------------------------------


def decode(config: Config, row: Row) -> Pool:
    """The queue from its head on; copies in the order of their stamps."""
    contents = contents_of(config)
    running = [request for request, tokens in enumerate(row["scheduled"]) if tokens > 0]
    names = [(request, group) for request in running for group in range(len(config.kinds))]
    lengths = {(request, group): row["lengths"][request][group] for request, group in names}
    cells = len(row["order"]) - 1
    queue = [row["order"][(row["head"] + place) % cells] for place in range(row["free"])]
    registered = keys_of(contents, row["carried"])
    return Pool(
        tables=FrozenMap(
            ((request, group, position), row["tables"][request][group][position])
            for (request, group), length in lengths.items()
            for position in range(length)
        ),
        rows=FrozenMap(
            (name, TableRow(length, row["registered"][name[0]][name[1]])) for name, length in lengths.items() if length
        ),
        progress=FrozenMap((request, progress_of(row, request)) for request in running),
        references=FrozenMap((block, count) for block, count in enumerate(row["references"][:-1]) if count != 0),
        free=FrozenQueue((block, 1) for block in queue),
        registered=FrozenMap(registered.items()),
        prefix_map=FrozenMap(sorted(copies_of(registered, row["stamp"]).items())),
        this_step=FrozenMap((divmod(key, contents), 1) for key, is_in in enumerate(row["this_step"][:-1]) if is_in),
        null=row["null"],
        bytes=FrozenMap(keys_of(contents, row["bytes"]).items()),
        ended=0,
    )


def progress_of(row: Row, request: int) -> Progress:
    """How far the request has come."""
    ends = tuple(row["ends"][request][: row["flying"][request]])
    return Progress(row["found"][request], row["loaded"][request], row["computed"][request], ends)


def keys_of(contents: int, column: list[int]) -> dict[int, Key]:
    """Blocks that have a key, with it."""
    return {block: divmod(key, contents) for block, key in enumerate(column[:-1]) if key >= 0}


def copies_of(registered: Mapping[int, Key], stamps: list[int]) -> dict[Key, tuple[int, ...]]:
    """For each key the blocks that carry it, by their stamps."""
    copies: dict[Key, tuple[int, ...]] = {}
    for block in sorted(registered, key=stamps.__getitem__):
        copies[registered[block]] = (*copies.get(registered[block], ()), block)
    return copies


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("layer_groups")
    tables, operands, enabled = tables_of(config, device), Operands(config), guards(config)
    keys = len(config.kinds) * contents_of(config)
    initial = tensors.empty(tables, config.blocks, keys=keys, steps=steps_of(config))
    parts: tuple[tuple[type[Operation], Function, Callable[[Any], tuple[int, ...]]], ...] = (
        (calls.NewStep, functions.new_step, no_operands),
        (calls.GetComputedBlocks, functions.get_computed_blocks, operands.of_request),
        (calls.AllocateSlots, functions.allocate_slots, operands.of_allocation),
        (calls.Commit, functions.commit, operands.of_request),
        (calls.FreeRequest, functions.free_request, operands.of_request),
        (calls.ResetPrefixCache, functions.reset_prefix_cache, no_operands),
    )
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=initial,
        layout=tensors.layout(tables, initial),
        operations=table(*(TensorOperation(*part, enabled.get(part[0], always)) for part in parts)),
        domain=lambda: every_call(config),
        decode=lambda row: decode(config, row),
    )
