"""What the mends of the scheduler do to items and the encoder cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cacheproof.catalogue.mends import encoder_cache as of_encoder_cache
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named
from cachespec.encoder_cache import Report
from cachespec.encoder_cache.era_by_model import Managers, by_model
from cachespec.encoder_cache.operations import ENCODER
from cachespec.kernel import Outcome
from cachespec.scheduler import era_rules, requests
from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    ItemIndex,
    Request,
    encoder_config,
    items_of,
)
from cachespec.scheduler.items import cuts, is_apart, is_granted, up_to
from cachespec.scheduler.parts import give_up
from cachespec.scheduler.remote import is_stored
from cachespec.scheduler.round_state import Fit, Round
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Scheduled, State


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


def each_occurrence_looked_at(
    era: Table, rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
) -> Fit:
    """C-ENC-7: a second occurrence in a step relies on the entry that the step makes for the first."""
    item = items_of(config, request)[index]
    after = era.fit_item(rules, config, fit, request, index, start)
    passed = after.refused or after.tokens <= 0 or is_apart(config, item, start, after.tokens)
    if passed or index in after.relies or not is_granted(config, fit, request, item):
        return after
    return after._replace(relies=(*after.relies, index))


def room_for_the_first(era: Table) -> Table:
    """C-ENC-31: behind a request that waits for an item, no request takes room for one in the step."""

    def fit_item(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
        item = items_of(config, request)[index]
        passed = fit.refused or fit.tokens <= 0 or is_apart(config, item, start, fit.tokens)
        held = rules.encoder.view(encoder_config(config), fit.encoder).held
        if fit.closed and not passed and (request, index) not in held:
            return up_to(fit, item, start)
        return era.fit_item(rules, config, fit, request, index, start)

    def passed_over(rules: Table, config: Config, current: Round, request: Request, fit: Fit) -> Round:
        after = era.passed_over(rules, config, current, request, fit)
        return after._replace(closed=max(after.closed, fit.refused))

    return era._replace(fit_item=fit_item, passed_over=passed_over)


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


def kept_while_a_step_reads(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-ENC-25: a preempted request keeps its items while a step of it is in flight whose output counts."""
    after = era.lose(rules, config, state, request)
    reads = any(
        part.request == request and part.relies and not part.void for plan in after.plans for part in plan.scheduled
    )
    return after._replace(encoder=state.encoder) if reads else after
