"""How 0.33.0 admits waiting requests: it pads decodes with drafts, and waits for output of a preempted request."""

from __future__ import annotations

from functools import partial

from cachespec.scheduler.configuration import Config, Request, is_asynchronous
from cachespec.scheduler.counts import known_length, tokens_in_flight
from cachespec.scheduler.era_alignment import ending_at_multiple
from cachespec.scheduler.era_drafts import with_drafts_kept, with_placeholders_proposed
from cachespec.scheduler.era_loads import PUT_BACK, READY, promoted, put_back
from cachespec.scheduler.era_rules import limited_among_several
from cachespec.scheduler.era_states import idle_sessions, marks, with_marks
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rounds import consider, is_full
from cachespec.scheduler.rules import GivesBack, Offered, Table
from cachespec.scheduler.state import Scheduled, State
from cachespec.scheduler.transfers import phase_of

PREFILLING = "prefilling"
"""A field of the state: requests whose last chunk left known tokens to compute. Empty without drafts and late loads."""


def admit_delivered(rules: Table, config: Config, current: Round) -> Round:
    """S3: a preempted request is passed over while output of it is in flight. #48245: that output is delivered."""
    if may_pad(config, current):
        padding = rules._replace(offered_whole=partial(offered_padded, rules.offered_whole, len(current.scheduled)))
        return admit_without_output_in_flight(padding, config, current)
    return admit_without_output_in_flight(rules, config, current)


def admit_without_output_in_flight(rules: Table, config: Config, current: Round) -> Round:
    """S3: one waiting request after the other, in their order."""
    for request in current.state.waiting:
        if not current.ended and not is_full(config, current) and not is_crowded(config, current.state):
            current = in_prompt(promoted(rules, config, current, request), request)
            current = put_back(considered_without_output(rules, config, current, request), request)
    return current


def considered_without_output(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """S3: the request is admitted if it can be, with the drafts that it has kept. Not while its output is in flight."""
    if tokens_in_flight(current.state, request) > 0:
        return current
    return with_drafts_kept(current.state, consider(rules, config, current, request), request)


def is_crowded(config: Config, state: State) -> bool:
    """S3: a session that waits for input counts as one that runs."""
    return len(state.running) + idle_sessions(state) >= config.max_running


def in_prompt(current: Round, request: Request) -> Round:
    """S3: a request whose load is over counts as one that computes a prompt until its first step is planned."""
    if phase_of(current.state, request) not in (READY, PUT_BACK):
        return current
    marked = marks(current.state, PREFILLING).set(request, 1)
    return current._replace(state=with_marks(current.state, PREFILLING, marked))


def out_of_prompt(lose: GivesBack) -> GivesBack:
    """S3: a request that is preempted no longer counts as one that computes a prompt, before its next chunk."""

    def lost(rules: Table, config: Config, state: State, request: Request) -> State:
        state = with_marks(state, PREFILLING, marks(state, PREFILLING).remove(request))
        return lose(rules, config, state, request)

    return lost


def may_pad(config: Config, current: Round) -> bool:
    """No running request computes a part of a prompt in this step."""
    if config.drafts == 0:
        return False
    prefilling = marks(current.state, PREFILLING)
    return not any(prefilling.has(part.request) for part in current.scheduled)


def offered_padded(
    plain: Offered, beside: int, config: Config, state: State, request: Request, start: int, tokens: int, budget: int
) -> int:
    """S3: a request with one token left is scheduled with drafts that are made up, and not without them.

    `plain`: what is offered otherwise. `beside`: how many running requests are scheduled in this step.

    #53962: not beyond the length of the model; then it is scheduled as it is.
    """
    padded = 1 + config.drafts
    decodes = tokens == 1 and (beside > 0 or start > 0)
    if not decodes or start + padded + 1 > config.max_model_len:
        return plain(config, state, request, start, tokens, budget)
    return all_or_one(config, state, request, start, padded) if padded <= budget else 0


def all_or_one(config: Config, state: State, request: Request, start: int, padded: int) -> int:
    """S3: the token with its drafts, as far as the limit for one request goes.

    If chunks are aligned, it has all of its drafts or none.
    """
    offer = ending_at_multiple(config, state, request, start, limited_among_several(config, state, padded))
    return 1 if config.alignment > 0 and 0 < offer < padded else offer


def with_prefilling(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """S3: whether this chunk has left known tokens of its request to compute."""
    state = with_placeholders_proposed(rules, config, state, part)
    if config.drafts == 0 and not config.loads_later:
        return state
    marked = marks(state, PREFILLING).remove(part.request)
    for request, _ in tuple(marked.items()):
        marked = marked.remove(request) if state.gone.has(request) else marked
    behind = not is_asynchronous(config) and part.start + part.tokens >= known_length(config, state, part.request)
    return with_marks(state, PREFILLING, marked if part.samples or behind else marked.set(part.request, 1))
