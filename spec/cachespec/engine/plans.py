"""What the workers are told: a plan of the scheduler with the slots and items that it means."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec import scheduler
from cachespec.engine.worker import Gather, Step
from cachespec.kv_blocks.state import NO_TABLE
from cachespec.scheduler.state import NO_TRANSFER
from cachespec.scheduler.view import touched
from cachespec.scheduler.work import by_content
from cachespec.scheduler.worker import Chunk, Key, blocks_of


def step_of(config: scheduler.Config, before: scheduler.State, state: scheduler.State, plan: scheduler.Plan) -> Step:
    """The plan as a step, with the tables as they are now: they may have changed when it is executed."""
    return Step(
        drops=tuple((content,) for content in plan.dropped),
        encodes=tuple(_key(config, part.request, index) for part in plan.scheduled for index in part.encode),
        gathers=tuple(needed for part in plan.scheduled for needed in gathers(config, part)),
        loads=tuple(chunk for part in plan.scheduled for chunk in loads(config, before, state, part)),
        chunks=tuple(chunk_of(state, part) for part in plan.scheduled),
    )


def _key(config: scheduler.Config, request: int, index: int) -> Key:
    """Requests that show the same content share its encoder output."""
    return by_content(config, request, index)


def gathers(config: scheduler.Config, part: scheduler.Scheduled) -> Iterable[Gather]:
    """ENC-8: the items of which the part computes a token."""
    return (Gather(part.request, index, _key(config, part.request, index)) for index in touched(config, part))


def chunk_of(state: scheduler.State, part: scheduler.Scheduled) -> Chunk:
    """KV-7: the slots of the part's tokens."""
    return Chunk(part.request, part.start, part.start + part.tokens, blocks_of(state.kv, part.request))


def loads(
    config: scheduler.Config, before: scheduler.State, state: scheduler.State, part: scheduler.Scheduled
) -> Iterable[Chunk]:
    """KV-7: of a request that has just been admitted, what an external store has behind its prefix hit.

    A hit is not loaded again: where the store ends inside a block, its load would spoil the rest of a shared one. What
    was loaded before the admission is not, either.
    """
    stored = min(config.external[part.request], part.start) if config.external else 0
    awaited = before.transfers.get(part.request, NO_TRANSFER).tokens
    found = max(state.kv.holdings.get(part.request, NO_TABLE).cached_tokens, awaited)
    if stored > found and not before.computed.has(part.request):
        yield Chunk(part.request, found, stored, blocks_of(state.kv, part.request))
