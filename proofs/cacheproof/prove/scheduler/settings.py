"""Stand-ins for the proof of `requests.py`: queues, plans, caches, workers, and settings without forks."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import (
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    assume,
    both,
    implies,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.scheduler import stand_ins
from cacheproof.prove.scheduler.caches import ENCODER, KV, Items
from cacheproof.prove.scheduler.life import (
    at,
    final,
    is_a_turn,
)
from cacheproof.prove.scheduler.queues import INTEGERS, Members
from cacheproof.prove.scheduler.stand_ins import any_answer, is_fit
from cacheproof.prove.sequences import SymbolicSequence, Unknown
from cacheproof.prove.shapes import INTEGER
from cachespec.scheduler import (
    counts,
    readiness,
    rounds,
)
from cachespec.scheduler.state import State


def at_one(numbers: Any, request: Term) -> Term:
    """Whether the setting of the request is 1."""
    return z3.And(numbers.length > 0, numbers.items[request] == 1)


def is_live(state: State, request: Any) -> Any:
    """It waits or runs."""
    line: Any = state.waiting
    other: Any = state.running
    return line.has(request) | other.has(request)


def left_out(line: Any, request: Any) -> Any:
    """Without the request."""
    return line.without(request)


def placed(config: Any, line: Any, request: Any) -> Any:
    """With the request, somewhere."""
    return line.added(request)


def loaded_first(state: State) -> Any:
    """The waiting requests in any order."""
    line: Any = state.waiting
    return line.reordered()


def voided(state: State, request: Any) -> State:
    """The parts of the request are void."""
    plans: Any = state.plans
    return state._replace(plans=plans.without(request))


def promised(config: Any, state: State, request: Any) -> Any:
    """Output tokens that the plans in flight may sample: a number of the plans."""
    plans: Any = state.plans
    return SymbolicInteger(plans.promised[integer_term(request)])


def number_of_later_turns(config: Any, request: Term) -> Term:
    """How many turns its session has behind the request: a number of the configuration."""
    number = z3.Function("later_turns", INTEGERS, z3.IntSort(), z3.IntSort(), z3.IntSort())
    turns = config.turns
    return number(turns.items, turns.length, request)


def later_turns(config: Any, request: Any) -> Any:
    """The requests behind this one that are turns, up to the first that is none."""
    if (config.turns == ()).always():
        return SymbolicSequence.of(INTEGER, ())
    request = integer_term(request)
    items, number = path().fresh("turns", INTEGERS), number_of_later_turns(config, request)
    path().assume(z3.And(number >= 0, z3.Not(is_a_turn(config, request + 1 + number))))
    place = z3.Int("place")
    law = is_next_turn(config, request, number, items, place).term
    path().assume(z3.ForAll([place], law, patterns=[items[place]]))
    return SymbolicSequence(INTEGER, items, number)


def is_next_turn(config: Any, request: Term, number: Term, items: Term, place: Term) -> SymbolicBoolean:
    """A law of `later_turns`: at each place is the request that follows, and it is a turn."""
    inside = z3.And(place >= 0, place < number)
    right = z3.And(items[place] == request + 1 + place, is_a_turn(config, items[place]))
    return SymbolicBoolean(z3.Implies(inside, right))


def is_first(state: State, request: Any) -> Any:
    """Whether the oldest plan counts for the request: if it does, some plan does."""
    answer = any_answer()
    plans: Any = state.plans
    assume(implies(answer, SymbolicBoolean(plans.counted[integer_term(request)])))
    return answer


def listed(config: Any, members: Any) -> Members:
    """The requests in the map."""
    return Members(members.members)


def emptied(config: Any, members: Any) -> Any:
    """No requests."""
    return states.map_of(INTEGER, INTEGER, ())


def the_same_state(*given: Any) -> Any:
    """Stands for what the workers do: the worker is the only part that changes."""
    return next(one for one in given if type(one) is State)


def pinning(rules: Any, config: Any, fit: Any, request: Any, start: Any) -> Any:
    """Stands for the encoder pass: any count that `ITEMS` allows; it pins items for this request (`PINS`)."""
    pinned = Members(z3.Store(fit.encoder.pinned.members, integer_term(request), any_answer().term))
    numbers: dict[str, Any] = {name: integer(name) for name in ("tokens", "embeds", "granted", "closed", "refused")}
    after = fit._replace(
        encoder=fit.encoder._replace(pinned=pinned), encode=Unknown(), bring=Unknown(), relies=Unknown(), **numbers
    )
    assume(is_fit(fit, after))
    return after


def taking(rules: Any, config: Any, encoder: Any, request: Any, encode: Any, relies: Any) -> Items:
    """Stands for the allocation of what was granted: only this request may hold more items (`PINS`)."""
    return Items(encoder.kept.joined(request), encoder.pinned.joined(request))


def switched_on(name: str) -> Any:
    """A setting of requests that is 1 or 0, without forking."""
    return lambda config, request: SymbolicBoolean(at_one(getattr(config, name), integer_term(request)))


def is_asynchronous(config: Any) -> SymbolicBoolean:
    """`is_asynchronous`, without forking."""
    return both(config.ahead > 1, config.pipelined == 0)


def drafts_from(config: Any, state: State, request: Any, in_sight: Any) -> SymbolicInteger:
    """`drafts_from`, without forking."""
    known = counts.known_length(config, state, request)
    behind = is_asynchronous(config) | ~both(state.proposed.has(request))
    return SymbolicInteger(z3.If(behind.term, integer_term(in_sight), integer_term(known)))


def is_turn(config: Any, request: Any) -> SymbolicBoolean:
    """`is_turn`, without forking."""
    return SymbolicBoolean(is_a_turn(config, integer_term(request)))


def final_length(config: Any, request: Any) -> SymbolicInteger:
    """`final_length`, without forking."""
    return SymbolicInteger(final(config, integer_term(request)))


def ended_length(config: Any, request: Any) -> SymbolicInteger:
    """`ended_length`, without forking."""
    term = integer_term(request)
    stop, least, most = at(config.stops, term), at(config.min_tokens, term), final(config, term)
    at_stop = config.prompts.items[term] + stop
    stops = z3.And(stop >= least, stop > 0, at_stop < most)
    return SymbolicInteger(z3.If(stops, at_stop, most))


RULES = stand_ins.RULES._replace(
    kv=KV,  # type: ignore[arg-type]  # a stand-in
    encoder=ENCODER,  # type: ignore[arg-type]  # likewise
    wanted=counts.wanted,
    in_sight=counts.length_in_sight,
    may_join=readiness.may_join,
    load=rounds.load,
    victim=rounds.last_running,
    lose=rounds.lose_everything,
    joined=placed,
    back_in_line=placed,
    ended=ended_length,  # type: ignore[arg-type]  # terms stand for integers
)
