"""What the proofs of the mirror put in the place of code: uninterpreted functions, and loops that are cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, assume, both, integer, path
from cacheproof.prove.histories import Log
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.mirror.invariants import out
from cacheproof.prove.mirror.links import REPLAY, either, log_of, logged, number, opaque, order_before
from cacheproof.prove.sequences import length
from cachespec.mirror import normative, protocol, recency

MISSING = object()
"""Stands for an item that is missing at P1."""


def missing_items(items: Any, needed: Any, payloads: Any) -> tuple[Any, ...]:
    """Replaces the specification's function: nothing is missing if the needed payloads were sent."""
    return () if needed == payloads else (MISSING,)


def any_count(_: object) -> Any:
    """In the place of the partitions that are granted to all senders, and of those that P1 has room for: any number."""
    count = integer("count")
    assume(count >= 0)
    return count


REPLACED = (
    (recency, "walk", lambda config, order, items: REPLAY.walk(order, items)),
    (recency, "absent", lambda order, items: REPLAY.walk(order, items)[1]),
    (normative, "missing_items", missing_items),
    (normative, "granted", any_count),
    (normative, "partitions", any_count),
)


# Loops --------------------------------------------------------------------------------------------------------------


def some_are_confirmed(entry: Locals, now: Locals) -> Iterable[Any]:
    """The log has lost some of its first messages, none that P1 has not applied; nothing else has changed."""
    before, sender = entry["sender"], now["sender"]
    old, log = log_of(before), log_of(sender)
    yield both(number(old.base) <= number(log.base), number(log.base) <= number(log.next))
    yield either(number(log.base) <= now["expected"], number(log.base) == number(old.base))
    yield both(sender.sent >= 0, number(log.next - log.base) >= sender.sent, number(log.base) >= 0)
    yield out(sender) >= out(before)
    yield either(out(sender) == out(before), sender.sent == 0)
    yield SymbolicBoolean(z3.And(old.items == log.items, old.needs == log.needs, old.orders == log.orders))
    yield both(number(log.next) == number(old.next), *unmoved(before, sender, "order", "joined", "generation", "next"))


def unmoved(before: Any, after: Any, *parts: str) -> tuple[Any, ...]:
    """Fields that are the same."""
    return tuple(getattr(before, part) == getattr(after, part) for part in parts)


def shorter(name: str, value: Any) -> Any:
    """A sender whose log begins anywhere."""
    if name != "sender":
        return None
    return value._replace(log=replace(value.log, base=path().fresh("base", z3.IntSort())), sent=integer("sent"))


def decided_anew(entry: Locals, now: Locals) -> Iterable[Any]:
    """From the empty order on, whatever was unanswered has its message again; P1 expects the first of them."""
    sender, partition = now["fresh"], entry["partition"]
    log, unanswered, done = log_of(sender), now["unanswered"], now["message_at"]
    yield both(number(log.next - log.base) == done, length(unanswered) >= done)
    yield both(number(log.base) == partition.expected, number(log.next) == sender.next)
    yield both(order_before(log, partition.expected) == partition.order, order_before(log, sender.next) == sender.order)
    yield SymbolicBoolean(log.consistent())
    yield both(True, *unmoved(entry["fresh"], sender, "joined", "generation", "sent"))


def grown(name: str, value: Any) -> Any:
    """A sender with any log."""
    if name != "fresh":
        return None
    log = Log.fresh(REPLAY, logged, "decided")
    return value._replace(order=opaque("order", REPLAY.order), next=SymbolicInteger(log.next), log=log)


LOOPS = (
    Loop(
        protocol.confirm,
        "loops",
        some_are_confirmed,
        (lambda local: length(local["sender"].log),),
        renewed=shorter,
    ),
    Loop(protocol.join, "loops", decided_anew, renewed=grown, in_order=True),
)
