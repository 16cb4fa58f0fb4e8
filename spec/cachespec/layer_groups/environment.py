"""Which calls a scope makes in a state.

Callers that are disciplined keep the order of the engine's scheduler: a request without tables is looked up and given
slots; its step is executed before the next one is scheduled, or one step later. If there is a state-space group, a step
that leaves a block ends with a block, as the scheduler aligns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec.kernel import Operation, Outcome, distinct
from cachespec.layer_groups.configuration import STATE, Config, prompt_of
from cachespec.layer_groups.operations import (
    AllocateSlots,
    Commit,
    FreeRequest,
    GetComputedBlocks,
    NewStep,
    ResetPrefixCache,
)
from cachespec.layer_groups.state import Progress, View, scheduled

Lookup = Callable[[GetComputedBlocks], Outcome]
"""What the variant answers to a look-up now."""


def calls(config: Config, view: View, lookup: Lookup) -> Iterable[Operation]:
    """The calls, in a fixed order."""
    progress = dict(view.progress)
    for request in range(len(config.lengths)):
        if request in progress:
            yield from calls_for_running(config, request, progress[request])
            continue
        yield GetComputedBlocks(request)
        values = lookup(GetComputedBlocks(request)).values
        yield from calls_for_new(config, request, values[0] if values else 0)
    if not config.disciplined:
        yield from calls_without_discipline(config)
    if view.this_step:
        yield NewStep()
    if config.resets:
        yield ResetPrefixCache()


def step_sizes(config: Config, start: int, left: int) -> Iterable[int]:
    """The numbers of tokens that may be scheduled behind `start`: each once, ascending, and no more than are left."""
    sizes = tuple(aligned(config, start, min(step, left)) for step in config.steps or (left,)) if left > 0 else ()
    return distinct(tuple(size for size in sizes if size > 0))


def aligned(config: Config, start: int, tokens: int) -> int:
    """As many of these tokens as a state-space layer can take in one step."""
    if STATE not in config.kinds:
        return tokens
    unit, end = config.hash_size, start + tokens
    if start % unit:
        return min(end, (start // unit + 1) * unit) - start
    return (end // unit * unit if end // unit > start // unit else end) - start


def calls_for_new(config: Config, request: int, found: int) -> Iterable[Operation]:
    """Behind what was found, and perhaps behind what is loaded from outside."""
    for external in distinct((0, config.external)):
        start = found + external
        for tokens in step_sizes(config, start, prompt_of(config, request) - start):
            yield AllocateSlots(request, external, tokens)


def calls_for_running(config: Config, request: int, progress: Progress) -> Iterable[Operation]:
    """The step in flight ends, the next one is scheduled, or the request is over."""
    yield FreeRequest(request)
    if progress.ends:
        yield Commit(request)
    if len(progress.ends) <= config.ahead:
        start = scheduled(progress)
        for tokens in step_sizes(config, start, config.lengths[request] - start):
            yield AllocateSlots(request, 0, tokens)


def calls_without_discipline(config: Config) -> Iterable[Operation]:
    """Requests that have no table or have one, nothing to compute, and more than there is."""
    for request in range(len(config.lengths)):
        yield GetComputedBlocks(request)
        yield Commit(request)
        yield FreeRequest(request)
        yield AllocateSlots(request, 0, 0)
        yield AllocateSlots(request, 0, 1)
        yield AllocateSlots(request, 1, 1)
        yield AllocateSlots(request, 0, config.lengths[request] + 1)


def unknown(config: Config, operation: Operation) -> str | None:
    """More tokens than a request has."""
    if isinstance(operation, AllocateSlots) and max(operation.tokens, operation.external) > 2 * max(config.lengths) + 1:
        return f"request {operation.request} has {config.lengths[operation.request]} tokens"
    return None
