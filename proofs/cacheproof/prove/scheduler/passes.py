"""One encoder pass with its items, and the allocation that follows it: what is read is there, and encoded once.

`INPUTS` of `inputs.py` has stand-ins for both. Here the functions themselves run, for any request, any items and
any encoder cache that the laws of its own proof allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import (
    SymbolicBoolean,
    Term,
    assume,
    both,
    demand,
    implies,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law
from cacheproof.prove.scheduler.entries import (
    ENCODER_WITH_ITEMS,
    Entries,
    fewer_entries,
    holds_still,
    is_item,
    is_read,
    item_of,
    lets_go_of,
)
from cacheproof.prove.scheduler.lists import Listed
from cacheproof.prove.scheduler.pins import any_request, is_concrete
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.settings import RULES
from cacheproof.prove.scheduler.stand_ins import any_count, any_remote, is_fit
from cacheproof.prove.sequences import length
from cacheproof.prove.shapes import INTEGER
from cachespec.kernel import DONE, Outcome
from cachespec.scheduler import items, normative, parts, rounds
from cachespec.scheduler.operations import Schedule
from cachespec.scheduler.round_state import Fit
from cachespec.scheduler.state import State

ROW = "loops"


# What holds of a pass -----------------------------------------------------------------------------------------------


def reads(config: Any, request: Term, start: Any, tokens: Any) -> Any:
    """Whether the chunk touches the item."""
    first, end = integer_term(start), integer_term(start) + integer_term(tokens)
    return lambda index: is_read(config, request, index, first, end)


def is_cut(config: Any, request: Term, index: Term, start: Any, tokens: Any) -> Term:
    """Whether a chunk that begins at the item or before ends inside of it."""
    item, first = item_of(config, request, index), integer_term(start)
    end = first + integer_term(tokens)
    return z3.And(first <= item.start, item.start < end, end < item.start + item.length)


def no_item_is_cut(config: Any, request: Term, until: Term, start: Any, tokens: Any) -> SymbolicBoolean:
    """SCH-3/whole, of the items before this one."""
    index = z3.Int("index")
    known = z3.And(index >= 0, index < until, is_item(config, request, index))
    free = z3.ForAll([index], z3.Implies(known, z3.Not(is_cut(config, request, index, start, tokens))))
    return SymbolicBoolean(z3.Or(integer_term(config.whole_items) == 0, free))


def lists_of(config: Any, request: Term, fit: Any) -> tuple[Listed, Listed, Listed]:
    """What is encoded, what is loaded, and what is read."""
    encode, bring, relies = (Listed.of(config, request, getattr(fit, name)) for name in ("encode", "bring", "relies"))
    return encode, bring, relies


def are_read(config: Any, request: Term, fit: Any, start: Any, until: Term) -> Iterable[tuple[str, Any]]:
    """What a pass lists is what its chunk touches, of the items before this one, in prompt order."""
    encode, bring, relies = lists_of(config, request, fit)
    touches, index = reads(config, request, start, fit.tokens), z3.Int("index")
    known = z3.And(index >= 0, index < until, is_item(config, request, index), touches(index))
    yield "SCH-3/listed", relies.ascends()
    yield "SCH-3/listed", encode.ascends()
    yield "SCH-3/listed", z3.ForAll([index], z3.Implies(known, relies.has(index)))
    for one in (relies, encode, bring):
        yield "SCH-3/listed", one.each(lambda index: z3.And(index < until, touches(index)))


def are_new(config: Any, request: Term, before: Entries, fit: Any) -> Iterable[tuple[str, Any]]:
    """What is encoded is absent, and nothing is encoded twice; an encoder-decoder model does not share outputs."""
    encode, _, _ = lists_of(config, request, fit)
    place, later = z3.Ints("place later")
    inside = z3.And(place >= 0, place < later, later < encode.length)
    different = encode.item(place).content != encode.item(later).content
    absent = encode.each(
        lambda index: z3.And(
            z3.Not(fit.encoder.resident[item_of(config, request, index).content]), z3.Not(before.pairs[request][index])
        )
    )
    shared = integer_term(config.encoder_decoder) == 0
    yield "SCH-4/pass", z3.Implies(shared, absent)
    yield "SCH-4/pass", z3.Implies(shared, z3.ForAll([place, later], z3.Implies(inside, different)))


def have_room(config: Any, request: Term, fit: Any) -> Iterable[tuple[str, Any]]:
    """What is read is held, or shows what is encoded or loaded; for that there is room."""
    encode, bring, relies = lists_of(config, request, fit)

    def is_there(index: Term) -> Term:
        content = item_of(config, request, index).content
        return z3.Or(fit.encoder.pairs[request][index], encode.has_content(content), bring.has_content(content))

    yield "SCH-3/pass", relies.each(is_there)
    yield "SCH-3/pass", fit.encoder.free >= encode.total + bring.total


def runs_encoder_first(config: Any, request: Term, fit: Any, start: Any, until: Term) -> Iterable[tuple[str, Any]]:
    """In an encoder-decoder model the first chunk encodes all items before this one, and other chunks encode none.

    Such a model has no encoder connector.
    """
    encode, bring, _ = lists_of(config, request, fit)
    index = z3.Int("index")
    known = z3.And(index >= 0, index < until, is_item(config, request, index))
    everything = z3.ForAll([index], z3.Implies(known, encode.has(index)))
    first = z3.If(integer_term(start) == 0, everything, encode.length == 0)
    crossed = integer_term(config.encoder_decoder) == 1
    yield "SCH-3/first", z3.Implies(crossed, first)
    yield "SCH-3/first", z3.Implies(crossed, bring.length == 0)


def leaves_others(config: Any, request: Term, before: Entries, after: Entries) -> Iterable[tuple[str, Any]]:
    """Other requests hold what they held, and this one still does; nothing has become resident."""
    yield "SCH-3/pass", lets_go_of(before, after, request).term
    yield "SCH-3/pass", holds_still(before, after, request).term
    yield "SCH-3/pass", fewer_entries(before, after).term
    yield "SCH-3/pass", after.law(config)


def claims_of_pass(
    config: Any, request: Term, before: Entries, fit: Any, start: Any, until: Term
) -> Iterable[tuple[str, Any]]:
    """All of that, of the items before this one, if the pass leaves any tokens."""
    yield from leaves_others(config, request, before, fit.encoder)
    some = integer_term(fit.tokens) > 0
    claims = (
        *are_read(config, request, fit, start, until),
        *are_new(config, request, before, fit),
        *have_room(config, request, fit),
        *runs_encoder_first(config, request, fit, start, until),
        ("SCH-3/whole", no_item_is_cut(config, request, until, start, fit.tokens).term),
    )
    for name, claim in claims:
        yield name, z3.Implies(some, claim)


# Loops --------------------------------------------------------------------------------------------------------------


def fitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """All of that holds of the items before this place; behind a refusal no item is touched."""
    config, request, place = now["config"], integer_term(now["request"]), integer_term(now["index"])
    before, fit, start = entry["fit"], now["fit"], now["start"]
    later = z3.Int("later")
    yield SymbolicBoolean(z3.And(place >= 0, place <= integer_term(now["index_end"])))
    yield is_fit(before, fit)
    yield both(fit.closed == before.closed)
    encode, bring, relies = lists_of(config, request, fit)
    for law in (*encode.laws(), *bring.laws(), *relies.laws(), *encode.laws_of_room(), *bring.laws_of_room()):
        yield SymbolicBoolean(law)
    yield SymbolicBoolean(integer_term(fit.granted) == encode.total + bring.total)
    for _, claim in claims_of_pass(config, request, before.encoder, fit, start, place):
        yield SymbolicBoolean(claim)
    refused = z3.And(integer_term(fit.tokens) > 0, integer_term(fit.refused) != 0)
    known = z3.And(refused, later >= place, is_item(config, request, later))
    untouched = z3.Not(reads(config, request, start, fit.tokens)(later))
    yield SymbolicBoolean(z3.ForAll([later], z3.Implies(known, untouched)))
    yield contents_are_apart(config, encode, bring)


def contents_are_apart(config: Any, encode: Listed, bring: Listed) -> SymbolicBoolean:
    """What is encoded is not loaded, too."""
    apart = encode.each(lambda index: z3.Not(bring.has_content(item_of(config, encode.request, index).content)))
    return SymbolicBoolean(z3.Implies(integer_term(config.encoder_decoder) == 0, apart))


def renewed_fit(name: str, value: Any) -> Any:
    """Any pass."""
    if name != "fit":
        return None
    config, request = path().shown["config"], path().shown["request"]
    lists = {part: Listed.fresh(config, request, part) for part in ("encode", "bring", "relies")}
    numbers: dict[str, Any] = {part: integer(part) for part in ("tokens", "embeds", "granted", "closed", "refused")}
    return value._replace(encoder=Entries.fresh("pass"), **numbers, **lists)


def taking(entry: Locals, now: Locals) -> Iterable[Any]:
    """What was granted before this place is resident; what is read before this place is held."""
    config, request, place = now["config"], integer_term(now["request"]), integer_term(now["index_at"])
    before, after, listed = entry["encoder"], now["encoder"], now["index_all"]
    yield SymbolicBoolean(z3.And(place >= 0, place <= listed.length))
    yield lets_go_of(before, after, request)
    yield holds_still(before, after, request)
    yield fewer_entries(after, before)
    yield SymbolicBoolean(after.law(config))
    other = z3.Int("place")
    inside = z3.And(other >= 0, other < place)
    if listed is now["encode"]:
        yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, after.resident[listed.item(other).content])))
        yield SymbolicBoolean(after.free >= listed.total - listed.sums[place])
    else:
        yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, after.pairs[request][listed.items[other]])))


def renewed_entries(name: str, value: Any) -> Any:
    """Any cache."""
    return Entries.fresh("taken") if name == "encoder" else None


# The proof ----------------------------------------------------------------------------------------------------------


def items_are_valid(config: Any) -> Iterable[Any]:
    """Each item has a length and begins behind the one before; of an encoder-decoder model each begins at 0."""
    request, index, later = z3.Ints("request index later")
    item, other = item_of(config, request, index), item_of(config, request, later)
    first = z3.Implies(integer_term(config.encoder_decoder) == 1, item.start == 0)
    alone = z3.And(item.length > 0, item.start >= 0, first)
    yield SymbolicBoolean(z3.ForAll([request, index], z3.Implies(is_item(config, request, index), alone)))
    both_there = z3.And(index >= 0, index < later, is_item(config, request, later))
    behind = z3.Or(integer_term(config.encoder_decoder) == 1, item.start + item.length <= other.start)
    yield SymbolicBoolean(z3.ForAll([request, index, later], z3.Implies(both_there, behind)))


def hint_few_items(config: Any, requests: int) -> None:
    """In a small counterexample there are few requests, and each has one or two items."""
    for request in range(requests):
        row = config.items.items[request]
        items, number = (row.sort().accessor(0, place)(row) for place in range(2))
        few = z3.K(z3.IntSort(), z3.Const("item", items.sort().range()))
        for place in range(2):
            few = z3.Store(few, place, path().fresh("item", items.sort().range()))
        path().hints += [items == few, number >= 1, number <= 2]
    path().hints.append(config.prompts.length == requests)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """Likewise, and an encoder-decoder model does not keep items whole."""
    hint_few_items(config, requests=1)
    yield from valid_items(config, operation)


def valid_items(config: Any, operation: Any) -> Iterable[Any]:
    """What is assumed of a configuration and a call."""
    yield from LIFE.environment(config, operation)
    yield from items_are_valid(config)
    yield implies(config.encoder_decoder == 1, both(config.whole_items == 0, length(config.encoder_connector) == 0))


def granted_already(config: Any, fit: Any, request: Any, item: Any) -> Any:
    """Whether the pass has granted the content: `is_granted`, of lists."""
    encode, bring, _ = lists_of(config, integer_term(request), fit)
    content = integer_term(item[0])
    return SymbolicBoolean(z3.Or(encode.has_content(content), bring.has_content(content)))


def one_behind_the_other(config: Any, request: Term, encode: Listed, bring: Listed) -> Listed:
    """`(*encode, *bring)`."""
    joined, place = Listed.fresh(config, request, "granted"), z3.Int("place")
    first, second = encode.length, bring.length
    path().assume(joined.length == first + second)
    for law in (*joined.laws(), *joined.laws_of_room()):
        path().assume(law)
    for one, begin, total in ((encode, z3.IntVal(0), z3.IntVal(0)), (bring, first, encode.total)):
        inside = z3.And(place >= 0, place < one.length)
        same = joined.items[begin + place] == one.items[place]
        path().assume(z3.ForAll([place], z3.Implies(inside, z3.And(same, joined.has_content(one.item(place).content)))))
        path().assume(joined.sums[begin + one.length] == total + one.total)
    return joined


def any_pass(config: Any) -> Any:
    """Any pass that begins; in a witness one with an empty cache."""
    if is_concrete(config):
        none = states.map_of(INTEGER, INTEGER, ())
        return Fit(Entries.empty(2), none, 4, 2, 0, (), (), (), 0, 0)  # type: ignore[arg-type]  # a stand-in
    closed: Any = integer("closed")
    return Fit(Entries.fresh("cache"), any_remote(), any_count(), any_count(), 0, (), (), (), closed, 0)  # type: ignore[arg-type]  # a stand-in


def any_start(config: Any) -> Any:
    """Where the chunk begins; of an encoder-decoder model that is no negative position."""
    if is_concrete(config):
        return 0
    start = integer("start")
    assume(implies(config.encoder_decoder == 1, start >= 0))
    return start


def nothing_is_stored(config: Any, remote: Any) -> SymbolicBoolean:
    """Without an encoder connector no output is in one."""
    content = z3.Int("content")
    none = z3.ForAll([content], z3.Not(remote.members[content]))
    return SymbolicBoolean(z3.Implies(config.encoder_connector.length == 0, none))


def pass_and_allocation(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """Stands for a step: one encoder pass and its allocation, for any request and any start."""
    asked = any_request(config)
    request = integer_term(asked)
    path().shown["request"] = request
    begun, start = any_pass(config), any_start(config)
    before: Any = begun.encoder
    assume(nothing_is_stored(config, begun.remote))
    path().assume(before.law(config))
    fit: Any = items.fitted(rules, config, begun, asked, start)
    row = config.items[asked]
    for name, claim in claims_of_pass(config, request, before, fit, start, integer_term(row.symbolic_length())):
        demand(name, SymbolicBoolean(claim))
    assume(both(fit.tokens > 0))
    encode, bring, relies = lists_of(config, request, fit)
    later: Any = fit.encoder
    granted: Any = (*fit.encode, *fit.bring) if is_concrete(config) else None
    if granted is None:
        later, granted = Entries.fresh("later"), one_behind_the_other(config, request, encode, bring)
        path().assume(z3.And(later.law(config), later.free >= encode.total + bring.total))
        assume(holds_still(fit.encoder, later, request))
    taken: Any = parts.take(rules, config, later, asked, granted, fit.relies)
    for claim in claims_of_allocation(config, request, later, taken, relies.each):
        demand("SCH-3/pass", claim)
    return state, DONE


def claims_of_allocation(config: Any, request: Term, before: Entries, after: Entries, each: Any) -> Iterable[Any]:
    """What is read is held, and no other request holds more or less."""
    yield SymbolicBoolean(each(lambda index: after.pairs[request][index]))
    yield lets_go_of(before, after, request)
    yield holds_still(before, after, request)
    yield fewer_entries(after, before)
    yield SymbolicBoolean(after.law(config))


def in_a_pass(name: str, statement: str) -> Law:
    """A claim that is demanded behind a pass."""
    return Law(name, statement, (Schedule,), lambda move: True)


PASSES = replace(
    LIFE,
    variant=replace(LIFE.variant, transitions={Schedule: LIFE.variant.transitions[Schedule]}),
    invariants=(),
    laws=(
        in_a_pass(
            "SCH-3/whole",
            "if items are not split, no chunk ends inside an item that it could have left to a later step",
        ),
        in_a_pass("SCH-3/listed", "a pass names, in prompt order, what its chunk touches and what it encodes"),
        in_a_pass("SCH-3/pass", "behind a pass and its allocation the request holds every item that its chunk touches"),
        in_a_pass(
            "SCH-3/first",
            "the first step of a request of an encoder-decoder model encodes all its items, and no later step does",
        ),
        in_a_pass("SCH-4/pass", "a pass encodes absent contents, each once, except of an encoder-decoder model"),
    ),
    loops=(
        Loop(items.fitted, ROW, fitting, renewed=renewed_fit, in_order=True),
        Loop(parts.take, ROW, taking, renewed=renewed_entries, in_order=True),
    ),
    environment=environment,
    modules=(*LIFE.modules, items),
    replaced=(
        *LIFE.replaced,
        (normative, "RULES", RULES._replace(encoder=ENCODER_WITH_ITEMS)),  # type: ignore[arg-type]  # a stand-in
        (parts, "encoder_config", lambda config: config),
        (rounds, "run", pass_and_allocation),
        (items, "items_of", lambda config, request: config.items[request]),
        (items, "is_granted", granted_already),
    ),
)
