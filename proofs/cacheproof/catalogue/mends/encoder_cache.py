"""The eras of the encoder cache, each without one of their faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around, together, transitions
from cacheproof.model.finding import Subject
from cachespec.encoder_cache import (
    Abandon,
    Allocate,
    CanAllocate,
    CheckAndUpdate,
    Config,
    FreeInput,
    FreeRequest,
    Report,
    era_per_request,
    era_shared,
)
from cachespec.encoder_cache.configuration import content_of, positions, size_of
from cachespec.encoder_cache.era_states import CountingCache, PerRequestCache, SharedCache
from cachespec.encoder_cache.operations import BLOCKS
from cachespec.encoder_cache.passes import withdraw
from cachespec.kernel import ABSENT, DONE, PRESENT, REFUSED, Code, Outcome

SHARING = ("E1", "E1b", "E2")
Result = tuple[SharedCache, Outcome]


# One entry of each request and input: E0, ED ------------------------------------------------------------------------


def free_own_only(config: Config, cache: PerRequestCache, op: FreeInput) -> tuple[PerRequestCache, Outcome]:
    """C-ENC-1: an input without an entry gives nothing back."""
    if not cache.cached.has((op.request, op.input)):
        return cache, ABSENT
    return era_per_request.free_input(config, cache, op)


def grant_beside_grants(config: Config, cache: PerRequestCache, op: CanAllocate) -> tuple[PerRequestCache, Outcome]:
    """C-ENC-3: grants from earlier in the pass are counted."""
    if cache.promised.total + size_of(config, op.request, op.input) > cache.free:
        return cache, REFUSED
    return era_per_request.can_allocate(config, cache, op)


def if_there_is_room(
    own: AnyTransition, config: Config, cache: PerRequestCache | CountingCache, op: Allocate
) -> tuple[PerRequestCache | CountingCache, Outcome]:
    """C-ENC-3: an allocation asks again whether there is room."""
    if size_of(config, op.request, op.input) > cache.free:
        return cache, REFUSED
    return own(config, cache, op)


def once_for_each_input(
    own: AnyTransition, config: Config, cache: PerRequestCache | CountingCache, op: Allocate
) -> tuple[PerRequestCache | CountingCache, Outcome]:
    """C-ENC-2: what the request has already is not charged again."""
    there = cache.cached if isinstance(cache, PerRequestCache) else cache.held
    if there.has((op.request, op.input)):
        return cache, PRESENT
    return own(config, cache, op)


def report_absent_inputs(config: Config, cache: PerRequestCache, op: Report) -> tuple[PerRequestCache, Outcome]:
    """C-ENC-8: what is resident again is left out."""
    absent = tuple(dict.fromkeys(key for key in cache.freed if not cache.cached.has(key)))
    return era_per_request.report(config, cache._replace(freed=absent), op)


def only_what_is_held(
    own: AnyTransition, config: Config, cache: CountingCache, op: FreeInput | FreeRequest | Abandon
) -> tuple[CountingCache, Outcome]:
    """C-ENC-13: an input that holds no slots gives none back, and a request that lacks blocks is not freed."""
    holds = any(request == op.request for (request, _), _ in cache.held.items())
    if isinstance(op, Abandon) or (isinstance(op, FreeRequest) and not holds):
        return withdraw(config, cache, op.request), DONE
    after: CountingCache = own(config, cache, op)[0]
    freed = sum(size for pair, size in cache.held.items() if not after.held.has(pair))
    return after._replace(free=cache.free + freed), DONE


# Shared by content: E1, E1b, E2 -------------------------------------------------------------------------------------


def is_resident(config: Config, cache: SharedCache, op: Allocate) -> bool:
    """The content has an entry that was allocated."""
    content = content_of(config, op.request, op.input)
    return cache.cached.has(content) and cache.sizes.has(content)


def repeats(config: Config, cache: SharedCache, op: Allocate) -> bool:
    """Another input of the same request holds the content."""
    content = content_of(config, op.request, op.input)
    others = (other for other in positions(config, op.request) if other != op.input)
    return any(
        cache.held.has((op.request, other)) and content_of(config, op.request, other) == content for other in others
    )


def not_charged_again(
    own: AnyTransition,
    config: Config,
    cache: SharedCache,
    op: Allocate,
    *,
    applies: Callable[[Config, SharedCache, Allocate], bool],
) -> Result:
    """A resident content is not charged again, where this applies: the input becomes one more holder."""
    if is_resident(config, cache, op) and applies(config, cache, op):
        after, _ = era_shared.check_and_update(config, cache, CheckAndUpdate(op.request, op.input))
        return after, PRESENT
    return own(config, cache, op)


def let_go(
    config: Config, cache: SharedCache, request: int, position: int, *, at_the_last: bool, as_created: bool
) -> SharedCache:
    """One input lets go of its content.

    `at_the_last`: the reference goes with the last input of the content. `as_created`: the entry gives back the size
    that it was created with, and not the one that the input claims.
    """
    content = content_of(config, request, position)
    referred = cache.cached.get(content, 0) > 0
    cache = era_shared.let_go(cache, request, position)
    if not referred or (at_the_last and era_shared.still_needed(config, cache, request, content)):
        return cache
    cache = era_shared.unrefer(cache, content, request)
    if cache.cached.get(content, 0) > 0:
        return cache
    size = cache.sizes.get(content, 0) if as_created else size_of(config, request, position)
    return era_shared.rest(cache, content, size)


def free_input_by(config: Config, cache: SharedCache, op: FreeInput, *, at_the_last: bool, as_created: bool) -> Result:
    """`free_encoder_input`."""
    return let_go(config, cache, op.request, op.input, at_the_last=at_the_last, as_created=as_created), DONE


def free_request_by(
    config: Config, cache: SharedCache, op: FreeRequest, *, at_the_last: bool, as_created: bool
) -> Result:
    """Each input that the request holds, or whose content is resident, as in E1."""
    for position in positions(config, op.request):
        if cache.cached.has(content_of(config, op.request, position)):
            cache = let_go(config, cache, op.request, position, at_the_last=at_the_last, as_created=as_created)
        cache = era_shared.let_go(cache, op.request, position)
    return withdraw(config, cache, op.request), DONE


def releasing(*, at_the_last: bool, as_created: bool) -> Change:
    """E1, E1b with inputs released so; a request that lacks blocks is freed in the same way where the era frees it."""
    free_input = partial(free_input_by, at_the_last=at_the_last, as_created=as_created)
    free_request = partial(free_request_by, at_the_last=at_the_last, as_created=as_created)

    def freeing(own: AnyTransition, config: Config, cache: SharedCache, op: Abandon) -> Result:
        if op.cause == BLOCKS:
            return free_request(config, cache, FreeRequest(op.request))
        return own(config, cache, op)

    def of_e1b(subject: Subject) -> Subject:
        return around(freeing, Abandon)(subject) if subject.variant.tag == "E1b" else subject

    return together(transitions({FreeInput: free_input, FreeRequest: free_request}), of_e1b)


def give_back_the_attempt(config: Config, cache: SharedCache, op: Abandon) -> Result:
    """C-ENC-10: for any cause, what this attempt has pinned is released."""
    for position in positions(config, op.request):
        if cache.attempted.has((op.request, position)):
            cache = let_go(config, cache, op.request, position, at_the_last=True, as_created=True)
    return withdraw(config, cache, op.request), DONE


def place_unreported(own: AnyTransition, config: Config, cache: SharedCache, op: Allocate) -> Result:
    """C-ENC-8: an eviction that was not reported does not count any more once the content is resident again."""
    content = content_of(config, op.request, op.input)
    after: SharedCache
    after, outcome = own(config, cache, op)
    if outcome.code is not Code.DONE:
        return after, outcome
    return after._replace(freed=tuple(each for each in after.freed if each != content)), outcome


def report_each_once(own: AnyTransition, config: Config, cache: SharedCache, op: Report) -> Result:
    """C-ENC-20: a content that was evicted twice is named once."""
    return own(config, cache._replace(freed=tuple(dict.fromkeys(cache.freed))), op)


def room_before_anything(own: AnyTransition, config: Config, cache: SharedCache, op: Allocate) -> Result:
    """C-ENC-19: room is asked for before anything changes."""
    size = size_of(config, op.request, op.input)
    if size > cache.free or size > cache.freeable:
        return cache, REFUSED
    return own(config, cache, op)


def of_the_same_size(own: AnyTransition, config: Config, cache: SharedCache, op: CheckAndUpdate | Allocate) -> Result:
    """C-ENC-21: an input that claims another size than the entry has never becomes a holder."""
    content = content_of(config, op.request, op.input)
    resident = cache.cached.has(content) and cache.sizes.has(content)
    if resident and cache.sizes.get(content, 0) != size_of(config, op.request, op.input):
        return cache, REFUSED
    return own(config, cache, op)


MENDS = (
    Mend("C-ENC-1", ("E0",), transitions({FreeInput: free_own_only})),
    Mend("C-ENC-2", ("E0", "ED"), around(once_for_each_input, Allocate)),
    Mend(
        "C-ENC-2",
        SHARING,
        around(partial(not_charged_again, applies=lambda *called: not repeats(*called)), Allocate),
    ),
    Mend(
        "C-ENC-3",
        ("E0",),
        together(transitions({CanAllocate: grant_beside_grants}), around(if_there_is_room, Allocate)),
    ),
    Mend("C-ENC-3", ("ED",), around(if_there_is_room, Allocate)),
    Mend("C-ENC-6", SHARING, around(partial(not_charged_again, applies=repeats), Allocate)),
    Mend("C-ENC-7", ("E1", "E1b"), releasing(at_the_last=True, as_created=False)),
    Mend("C-ENC-8", ("E0",), transitions({Report: report_absent_inputs})),
    Mend("C-ENC-8", ("E1", "E1b"), around(place_unreported, Allocate)),
    Mend("C-ENC-10", SHARING, transitions({Abandon: give_back_the_attempt})),
    Mend("C-ENC-13", ("ED",), around(only_what_is_held, FreeInput, FreeRequest, Abandon)),
    Mend("C-ENC-18", ("E1", "E1b"), releasing(at_the_last=False, as_created=True)),
    Mend("C-ENC-19", SHARING, around(room_before_anything, Allocate)),
    Mend("C-ENC-20", ("E2",), around(report_each_once, Report)),
    Mend("C-ENC-21", SHARING, around(of_the_same_size, CheckAndUpdate, Allocate)),
)
"""By entry. In E1 and E1b, C-ENC-8 is also what C-ENC-20 is in E2: a report names a content twice."""
