"""The links of the mirror as terms: each a sender, its partition, and any contents of the channel between them.

There are two or more links: that of the sender that a call names, and one that stands for each of the others.

This module states the invariants of any message and any answer in the channel; the obligations demand them of those
that are sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

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
from cacheproof.prove.histories import Log, Opaque, Pool, Replay, empty_of
from cacheproof.prove.states import part_names
from cacheproof.prove.two_of_many import AnyNumber, TwoOfMany, mapped
from cachespec.mirror import configuration, drafts, normative_state, protocol

Config: Any = configuration.Config
Draft: Any = drafts.Draft
Link: Any = normative_state.Link
State: Any = normative_state.State
Sender: Any = protocol.Sender
Partition: Any = protocol.Partition
Message: Any = protocol.Message
Answer: Any = protocol.Answer
"""The specification's own records, with terms in the place of numbers and tuples."""

REPLAY = Replay.named("Order", "Items", "Needs")
EMPTY = Opaque(z3.Const("empty", REPLAY.order))
"""The order of a side that has just joined."""
SENDER = z3.Int("sender")
"""The sender that the call names."""


COUNTED = ("rendered", "fan_out")
"""Settings of which any number is taken."""


# Any link -----------------------------------------------------------------------------------------------------------


def logged(sequence: Any, items: Any, payloads: Any) -> Any:
    """A message in the log; its generation comes when it goes out."""
    return Message(protocol.NONE, sequence, items, payloads)


def opaque(name: str, sort: Any) -> Opaque:
    """A value of which nothing is known."""
    return Opaque(path().fresh(name, sort))


def request(name: str) -> Opaque:
    """The items of a request: there is at least one."""
    items = opaque(name, REPLAY.items)
    assume(items != ())
    return items


def draft(name: str) -> Any:
    """A request of any stage, with at least one message to send."""
    left = integer(f"{name}.left")
    assume(left >= 1)
    return Draft(request(f"{name}.items"), integer(f"{name}.stage"), left)


def fresh(kind: Any, name: str) -> Any:
    """Any configuration, state or operation."""
    if kind is Config:
        return Config(capacity=1, sizes=(), senders=AnyNumber(), **{part: integer(part) for part in COUNTED})
    if kind is State:
        links: Any = TwoOfMany.fresh(SENDER, any_link, name)
        return State(links=links, empty=EMPTY, faults_left=integer("faults"), overspent=integer("over"))
    fields: dict[str, Any] = {"sender": SymbolicInteger(SENDER), "which": None, "items": None}
    given = {field: fields[field] for field in part_names(kind)}
    if "which" in given:
        given["which"] = integer("which")
        assume(given["which"] >= 0)
    if "items" in given:
        given["items"] = request("items")
    return kind(**given)


def any_link(name: str) -> Any:
    """Any sender and partition, and between them whatever the channel may hold."""
    log = Log.fresh(REPLAY, logged, f"{name}.log")
    sender = Sender(
        order=opaque(f"{name}.p0", REPLAY.order),
        joined=integer("joined"),
        generation=integer("generation"),
        next=SymbolicInteger(log.next),
        log=log,
        sent=integer("sent"),
    )
    partition = Partition(
        order=opaque(f"{name}.p1", REPLAY.order),
        granted=integer("granted"),
        generation=integer("p1 generation"),
        expected=integer("expected"),
    )
    link = Link(sender, partition, allowance=integer("allowance"), marked=integer("marked"))

    def message(label: str) -> Any:
        items, payloads = opaque(f"{label}.items", REPLAY.items), opaque(f"{label}.payloads", REPLAY.needs)
        one = Message(integer(f"{label}.generation"), integer(f"{label}.sequence"), items, payloads)
        assume(is_genuine(link, one))
        return one

    def answer(label: str) -> Any:
        one = Answer(*(integer(f"{label}.{part}") for part in Answer._fields))
        assume(is_justified(link, one))
        return one

    return link._replace(
        messages=Pool.fresh(message, "messages"),
        answers=Pool.fresh(answer, "answers"),
        drafts=Pool.fresh(draft, "drafts"),
    )


# What is known of one -----------------------------------------------------------------------------------------------


def log_of(sender: Any) -> Log:
    """The log with its history. A listed log has a last message that leads to P0's order; an empty log has none."""
    if type(sender.log) is Log:
        return sender.log
    log, first = Log.fresh(REPLAY, logged, "log"), sender.next - len(sender.log)
    assume(both(number(log.base) == first, number(log.next) == sender.next))
    assume(order_before(log, sender.next) == sender.order)
    for place, message in enumerate(sender.log):
        assume(both(*same_message(log, first + place, message)))
    return log


def same_message(log: Log, sequence: Any, message: Any) -> tuple[SymbolicBoolean, SymbolicBoolean]:
    """Whether the log has these items and payloads under this number."""
    at = integer_term(sequence)
    return Opaque(log.items[at]) == message.items, Opaque(log.needs[at]) == message.payloads


def order_before(log: Log, sequence: Any) -> Opaque:
    """P0's order before the message of this number."""
    return Opaque(log.orders[integer_term(sequence)])


def number(term: Term) -> SymbolicInteger:
    """A term as a value."""
    return SymbolicInteger(term)


def is_genuine(link: Any, message: Any) -> SymbolicBoolean:
    """MIR-3, MIR-8: what P1 could still accept is the log's own message of that number, with what it needs."""
    log, partition = log_of(link.sender), link.partition
    acceptable = both(
        partition.granted != 0,
        message.generation >= partition.generation,
        message.sequence >= partition.expected,
        message.items != (),
    )
    ours = both(number(log.next) > message.sequence, *same_message(log, message.sequence, message))
    return both(message.generation <= link.sender.generation, implies(acceptable, ours))


def is_justified(link: Any, answer: Any) -> SymbolicBoolean:
    """No answer confirms more than P1 has applied, or than P0 has sent.

    And P1 refuses messages of P0's generation only as long as it has no partition for P0.
    """
    sender, granted = link.sender, link.partition.granted
    applied = implies(granted != 0, answer.expected <= link.partition.expected)
    known = both(answer.expected <= sender.next, answer.generation <= sender.generation)
    refused = both(answer.verdict == protocol.STALE, answer.generation == sender.generation, sender.joined == 1)
    return both(applied, known, implies(refused, granted == 0))


def links_of(state: Any) -> tuple[Any, ...]:
    """The links that are looked at: of any number of them two, and all of a known state."""
    return state.links.members if type(state.links) is TwoOfMany else state.links


def members(values: Any) -> Iterable[Any]:
    """Of a pool one that stands for all, and those that were added; all of a tuple."""
    return values.members() if type(values) is Pool else values


def either(one: Any, other: Any) -> SymbolicBoolean:
    """One of the two."""
    return both(one) | both(other)


# A known link -------------------------------------------------------------------------------------------------------


def lift(kind: Any, value: Any) -> Any:
    """The state or operation with its orders, items and needs as constants; numbers stay as they are."""
    if kind is Config:
        return value
    if kind is State:
        links: Any = mapped(lifted_link, value.links)
        return value._replace(links=links, empty=EMPTY)
    return dataclasses.replace(value, items=constant(REPLAY.items, value.items)) if hasattr(value, "items") else value


def lifted_link(link: Any) -> Any:
    """One link."""
    return link._replace(
        sender=link.sender._replace(
            order=order_constant(link.sender.order), log=tuple(lifted_message(one) for one in link.sender.log)
        ),
        partition=link.partition._replace(order=order_constant(link.partition.order)),
        messages=tuple(lifted_message(message) for message in link.messages),
        drafts=tuple(each._replace(items=constant(REPLAY.items, each.items)) for each in link.drafts),
    )


def lifted_message(message: Any) -> Any:
    """One message."""
    items, needs = constant(REPLAY.items, message.items), constant(REPLAY.needs, message.payloads)
    return message._replace(items=items, payloads=needs)


def order_constant(order: Any) -> Opaque:
    """One constant for each order; the empty one is known."""
    if type(order) is Opaque:
        return order
    entries = tuple(order.items())
    return constant(REPLAY.order, entries) if entries else EMPTY


def constant(sort: Any, value: Any) -> Any:
    """One constant for each value, and not the empty tuple's unless it is that."""
    if value == ():
        return Opaque(empty_of(sort))
    one = Opaque(z3.Const(f"{sort}{value}".replace(" ", ""), sort))
    assume(one != ())
    return one
