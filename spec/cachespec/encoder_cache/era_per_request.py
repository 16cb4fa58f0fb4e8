"""Encoder-2025-02 (E0): the first manager, an entry for each input of each request (released with 0.7.3).

Nothing is shared, evicts nothing, and nothing is asserted: room comes back only when an input is freed. The same
rules, counted as here, were released until 0.10.1.
"""

from __future__ import annotations

from cachespec.encoder_cache.configuration import Config, Input, Request, positions, size_of
from cachespec.encoder_cache.environment import calls
from cachespec.encoder_cache.era_states import PerRequestCache, initial_per_request, view_per_request
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
from cachespec.encoder_cache.passes import end_pass, promise, redeem, withdraw
from cachespec.encoder_cache.state import View, flat
from cachespec.kernel import DONE, HIT, MISS, REFUSED, UNSUPPORTED, Code, Outcome, Variant

Result = tuple[PerRequestCache, Outcome]

NOTHING_IS_SHARED = "an entry belongs to one input of one request and is never shared"
NOTHING_IS_EVICTED = "an entry leaves only when it is freed: there is no eviction order and no freeable count"


def has_cache(config: Config, cache: PerRequestCache, op: CheckAndUpdate) -> Result:
    """A pure question."""
    return cache, HIT if cache.cached.has((op.request, op.input)) else MISS


def can_allocate(config: Config, cache: PerRequestCache, op: CanAllocate) -> Result:
    """C-ENC-3: what was granted before in the same pass is not asked for, so two grants may be of the same slots."""
    if size_of(config, op.request, op.input) > cache.free:
        return cache, REFUSED
    return promise(config, cache, op), DONE


def allocate(config: Config, cache: PerRequestCache, op: Allocate) -> Result:
    """C-ENC-2: an input that is there already is charged again. C-ENC-3: whether there is room is not asked again."""
    size = size_of(config, op.request, op.input)
    charged = cache._replace(free=cache.free - size, cached=cache.cached.set((op.request, op.input), size))
    return redeem(config, charged, op.request, op.input), DONE


def has_any(config: Config, cache: PerRequestCache, request: Request) -> bool:
    """Whether the request has an entry at all."""
    return any(cache.cached.has((request, position)) for position in positions(config, request))


def freed(config: Config, cache: PerRequestCache, request: Request, position: Input) -> PerRequestCache:
    """C-ENC-1: of a request that has some entry, an input that has none gives its slots back too."""
    if not has_any(config, cache, request):
        return cache
    return cache._replace(
        free=cache.free + size_of(config, request, position),
        cached=cache.cached.remove((request, position)),
        freed=(*cache.freed, (request, position)),
    )


def free_input(config: Config, cache: PerRequestCache, op: FreeInput) -> Result:
    """C-ENC-1."""
    return freed(config, cache, op.request, op.input), DONE


def free_request(config: Config, cache: PerRequestCache, op: FreeRequest) -> Result:
    """Each input that has an entry is freed."""
    for position in positions(config, op.request):
        if cache.cached.has((op.request, position)):
            cache = freed(config, cache, op.request, position)
    return withdraw(config, cache, op.request), DONE


def cached_inputs(config: Config, cache: PerRequestCache, op: CachedInputs) -> Result:
    """The inputs that have an entry."""
    listed = tuple(position for position in positions(config, op.request) if cache.cached.has((op.request, position)))
    return cache, Outcome(Code.DONE, listed)


def abandon(config: Config, cache: PerRequestCache, op: Abandon) -> Result:
    """No call is made: a check has pinned nothing."""
    return withdraw(config, cache, op.request), DONE


def report(config: Config, cache: PerRequestCache, op: Report) -> Result:
    """C-ENC-8: the whole list, also of what has been allocated again since."""
    return end_pass(cache._replace(freed=())), Outcome(Code.DONE, flat(cache.freed))


def no_reset(config: Config, cache: PerRequestCache, op: Reset) -> Result:
    """There was none."""
    return cache, UNSUPPORTED


PER_REQUEST: Variant[Config, PerRequestCache, View] = Variant(
    tag="E0",
    title="encoder-2025-02",
    state=PerRequestCache,
    initial=initial_per_request,
    transitions={
        CheckAndUpdate: has_cache,
        CanAllocate: can_allocate,
        Allocate: allocate,
        FreeInput: free_input,
        FreeRequest: free_request,
        CachedInputs: cached_inputs,
        Abandon: abandon,
        Report: report,
        Reset: no_reset,
    },
    view=view_per_request,
    alphabet=lambda config, cache: calls(config, view_per_request(config, cache)),
    differences={
        CheckAndUpdate: "`has_cache`: a query without a reference; it sees only the request's own entries",
        CanAllocate: "C-ENC-3: ignores the compute budget and pending grants; evicts nothing",
        Allocate: "C-ENC-2: each allocation charges the entry again; C-ENC-3: also beyond the capacity",
        FreeInput: "C-ENC-1: returns slots for an input without an entry, if the request has another input",
        FreeRequest: "freed entries are removed at once",
        CachedInputs: "lists the inputs with their own entry",
        Abandon: "no call is made",
        Report: "C-ENC-8: reports request and input, even if allocated again since",
        Reset: "not there yet",
    },
    exempt={
        "ENC-2/freeable": NOTHING_IS_EVICTED,
        "ENC-3": NOTHING_IS_EVICTED,
        "ENC-4": NOTHING_IS_SHARED,
        "ENC-5": NOTHING_IS_SHARED,
        "ENC-6": NOTHING_IS_EVICTED,
        "ENC-9/budget": "the manager is not told of the budget; its caller compares the two",
        "ENC-12": NOTHING_IS_EVICTED,
        "ENC-12/needed": NOTHING_IS_EVICTED,
    },
)


def keep_what_is_aborted(config: Config, cache: PerRequestCache, op: FreeRequest) -> Result:
    """C-ENC-4: the manager is not told that the request has ended."""
    return withdraw(config, cache, op.request), DONE


PER_REQUEST_UNTIL_ABORTED = PER_REQUEST.era(
    "E0a",
    "encoder-2025-01",
    {FreeRequest: keep_what_is_aborted},
    {FreeRequest: "C-ENC-4: an aborted request keeps its entries for ever (before #12545)"},
)
