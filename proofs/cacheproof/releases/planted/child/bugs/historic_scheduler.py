"""Historic bugs in the scheduler, and in what it does with blocks and items."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

SCHEDULER = Place("vllm.v1.core.sched.scheduler:Scheduler")
FIRST_COME = Place("vllm.v1.core.sched.request_queue:FCFSRequestQueue")


@SCHEDULER.changed(
    "_try_schedule_encoder_inputs",
    "$item in mm_hashes_to_schedule",
    "False",
    fixed="#23544",
)
def repeated_item_is_charged_twice() -> None:
    """An item that a request repeats is encoded and charged once for each occurrence in a step."""


@SCHEDULER.broken("_try_schedule_encoder_inputs", since=PUT_BACK, until=PUT_BACK, fixed="#51603", reported="#40707")
def chunk_before_an_item_is_aligned(
    released: Any, scheduler: Any, request: Any, computed: int, tokens: int, *given: Any, **named: Any
) -> Any:
    """A chunk that the encoder has cut is aligned down, if need be to nothing and in every step."""
    items, left, *others = released(request, computed, tokens, *given, **named)
    if scheduler.need_mamba_block_aligned_split:
        left = scheduler._mamba_block_aligned_split(request, left, computed - request.num_computed_tokens)
    return (items, left, *others)


@SCHEDULER.changed(
    "schedule",
    "$victim in scheduled_running_reqs",
    "False",
    fixed="#23713",
    reported="#23347",
)
def victim_stays_planned() -> None:
    """A request that is preempted in a step stays in the plan of that step."""


@SCHEDULER.changed(
    "schedule",
    "if $victim < req_index: req_index -= 1",
    "pass",
    fixed="#49206",
    reported="#49097",
)
def next_request_is_skipped() -> None:
    """If an earlier running request is preempted by priority, the next request is skipped in that step."""


@SCHEDULER.changed(
    "_preempt_request",
    "$request.num_stale_output_tokens = $request.num_in_flight_tokens",
    "$request.num_stale_output_tokens = 0",
    fixed="#48245",
    reported="#41190",
)
def late_output_counts_again() -> None:
    """Output that was in flight at a preemption counts against the placeholders of the resumed request."""


@SCHEDULER.changed(
    "schedule",
    "if $request.has_encoder_inputs: $items.free($request)",
    "pass",
    fixed="#31857",
)
def waiting_request_keeps_items() -> None:
    """A waiting request that gets no blocks keeps its references to the items that it was admitted with."""


@SCHEDULER.changed(
    "_free_request",
    "self.encoder_cache_manager.free($request)",
    "None if $request.status == RequestStatus.FINISHED_ABORTED else self.encoder_cache_manager.free($request)",
    fixed="#12545",
)
def aborted_request_keeps_items() -> None:
    """An aborted request keeps its references to items."""


@SCHEDULER.changed(
    "schedule",
    "$computed + padded_num_tokens + $sampled <= self.max_model_len",
    "True",
    fixed="#53962",
    reported="#50342",
)
def padding_passes_the_models_length() -> None:
    """A request that is padded with drafts can pass the model's length."""


@SCHEDULER.changed(
    "schedule",
    "scheduled_spec_decode_tokens.pop($victim, None)",
    "None",
    fixed="#28558",
)
def victim_keeps_scheduled_drafts() -> None:
    """The drafts of a request that is preempted by priority in a step stay in the plan of that step."""


@SCHEDULER.changed(
    "_preempt_request",
    "if $request.spec_token_ids: $request.spec_token_ids = []",
    "pass",
    fixed="#30916",
)
def preempted_request_keeps_drafts() -> None:
    """A preempted request keeps the drafts that were proposed for it, and a later step can schedule them."""


@SCHEDULER.changed(
    "schedule",
    "$request.num_computed_tokens + 2 - $request.num_output_placeholders",
    "$request.num_computed_tokens + 1",
    fixed="#29542",
)
def draft_placeholders_count_as_output() -> None:
    """Ahead of its output, a request counts as finished although its drafts may still be rejected."""


@SCHEDULER.changed(
    "_free_encoder_inputs",
    "$request.num_computed_tokens - $request.num_output_placeholders",
    "$request.num_computed_tokens",
    fixed="#45347",
    reported="#38551",
)
def items_are_freed_by_optimistic_progress() -> None:
    """An item is released although rejected drafts can move the request back to it."""


@SCHEDULER.broken("_update_after_schedule", since=PUT_BACK, fixed="#38907", reported="#38551")
def items_are_freed_when_scheduled(released: Any, scheduler: Any, planned: Any) -> Any:
    """An item is released when its last token is scheduled, not when it is computed."""
    released(planned)
    for name in planned.num_scheduled_tokens:
        scheduler._free_encoder_inputs(scheduler.requests[name])


@SCHEDULER.changed(
    "_try_schedule_encoder_inputs",
    "$computed < start_pos",
    "True",
    fixed="#11895",
    also=("_reserve_prefill_lookahead", "max($tokens, 0)", "$tokens"),  # takes a negative number as none since then
)
def cached_prefix_ends_inside_an_item() -> None:
    """If a cached prefix ends inside an item that is not available, a negative number of tokens is scheduled."""


@SCHEDULER.changed(
    "_try_schedule_encoder_inputs",
    "$computed <= start_pos",
    "$computed < start_pos",
    fixed="#52412",
    reported="#52306",
)
def chunk_that_begins_at_an_item_splits_it() -> None:
    """A chunk that begins exactly at an item splits it although items are not to be split."""


@SCHEDULER.changed(
    "_try_schedule_encoder_inputs",
    "max(0, start_pos - ($computed + shift_computed_tokens))",
    "max(0, start_pos - $computed)",
    fixed="#34220",
    reported="#32469",
    needs="drafts that read ahead of the target, as EAGLE's",
)
def rollback_ignores_the_read_ahead() -> None:
    """A chunk that is rolled back before an item still lets the drafter read the item."""


@SCHEDULER.changed(
    "reset_prefix_cache",
    "drop_stale_output=True",
    "drop_stale_output=False",
    fixed="#46066",
)
def reset_delivers_late_output() -> None:
    """After a reset that preempts running requests, their output in flight is still delivered."""


@FIRST_COME.changed(
    "prepend_requests",
    "self.extendleft($requests)",
    "self.extendleft(reversed($requests))",
    fixed="#32173",
    reported="#27441",
)
def skipped_requests_turn_around() -> None:
    """Requests that are skipped in a step are queued in reverse order."""


@SCHEDULER.changed(
    "_free_request_blocks",
    "self._request_blocks_can_be_freed($request)",
    "True",
    fixed="#45357",
)
def blocks_are_freed_during_a_transfer() -> None:
    """Blocks are freed while a transfer or a step in flight can still write them."""


@SCHEDULER.changed(
    "schedule",
    "if not self._request_blocks_can_be_freed($victim): break",
    "pass",
    fixed="#49675",
    reported="vllm-ascend#16315",
)
def preemption_that_frees_nothing_goes_on() -> None:
    """All running requests are preempted one by one although their blocks cannot be freed in this step."""
