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
    """A hit adds no reference, so the entry can be evicted."""
    return request.mm_features[position].identifier in manager.cached


@MANAGER.broken("check_and_update_cache", since=SHARED)
def evicted_is_found(released: Any, manager: Any, request: Any, position: int) -> Any:
    """An evicted entry is still a hit until it is reported."""
    return released(request, position) or request.mm_features[position].identifier in manager.freed


@MANAGER.broken("can_allocate", since=SHARED)
def newest_goes(released: Any, manager: Any, *given: Any) -> Any:
    """The entry that became idle last is evicted first."""
    manager.freeable = OrderedDict(reversed(manager.freeable.items()))
    try:
        return released(*given)
    finally:
        manager.freeable = OrderedDict(reversed(manager.freeable.items()))


@MANAGER.broken("can_allocate", since=SHARED)
def budget_is_ignored(released: Any, manager: Any, request: Any, position: int, budget: int, pending: int) -> Any:
    """The encoder's compute budget is ignored."""
    return released(request, position, 1 << 30, pending)


@MANAGER.broken("can_allocate", since=SHARED)
def pending_is_ignored(released: Any, manager: Any, request: Any, position: int, budget: int, pending: int) -> Any:
    """Items with granted space in this step are not counted."""
    return released(request, position, budget, 0)


@MANAGER.broken("can_allocate")
def one_slot_more(released: Any, manager: Any, *given: Any) -> Any:
    """An item one slot too large is accepted."""
    manager.num_free_slots += 1
    try:
        return released(*given)
    finally:
        manager.num_free_slots -= 1


@MANAGER.broken("can_allocate", since=SHARED)
def evicts_to_the_last(released: Any, manager: Any, *given: Any) -> Any:
    """An eviction removes all idle entries."""
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
    """A new entry does not reduce the freeable space."""
    before = manager.num_freeable_slots
    released(request, position)
    manager.num_freeable_slots = before


@MANAGER.broken("allocate")
def room_is_not_taken(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A new entry does not reduce the free space."""
    before = manager.num_free_slots
    released(request, position)
    manager.num_free_slots = before


@MANAGER.broken("free_encoder_input")
def reference_stays(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A released reference stays."""


@MANAGER.broken("free_encoder_input", since=SHARED)
def others_lose_it_too(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A release removes the references of all holders."""
    holders = manager.cached.get(request.mm_features[position].identifier)
    if holders and request.request_id in holders:
        holders.intersection_update({request.request_id})
    return released(request, position)


@MANAGER.broken("free_encoder_input", since=SHARED)
def idle_at_the_wrong_end(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A newly idle entry is evicted first instead of last."""
    before = set(manager.freeable)
    released(request, position)
    for content in set(manager.freeable) - before:
        manager.freeable.move_to_end(content, last=False)


@MANAGER.broken("free_encoder_input", since=SHARED)
def freeable_twice(released: Any, manager: Any, request: Any, position: int) -> Any:
    """The space of a newly idle entry is counted twice."""
    before = manager.num_freeable_slots
    released(request, position)
    manager.num_freeable_slots += manager.num_freeable_slots - before


@MANAGER.broken("free")
def only_the_first_is_freed(released: Any, manager: Any, request: Any) -> Any:
    """The end of a request releases only one of its inputs."""
    for position in sorted(manager.get_cached_input_ids(request))[:1]:
        manager.free_encoder_input(request, position)


@MANAGER.broken("get_freed_mm_hashes", since=SHARED)
def freed_is_lost(released: Any, manager: Any) -> Any:
    """The first evicted entry is not reported."""
    return released()[1:]


@MANAGER.broken("get_freed_mm_hashes", since=SHARED)
def freed_is_told_again(released: Any, manager: Any) -> Any:
    """Evicted entries are reported repeatedly."""
    freed = list(manager.freed)
    told = released()
    manager.freed = freed
    return told


@MANAGER.broken("get_freed_mm_hashes", since="0.33.0")
def freed_though_cached(released: Any, manager: Any) -> Any:
    """An evicted entry that is cached again is reported as evicted."""
    freed, manager.freed = manager.freed, []
    return freed


@MANAGER.broken("reset", since="0.20.2")
def reset_keeps_what_is_evicted(released: Any, manager: Any) -> Any:
    """After a reset, earlier evictions are still reported."""
    freed = list(manager.freed)
    released()
    manager.freed = freed


@MANAGER.broken("get_freed_ids", until=PRIVATE)
def freed_is_kept(released: Any, manager: Any) -> Any:
    """Freed entries are reported repeatedly."""
    return list(manager.freed)


@MANAGER.broken("has_cache", until=PRIVATE)
def anybody_has_it(released: Any, manager: Any, request: Any, position: int) -> Any:
    """An input counts as cached as soon as any input of its request is."""
    return request.request_id in manager.cached


@COUNTING.broken("allocate", since="0.20.2")
def counting_takes_no_room(released: Any, manager: Any, request: Any, position: int) -> Any:
    """In the counting manager a new entry takes no space."""
    before = manager.num_free_slots
    released(request, position)
    manager.num_free_slots = before


@COUNTING.broken("get_freed_mm_hashes", since="0.20.2")
def counting_frees_at_once(released: Any, manager: Any) -> Any:
    """The counting manager reports entries computed in the same step, before they are read."""
    told = [*manager.to_free, *manager.allocated]
    manager.to_free, manager.allocated = [], []
    return told
