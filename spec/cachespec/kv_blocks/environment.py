"""Which calls a scope makes in a state.

Callers that are disciplined keep the order of the engine's own scheduler: a request without a table is looked up and
given slots with just what was found; one with a table goes on where it is; its step is executed, or withdrawn, before
the next one is scheduled. Others allocate with hits that were never found, for no tokens, and for no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from cachespec.kernel import Operation, Outcome, distinct
from cachespec.kv_blocks.configuration import Config, prompt_of
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.state import Holding, View

Hits = tuple[int, ...]
Lookup = Callable[[GetComputedBlocks], Outcome]
"""What the variant answers to a look-up now."""


def calls(config: Config, view: View, lookup: Lookup) -> Iterable[Operation]:
    """The calls, in a fixed order."""
    holdings = dict(view.holdings)
    for request in range(len(config.lengths)):
        question = GetComputedBlocks(request, prompt_of(config, request))
        yield question
        cached = lookup(question).values
        if request not in holdings:
            yield from calls_for_new(config, request, cached) if not config.groups else ()
            continue
        yield from calls_for_running(config, request, holdings[request])
        if config.repeats:
            yield from calls_for_new(config, request, cached)
    if config.groups:
        yield from calls_for_groups(config, holdings, lookup)
    if not config.disciplined:
        yield from calls_without_discipline(config)
    yield from calls_for_all(config, view)


def step_sizes(config: Config, left: int) -> Iterable[int]:
    """So many tokens may be scheduled at once where so many are left: each once, ascending."""
    return distinct(tuple(min(step, left) for step in config.steps or (left,))) if left > 0 else ()


def calls_for_new(config: Config, request: int, cached: Hits) -> Iterable[Operation]:
    """With all that was found; where that is every token, the last block is computed again."""
    size, prompt = config.block_size, prompt_of(config, request)
    hits = cached if len(cached) * size < prompt else cached[:-1]
    for tokens in step_sizes(config, prompt - len(hits) * size):
        yield AllocateSlots(request, 0, tokens, hits)


def calls_for_running(config: Config, request: int, holding: Holding) -> Iterable[Operation]:
    """The step in flight ends in one way or another, or the next one is scheduled."""
    length = config.lengths[request]
    yield FreeRequest(request)
    if holding.computed < min(holding.scheduled, length):
        yield Commit(request, min(holding.scheduled, length))
        if config.withdrawals:
            yield Withdraw(request)
        return
    if config.rollbacks:
        yield from (RollBack(request, computed) for computed in range(holding.computed))
    for tokens in step_sizes(config, length - holding.computed):
        for drafts in range(config.drafts + 1):
            yield AllocateSlots(request, holding.computed, tokens + drafts, ())


def calls_for_groups(config: Config, holdings: dict[int, Holding], lookup: Lookup) -> Iterable[Operation]:
    """A request without tables is given slots in both groups, behind what both have found.

    The next block may come from outside: its KV is loaded, and not computed.
    """
    for request in range(0, len(config.lengths), 2):
        if request in holdings or request + 1 in holdings:
            continue
        cached = [lookup(GetComputedBlocks(table, prompt_of(config, table))).values for table in (request, request + 1)]
        common = min(len(hits) for hits in cached)
        left = prompt_of(config, request) - common * config.block_size
        for external in {0, config.block_size} if left > config.block_size else {0}:
            hits, other_hits = (each[:common] for each in cached)
            yield AllocateGroups(request, request + 1, external, left - external, hits, other_hits)


def calls_without_discipline(config: Config) -> Iterable[Operation]:
    """Requests that have no table, hits that were never found, and nothing to compute."""
    for request in range(len(config.lengths)):
        yield FreeRequest(request)
        yield Withdraw(request)
        yield AllocateSlots(request, 0, 0, ())
        yield Commit(request, config.lengths[request])
        for block in range(config.blocks):
            yield AllocateSlots(request, 0, 1, (block,))


def calls_for_all(config: Config, view: View) -> Iterable[Operation]:
    """What is not about one request."""
    if config.evictions:
        yield from (EvictBlock(block) for block, _ in view.registered)
    if config.resets:
        yield ResetPrefixCache()
    if config.commons:
        yield from common_prefixes(tuple(request for request, _ in view.holdings))


def common_prefixes(holders: tuple[int, ...]) -> Iterable[Operation]:
    """Any of those that hold blocks may be running."""
    for count in range(1, len(holders) + 1):
        for running in combinations(holders, count):
            yield CommonPrefix(running[0], running)


def with_append_slots(operations: Iterable[Operation], view: View) -> Iterable[Operation]:
    """The same calls of a scheduler that has a call of its own for running requests."""
    running = {request for request, _ in view.holdings}
    for op in operations:
        if isinstance(op, AllocateSlots) and op.request in running and op.computed > 0:
            yield AppendSlots(op.request, op.computed, op.tokens)
        else:
            yield op


def blocks_named(operation: Operation) -> Hits:
    """The hits that a call brings along."""
    if isinstance(operation, AllocateGroups):
        return (*operation.hits, *operation.other_hits)
    return operation.hits if isinstance(operation, AllocateSlots) else ()


def unknown(config: Config, operation: Operation) -> str | None:
    """Blocks and requests that there are not, and more tokens than a request has."""
    requests = len(config.lengths)
    if any(block >= config.blocks for block in blocks_named(operation)):
        return f"there are {config.blocks} blocks"
    if isinstance(operation, CommonPrefix) and any(request >= requests for request in operation.running):
        return f"there are {requests} requests"
    if isinstance(operation, GetComputedBlocks) and operation.tokens > config.lengths[operation.request]:
        return f"request {operation.request} has {config.lengths[operation.request]} tokens"
    if isinstance(operation, Commit | RollBack) and operation.computed > config.lengths[operation.request]:
        return f"request {operation.request} has {config.lengths[operation.request]} tokens"
    return None
