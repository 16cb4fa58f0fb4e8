"""Refactorings of the scheduler and its queue that change nothing that they do."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

SCHEDULER = Place("vllm.v1.core.sched.scheduler:Scheduler")
FIRST_COME = Place("vllm.v1.core.sched.request_queue:FCFSRequestQueue")


@SCHEDULER.changed(
    "schedule",
    "$victim in scheduled_running_reqs",
    "any(planned is $victim for planned in scheduled_running_reqs)",
)
def victim_is_looked_for_by_identity() -> None:
    """The loop over the planned requests is written out."""


@SCHEDULER.changed(
    "_try_schedule_encoder_inputs",
    "if num_new_tokens == 0 or not $request.has_encoder_inputs: $nothing",
    "if not (num_new_tokens and $request.has_encoder_inputs): $nothing",
)
def condition_is_turned_around() -> None:
    """The first condition is written the other way round."""


@SCHEDULER.changed(
    "_preempt_request",
    "self.encoder_cache_manager.free($request)\nself._pending_encoder_input_ids.pop($request.request_id, None)",
    "self._pending_encoder_input_ids.pop($request.request_id, None)\nself.encoder_cache_manager.free($request)",
)
def independent_statements_change_places() -> None:
    """Pending inputs are forgotten before the references are dropped."""


@FIRST_COME.changed(
    "prepend_requests",
    "self.extendleft($requests)",
    "for request in $requests: self.appendleft(request)",
)
def requests_are_prepended_one_by_one() -> None:
    """A loop prepends the requests."""


@FIRST_COME.broken("remove_requests", since=PUT_BACK)
def requests_are_removed_by_a_rotation(released: Any, queue: Any, requests: Any) -> None:
    """Each request is taken from the front, and put to the back unless it is to go."""
    gone = {id(request) for request in requests}
    for _ in range(len(queue)):
        request = queue.popleft()
        if id(request) not in gone:
            queue.append(request)
