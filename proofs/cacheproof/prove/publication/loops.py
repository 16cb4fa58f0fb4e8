"""The loops of a publication, and the function that says which chunks may go, by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Law, Move, Proof
from cacheproof.prove.publication.invariants import ONE, pair_of
from cacheproof.prove.publication.states import (
    CONTENT,
    IDENTITY,
    NUMBER,
    VALUE,
    each_has_answered,
    environment,
    fields_of,
    fresh,
    handles_of,
    initial,
    is_current,
    is_reader,
    lift,
    pending_of,
    plain_ring_config,
    visible_at,
)
from cacheproof.prove.ring.chunks import line_of, seen
from cacheproof.prove.ring.memory import AT as UNIT_AT
from cacheproof.prove.ring.memory import is_between
from cachespec import publication
from cachespec.kernel import DONE, REFUSED, Code, Operation, Outcome
from cachespec.publication import Config, Exchange, transitions
from cachespec.publication.transitions import TRANSITIONS
from cachespec.ring.configuration import Id

PLACE = z3.Int("reader place")


def each_pair(members: Term, condition: Term) -> SymbolicBoolean:
    """The condition, for `ONE` as any chunk and `PLACE` as any reader."""
    return SymbolicBoolean(z3.ForAll([ONE, PLACE], condition, patterns=seen(members, pair_of(ONE, PLACE))))


def forgetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """What is known of the first chunks that are gone is gone; within one of them, of its first readers."""
    before, after, pair = entry["given_up"].members, now["given_up"].members, pair_of(ONE, PLACE)
    if "reader" in entry:
        reader = integer_term(now["reader"])
        gone = z3.And(integer_term(entry["identity"]) == ONE, is_between(PLACE, z3.IntVal(0), reader))
        yield SymbolicBoolean(z3.And(reader >= 0, reader <= integer_term(now["reader_end"])))
        yield each_pair(after, after[pair] == z3.And(before[pair], z3.Not(gone)))
        return
    listed, at = line_of(entry["gone"]), integer_term(now["identity_at"])
    gone = z3.And(listed.has(ONE), listed.place_of[ONE] < listed.first + at)
    yield SymbolicBoolean(at >= 0)
    yield listed.distinct()
    contents, left = entry["contents"], now["contents"]
    right = z3.And(
        left.members[ONE] == z3.And(contents.members[ONE], z3.Not(gone)), left.values[ONE] == contents.values[ONE]
    )
    yield SymbolicBoolean(z3.ForAll([ONE], right, patterns=seen(left.members, ONE) + seen(left.values, ONE)))
    within = z3.And(gone, is_reader(entry["config"], PLACE))
    yield each_pair(after, after[pair] == z3.And(before[pair], z3.Not(within)))


def giving_up(entry: Locals, now: Locals) -> Iterable[Any]:
    """The chunks of the first handles are given up for the reader."""
    before, after, pair = entry["given_up"].members, now["given_up"].members, pair_of(ONE, PLACE)
    handles, opened = handles_of(entry["reading"]), fields_of(entry["reading"].opened)
    at, place = integer_term(now["content_at"]), handles.place_of[ONE]
    listed = z3.And(handles.has(ONE), handles.columns[CONTENT][place] >= 0, place < handles.first + at)
    first = z3.And(listed, is_current(entry["exchange"], handles.columns[NUMBER][place]))
    current = z3.And(opened[IDENTITY] == ONE, is_current(entry["exchange"], opened[NUMBER]))
    last = z3.And(opened[CONTENT] >= 0, current, at > handles.length)
    lost = z3.And(integer_term(entry["op"].reader) == PLACE, z3.Or(first, last))
    yield SymbolicBoolean(z3.And(at >= 0, at <= handles.length + 1))
    yield each_pair(after, after[pair] == z3.Or(before[pair], lost))


def wiping(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first units are gone."""
    unit, units = integer_term(now["unit"]), now["memory"]
    inside = is_between(UNIT_AT, z3.IntVal(0), unit)
    yield SymbolicBoolean(
        z3.ForAll([UNIT_AT], z3.Implies(inside, z3.Not(units.members[UNIT_AT])), patterns=seen(units.members, UNIT_AT))
    )
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= integer_term(now["unit_end"])))


LOOPS = (
    Loop(transitions.forgotten, "loops", forgetting, in_order=True),
    Loop(transitions.reader_dies, "loops", giving_up, in_order=True),
    Loop(transitions.restart, "loops", wiping, in_order=True),
)

REPLACED = ((transitions, "ring_config", plain_ring_config),)
"""A configuration of terms is not compared with others."""

# Which chunks may go ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask(Operation):
    """Whether the chunk of this id may go."""

    identity: Id


def ask(config: Config, exchange: Exchange, op: Ask) -> tuple[Exchange, Outcome]:
    """As `free` and `clear` call it."""
    return exchange, DONE if transitions.may_go(config, exchange, op.identity) else REFUSED


def counting(entry: Locals, now: Locals) -> Iterable[Any]:
    """None is missing if each of the first readers has answered."""
    reader, missing = integer_term(now["reader"]), integer_term(now["missing"])
    answered = each_has_answered(entry["config"], entry["exchange"], integer_term(entry["identity"]), reader)
    yield SymbolicBoolean(z3.And(reader >= 0, reader <= integer_term(now["reader_end"]), missing >= 0))
    yield SymbolicBoolean((missing == 0) == answered)


def looking_up(entry: Locals, now: Locals) -> Iterable[Any]:
    """The value is that of the first stores, or what is visible."""
    exchange, at, unit = entry["exchange"], integer_term(now["stored_unit_at"]), integer_term(entry["unit"])
    pending = pending_of(exchange)
    place = pending.place_of[unit]
    met = z3.And(pending.has(unit), place < pending.first + at)
    found = z3.If(met, pending.columns[VALUE][place], visible_at(exchange, unit))
    yield SymbolicBoolean(z3.And(at >= 0, at <= pending.length, integer_term(now["value"]) == found))


def answer_is_right(move: Move) -> SymbolicBoolean:
    """The chunk may go exactly if each reader has answered."""
    answered = each_has_answered(move.config, move.before, integer_term(move.operation.identity))
    return SymbolicBoolean(answered == z3.BoolVal(move.outcome.code is Code.DONE))


ANSWERS = Proof(
    component="publication",
    variant=replace(
        publication.NORMATIVE_PUBLICATION,
        initial=initial,
        title="which chunks of the normative publication may go",
        transitions={**TRANSITIONS, Ask: ask},
        alphabet=lambda config, exchange: (
            *publication.NORMATIVE_PUBLICATION.alphabet(config, exchange),
            *map(Ask, range(config.modulus)),
        ),
    ),
    config=Config,
    invariants=(),
    laws=(Law("SHM-3/answered", "a chunk may go exactly if each reader has answered", (Ask,), answer_is_right),),
    witnesses=(Config(capacity=9, modulus=2, sizes=(1, 2), readers=2, outstanding=2),),
    environment=environment,
    lemmas=lambda config, exchange, operation: (SymbolicBoolean(pending_of(exchange).are_found()),),
    loops=(
        Loop(transitions.may_go, "loops", counting, in_order=True),
        Loop(transitions.as_the_writer_sees, "loops", looking_up, in_order=True),
    ),
    modules=modules_of(publication),
    replaced=REPLACED,
    fresh=fresh,
    lift=lift,
)
