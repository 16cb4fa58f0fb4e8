"""Which calls a scope of groups of layers makes: the guards of the specification's environment, on tensors.

Every guard takes (tables, pool, *operands) of one engine and returns [] bool. `every_call` lists what some state may
call, and the guards say where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from cacheimpl import layer_groups as tensors
from cacheimpl.layer_groups import Config as Tables
from cacheimpl.layer_groups import Pool
from cacheimpl.table import row
from cachespec.kernel import Operation
from cachespec.layer_groups import operations as calls
from cachespec.layer_groups.configuration import STATE, Config, prompt_of
from cachespec.layer_groups.environment import calls_without_discipline, step_sizes

Guard = Callable[..., Tensor]


def guards(config: Config) -> Mapping[type[Operation], Guard]:
    """The guard of each operation that is not always enabled."""
    switched: dict[type[Operation], Guard] = {
        calls.NewStep: computes_a_state,
        calls.AllocateSlots: Asking(config).may_ask,
    }
    if config.disciplined:
        switched[calls.GetComputedBlocks] = has_no_tables
        switched[calls.Commit] = has_a_step
        switched[calls.FreeRequest] = has_tables
    return switched


def computes_a_state(tables: Tables, pool: Pool) -> Tensor:
    """The current step computes a state."""
    return pool.this_step[:-1].any()


def has_tables(tables: Tables, pool: Pool, request: Tensor) -> Tensor:
    """Slots were given to the request, and it was not freed since."""
    return row(pool.scheduled, request) > 0


def has_no_tables(tables: Tables, pool: Pool, request: Tensor) -> Tensor:
    """A new request."""
    return ~has_tables(tables, pool, request)


def has_a_step(tables: Tables, pool: Pool, request: Tensor) -> Tensor:
    """A step of the request is in flight."""
    return row(pool.flying, request) > 0


class Asking:
    """For how many tokens the callers of one configuration ask."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def may_ask(self, tables: Tables, pool: Pool, request: Tensor, external: Tensor, tokens: Tensor) -> Tensor:
        """As new behind what is found and loaded; as running, where it is; or without discipline."""
        runs, start = has_tables(tables, pool, request), row(pool.scheduled, request)
        behind = tensors.look_up(tables, pool, request).tokens + external
        loads = (external == 0) | (external == self.config.external)
        as_new = loads & self.is_step(behind, row(tables.prompts, request) - behind, tokens)
        few = row(pool.flying, request) <= self.config.ahead
        goes_on = (external == 0) & few & self.is_step(start, row(tables.lengths, request) - start, tokens)
        asked = torch.where(runs, goes_on, as_new)
        if not self.config.disciplined:
            unlike = (external == 0) & ((tokens == 0) | (tokens == 1) | (tokens == row(tables.lengths, request) + 1))
            asked = asked | unlike | ((external == 1) & (tokens == 1))
        return asked

    def is_step(self, start: Tensor, left: Tensor, tokens: Tensor) -> Tensor:
        """[] bool: whether so many tokens may be scheduled at once, if so many are left behind `start`."""
        sizes = [torch.minimum(left, torch.full_like(left, step)) for step in self.config.steps] or [left]
        return (left > 0) & (tokens > 0) & (self.aligned(start, torch.stack(sizes)) == tokens).any()

    def aligned(self, start: Tensor, tokens: Tensor) -> Tensor:
        """[sizes] int64: as many of these tokens as a state-space layer can take in one step."""
        if STATE not in self.config.kinds:
            return tokens
        unit, end = self.config.hash_size, start + tokens
        whole = end // unit * unit
        starting = torch.where(whole > start, whole, end)
        within = torch.minimum(end, (start // unit + 1) * unit)
        return torch.where(start % unit == 0, starting, within) - start


# The calls ----------------------------------------------------------------------------------------------------------


def every_call(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have, each once."""
    yield from dict.fromkeys(_calls(config))


def _calls(config: Config) -> Iterator[Operation]:
    yield calls.NewStep()
    for request, length in enumerate(config.lengths):
        yield calls.GetComputedBlocks(request)
        for start in range(length):
            for tokens in step_sizes(config, start, length - start):
                yield calls.AllocateSlots(request, 0, tokens)
        for start in range(prompt_of(config, request)):
            for tokens in step_sizes(config, start, prompt_of(config, request) - start):
                yield calls.AllocateSlots(request, 0, tokens)
                yield calls.AllocateSlots(request, config.external, tokens)
        yield calls.Commit(request)
        yield calls.FreeRequest(request)
    if not config.disciplined:
        yield from calls_without_discipline(config)
    if config.resets:
        yield calls.ResetPrefixCache()
