"""Drafts in steps that are ahead of their output, as the asynchronous schedulers of 0.20.2 and 0.33.0 count them.

The workers propose the drafts and keep them. The scheduler knows only how many there are: each step that samples is
followed by a placeholder for each configured draft, and the next step is planned as if all drafts in flight were right.
If some are rejected, the steps behind them begin as many tokens earlier.
"""

from __future__ import annotations

from cachespec.scheduler.configuration import Config, Request, is_asynchronous
from cachespec.scheduler.requests import sampled, with_drafts
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
    """One plan, in which the request's part begins so many tokens earlier."""
    moved = tuple(
        part._replace(start=part.start - tokens) if part.request == request and not part.void else part
        for part in plan.scheduled
    )
    return plan._replace(scheduled=moved)


def sampled_ahead(rules: Table, config: Config, state: State, part: Scheduled, rejected: int) -> State:
    """S2b, S3: output brings no drafts if steps are ahead of it, so the placeholders stay as they are."""
    after = sampled(rules, config, state, part, rejected)
    if not is_asynchronous(config) or after.gone.has(part.request):
        return after
    return with_drafts(after, part.request, state.proposed.get(part.request, 0))
