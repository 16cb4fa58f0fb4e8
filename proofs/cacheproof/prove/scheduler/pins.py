"""The encoder pass and the allocation of a scheduler: they let no other request hold an item.

`LIFE` of `requests.py` has stand-ins for both, which let the request hold items, and no other one. Here the
functions themselves run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, demand, integer, integer_term
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law
from cacheproof.prove.scheduler.life import of_each
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.stand_ins import any_answer, any_count, any_remote
from cacheproof.prove.scheduler.values import any_items
from cacheproof.prove.sequences import SymbolicSequence, length
from cacheproof.prove.shapes import INTEGER
from cachespec.kernel import DONE, Outcome
from cachespec.scheduler import items, parts, rounds
from cachespec.scheduler.operations import Schedule
from cachespec.scheduler.round_state import Fit
from cachespec.scheduler.state import State

ROW = "loops"


def for_this_request(before: Any, after: Any, request: Any) -> SymbolicBoolean:
    """No other request holds more than before, in an attempt or otherwise."""

    def right(other: Term) -> Term:
        pairs = ((before.kept, after.kept), (before.pinned, after.pinned))
        more = z3.Or(*(z3.And(now.members[other], z3.Not(was.members[other])) for was, now in pairs))
        return z3.Implies(more, other == integer_term(request))

    return of_each(right)


def nothing_is_kept(before: Any, after: Any) -> SymbolicBoolean:
    """A pass pins, and nothing else: what is held beside it is what it was."""
    return of_each(lambda other: before.kept.members[other] == after.kept.members[other])


def is_concrete(config: Any) -> bool:
    """Whether the number of requests is known, as in a witness."""
    return bool(z3.is_int_value(z3.simplify(length(config.prompts).term)))


def any_request(config: Any) -> Any:
    """Any request of the configuration; the first one in a witness."""
    if is_concrete(config):
        return 0
    request = integer("request")
    assume(both(request >= 0, request < length(config.prompts)))
    return request


def some_items(config: Any, name: str) -> SymbolicSequence:
    """Any items; the first one in a witness."""
    return SymbolicSequence.of(INTEGER, (0,)) if is_concrete(config) else SymbolicSequence.fresh(INTEGER, name)


def passes_only(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """Stands for a step: one encoder pass and one allocation, for any request."""
    request, before = any_request(config), any_items()
    closed: Any = integer("closed")
    fit: Any = Fit(before, any_remote(), any_count(), any_count(), 0, (), (), (), closed, 0)  # type: ignore[arg-type]  # a stand-in
    after: Any = items.fitted(rules, config, fit, request, any_count()).encoder
    demand("SCH-5/pinned", for_this_request(before, after, request))
    demand("SCH-5/pinned", nothing_is_kept(before, after))
    encode, relies = (some_items(config, name) for name in ("encode", "relies"))
    taken: Any = parts.take(rules, config, before, request, encode, relies)  # type: ignore[arg-type]  # terms
    demand("SCH-5/pinned", for_this_request(before, taken, request))
    return state, DONE


def fitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The items before this one were pinned for the request."""
    yield for_this_request(entry["fit"].encoder, now["fit"].encoder, now["request"])
    yield nothing_is_kept(entry["fit"].encoder, now["fit"].encoder)


def taking(entry: Locals, now: Locals) -> Iterable[Any]:
    """What was taken so far is held by the request."""
    yield for_this_request(entry["encoder"], now["encoder"], now["request"])
    yield both(now["index_at"] >= 0)


PINS = replace(
    LIFE,
    variant=replace(LIFE.variant, transitions={Schedule: LIFE.variant.transitions[Schedule]}),
    invariants=(),
    laws=(
        Law(
            "SCH-5/pinned",
            "an encoder pass and an allocation let no other request hold an item",
            (Schedule,),
            lambda move: True,
        ),
    ),
    loops=(Loop(items.fitted, ROW, fitting), Loop(parts.take, ROW, taking, in_order=True)),
    modules=(*LIFE.modules, items),
    replaced=(
        *LIFE.replaced,
        (rounds, "run", passes_only),
        (items, "items_of", lambda config, request: config.items[request]),
        (items, "is_granted", lambda *_: any_answer()),
    ),
)
