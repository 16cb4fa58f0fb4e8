"""Which calls a scope makes in a state.

Where `disciplined` is 0 every call is made at any time, with every kind of `pending`. Where it is 1 the callers keep
the order of the engine's own scheduler: an input is checked before room is asked for; one request is admitted at a
time, and each of its contents is asked for once (several times, where `repeats` is 1); only what was granted is
allocated; only what is held is released; a pass ends when nothing is granted and not yet allocated.
"""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.encoder_cache.configuration import Config, content_of, positions, size_of
from cachespec.encoder_cache.operations import (
    BLOCKS,
    ENCODER,
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.state import View
from cachespec.kernel import Operation, distinct


def calls(config: Config, view: View) -> Iterable[Operation]:
    """The calls, in a fixed order."""
    if config.halting and out_of_range(config, view):
        return
    for request in range(len(config.requests)):
        for position in positions(config, request):
            yield from calls_for_input(config, view, request, position)
        yield FreeRequest(request)
        yield CachedInputs(request)
        if may_abandon(config, view, request):
            yield Abandon(request, ENCODER)
            yield Abandon(request, BLOCKS)
    if not (config.disciplined and view.promised):
        yield Report()
    if config.resets:
        yield Reset()


def out_of_range(config: Config, view: View) -> bool:
    """A count is negative or greater than the capacity."""
    counts = (view.free, view.free if view.freeable is None else view.freeable)
    return min(counts) < 0 or max(counts) > config.capacity


def calls_for_input(config: Config, view: View, request: int, position: int) -> Iterable[Operation]:
    """The calls about one input of one request."""
    disciplined = config.disciplined == 1
    mine = (request, position)
    others_turn = bool(view.promised) and view.promised[0][0] != request
    granted = set() if config.repeats else promised_contents(config, view)
    content = content_of(config, request, position)
    if not disciplined or (not others_turn and content not in granted):
        yield CheckAndUpdate(request, position)
    needless = others_turn or content in granted or is_resident(view, request, position, content)
    if not (disciplined and needless) and not report_is_full(config, view):
        yield from room_asked_for(config, view, request, position)
    if not disciplined or mine in view.promised:
        yield Allocate(request, position)
    if not disciplined or (mine in (*view.held, *view.released) and not view.promised):
        yield FreeInput(request, position)


def report_is_full(config: Config, view: View) -> bool:
    """As many evictions wait for their report as the scope allows."""
    return 0 < config.unreported <= len(view.freed)


def room_asked_for(config: Config, view: View, request: int, position: int) -> Iterable[Operation]:
    """With each compute budget; a caller without discipline may also forget what it was granted."""
    budgets = config.budgets or (size_of(config, request, position),)
    pendings = (view.promised_embeds,) if config.disciplined else (view.promised_embeds, 0)
    for budget in distinct(budgets):
        for pending in distinct(pendings):
            yield CanAllocate(request, position, budget, pending)


def promised_contents(config: Config, view: View) -> set[int]:
    """What was granted in this pass and is not allocated yet, by content."""
    return {content_of(config, request, position) for request, position in view.promised}


def is_resident(view: View, request: int, position: int, content: int) -> bool:
    """Whether the input's entry is there, by content or, before inputs were shared, by request and input."""
    return any(key in ((content,), (request, position)) for key, _ in view.entries)


def may_abandon(config: Config, view: View, request: int) -> bool:
    """An attempt has begun in this pass; with discipline, of a request that waits and holds nothing else yet."""
    begun = any(pair[0] == request for pair in (*view.attempted, *view.promised))
    running = any(pair[0] == request and pair not in view.attempted for pair in view.held)
    return config.failures == 1 and begun and not (config.disciplined and running)


def unknown(config: Config, operation: Operation) -> str | None:
    """An input that its request does not have, or a cause that there is not."""
    if isinstance(operation, CheckAndUpdate | CanAllocate | Allocate | FreeInput):
        if operation.input not in positions(config, operation.request):
            return f"request {operation.request} has no input {operation.input}"
    elif isinstance(operation, Abandon) and operation.cause not in (ENCODER, BLOCKS):
        return f"there is no cause {operation.cause}: there are {ENCODER} and {BLOCKS}"
    return None
