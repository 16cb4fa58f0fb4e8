"""Bugs in the manager over groups of layers, its coordinator, and the managers of each kind."""

from __future__ import annotations

from typing import Any

from .declaring import Place, meanwhile

MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
COORDINATOR = Place("vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator")
HYBRID = Place("vllm.v1.core.kv_cache_coordinator:HybridKVCacheCoordinator")
WINDOWS = Place("vllm.v1.core.single_type_kv_cache_manager:SlidingWindowManager")
CHUNKS = Place("vllm.v1.core.single_type_kv_cache_manager:ChunkedLocalAttentionManager")
STATES = Place("vllm.v1.core.single_type_kv_cache_manager:MambaManager")
GROUPS, NEWER = "0.11.0", "0.33.0"
"""From the first on there are groups. Before the other, a table names the managers, and none can take their place."""


@COORDINATOR.broken("get_num_blocks_to_allocate", since=GROUPS)
def one_block_too_few_is_needed(released: Any, coordinator: Any, *given: Any, **named: Any) -> Any:
    """The estimate is one block below what the groups take."""
    return released(*given, **named) - 1


@COORDINATOR.broken("free", since=GROUPS)
def only_the_first_group_is_freed(released: Any, coordinator: Any, request: str) -> Any:
    """A request that is over keeps its blocks in all groups but the first."""
    in_the_first(released, coordinator, request)


@COORDINATOR.broken("cache_blocks", since=GROUPS)
def only_the_first_group_is_cached(released: Any, coordinator: Any, *given: Any) -> Any:
    """Full blocks can be found in the first group only."""
    in_the_first(released, coordinator, *given)


@COORDINATOR.broken("remove_skipped_blocks", since=GROUPS)
def windows_keep_all(released: Any, coordinator: Any, *given: Any, **named: Any) -> Any:
    """Blocks behind a window stay with a running request."""


@HYBRID.broken("find_longest_cache_hit", since=GROUPS)
def whole_prompt_is_found(released: Any, coordinator: Any, hashes: Any, longest: int) -> Any:
    """A look-up may return the whole prompt, so no token is left to compute."""
    return released(hashes, longest + 1)


@WINDOWS.broken("get_num_skipped_tokens", since=NEWER)
def window_is_shorter(released: Any, manager: Any, tokens: int) -> Any:
    """A window is one token shorter when blocks behind it go back."""
    return released(tokens + 1)


@CHUNKS.broken("get_num_skipped_tokens", since=NEWER)
def chunk_ends_early(released: Any, manager: Any, tokens: int) -> Any:
    """A chunk counts as left one token before its end."""
    return released(tokens + 1)


@STATES.broken("get_num_blocks_to_allocate", since=NEWER)
def state_of_this_step_is_adopted(released: Any, manager: Any, *given: Any, **named: Any) -> Any:
    """A request adopts a state that its own step computes."""
    manager.cached_blocks_this_step.clear()
    return released(*given, **named)


@STATES.broken("new_step_starts", since=NEWER)
def steps_never_end(released: Any, manager: Any) -> Any:
    """A state of an earlier step counts as one of the current step."""


@STATES.broken("remove_skipped_blocks", since=NEWER)
def states_stay(released: Any, manager: Any, *given: Any, **named: Any) -> Any:
    """A request keeps the states behind which it has gone on."""


@MANAGER.broken("allocate_slots", since=NEWER)
def steps_in_flight_count_as_executed(released: Any, manager: Any, request: Any, *given: Any, **named: Any) -> Any:
    """Blocks go back that a step in flight still reads."""
    request.num_in_flight_tokens = 0
    return released(request, *given, **named)


@COORDINATOR.broken("allocate_new_computed_blocks", since=NEWER)
def loaded_before_the_next_hit(released: Any, coordinator: Any, *given: Any, **named: Any) -> Any:
    """A group takes blocks for loaded tokens before the next group has touched its hit."""
    managers = coordinator.single_type_managers
    blocks = named["new_computed_blocks"]
    for number, manager in enumerate(managers):
        coordinator.single_type_managers = (manager,)
        released(*given, **{**named, "new_computed_blocks": (blocks[number],)})
    coordinator.single_type_managers = managers


def in_the_first(released: Any, coordinator: Any, *given: Any) -> None:
    """The call for the first group alone."""
    with meanwhile(coordinator, single_type_managers=coordinator.single_type_managers[:1]):
        released(*given)
