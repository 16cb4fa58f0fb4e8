"""Which calls a scope makes in a state.

Callers keep the order of the engine's scheduler: requests are given slots, once each, then the step goes to the worker;
it is executed before the next one is planned, or one step later. A step ends where a state is to be kept: with a block,
or with the last hash block of the prompt, as the scheduler cuts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec.kernel import Operation, Outcome, distinct
from cachespec.partial_hits.configuration import Config, known_of, tail_of
from cachespec.partial_hits.operations import (
    AllocateSlots,
    Dispatch,
    Execute,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
)
from cachespec.partial_hits.state import View

Lookup = Callable[[GetComputedBlocks], Outcome]
"""What the variant answers to a look-up now."""


def calls(config: Config, view: View, lookup: Lookup) -> Iterable[Operation]:
    """The calls, in a fixed order."""
    progress = dict(view.progress)
    planned = {write.request for write in view.writes if write.step == view.dispatched and write.lives == 1}
    plans = view.dispatched <= config.ahead
    for request in range(len(config.chains)):
        if request in progress:
            if config.withdrawals or request not in planned:
                yield FreeRequest(request)
            if plans and request not in planned:
                yield from steps_behind(config, request, progress[request].scheduled, len(config.chains[request]))
            continue
        yield GetComputedBlocks(request)
        values = lookup(GetComputedBlocks(request)).values
        if plans:
            yield from steps_behind(config, request, values[0] if values else 0, known_of(config, request))
    if plans and (planned or any(copy.step == view.dispatched for copy in view.copies)):
        yield Dispatch()
    if view.dispatched > 0:
        yield Execute()
    if config.resets:
        yield ResetPrefixCache()


def steps_behind(config: Config, request: int, start: int, last: int) -> Iterable[Operation]:
    """Slots for each number of tokens that may be scheduled behind `start`, once each, ascending."""
    left = last - start
    sizes = tuple(step_of(config, request, start, min(step, left)) for step in config.steps or (left,)) if left else ()
    for tokens in distinct(sizes):
        yield AllocateSlots(request, tokens)


def step_of(config: Config, request: int, start: int, tokens: int) -> int:
    """As many of these tokens as one step takes: it stops with a block, and where the prompt's last state is kept.

    A request that goes on with its output after a preemption is not stopped at the end of its prompt, if a block ends
    behind that: what it was stopped at when it ran first it may have passed.
    """
    size, end, known = config.block_size, start + tokens, known_of(config, request)
    if end < known and end // size * size > start:
        end = end // size * size
    last_block, tail = (known - 1) // size * size, tail_of(config, request)
    stops = (start // size * size + size if start % size else 0, last_block, tail if last_block < tail else 0)
    return min((stop for stop in stops if start < stop < end), default=end) - start


def unknown(config: Config, operation: Operation) -> str | None:
    """More tokens than a request has."""
    if isinstance(operation, AllocateSlots):
        length = len(config.chains[operation.request])
        if operation.tokens > 2 * length + 1:
            return f"request {operation.request} has {length} tokens"
    return None
