"""Historic bugs in the manager over groups of layers of different kinds."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place, meanwhile

MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
GROUPS = Place("vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator")
STATES = Place("vllm.v1.core.single_type_kv_cache_manager:MambaManager")


@STATES.broken("get_num_blocks_to_allocate", since=PUT_BACK, fixed="#29387")
def state_is_hit_before_it_is_there(released: Any, manager: Any, *given: Any, **named: Any) -> Any:
    """A request hits a state that another request registers in the same step and that is not computed yet."""
    with meanwhile(manager, cached_blocks_this_step=set()):
        return released(*given, **named)


@GROUPS.broken("get_num_blocks_to_allocate", since=PUT_BACK, fixed="#41282")
def estimate_is_capped_as_at_admission(released: Any, groups: Any, *given: Any, **named: Any) -> Any:
    """The estimate of a step's blocks is capped, the allocation is not, and the pool can be empty."""
    return released(*given, **{**named, "apply_admission_cap": True})


@MANAGER.changed(
    "allocate_slots",
    "max(0, $computed - $request.num_in_flight_tokens)",
    "$computed",
    fixed="#47728",
)
def window_moves_ahead_of_the_output() -> None:
    """Blocks that leave a window are freed while steps in flight still read them."""
