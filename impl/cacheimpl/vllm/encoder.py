"""`EncoderCacheManager` as vLLM's schedulers call it, with account of items that leave the plan of their step.

A scheduler enters an item when it plans to encode it. If the request is preempted later in the same step, the item
leaves the plan and no worker encodes it. The release counts it as cached all the same (C-ENC-26); here the next request
that needs it has it encoded. If another request of the same step already shares the entry, its step still misses it.
"""

from __future__ import annotations

from typing import Any

from cacheimpl.encoder_cache.manager import EncoderCacheManager as TensorManager
from cacheimpl.encoder_cache.tables import LARGEST_COUNT, identifier_of
from cacheimpl.request import Request


class PlannedEncoderCacheManager(TensorManager):
    """The manager, with the items that the current step enters, and entries whose item left its plan."""

    def __init__(self, cache_size: int, **named: Any) -> None:
        super().__init__(cache_size, **named)
        self._entered: dict[str, set[str]] = {}
        """Contents that the step being planned enters, by request."""
        self._withdrawn: set[str] = set()
        """Contents with an entry that no step has encoded or will encode; some may have been evicted since."""

    def check_and_update_cache(self, request: Request, input_id: int) -> bool:
        """As the base class, but an entry that is not encoded is no hit."""
        return not self._is_withdrawn(request, input_id) and super().check_and_update_cache(request, input_id)

    def can_allocate(
        self,
        request: Request,
        input_id: int,
        encoder_compute_budget: int = LARGEST_COUNT,
        num_tokens_to_schedule: int = 0,
        *,
        num_embeds_to_schedule: int | None = None,
    ) -> bool:
        """As the base class; an entry that is not encoded has its room, and needs the compute budget only."""
        if self._is_withdrawn(request, input_id):
            size = self.get_cached_num_encoder_embeds(request, input_id)
            return size is not None and size <= encoder_compute_budget
        return super().can_allocate(
            request,
            input_id,
            encoder_compute_budget,
            num_tokens_to_schedule,
            num_embeds_to_schedule=num_embeds_to_schedule,
        )

    def allocate(self, request: Request, input_id: int) -> None:
        """As the base class; an entry that is not encoded is held by the request, whose step encodes it."""
        content = identifier_of(request, input_id)
        if self._is_withdrawn(request, input_id):
            self._withdrawn.discard(content)
            super().check_and_update_cache(request, input_id)
        else:
            super().allocate(request, input_id)
        self._entered.setdefault(request.request_id, set()).add(content)

    def free(self, request: Request) -> None:
        """As the base class. During a step, the items that this step entered for the request leave the plan."""
        super().free(request)
        entered = self._entered.pop(request.request_id, None)
        if entered:
            held = self.cached
            self._withdrawn |= {content for content in entered if held.get(content) == set()}

    def get_freed_mm_hashes(self) -> list[str]:
        """As the base class. The plan of the step is final from here on."""
        self._entered.clear()
        return super().get_freed_mm_hashes()

    def reset(self) -> None:
        """As the base class."""
        super().reset()
        self._entered.clear()
        self._withdrawn.clear()

    def _is_withdrawn(self, request: Request, input_id: int) -> bool:
        """Whether the input's content has an entry that is not encoded."""
        content = identifier_of(request, input_id)
        if content not in self._withdrawn:
            return False
        if content in self.num_embeds_by_hash:
            return True
        self._withdrawn.discard(content)  # it was evicted
        return False
