"""Stand-ins for the parts of a scheduling step that its proofs leave arbitrary.

A stand-in takes the place of a function of the specification and returns any value that the proof allows: any answer of
a cache, any order of requests, any count. `RULES` has the stand-ins for the rules of a step; the proofs in
`obligations/scheduler.py` name the others one by one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from cacheproof.prove import states
from cacheproof.prove.executor import (
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    assume,
    both,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.sequences import SymbolicSequence, Unknown, length
from cacheproof.prove.shapes import INTEGER
from cachespec.encoder_cache import Cache
from cachespec.kernel.names import hints_of
from cachespec.scheduler import normative
from cachespec.scheduler.configuration import LENGTH, START
from cachespec.scheduler.round_state import Asked, Prefix, Slots
from cachespec.scheduler.state import State

import z3  # type: ignore[import-untyped]  # isort: skip  # z3 ships no types


class Held(NamedTuple):
    """The part of an encoder cache that a step reads: the resident items."""

    held: Any


def any_state(name: str) -> State:
    """A state with arbitrary queues, counts and encoder cache; a step does not read the rest."""
    hints = hints_of(State)
    read = ("computed", "produced", "proposed", "compiling", "queued", "gone", "leaving", "transfers", "remote")
    fields: dict[str, Any] = {part: states.fresh(hints[part], f"{name}.{part}") for part in read}
    return State(
        kv=opaque(),
        encoder=any_cache(),
        waiting=any_line(),
        running=any_line(),
        plans=any_line(),
        worker=opaque(),
        **fields,
    )


def opaque() -> Any:
    """A value that no step reads."""
    return Unknown()


def any_line(*_: object) -> Any:
    """Requests in any order."""
    return SymbolicSequence.fresh(INTEGER, "line")


def any_cache(*_: object) -> Any:
    """Any encoder cache; a step reads its resident items only."""
    return Held(states.fresh(hints_of(Cache)["held"], "held"))


def any_remote() -> Any:
    """Any contents that the encoder connector has or expects."""
    return states.fresh(hints_of(State)["remote"], "remote")


def any_answer() -> Any:
    """Yes or no."""
    return SymbolicBoolean(path().fresh("yes", z3.BoolSort()))


def any_count(*_: object) -> Any:
    """Any number that is not negative."""
    count = integer("count")
    assume(count >= 0)
    return count


def asked(*_: object) -> Asked:
    """Stands for a question to the encoder cache: any cache afterwards, and either answer."""
    return Asked(any_cache(), any_answer())


def answered(*_: object) -> Slots:
    """Stands for an allocation of KV blocks: any blocks afterwards, and either answer."""
    return Slots(opaque(), any_answer())


def least(one: Any, other: Any) -> Any:
    """`min` of two, without forking."""
    return SymbolicInteger(z3.If(integer_term(one) < integer_term(other), integer_term(one), integer_term(other)))


def greatest(one: Any, other: Any) -> Any:
    """`max` of two, without forking."""
    return SymbolicInteger(z3.If(integer_term(one) > integer_term(other), integer_term(one), integer_term(other)))


def left_out(line: Any, request: Any) -> Any:
    """Stands for the removal of a request from a queue: any queue that is shorter by 1."""
    shorter = any_line()
    assume(both(length(line) > 0, length(shorter) == length(line) - 1))
    return shorter


def line_with(config: Any, line: Any, request: Any) -> Any:
    """Stands for the addition of a request to a queue: any queue."""
    return any_line()


def any_victim(config: Any, state: State) -> Any:
    """Stands for the choice of the preempted request: any request."""
    return integer("victim")


def anything_lost(rules: Any, config: Any, state: State, request: Any) -> State:
    """Stands for the release of what a preempted request holds: any caches and any plans afterwards."""
    return state._replace(kv=opaque(), encoder=any_cache(), plans=any_line())


def any_prefix(rules: Any, config: Any, state: State, request: Any) -> Prefix:
    """Stands for the look-up of a cached prefix: any hits, and any start, even beyond the tokens of the request."""
    start: Any = any_count()
    covered: Any = integer("covered")
    return Prefix(any_line(), start, covered)


def unloaded(config: Any, state: State, request: Any, prefix: Prefix) -> State:
    """Stands for a load from an external store; a load changes the worker only, so the state stays as it is."""
    return state


def without_new_blocks(config: Any, state: State, request: Any) -> State:
    """Stands for the new blocks of an admission for cross-attention KV: they change the worker only."""
    return state


def any_wish(config: Any, state: State, request: Any, start: Any) -> Any:
    """Stands for the number of tokens that a request has to compute: any number, negative ones too."""
    return integer("wanted")


def any_offer(config: Any, state: State, request: Any, start: Any, tokens: Any, budget: Any) -> Any:
    """Stands for the number of tokens offered to a request: any number that meets the claim of `COUNTS`."""
    offer = integer("offer")
    assume(is_offer(config, offer, tokens, budget))
    return offer


def any_fit(rules: Any, config: Any, fit: Any, request: Any, start: Any) -> Any:
    """Stands for the encoder pass: any result that meets the claim of `ITEMS`."""
    after = states.fresh_like(fit, "fit")
    assume(is_fit(fit, after))
    return after


def is_offer(config: Any, offer: Any, tokens: Any, budget: Any) -> SymbolicBoolean:
    """The offer is not negative, within the budget and the threshold, and no more than what is asked for."""
    wanted = both(offer <= tokens) | both(offer == 0)
    return both(offer >= 0, offer <= budget, wanted, is_within_threshold(config, offer))


def is_within_threshold(config: Any, tokens: Any) -> SymbolicBoolean:
    """At most as many tokens as the long-prefill threshold allows."""
    return both(config.long_prefill_threshold == 0) | both(tokens <= config.long_prefill_threshold)


def any_whole_offer(config: Any, state: State, request: Any, start: Any, tokens: Any, budget: Any) -> Any:
    """Likewise, for a waiting request: where prompts are not cut, the budget has all the tokens, or it gets none."""
    offer: Any = any_offer(config, state, request, start, tokens, budget)
    assume(is_uncut(config, offer, tokens, budget))
    return offer


def is_uncut(config: Any, offer: Any, tokens: Any, budget: Any) -> SymbolicBoolean:
    """Without chunked prefill, what the threshold allows of the tokens fits the budget, or nothing is offered."""
    fits = both(tokens <= budget) | both(config.long_prefill_threshold > 0, config.long_prefill_threshold <= budget)
    return both(config.chunked_prefill != 0) | both(offer == 0) | fits


def is_fit(before: Any, after: Any) -> SymbolicBoolean:
    """The token count and the compute budget have not grown, and are not negative."""
    return both(after.tokens >= 0, after.tokens <= before.tokens, after.embeds >= 0, after.embeds <= before.embeds)


def any_admission(config: Any, current: Any, request: Any) -> Any:
    """Stands for the check of grammars and adapters: either answer."""
    return any_answer()


def loading_or_denied(rules: Any, config: Any, current: Any, request: Any, prefix: Prefix) -> Any:
    """Stands for a load before the admission: any KV blocks afterwards; the admissions end or go on."""
    ended: Any = integer("ended")
    return current._replace(state=current.state._replace(kv=opaque()), ended=ended)


RULES = normative.RULES._replace(
    in_sight=lambda config, state, request: any_count(),
    wanted=any_wish,
    offered=any_offer,
    offered_whole=any_whole_offer,
    may_join=any_admission,
    is_reserved=lambda config, state, request: any_answer(),
    load=loading_or_denied,
    cached_prefix=any_prefix,
    victim=any_victim,
    lose=anything_lost,
    back_in_line=line_with,
    joined=line_with,
)


def with_valid_items(config: Any) -> Any:
    """The configuration; each item that is read begins at a position and has a length."""

    def an_item(place: Term, item: Any) -> Any:
        assume(both(item[START] >= 0, item[LENGTH] > 0))
        return item

    def a_row(place: Term, row: Any) -> Any:
        return replace(row, seen=an_item)

    return config._replace(items=replace(config.items, seen=a_row))
