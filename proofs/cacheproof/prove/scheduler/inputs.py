"""The items of a plan through a whole round: what its chunks touch is resident at the end, and encoded once.

The round runs as in `LIFE` of `requests.py`, with what `PASSES` shows of an encoder pass and its allocation. Of
the queues it keeps only what tells that a request with a part is not preempted later in the round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, demand, implies, integer, integer_term, path
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.scheduler import values
from cacheproof.prove.scheduler.entries import (
    ENCODER_WITH_ITEMS,
    PAIRS,
    Entries,
    changed,
    fresh_array,
    holds_still,
    is_item,
    item_of,
    with_one,
)
from cacheproof.prove.scheduler.life import known_requests_exist, of_each, queues_are_apart, runs, waits
from cacheproof.prove.scheduler.passes import claims_of_allocation, hint_few_items, leaves_others, reads, valid_items
from cacheproof.prove.scheduler.queues import ANSWERS, INTEGERS, Members
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.rounds import LOOPS as LOOPS_OF_LIFE
from cacheproof.prove.scheduler.rounds import is_start_of, renewed_round, scheduled_by_itself
from cacheproof.prove.scheduler.settings import RULES
from cacheproof.prove.scheduler.stand_ins import is_fit
from cacheproof.prove.scheduler.values import SMALL
from cacheproof.prove.sequences import Unknown, length
from cachespec.kernel import FROZEN
from cachespec.scheduler import normative, parts, rounds
from cachespec.scheduler.operations import Add, Schedule
from cachespec.scheduler.state import State

ROW = "loops"


# One part -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Granted:
    """What a pass has granted to a request."""

    start: Any
    tokens: Any
    entries: Entries
    """The encoder cache behind the pass."""
    total: Term
    """The lengths of the items that are encoded or loaded."""
    new: Term
    """The contents that are encoded."""
    indices: Term
    """For which item of the request each of them is."""
    encode: Term
    """The places of the items that are encoded."""

    def __iter__(self) -> Any:
        return iter((self,))


def each_content(condition: Any) -> Term:
    """The condition, of every content."""
    content = z3.Int("content")
    return z3.ForAll([content], condition(content))


def passing(rules: Any, config: Any, fit: Any, request: Any, start: Any) -> Any:
    """Stands for the encoder pass: any result with what `PASSES` shows of it."""
    before, asked = fit.encoder, integer_term(request)
    demand("SCH-3/begins", implies(config.encoder_decoder == 1, both(start >= 0)))
    after = changed(before, config, "pass", pairs=PAIRS, resident=ANSWERS, free=z3.IntSort())
    numbers: dict[str, Any] = {name: integer(name) for name in ("tokens", "embeds", "granted", "closed", "refused")}
    granted = Granted(
        start,
        numbers["tokens"],
        after,
        path().fresh("total", z3.IntSort()),
        fresh_array("new", ANSWERS),
        fresh_array("indices", INTEGERS),
        fresh_array("encode", ANSWERS),
    )
    fitted = fit._replace(encoder=after, encode=granted, bring=Unknown(), relies=Unknown(), **numbers)
    assume(is_fit(fit, fitted))
    for _, claim in leaves_others(config, asked, before, after):
        path().assume(claim)
    touches = reads(config, asked, start, fitted.tokens)

    def is_new(content: Term) -> Term:
        index = granted.indices[content]
        item = z3.And(is_item(config, asked, index), touches(index), item_of(config, asked, index).content == content)
        shared = integer_term(config.encoder_decoder) == 0
        return z3.Implies(granted.new[content], z3.And(item, z3.Implies(shared, z3.Not(after.resident[content]))))

    index = z3.Int("index")
    unread = z3.Implies(integer_term(config.encoder_decoder) == 0, z3.Not(before.pairs[asked][index]))
    named = z3.Implies(granted.encode[index], z3.And(is_item(config, asked, index), touches(index), unread))
    room = z3.And(after.free >= granted.total, each_content(is_new), z3.ForAll([index], named))
    path().assume(z3.Implies(integer_term(granted.tokens) > 0, room))
    first: Any = path().shown["before"].encoder
    new = was_not_held(first, asked, lambda index: granted.encode[index])
    demand("SCH-3/named", implies(granted.tokens > 0, new))
    return fitted


def was_not_held(entries: Entries, request: Term, encoded: Any) -> SymbolicBoolean:
    """SCH-3/named, of what is encoded: the request has held none of it."""
    index = z3.Int("index")
    return SymbolicBoolean(z3.ForAll([index], z3.Implies(encoded(index), z3.Not(entries.pairs[request][index]))))


def allocating(rules: Any, config: Any, encoder: Entries, request: Any, encode: Any, relies: Any) -> Entries:
    """Stands for the allocation: any cache with what `PASSES` shows of it. The room of the pass must still be there."""
    granted, asked = next(iter(encode)), integer_term(request)
    demand("SCH-3", SymbolicBoolean(encoder.free >= granted.total))
    demand("SCH-3", holds_still(granted.entries, encoder, asked))
    demand("SCH-4/once", is_encoded_once(config, encoder, granted.new))
    after = changed(encoder, config, "taken", pairs=PAIRS, resident=ANSWERS, free=z3.IntSort())
    touches = reads(config, asked, granted.start, granted.tokens)

    def each_touched(condition: Any) -> Term:
        index = z3.Int("index")
        touched = z3.And(is_item(config, asked, index), touches(index))
        return z3.ForAll([index], z3.Implies(touched, condition(index)))

    for claim in claims_of_allocation(config, asked, encoder, after, each_touched):
        assume(claim)
    return noted(config, after, asked, granted, touches)


def is_encoded_once(config: Any, entries: Entries, new: Term) -> SymbolicBoolean:
    """SCH-4/once: no part before encodes any of these contents. `PASSES` shows it of the items of one part."""
    shared = integer_term(config.encoder_decoder) == 0
    return SymbolicBoolean(each_content(lambda one: z3.Implies(z3.And(shared, new[one]), z3.Not(entries.encoded[one]))))


def noted(config: Any, entries: Entries, request: Term, granted: Granted, touches: Any) -> Entries:
    """The plan needs the items that the part touches, and encodes what was granted."""
    row, index = path().fresh("row", ANSWERS), z3.Int("index")
    needs = z3.Or(entries.needed[request][index], z3.And(is_item(config, request, index), touches(index)))
    path().assume(z3.ForAll([index], row[index] == needs))
    after = replace(
        entries,
        needed=z3.Store(entries.needed, request, row),
        encoded=path().fresh("encoded", ANSWERS),
        encoders=path().fresh("encoders", INTEGERS),
        indices=path().fresh("indices", INTEGERS),
    )

    def one(content: Term) -> Term:
        new = granted.new[content]
        return z3.And(
            after.encoded[content] == z3.Or(entries.encoded[content], new),
            after.encoders[content] == z3.If(new, request, entries.encoders[content]),
            after.indices[content] == z3.If(new, granted.indices[content], entries.indices[content]),
        )

    path().assume(each_content(one))
    return after


def scheduled_as_granted(rules: Any, config: Any, current: Any, request: Any, start: Any, fit: Any) -> Any:
    """`scheduled`, the only function that adds to a plan; the part has the tokens of the pass."""
    demand("X-2", both(fit.tokens > 0))
    before = current._replace(scheduled=Members.of(current.scheduled))
    after = scheduled_by_itself(rules, config, before, request, start, fit)
    scheduled: Any = after.scheduled
    part = scheduled.newest
    for one, other in ((part.start, fit.encode.start), (part.tokens, fit.encode.tokens)):
        demand("SCH-3", both(one == other))
    demand("SCH-3/named", both(part.encode is fit.encode, part.relies is fit.relies))
    demand("X-2", begun_inside_is_read(config, part))
    return after


def begun_inside_is_read(config: Any, part: Any) -> SymbolicBoolean:
    """X-2: the chunk touches each item inside of which it begins. By SCH-3 the item is resident or encoded again."""
    request, start, index = integer_term(part.request), integer_term(part.start), z3.Int("index")
    item, touches = item_of(config, request, index), reads(config, request, part.start, part.tokens)
    inside = z3.And(item.start < start, start < item.start + item.length, integer_term(config.encoder_decoder) == 0)
    return SymbolicBoolean(
        z3.ForAll([index], z3.Implies(z3.And(is_item(config, request, index), inside), touches(index)))
    )


# Loops --------------------------------------------------------------------------------------------------------------


def queues_are_right(config: Any, state: Any) -> Iterable[SymbolicBoolean]:
    """SCH-6, and only requests of the configuration are known."""
    yield queues_are_apart(config, state)
    yield known_requests_exist(config, state)


def plan_is_served(config: Any, members: Term, entries: Entries) -> Iterable[SymbolicBoolean]:
    """What the plan needs is held by requests with a part, and so is what it encodes."""
    request, index = z3.Ints("request index")
    held = z3.And(members[request], entries.pairs[request][index])
    yield SymbolicBoolean(z3.ForAll([request, index], z3.Implies(entries.needed[request][index], held)))

    def right(content: Term) -> Term:
        encoder, place = entries.encoders[content], entries.indices[content]
        shown = item_of(config, encoder, place).content == content
        return z3.Implies(entries.encoded[content], z3.And(members[encoder], entries.pairs[encoder][place], shown))

    yield SymbolicBoolean(each_content(right))
    yield SymbolicBoolean(entries.law(config))


def serving(entry: Locals, now: Locals) -> Iterable[Any]:
    """Requests with a part run, and come before this place."""
    config, after, line = now["config"], now["current"].state, now["running"]
    place, members = integer_term(now["position"]), Members.of(now["current"].scheduled).members
    yield from queues_are_right(config, after)
    yield is_start_of(after.running, line)
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))

    def right(request: Term) -> Term:
        run = runs(after, request)
        early = z3.And(run, line.places[request] < place)
        return z3.And(z3.Implies(run, line.counts[request] == 1), z3.Implies(members[request], early))

    yield of_each(right)
    yield from plan_is_served(config, members, after.encoder)
    yield the_preempted_end_admission(now["current"])
    first, (request, index) = path().shown["before"], z3.Ints("request index")
    is_next = z3.And(runs(after, request), line.places[request] >= place)
    same = after.computed.values[request] == first.computed.values[request]
    yield SymbolicBoolean(z3.ForAll([request], z3.Implies(is_next, same)))
    held = first.encoder.pairs[request][index]
    still = z3.Implies(z3.And(is_next, held), after.encoder.pairs[request][index])
    yield SymbolicBoolean(z3.ForAll([request, index], still, patterns=[held]))


def the_preempted_end_admission(current: Any) -> SymbolicBoolean:
    """If a request that ran when the round began does not run any more, no further request is admitted."""
    first, after, ended = path().shown["before"], current.state, integer_term(current.ended) == 1

    def right(request: Term) -> Term:
        return z3.Implies(z3.And(runs(first, request), z3.Not(runs(after, request))), ended)

    return of_each(right)


def searching(entry: Locals, now: Locals) -> Iterable[Any]:
    """Each victim is the last that runs; those that still run hold what they held, and no room is taken."""
    config, first, found = now["config"], entry["current"], now["search"].round
    before, after, request = first.state, found.state, integer_term(now["request"])
    line, was, entries = before.running, before.encoder, after.encoder
    yield from queues_are_right(config, after)
    yield is_start_of(after.running, line)
    yield SymbolicBoolean(z3.And(line.counts[request] == 1, after.running.length >= line.places[request]))
    yield implies(now["search"].found, SymbolicBoolean(after.computed.members[request]))
    members = Members.of(found.scheduled).members, Members.of(first.scheduled).members
    other, index = z3.Ints("other index")

    def right(one: Term) -> Term:
        ran, run = runs(before, one), runs(after, one)
        last = z3.Implies(z3.And(ran, z3.Not(run)), line.places[one] >= after.running.length)
        return z3.And(z3.Implies(run, ran), last, members[0][one] == members[1][one])

    yield of_each(right)
    held = z3.Implies(runs(after, other), entries.pairs[other][index] == was.pairs[other][index])
    yield SymbolicBoolean(z3.ForAll([other, index], held))
    yield SymbolicBoolean(entries.free >= was.free)
    yield SymbolicBoolean(entries.law(config))
    yield from preempting(first, found)


def preempting(first: Any, found: Any) -> Iterable[Any]:
    """The victims of a search end admission; the others keep their computed tokens."""
    before, after, ended = first.state, found.state, integer_term(found.ended)
    yield SymbolicBoolean(z3.Or(ended == integer_term(first.ended), ended == 1))

    def right(one: Term) -> Term:
        same = after.computed.values[one] == before.computed.values[one]
        return z3.If(runs(after, one), same, z3.Implies(runs(before, one), ended == 1))

    yield of_each(right)


def admitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Requests with a part run, and those from this place on still wait."""
    config, after, line = now["config"], now["current"].state, now["waiting"]
    place, members = integer_term(now["position"]), Members.of(now["current"].scheduled).members
    yield from queues_are_right(config, after)
    other = z3.Int("other")
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))
    inside = z3.And(other >= place, other < line.length)
    yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, waits(after, line.items[other]))))

    def right(request: Term) -> Term:
        return z3.And(line.counts[request] <= 1, z3.Implies(members[request], runs(after, request)))

    yield of_each(right)
    yield from plan_is_served(config, members, after.encoder)
    yield the_preempted_end_admission(now["current"])


def renewed(name: str, value: Any) -> Any:
    """Any round; a search for blocks leaves the plan as it is."""
    any_one = renewed_round(name, value)
    if name == "search":
        was = value.round.state.encoder
        entries = replace(Entries.fresh("search"), needed=was.needed, encoded=was.encoded, encoders=was.encoders,
                          indices=was.indices)  # fmt: skip
        return any_one._replace(round=with_entries(any_one.round, entries))
    return None if any_one is None else with_entries(any_one, Entries.fresh("round"))


def with_entries(current: Any, entries: Entries) -> Any:
    """The round with this encoder cache."""
    return current._replace(state=current.state._replace(encoder=entries))


# The proof ----------------------------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any value, as `LIFE` has it, but with an encoder cache that knows its inputs."""
    value = values.fresh(kind, name)
    return value._replace(encoder=Entries.fresh(name).without_plan()) if kind is State else value


def lift(kind: Any, value: Any) -> Any:
    """A concrete value, likewise."""
    lifted = values.lift(kind, value)
    if kind is not State:
        return lifted
    entries = Entries.empty(value.encoder.free)
    for pair, _ in value.encoder.held.items():  # noqa: PERF102  # a container of the kernel, not a dict
        request, index = pair
        entries = replace(entries, pairs=with_one(entries.pairs, z3.IntVal(request), z3.IntVal(index)))
    for content, _ in value.encoder.sizes.items():  # noqa: PERF102  # likewise
        entries = replace(entries, resident=z3.Store(entries.resident, content, z3.BoolVal(True)))
    return lifted._replace(encoder=entries)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """Of two requests a counterexample can say that they encode the same."""
    hint_few_items(config, requests=2)
    yield from valid_items(config, operation)


def known_before(config: Any, state: Any, operation: Any) -> Iterable[Any]:
    """What `LIFE` shows of the queues and of holders, `BEGUN` of computed tokens, and the laws of the encoder cache."""
    yield from queues_are_right(config, state)
    yield SymbolicBoolean(state.encoder.law(config))
    request, index = z3.Ints("request index")
    running = z3.Implies(state.encoder.pairs[request][index], runs(state, request))
    yield SymbolicBoolean(z3.ForAll([request, index], running))
    begun = z3.Implies(state.computed.members[request], state.computed.values[request] > 0)
    yield implies(config.encoder_decoder == 1, SymbolicBoolean(z3.ForAll([request], begun)))


def items_are_there(move: Move) -> SymbolicBoolean:
    """SCH-3: what the parts of the new plan touch is resident behind the round."""
    entries, (request, index) = move.after.encoder, z3.Ints("request index")
    there = entries.resident[item_of(move.config, request, index).content]
    return SymbolicBoolean(z3.ForAll([request, index], z3.Implies(entries.needed[request][index], there)))


ONE_WAITS: State = LIFE.variant.step(SMALL, LIFE.variant.initial(SMALL, FROZEN), Add(0))[0]
"""Where the search for witnesses begins."""

INPUTS = replace(
    LIFE,
    variant=replace(
        LIFE.variant,
        initial=lambda config, containers: ONE_WAITS,
        transitions={Schedule: LIFE.variant.transitions[Schedule]},
        alphabet=lambda config, state: (Schedule(),),
    ),
    invariants=(),
    laws=(
        Law(
            "SCH-3",
            "every item that a chunk touches is resident or encoded in the same step",
            (Schedule,),
            items_are_there,
        ),
        Law(
            "SCH-4/once",
            "no content is encoded twice in one step, except by an encoder-decoder model",
            (Schedule,),
            lambda move: True,
        ),
        Law(
            "SCH-3/named",
            "a plan names, in prompt order, the items that its chunks touch, and marks those that it encodes",
            (Schedule,),
            lambda move: True,
        ),
        Law(
            "X-2",
            "a chunk that begins inside an item has positive length, and its item is resident or encoded again",
            (Schedule,),
            items_are_there,
        ),
        Law(
            "SCH-3/begins",
            "no encoder pass of an encoder-decoder model begins at a negative position",
            (Schedule,),
            lambda move: True,
        ),
    ),
    witnesses=(SMALL,),
    environment=environment,
    lemmas=known_before,
    loops=(
        Loop(rounds.serve_running, ROW, serving, renewed=renewed, in_order=True),
        Loop(rounds.admit_waiting, ROW, admitting, renewed=renewed, in_order=True),
        Loop(
            rounds.with_blocks,
            ROW,
            searching,
            (lambda local: length(local["search"].round.state.running),),
            renewed=renewed,
        ),
        *(loop for loop in LOOPS_OF_LIFE if loop.function in (rounds.planned, rounds.shown)),
    ),
    replaced=(
        *LIFE.replaced,
        (normative, "RULES", RULES._replace(encoder=ENCODER_WITH_ITEMS)),  # type: ignore[arg-type]  # a stand-in
        (parts, "encoder_config", lambda config: config),
        (rounds, "fitted", passing),
        (rounds, "take", allocating),
        (rounds, "scheduled", scheduled_as_granted),
    ),
    fresh=fresh,
    lift=lift,
)
