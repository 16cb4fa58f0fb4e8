"""The eras of the scheduler, each without one of their faults: their table of rules with some wrapped or replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around
from cacheproof.catalogue.mends import scheduler_items as items
from cacheproof.catalogue.mends import scheduler_transfers as transfers
from cacheproof.model.finding import Subject
from cachespec.kernel import Code, Outcome
from cachespec.scheduler import era_admission, era_rounds, era_rules, readiness, requests
from cachespec.scheduler.configuration import (
    Config,
    Request,
    ended_length,
    final_length,
    items_of,
)
from cachespec.scheduler.counts import is_of_this_run, known_length, tokens_in_flight, verifying, wanted
from cachespec.scheduler.era_alignment import aligned_by_count
from cachespec.scheduler.era_blocks import with_output_registered
from cachespec.scheduler.feasibility import (
    fits_blocks,
    fits_chunk,
    fits_encoder,
    fits_first_step,
    fits_one_step,
    limited,
)
from cachespec.scheduler.lines import in_front, left_out
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import FailStep, FinishSend, ResetRunning, Schedule
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rounds import admit_waiting, lose_everything, nothing_more, serve_running, untrimmed, voided
from cachespec.scheduler.rules import Offered, Table
from cachespec.scheduler.state import Scheduled, State

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


def its_blocks_exist(subject: Subject) -> Change:
    """C-SCH-5: the KV of a request fits the blocks that requests may have. Released pools keep one for themselves."""
    usable = subject.variant.start(subject.config).kv.free_count()
    return if_also(lambda config, request: fits_blocks(config._replace(kv_blocks=usable), request))


def all_items_fit(config: Config, request: Request) -> bool:
    """C-ENC-11: no item is larger than the compute budget or the cache."""
    return all(fits_encoder(config, item) for item in items_of(config, request))


def prompt_fits_one_step(config: Config, request: Request) -> bool:
    """C-SCH-9: a prompt that is not cut fits a step."""
    return config.chunked_prefill == 1 or limited(config, config.prompts[request]) <= config.token_budget


def alone_it_fits_one_step(config: Config, request: Request) -> bool:
    """C-SCH-9 in S3, where the threshold for long prompts does not count for a lone request."""
    return prompt_fits_one_step(config._replace(long_prefill_threshold=0), request)


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


def before_their_equals(era: Table) -> Table:
    """C-SCH-8: a preempted request is admitted before those that wait, and the last of those that run is preempted."""

    def serve(rules: Table, config: Config, current: Round) -> Round:
        after = era.serve_running(rules, config, current)
        for victim in after.preempted:
            line = in_front(config, left_out(after.state.waiting, victim), victim)
            after = after._replace(state=after.state._replace(waiting=line))
        return after

    return era._replace(serve_running=serve, victim=RULES.victim, joined=RULES.joined)


def waiting_as_they_ran(own: AnyTransition, config: Config, state: State, op: ResetRunning) -> tuple[State, Outcome]:
    """C-SCH-8: those that a reset preempts wait in the order in which they ran."""
    after, outcome = own(config, state, op)
    if outcome.code is Code.FAILED:
        return after, outcome
    line = after.waiting
    for request in reversed(state.running):
        line = in_front(config, left_out(line, request), request)
    return after._replace(waiting=line), outcome


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


def registered_with_their_output(
    era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int
) -> State:
    """C-KV-38: a block that accepted drafts have filled is registered when they are accepted."""
    after = era.executed(rules, config, state, part, accepted)
    computed = after.computed.get(part.request, 0) - tokens_in_flight(after, part.request)
    return with_output_registered(config, after, part, computed)


def without_late_drafts(
    era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int
) -> State:
    """C-SCH-34: a request has no drafts while it waits, and output of an earlier run brings none."""
    after = era.executed(rules, config, state, part, accepted)
    if part.request not in after.running:
        return after._replace(proposed=after.proposed.remove(part.request))
    return after._replace(proposed=state.proposed) if part.void else after


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


def up_to_the_last_output(era: Table, config: Config, state: State, request: Request, start: int) -> int:
    """C-SCH-47: no step computes more than a request's last token needs."""
    most = final_length(config, request) - 1 - start
    return max(0, min(era.wanted(config, state, request, start), most))


# Chunks that end at multiples ----------------------------------------------------------------------------------------


def taken_unaligned(era: Table) -> Table:
    """C-ENC-14: a chunk of which the alignment leaves nothing is taken as it is."""
    return era._replace(offered=some_or_unaligned(era.offered), offered_whole=some_or_unaligned(era.offered_whole))


def some_or_unaligned(offered: Offered) -> Offered:
    """The tokens that are offered, without the alignment if it leaves none."""

    def unaligned(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
        offer = offered(config, state, request, start, tokens, budget)
        return offer if offer > 0 else offered(config._replace(alignment=0), state, request, start, tokens, budget)

    return unaligned


def aligned_before_items(era: Table) -> Table:
    """C-ENC-14: chunks are aligned before the items are looked at, and likewise."""
    return era._replace(
        offered=aligned_or_as_is(era.offered), offered_whole=aligned_or_as_is(era.offered_whole), trimmed=untrimmed
    )


def aligned_or_as_is(offered: Offered) -> Offered:
    """The tokens that are offered, aligned if that leaves some."""

    def aligned(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
        offer = offered(config, state, request, start, tokens, budget)
        left = aligned_by_count(config, state, request, start, offer)
        return left if left > 0 else offer

    return aligned


MENDS = (
    Mend("C-ENC-2", ("S2",), by_rules(partial(items.encoder_without, "C-ENC-2"))),
    Mend("C-ENC-3", ("S0", "S1"), by_rules(items.granted_beside_grants)),
    Mend("C-ENC-5", ("S0", "S1"), by_rules(both_given_back)),
    Mend("C-ENC-6", ("S2",), by_rules(partial(items.encoder_without, "C-ENC-6"))),
    Mend("C-ENC-7", ("S2", "S2b"), by_rules(partial(items.encoder_without, "C-ENC-7"))),
    Mend("C-ENC-7", ("S2", "S2b"), around_rule(items.each_occurrence_looked_at, "fit_item")),
    Mend("C-ENC-8", ("S2", "S2b"), by_rules(partial(items.encoder_without, "C-ENC-8"))),
    Mend("C-ENC-9", ("S2",), by_rules(items.released_by_output)),
    Mend("C-ENC-10", SHARING, by_rules(items.pins_given_back)),
    Mend("C-ENC-11", QUEUEING, if_also(all_items_fit)),
    Mend("C-ENC-11", SHARING, if_also(fits_first_step)),
    Mend("C-ENC-13", ("S2b", "S3"), by_rules(partial(items.encoder_without, "C-ENC-13"))),
    Mend("C-ENC-14", ("S2b",), by_rules(aligned_before_items)),
    Mend("C-ENC-14", ("S3",), by_rules(taken_unaligned)),
    Mend("C-ENC-15", ("S2", "S2b"), around_rule(items.whole_at_the_start, "fit_item")),
    Mend("C-ENC-15", ("S1", "S2", "S2b", "S3"), if_also(items_fit_chunks)),
    Mend("C-ENC-16", SHARING, if_also(items_fit_the_threshold)),
    Mend("C-ENC-25", ("S2b", "S3"), by_rules(items.released_by_output)),
    Mend("C-ENC-25", ("S2b", "S3"), around_rule(items.kept_while_a_step_reads, "lose")),
    Mend("C-ENC-26", ("S2b", "S3"), around_rule(items.freed_with_its_plan, "lose")),
    Mend("C-ENC-27", ("S2b", "S3"), by_rules(items.each_dropped_once)),
    Mend("C-ENC-29", CONNECTED, around_rule(items.loads_without_compute, "fit_item")),
    Mend("C-ENC-31", ("S1", *SHARING), by_rules(items.room_for_the_first)),
    Mend("C-SCH-1", ("S0",), by_rules(blocked_at_none)),
    Mend("C-SCH-5", QUEUEING, lambda subject: its_blocks_exist(subject)(subject)),
    Mend("C-SCH-8", SHARING, by_rules(before_their_equals)),
    Mend("C-SCH-8", ("S3",), around(waiting_as_they_ran, ResetRunning)),
    Mend("C-SCH-9", ("S0", "S1", "S2", "S2b"), if_also(prompt_fits_one_step)),
    Mend("C-SCH-9", ("S3",), if_also(alone_it_fits_one_step)),
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
    Mend("C-KV-6", CONNECTED, around(transfers.forgetting_what_failed, FailStep)),
    Mend("C-KV-6", CONNECTED, around(transfers.forgetting_what_is_withdrawn, Schedule)),
    Mend("C-KV-38", ("S2", "S2b"), around_rule(registered_with_their_output, "executed")),
    Mend("C-SCH-24", LOADING, by_rules(transfers.reserving)),
    Mend("C-SCH-24", CONNECTED, around_rule(transfers.holders_first, "admit_waiting")),
    Mend("C-SCH-25", CONNECTED, around_rule(transfers.beside_unfinished_loads, "cached_prefix")),
    Mend("C-SCH-26", CONNECTED, by_rules(transfers.giving_back_between_turns)),
    Mend("C-SCH-27", ("S2b",), around_rule(transfers.ended_by_its_own_limit, "ended")),
    Mend("C-SCH-28", CONNECTED, if_also(transfers.session_fits_the_model)),
    Mend("C-SCH-30", CONNECTED, by_rules(drafts_with_their_output)),
    Mend("C-SCH-31", ("S3",), by_rules(unpadded)),
    Mend("C-SCH-32", ("S2b",), around_rule(counted_in_its_run, "executed")),
    Mend("C-SCH-33", ("S3",), around_rule(behind_output_in_flight, "admit_waiting")),
    Mend("C-SCH-34", CONNECTED, around_rule(without_late_drafts, "executed")),
    Mend("C-SCH-35", ("S3",), around_rule(transfers.reserving_for_others, "load")),
    Mend("C-SCH-50", ("S3",), around_rule(transfers.without_own_drafts, "load")),
    Mend("C-SCH-36", CONNECTED, around_rule(transfers.without_places, "executed")),
    Mend("C-SCH-40", ("S3",), by_rules(transfers.freed_at_once)),
    Mend("C-SCH-40", ("S3",), around(transfers.freed_when_sent, FinishSend)),
    Mend("C-SCH-42", ("S2b",), around_rule(to_the_end_of_the_model, "wanted")),
    Mend("C-SCH-37", CONNECTED, around(transfers.dropping_behind_what_failed, FailStep)),
    Mend("C-SCH-43", ("S2",), around_rule(transfers.counting_what_came, "admit_waiting")),
    Mend("C-SCH-44", ("S2",), around_rule(transfers.kept_while_a_load_writes, "abort")),
    Mend("C-SCH-45", ("S2",), by_rules(transfers.finished_once)),
    Mend("C-SCH-46", ("S2", "S2b"), around_rule(transfers.behind_steps_in_flight, "load")),
    Mend("C-SCH-48", LOADING, around_rule(transfers.but_for_the_last_token, "cached_prefix")),
    Mend("C-SCH-49", CONNECTED, around_rule(transfers.sent_with_its_blocks, "leave")),
    Mend("C-SCH-47", ("S2",), around_rule(up_to_the_last_output, "wanted")),
)
