"""The two phases as they were released: an index into a list that changes meanwhile, and the requests that it skips."""

from __future__ import annotations

from collections.abc import Callable

from cachespec.scheduler.configuration import FIRST_COME, LENGTH, Config, Request, items_of
from cachespec.scheduler.era_arrivals import preempt_by_arrival
from cachespec.scheduler.era_early_loads import promoted
from cachespec.scheduler.era_fences import is_fenced
from cachespec.scheduler.round_state import Fit, Round
from cachespec.scheduler.rounds import attempt, consider, holding, is_full, look_at_items, scheduled
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import State

Stays = Callable[[Config, State, Request], bool]
"""Whether a running request is not preempted."""


def serve_by_index(rules: Table, config: Config, current: Round) -> Round:
    """S2. SCH-7: if a request before the index is preempted, the next request is skipped.

    SCH-5: a request that was scheduled and is preempted stays in the plan, with its tokens and items.
    """
    index = 0
    while index < len(current.state.running) and current.tokens > 0:
        request = current.state.running[index]
        fit, start = fit_of(rules, config, current, request)
        index = index + 1
        if not rules.is_count(fit.tokens):
            current = rules.passed_over(rules, config, current, request, fit)
            continue
        current = holding(current, fit)
        search = attempt(rules, config, current, request, start, fit.tokens)
        while not search.found and search.round.state.computed.has(request):
            current = preempt_by_arrival(rules, config, search.round, rules.victim(config, search.round.state))
            search = attempt(rules, config, current, request, start, fit.tokens)
        if not search.found:
            return search.round
        current = scheduled(rules, config, search.round, request, start, fit)
    return current


def serve_and_restore(rules: Table, config: Config, current: Round) -> Round:
    """S3: the index moves with the list; a preempted request gives back its tokens and compute budget.

    Of the compute budget nothing comes back where the request that goes on has an item encoded itself.
    """
    return serve_restoring(rules, config, current, moves_with_the_list=True, stays=is_fenced)


def serve_and_restore_scheduled(rules: Table, config: Config, current: Round) -> Round:
    """S2b. SCH-7: as S3, but preempting an unscheduled request skips the next one (#49097).

    A request that preempts itself ends the phase, although others are behind it.
    """
    return serve_restoring(rules, config, current, moves_with_the_list=False, stays=nobody_stays)


def nobody_stays(config: Config, state: State, request: Request) -> bool:
    """S2b: any running request can be preempted."""
    return False


def serve_restoring(rules: Table, config: Config, current: Round, *, moves_with_the_list: bool, stays: Stays) -> Round:
    """The first phase; the index moves back for each preempted request before it, or for scheduled ones only.

    It ends where the next victim is one that `stays`.
    """
    index = 0
    while index < len(current.state.running) and current.tokens > 0:
        request = current.state.running[index]
        fit, start = fit_of(rules, config, current, request)
        if not rules.is_count(fit.tokens):
            current, index = rules.passed_over(rules, config, current, request, fit), index + 1
            continue
        search = attempt(rules, config, holding(current, fit), request, start, fit.tokens)
        while not search.found and search.round.state.computed.has(request):
            victim = rules.victim(config, search.round.state)
            if stays(config, search.round.state, victim):
                return search.round
            before = search.round.state.running.index(victim) < index
            was_scheduled = any(part.request == victim for part in search.round.scheduled)
            index = index - (before if moves_with_the_list else was_scheduled)
            current = restored(config, preempt_by_arrival(rules, config, search.round, victim), victim)
            if not fit.encode:
                fit = fit._replace(embeds=current.embeds)
            search = attempt(rules, config, current, request, start, fit.tokens)
        current = search.round
        if search.found:
            current, index = scheduled(rules, config, current, request, start, fit), index + 1
        elif not moves_with_the_list:
            return current
    return current


def restored(config: Config, current: Round, victim: Request) -> Round:
    """Without the victim's part of the plan."""
    parts = [part for part in current.scheduled if part.request == victim]
    embeds = sum(items_of(config, victim)[index][LENGTH] for part in parts for index in part.encode)
    return current._replace(
        scheduled=tuple(part for part in current.scheduled if part.request != victim),
        chunks=tuple(chunk for chunk in current.chunks if chunk.request != victim),
        tokens=current.tokens + sum(part.tokens for part in parts),
        embeds=current.embeds + embeds,
    )


def admit_and_turn_round(rules: Table, config: Config, current: Round) -> Round:
    """S2. SCH-8: those that are passed over are put back in front of all others, and the last of them first.

    With priorities they are sorted again, and nothing comes of it.
    """
    passed: tuple[Request, ...] = ()
    for request in current.state.waiting:
        looks_at = not current.ended and not is_full(config, current)
        current = promoted(config, current, request) if looks_at else current
        current = consider(rules, config, current, request)
        if looks_at and not current.ended and request in current.state.waiting:
            passed = (request, *passed)
    if config.policy != FIRST_COME:
        return current
    others = tuple(request for request in current.state.waiting if request not in passed)
    return current._replace(state=current.state._replace(waiting=(*passed, *others)))


def fit_of(rules: Table, config: Config, current: Round, request: Request) -> tuple[Fit, int]:
    """What the request may get before blocks are looked for, and where it begins."""
    start = current.state.computed.get(request, 0)
    tokens = rules.wanted(config, current.state, request, start)
    offer = rules.offered(config, current.state, request, start, tokens, current.tokens)
    return look_at_items(rules, config, current, request, start, offer), start
