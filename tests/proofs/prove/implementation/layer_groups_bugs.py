"""Bugs in the tensor code of layer groups."""

from __future__ import annotations

from tests.proofs.prove.implementation.bug import Bug

from cacheimpl.layer_groups import execution, operations, prefix, queue, releasing, slots

NAME = "layer_groups"
CHUNKS, STATES, SHARED, HALVES, AHEAD, COMMITTED = 0, 1, 2, 3, 4, 7
"""Shapes: chunks; states; two requests; blocks of two tokens; two steps in flight; commits and releases of states."""
FORM, FREE, ALLOCATE = "form/free_request", "equal/free_request", "equal/allocate_slots"
COMMIT, FIND, RESET = "equal/commit", "equal/get_computed_blocks", "equal/reset_prefix_cache"

BUGS = (
    Bug(queue.let_go, "pool.head - front.cumsum(0)", "pool.head - front.cumsum(0) + 1", NAME, FORM),
    Bug(prefix.look_up, "config.prefixes < prompt", "config.prefixes <= prompt", NAME, FIND),
    Bug(queue.let_go, "$x + useful.cumsum(0) - 1", "$x + useful.cumsum(0)", NAME, FORM),
    Bug(queue.let_go, "(freed & cached).flip(1).flatten()", "(freed & cached).flatten()", NAME, FORM),
    Bug(queue.let_go, "(useless.flatten(), flat)", "(useless.flip(1).flatten(), backwards)", NAME, FREE),
    Bug(queue.let_go, "freed & ~cached", "freed", NAME, FREE),
    Bug(queue.let_go, "pool.free + came + useful.sum()", "pool.free + came", NAME, FORM),
    Bug(queue.let_go, "-its.flatten().long()", "0 * its.flatten().long()", NAME, FORM),
    Bug(
        queue.let_go,
        "references.index_select(0, flat) == 0",
        "references.index_select(0, flat) <= 1",
        NAME,
        FREE,
        SHARED,
    ),
    Bug(queue.taken, "pool.head + wanted.cumsum(0) - 1", "pool.head + wanted.cumsum(0)", NAME, ALLOCATE),
    Bug(queue.taken, "wrapped(pool, pool.head + total)", "pool.head", NAME, ALLOCATE),
    Bug(queue.taken, "torch.where(wanted, $given, spare_block(pool))", "$given", NAME, ALLOCATE),
    Bug(queue.without_held, "pool.head + kept.cumsum(0) - 1", "pool.head + kept.cumsum(0)", NAME, ALLOCATE),
    Bug(queue.without_held, "offsets < pool.free", "offsets <= pool.free", NAME, ALLOCATE),
    Bug(slots.give_back, "places_of(config) < $first", "places_of(config) <= $first", NAME, ALLOCATE, HALVES),
    Bug(slots.give_back, "torch.where(gone, pool.null, table)", "table", NAME, ALLOCATE),
    Bug(
        slots.allocate_running,
        "end > row(config.lengths, request)",
        "end >= row(config.lengths, request)",
        NAME,
        ALLOCATE,
    ),
    Bug(
        slots.allocate_running,
        "row(pool.scheduled, request) + tokens",
        "row(pool.computed, request) + tokens",
        NAME,
        ALLOCATE,
        AHEAD,
    ),
    Bug(slots.allocate_new, "new.sum() + leaving.sum()", "new.sum()", NAME, ALLOCATE, SHARED),
    Bug(slots.allocate_new, "torch.maximum(first, counts)", "counts", NAME, ALLOCATE),
    Bug(slots.allocate_new, "adopted & done", "adopted", NAME, ALLOCATE, SHARED),
    Bug(slots.has_room, "needed <= pool.free", "needed < pool.free", NAME, ALLOCATE),
    Bug(slots.with_slots, "write.put(pool.carried, blocks, nothing)", "pool.carried.clone()", NAME, ALLOCATE),
    Bug(slots.scheduled_to, "flying + 1", "flying", NAME, ALLOCATE),
    Bug(prefix.look_up, "there.all(0)", "there.any(0)", NAME, FIND, STATES),
    Bug(prefix.first_copies, "pool.stamp[:-1] << bits_of(pool)", "0 * pool.stamp[:-1]", NAME, FIND, STATES),
    Bug(prefix.hits, "places < counts[:, None]", "places <= counts[:, None]", NAME, ALLOCATE),
    Bug(execution.commit, "torch.nn.functional.pad(ends[1:], (0, 1))", "ends", NAME, "form/commit"),
    Bug(execution.commit, "known & (flying > 0)", "known", NAME, COMMIT),
    Bug(execution.register_full, "table != pool.null", "table >= 0", NAME, COMMIT, COMMITTED),
    Bug(execution.register_full, "(places + 1) * $size == end", "places * $size == end", NAME, COMMIT, COMMITTED),
    Bug(
        execution.register_full,
        "(pool.clock + 1).expand_as(blocks)",
        "pool.clock.expand_as(blocks)",
        NAME,
        "form/commit",
    ),
    Bug(execution.executed, "(start == loaded)", "(start >= loaded)", NAME, COMMIT, AHEAD),
    Bug(execution.executed_all, "flying > step", "flying >= step", NAME, FREE, COMMITTED),
    Bug(execution._write_blocks, "places < full[:, None]", "places <= full[:, None]", NAME, COMMIT, HALVES),
    Bug(execution._write_states, "slots_of(config, end) - 1", "slots_of(config, end) - 2", NAME, COMMIT, COMMITTED),
    Bug(releasing.free_request, "row(pool.scheduled, request) > 0", "row(pool.scheduled, request) >= 0", NAME, FREE),
    Bug(releasing.free_request, "pool.null.expand_as(table)", "table", NAME, FORM),
    Bug(
        releasing.reset_prefix_cache,
        "(pool.references[:-1] > 0).any()",
        "(pool.references[:-1] > 0).all()",
        NAME,
        RESET,
    ),
    Bug(releasing.new_step, "write.fill(pool.this_step, 0)", "pool.this_step", NAME, "equal/new_step", STATES),
    Bug(operations.get_computed_blocks, "1 + counts.cumsum(0) - counts", "1 + counts.cumsum(0)", NAME, FIND),
    Bug(operations.allocate_slots, "torch.where(runs, 0, found)", "found", NAME, ALLOCATE),
)
