"""Which calls a scope of the KV blocks makes: the guards of the specification's environment, on tensors.

Every guard takes (tables, pool, *operands) of one engine and returns [] bool. `every_call` lists what some state may
call, and the guards say where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations, product

import torch
from torch import Tensor

from cacheimpl import kv_blocks as tensors
from cacheimpl.kv_blocks import Config as Tables
from cacheimpl.kv_blocks import Pool
from cacheimpl.table import row
from cacheproof.tensor_models.model import always
from cachespec.kernel import Operation
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks.configuration import Config, prompt_of
from cachespec.kv_blocks.environment import step_sizes

Guard = Callable[..., Tensor]


def guards(config: Config, device: str) -> Mapping[type[Operation], Guard]:
    """The guard of each operation that is not always enabled."""
    environment = Environment(config, device)
    return {
        calls.AllocateSlots: environment.may_ask,
        calls.AllocateGroups: environment.may_ask_for_groups,
        calls.Commit: environment.may_commit,
        calls.RollBack: may_roll_back,
        calls.FreeRequest: has_a_table if config.disciplined else always,
        calls.Withdraw: environment.may_withdraw,
        calls.EvictBlock: can_be_found,
        calls.CommonPrefix: all_hold_blocks,
    }


class Environment:
    """Callers of one configuration."""

    def __init__(self, config: Config, device: str) -> None:
        self.config = config
        prompts = [prompt_of(config, request) for request in range(len(config.lengths))]
        self.prompts = torch.tensor(prompts, device=device)

    def may_ask(
        self,
        tables: Tables,
        pool: Pool,
        request: Tensor,
        computed: Tensor,
        tokens: Tensor,
        count: Tensor,
        *hits: Tensor,
    ) -> Tensor:
        """As new, with all that is found; as running, where it is; or, without discipline, for nothing or by guess."""
        config, holds = self.config, row(pool.blocks, request) > 0
        prompt = row(self.prompts, request)
        asks_as_new = self.is_all_found(tables, pool, request, count, hits) & (computed == 0)
        asks_as_new = asks_as_new & is_step(config, prompt - count * tables.block_size, tokens)
        if config.groups:
            asks_as_new = torch.zeros_like(asks_as_new)
        elif not config.repeats:
            asks_as_new = asks_as_new & ~holds
        left = row(tables.lengths, request) - row(pool.computed, request)
        sizes = [is_step(config, left, tokens - drafts) for drafts in range(config.drafts + 1)]
        goes_on = holds & ~is_flying(tables, pool, request) & (computed == row(pool.computed, request))
        asked = asks_as_new | (goes_on & (count == 0) & torch.stack(sizes).any(0))
        if not config.disciplined:
            asked = asked | ((computed == 0) & (count == tokens) & (tokens <= 1))
        return asked

    def is_all_found(
        self, tables: Tables, pool: Pool, request: Tensor, count: Tensor, hits: tuple[Tensor, ...]
    ) -> Tensor:
        """Whether the first `count` of these are what a look-up finds."""
        found = tensors.get_computed_blocks(tables, pool, request.reshape(1), row(self.prompts, request).reshape(1))
        brought = torch.stack((*hits, torch.zeros_like(count)))[:-1]
        wanted = torch.arange(len(hits), device=count.device) < count
        same = (found.blocks[0, : len(hits)] == brought) | ~wanted
        return (found.lengths[0] == count) & same.all()

    def may_ask_for_groups(
        self,
        tables: Tables,
        pool: Pool,
        request: Tensor,
        other: Tensor,
        external: Tensor,
        tokens: Tensor,
        *hits: Tensor,
    ) -> Tensor:
        """Neither table is there, and both bring along what both have found."""
        both = torch.stack((request, other))
        prompts = self.prompts.index_select(0, both)
        found = tensors.get_computed_blocks(tables, pool, both, prompts)
        common = found.lengths.min()
        half = (len(hits) - 2) // 2
        brought = torch.stack((*hits[2:], common)).narrow(0, 0, 2 * half).reshape(2, half)
        same = (found.blocks[:, :half] == brought) | (torch.arange(half, device=common.device) >= common)
        left = prompts[0] - common * tables.block_size
        loads = (external == 0) | ((external == tables.block_size) & (left > tables.block_size))
        none = pool.blocks.index_select(0, both).sum() == 0
        counted = (hits[0] == common) & (hits[1] == common)
        return none & counted & same.all() & loads & (tokens == left - external)

    def may_commit(self, tables: Tables, pool: Pool, request: Tensor, computed: Tensor) -> Tensor:
        """The step in flight was executed."""
        ends = torch.minimum(row(pool.scheduled, request), row(tables.lengths, request))
        executed = holds(pool, request) & is_flying(tables, pool, request) & (computed == ends)
        return executed if self.config.disciplined else executed | (computed == row(tables.lengths, request))

    def may_withdraw(self, tables: Tables, pool: Pool, request: Tensor) -> Tensor:
        """While its step is in flight."""
        has = holds(pool, request) & is_flying(tables, pool, request)
        return has if self.config.disciplined else torch.ones_like(has)


def may_roll_back(tables: Tables, pool: Pool, request: Tensor, computed: Tensor) -> Tensor:
    """Between two steps, to fewer tokens than are computed."""
    return holds(pool, request) & ~is_flying(tables, pool, request) & (computed < row(pool.computed, request))


def has_a_table(tables: Tables, pool: Pool, request: Tensor) -> Tensor:
    """Whoever is freed by callers with discipline."""
    return holds(pool, request)


def can_be_found(tables: Tables, pool: Pool, block: Tensor) -> Tensor:
    """Whatever is evicted by number."""
    return row(pool.carried, block) >= 0


def all_hold_blocks(tables: Tables, pool: Pool, request: Tensor, *running: Tensor) -> Tensor:
    """Only those that hold blocks run."""
    runs = torch.stack(running) > 0
    return ((pool.blocks[:-1] > 0) | ~runs).all()


def holds(pool: Pool, request: Tensor) -> Tensor:
    """[] bool: whether the request has a table."""
    return row(pool.blocks, request) > 0


def is_flying(tables: Tables, pool: Pool, request: Tensor) -> Tensor:
    """[] bool: whether a step of the request, which has a table, was scheduled and not executed yet."""
    ends = torch.minimum(row(pool.scheduled, request), row(tables.lengths, request))
    return row(pool.computed, request) < ends


def is_step(config: Config, left: Tensor, tokens: Tensor) -> Tensor:
    """[] bool: whether so many tokens may be scheduled at once where so many are left."""
    sizes = [torch.minimum(left, torch.full_like(left, step)) for step in config.steps] or [left]
    return (left > 0) & (torch.stack(sizes) == tokens).any()


# The calls ----------------------------------------------------------------------------------------------------------


def every_call(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have, each once."""
    requests = range(len(config.lengths))
    yield from (calls.GetComputedBlocks(request, prompt_of(config, request)) for request in requests)
    yield from dict.fromkeys(call for request in requests for call in every_allocation(config, request))
    for request in range(0, len(config.lengths), 2) if config.groups else ():
        yield from every_allocation_of_groups(config, request)
    for request in requests:
        yield from (calls.Commit(request, computed) for computed in range(config.lengths[request] + 1))
        if config.rollbacks:
            yield from (calls.RollBack(request, computed) for computed in range(config.lengths[request]))
        yield calls.FreeRequest(request)
        if config.withdrawals or not config.disciplined:
            yield calls.Withdraw(request)
    if config.evictions:
        yield from map(calls.EvictBlock, range(config.blocks))
    if config.resets:
        yield calls.ResetPrefixCache()
    if config.commons:
        for count in range(1, len(config.lengths) + 1):
            yield from (calls.CommonPrefix(running[0], running) for running in combinations(requests, count))


def every_allocation(config: Config, request: int) -> Iterator[Operation]:
    """As a new request, as a running one, and without discipline."""
    length, prompt, size = config.lengths[request], prompt_of(config, request), config.block_size
    if not config.groups:
        for count in range(most_hits(config, request) + 1):
            for tokens, hits in product(step_sizes(config, prompt - count * size), permutations(blocks(config), count)):
                yield calls.AllocateSlots(request, 0, tokens, hits)
    for computed in range(length):
        for tokens, drafts in product(step_sizes(config, length - computed), range(config.drafts + 1)):
            yield calls.AllocateSlots(request, computed, tokens + drafts, ())
    if not config.disciplined:
        yield calls.AllocateSlots(request, 0, 0, ())
        yield from (calls.AllocateSlots(request, 0, 1, (block,)) for block in blocks(config))


def every_allocation_of_groups(config: Config, request: int) -> Iterator[Operation]:
    """With as many hits in one group as in the other."""
    prompt, size = prompt_of(config, request), config.block_size
    for count in range(most_hits(config, request) + 1):
        left = prompt - count * size
        some = list(permutations(blocks(config), count))
        for external, hits, others in product({0, size} if left > size else {0}, some, some):
            yield calls.AllocateGroups(request, request + 1, external, left - external, hits, others)


def blocks(config: Config) -> range:
    """All blocks."""
    return range(config.blocks)


def most_hits(config: Config, request: int) -> int:
    """How many blocks a look-up can find: never the last token's."""
    return min(max(0, prompt_of(config, request) - 1) // config.block_size, config.blocks)
