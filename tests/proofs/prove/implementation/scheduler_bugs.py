"""Bugs in the tensor code of the scheduler."""

from __future__ import annotations

from tests.proofs.prove.implementation.bug import Bug

from cacheimpl.scheduler import connector, lines, plans, requests, single, transfers

NAME = "scheduler"
TWO, ONE, GRAMMARS, CONNECTOR, RESET_RUNNING, _, MOVED, IN_STEP, LOAD_ENDS, STEP_ENDS, TWO_MOVED = range(11)
"""Shapes: two requests; one; grammars; an encoder connector; one, and all that run are preempted; one whose KV is
loaded and sent; one whose step loads; both where a failed load ends the request; two whose KV is loaded and sent."""
ADD, ABORT, UPDATE, PREEMPT = "equal/add", "equal/abort", "equal/update", "equal/reset_running"

BUGS = (
    Bug(
        requests.add,
        "is_row(state.gone, request) & ~present & fits",
        "is_row(state.gone, request) & fits",
        NAME,
        ADD,
        TWO,
    ),
    Bug(
        requests.has_arrived,
        "queued(state.waiting) | queued(state.running) | state.queued | state.gone",
        "queued(state.waiting) | queued(state.running) | state.queued",
        NAME,
        ADD,
        TWO,
    ),
    Bug(lines.behind_equals, "turns + count", "turns - count", NAME, ADD, TWO),
    Bug(lines._merged, "torch.where(members, ranks, OUTSIDE)", "ranks", NAME, ADD, TWO),
    Bug(requests.arrived, "joining & config.grammars", "joining & ~config.grammars", NAME, ADD, GRAMMARS),
    Bug(
        requests.compiled,
        "~is_row(state.compiling, request)",
        "is_row(state.compiling, request)",
        NAME,
        "equal/compile",
        GRAMMARS,
    ),
    Bug(requests.reset_prefix_cache, "state._replace(kv=kv)", "state", NAME, "equal/reset_prefix_cache", TWO),
    Bug(
        requests.reset_encoder_cache, "state._replace(encoder=encoder)", "state", NAME, "equal/reset_encoder_cache", TWO
    ),
    Bug(requests.aborted, "without(state.waiting, leaving)", "state.waiting", NAME, ABORT, ONE),
    Bug(requests.aborted, "departed(voided(state, leaving), leaving)", "departed(state, leaving)", NAME, ABORT, ONE),
    Bug(requests.departed, "state.produced.masked_fill(leaving, 0)", "state.produced", NAME, ABORT, ONE),
    Bug(requests.departed, "state.leaving | leaving", "state.leaving", NAME, ABORT, ONE),
    Bug(plans.voided, "state.void | $x", "$x", NAME, ABORT, ONE),
    Bug(requests.update, "plan.reached >= config.ends", "plan.reached > config.ends", NAME, UPDATE, ONE),
    Bug(requests.update, "plan.reached - config.prompts", "plan.reached", NAME, UPDATE, ONE),
    Bug(
        requests.executed,
        "known_length(config, state) + constant(1, accepted.device)",
        "known_length(config, state)",
        NAME,
        UPDATE,
        ONE,
    ),
    Bug(requests.executed, "samples & ~state.void[0]", "samples", NAME, UPDATE, ONE),
    Bug(
        single.set_back,
        "torch.where(victims, 0, state.computed)",
        "state.computed",
        NAME,
        "form/reset_running",
        RESET_RUNNING,
    ),
    Bug(single.set_back, "without(state.running, victims)", "state.running", NAME, PREEMPT, RESET_RUNNING),
    Bug(
        connector.bring_output,
        "torch.where(phase == EXPECTED, arrived, state.remote)",
        "arrived",
        NAME,
        "equal/bring_output",
        CONNECTOR,
    ),
    Bug(connector.lose_output, "with_phase(state, content, NOT_REMOTE)", "state", NAME, "equal/lose_output", CONNECTOR),
    Bug(transfers.finish_load, "phase == ABANDONED", "phase == LOADED", NAME, "equal/finish_load", MOVED),
    Bug(
        transfers.finish_load,
        "with_phase($x, request, loading, LOADED, tokens)",
        "with_phase($x, request, loading, LOADING, tokens)",
        NAME,
        "equal/finish_load",
        MOVED,
    ),
    Bug(transfers.finish_load, "loading | abandoned", "loading", NAME, "equal/finish_load", TWO_MOVED),
    Bug(transfers.freed, "only(config, condition, request)", "request[None]", NAME, "equal/finish_send", MOVED),
    Bug(
        transfers.with_phase,
        "is_row(state.transfer, request) & condition",
        "condition.expand(state.transfer.shape)",
        NAME,
        "equal/finish_send",
        TWO_MOVED,
    ),
    Bug(
        transfers.whole_tokens,
        "torch.maximum(row(state.kv.computed, request), brought)",
        "brought",
        NAME,
        "equal/fail_load",
        MOVED,
    ),
    Bug(
        transfers.whole_tokens,
        "torch.minimum(blocks * config.block_size, row(state.brought, request))",
        "blocks * config.block_size",
        NAME,
        "equal/fail_load",
        MOVED,
    ),
    Bug(transfers.fail_load, "without(state.waiting, leaving)", "state.waiting", NAME, "equal/fail_load", LOAD_ENDS),
    Bug(transfers.gone_back, "state._replace(kv=kv)", "state", NAME, "equal/fail_step", IN_STEP),
    Bug(
        transfers.failed_step,
        "torch.where(mine, tokens, after.computed)",
        "after.computed",
        NAME,
        "equal/fail_step",
        IN_STEP,
    ),
    Bug(transfers.failed_step, "$turn & ~row(state.void[0], request)", "$turn", NAME, "equal/fail_step", IN_STEP),
    Bug(transfers.failed_step, "after._replace(encoder=encoder)", "after", NAME, "equal/fail_step", STEP_ENDS),
)
