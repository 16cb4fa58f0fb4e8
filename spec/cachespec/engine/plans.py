"""What the workers are told: a plan of the scheduler with the blocks and prefixes that it means."""

from __future__ import annotations

from cachespec import scheduler
from cachespec.engine.worker import UNFILLED, Block, Prefix, Step
from cachespec.scheduler.configuration import CONTENT, chains, items_of

Pairs = tuple[tuple[Block, Prefix], ...]


def step_of(config: scheduler.Config, state: scheduler.State, plan: scheduler.Plan) -> Step:
    """The plan as a step, with the tables as they are now: they may have changed when it is executed."""
    return Step(
        drops=plan.dropped,
        encodes=tuple(_shown(config, part.request, index) for part in plan.scheduled for index in part.encode),
        gathers=tuple(_shown(config, part.request, index) for part in plan.scheduled for index in part.relies),
        reads=tuple(pair for part in plan.scheduled for pair in reads(config, state, part)),
        writes=tuple(pair for part in plan.scheduled for pair in writes(config, state, part)),
    )


def _shown(config: scheduler.Config, request: int, index: int) -> int:
    """The content of an item."""
    return items_of(config, request)[index][CONTENT]


def reads(config: scheduler.Config, state: scheduler.State, part: scheduler.Scheduled) -> Pairs:
    """The full blocks before the chunk, and what is in them for all that the scheduler knows."""
    return tuple(
        (block_of(state, part.request, position), chains(config)[part.request][position])
        for position in range(part.start // config.block_size)
    )


def writes(config: scheduler.Config, state: scheduler.State, part: scheduler.Scheduled) -> Pairs:
    """The blocks that the chunk reaches, and what each of them holds afterwards if it is full then."""
    end = part.start + part.tokens
    return tuple(
        (block_of(state, part.request, position), _filled(config, part.request, position, end))
        for position in range(part.start // config.block_size, (end + config.block_size - 1) // config.block_size)
    )


def _filled(config: scheduler.Config, request: int, position: int, end: int) -> Prefix:
    """The content of a block that is full when the tokens before `end` are there."""
    return chains(config)[request][position] if (position + 1) * config.block_size <= end else UNFILLED


def block_of(state: scheduler.State, request: int, position: int) -> Block:
    """The block at this position of the request's table."""
    return state.kv.tables.get((request, position), UNFILLED)
