"""What each call does, normatively.

The functions without a `config` are the arithmetic of slots and references; they take contents and sizes, and no scope.
Eviction happens in `CanAllocate`, as released, and not in `Allocate`: the answer "yes" counts on entries that nobody
holds, and a check of a later input of the same pass may pin one of them. Only if their slots are free already does the
answer stay true until the allocation (ENC-9, C-ENC-3). `Allocate` never evicts and never trusts: it asks again whether
the content is absent and the room there, and refuses otherwise (ENC-1, ENC-2, C-ENC-2).
"""

from __future__ import annotations

from cachespec.encoder_cache.configuration import (
    NOTHING,
    Config,
    Content,
    Input,
    Request,
    content_of,
    positions,
    size_of,
)
from cachespec.encoder_cache.operations import (
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
from cachespec.encoder_cache.passes import end_pass, note, promise, redeem, withdraw
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import ABSENT, DONE, HIT, MISS, PRESENT, REFUSED, Code, Outcome, Transitions

Result = tuple[Cache, Outcome]


# Slots and references -----------------------------------------------------------------------------------------------


def hold(cache: Cache, request: Request, position: Input, content: Content) -> Cache:
    """One input more holds the resident content. ENC-3: what is held is not idle, and its slots are not freeable."""
    count = cache.references.get(content, 0)
    awake = cache if count > 0 else wake(cache, content)
    return awake._replace(
        references=awake.references.set(content, count + 1),
        held=awake.held.set((request, position), 1),
    )


def wake(cache: Cache, content: Content) -> Cache:
    """The entry is idle no longer."""
    return cache._replace(
        idle=cache.idle.remove(content),
        freeable=cache.freeable - cache.sizes.get(content, 0),
    )


def place(cache: Cache, request: Request, position: Input, content: Content, size: int) -> Cache:
    """The entry is created, held by one input. ENC-7: an eviction not reported yet no longer counts (C-ENC-8)."""
    return cache._replace(
        free=cache.free - size,
        freeable=cache.freeable - size,
        sizes=cache.sizes.set(content, size),
        references=cache.references.set(content, 1),
        held=cache.held.set((request, position), 1),
        freed=cache.freed.remove(content),
    )


def release(cache: Cache, request: Request, position: Input, content: Content) -> Cache:
    """ENC-10: an input that holds nothing gives nothing back (C-ENC-1).

    ENC-5: the entry stays pinned until the last input lets go of it, be it of the same request (C-ENC-7).
    """
    if not cache.held.has((request, position)):
        return cache
    count = cache.references.get(content, 0) - 1
    let_go = cache._replace(
        held=cache.held.remove((request, position)),
        attempted=cache.attempted.remove((request, position)),
    )
    if count > 0:
        return let_go._replace(references=cache.references.set(content, count))
    return rest(let_go._replace(references=cache.references.remove(content)), content)


def rest(cache: Cache, content: Content) -> Cache:
    """ENC-12: the entry becomes the last that will be evicted. ENC-4: it gives back what it took."""
    size = cache.sizes.get(content, 0)
    return cache._replace(idle=cache.idle.push(content, size), freeable=cache.freeable + size)


def lacks_room(cache: Cache, needed: int) -> bool:
    """The test of the eviction loop."""
    return needed > cache.free


def evict_oldest(cache: Cache) -> Cache:
    """The body of the eviction loop: `idle` becomes shorter. ENC-12: idle for the longest time. ENC-7: listed."""
    content = cache.idle.oldest(NOTHING)
    size = cache.sizes.get(content, 0)
    return cache._replace(
        free=cache.free + size,
        sizes=cache.sizes.remove(content),
        idle=cache.idle.remove(content),
        freed=cache.freed.push(content, size),
    )


def make_room(cache: Cache, needed: int) -> Cache:
    """Evict until so many slots are free; the caller has made sure that so many are freeable."""
    while lacks_room(cache, needed):
        cache = evict_oldest(cache)
    return cache


# Calls --------------------------------------------------------------------------------------------------------------


def check_and_update(config: Config, cache: Cache, op: CheckAndUpdate) -> Result:
    """ENC-4: an input that claims another size than the entry has is refused, not counted among its referents."""
    content = content_of(config, op.request, op.input)
    if not cache.sizes.has(content):
        return cache, MISS
    if cache.sizes.get(content, 0) != size_of(config, op.request, op.input):
        return cache, REFUSED
    if cache.held.has((op.request, op.input)):
        return cache, HIT
    return note(config, hold(cache, op.request, op.input, content), op.request, op.input), HIT


def can_allocate(config: Config, cache: Cache, op: CanAllocate) -> Result:
    """ENC-9: "yes" makes the room at once, beside what was granted earlier; "no" changes nothing."""
    size = size_of(config, op.request, op.input)
    if size > op.budget or size + op.pending > cache.freeable:
        return cache, REFUSED
    return promise(config, make_room(cache, size + op.pending), op), DONE


def allocate(config: Config, cache: Cache, op: Allocate) -> Result:
    """ENC-1, ENC-2: a content is stored once, and only where there is room (C-ENC-2, C-ENC-6)."""
    content, size = content_of(config, op.request, op.input), size_of(config, op.request, op.input)
    if cache.sizes.has(content):
        return cache, PRESENT
    if size > cache.free:
        return cache, REFUSED
    placed = place(cache, op.request, op.input, content, size)
    return redeem(config, placed, op.request, op.input), DONE


def free_input(config: Config, cache: Cache, op: FreeInput) -> Result:
    """ENC-10: idempotent."""
    if not cache.held.has((op.request, op.input)):
        return cache, ABSENT
    return release(cache, op.request, op.input, content_of(config, op.request, op.input)), DONE


def free_request(config: Config, cache: Cache, op: FreeRequest) -> Result:
    """ENC-5: a request that is gone holds nothing. Its inputs are released from the first to the last."""
    for position in positions(config, op.request):
        cache = release(cache, op.request, position, content_of(config, op.request, position))
    return withdraw(config, cache, op.request), DONE


def cached_inputs(config: Config, cache: Cache, op: CachedInputs) -> Result:
    """What the request holds, and nothing that merely happens to be resident."""
    listed: tuple[Input, ...] = ()
    for position in positions(config, op.request):
        if cache.held.has((op.request, position)):
            listed = (*listed, position)
    return cache, Outcome(Code.DONE, listed)


def abandon(config: Config, cache: Cache, op: Abandon) -> Result:
    """ENC-11: for any cause, exactly the inputs pinned by this attempt are released (C-ENC-10)."""
    for position in positions(config, op.request):
        if cache.attempted.has((op.request, position)):
            cache = release(cache, op.request, position, content_of(config, op.request, position))
    return withdraw(config, cache, op.request), DONE


def report(config: Config, cache: Cache, op: Report) -> Result:
    """ENC-7: each eviction that still stands, once, in the order of eviction."""
    contents: tuple[Content, ...] = ()
    while has_unreported(cache):
        contents = (*contents, cache.freed.oldest(NOTHING))
        cache = strike_oldest(cache)
    return end_pass(cache), Outcome(Code.DONE, contents)


def has_unreported(cache: Cache) -> bool:
    """The test of the reporting loop."""
    return cache.freed.length > 0


def strike_oldest(cache: Cache) -> Cache:
    """The body of the reporting loop: `freed` becomes shorter."""
    return cache._replace(freed=cache.freed.remove(cache.freed.oldest(NOTHING)))


def reset(config: Config, cache: Cache, op: Reset) -> Result:
    """Every request is released, every entry evicted, and nothing reported: the workers clear theirs as well."""
    for request in range(len(config.requests)):
        for position in positions(config, request):
            cache = release(cache, request, position, content_of(config, request, position))
    while has_idle(cache):
        cache = evict_oldest(cache)
    while has_unreported(cache):
        cache = strike_oldest(cache)
    return end_pass(cache), DONE


def has_idle(cache: Cache) -> bool:
    """The test of the clearing loop."""
    return cache.idle.length > 0


TRANSITIONS: Transitions[Config, Cache] = {
    CheckAndUpdate: check_and_update,
    CanAllocate: can_allocate,
    Allocate: allocate,
    FreeInput: free_input,
    FreeRequest: free_request,
    CachedInputs: cached_inputs,
    Abandon: abandon,
    Report: report,
    Reset: reset,
}
