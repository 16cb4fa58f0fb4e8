"""A tuple of any length, of which two members are looked at: the one that a call names, and one for all others.

The code may read the named member, replace it, and map all members. With that, a member depends on itself and on the
call alone, so what holds of the named member and of any other one holds of each. Everything else that code may do with
a tuple (its length, a sum, another place) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, Term, integer_term, path

NAMED, OTHER = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class TwoOfMany:
    """A tuple of at least two members."""

    places: tuple[Term, Term]
    """The place that the call names, and any other place."""
    members: tuple[Any, Any]
    """What stands there."""

    @classmethod
    def fresh(cls, named: Term, make: Callable[[str], Any], name: str) -> TwoOfMany:
        """Any tuple of at least two members, with the named place inside."""
        other, length = (path().fresh(f"{name}.{part}", z3.IntSort()) for part in ("other", "length"))
        for place in (named, other):
            path().assume(z3.And(place >= 0, place < length))
        path().assume(named != other)
        return cls((named, other), (make(f"{name}.named"), make(f"{name}.another")))

    @property
    def named(self) -> Any:
        """The member that the call names."""
        return self.members[NAMED]

    @property
    def other(self) -> Any:
        """The member that stands for all others."""
        return self.members[OTHER]

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            return self._part(place)
        self._demand_named(place)
        return self.named

    def _part(self, place: slice) -> Part:
        if place.step is None and place.start is None and place.stop is not None:
            self._demand_named(place.stop)
            return Part(self, before=True)
        if place.step is None and place.stop is None and place.start is not None:
            self._demand_named(place.start - 1)
            return Part(self, before=False)
        raise NotFollowedError("a part of many members that does not end at the named one")

    def _demand_named(self, place: Any) -> None:
        if not z3.is_true(z3.simplify(integer_term(place) == self.places[NAMED])):
            raise NotFollowedError("a member at another place than the call names")

    def mapped(self, function: Callable[[Any], Any]) -> TwoOfMany:
        """`tuple(function(member) for member in self)`."""
        named, other = map(function, self.members)
        return replace(self, members=(named, other))

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("many members are mapped by `tuple(... for ... in ...)`, and not listed otherwise")

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of many members cannot be followed")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The members before the named one, or behind it."""

    whole: TwoOfMany
    before: bool


def rejoined(parts: Sequence[tuple[bool, Any]]) -> TwoOfMany:
    """`(*many[:place], member, *many[place + 1 :])`, each part with whether it was starred."""
    match parts:
        case ((True, Part(whole, True)), (False, member), (True, Part(same, False))) if whole is same:
            return replace(whole, members=(member, whole.other))
    raise NotFollowedError("many members are joined with the named one in their middle only")


class AnyNumber:
    """Any number of members: `(member,) * number` is that many of them."""

    def __rmul__(self, members: tuple[Any]) -> TwoOfMany:
        (member,) = members
        return TwoOfMany.fresh(path().fresh("place", z3.IntSort()), lambda _: member, "many")


def mapped(function: Callable[[Any], Any], values: Any) -> Any:
    """What `tuple(function(value) for value in values)` is in the rewritten code."""
    return values.mapped(function) if hasattr(values, "mapped") else tuple(map(function, values))
