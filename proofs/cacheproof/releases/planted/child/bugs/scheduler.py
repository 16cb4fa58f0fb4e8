"""Bugs in the scheduler, and in what it asks while it plans a step."""

from __future__ import annotations

from typing import Any

from .declaring import Place, meanwhile

SCHEDULER = Place("vllm.v1.core.sched.scheduler:Scheduler", "vllm.v1.core.scheduler:Scheduler")
FIRST_COME = Place("vllm.v1.core.sched.request_queue:FCFSRequestQueue")
BY_PRIORITY = Place("vllm.v1.core.sched.request_queue:PriorityRequestQueue")
BLOCKS = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
ITEMS = Place("vllm.v1.core.encoder_cache_manager:EncoderCacheManager")
BY_QUEUES, STEPS_AHEAD, EARLY = "0.11.0", "0.33.0", "0.7.3"
"""From the first on there are queues by policy, and steps ahead of their output; from the next on, preempting is a
method by itself. Until the last, requests wait in one queue."""


@SCHEDULER.broken("_free_encoder_inputs", since=BY_QUEUES)
def items_are_not_released(released: Any, scheduler: Any, request: Any) -> Any:
    """Fully computed items keep their space."""


@SCHEDULER.broken("_free_encoder_inputs", since=BY_QUEUES)
def items_go_one_token_early(released: Any, scheduler: Any, request: Any) -> Any:
    """An item is released before its last token is computed."""
    request.num_computed_tokens += 1
    released(request)
    request.num_computed_tokens -= 1


@SCHEDULER.broken("_try_schedule_encoder_inputs")
def chunk_is_not_cut(
    released: Any, scheduler: Any, request: Any, computed: int, tokens: int, *given: Any, **named: Any
) -> Any:
    """An item without space does not cut the chunk before it."""
    answer = released(request, computed, tokens, *given, **named)
    return (answer[0], tokens, *answer[2:])


@SCHEDULER.broken("_try_schedule_encoder_inputs")
def encoder_budget_is_not_spent(
    released: Any, scheduler: Any, request: Any, computed: int, tokens: int, budget: int, *given: Any, **named: Any
) -> Any:
    """Encoding an item does not reduce the encoder's budget."""
    answer = released(request, computed, tokens, budget, *given, **named)
    return (*answer[:2], budget, *answer[3:])


@SCHEDULER.broken("_try_schedule_encoder_inputs", since=BY_QUEUES)
def next_item_is_computed_too(
    released: Any, scheduler: Any, request: Any, computed: int, tokens: int, *given: Any, **named: Any
) -> Any:
    """An item is encoded for a chunk that ends one token before it."""
    answer = released(request, computed, tokens + 1, *given, **named)
    return (answer[0], min(answer[1], tokens), *answer[2:])


@SCHEDULER.broken("schedule", since=BY_QUEUES)
def step_has_one_token_more(released: Any, scheduler: Any, *given: Any) -> Any:
    """A step has one token too many."""
    settings = scheduler.scheduler_config
    with (
        meanwhile(scheduler, max_num_scheduled_tokens=scheduler.max_num_scheduled_tokens + 1),
        meanwhile(settings, max_num_batched_tokens=settings.max_num_batched_tokens + 1),
    ):
        return released(*given)


@SCHEDULER.broken("schedule")
def one_place_more(released: Any, scheduler: Any, *given: Any) -> Any:
    """One request too many may run."""
    names = [name for name in ("max_num_running_reqs", "max_num_active_reqs") if hasattr(scheduler, name)]
    with meanwhile(scheduler, **dict.fromkeys(names, scheduler.max_num_running_reqs + 1)):
        return released(*given)


@SCHEDULER.broken("schedule")
def last_one_is_never_preempted(released: Any, scheduler: Any, *given: Any) -> Any:
    """The last admitted request is served first, and another one is preempted for it."""
    if len(scheduler.running) > 1:
        scheduler.running.insert(0, scheduler.running.pop())
    return released(*given)


@SCHEDULER.broken("schedule", since=BY_QUEUES)
def long_prompts_are_not_limited(released: Any, scheduler: Any, *given: Any) -> Any:
    """The limit for long prompts is ignored."""
    with meanwhile(scheduler.scheduler_config, long_prefill_token_threshold=0):
        return released(*given)


@SCHEDULER.broken("schedule", since=BY_QUEUES)
def prompts_are_cut(released: Any, scheduler: Any, *given: Any) -> Any:
    """Unchunked prompts are chunked."""
    with meanwhile(scheduler.scheduler_config, chunked_prefill_enabled=True, enable_chunked_prefill=True):
        return released(*given)


@SCHEDULER.broken("schedule", since=BY_QUEUES)
def items_are_split(released: Any, scheduler: Any, *given: Any) -> Any:
    """Unsplit items are split."""
    with meanwhile(scheduler.scheduler_config, disable_chunked_mm_input=False):
        return released(*given)


@SCHEDULER.broken("add_request", since=BY_QUEUES)
def who_arrives_is_first(released: Any, scheduler: Any, request: Any) -> Any:
    """An arriving request goes to the head of the queue."""
    released(request)
    if scheduler.scheduler_config.policy == "fcfs":
        scheduler.waiting.remove_request(request)
        scheduler.waiting.prepend_request(request)


@SCHEDULER.broken("add_request", until=EARLY)
def who_comes_is_first(released: Any, scheduler: Any, request: Any) -> Any:
    """An arriving request goes to the head of the queue."""
    released(request)
    scheduler.waiting.rotate(1)


@SCHEDULER.broken("_free_blocks", since=BY_QUEUES)
def blocks_are_kept(released: Any, scheduler: Any, request: Any) -> Any:
    """A finished or aborted request keeps its blocks."""
    del scheduler.requests[request.request_id]


@SCHEDULER.broken("update_from_output", since=BY_QUEUES)
def first_output_is_lost(released: Any, scheduler: Any, planned: Any, output: Any) -> Any:
    """If a step has more than two outputs, the first is lost."""
    if len(output.sampled_token_ids) > 2:
        output.sampled_token_ids[0] = []
    return released(planned, output)


@SCHEDULER.broken("reset_prefix_cache")
def reset_is_said_to_be_done(released: Any, scheduler: Any, *given: Any, **named: Any) -> Any:
    """A reset succeeds and resets nothing."""
    return True


@SCHEDULER.broken("_update_after_schedule", since=BY_QUEUES)
def one_token_less_is_computed(released: Any, scheduler: Any, planned: Any) -> Any:
    """From the fifth token on, one token fewer counts as computed than was scheduled."""
    released(planned)
    for name in planned.num_scheduled_tokens:
        if scheduler.requests[name].num_computed_tokens > 4:
            scheduler.requests[name].num_computed_tokens -= 1


@SCHEDULER.broken("_preempt_request", since=STEPS_AHEAD)
def preempted_goes_on(released: Any, scheduler: Any, request: Any, *given: Any, **named: Any) -> Any:
    """A preempted request keeps its count of computed tokens without their blocks."""
    computed = request.num_computed_tokens
    released(request, *given, **named)
    request.num_computed_tokens = computed


@SCHEDULER.broken("_preempt_request", since=STEPS_AHEAD)
def preempted_keeps_items(released: Any, scheduler: Any, request: Any, *given: Any, **named: Any) -> Any:
    """A preempted request keeps its items."""
    with meanwhile(scheduler, encoder_cache_manager=Nothing()):
        released(request, *given, **named)


@SCHEDULER.broken("_check_stop", until=EARLY)
def one_token_more_is_made(released: Any, scheduler: Any, request: Any) -> Any:
    """A request makes one output token too many."""
    request.max_tokens += 1
    try:
        return released(request)
    finally:
        request.max_tokens -= 1


@SCHEDULER.broken("_free_request", until=EARLY)
def finished_keeps_its_items(released: Any, scheduler: Any, request: Any) -> Any:
    """A finished or aborted request keeps its items."""
    with meanwhile(scheduler, encoder_cache_manager=Nothing()):
        released(request)


@FIRST_COME.broken("prepend_request", since=BY_QUEUES)
def preempted_goes_last(released: Any, queue: Any, request: Any) -> Any:
    """A preempted or skipped request goes to the end of the queue."""
    queue.append(request)


@BY_PRIORITY.broken("add_request", since=BY_QUEUES)
def priority_is_ignored(released: Any, queue: Any, request: Any) -> Any:
    """Requests are served in order of arrival, whatever their priority."""
    request.priority = 0
    released(request)


@BLOCKS.broken("allocate_slots", since=BY_QUEUES)
def last_block_is_never_given(released: Any, manager: Any, *given: Any, **named: Any) -> Any:
    """The last free block is never allocated."""
    queue = manager.block_pool.free_block_queue
    queue.num_free_blocks -= 1
    try:
        return released(*given, **named)
    finally:
        queue.num_free_blocks += 1


@BLOCKS.broken("get_computed_blocks", since=BY_QUEUES)
def first_hit_only(released: Any, manager: Any, request: Any, *given: Any, **named: Any) -> Any:
    """Only the first block of a shared prefix is used."""
    found, tokens, *rest = released(request, *given, **named)
    size = tokens // len(found.blocks[0]) if tokens else 0
    first = type(found)(tuple(blocks[:1] for blocks in found.blocks))
    return (first, min(tokens, size), *rest)


@ITEMS.broken("free_encoder_input", since=BY_QUEUES)
def items_stay_held(released: Any, manager: Any, request: Any, position: int) -> Any:
    """A released item stays held."""


@ITEMS.broken("get_freed_mm_hashes", since=BY_QUEUES)
def workers_are_not_told(released: Any, manager: Any) -> Any:
    """The workers get no list of evicted items."""
    released()
    return []


@ITEMS.broken("get_freed_ids", until=EARLY)
def workers_are_told_nothing(released: Any, manager: Any) -> Any:
    """The workers get no list of released items."""
    released()
    return []


@ITEMS.broken("get_freed_mm_hashes", since=BY_QUEUES)
def workers_are_told_but_the_first(released: Any, manager: Any) -> Any:
    """If a step evicts two items, the workers' list lacks the first."""
    evicted = released()
    return evicted[1:] if len(evicted) > 1 else evicted


class Nothing:
    """In the place of a cache of items, where nothing is to happen to it."""

    def free(self, request: Any) -> None:
        """What a request holds stays held."""
