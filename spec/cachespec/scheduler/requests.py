"""How requests come and go, and what the output of an executed plan changes."""

from __future__ import annotations

from cachespec.encoder_cache import Reset
from cachespec.kernel import ABSENT, DONE, PRESENT, TOO_LARGE, Code, Outcome
from cachespec.kv_blocks import ResetPrefixCache as ResetBlocks
from cachespec.scheduler.configuration import (
    Config,
    Request,
    encoder_config,
    final_length,
    has_grammar,
    is_behind,
    is_sent,
    is_turn,
    items_of,
    kv_config,
    later_turns,
)
from cachespec.scheduler.counts import known_length, rejected_drafts
from cachespec.scheduler.lines import left_out, placed
from cachespec.scheduler.parts import release, without_blocks, without_items, written
from cachespec.scheduler.rounds import set_back, voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import ABANDONED, LOADING, NO_TRANSFER, SENDING, Plan, Scheduled, State, Transfer
from cachespec.scheduler.work import with_outputs_cleared, with_rejected

Result = tuple[State, Outcome]


def is_live(state: State, request: Request) -> bool:
    """It waits or runs. SCH-6: never both."""
    return any(other == request for other in (*state.waiting, *state.running))


def has_arrived(state: State, request: Request) -> bool:
    """Whether the request is known: it waits, runs or is over, or it is a turn that waits for the one before."""
    return is_live(state, request) or state.queued.has(request) or state.gone.has(request)


def is_awaited(config: Config, state: State, request: Request) -> bool:
    """Whether the request is the next turn of a session that is between two turns."""
    return is_turn(config, request) and state.gone.has(request - 1) and not has_arrived(state, request)


def add(rules: Table, config: Config, state: State, request: Request) -> Result:
    """SCH-9: what can never be served is not queued."""
    if is_live(state, request) or state.queued.has(request) or state.gone.has(request):
        return state, PRESENT
    if is_turn(config, request) and not has_arrived(state, request - 1):
        return state, ABSENT
    if not rules.accepts(config, request):
        return state, TOO_LARGE
    if is_turn(config, request) and not state.gone.has(request - 1):
        return state._replace(queued=state.queued.set(request, 1)), DONE
    state = state._replace(waiting=placed(config, state.waiting, request))
    if has_grammar(config, request):
        state = state._replace(compiling=state.compiling.set(request, 1))
    return rules.queued(config, state, request), DONE


def compiled(state: State, request: Request) -> Result:
    """SCH-13: the grammar of its output is there, so the request may be admitted."""
    if not state.compiling.has(request):
        return state, ABSENT
    return state._replace(compiling=state.compiling.remove(request)), DONE


def abort(rules: Table, config: Config, state: State, request: Request) -> Result:
    """X-3: a request in any state gives back everything; output of its steps in flight is dropped.

    SCH-16: no later turn of its session arrives.
    """
    if not is_live(state, request) and not is_awaited(config, state, request):
        return state, ABSENT
    state = gone(rules.abort(rules, config, voided(state, request), request), request)
    for turn in later_turns(config, request):
        state = gone(state, turn)
    return state, DONE


def leave(rules: Table, config: Config, state: State, request: Request) -> State:
    """SCH-5: a request that is gone holds no block and no item (C-ENC-4). SCH-15: blocks that are sent are kept."""
    if is_sent(config, request):
        sent = state._replace(transfers=state.transfers.set(request, Transfer(SENDING, 0)))
        return without_items(rules, config, sent, request)
    return withdrawn(rules, config, state, request)


def withdrawn(rules: Table, config: Config, state: State, request: Request) -> State:
    """SCH-5: aborted, it holds nothing. SCH-14: while a load goes on writing to its blocks, they are kept."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase == LOADING:
        return state._replace(transfers=state.transfers.set(request, transfer._replace(phase=ABANDONED)))
    freed = without_blocks(rules, config, state._replace(transfers=state.transfers.remove(request)), request)
    return without_items(rules, config, freed, request)


def gone(state: State, request: Request) -> State:
    """The request is in no queue any more, and the workers are to be told."""
    return state._replace(
        waiting=left_out(state.waiting, request),
        running=left_out(state.running, request),
        computed=state.computed.remove(request),
        produced=state.produced.remove(request),
        proposed=state.proposed.remove(request),
        compiling=state.compiling.remove(request),
        queued=state.queued.remove(request),
        gone=state.gone.set(request, 1),
        leaving=state.leaving.set(request, 1),
    )


# The output of a plan -----------------------------------------------------------------------------------------------


def update(rules: Table, config: Config, state: State, accepted: int) -> Result:
    """The oldest plan was executed: each of its parts that is not void counts for its request."""
    if not state.plans:
        return state, ABSENT
    after = executed_all(rules, config, state, accepted)
    return after, Outcome(Code.DONE, named(state.plans[0], state, after))


def executed_all(rules: Table, config: Config, state: State, accepted: int) -> State:
    """The output of the oldest plan is taken."""
    plan = state.plans[0]
    state = rules.step_done(rules, config, state._replace(plans=state.plans[1:]), plan)
    for part in plan.scheduled:
        state = rules.executed(rules, config, with_rejected(config, state, part, accepted), part, accepted)
    return state


def nothing_freed(rules: Table, config: Config, state: State, plan: Plan) -> State:
    """SCH-5: what a request has held was given back when it ended."""
    return state


def named(plan: Plan, before: State, after: State) -> tuple[Request, ...]:
    """The requests of a plan that have ended between the two states, in its order."""
    ended: tuple[Request, ...] = ()
    for part in plan.scheduled:
        ended = (*ended, part.request) if after.gone.has(part.request) and not before.gone.has(part.request) else ended
    return ended


def executed(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """KV is written, items behind it are released, and what was sampled is known. ENC-6: not before (C-ENC-9)."""
    if part.void:
        return state
    rejected = rejected_drafts(part, accepted)
    end = part.start + part.tokens - rejected
    state = state._replace(
        kv=written(rules, config, state.kv, part.request, end),
        computed=state.computed.set(part.request, state.computed.get(part.request, 0) - rejected),
        transfers=state.transfers.remove(part.request),
    )
    state = with_items_released(rules, config, state, part.request, end)
    return sampled(rules, config, state, part, rejected) if part.samples else state


def with_items_released(rules: Table, config: Config, state: State, request: Request, end: int) -> State:
    """Items before this position are in the KV cache now."""
    items, encoder = items_of(config, request), state.encoder
    for index in range(len(items)):
        if is_behind(config, items[index], end):
            encoder = release(rules, config, encoder, request, index)
    return state._replace(encoder=encoder)


def sampled(rules: Table, config: Config, state: State, part: Scheduled, rejected: int) -> State:
    """One output token, and one for each draft that was right; the request is finished, or goes on with new drafts.

    SCH-2/finished: tokens that were sampled behind its end do not count. SCH-6: nor do its steps in flight, which are
    ahead of a stop token.
    """
    whole = rules.ended(config, part.request)
    length = min(known_length(config, state, part.request) + 1 + part.drafts - rejected, whole)
    if length == whole:
        left = gone(rules.leave(rules, config, voided(state, part.request), part.request), part.request)
        return rules.next_turn(rules, config, left, part.request)
    state = state._replace(produced=state.produced.set(part.request, length - config.prompts[part.request]))
    return with_drafts(state, part.request, min(config.drafts, final_length(config, part.request) - 1 - length))


def next_turn(rules: Table, config: Config, state: State, request: Request) -> State:
    """SCH-16: a turn that arrived during the one before waits from now on, as an arrival does.

    Between two turns a session holds nothing. What it has computed is found in the prefix cache, like that of others.
    """
    if not state.queued.has(request + 1):
        return state
    return state._replace(queued=state.queued.remove(request + 1), waiting=placed(config, state.waiting, request + 1))


def with_drafts(state: State, request: Request, drafts: int) -> State:
    """Drafts for the next step, as many as could be of use; those of an earlier output are no use any more."""
    proposed = state.proposed.set(request, drafts) if drafts > 0 else state.proposed.remove(request)
    return state._replace(proposed=proposed)


# Resets -------------------------------------------------------------------------------------------------------------


def reset_blocks(rules: Table, config: Config, state: State) -> Result:
    """X-4: blocks in use are what their requests believe; so it waits until there are none."""
    kv, outcome = rules.kv.step(kv_config(config), state.kv, ResetBlocks())
    return state._replace(kv=kv), Outcome(outcome.code)


def reset_running(rules: Table, config: Config, state: State) -> Result:
    """X-4: no request uses a block any more, so the prefix map is emptied. The last is preempted first: SCH-8/place."""
    for _ in range(len(state.running)):
        victim = state.running[-1]
        state = set_back(rules, config, rules.lose_at_reset(rules, config, state, victim), victim)
    return reset_blocks(rules, config, state)


def reset_items(rules: Table, config: Config, state: State) -> Result:
    """X-4: no request holds an item any more and needed ones are encoded again; plans in flight run first."""
    encoder, outcome = rules.encoder.step(encoder_config(config), state.encoder, Reset())
    state = with_outputs_cleared(config, state) if outcome.code is Code.DONE else state
    return state._replace(encoder=encoder), Outcome(outcome.code)
