"""The calls that a scheduler makes to its two caches, and the meaning of their answers."""

from __future__ import annotations

from cachespec.encoder_cache import (
    Abandon,
    Allocate,
    Cache,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    Report,
)
from cachespec.encoder_cache import FreeRequest as FreeInputs
from cachespec.kernel import Code
from cachespec.kv_blocks import AllocateSlots, Commit, GetComputedBlocks, Pool
from cachespec.kv_blocks import Config as Blocks
from cachespec.kv_blocks import FreeRequest as FreeBlocks
from cachespec.scheduler.configuration import Config, ItemIndex, Request, encoder_config, kv_config
from cachespec.scheduler.round_state import Asked, Slots
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import State


def look_up(rules: Table, config: Config, encoder: Cache, request: Request, index: ItemIndex) -> Asked:
    """Is the item there? If so the request holds it from now on."""
    after, outcome = rules.encoder.step(encoder_config(config), encoder, CheckAndUpdate(request, index))
    return Asked(after, outcome.code is Code.HIT)


def ask_for_room(
    rules: Table, config: Config, encoder: Cache, request: Request, index: ItemIndex, embeds: int, granted: int
) -> Asked:
    """Is there room for it, beside what was granted before in the same pass?"""
    asked = CanAllocate(request, index, embeds, granted)
    after, outcome = rules.encoder.step(encoder_config(config), encoder, asked)
    return Asked(after, outcome.code is Code.DONE)


def take(
    rules: Table,
    config: Config,
    encoder: Cache,
    request: Request,
    encode: tuple[ItemIndex, ...],
    relies: tuple[ItemIndex, ...],
) -> Cache:
    """What was granted is allocated. An item that shows the same as one of those is held as well."""
    parts = encoder_config(config)
    for index in encode:
        encoder, _ = rules.encoder.step(parts, encoder, Allocate(request, index))
    for index in relies:
        encoder, _ = rules.encoder.step(parts, encoder, CheckAndUpdate(request, index))
    return encoder


def give_up(rules: Table, config: Config, encoder: Cache, request: Request, cause: int) -> Cache:
    """The attempt to schedule the request is over."""
    after: Cache = rules.encoder.step(encoder_config(config), encoder, Abandon(request, cause))[0]
    return after


def release(rules: Table, config: Config, encoder: Cache, request: Request, index: ItemIndex) -> Cache:
    """The request needs the item no longer."""
    after: Cache = rules.encoder.step(encoder_config(config), encoder, FreeInput(request, index))[0]
    return after


def reported(rules: Table, config: Config, encoder: Cache) -> tuple[Cache, tuple[int, ...]]:
    """What the workers are to drop."""
    after, outcome = rules.encoder.step(encoder_config(config), encoder, Report())
    return after, outcome.values


def cached_prefix(rules: Table, config: Config, kv: Pool, request: Request, tokens: int) -> tuple[int, ...]:
    """The blocks of the longest prefix of the request's tokens that is there; none without prefix caching."""
    if config.prefix_caching == 0:
        return ()
    outcome = rules.kv.step(kv_config(config), kv, GetComputedBlocks(request, tokens))[1]
    return outcome.values


def slots(
    rules: Table, config: Blocks, kv: Pool, request: Request, computed: int, tokens: int, hits: tuple[int, ...]
) -> Slots:
    """Asks for slots for `tokens` more tokens."""
    asked = AllocateSlots(request, computed, tokens, hits)
    after, outcome = rules.kv.step(config, kv, asked)
    return Slots(after, outcome.code is Code.DONE)


def written(rules: Table, config: Config, kv: Pool, request: Request, computed: int) -> Pool:
    """The KV of the tokens before `computed` is there."""
    return rules.kv.step(kv_config(config), kv, Commit(request, computed))[0]


def without_blocks(rules: Table, config: Config, state: State, request: Request) -> State:
    """Nothing of the request is in a KV block any more."""
    kv, _ = rules.kv.step(kv_config(config), state.kv, FreeBlocks(request))
    return state._replace(kv=kv)


def without_items(rules: Table, config: Config, state: State, request: Request) -> State:
    """The request holds no item any more."""
    encoder, _ = rules.encoder.step(encoder_config(config), state.encoder, FreeInputs(request))
    return state._replace(encoder=encoder)
