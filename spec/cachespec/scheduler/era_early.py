"""How 0.7.3 keeps steps in flight apart: by the names of the requests that are in one (`scheduled_req_ids`).

Tokens count as computed when their output arrives. C-SCH-21: a preempted request keeps its name there, and may be
admitted again while its old step is in flight. That step's output then counts for the new run, and takes the name away.
"""

from __future__ import annotations

from cachespec.scheduler import requests
from cachespec.scheduler.configuration import Config, Request
from cachespec.scheduler.counts import known_length, tokens_in_flight
from cachespec.scheduler.era_placeholders import DEAD
from cachespec.scheduler.era_rules import counted, with_listed_released
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.requests import sampled
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rounds import serve
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Scheduled, State

NAMED = "named"
"""A field of the state: requests that are taken to be in a step; each 1."""


def dead(state: State, request: Request) -> State:
    """An assertion, or the removal of a name that is not there, has ended the engine."""
    return with_marks(state, DEAD, marks(state, DEAD).set(request, 1))


def executed_so_far(state: State, request: Request) -> int:
    """The request's computed tokens without those in flight, which 0.7.3 does not count yet."""
    return state.computed.get(request, 0) - tokens_in_flight(state, request)


def serve_unnamed(rules: Table, config: Config, current: Round) -> Round:
    """S1: running requests that are in no step."""
    running = current.state.running
    for position in range(len(running)):
        current = serve_if_unnamed(rules, config, current, running[position])
    return current


def serve_if_unnamed(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """One of them. It goes on behind what was executed, also if a step of it is in flight after all (C-SCH-21)."""
    state = current.state
    if not state.computed.has(request) or current.tokens <= 0 or marks(state, NAMED).has(request):
        return current
    start, flying = executed_so_far(state, request), tokens_in_flight(state, request)
    if known_length(config, state, request) + state.proposed.get(request, 0) <= start:
        return current._replace(state=dead(state, request), ended=1)
    begun = current._replace(state=state._replace(computed=state.computed.set(request, start)))
    after = serve(rules, config, begun, request)
    if len(after.scheduled) > len(current.scheduled) or not after.state.computed.has(request):
        return after
    return after._replace(state=after.state._replace(computed=after.state.computed.set(request, start + flying)))


def named_in_step(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """S1: what was scheduled is in a step. The tokens of an older step in flight will count, too (C-SCH-21)."""
    older = tokens_in_flight(state, part.request) - part.tokens
    state = with_marks(state, NAMED, marks(state, NAMED).set(part.request, 1))
    return state._replace(computed=state.computed.set(part.request, state.computed.get(part.request, 0) + older))


def executed_by_name(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """S1: items behind what is computed by now are released. Output of one that does not run is dropped.

    C-SCH-21: output of an earlier run counts. The second output of a request then finds no name, and ends the engine.
    """
    if part.void or not any(request == part.request for request in state.running):
        return state
    known = known_length(config, state, part.request)
    if not marks(state, NAMED).has(part.request):
        return dead(state, part.request)
    rejected = max(0, part.drafts - accepted)
    state = counted(rules, config, state, part, rejected)
    executed = executed_so_far(state, part.request)
    if part.drafts == 0 and executed > known:
        return dead(state, part.request)
    state = with_marks(state, NAMED, marks(state, NAMED).remove(part.request))
    state = with_listed_released(rules, config, state, part.request, executed)
    return sampled(rules, config, state, part, rejected) if executed >= known else state


def leave_unnamed(rules: Table, config: Config, state: State, request: Request) -> State:
    """A request that is gone is in no step."""
    state = with_marks(state, NAMED, marks(state, NAMED).remove(request))
    return requests.leave(rules, config, state, request)
