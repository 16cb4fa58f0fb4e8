"""Stand-ins for the parts of a step with shared prefixes that its proofs leave arbitrary, and states as terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.arithmetic import blocks, blocks_are_within, define_blocks, prefix_ends_before, use
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, integer, integer_term, path
from cacheproof.prove.lines import Line, Shares, each
from cacheproof.prove.loops import Locals
from cacheproof.prove.sequences import SymbolicSequence, known_number, length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.shared_prefix.loops import (
    is_prompt,
    is_request,
    reach_is_within,
)
from cachespec.encoder_cache.operations import CanAllocate, CheckAndUpdate
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import DONE, HIT, MISS, REFUSED, Outcome
from cachespec.shared_prefix import transitions
from cachespec.shared_prefix.configuration import Config, length_of
from cachespec.shared_prefix.state import WAITING, State
from cachespec.shared_prefix.transitions import Plan

# What may be anything -----------------------------------------------------------------------------------------------


cached_by_itself, cached_prefix_by_itself = transitions.cached, transitions.cached_prefix


class AnyEncoder(NamedTuple):
    """An encoder cache of which only equality is known."""

    version: Any


def any_encoder() -> Any:
    """Any encoder cache."""
    return AnyEncoder(integer("encoder"))


def one_of(yes: Outcome, no: Outcome) -> Outcome:
    """Either answer."""
    return yes if SymbolicBoolean(path().fresh("answer", z3.BoolSort())) else no


def any_answer(config: Any, rules: Any, state: Any, operation: Any) -> tuple[Any, Outcome]:
    """Stands for a call of the encoder cache manager: any cache afterwards, and any answer."""
    after = state._replace(encoder=any_encoder())
    if type(operation) is CheckAndUpdate:
        return after, one_of(HIT, MISS)
    return after, one_of(DONE, REFUSED) if type(operation) is CanAllocate else DONE


def any_release(config: Any, rules: Any, state: Any, request: Any, position: Any) -> Any:
    """Stands for the release of an item: any encoder cache afterwards."""
    return state._replace(encoder=any_encoder())


def any_budgets(config: Any) -> tuple[Any, Any]:
    """Any compute budget, and any room."""
    return integer("compute"), integer("space")


def begun(state: Any, tokens: Any, compute: Any) -> Plan:
    """`Plan`, whose requests and counts are terms."""
    scheduled: Any = Shares.empty()
    return Plan(state, tokens, compute, scheduled)


def cached(config: Any, state: Any, request: Any) -> Any:
    """`cached`, with facts about the full blocks of what is computed."""
    tokens, size = state.computed[request].term, integer_term(config.block_size)
    define_blocks(size, tokens, blocks(size, tokens))
    use(blocks_are_within, size, tokens)
    after = cached_by_itself(config, state, request)
    reach, prompt = after.reach[config.requests[request]].term, config.requests[request].term
    shown("the cached tokens of a prompt are in it", reach_is_within(config, prompt, reach))
    return after


def is_no_member(line: Line, request: Term) -> Term:
    """No member of the line is this request."""
    return each(lambda p: z3.Implies(line.is_in(p), line.items[p] != request), lambda p: line.items[p])


def shown(name: str, condition: Term) -> None:
    """A step of a proof by itself: here the condition must hold, and what follows may use it."""
    path().demand(name, condition)
    path().assume(condition)


def cached_prefix(config: Any, state: Any, request: Any) -> Any:
    """`cached_prefix`, with facts about its result."""
    size, tokens = integer_term(config.block_size), integer_term(length_of(config, request))
    reach = state.reach[config.requests[request]].term
    define_blocks(size, reach, tokens - 1)
    use(prefix_ends_before, size, tokens, reach)
    shown("the next request waits", state.status[request].term == WAITING)
    shown("the next request does not run yet", is_no_member(state.running, request.term))
    return cached_prefix_by_itself(config, state, request)


def only_room(config: Any, space: Any) -> Any:
    """Stands for the configuration of the encoder cache: its room."""
    return SimpleNamespace(capacity=space)


def at_the_start(config: Any, containers: Any) -> Any:
    """Stands for the encoder cache at the start: any one."""
    return any_encoder()


ANY_ENCODER: Any = SimpleNamespace(initial=at_the_start)


# Values -------------------------------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any value; each item that is read lies in its prompt."""
    if kind is State:
        return any_state(name, any_encoder())
    value = states.fresh(kind, name)
    if kind is not Config:
        return value
    prompts = value.prompts

    def a_row(place: Term, row: Any) -> Any:
        def an_item(position: Term, item: Any) -> Any:
            _, begin, end = item
            assume(both(begin >= 0, begin < end, SymbolicBoolean(end.term <= prompts.items[place])))
            return item

        return replace(row, seen=an_item)

    return value._replace(items=replace(value.items, seen=a_row))


def any_state(name: str, encoder: Any) -> State:
    """Any lines, statuses, counts and reaches."""
    status, computed, reach = (
        SymbolicSequence.fresh(INTEGER, f"{name}.{part}") for part in ("status", "computed", "reach")
    )
    known: dict[str, Any] = {
        "waiting": Line.fresh(f"{name}.waiting"),
        "running": Line.fresh(f"{name}.running"),
        "status": replace(status, occurrences=path().fresh(f"{name}.occurrences", status.items.sort())),
        "computed": computed,
        "reach": reach,
    }
    return State(**known, encoder=encoder)


ENCODERS: dict[Any, int] = {}
"""A number for each encoder cache that was lifted: equal caches have the same."""


def lift(kind: Any, value: Any) -> Any:
    """The value as terms; of an encoder cache, only which it is."""
    if kind is not State:
        return states.lift(kind, value)
    encoder = value.encoder
    if type(encoder) is not AnyEncoder:
        encoder = AnyEncoder(states.lift(int, ENCODERS.setdefault(encoder, len(ENCODERS))))
    return lifted_with(encoder, value)


def lifted_with(encoder: Any, value: Any) -> State:
    """The state as terms, beside this encoder cache."""
    status, computed, reach = (
        states.lift(tuple[int, ...], part) for part in (value.status, value.computed, value.reach)
    )
    waiting, running = Line.of(value.waiting), Line.of(value.running)
    parts: Any = (waiting, running, status.counted(), computed, reach, encoder)
    return State(*parts)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a request that there is."""
    yield both(config.batch_tokens > 0, config.block_size > 0, config.sequences > 0)
    yield length(config.items) == length(config.prompts)
    yield length(config.requests) > 0
    prompts, requests = config.prompts, config.requests

    yield SymbolicBoolean(
        each(
            lambda place: z3.Implies(is_prompt(config, place), prompts.items[place] > 0),
            lambda place: prompts.items[place],
        )
    )
    yield SymbolicBoolean(
        each(
            lambda request: z3.Implies(is_request(config, request), is_prompt(config, requests.items[request])),
            lambda request: requests.items[request],
        )
    )
    if hasattr(operation, "request"):
        yield both(operation.request >= 0, operation.request < length(config.requests))


# The report ---------------------------------------------------------------------------------------------------------


class AnyNumbers:
    """Any number at each position. That the positions are there is shown by `PROOF`."""

    def __getitem__(self, place: Any) -> Any:
        return integer("number")

    def renewed(self, name: str) -> AnyNumbers:  # noqa: ARG002  # others have a name
        """Any other ones."""
        return self

    def shown(self, value_of: Any) -> str:  # noqa: ARG002  # others read the model
        """As a counterexample shows it."""
        return "(…)"


def any_entries() -> Any:
    """Any encoder cache, with its entries and its list of evicted ones."""
    return states.fresh(Cache, "encoder")


def any_entries_then(config: Any, rules: Any, plan: Any, request: Any) -> Any:
    """Stands for the scheduling of one request: any encoder cache afterwards; in a witness, the same one."""
    if known_number(integer_term(request)) is not None:
        return plan
    return plan._replace(state=plan.state._replace(encoder=any_entries()))


def any_reach(config: Any, state: Any, request: Any) -> Any:
    """Stands for the caching of blocks: any cached tokens."""
    return state._replace(reach=SymbolicSequence.fresh(INTEGER, "reach"))


def any_items(config: Any, request: Any) -> Any:
    """Stands for the items of a request: any items."""
    return config.items.element.decode(path().fresh("items", config.items.element.sort))


def any_entries_left(config: Any, rules: Any, state: Any, request: Any, position: Any) -> Any:
    """Stands for the release of an item: any encoder cache afterwards."""
    return state._replace(encoder=any_entries())


def nothing_more(entry: Locals, now: Locals) -> Iterable[Any]:
    """A loop that empties a queue needs no invariant."""
    return ()


def within(entry: Locals, now: Locals) -> Iterable[Any]:
    """The next position is not negative."""
    for place in ("request_at", "position_at"):
        if place in entry:
            yield both(now[place] >= 0)


def with_entries(kind: Any, name: str) -> Any:
    """Any value; of a state, with the encoder cache."""
    if kind is not State:
        return fresh(kind, name)
    computed: Any = AnyNumbers()
    return any_state(name, any_entries())._replace(computed=computed)


def lift_with_entries(kind: Any, value: Any) -> Any:
    """The value as terms, with the encoder cache."""
    return lifted_with(states.lift(Cache, value.encoder), value) if kind is State else lift(kind, value)
