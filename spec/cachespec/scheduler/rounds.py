"""One scheduling step: which requests compute how many tokens, with which items, in which blocks.

There is no phase of prompts and no phase of outputs. Each request has tokens that are known and a number of tokens that
are computed, and a step gives it some of the difference. First the requests that run are served in their order; then
waiting ones are admitted in theirs. Both draw on two budgets: tokens, and embeddings to encode.
"""

from __future__ import annotations

from cachespec.encoder_cache.operations import BLOCKS, ENCODER
from cachespec.kernel import MISS, REFUSED, Code, Map, Outcome
from cachespec.scheduler.configuration import Config, Request, kv_config, loads_later
from cachespec.scheduler.counts import drafts_from, known_length
from cachespec.scheduler.items import fitted
from cachespec.scheduler.lines import left_out
from cachespec.scheduler.loading import begun_in_step, brings, has_loaded, may_be_overwritten
from cachespec.scheduler.parts import give_up, reported, slots, take, without_blocks, without_items
from cachespec.scheduler.remote import ascending, with_contents
from cachespec.scheduler.round_state import Fit, Prefix, Round, Search, Slots
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADING, Line, Plan, Scheduled, State, Transfer
from cachespec.scheduler.work import executed_by_workers, load_lost, loaded, with_new_blocks
from cachespec.scheduler.worker import Chunk, blocks_of


def run(rules: Table, config: Config, state: State) -> tuple[State, Outcome]:
    """The whole step. SCH-1, SCH-4: what is scheduled and encoded stays within both budgets."""
    if len(state.plans) >= config.ahead:
        return state, REFUSED
    begun = Round(state, config.token_budget, config.encoder_compute, (), (), state.kv, (), (), 0, 0)
    return planned(rules, config, rules.admit_waiting(rules, config, rules.serve_running(rules, config, begun)))


# Running requests ---------------------------------------------------------------------------------------------------


def serve_running(rules: Table, config: Config, current: Round) -> Round:
    """SCH-7: each request that runs at the start of the step is considered once, also after preemptions."""
    running = current.state.running
    for position in range(len(running)):
        current = serve(rules, config, current, running[position])
    return current


def serve(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """One running request gets tokens, then items, then blocks. A preempted one gets nothing."""
    if not current.state.computed.has(request):
        return current
    start = current.state.computed.get(request, 0)
    tokens = rules.wanted(config, current.state, request, start)
    offer = rules.offered(config, current.state, request, start, tokens, current.tokens)
    fit = look_at_items(rules, config, current, request, start, offer)
    if not rules.is_count(fit.tokens):
        return passed_over(rules, config, current, request, fit)
    search = with_blocks(rules, config, holding(current, fit), request, start, fit.tokens)
    return scheduled(rules, config, search.round, request, start, fit) if search.found else search.round


def look_at_items(rules: Table, config: Config, current: Round, request: Request, start: int, offer: int) -> Fit:
    """The encoder pass of one request."""
    before = Fit(current.state.encoder, current.state.remote, offer, current.embeds, 0, (), (), (), current.closed, 0)
    fit = fitted(rules, config, before, request, start)
    return fit._replace(tokens=rules.trimmed(config, current.state, request, start, fit.tokens))


def untrimmed(config: Config, state: State, request: Request, start: int, tokens: int) -> int:
    """The tokens that the items leave are scheduled unchanged (C-ENC-14)."""
    return tokens


def passed_over(rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round:
    """Nothing of a running request is scheduled."""
    return rules.passed_over(rules, config, current, request, fit)


def closing(rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round:
    """Nothing of the request is scheduled; ENC-11: what looking at its items has pinned is let go.

    ENC-13: if it waits for an item, no request behind it takes room in the encoder cache in this step.
    """
    encoder = give_up(rules, config, fit.encoder, request, ENCODER)
    return current._replace(state=current.state._replace(encoder=encoder), closed=max(current.closed, fit.refused))


def holding(current: Round, fit: Fit) -> Round:
    """The round with the encoder cache as the pass has left it."""
    return current._replace(state=current.state._replace(encoder=fit.encoder))


# Blocks, and who is preempted for them ------------------------------------------------------------------------------


def with_blocks(rules: Table, config: Config, current: Round, request: Request, start: int, tokens: int) -> Search:
    """Blocks for `tokens` more tokens. While there are too few, the victim is preempted, at last the request itself."""
    search = attempt(rules, config, current, request, start, tokens)
    while must_preempt(search, request):
        current = preempt(rules, config, search.round, rules.victim(config, search.round.state))
        search = attempt(rules, config, current, request, start, tokens)
    return search


def must_preempt(search: Search, request: Request) -> bool:
    """The test of the loop: no blocks, and the request has not been preempted itself."""
    return not search.found and search.round.state.computed.has(request)


def attempt(rules: Table, config: Config, current: Round, request: Request, start: int, tokens: int) -> Search:
    """Ask once. A request that was preempted asks for nothing."""
    if not current.state.computed.has(request):
        return Search(current, False)
    answer = rules.allocated(rules, config, current.state, request, start, tokens, ())
    return Search(current._replace(state=current.state._replace(kv=answer.kv)), answer.yes)


def last_running(config: Config, state: State) -> Request:
    """The least important one that runs; of those the last that came. It was not served yet in this step."""
    return state.running[-1]


def preempt(rules: Table, config: Config, current: Round, victim: Request) -> Round:
    """SCH-5, SCH-10: it gives back everything and waits ahead of requests that arrived later."""
    state = set_back(rules, config, rules.lose(rules, config, current.state, victim), victim)
    return current._replace(state=state, preempted=(*current.preempted, victim), ended=1)


def set_back(rules: Table, config: Config, state: State, victim: Request) -> State:
    """The victim, which holds nothing any more, waits again."""
    return state._replace(
        running=left_out(state.running, victim),
        waiting=rules.back_in_line(config, state.waiting, victim),
        computed=state.computed.remove(victim),
        proposed=state.proposed.remove(victim),
        transfers=state.transfers.remove(victim),
    )


def lose_everything(rules: Table, config: Config, state: State, request: Request) -> State:
    """Its blocks, its items and the output in flight.

    A request that waits and keeps items is in the way of one that runs and has the blocks (C-ENC-5).
    """
    return without_items(rules, config, without_blocks(rules, config, voided(state, request), request), request)


def voided(state: State, request: Request) -> State:
    """Steps in flight for the request are executed, and their output is dropped."""
    return state._replace(plans=tuple(void_in(plan, request) for plan in state.plans))


def void_in(plan: Plan, request: Request) -> Plan:
    """One plan, with the request's part marked."""
    marked = tuple(part._replace(void=1) if part.request == request else part for part in plan.scheduled)
    return plan._replace(scheduled=marked)


# Waiting requests ---------------------------------------------------------------------------------------------------


def admit_waiting(rules: Table, config: Config, current: Round) -> Round:
    """In their order. After a preemption, or behind a request that lacks room, no request is admitted.

    SCH-14: those whose KV is loaded come first, because they hold blocks.
    """
    waiting = loaded_first(current.state)
    for position in range(len(waiting)):
        current = consider(rules, config, current, waiting[position])
    return current


def loaded_first(state: State) -> Line:
    """The waiting requests, those first whose KV is loaded."""
    first = tuple(request for request in state.waiting if has_loaded(state, request))
    return (*first, *(request for request in state.waiting if not has_loaded(state, request)))


def consider(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """One waiting request: what is cached of it, tokens, items, blocks; all of that or nothing."""
    if current.ended or is_full(config, current):
        return current
    if not rules.may_join(config, current, request):
        return rules.passed_by(rules, config, current, request)
    prefix = rules.cached_prefix(rules, config, current.state, request)
    if loads_later(config, request) and brings(config, prefix):
        return rules.load(rules, config, current, request, prefix)
    tokens = known_length(config, current.state, request) - prefix.start
    offer = rules.offered_whole(config, current.state, request, prefix.start, tokens, current.tokens)
    fit = look_at_items(rules, config, current, request, prefix.start, offer)
    if not rules.is_count(fit.tokens):
        return denied(rules, config, holding(current, fit), request, ENCODER)
    new = prefix.start - prefix.covered - len(prefix.hits) * config.block_size + fit.tokens
    answer = room(rules, config, current.state, request, prefix, new)
    if not answer.yes:
        return denied(rules, config, holding(current, fit), request, BLOCKS)
    admitted = admit(rules, config, holding(current, fit).state._replace(kv=answer.kv), request)
    admitted = loaded(config, admitted, request, prefix)._replace(
        transfers=begun_in_step(config, current.state, request, prefix)
    )
    return scheduled(rules, config, current._replace(state=admitted), request, prefix.start, fit)


def room(rules: Table, config: Config, state: State, request: Request, prefix: Prefix, tokens: int) -> Slots:
    """Blocks for a waiting request, whose prefix was found."""
    answer = rules.slots(rules, config, state, request, prefix, tokens)
    if not answer.yes:
        return answer
    taken = takes_watermark(config, state, answer) or rules.is_reserved(config, state._replace(kv=answer.kv), request)
    return Slots(state.kv, False) if taken else answer


def takes_watermark(config: Config, state: State, answer: Slots) -> bool:
    """An admission would leave fewer free blocks than the watermark, though another request runs.

    A request that is alone is admitted all the same, so the watermark keeps none from being served (SCH-8).
    """
    return len(state.running) > 0 and answer.kv.free_count() < config.watermark


def slots_for_chunk(rules: Table, config: Config, state: State, request: Request, prefix: Prefix, tokens: int) -> Slots:
    """Blocks for the tokens of this step; those that come later find theirs when they are scheduled."""
    return rules.allocated(rules, config, state, request, prefix.covered, tokens, prefix.hits)


def slots_of_all(
    rules: Table, config: Config, state: State, request: Request, computed: int, tokens: int, hits: tuple[int, ...]
) -> Slots:
    """The blocks of all tokens may be registered; the normative pool does so when they are written."""
    return slots(rules, kv_config(config), state.kv, request, computed, tokens, hits)


def denied(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """The request is not admitted, for want of an item or of blocks."""
    return rules.turned_down(rules, config, current, request, cause)


def is_full(config: Config, current: Round) -> bool:
    """No tokens are left, or no place among those that run."""
    return current.tokens <= 0 or len(current.state.running) >= config.max_running


def admit(rules: Table, config: Config, state: State, request: Request) -> State:
    """It runs from now on. SCH-7: it is served after those that are as important, and preempted before them."""
    return with_new_blocks(config, state, request)._replace(
        waiting=left_out(state.waiting, request),
        running=rules.joined(config, state.running, request),
    )


def turned_down(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """ENC-11, SCH-10: it keeps nothing of the attempt (C-ENC-10). ENC-13: no request behind it is admitted first."""
    encoder = give_up(rules, config, current.state.encoder, request, cause)
    return current._replace(state=current.state._replace(encoder=encoder), ended=1)


def load(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
    """SCH-14: the request waits with blocks for the KV that is loaded, and those behind it are considered.

    KV-7: what was in its new blocks counts as lost from now on.
    """
    if may_be_overwritten(current.state):
        return rules.passed_by(rules, config, current, request)
    present = prefix.covered + len(prefix.hits) * config.block_size
    answer = room(rules, config, current.state, request, prefix, prefix.start - present)
    if not answer.yes:
        return denied(rules, config, current, request, BLOCKS)
    loading = current.state.transfers.set(request, Transfer(LOADING, prefix.start))
    waiting = current.state._replace(kv=answer.kv, transfers=loading)
    return current._replace(state=load_lost(config, waiting, request, present))


# The plan -----------------------------------------------------------------------------------------------------------


def scheduled(rules: Table, config: Config, current: Round, request: Request, start: int, fit: Fit) -> Round:
    """The request's part of the plan. Its items are allocated, its tokens count as computed, the budgets shrink."""
    state, end = current.state, start + fit.tokens
    length = rules.in_sight(config, state, request)
    part = Scheduled(
        request=request,
        start=start,
        tokens=fit.tokens,
        drafts=max(0, end - drafts_from(config, state, request, length)),
        samples=1 if end >= length else 0,
        encode=fit.encode,
        relies=fit.relies,
    )
    state = state._replace(
        encoder=take(rules, config, state.encoder, request, (*fit.encode, *fit.bring), fit.relies),
        computed=state.computed.set(request, end),
        proposed=state.proposed.remove(request),
    )
    return current._replace(
        state=state,
        tokens=current.tokens - fit.tokens,
        embeds=fit.embeds,
        scheduled=(*current.scheduled, part),
        chunks=(*current.chunks, Chunk(request, start, end, blocks_of(state.kv, request))),
        brought=with_contents(config, current.brought, request, fit.bring),
        closed=max(current.closed, fit.refused),
    )


def planned(rules: Table, config: Config, current: Round) -> tuple[State, Outcome]:
    """The round becomes a plan in flight, if there is anything to say to the workers. X-1: each thing is said once."""
    encoder, dropped = reported(rules, config, current.state.encoder)
    finished = listed(config, current.state.leaving)
    plan = Plan(current.scheduled, dropped, finished, current.preempted, ascending(config, current.brought))
    state = current.state._replace(encoder=encoder)
    if not (plan.scheduled or plan.dropped or plan.finished or plan.preempted):
        return state, MISS
    state = state._replace(leaving=emptied(config, state.leaving), plans=(*state.plans, plan))
    state = executed_by_workers(rules, config, state, plan, chunks_told(current))
    for part in plan.scheduled:
        state = rules.after_round(rules, config, state, part)
    return state, Outcome(Code.DONE, shown(plan))


def chunks_told(current: Round) -> tuple[Chunk, ...]:
    """The slots that the workers know of: a request preempted later in the step is not told its new blocks."""
    return tuple(
        chunk
        if chunk.request in current.state.running
        else chunk._replace(blocks=blocks_of(current.told, chunk.request))
        for chunk in current.chunks
    )


def shown(plan: Plan) -> tuple[int, ...]:
    """Request, first token, number of tokens, and so on."""
    values: tuple[int, ...] = ()
    for part in plan.scheduled:
        values = (*values, part.request, part.start, part.tokens)
    return values


def listed(config: Config, members: Map[Request, int]) -> tuple[Request, ...]:
    """The requests in the map."""
    present: tuple[Request, ...] = ()
    for request in range(len(config.prompts)):
        if members.has(request):
            present = (*present, request)
    return present


def emptied(config: Config, members: Map[Request, int]) -> Map[Request, int]:
    """The map without any request."""
    for request in range(len(config.prompts)):
        members = members.remove(request)
    return members


def nothing_more(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """Entries that a plan needs are kept until it is executed (C-ENC-9)."""
    return state
