"""The released managers that share inputs by content, with what they leave behind when an assertion fails.

- encoder-2025-10 (E1), released with 0.11.0;
- encoder-2026-05 (E1b), released with 0.20.2: the same manager with a reset, and a scheduler that frees a request
  for which there are no KV blocks;
- encoder-2026-11 (E2), released with 0.33.0: the size of an entry is stored, a repeated item keeps its reference, and
  a report leaves out what is resident again.
"""

from __future__ import annotations

from typing import TypeVar

from cachespec.encoder_cache.configuration import NOTHING, Config, Content, Input, Request, content_of, positions
from cachespec.encoder_cache.configuration import size_of as claim_of
from cachespec.encoder_cache.environment import calls
from cachespec.encoder_cache.era_states import (
    SharedCache,
    initial_shared,
    view_shared,
    view_shared_with_sizes,
)
from cachespec.encoder_cache.operations import (
    BLOCKS,
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
from cachespec.encoder_cache.state import View
from cachespec.kernel import DONE, FAILED, HIT, MISS, REFUSED, UNSUPPORTED, Code, Map, Outcome, Queue, Variant

Result = tuple[SharedCache, Outcome]
Key = TypeVar("Key")


# References ---------------------------------------------------------------------------------------------------------


def refer(cache: SharedCache, content: Content, request: Request) -> SharedCache:
    """`cached[hash].add(request)`."""
    if cache.referring.has((content, request)):
        return cache
    return cache._replace(
        cached=cache.cached.set(content, cache.cached.get(content, 0) + 1),
        referring=cache.referring.set((content, request), 1),
    )


def unrefer(cache: SharedCache, content: Content, request: Request) -> SharedCache:
    """`cached[hash].discard(request)`."""
    if not cache.referring.has((content, request)):
        return cache
    return cache._replace(
        cached=cache.cached.set(content, cache.cached.get(content, 0) - 1),
        referring=cache.referring.remove((content, request)),
    )


def took(cache: SharedCache, request: Request, position: Input) -> SharedCache:
    """The caller holds the input."""
    held = cache.held.set((request, position), 1)
    return cache._replace(held=held, dangling=cache.dangling.remove((request, position)))


def let_go(cache: SharedCache, request: Request, position: Input) -> SharedCache:
    """The caller holds the input no longer."""
    return cache._replace(
        held=cache.held.remove((request, position)),
        dangling=cache.dangling.remove((request, position)),
        attempted=cache.attempted.remove((request, position)),
    )


def taken_over(cache: SharedCache, request: Request, by: Request) -> SharedCache:
    """What one request holds is held by the other, which held nothing: the next turn of its session."""
    referring, held, dangling = cache.referring, cache.held, cache.dangling
    for (content, holder), _ in tuple(cache.referring.items()):
        if holder == request:
            referring = referring.remove((content, request)).set((content, by), 1)
    for (holder, position), _ in tuple(cache.held.items()):
        if holder == request:
            held = held.remove((request, position)).set((by, position), 1)
    for (holder, position), _ in tuple(cache.dangling.items()):
        if holder == request:
            dangling = dangling.remove((request, position)).set((by, position), 1)
    return cache._replace(referring=referring, held=held, dangling=dangling)


def rest(cache: SharedCache, content: Content, size: int) -> SharedCache:
    """`freeable[hash] = size`: an entry that is in the order already keeps its place."""
    return cache._replace(
        order=cache.order if cache.order.has(content) else cache.order.push(content, 1),
        given_back=cache.given_back.set(content, size),
        freeable=cache.freeable + size,
    )


def evict_oldest(config: Config, cache: SharedCache) -> SharedCache:
    """`freeable.popitem(last=False)`: the entry is removed, even if a request holds it."""
    content = cache.order.oldest(NOTHING)
    for request in range(len(config.requests)) if cache.cached.get(content, 0) > 0 else ():
        cache = unrefer(cache, content, request)
    return cache._replace(
        free=cache.free + cache.given_back.get(content, 0),
        cached=cache.cached.remove(content),
        order=cache.order.remove(content),
        given_back=cache.given_back.remove(content),
        sizes=cache.sizes.remove(content),
        freed=(*cache.freed, content),
    )


# Calls of E1 --------------------------------------------------------------------------------------------------------


def check_and_update(config: Config, cache: SharedCache, op: CheckAndUpdate) -> Result:
    """The size that the input claims is not looked at. What an assertion left behind is found, and fails."""
    content = content_of(config, op.request, op.input)
    if not cache.cached.has(content):
        return cache, MISS
    if cache.cached.get(content, 0) == 0:
        if not cache.order.has(content):
            return cache, FAILED
        cache = cache._replace(
            freeable=cache.freeable - cache.given_back.get(content, 0),
            order=cache.order.remove(content),
            given_back=cache.given_back.remove(content),
        )
    known = cache.held.has((op.request, op.input)) and not cache.dangling.has((op.request, op.input))
    held = took(refer(cache, content, op.request), op.request, op.input)
    return held if known else note(config, held, op.request, op.input), HIT


def can_allocate(config: Config, cache: SharedCache, op: CanAllocate) -> Result:
    """An order that ends too soon fails in the middle of the loop; what was evicted until then is gone."""
    size = claim_of(config, op.request, op.input)
    needed = size + op.pending
    if size > op.budget or (needed > cache.free and needed > cache.freeable):
        return cache, REFUSED
    while needed > cache.free and cache.order.length > 0:
        cache = evict_oldest(config, cache)
    if needed > cache.free:
        return cache, FAILED
    return promise(config, cache, op), DONE


def charge(config: Config, cache: SharedCache, op: Allocate) -> Result:
    """The end of `allocate`: two assertions, then the reference and both counts."""
    content, size = content_of(config, op.request, op.input), claim_of(config, op.request, op.input)
    if size > cache.free or size > cache.freeable:
        return cache, FAILED
    referred = took(refer(cache, content, op.request), op.request, op.input)
    charged = referred._replace(
        free=cache.free - size,
        freeable=cache.freeable - size,
        sizes=cache.sizes if cache.sizes.has(content) else cache.sizes.set(content, size),
    )
    return redeem(config, charged, op.request, op.input), DONE


def enter(cache: SharedCache, content: Content) -> SharedCache:
    """`cached[hash] = set()` where it is absent: this comes before the assertions."""
    return cache if cache.cached.has(content) else cache._replace(cached=cache.cached.set(content, 0))


def allocate(config: Config, cache: SharedCache, op: Allocate) -> Result:
    """C-ENC-2: a resident content is charged again. After a failed assertion a new one stays as an empty entry."""
    return charge(config, enter(cache, content_of(config, op.request, op.input)), op)


def free_input(config: Config, cache: SharedCache, op: FreeInput) -> Result:
    """C-ENC-7: the reference goes with the first input of the content. The entry rests with the releaser's claim."""
    content = content_of(config, op.request, op.input)
    referred = cache.cached.get(content, 0) > 0
    cache = unrefer(let_go(cache, op.request, op.input), content, op.request)
    if referred and cache.cached.get(content, 0) == 0:
        cache = rest(cache, content, claim_of(config, op.request, op.input))
    return cache, DONE


def free_request(config: Config, cache: SharedCache, op: FreeRequest) -> Result:
    """Each input whose content is resident is released, from the first to the last."""
    for position in positions(config, op.request):
        if cache.cached.has(content_of(config, op.request, position)):
            cache, _ = free_input(config, cache, FreeInput(op.request, position))
        cache = let_go(cache, op.request, position)
    return withdraw(config, cache, op.request), DONE


def cached_inputs(config: Config, cache: SharedCache, op: CachedInputs) -> Result:
    """Every input whose content is resident, held or not."""
    listed = tuple(
        position
        for position in positions(config, op.request)
        if cache.cached.has(content_of(config, op.request, position))
    )
    return cache, Outcome(Code.DONE, listed)


def leave_pinned(config: Config, cache: SharedCache, op: Abandon) -> Result:
    """C-ENC-10: no call is made, and what the attempt has pinned stays pinned."""
    for position in positions(config, op.request):
        if cache.attempted.has((op.request, position)):
            cache = cache._replace(dangling=cache.dangling.set((op.request, position), 1))
    return withdraw(config, cache, op.request), DONE


def report(config: Config, cache: SharedCache, op: Report) -> Result:
    """C-ENC-8: the whole list, also of what is resident again, and more than once."""
    return end_pass(cache._replace(freed=())), Outcome(Code.DONE, cache.freed)


def no_reset(config: Config, cache: SharedCache, op: Reset) -> Result:
    """There was none."""
    return cache, UNSUPPORTED


SHARED: Variant[Config, SharedCache, View] = Variant(
    tag="E1",
    title="encoder-2025-10",
    state=SharedCache,
    initial=initial_shared,
    transitions={
        CheckAndUpdate: check_and_update,
        CanAllocate: can_allocate,
        Allocate: allocate,
        FreeInput: free_input,
        FreeRequest: free_request,
        CachedInputs: cached_inputs,
        Abandon: leave_pinned,
        Report: report,
        Reset: no_reset,
    },
    view=view_shared,
    alphabet=lambda config, cache: calls(config, view_shared(config, cache)),
    differences={
        CheckAndUpdate: "ignores the claimed size; fails on an entry left behind by a failed assertion",
        CanAllocate: "fails if the eviction order ends before the freeable count is used up",
        Allocate: "C-ENC-2: charges a resident content again; a failed assertion leaves an empty entry behind",
        FreeInput: "C-ENC-7: the first input of a repeated content drops the reference; "
        "the entry returns the size that its last releaser claims",
        FreeRequest: "releases resident inputs instead of held ones",
        CachedInputs: "lists resident inputs, even if the request does not hold them",
        Abandon: "C-ENC-10: inputs pinned by the attempt stay pinned",
        Report: "C-ENC-8: also reports entries that are resident again",
        Reset: "not there yet",
    },
    exempt={"ENC-5/listed": "the list is not the held inputs: see the differences of CachedInputs and Abandon"},
)


# What E1b changes ---------------------------------------------------------------------------------------------------


def emptied_map(entries: Map[Key, int]) -> Map[Key, int]:
    """Without its keys."""
    for key, _ in tuple(entries.items()):
        entries = entries.remove(key)
    return entries


def emptied_queue(queue: Queue[Key]) -> Queue[Key]:
    """Without its members."""
    for key, _ in tuple(queue.items()):
        queue = queue.remove(key)
    return queue


def reset(config: Config, cache: SharedCache, op: Reset) -> Result:
    """Everything is cleared, the list of evicted entries too."""
    return SharedCache(
        free=config.capacity,
        freeable=config.capacity,
        cached=emptied_map(cache.cached),
        referring=emptied_map(cache.referring),
        order=emptied_queue(cache.order),
        given_back=emptied_map(cache.given_back),
        freed=(),
        sizes=emptied_map(cache.sizes),
        held=emptied_map(cache.held),
        dangling=emptied_map(cache.dangling),
        promised=emptied_queue(cache.promised),
        attempted=emptied_queue(cache.attempted),
    ), DONE


def free_if_no_blocks(config: Config, cache: SharedCache, op: Abandon) -> Result:
    """C-ENC-10: repaired for missing KV blocks; if an encoder input does not fit, the pins stay."""
    if op.cause == BLOCKS:
        return free_request(config, cache, FreeRequest(op.request))
    return leave_pinned(config, cache, op)


SHARED_WITH_RESET = SHARED.era(
    "E1b",
    "encoder-2026-05",
    {Abandon: free_if_no_blocks, Reset: reset},
    {
        Abandon: "C-ENC-10: repaired for missing KV blocks; if an encoder input does not fit, the pins stay",
        Reset: "empties the cache",
    },
)


# What E2 changes ----------------------------------------------------------------------------------------------------


def allocate_of_one_size(config: Config, cache: SharedCache, op: Allocate) -> Result:
    """C-ENC-2: a resident content of the same size is charged again. The size too is stored before the assertions."""
    content, size = content_of(config, op.request, op.input), claim_of(config, op.request, op.input)
    entered = enter(cache, content)
    if not entered.sizes.has(content):
        entered = entered._replace(sizes=entered.sizes.set(content, size))
    if entered.sizes.get(content, 0) != size:
        return entered, FAILED
    return charge(config, entered, op)


def still_needed(config: Config, cache: SharedCache, request: Request, content: Content) -> bool:
    """`request_hash_refs`: the request holds another input of the content."""
    return any(
        cache.held.has((request, position))
        for position in positions(config, request)
        if content_of(config, request, position) == content
    )


def free_last_input(config: Config, cache: SharedCache, op: FreeInput) -> Result:
    """C-ENC-7 repaired: the reference goes with the last input; the entry gives back what it was created with."""
    content = content_of(config, op.request, op.input)
    referred = cache.cached.get(content, 0) > 0
    cache = let_go(cache, op.request, op.input)
    if not referred or still_needed(config, cache, op.request, content):
        return cache, DONE
    cache = unrefer(cache, content, op.request)
    if cache.cached.get(content, 0) == 0:
        cache = rest(cache, content, cache.sizes.get(content, 0))
    return cache, DONE


def free_held(config: Config, cache: SharedCache, op: FreeRequest) -> Result:
    """Each input that the request holds is released, from the first to the last."""
    for position in positions(config, op.request):
        if cache.held.has((op.request, position)):
            cache, _ = free_last_input(config, cache, FreeInput(op.request, position))
    return withdraw(config, cache, op.request), DONE


def held_inputs(config: Config, cache: SharedCache, op: CachedInputs) -> Result:
    """What the request was given, also where it was evicted since."""
    listed = tuple(position for position in positions(config, op.request) if cache.held.has((op.request, position)))
    return cache, Outcome(Code.DONE, listed)


def free_held_if_no_blocks(config: Config, cache: SharedCache, op: Abandon) -> Result:
    """C-ENC-10, as in E1b."""
    if op.cause == BLOCKS:
        return free_held(config, cache, FreeRequest(op.request))
    return leave_pinned(config, cache, op)


def report_absent(config: Config, cache: SharedCache, op: Report) -> Result:
    """C-ENC-8 repaired: what is resident again is left out. What was evicted twice is named twice."""
    absent = tuple(content for content in cache.freed if not cache.cached.has(content))
    return end_pass(cache._replace(freed=())), Outcome(Code.DONE, absent)


SHARED_BY_COUNT = SHARED_WITH_RESET.era(
    "E2",
    "encoder-2026-11",
    {
        Allocate: allocate_of_one_size,
        FreeInput: free_last_input,
        FreeRequest: free_held,
        CachedInputs: held_inputs,
        Abandon: free_held_if_no_blocks,
        Report: report_absent,
    },
    {
        CheckAndUpdate: "the scheduler compares the claimed size; fails on an entry left behind by a failed assertion",
        Allocate: "C-ENC-2: charges a resident content again; a failed assertion leaves an empty entry behind",
        FreeInput: "does not check that the input is held",
        FreeRequest: "releases held inputs",
        CachedInputs: "lists held inputs, even if evicted since",
        Report: "names an entry twice if it was evicted twice since the last report",
    },
    view=view_shared_with_sizes,
    alphabet=lambda config, cache: calls(config, view_shared_with_sizes(config, cache)),
)
