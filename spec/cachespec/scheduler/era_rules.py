"""What the released schedulers decide otherwise. Each function stands in the place of a normative one.

- scheduler-2025-01 (S0): before #11895;
- scheduler-2025-02 (S1), released with 0.7.3;
- scheduler-2025-10 (S2), released with 0.11.0;
- scheduler-2026-05 (S2b), released with 0.20.2;
- scheduler-2026-11 (S3), the core of 0.33.0.

Not modelled of them: pauses, shared memory, streaming input, connectors before S2b and with steps ahead of
output, and with S3 the lookahead of drafters that read embeddings ahead.
"""

from __future__ import annotations

from cachespec.encoder_cache import CachedInputs
from cachespec.encoder_cache.operations import ENCODER
from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    Item,
    ItemIndex,
    Request,
    encoder_config,
    first_turn,
    is_asynchronous,
    is_behind,
    items_of,
    longest_prompt,
)
from cachespec.scheduler.counts import is_of_this_run, known_length, promised, tokens_in_flight
from cachespec.scheduler.era_alignment import ending_at_multiple
from cachespec.scheduler.era_blocks import with_output_registered
from cachespec.scheduler.era_drafts import answered, begun_earlier, dropped_output
from cachespec.scheduler.era_states import idle_sessions
from cachespec.scheduler.era_unanswered import awaited
from cachespec.scheduler.feasibility import limited
from cachespec.scheduler.items import brought, is_apart, is_granted
from cachespec.scheduler.parts import (
    ask_for_room,
    cached_prefix,
    look_up,
    release,
    without_blocks,
    without_items,
    written,
)
from cachespec.scheduler.remote import is_stored
from cachespec.scheduler.requests import sampled
from cachespec.scheduler.round_state import Fit, Prefix, Round
from cachespec.scheduler.rounds import voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Line, Scheduled, State

# What is queued -----------------------------------------------------------------------------------------------------


def shorter_than_model(config: Config, request: Request) -> bool:
    """C-ENC-11, C-SCH-5, C-SCH-9: only the prompt is looked at. What can never be served waits for ever."""
    return config.prompts[request] <= longest_prompt(config)


# Counts -------------------------------------------------------------------------------------------------------------


def wanted_of_all(config: Config, state: State, request: Request, start: int) -> int:
    """S1: all that it has, with its drafts."""
    return known_length(config, state, request) + state.proposed.get(request, 0) - start


def wanted_up_to_model(config: Config, state: State, request: Request, start: int) -> int:
    """S3: up to the length of the model, as S2 with the places that it keeps for output."""
    end = known_length(config, state, request) + awaited(config, state, request) + state.proposed.get(request, 0)
    return min(end, config.max_model_len - 1) - start


def wanted_up_to_end(config: Config, state: State, request: Request, start: int) -> int:
    """S3: nothing, where the steps in flight are sure to complete the output."""
    flying = awaited(config, state, request)
    if flying > 0 and start + 2 - flying >= config.prompts[request] + config.outputs[request]:
        return 0
    return wanted_up_to_model(config, state, request, start)


def wanted_of_runner(config: Config, state: State, request: Request, start: int) -> int:
    """S3: of a pooling model the whole prompt, be it as long as the model. S2b leaves its last token (C-SCH-42)."""
    if config.pooling == 1:
        return known_length(config, state, request) - start
    return wanted_up_to_end(config, state, request, start)


def offered_as_is(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """S1, S2: the least of what there is; nothing keeps it from being negative."""
    return min(limited(config, tokens), budget)


def offered_alone_or_limited(
    config: Config, state: State, request: Request, start: int, tokens: int, budget: int
) -> int:
    """S3: the threshold counts only among several requests (C-ENC-16); then the alignment."""
    return ending_at_multiple(config, state, request, start, min(limited_among_several(config, state, tokens), budget))


def limited_among_several(config: Config, state: State, tokens: int) -> int:
    """S3: the number of tokens that one step may schedule for one request; all of them for a lone request.

    A session that waits for its next input counts as another request.
    """
    requests = len(state.waiting) + len(state.running) + idle_sessions(state)
    return tokens if requests == 1 else limited(config, tokens)


def whole_or_as_is(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """S2: where prompts are not cut, one that does not fit the step gets nothing (C-SCH-9)."""
    if config.chunked_prefill == 0 and limited(config, tokens) > budget:
        return 0
    return offered_as_is(config, state, request, start, tokens, budget)


def whole_or_aligned(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """S3: likewise."""
    if config.chunked_prefill == 0 and limited_among_several(config, state, tokens) > budget:
        return 0
    return offered_alone_or_limited(config, state, request, start, tokens, budget)


def not_negative(config: Config, state: State, request: Request, start: int, tokens: int) -> int:
    """S3: a negative count is taken as none, so its request is passed over, again and again (C-SCH-28)."""
    return max(tokens, 0)


def is_not_zero(tokens: int) -> bool:
    """C-SCH-1: a negative count is scheduled."""
    return tokens != 0


# The encoder pass ---------------------------------------------------------------------------------------------------


def stopped(fit: Fit, tokens: int) -> Fit:
    """Nothing behind this item is looked at."""
    return fit._replace(tokens=tokens, refused=1)


def with_item(config: Config, fit: Fit, index: ItemIndex, item: Item) -> Fit:
    """The item is encoded in this step."""
    return fit._replace(
        embeds=fit.embeds - item[LENGTH],
        granted=fit.granted + item[LENGTH],
        encode=(*fit.encode, index),
        relies=(*fit.relies, index),
    )


def fit_item_before_11895(
    rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
) -> Fit:
    """C-SCH-1: a chunk that begins inside of an item that is not there has a negative count."""
    item = items_of(config, request)[index]
    after = fit_item_by_request(rules, config, fit, request, index, start)
    return after._replace(tokens=item[START] - start) if after.refused > fit.refused else after


def fit_item_by_request(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """S1: what was granted before in the same pass is not counted (C-ENC-3)."""
    item = items_of(config, request)[index]
    if fit.refused or fit.tokens <= 0 or is_apart(config, item, start, fit.tokens):
        return fit
    if look_up(rules, config, fit.encoder, request, index).yes:
        return fit._replace(relies=(*fit.relies, index))
    asked = ask_for_room(rules, config, fit.encoder, request, index, fit.embeds, 0)
    fit = fit._replace(encoder=asked.encoder)
    if not asked.yes or item[LENGTH] > fit.embeds:
        return stopped(fit, max(0, item[START] - start))
    return with_item(config, fit, index, item)


def fit_item_pinning(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """S2: what is there is pinned before it is known whether anything is scheduled (C-ENC-10).

    C-ENC-15: where items are not split, a chunk that begins with an item still splits it.
    """
    item = items_of(config, request)[index]
    if fit.refused or fit.tokens <= 0 or is_apart(config, item, start, fit.tokens):
        return fit
    if config.encoder_decoder == 1:
        return if_room(rules, config, fit, request, index, start)
    if is_granted(config, fit, request, item):
        return fit
    lookup = look_up(rules, config, fit.encoder, request, index)
    fit = fit._replace(encoder=lookup.encoder)
    if lookup.yes:
        return fit._replace(relies=(*fit.relies, index))
    if config.whole_items and start < item[START] and start + fit.tokens < item[START] + item[LENGTH]:
        return stopped(fit, item[START] - start)
    return if_room(rules, config, fit, request, index, start)


def if_room(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """S2, S3: room is asked for beside what was granted before.

    S2b, S3: the connector is asked last, so an output that it has waits for compute budget, too (C-ENC-29).
    """
    item = items_of(config, request)[index]
    asked = ask_for_room(rules, config, fit.encoder, request, index, fit.embeds, fit.granted)
    fit = fit._replace(encoder=asked.encoder)
    if not asked.yes:
        return stopped(fit, max(0, item[START] - start))
    return brought(fit, index, item) if is_stored(fit.remote, item) else with_item(config, fit, index, item)


def fit_item_whole_first(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """S3: whether the item would be split is asked first, and at the item too; a repeated one is referred to later."""
    item = items_of(config, request)[index]
    if fit.refused or fit.tokens <= 0 or is_apart(config, item, start, fit.tokens):
        return fit
    if config.whole_items and start <= item[START] and start + fit.tokens < item[START] + item[LENGTH]:
        return stopped(fit, item[START] - start)
    if config.encoder_decoder == 1:
        return if_room(rules, config, fit, request, index, start)
    if is_granted(config, fit, request, item):
        return fit._replace(relies=(*fit.relies, index))
    lookup = look_up(rules, config, fit.encoder, request, index)
    fit = fit._replace(encoder=lookup.encoder)
    return (
        fit._replace(relies=(*fit.relies, index)) if lookup.yes else if_room(rules, config, fit, request, index, start)
    )


# Who is not scheduled, and who is preempted -------------------------------------------------------------------------


def pins_kept(rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round:
    """What the pass has pinned stays pinned, and those behind go on (C-ENC-10)."""
    return current._replace(state=current.state._replace(encoder=fit.encoder))


def head_of_line(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """S1, S2: no request behind it is admitted; pins of the pass stay (C-ENC-10)."""
    return current._replace(ended=1)


def skipped_or_freed(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """S3: for want of an item the request is passed over with its pins; for want of blocks it is freed, and stops.

    C-SCH-9: one of which no token is offered, as a prompt that is not cut and does not fit, stops those behind it.
    """
    if cause == ENCODER:
        start = rules.cached_prefix(rules, config, current.state, request).start
        tokens = known_length(config, current.state, request) - start
        offer = rules.offered_whole(config, current.state, request, start, tokens, current.tokens)
        return current if offer > 0 else current._replace(ended=1)
    return current._replace(state=without_items(rules, config, current.state, request), ended=1)


def stopped_or_freed(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """S2b: no request behind it is admitted; it returns its items if blocks are missing, and keeps its pins if not."""
    if cause == ENCODER:
        return head_of_line(rules, config, current, request, cause)
    return current._replace(state=without_items(rules, config, current.state, request), ended=1)


def skipped_if_long(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """S2: a prompt that is not cut and does not fit is passed over, again and again (C-SCH-9)."""
    left = known_length(config, current.state, request)
    if cause == ENCODER and config.chunked_prefill == 0 and limited(config, left) > current.tokens:
        return current
    return head_of_line(rules, config, current, request, cause)


def lose_blocks_only(rules: Table, config: Config, state: State, request: Request) -> State:
    """S1: a preempted request keeps its items (C-ENC-5)."""
    return without_blocks(rules, config, state, request)


def lose_both(rules: Table, config: Config, state: State, request: Request) -> State:
    """S2, S3: what is in flight still counts: its output is delivered."""
    return without_items(rules, config, without_blocks(rules, config, state, request), request)


def lose_and_drop(rules: Table, config: Config, state: State, request: Request) -> State:
    """S3: a reset drops the output in flight."""
    return lose_both(rules, config, voided(state, request), request)


def lose_with_earlier(rules: Table, config: Config, state: State, request: Request) -> State:
    """S3: while output that a reset or the end of a turn has dropped is in flight, all in flight is dropped with it."""
    turns = range(first_turn(config, request), request + 1)
    dropped = any(part.request in turns and part.void for plan in state.plans for part in plan.scheduled)
    return lose_and_drop(rules, config, state, request) if dropped else lose_both(rules, config, state, request)


def joined_last(config: Config, line: Line, request: Request) -> Line:
    """S2, S3: an admitted request is served last, for any priority."""
    return (*line, request)


# Where a waiting request begins -------------------------------------------------------------------------------------


def found_block_back(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """S0, S1: of a full hit the last block is given back, and computed again."""
    known = known_length(config, state, request)
    hits = cached_prefix(rules, config, state.kv, request, known)
    kept = hits[:-1] if len(hits) * config.block_size == known else hits
    return Prefix(kept, len(kept) * config.block_size, 0)


def found_or_counted(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """S2: a request whose count is not zero is not looked up: its tokens are taken to be there."""
    if state.computed.has(request):
        start = state.computed.get(request, 0)
        return Prefix((), start, start)
    return found_in_cache(rules, config, state, request)


def found_in_cache(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """S3: what is cached, one token at least left out."""
    hits = cached_prefix(rules, config, state.kv, request, known_length(config, state, request))
    return Prefix(hits, len(hits) * config.block_size, 0)


# The plan and its output --------------------------------------------------------------------------------------------


def released_at_once(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """S2: items behind the tokens that are scheduled are released before the plan is executed (C-ENC-9).

    A request preempted in the same round still counts as computed.
    """
    if not any(request == part.request for request in state.running):
        state = state._replace(computed=state.computed.set(part.request, part.tokens))
    return with_listed_released(rules, config, state, part.request, state.computed.get(part.request, 0))


def with_listed_released(
    rules: Table, config: Config, state: State, request: Request, computed: int, promised: int = 0
) -> State:
    """Of the items that count as the request's, those that lie within the computed tokens that are not promised.

    Of an encoder-decoder model: all, once a token of the request counts as computed.
    """
    encoder, end = state.encoder, computed if config.encoder_decoder == 1 else computed - promised
    _, listed = rules.encoder.step(encoder_config(config), encoder, CachedInputs(request))
    for index in listed.values:
        if is_behind(config, items_of(config, request)[index], end):
            encoder = release(rules, config, encoder, request, index)
    return state._replace(encoder=encoder)


def counted(rules: Table, config: Config, state: State, part: Scheduled, rejected: int) -> State:
    """The KV is written, and rejected drafts do not count as computed; of a request that runs.

    S2: a request preempted in the round of the part has a count, too. S2b, S3: one that a failed load has set back to
    its beginning is not set back further.
    """
    count = state.computed.get(part.request, 0)
    if not any(request == part.request for request in state.running):
        return with_fewer(state, part.request, rejected) if state.computed.has(part.request) else state
    return state._replace(
        kv=written(rules, config, state.kv, part.request, part.start + part.tokens - rejected),
        computed=state.computed.set(part.request, count - rejected if count > 0 else 0),
        transfers=state.transfers.remove(part.request),
    )


def with_fewer(state: State, request: Request, rejected: int) -> State:
    """So many tokens of the request count as computed no longer."""
    return state._replace(computed=state.computed.set(request, state.computed.get(request, 0) - rejected))


def moved_behind(config: Config, state: State, part: Scheduled, rejected: int) -> State:
    """What was planned behind the part begins earlier, unless the request was preempted since."""
    return begun_earlier(config, state, part.request, rejected) if is_of_this_run(state, part) else state


def executed_only(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """C-ENC-9: nothing is left to release; output in flight of a preempted request is delivered."""
    if part.void or state.gone.has(part.request):
        return state
    return executed_behind(rules, config, state, part, accepted, promised(config, state, part.request))


def executed_behind(rules: Table, config: Config, state: State, part: Scheduled, accepted: int, flying: int) -> State:
    """The output of a part is taken. `flying`: how many of the computed tokens are output in flight."""
    rejected = max(0, part.drafts - accepted)
    state = taken(rules, config, state, part, rejected, flying)
    return sampled(rules, config, state, part, rejected) if part.samples else state


def taken(rules: Table, config: Config, state: State, part: Scheduled, rejected: int, flying: int) -> State:
    """The part counts as computed, and blocks are registered as far as its output makes them known."""
    state = counted(rules, config, state, part, rejected)
    if is_asynchronous(config):
        return with_output_registered(config, state, part, state.computed.get(part.request, 0) - flying)
    return state


def executed_and_released_by_computed(
    rules: Table, config: Config, state: State, part: Scheduled, accepted: int
) -> State:
    """S2b: items are released when a step was executed, by a count that those in flight have moved on (C-ENC-25)."""
    if part.void or state.gone.has(part.request):
        return state
    rejected = max(0, part.drafts - accepted)
    state = with_listed_released(rules, config, state, part.request, state.computed.get(part.request, 0) - rejected)
    state = moved_behind(config, state, part, rejected)
    state = taken(rules, config, state, part, rejected, awaited(config, state, part.request))
    return answered(rules, config, state, part, rejected)


def executed_and_released_by_count(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """S3: the count by which items are released was moved on by the steps in flight (C-ENC-9).

    Where steps are not planned ahead, nothing is promised: only the asynchronous scheduler has placeholders for output.
    Drafts that were accepted beyond the request's end do not count as computed when blocks are registered.
    """
    if state.gone.has(part.request):
        return state
    if part.void:
        return dropped_output(config, state, part)
    rejected = max(0, part.drafts - accepted)
    state = counted(rules, config, moved_behind(config, state, part, rejected), part, rejected)
    sampling = part.samples + part.drafts - rejected
    promises = awaited(config, state, part.request) + sampling if is_asynchronous(config) else 0
    state = with_listed_released(rules, config, state, part.request, state.computed.get(part.request, 0), promises)
    if is_asynchronous(config) or config.drafts > 0:
        end = state.computed.get(part.request, 0) - tokens_in_flight(state, part.request)
        computed = min(end, rules.ended(config, part.request) - 1)
        state = with_output_registered(config, state, part, computed)
    return answered(rules, config, state, part, rejected)


def keeps_items(rules: Table, config: Config, state: State, request: Request) -> State:
    """C-ENC-4: an aborted request gives back its blocks, and not its items."""
    return without_blocks(rules, config, state, request)
