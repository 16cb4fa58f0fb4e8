"""The released schedulers: the table of rules with some replaced, over the caches of their time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cachespec.encoder_cache import PER_REQUEST, SHARED, SHARED_BY_COUNT, SHARED_WITH_RESET, by_model
from cachespec.kernel import Map, Operation, Transitions, Variant, with_fields
from cachespec.kv_blocks.eras import K0B, K1_QUEUED, K1B_QUEUED, K2
from cachespec.scheduler import (
    era_admission,
    era_alignment,
    era_arrivals,
    era_blocks,
    era_drafts,
    era_early,
    era_early_loads,
    era_encoder_decoder,
    era_fences,
    era_loads,
    era_placeholders,
    era_readiness,
    era_rounds,
    era_rules,
    era_sessions,
    era_unanswered,
    remote,
    requests,
    rounds,
    transfers,
)
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.environment import calls
from cachespec.scheduler.era_states import start_over
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import (
    Abort,
    Add,
    BringOutput,
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    LoseOutput,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import State, View
from cachespec.scheduler.view import seen
from cachespec.scheduler.work import by_request, normal

SchedulerVariant = Variant[Config, State, View]
SchedulerTransitions = Transitions[Config, State]


def with_connector(rules: Table) -> SchedulerTransitions:
    """The same, with the ends of loads as they are from 0.20.2 on."""
    return {
        **following(rules),
        FinishLoad: lambda config, state, op: era_loads.finish_load(rules, config, state, op.request),
        FailLoad: lambda config, state, op: era_loads.fail_load(rules, config, state, op.request, op.blocks),
        FailStep: lambda config, state, op: era_loads.fail_step(rules, config, state, op.request, op.blocks),
    }


def with_fences(rules: Table) -> SchedulerTransitions:
    """The same, with the ends of sends as they are in 0.33.0."""
    return {
        **with_connector(rules),
        FinishSend: lambda config, state, op: era_fences.finish_send(rules, config, state, op.request),
    }


NO_MARKS: Mapping[str, object] = {}


def following(rules: Table) -> SchedulerTransitions:
    """The transitions by this table of rules."""
    return {
        Add: lambda config, state, op: requests.add(rules, config, state, op.request),
        Compile: lambda config, state, op: requests.compiled(state, op.request),
        Schedule: lambda config, state, op: rounds.run(rules, config, state),
        Update: lambda config, state, op: requests.update(rules, config, state, op.accepted),
        Abort: lambda config, state, op: requests.abort(rules, config, state, op.request),
        FinishLoad: lambda config, state, op: transfers.finish_load(rules, config, state, op.request),
        FailLoad: lambda config, state, op: transfers.fail_load(rules, config, state, op.request, op.blocks),
        FailStep: lambda config, state, op: transfers.fail_step(rules, config, state, op.request, op.blocks),
        FinishSend: lambda config, state, op: transfers.finish_send(rules, config, state, op.request),
        BringOutput: lambda config, state, op: remote.bring(config, state, op.content),
        LoseOutput: lambda config, state, op: remote.lose(config, state, op.content),
        ResetPrefixCache: lambda config, state, op: requests.reset_blocks(rules, config, state),
        ResetRunning: lambda config, state, op: requests.reset_running(rules, config, state),
        ResetEncoderCache: lambda config, state, op: requests.reset_items(rules, config, state),
    }


def scheduler(
    tag: str,
    title: str,
    rules: Table,
    differences: Mapping[type[Operation], str],
    exempt: Mapping[str, str] | None = None,
    view: Callable[[Config, State], View] | None = None,
    wrapped: Callable[[SchedulerTransitions], SchedulerTransitions] = dict,
    alphabet: Callable[[Config, State], Iterable[Operation]] = calls,
    marks: Mapping[str, object] = NO_MARKS,
    ends: Callable[[Table], SchedulerTransitions] = following,
) -> SchedulerVariant:
    """A scheduler that follows these rules. `wrapped` adds to its transitions, which `ends` makes of the rules.

    `marks`: further maps of its state, by name, each with its annotation; they begin empty.
    """
    state = with_fields(State, encoder=rules.encoder.state, **marks)
    return Variant(
        tag=tag,
        title=title,
        state=state,
        initial=lambda config, containers: start_over(state, rules, config, containers, tuple(marks)),
        transitions=wrapped(ends(rules)),
        view=view or (lambda config, state: seen(rules, config, state)),
        alphabet=alphabet,
        normal=normal,
        differences=differences,
        start_differs=rules.kv.start_differs,
        exempt=exempt or {},
        rules=rules,
        following=lambda table: wrapped(ends(table)),
    )


ARRIVED: Mapping[str, object] = {"arrived": Map[int, int]}
MORTAL: Mapping[str, object] = {"dead": Map[int, int]}
IDLE: Mapping[str, object] = {"idle": Map[int, int]}
UNANSWERED: Mapping[str, object] = {"unanswered": Map[int, int]}
early = partial(
    scheduler,
    wrapped=era_placeholders.ended_by_assertion,
    alphabet=era_placeholders.calls_of_the_living,
    marks={**MORTAL, "named": Map[int, int]},
)
"""As `scheduler`, of those that keep the names of the requests that are in a step, and that an error can end."""

NO_CONNECTOR: Mapping[type[Operation], str] = dict.fromkeys(
    (FinishLoad, FailLoad, FailStep, FinishSend, BringOutput, LoseOutput), "connectors are not modelled"
)
NO_RESET: Mapping[type[Operation], str] = {
    **dict.fromkeys((ResetEncoderCache, ResetRunning), "not there yet"),
    **NO_CONNECTOR,
}
NO_FAILED_LOAD: Mapping[type[Operation], str] = dict.fromkeys(
    (ResetEncoderCache, ResetRunning, FailLoad, FailStep, BringOutput, LoseOutput), "not there yet"
)
NO_GRAMMAR: Mapping[type[Operation], str] = {**NO_RESET, Compile: "not there yet"}
OF_ENTRIES = {rule: PER_REQUEST.exempt[rule] for rule in ("ENC-2/freeable", "ENC-3", "ENC-4", "ENC-5")}
EARLY_DRAFTS = {"SCH-2/once": "placeholders for drafts are proposed with the step that samples before them"}
NOT_AWAITED = {"SCH-17": "the encoder connector is asked what it has, and not what is on its way"}
RELEASED_LATE = {"ENC-6/released": "the count by which items are released omits tokens sampled in flight"}

QUEUED = "C-ENC-11, C-SCH-5: queues every request whose prompt is shorter than the model's length"
REGISTERED_EARLY = "blocks are registered when scheduled (C-KV-6, see kv_blocks)"
SPLIT_ITEM = "C-ENC-15: a chunk that begins at an item may split it"
FEW_ADAPTERS = "C-SCH-18: running requests that get nothing in a step do not count for the limit of adapters"
WHOLE_SEQUENCE = "a request is admitted only if blocks suffice for all its tokens"
PLACEHOLDERS = "C-SCH-30: steps ahead of their output are planned with placeholders for drafts"
LATE_DRAFTS = "C-SCH-34: a preempted request takes the drafts behind late output"
KEPT_BEHIND = "C-SCH-40: where KV comes from outside, blocks are freed behind the steps in flight"
LEAVES_ROOM = "C-SCH-42: a prompt of a pooling model leaves room for an output token that there is not"
FOR_COMPUTE = "C-ENC-29: an encoder output that the connector has waits for compute budget"
KEEPS_STATES = {"SCH-8/reach": "a chunk stops at the last multiple at which a state is kept, before the prefill ends"}
OWN_BLOCKS = (
    "C-SCH-35: a failed load that begins again leaves its own blocks free, too; "
    "C-SCH-50: a load leaves blocks free for its own drafts"
)

RELEASED_RULES = RULES._replace(
    accepts=era_rules.shorter_than_model,
    offered=era_rules.offered_as_is,
    is_count=era_rules.is_not_zero,
    passed_over=era_rules.pins_kept,
)
"""What all of them have, unless they say otherwise."""

S1_RULES = RELEASED_RULES._replace(
    kv=K0B,
    encoder=PER_REQUEST,
    output_key=by_request,
    serve_running=era_early.serve_unnamed,
    admit_waiting=era_readiness.asserting_adapters(rounds.admit_waiting),
    may_join=era_readiness.may_join_scheduled,
    passed_by=era_readiness.stopped_by_adapter,
    wanted=era_rules.wanted_of_all,
    fit_item=era_rules.fit_item_by_request,
    lose=era_rules.lose_blocks_only,
    cached_prefix=era_rules.found_block_back,
    offered_whole=era_rules.offered_as_is,
    turned_down=era_rules.head_of_line,
    after_round=era_early.named_in_step,
    executed=era_early.executed_by_name,
    leave=era_early.leave_unnamed,
    abort=era_early.leave_unnamed,
)

S1_DIFFERENCES: Mapping[type[Operation], str] = {
    Add: QUEUED,
    Schedule: "C-ENC-3: two grants of a pass may use the same slots; C-ENC-5: a preempted request keeps its items; "
    f"a full hit gives a block back; a request in flight is skipped; {FEW_ADAPTERS}; " + REGISTERED_EARLY,
    Update: "releases the items that the cache lists; "
    "C-SCH-21: output of an earlier run of a request counts for its next",
}

S1 = early("S1", "scheduler-2025-02", S1_RULES, S1_DIFFERENCES, OF_ENTRIES).lacking(NO_GRAMMAR)

S0 = early(
    "S0",
    "scheduler-2025-01",
    S1_RULES._replace(fit_item=era_rules.fit_item_before_11895),
    {**S1_DIFFERENCES, Schedule: "C-SCH-1: a blocked item leaves its start minus the computed tokens; otherwise as S1"},
    OF_ENTRIES,
).lacking(NO_GRAMMAR)

SHARING_RULES = RELEASED_RULES._replace(
    fit_item=era_rules.fit_item_pinning,
    victim=era_arrivals.least_important,
    joined=era_rules.joined_last,
    lose=era_rules.lose_both,
    lose_at_reset=era_rules.lose_both,
    offered_whole=era_rules.whole_or_as_is,
    allocated=era_blocks.allocated_up_to_known,
    is_reserved=era_loads.nothing_reserved,
)
"""What those have whose requests share encoder outputs, from S2 on."""

S2_RULES = SHARING_RULES._replace(
    kv=K1_QUEUED,
    encoder=SHARED,
    serve_running=era_rounds.serve_by_index,
    admit_waiting=era_readiness.asserting_adapters(era_rounds.admit_and_turn_round),
    may_join=era_readiness.may_join_scheduled,
    wanted=era_placeholders.wanted_up_to_model,
    cached_prefix=era_early_loads.found_or_asked,
    load=era_early_loads.load_and_pass,
    turned_down=era_encoder_decoder.skipped_or_dead,
    after_round=era_placeholders.kept_where_counted,
    executed=era_early_loads.executed_or_finished_again,
    leave=era_placeholders.leave,
    abort=era_early_loads.withdrawn_at_once,
)

S2 = scheduler(
    "S2",
    "scheduler-2025-10",
    S2_RULES,
    {
        Add: QUEUED,
        Schedule: "C-ENC-9: items are released before the plan is executed; C-ENC-10: pins of a failed attempt stay; "
        + SPLIT_ITEM
        + "; a request preempted by one behind it stays in the plan, and the next one is skipped; "
        f"C-SCH-13: skipped requests are queued in reverse order; {FEW_ADAPTERS}; " + REGISTERED_EARLY,
        Update: "output in flight of a preempted request is delivered; "
        "C-SCH-14: output without a placeholder ends the engine",
    },
    wrapped=lambda transitions: era_placeholders.ended_by_assertion(era_arrivals.with_arrivals(transitions)),
    alphabet=era_placeholders.calls_of_the_living,
    exempt={"SCH-14/arrived": "what a load has brought is counted when its request is looked at again"},
    marks={"placeholders": Map[int, int], "dead": Map[int, int], "arrived": Map[int, int]},
    view=era_early_loads.seen_with_loads(S2_RULES),
).lacking(NO_FAILED_LOAD)

LOADS: Mapping[type[Operation], str] = {
    FinishLoad: "loaded blocks are registered when the request is looked at again",
    FailLoad: "a request of whose load nothing is left gives its blocks back, and may load again; "
    "if it has shared them meanwhile, those that run with them are set back, too",
    FailStep: "C-KV-6: the blocks of the failed load stay registered; requests that share them are set back, too; "
    "C-SCH-36: the place of the dropped output is kept; C-SCH-37: output of steps behind the failed one counts",
}

S2B_RULES = SHARING_RULES._replace(
    kv=K1B_QUEUED,
    encoder=by_model(SHARED_WITH_RESET),
    serve_running=era_rounds.serve_and_restore_scheduled,
    admit_waiting=era_readiness.asserting_adapters(era_loads.admit_and_promote),
    may_join=era_readiness.may_join_scheduled,
    queued=era_sessions.queued_among_skipped,
    passed_by=era_readiness.skipped,
    ended=era_readiness.ended_after_least,
    accepts=era_sessions.input_is_shorter_than_model,
    leave=era_sessions.kept_for_next_turn,
    next_turn=era_sessions.next_turn_in_order,
    in_sight=era_unanswered.in_sight,
    wanted=era_rules.wanted_up_to_end,
    cached_prefix=era_loads.found_or_loaded,
    load=era_loads.load_and_skip,
    slots=era_blocks.slots_for_all,
    trimmed=era_alignment.aligned_by_count,
    turned_down=era_rules.stopped_or_freed,
    after_round=era_drafts.with_placeholders_proposed,
    executed=era_placeholders.asserting_positive(era_rules.executed_and_released_by_computed),
)

S2B = scheduler(
    "S2b",
    "scheduler-2026-05",
    S2B_RULES,
    {
        Add: QUEUED + "; C-SCH-19: a request whose grammar is not compiled is queued before those that have none",
        Schedule: f"{SPLIT_ITEM}; {WHOLE_SEQUENCE}; {FEW_ADAPTERS}; "
        "C-SCH-19: requests that were passed over are served before preempted ones; "
        f"preempting an unscheduled request skips the next one; {PLACEHOLDERS}; {FOR_COMPUTE}; {LEAVES_ROOM}; "
        + REGISTERED_EARLY,
        Update: "C-ENC-25: items are released by a count that includes steps in flight; "
        f"C-SCH-32: rejected drafts of an earlier run count for the next; {LATE_DRAFTS}; "
        "C-SCH-20: a request that reaches the model's length before `min_tokens` is never finished",
        **LOADS,
    },
    EARLY_DRAFTS | NOT_AWAITED | KEEPS_STATES,
    wrapped=lambda transitions: era_placeholders.ended_by_assertion(
        era_readiness.with_skipped_first(
            era_unanswered.while_kept(era_unanswered.is_not_gone, era_arrivals.with_arrivals(transitions))
        )
    ),
    alphabet=era_placeholders.calls_of_the_living,
    marks={**ARRIVED, **MORTAL, **IDLE, **UNANSWERED, "skipped": Map[int, int]},
    view=era_loads.seen_with_loads(S2B_RULES),
    ends=with_connector,
).lacking({ResetRunning: "not modelled: one output is dropped after it, the one in flight or the next (C-SCH-23)"})

S3_RULES = S2B_RULES._replace(
    kv=K2,
    encoder=by_model(SHARED_BY_COUNT),
    load=era_loads.load_reserving,
    wanted=era_rules.wanted_of_runner,
    serve_running=era_rounds.serve_and_restore,
    admit_waiting=era_admission.admit_delivered,
    step_done=era_fences.freed_behind,
    leave=era_fences.left_behind_steps,
    abort=era_fences.withdrawn_behind_steps,
    lose=era_admission.out_of_prompt(era_rules.lose_with_earlier),
    lose_at_reset=era_admission.out_of_prompt(era_rules.lose_and_drop),
    queued=era_sessions.queued_again,
    next_turn=era_sessions.next_turn_in_order,
    may_join=RULES.may_join,
    passed_by=RULES.passed_by,
    ended=RULES.ended,
    after_round=era_admission.with_prefilling,
    offered=era_rules.offered_alone_or_limited,
    fit_item=era_rules.fit_item_whole_first,
    trimmed=era_rules.not_negative,
    offered_whole=era_rules.whole_or_aligned,
    turned_down=era_rules.skipped_or_freed,
    executed=era_rules.executed_and_released_by_count,
)

S3 = scheduler(
    "S3",
    "scheduler-2026-11",
    S3_RULES,
    {
        Add: QUEUED,
        Schedule: "a waiting request that lacks an item is skipped and keeps its pins (C-ENC-10); "
        f"{WHOLE_SEQUENCE}; C-ENC-16: the threshold for long prompts may be shorter than an item; "
        "C-SCH-31: a request with one token left is padded with drafts; "
        f"C-SCH-33: a request whose output is in flight is passed over; {OWN_BLOCKS}; {PLACEHOLDERS}; "
        f"{KEPT_BEHIND}, and a request in such a step is not preempted; {FOR_COMPUTE}; " + REGISTERED_EARLY,
        Update: f"C-ENC-9: items are released by a count that includes steps in flight; {LATE_DRAFTS}; {KEPT_BEHIND}",
        Abort: KEPT_BEHIND,
        **LOADS,
    },
    RELEASED_LATE | EARLY_DRAFTS | KEEPS_STATES,
    wrapped=lambda transitions: era_loads.with_holders_first(
        era_unanswered.while_kept(era_unanswered.runs, era_arrivals.with_arrivals(transitions))
    ),
    marks={**ARRIVED, **IDLE, **UNANSWERED, "prefilling": Map[int, int], "fences": Map[int, int]},
    view=era_loads.seen_with_loads(S3_RULES),
    ends=with_fences,
)
