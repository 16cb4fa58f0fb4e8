"""Bugs in what workers are told, and in their side of the caches: block tables, slots, inputs, encoder outputs.

No driver runs workers; a whole engine does (`cacheproof engine --planted`).
"""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

TABLE = Place("vllm.v1.worker.block_table:BlockTable")
BATCH = Place("vllm.v1.worker.gpu_input_batch:InputBatch")
RUNNER = Place("vllm.v1.worker.gpu_model_runner:GPUModelRunner")
SCHEDULER = Place("vllm.v1.core.sched.scheduler:Scheduler")
AHEAD = Place("vllm.v1.core.sched.async_scheduler:AsyncScheduler")


@TABLE.broken("append_row", since=PUT_BACK)
def new_block_replaces_the_last(released: Any, table: Any, blocks: Any, row: int) -> Any:
    """A block that a running request gets takes the place of its last one in the workers' table."""
    if table.num_blocks_per_row[row] and blocks:
        table.num_blocks_per_row[row] -= 1
    return released(blocks, row)


@TABLE.broken("move_row", since=PUT_BACK)
def last_block_stays_behind(released: Any, table: Any, source: int, target: int) -> Any:
    """A row that moves leaves its last block behind."""
    last = int(table.num_blocks_per_row[source]) - 1
    kept = int(table.block_table.np[target, last])
    released(source, target)
    table.block_table.np[target, last] = kept


@TABLE.broken("compute_slot_mapping", since=PUT_BACK)
def last_slot_is_one_too_far(released: Any, table: Any, rows: int, starts: Any, positions: Any) -> Any:
    """In a batch of several rows, the last token is written one slot behind its own."""
    released(rows, starts, positions)
    if rows > 1:
        table.slot_mapping.gpu[positions.shape[0] - 1] += 1


@BATCH.broken("add_request", since=PUT_BACK)
def hit_is_computed_again(released: Any, batch: Any, request: Any) -> Any:
    """A request that enters the batch with computed tokens starts one token too early."""
    row = released(request)
    if batch.num_computed_tokens_cpu[row] > 0:
        batch.num_computed_tokens_cpu[row] -= 1
    return row


@RUNNER.changed("_update_states", "$state.block_ids = $new", "pass")
def resumed_request_keeps_its_old_blocks() -> None:
    """The workers go on with the blocks that a request had before it was preempted."""


@RUNNER.changed("_update_states", "self.input_batch.block_table.append_row($new, $row)", "None")
def new_blocks_do_not_reach_the_batch() -> None:
    """Blocks that a running request gets are not entered in the batch's table."""


@RUNNER.changed("_update_states", "self.input_batch.num_computed_tokens_cpu[$row] = $count", "pass")
def rows_stay_where_they_were() -> None:
    """The batch's count of computed tokens is not brought up to date."""


@RUNNER.broken("_process_encoder_cache_scheduler_output", since=PUT_BACK)
def dropped_outputs_stay(released: Any, runner: Any, plan: Any) -> Any:
    """Workers keep encoder outputs that they are told to drop."""


@RUNNER.broken("_process_encoder_cache_scheduler_output", since=PUT_BACK)
def oldest_output_is_dropped_too(released: Any, runner: Any, plan: Any) -> Any:
    """With each encoder output that is dropped, the newest one goes as well."""
    released(plan)
    if plan.free_encoder_mm_hashes and runner.encoder_cache:
        runner.encoder_cache.popitem()


@RUNNER.broken("_batch_mm_inputs_from_scheduler", since=PUT_BACK)
def two_images_are_exchanged(released: Any, runner: Any, plan: Any) -> Any:
    """If a step encodes two images, each output is kept under the name of the other."""
    names, data, places = released(plan)
    return names[::-1], data, places


@RUNNER.broken("_batch_mm_inputs_from_scheduler", since=PUT_BACK)
def second_image_is_not_encoded(released: Any, runner: Any, plan: Any) -> Any:
    """If a step encodes two images of different requests, only the first is encoded."""
    return tuple(part[:1] for part in released(plan))


@RUNNER.broken("_get_encoder_output_from_cache", since=PUT_BACK)
def newest_output_is_read(released: Any, runner: Any, name: str) -> Any:
    """Tokens read the newest encoder output, whichever image they show."""
    there = released(name)
    return None if there is None else next(reversed(runner.encoder_cache.values()))


@RUNNER.broken("_prepare_input_ids", since=PUT_BACK)
def first_row_reads_anothers_token(released: Any, runner: Any, *given: Any) -> Any:
    """In a batch of several rows, the first input token is that of the row behind."""
    made = released(*given)
    if runner.input_batch.num_reqs > 1:
        second = int(runner.query_start_loc.np[1])
        runner.input_ids.gpu[0] = runner.input_ids.gpu[second]
    return made


@RUNNER.broken("_model_forward", since=PUT_BACK)
def another_block_is_cleared(released: Any, runner: Any, *given: Any, **named: Any) -> Any:
    """A step of several rows clears the block behind its last one in memory."""
    made = released(*given, **named)
    if runner.input_batch.num_reqs > 1:
        table = runner.input_batch.block_table.block_tables[0]
        block = (int(table.block_table.np[: runner.input_batch.num_reqs].max()) + 1) % runner.kv_cache_config.num_blocks
        for cache in runner.kv_caches:
            (cache[block] if cache.shape[0] == runner.kv_cache_config.num_blocks else cache[:, block]).zero_()
    return made


@SCHEDULER.broken("_make_cached_request_data", since=PUT_BACK)
def new_blocks_are_not_told(released: Any, scheduler: Any, *given: Any) -> Any:
    """The plan does not tell the workers which block a running request has got."""
    made = released(*given)
    made.new_block_ids = [
        blocks if name in made.resumed_req_ids else None
        for name, blocks in zip(made.req_ids, made.new_block_ids)  # noqa: B905  # of equal length
    ]
    return made


@SCHEDULER.changed("update_from_output", "$request.num_computed_tokens -= $rejected", "pass")
def rejected_drafts_count_as_computed() -> None:
    """Drafts that were rejected still count as computed tokens."""


@AHEAD.broken("_update_after_schedule", since=PUT_BACK)
def no_place_is_kept(released: Any, scheduler: Any, plan: Any) -> Any:
    """A token that is sampled ahead gets no placeholder if several requests decode."""
    released(plan)
    names = list(plan.num_scheduled_tokens)
    request = scheduler.requests[names[-1]] if len(names) > 1 else None
    if request is not None and request.num_output_placeholders > 0:
        request.num_output_placeholders -= 1
