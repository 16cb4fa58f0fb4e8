"""Names that an implementation gives by itself, as the numbers of blocks: a number says nothing, and any other will do.

A component declares them once. What compares an implementation with it keeps a bijection between both sides' names; an
allocator may take any free name, and the specification then takes the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Config = TypeVar("Config")
State = TypeVar("State")

Rename = Callable[[int], int]
Names = tuple[int, ...]
Renamed = Callable[[Names, Rename], Names]
"""The value of an observable with other names, in the order that its declaration wants. A value of another form is
returned as it is: then it differs from every value of this form."""


@dataclass(frozen=True, slots=True)
class OwnNames(Generic[Config, State]):
    """The names of one sort that an implementation gives by itself.

    `sort` marks them in operations and in `returns`. `order` is the observable that lists the free names, the next one
    first: its order is the implementation's choice, unless it claims the specification's. `shown` renames the value of
    each observable that has such names. `taking` gives the same state with these free names next in turn, or the state
    as it is if one of them is not free.
    """

    sort: str
    order: str
    shown: Mapping[str, Renamed]
    taking: Callable[[Config, State, Names], State]


def each(values: Names, rename: Rename) -> Names:
    """A list of names."""
    return tuple(rename(value) for value in values)


def pairs(values: Names, rename: Rename) -> Names:
    """Pairs of a name and a number, ascending by name."""
    if len(values) % 2:
        return values
    renamed = sorted((rename(name), number) for name, number in zip(values[::2], values[1::2], strict=True))
    return tuple(part for pair in renamed for part in pair)


def rows(values: Names, rename: Rename) -> Names:
    """Rows of a number, the length of a list, and a list of names."""
    renamed: Names = ()
    rest = values
    while len(rest) > 1 and 0 <= rest[1] <= len(rest) - 2:
        length = rest[1]
        renamed = (*renamed, rest[0], length, *each(rest[2 : 2 + length], rename))
        rest = rest[2 + length :]
    return values if rest else renamed
