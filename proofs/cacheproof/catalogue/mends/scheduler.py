"""The eras of the scheduler, each without one of their faults: their table of rules with some wrapped or replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around
from cacheproof.catalogue.mends import encoder_cache as of_encoder_cache
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named
from cachespec.encoder_cache import Report
from cachespec.encoder_cache.era_by_model import Managers, by_model
from cachespec.encoder_cache.operations import BLOCKS, ENCODER
from cachespec.kernel import Code, Outcome
from cachespec.kv_blocks.transitions import forget
from cachespec.scheduler import era_admission, era_loads, era_placeholders, era_rounds, era_rules, readiness, requests
from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    ItemIndex,
    Request,
    ended_length,
    final_length,
    is_turn,
    items_of,
    kv_config,
)
from cachespec.scheduler.counts import is_of_this_run, known_length, tokens_in_flight, verifying, wanted
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.era_unanswered import UNANSWERED
from cachespec.scheduler.feasibility import fits_blocks, fits_chunk, fits_encoder, fits_one_step, limited
from cachespec.scheduler.items import cuts, is_apart
from cachespec.scheduler.loading import lacks_reserve, may_be_overwritten
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import FailStep
from cachespec.scheduler.parts import give_up
from cachespec.scheduler.remote import is_stored
from cachespec.scheduler.round_state import Fit, Prefix, Round
from cachespec.scheduler.rounds import admit_waiting, denied, lose_everything, nothing_more, serve_running, voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADS_IN_STEP, NO_TRANSFER, Scheduled, State
from cachespec.scheduler.worker import UNWRITTEN, blocks_of, holds
from cachespec.scheduler.worker_properties import last_tokens

QUEUEING = ("S0", "S1", "S2", "S2b", "S3")
SHARING = ("S2", "S2b", "S3")
CONNECTED = ("S2b", "S3")
LOADING = ("S2", "S2b", "S3")
Clause = Callable[[Config, Request], bool]


def by_rules(changed: Callable[[Table], Table]) -> Change:
    """The era by another table."""

    def change(subject: Subject) -> Subject:
        variant: Any = subject.variant
        return replace(subject, variant=variant.with_rules(changed(variant.rules)))

    return change


def around_rule(changed: Callable[..., Any], name: str) -> Change:
    """The era with another rule of this name, which gets the era's own table first."""

    def replaced(era: Table) -> Table:
        rules: dict[str, Any] = {name: partial(changed, era)}
        return era._replace(**rules)

    return by_rules(replaced)


# What is queued -----------------------------------------------------------------------------------------------------


def if_also(clause: Clause) -> Change:
    """A request is queued only if this clause of the normative rule holds as well."""

    def changed(rules: Table) -> Table:
        return rules._replace(
            accepts=lambda config, request: rules.accepts(config, request) and clause(config, request)
        )

    return by_rules(changed)


def all_items_fit(config: Config, request: Request) -> bool:
    """C-ENC-11: no item is larger than the compute budget or the cache."""
    return all(fits_encoder(config, item) for item in items_of(config, request))


def prompt_fits_one_step(config: Config, request: Request) -> bool:
    """C-SCH-9: a prompt that is not cut fits a step."""
    return config.chunked_prefill == 1 or limited(config, config.prompts[request]) <= config.token_budget


def rest_fits_one_step(config: Config, request: Request) -> bool:
    """C-SCH-10: nor is what may have to be computed again longer than a step, where the prompt alone is not."""
    return not prompt_fits_one_step(config, request) or fits_one_step(config, request)


def without_threshold(config: Config, request: Request) -> bool:
    """All items fit the chunks that there would be without a threshold for long prompts."""
    longest = config._replace(long_prefill_threshold=0)
    return all(fits_chunk(longest, request, item) for item in items_of(config, request))


def items_fit_chunks(config: Config, request: Request) -> bool:
    """C-ENC-15: an item that is not split fits a chunk."""
    return without_threshold(config, request)


def items_fit_the_threshold(config: Config, request: Request) -> bool:
    """C-ENC-16: nor is it longer than the threshold for long prompts, where it is not longer than a step."""
    chunks = all(fits_chunk(config, request, item) for item in items_of(config, request))
    return not without_threshold(config, request) or chunks


# Items --------------------------------------------------------------------------------------------------------------


def mended(era: Any, entry: str) -> Any:
    """The encoder cache without this fault, if it has it."""
    mend = next((each for each in of_encoder_cache.MENDS if each.entry == entry and era.tag in each.eras), None)
    return era if mend is None else mend.change(Subject(component_named("encoder_cache"), era, None)).variant


def encoder_without(entry: str, rules: Table) -> Table:
    """The encoder cache of the era without this fault."""
    era = rules.encoder
    if isinstance(era.rules, Managers):
        return rules._replace(encoder=by_model(*(mended(manager, entry) for manager in era.rules)))
    return rules._replace(encoder=mended(era, entry))


def pins_given_back(era: Table) -> Table:
    """C-ENC-10: what the looks at its items have pinned for a request is given back if nothing of it is scheduled."""

    def passed_over(rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round:
        encoder = give_up(rules, config, fit.encoder, request, ENCODER)
        return era.passed_over(rules, config, current, request, fit._replace(encoder=encoder))

    def turned_down(rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
        encoder = give_up(rules, config, current.state.encoder, request, cause)
        current = current._replace(state=current.state._replace(encoder=encoder))
        return era.turned_down(rules, config, current, request, cause)

    return encoder_without("C-ENC-10", era)._replace(passed_over=passed_over, turned_down=turned_down)


def granted_beside_grants(rules: Table) -> Table:
    """C-ENC-3: an item is granted only the room that is left by those granted before."""
    return encoder_without("C-ENC-3", rules)


def released_by_output(era: Table) -> Table:
    """C-ENC-9, C-ENC-25: an output releases the items that its own step has computed, and nothing else does."""

    def after_round(rules: Table, config: Config, state: State, part: Scheduled) -> State:
        return era.after_round(rules, config, state, part)._replace(encoder=state.encoder)

    def executed(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
        after = era.executed(rules, config, state, part, accepted)
        if part.void or after.gone.has(part.request):
            return after
        end = part.start + part.tokens - max(0, part.drafts - accepted)
        return requests.with_items_released(rules, config, after._replace(encoder=state.encoder), part.request, end)

    return era._replace(executed=executed, after_round=after_round)


def freed_with_its_plan(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-ENC-26: a preempted request leaves no entry behind that only its part of the plan would have computed."""
    after = era.lose(rules, config, state, request)
    managers: Any = after.encoder
    cache = managers.shared
    for content, _ in tuple(cache.order.items()):
        if not after.worker.outputs.has((content,)):
            cache = cache._replace(
                free=cache.free + cache.given_back.get(content, 0),
                cached=cache.cached.remove(content),
                order=cache.order.remove(content),
                given_back=cache.given_back.remove(content),
                sizes=cache.sizes.remove(content),
            )
    return after._replace(encoder=managers._replace(shared=cache))


def each_dropped_once(rules: Table) -> Table:
    """C-ENC-27: an output that two requests of a step have made is reported once."""
    shared, counting = rules.encoder.rules

    def report(config: Any, cache: Any, op: Report) -> tuple[Any, Outcome]:
        after, outcome = counting.step(config, cache, op)
        return after, outcome._replace(values=tuple(dict.fromkeys(outcome.values)))

    return rules._replace(
        encoder=by_model(shared, replace(counting, transitions={**counting.transitions, Report: report}))
    )


def whole_at_the_start(
    era: Table, rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
) -> Fit:
    """C-ENC-15: a chunk that begins with the item does not split it either."""
    item = items_of(config, request)[index]
    looks = not fit.refused and fit.tokens > 0 and not is_apart(config, item, start, fit.tokens)
    if looks and config.whole_items and cuts(item, start, fit.tokens):
        return era_rules.stopped(fit, item[START] - start)
    return era.fit_item(rules, config, fit, request, index, start)


def loads_without_compute(
    era: Table, rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
) -> Fit:
    """C-ENC-29: an output that the encoder connector has needs no compute budget."""
    item = items_of(config, request)[index]
    if not is_stored(fit.remote, item):
        return era.fit_item(rules, config, fit, request, index, start)
    enough = fit._replace(embeds=max(fit.embeds, item[LENGTH]))
    return era.fit_item(rules, config, enough, request, index, start)._replace(embeds=fit.embeds)


def blocked_at_none(rules: Table) -> Table:
    """C-SCH-1: a blocked item leaves no fewer than no tokens."""
    return rules._replace(fit_item=era_rules.fit_item_by_request)


def both_given_back(rules: Table) -> Table:
    """C-ENC-5: a preempted request gives back its items with its blocks."""
    return rules._replace(lose=era_rules.lose_both)


# Order --------------------------------------------------------------------------------------------------------------


def blocking(era: Table, rules: Table, config: Config, current: Round, request: Request, cause: int) -> Round:
    """C-SCH-12: no request is admitted before one that waits for room."""
    return era.turned_down(rules, config, current, request, cause)._replace(ended=1)


def out_of_the_plan(rules: Table) -> Table:
    """C-SCH-11, C-SCH-14: a request preempted in its own step leaves the plan. Those behind it are all served."""
    return rules._replace(serve_running=era_rounds.serve_and_restore, lose=lose_everything)


def in_their_places(rules: Table) -> Table:
    """C-SCH-13: a waiting request keeps its place."""
    return rules._replace(admit_waiting=admit_waiting)


def moving_with_the_list(rules: Table) -> Table:
    """C-SCH-15: the index moves back for every preempted request before it."""
    return rules._replace(serve_running=era_rounds.serve_and_restore)


def beside_all_adapters(rules: Table) -> Table:
    """C-SCH-18: the adapters of all running requests count, also of those that get nothing in the step."""
    return rules._replace(may_join=readiness.may_join)


def in_one_queue(rules: Table) -> Table:
    """C-SCH-19: a request that is passed over stays where it waits, and an arrival with a grammar comes last."""
    return rules._replace(queued=readiness.in_its_turn, passed_by=readiness.passed_by)


def ended_at_the_length(rules: Table) -> Table:
    """C-SCH-20: the model's length ends a request, also before `min_tokens`."""
    return rules._replace(ended=ended_length)


def without_earlier_runs(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-SCH-21: output of steps in flight is dropped when their request is preempted."""
    return era.lose(rules, config, voided(state, request), request)


def in_several_steps(rules: Table) -> Table:
    """C-SCH-22: a running request goes on while a step of it is in flight."""
    return rules._replace(
        serve_running=serve_running, wanted=wanted, after_round=nothing_more, executed=requests.executed
    )


# Loads from an external store -----------------------------------------------------------------------------------------


def forgetting_what_failed(own: AnyTransition, config: Config, state: State, op: FailStep) -> tuple[State, Outcome]:
    """C-KV-6: after a failed load, blocks that have no KV are not registered any more."""
    after, outcome = own(config, state, op)
    kv, ends = after.kv, dict(last_tokens(config))
    for block, content in tuple(kv.registered.items()):
        if not holds(config, after.worker.memory.get(block, UNWRITTEN), ends[content]):
            kv = forget(kv_config(config), kv, block)
    return after._replace(kv=kv), outcome


def reserving(era: Table) -> Table:
    """C-SCH-24: a load begins only if the free blocks suffice for all requests that hold blocks."""

    def load(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
        after = era.load(rules, config, current, request, prefix)
        lacks = not after.ended and lacks_reserve(config, after.state, request)
        return denied(rules, config, current, request, BLOCKS) if lacks else after

    return era._replace(load=load, is_reserved=lacks_reserve)


def beside_unfinished_loads(era: Table, rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """C-SCH-25: no request begins with a block that a step in flight still loads."""
    prefix = era.cached_prefix(rules, config, state, request)
    loading = [other for other, transfer in state.transfers.items() if transfer.phase == LOADS_IN_STEP]
    unsure = {block for other in loading for block in blocks_of(state.kv, other)}
    hits = tuple(takewhile(lambda block: block not in unsure, prefix.hits))
    return prefix if hits == prefix.hits else Prefix(hits, len(hits) * config.block_size, 0)


def reserving_for_others(
    era: Table, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix
) -> Round:
    """C-SCH-35: a load that begins again leaves blocks free for other requests only."""
    before = current.state.transfers
    forgotten = current.state._replace(transfers=before.remove(request))
    after = era.load(rules, config, current._replace(state=forgotten), request, prefix)
    if after.state.transfers.has(request) or not before.has(request):
        return after
    kept = after.state.transfers.set(request, before.get(request, NO_TRANSFER))
    return after._replace(state=after.state._replace(transfers=kept))


def without_places(era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """C-SCH-36: no place is kept for output that was dropped."""
    kept = marks(state, UNANSWERED)
    state = with_marks(state, UNANSWERED, kept.remove(part.request) if part.void else kept)
    return era.executed(rules, config, state, part, accepted)


def dropping_behind_what_failed(
    own: AnyTransition, config: Config, state: State, op: FailStep
) -> tuple[State, Outcome]:
    """C-SCH-37: what the request has in flight behind the failed load is void."""
    after, outcome = own(config, state, op)
    return (voided(after, op.request) if outcome.code is Code.DONE else after), outcome


def giving_back_between_turns(rules: Table) -> Table:
    """C-SCH-26: a session holds nothing between two turns."""
    return rules._replace(leave=RULES.leave, next_turn=RULES.next_turn)


def ended_by_its_own_limit(era: Table, config: Config, request: Request) -> int:
    """C-SCH-27: each turn ends at its own limit."""
    return ended_length(config, request) if is_turn(config, request) else era.ended(config, request)


def session_fits_the_model(config: Config, request: Request) -> bool:
    """C-SCH-28: the tokens of a session leave room for output within the model's length."""
    return config.prompts[request] < config.max_model_len


# Drafts ---------------------------------------------------------------------------------------------------------------


def drafts_with_their_output(era: Table) -> Table:
    """C-SCH-30: drafts come with an output, as many as it can still take. Nothing is planned behind those in flight."""

    def wants(config: Config, state: State, request: Request, start: int) -> int:
        return 0 if verifying(state, request) else era.wanted(config, state, request, start)

    def planned(rules: Table, config: Config, state: State, part: Scheduled) -> State:
        return era.after_round(rules, config, state, part)._replace(proposed=state.proposed)

    def executed(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
        after = era.executed(rules, config, state, part, accepted)
        if part.void or part.samples == 0 or part.request not in after.running:
            return after
        left = final_length(config, part.request) - 1 - known_length(config, after, part.request)
        return requests.with_drafts(after, part.request, min(config.drafts, left))

    return era._replace(wanted=wants, after_round=planned, executed=executed)


def counted_in_its_run(era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """C-SCH-32: rejected drafts count only for the run that computed them."""
    after = era.executed(rules, config, state, part, accepted)
    if is_of_this_run(state, part) or part.request not in after.running:
        return after
    return after._replace(computed=after.computed.set(part.request, state.computed.get(part.request, 0)))


def without_late_drafts(
    era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int
) -> State:
    """C-SCH-34: a request has no drafts while it waits."""
    after = era.executed(rules, config, state, part, accepted)
    if part.request in after.running:
        return after
    return after._replace(proposed=after.proposed.remove(part.request))


def to_the_end_of_the_model(era: Table, config: Config, state: State, request: Request, start: int) -> int:
    """C-SCH-42: of a pooling model all tokens of the prompt are computed."""
    return (wanted if config.pooling == 1 else era.wanted)(config, state, request, start)


def unpadded(era: Table) -> Table:
    """C-SCH-31: a waiting request is admitted without drafts."""
    return era._replace(admit_waiting=era_admission.admit_without_output_in_flight)


def behind_output_in_flight(era: Table, rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-33: no request is admitted behind one whose output is in flight."""
    line = current.state.waiting
    first = tuple(takewhile(lambda request: tokens_in_flight(current.state, request) == 0, line))
    after = era.admit_waiting(rules, config, current._replace(state=current.state._replace(waiting=first)))
    return after._replace(state=after.state._replace(waiting=(*after.state.waiting, *line[len(first) :])))


def counting_what_came(era: Table, rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-43: of a request whose load is over, the tokens count that the load has brought."""
    for request in current.state.waiting:
        current = era_loads.promoted(rules, config, current, request)
    return era.admit_waiting(rules, config, current)


def kept_while_a_load_writes(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-SCH-44: the blocks of an aborted request are freed when its load is done."""
    state = requests.withdrawn(rules, config, state, request)
    return era_placeholders.with_placeholders(state, request, 0)


def finished_once(era: Table) -> Table:
    """C-SCH-45: output of a request that is finished is dropped."""
    return era._replace(executed=era_placeholders.executed_with_place)


def behind_steps_in_flight(
    era: Table, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix
) -> Round:
    """C-SCH-46: no load begins while a step in flight may write to blocks that were given back."""
    if may_be_overwritten(current.state):
        return rules.passed_by(rules, config, current, request)
    return era.load(rules, config, current, request, prefix)


def up_to_the_last_output(era: Table, config: Config, state: State, request: Request, start: int) -> int:
    """C-SCH-47: no step computes more than a request's last token needs."""
    most = final_length(config, request) - 1 - start
    return max(0, min(era.wanted(config, state, request, start), most))


MENDS = (
    Mend("C-ENC-2", ("S2",), by_rules(partial(encoder_without, "C-ENC-2"))),
    Mend("C-ENC-3", ("S0", "S1"), by_rules(granted_beside_grants)),
    Mend("C-ENC-5", ("S0", "S1"), by_rules(both_given_back)),
    Mend("C-ENC-8", ("S2", "S2b"), by_rules(partial(encoder_without, "C-ENC-8"))),
    Mend("C-ENC-9", ("S2",), by_rules(released_by_output)),
    Mend("C-ENC-10", SHARING, by_rules(pins_given_back)),
    Mend("C-ENC-11", QUEUEING, if_also(all_items_fit)),
    Mend("C-ENC-13", ("S2b", "S3"), by_rules(partial(encoder_without, "C-ENC-13"))),
    Mend("C-ENC-15", ("S2", "S2b"), around_rule(whole_at_the_start, "fit_item")),
    Mend("C-ENC-15", ("S1", "S2", "S2b", "S3"), if_also(items_fit_chunks)),
    Mend("C-ENC-16", SHARING, if_also(items_fit_the_threshold)),
    Mend("C-ENC-25", ("S2b", "S3"), by_rules(released_by_output)),
    Mend("C-ENC-26", ("S2b", "S3"), around_rule(freed_with_its_plan, "lose")),
    Mend("C-ENC-27", ("S2b", "S3"), by_rules(each_dropped_once)),
    Mend("C-ENC-29", CONNECTED, around_rule(loads_without_compute, "fit_item")),
    Mend("C-SCH-1", ("S0",), by_rules(blocked_at_none)),
    Mend("C-SCH-5", QUEUEING, if_also(fits_blocks)),
    Mend("C-SCH-9", QUEUEING, if_also(prompt_fits_one_step)),
    Mend("C-SCH-10", QUEUEING, if_also(rest_fits_one_step)),
    Mend("C-SCH-11", ("S2",), by_rules(out_of_the_plan)),
    Mend("C-SCH-12", ("S2", "S3"), around_rule(blocking, "turned_down")),
    Mend("C-SCH-13", ("S2",), by_rules(in_their_places)),
    Mend("C-SCH-14", ("S2",), by_rules(out_of_the_plan)),
    Mend("C-SCH-15", ("S2b",), by_rules(moving_with_the_list)),
    Mend("C-SCH-18", ("S1", "S2", "S2b"), by_rules(beside_all_adapters)),
    Mend("C-SCH-19", ("S2b",), by_rules(in_one_queue)),
    Mend("C-SCH-20", ("S2b",), by_rules(ended_at_the_length)),
    Mend("C-SCH-21", ("S1",), around_rule(without_earlier_runs, "lose")),
    Mend("C-SCH-22", ("S1",), by_rules(in_several_steps)),
    Mend("C-KV-6", CONNECTED, around(forgetting_what_failed, FailStep)),
    Mend("C-SCH-24", LOADING, by_rules(reserving)),
    Mend("C-SCH-25", CONNECTED, around_rule(beside_unfinished_loads, "cached_prefix")),
    Mend("C-SCH-26", CONNECTED, by_rules(giving_back_between_turns)),
    Mend("C-SCH-27", ("S2b",), around_rule(ended_by_its_own_limit, "ended")),
    Mend("C-SCH-28", CONNECTED, if_also(session_fits_the_model)),
    Mend("C-SCH-30", CONNECTED, by_rules(drafts_with_their_output)),
    Mend("C-SCH-31", ("S3",), by_rules(unpadded)),
    Mend("C-SCH-32", ("S2b",), around_rule(counted_in_its_run, "executed")),
    Mend("C-SCH-33", ("S3",), around_rule(behind_output_in_flight, "admit_waiting")),
    Mend("C-SCH-34", CONNECTED, around_rule(without_late_drafts, "executed")),
    Mend("C-SCH-35", ("S3",), around_rule(reserving_for_others, "load")),
    Mend("C-SCH-36", CONNECTED, around_rule(without_places, "executed")),
    Mend("C-SCH-42", ("S2b",), around_rule(to_the_end_of_the_model, "wanted")),
    Mend("C-SCH-37", CONNECTED, around(dropping_behind_what_failed, FailStep)),
    Mend("C-SCH-43", ("S2",), around_rule(counting_what_came, "admit_waiting")),
    Mend("C-SCH-44", ("S2",), around_rule(kept_while_a_load_writes, "abort")),
    Mend("C-SCH-45", ("S2",), by_rules(finished_once)),
    Mend("C-SCH-46", ("S2",), around_rule(behind_steps_in_flight, "load")),
    Mend("C-SCH-47", ("S2",), around_rule(up_to_the_last_output, "wanted")),
)
