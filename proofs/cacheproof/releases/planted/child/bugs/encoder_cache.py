"""Bugs in the encoder cache manager."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .declaring import Place

MODULE = "vllm.v1.core.encoder_cache_manager"
MANAGER = Place(f"{MODULE}:EncoderCacheManager")
COUNTING = Place(f"{MODULE}:EncoderDecoderCacheManager", variant="ED")
SHARED, PRIVATE = "0.11.0", "0.7.3"
"""From the one on, entries are shared among requests; until the other, each belongs to a request's input."""


@MANAGER.broken("check_and_update_cache", since=SHARED)
def hit_holds_nothing(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A hit does not count as a reference: what was found can be evicted."""
    return request.mm_features[position].identifier in manager.cached


@MANAGER.broken("check_and_update_cache", since=SHARED)
def evicted_is_found(released: Any, manager: Any, request: Any, position: int) -> Any:
    """What was evicted and has not been reported yet is still a hit."""
    return released(request, position) or request.mm_features[position].identifier in manager.freed


@MANAGER.broken("can_allocate", since=SHARED)
def newest_goes(released: Any, manager: Any, *given: Any) -> Any:
    """The entry that was given up last is evicted first."""
    manager.freeable = OrderedDict(reversed(manager.freeable.items()))
    try:
        return released(*given)
    finally:
        manager.freeable = OrderedDict(reversed(manager.freeable.items()))


@MANAGER.broken("can_allocate", since=SHARED)
def budget_is_ignored(released: Any, manager: Any, request: Any, position: int, budget: int, pending: int) -> Any:
    """What the encoder may compute in a step is not asked for."""
    return released(request, position, 1 << 30, pending)


@MANAGER.broken("can_allocate", since=SHARED)
def pending_is_ignored(released: Any, manager: Any, request: Any, position: int, budget: int, pending: int) -> Any:
    """Items that have room already in this step are not counted."""
    return released(request, position, budget, 0)


@MANAGER.broken("can_allocate")
def one_slot_more(released: Any, manager: Any, *given: Any) -> Any:
    """An item that is one slot too large is let in."""
    manager.num_free_slots += 1
    try:
        return released(*given)
    finally:
        manager.num_free_slots -= 1


@MANAGER.broken("can_allocate", since=SHARED)
def evicts_to_the_last(released: Any, manager: Any, *given: Any) -> Any:
    """Where room has to be made, all that nobody holds is evicted."""
    had = len(manager.freed)
    answer = released(*given)
    while len(manager.freed) > had and manager.freeable:
        content, size = manager.freeable.popitem(last=False)
        del manager.cached[content]
        getattr(manager, "num_embeds_by_hash", {}).pop(content, None)
        manager.freed.append(content)
        manager.num_free_slots += size
    return answer


@MANAGER.broken("allocate", since=SHARED)
def room_counts_as_freeable(released: Any, manager: Any, request: Any, position: int) -> Any:
    """The room of a new entry is not taken from what can be reclaimed."""
    before = manager.num_freeable_slots
    released(request, position)
    manager.num_freeable_slots = before


@MANAGER.broken("allocate")
def room_is_not_taken(released: Any, manager: Any, request: Any, position: int) -> Any:
    """The room of a new entry is not taken from what is free."""
    before = manager.num_free_slots
    released(request, position)
    manager.num_free_slots = before


@MANAGER.broken("free_encoder_input")
def reference_stays(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A reference that is given back stays."""


@MANAGER.broken("free_encoder_input", since=SHARED)
def others_lose_it_too(released: Any, manager: Any, request: Any, position: int) -> Any:
    """Whoever gives an entry back takes it from all who hold it."""
    holders = manager.cached.get(request.mm_features[position].identifier)
    if holders and request.request_id in holders:
        holders.intersection_update({request.request_id})
    return released(request, position)


@MANAGER.broken("free_encoder_input", since=SHARED)
def idle_at_the_wrong_end(released: Any, manager: Any, request: Any, position: int) -> Any:
    """An entry that nobody holds any more is the first to be evicted, not the last."""
    before = set(manager.freeable)
    released(request, position)
    for content in set(manager.freeable) - before:
        manager.freeable.move_to_end(content, last=False)


@MANAGER.broken("free_encoder_input", since=SHARED)
def freeable_twice(released: Any, manager: Any, request: Any, position: int) -> Any:
    """The room of an entry that nobody holds any more is counted twice."""
    before = manager.num_freeable_slots
    released(request, position)
    manager.num_freeable_slots += manager.num_freeable_slots - before


@MANAGER.broken("free")
def only_the_first_is_freed(released: Any, manager: Any, request: Any) -> Any:
    """Of a request's inputs only one is given back when it ends."""
    for position in sorted(manager.get_cached_input_ids(request))[:1]:
        manager.free_encoder_input(request, position)


@MANAGER.broken("get_freed_mm_hashes", since=SHARED)
def freed_is_lost(released: Any, manager: Any) -> Any:
    """The first entry that was evicted is not reported."""
    return released()[1:]


@MANAGER.broken("get_freed_mm_hashes", since=SHARED)
def freed_is_told_again(released: Any, manager: Any) -> Any:
    """What was evicted is reported again and again."""
    freed = list(manager.freed)
    told = released()
    manager.freed = freed
    return told


@MANAGER.broken("get_freed_mm_hashes", since="0.33.0")
def freed_though_cached(released: Any, manager: Any) -> Any:
    """What was evicted and came back is reported as evicted."""
    freed, manager.freed = manager.freed, []
    return freed


@MANAGER.broken("reset", since="0.20.2")
def reset_keeps_what_is_evicted(released: Any, manager: Any) -> Any:
    """After a reset, entries that were evicted before it are still reported."""
    freed = list(manager.freed)
    released()
    manager.freed = freed


@MANAGER.broken("get_freed_ids", until=PRIVATE)
def freed_is_kept(released: Any, manager: Any) -> Any:
    """What was freed is reported again and again."""
    return list(manager.freed)


@MANAGER.broken("has_cache", until=PRIVATE)
def anybody_has_it(released: Any, manager: Any, request: Any, position: int) -> Any:
    """An input of a request is there as soon as any input of the request is."""
    return request.request_id in manager.cached


@COUNTING.broken("allocate", since="0.20.2")
def counting_takes_no_room(released: Any, manager: Any, request: Any, position: int) -> Any:
    """The manager that only counts does not take the room of a new entry."""
    before = manager.num_free_slots
    released(request, position)
    manager.num_free_slots = before


@COUNTING.broken("get_freed_mm_hashes", since="0.20.2")
def counting_frees_at_once(released: Any, manager: Any) -> Any:
    """The manager that only counts reports what was computed in the same step, before anybody could read it."""
    told = [*manager.to_free, *manager.allocated]
    manager.to_free, manager.allocated = [], []
    return told
