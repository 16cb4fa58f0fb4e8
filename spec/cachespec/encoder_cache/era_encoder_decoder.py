"""Encoder-decoder-2026-05 (ED): the manager for models whose decoder reads the encoder's output beside the prompt.

Released with 0.20.2 and 0.33.0. An output is used in the step in which it is made and never again: every later step
finds what it needs among the keys and values. So never finds an entry, nothing evicted, and the workers are told of
every output one step after it was made, whoever has asked for it. What remains is a count of free slots.

Its scheduler frees all inputs of a request after every step in which the request has computed something, as the manager
lists them all; and the manager adds the slots each time (C-ENC-13, #55733). Normatively such a model needs no manager
of its own: releasing what is not held changes nothing, and what is released is idle and goes when the room is needed.
"""

from __future__ import annotations

from cachespec.encoder_cache.configuration import Config, Input, Request, content_of, positions, size_of
from cachespec.encoder_cache.environment import calls
from cachespec.encoder_cache.era_per_request import NOTHING_IS_EVICTED, NOTHING_IS_SHARED
from cachespec.encoder_cache.era_states import CountingCache, initial_counting, view_counting
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
from cachespec.encoder_cache.passes import end_pass, promise, redeem, withdraw
from cachespec.encoder_cache.state import View
from cachespec.kernel import DONE, MISS, REFUSED, Code, Outcome, Variant

Result = tuple[CountingCache, Outcome]


def never_found(config: Config, cache: CountingCache, op: CheckAndUpdate) -> Result:
    """What was made once is made again."""
    return cache, MISS


def can_allocate(config: Config, cache: CountingCache, op: CanAllocate) -> Result:
    """Against the free slots alone; evicts nothing."""
    size = size_of(config, op.request, op.input)
    if size > op.budget or size + op.pending > cache.free:
        return cache, REFUSED
    return promise(config, cache, op), DONE


def allocate(config: Config, cache: CountingCache, op: Allocate) -> Result:
    """C-ENC-2, C-ENC-3: charged without another question, as often as it is called."""
    content, size = content_of(config, op.request, op.input), size_of(config, op.request, op.input)
    charged = cache._replace(
        free=cache.free - size,
        allocated=(*cache.allocated, content),
        held=cache.held.set((op.request, op.input), size),
        served=cache.served.set((op.request, op.input), 1),
    )
    return redeem(config, charged, op.request, op.input), DONE


def freed(config: Config, cache: CountingCache, request: Request, position: Input) -> CountingCache:
    """C-ENC-13: the slots are added, whether the input holds any or not."""
    return cache._replace(
        free=cache.free + size_of(config, request, position), held=cache.held.remove((request, position))
    )


def free_input(config: Config, cache: CountingCache, op: FreeInput) -> Result:
    """C-ENC-13."""
    return freed(config, cache, op.request, op.input), DONE


def free_request(config: Config, cache: CountingCache, op: FreeRequest) -> Result:
    """C-ENC-13: lists every input of the request once more."""
    for position in positions(config, op.request):
        cache = freed(config, cache, op.request, position)
        cache = cache._replace(served=cache.served.remove((op.request, position)))
    return withdraw(config, cache, op.request), DONE


def every_input(config: Config, cache: CountingCache, op: CachedInputs) -> Result:
    """C-ENC-13: all inputs of the request, in any state."""
    return cache, Outcome(Code.DONE, tuple(positions(config, op.request)))


def abandon(config: Config, cache: CountingCache, op: Abandon) -> Result:
    """C-ENC-13: where KV blocks are missing the request is freed, though it has taken nothing yet."""
    if op.cause == BLOCKS:
        return free_request(config, cache, FreeRequest(op.request))
    return withdraw(config, cache, op.request), DONE


def report(config: Config, cache: CountingCache, op: Report) -> Result:
    """What was made before the last report: its step has been executed."""
    reported = Outcome(Code.DONE, cache.to_free)
    return end_pass(cache._replace(to_free=cache.allocated, allocated=())), reported


def reset(config: Config, cache: CountingCache, op: Reset) -> Result:
    """Everything is cleared."""
    for request in range(len(config.requests)):
        for position in positions(config, request):
            held, served = cache.held.remove((request, position)), cache.served.remove((request, position))
            cache = cache._replace(held=held, served=served)
    return end_pass(cache._replace(free=config.capacity, allocated=(), to_free=())), DONE


ALL_ARE_LISTED = "every input is always listed; its effect on the counts is C-ENC-13"
ONE_STEP = "an output lives for one step: the report ends the step and does not report an eviction"

ENCODER_DECODER: Variant[Config, CountingCache, View] = Variant(
    tag="ED",
    title="encoder-decoder-2026-05",
    state=CountingCache,
    initial=initial_counting,
    transitions={
        CheckAndUpdate: never_found,
        CanAllocate: can_allocate,
        Allocate: allocate,
        FreeInput: free_input,
        FreeRequest: free_request,
        CachedInputs: every_input,
        Abandon: abandon,
        Report: report,
        Reset: reset,
    },
    view=view_counting,
    alphabet=lambda config, cache: calls(config, view_counting(config, cache)),
    differences={
        CheckAndUpdate: "never finds an entry",
        CanAllocate: "evicts nothing",
        Allocate: "C-ENC-2, C-ENC-3: charges the entry on every call, also beyond the capacity",
        FreeInput: "C-ENC-13: returns slots even if they were not held",
        FreeRequest: "C-ENC-13: returns the slots of every input once more",
        CachedInputs: "C-ENC-13: lists every input",
        Abandon: "C-ENC-13: returns slots that were never taken",
        Report: "reports entries created before the last report",
        Reset: "empties the cache",
    },
    exempt={
        "ENC-2/freeable": NOTHING_IS_EVICTED,
        "ENC-3": NOTHING_IS_EVICTED,
        "ENC-4": NOTHING_IS_SHARED,
        "ENC-5": NOTHING_IS_SHARED,
        "ENC-5/listed": ALL_ARE_LISTED,
        "ENC-6": NOTHING_IS_EVICTED,
        "ENC-7": ONE_STEP,
        "ENC-7/once": ONE_STEP,
        "ENC-12": NOTHING_IS_EVICTED,
        "ENC-12/needed": NOTHING_IS_EVICTED,
        "ENC-13/reasons": "every output is computed again: there is no look-up",
    },
)
