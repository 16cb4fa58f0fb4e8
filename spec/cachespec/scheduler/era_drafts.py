"""Drafts in steps that are ahead of their output, as the asynchronous schedulers of 0.20.2 and 0.33.0 count them.

The workers propose the drafts and keep them. The scheduler knows only how many there are: each step that samples is
followed by a placeholder for each configured draft, and the next step is planned as if all drafts in flight were right.
If some are rejected, the steps behind them begin as many tokens earlier.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request, final_length, is_asynchronous
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.requests import sampled, with_drafts
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Plan, Scheduled, State


def with_placeholders_proposed(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """S2b, S3: placeholders for drafts follow each part that samples, as soon as it is planned."""
    if not is_asynchronous(config) or part.samples == 0:
        return state
    return with_drafts(state, part.request, config.drafts)


def begun_earlier(config: Config, state: State, request: Request, rejected: int) -> State:
    """S2b, S3: the request's parts in flight begin where its last right token ends. `rejected`: drafts before them."""
    if not is_asynchronous(config) or rejected == 0:
        return state
    return state._replace(plans=tuple(moved_back(plan, request, rejected) for plan in state.plans))


def moved_back(plan: Plan, request: Request, tokens: int) -> Plan:
    """One plan, in which the part of the request begins `tokens` earlier."""
    moved = tuple(
        part._replace(start=part.start - tokens) if part.request == request and not part.void else part
        for part in plan.scheduled
    )
    return plan._replace(scheduled=moved)


def answered(rules: Table, config: Config, state: State, part: Scheduled, rejected: int) -> State:
    """S2b, S3: the output of a part, and the drafts behind it.

    If steps are ahead of their output it brings no drafts, and the placeholders stay as they are.
    """
    after = sampled(rules, config, state, part, rejected) if part.samples else state
    if after.gone.has(part.request) or config.drafts == 0:
        return after
    if is_asynchronous(config):
        return with_drafts(after, part.request, state.proposed.get(part.request, 0))
    return proposed_behind(config, after, part, known_length(config, state, part.request))


def dropped_output(config: Config, state: State, part: Scheduled) -> State:
    """S3: drafts behind an output are taken although the output is dropped."""
    if config.drafts == 0 or is_asynchronous(config):
        return state
    return proposed_behind(config, state, part, known_length(config, state, part.request))


def proposed_behind(config: Config, state: State, part: Scheduled, known: int) -> State:
    """S2b, S3: the workers propose drafts behind each part that samples, also if the request was preempted since.

    A request gets none while its newest part leaves some of its tokens to compute. `known`: those before the output.
    """
    left = final_length(config, part.request) - 1 - known_length(config, state, part.request)
    offered = part.samples and not leaves_known_tokens(state, part.request, known)
    return with_drafts(state, part.request, min(config.drafts, left) if offered else 0)


def leaves_known_tokens(state: State, request: Request, known: int) -> bool:
    """Whether the newest part in flight of the request ends before this many tokens."""
    end = known
    for plan in state.plans:
        for part in plan.scheduled:
            end = part.start + part.tokens if part.request == request else end
    return end < known


def with_drafts_kept(before: State, current: Round, request: Request) -> Round:
    """S2b, S3: a request is admitted with the drafts that output of an earlier run has brought (C-SCH-34)."""
    drafts = before.proposed.get(request, 0)
    if drafts == 0 or not current.state.computed.has(request):
        return current
    return current._replace(state=with_drafts(current.state, request, drafts))
