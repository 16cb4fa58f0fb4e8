"""The parts of a protocol's state as terms: opaque values, a log with its history, and any number of messages.

The step function of a replayed cache is uninterpreted here: `advance(order, items)` is any function. A log knows the
order *before* each of its messages, `orders[n + 1] = advance(orders[n], items[n])`, so P1's order after the pending
messages is `orders[next]`, without recursion. A pool is a channel with any number of messages. Only an invariant of
each message is known, so reordering, loss and duplication are covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    NotFollowedError,
    Symbolic,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    integer_term,
    path,
)
from cacheproof.prove.sequences import Stretch, with_another
from cacheproof.prove.two_of_many import Part, rejoined


class Opaque(Symbolic):
    """A value of which only equality is known; one constant of its sort stands for the empty tuple."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        return SymbolicBoolean(self.term == opaque_term(other, self.term.sort()))

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return SymbolicBoolean(self.term != opaque_term(other, self.term.sort()))


def empty_of(sort: Any) -> Term:
    """The constant that stands for the empty tuple."""
    return z3.Const(f"nothing_{sort}", sort)


def opaque_term(value: object, sort: Any) -> Term:
    """The term of an opaque value, or of the empty tuple."""
    if type(value) is tuple and value == ():
        return empty_of(sort)
    if type(value) is not Opaque:
        raise NotFollowedError(f"an opaque value was expected, not a {type(value).__name__}")
    return value.term


@dataclass(frozen=True, slots=True)
class Replay:
    """The sorts and the uninterpreted step of a replayed cache."""

    order: Any
    items: Any
    needs: Any
    advance: Any
    needed: Any

    @classmethod
    def named(cls, order: str, items: str, needs: str) -> Replay:
        """New sorts of these names, and two functions of order and items: the next order, and the needed items."""
        orders, several, needed = (z3.DeclareSort(name) for name in (order, items, needs))
        return cls(
            order=orders,
            items=several,
            needs=needed,
            advance=z3.Function("advance", orders, several, orders),
            needed=z3.Function("needed", orders, several, needed),
        )

    def walk(self, order: Opaque, items: Opaque) -> tuple[Opaque, Opaque]:
        """In the place of the specification's own: any function of order and items."""
        return Opaque(self.advance(order.term, items.term)), Opaque(self.needed(order.term, items.term))


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Messages with consecutive numbers, from `base` to before `next`, and the order before each of them."""

    replay: Replay
    message: Callable[[Any, Any, Any], Any]
    """From sequence number, items and needs."""
    base: Term
    next: Term
    items: Term
    needs: Term
    orders: Term

    @classmethod
    def fresh(cls, replay: Replay, message: Callable[[Any, Any, Any], Any], name: str) -> Log:
        """Any log."""
        integer = z3.IntSort()
        return cls(
            replay,
            message,
            base=path().fresh(f"{name}.base", integer),
            next=path().fresh(f"{name}.next", integer),
            items=path().fresh(f"{name}.items", z3.ArraySort(integer, replay.items)),
            needs=path().fresh(f"{name}.needs", z3.ArraySort(integer, replay.needs)),
            orders=path().fresh(f"{name}.orders", z3.ArraySort(integer, replay.order)),
        )

    def renewed(self, name: str) -> Log:
        """Another log of the same make."""
        return Log.fresh(self.replay, self.message, name)

    def consistent(self) -> Term:
        """The history is one: each message leads from the order before it to the next, and says what it needs."""
        at = z3.Int("at")
        here, items = self.orders[at], self.items[at]
        step = z3.And(
            self.orders[at + 1] == self.replay.advance(here, items),
            self.needs[at] == self.replay.needed(here, items),
            items != empty_of(self.replay.items),
        )
        return z3.And(
            self.base <= self.next, z3.ForAll([at], z3.Implies(z3.And(at >= self.base, at < self.next), step))
        )

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            if place.start != 1 or place.stop is not None:
                raise NotFollowedError("of a log, only the first message can be taken away")
            path().demand("the position is in the tuple", self.base < self.next)
            return replace(self, base=self.base + 1)
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.next - self.base))
        return self.at(self.base + position)

    def at(self, sequence: Term) -> Any:
        """The message of this number."""
        return self.message(SymbolicInteger(sequence), Opaque(self.items[sequence]), Opaque(self.needs[sequence]))

    def element(self) -> Any:
        """Any of the messages."""
        sequence = path().fresh("sequence", z3.IntSort())
        path().assume(z3.And(sequence >= self.base, sequence < self.next))
        return self.at(sequence)

    def joined(self, message: Any) -> Log:
        """With one more message, whose number must be the next."""
        path().demand("messages are numbered one after the other", integer_term(message.sequence) == self.next)
        items, needs = message.items.term, message.payloads.term
        after = self.replay.advance(self.orders[self.next], items)
        return replace(
            self,
            next=self.next + 1,
            items=z3.Store(self.items, self.next, items),
            needs=z3.Store(self.needs, self.next, needs),
            orders=z3.Store(self.orders, self.next + 1, after),
        )

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.next - self.base)

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        if type(other) is tuple and other == ():
            return SymbolicBoolean(self.base == self.next)
        raise NotFollowedError("a log is compared with the empty tuple only")

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a log of unknown length cannot be listed: its loop needs to be cut")


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Any number of values, of each of which the same is known; and those that were added to them."""

    any: Callable[[str], Any]
    """A new value of which just that is known."""
    length: Term
    added: tuple[Any, ...] = ()

    @classmethod
    def fresh(cls, anyone: Callable[[str], Any], name: str) -> Pool:
        """Any number of such values."""
        length = path().fresh(f"{name}.length", z3.IntSort())
        path().assume(length >= 0)
        return cls(anyone, length)

    def members(self) -> Iterator[Any]:
        """One that stands for all that were there, and each that was added."""
        yield self.any("another")
        yield from self.added

    def __getitem__(self, place: Any) -> Any:
        if self.added:
            raise NotFollowedError("a pool is not read after it was added to")
        if type(place) is slice:
            return self._part(place)
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.length))
        return self.any("taken")

    def _part(self, place: slice) -> Any:
        if place.start is None or place.stop is None:
            return Pool.fresh(self.any, "rest")
        width = z3.simplify(integer_term(place.stop) - integer_term(place.start))
        if not z3.is_int_value(width):
            raise NotFollowedError("a slice of unknown width")
        inside = z3.And(integer_term(place.start) >= 0, integer_term(place.stop) <= self.length)
        path().demand("the position is in the tuple", inside)
        return tuple(self.any("taken") for _ in range(width.as_long()))

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length + len(self.added))

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        if type(other) is tuple and other == ():
            return SymbolicBoolean(z3.And(z3.BoolVal(not self.added), self.length == 0))
        raise NotFollowedError("a pool is compared with the empty tuple only")

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a pool of unknown length cannot be listed")


def spliced(*parts: tuple[bool, Any]) -> Any:
    """What `(*several, one)` is in the rewritten code: each part with whether it was starred."""
    starred = [part for several, part in parts if several]
    if any(type(part) is Stretch for part in starred):
        return with_another(parts)
    if any(grows(part) for part in starred):
        return _longer(parts)
    if any(type(part) is Part for part in starred):
        return rejoined(parts)
    flat = [item for several, part in parts for item in (_listed(part) if several else (part,))]
    pools = [part for part in starred if type(part) is Pool]
    if not pools:
        return tuple(flat)
    return replace(Pool.fresh(pools[0].any, "spliced"), added=tuple(flat))


def _listed(part: Any) -> tuple[Any, ...]:
    return part.added if type(part) is Pool else tuple(part)


def grows(value: Any) -> bool:
    """Whether it stands for a tuple that can become longer."""
    return hasattr(value, "joined") or hasattr(value, "extended")


def _longer(parts: tuple[tuple[bool, Any], ...]) -> Any:
    """A log, a queue or another tuple of unknown length, with more values at its end: `extended` takes all at once."""
    (several, whole), *rest = parts
    if not several or not grows(whole) or (any(starred for starred, _ in rest) and not hasattr(whole, "followed_by")):
        raise NotFollowedError("a tuple of unknown length only grows at its end, one value after the other")
    if hasattr(whole, "extended"):
        return whole.extended(*(value for _, value in rest))
    for starred, value in rest:
        whole = whole.followed_by(value) if starred else whole.joined(value)
    return whole
