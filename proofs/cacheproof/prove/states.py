"""Symbolic values from type annotations: a state of which nothing is known, or one lifted from a concrete state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_origin

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import SymbolicMap, SymbolicQueue, Tally, every
from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    both,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.sequences import SymbolicSequence, Unknown, row_of
from cacheproof.prove.shapes import INTEGER, Shape, shape_of, small_array
from cachespec.kernel.containers import FrozenMap, FrozenQueue, Map, Queue
from cachespec.kernel.names import hints_of, unwrap


def fresh(hint: Any, name: str) -> Any:
    """A value of this type; only the conditions of the type are known of it."""
    inner, _ = unwrap(hint)
    origin, arguments = get_origin(inner), get_args(inner)
    if inner is int:
        return integer(name)
    if origin is Map:
        return fresh_map(shape_of(arguments[0]), element_shape(arguments[1]), name)
    if origin is Queue:
        return fresh_queue(shape_of(arguments[0]), name)
    if origin is tuple and Ellipsis in arguments:
        return SymbolicSequence.fresh(element_shape(arguments[0]), name)
    if isinstance(inner, type) and (hasattr(inner, "_fields") or is_dataclass(inner)):
        hints = hints_of(inner)
        return inner(**{part: fresh(hints[part], f"{name}.{part}") for part in part_names(inner)})
    raise NotFollowedError(f"no symbolic value for {name}, which is a {inner}")


def element_shape(hint: Any) -> Shape:
    """The shape of a tuple's members, for tuples of unknown length too."""
    inner, _ = unwrap(hint)
    if get_origin(inner) is tuple and Ellipsis in get_args(inner):
        return row_of(element_shape(get_args(inner)[0]))
    return shape_of(hint)


def part_names(owner: Any) -> tuple[str, ...]:
    """The fields of a NamedTuple or dataclass, in order."""
    return tuple(owner._fields) if hasattr(owner, "_fields") else tuple(field.name for field in fields(owner))


def fresh_map(key: Shape, value: Shape, name: str, *, counted: bool = True) -> SymbolicMap:
    """Any map; one to integers is counted, unless its values may be negative."""
    one = SymbolicMap(
        key=key,
        value=value,
        members=path().fresh(f"{name}.members", z3.ArraySort(key.sort, z3.BoolSort())),
        values=path().fresh(f"{name}.values", z3.ArraySort(key.sort, value.sort)),
        length_term=path().fresh(f"{name}.length", z3.IntSort()),
        total_term=path().fresh(f"{name}.total", z3.IntSort()),
        counted=value.numeric and counted,
    )
    if one.counted:
        path().assume(every(key, lambda k: z3.Implies(one.members[k], one.values[k] >= 0)))
    path().hints.append(one.members == small_array(key, z3.BoolVal(False), "member"))
    path().hints.append(one.values == small_array(key, value.blank, "value"))
    return one


def tallied(
    one: SymbolicMap, kind: Callable[[Term], Term], known: Iterable[Any] | None = None, *, by_value: bool = False
) -> SymbolicMap:
    """With a ghost count of the keys of each kind; `known` are all the keys, where those are known.

    `by_value`: the kind belongs to the value at the key.
    """
    if known is not None:
        tally = Tally(kind, z3.K(z3.IntSort(), z3.IntVal(0)), by_value)
        for key in known:
            tally = tally.adjusted(one.subject(one.key.encode(key), tally), z3.IntVal(1))
        return replace(one, tally=tally)
    tally = Tally(kind, path().fresh("tally", z3.ArraySort(z3.IntSort(), z3.IntSort())), by_value)
    path().assume(every(one.key, lambda key: tally.law(one.members[key], one.subject(key, tally))))
    path().hints.append(tally.counts == small_array(INTEGER, z3.IntVal(0), "count"))
    return replace(one, tally=tally)


def fresh_queue(key: Shape, name: str) -> SymbolicQueue:
    """Any queue: stamps are unique and lie between the clocks, weights are not negative."""
    one = SymbolicQueue(
        key=key,
        members=path().fresh(f"{name}.members", z3.ArraySort(key.sort, z3.BoolSort())),
        weights=path().fresh(f"{name}.weights", z3.ArraySort(key.sort, z3.IntSort())),
        stamps=path().fresh(f"{name}.stamps", z3.ArraySort(key.sort, z3.IntSort())),
        owner=path().fresh(f"{name}.owner", z3.ArraySort(z3.IntSort(), key.sort)),
        clock=path().fresh(f"{name}.clock", z3.IntSort()),
        dawn=path().fresh(f"{name}.dawn", z3.IntSort()),
        length_term=path().fresh(f"{name}.length", z3.IntSort()),
        total_term=path().fresh(f"{name}.total", z3.IntSort()),
    )

    def good(k: Term) -> Term:
        unique = one.owner[one.stamps[k]] == k
        between = z3.And(one.dawn < one.stamps[k], one.stamps[k] < one.clock)
        return z3.Implies(one.members[k], z3.And(between, unique, one.weights[k] >= 0))

    path().assume(one.dawn < one.clock)
    path().assume(every(key, good))
    path().hints.append(one.members == small_array(key, z3.BoolVal(False), "member"))
    path().hints += [array == small_array(key, z3.IntVal(0), "number") for array in (one.weights, one.stamps)]
    path().hints.append(one.owner == small_array(INTEGER, key.blank, "owner"))
    return one


def fresh_like(value: Any, name: str) -> Any:
    """A value of the same make of which nothing else is known."""
    if type(value) in (SymbolicInteger, int):
        return integer(name)
    if type(value) is SymbolicMap:
        one = fresh_map(value.key, value.value, name, counted=value.counted)
        return one if value.tally is None else tallied(one, value.tally.kind, by_value=value.tally.by_value)
    if type(value) is SymbolicQueue:
        return fresh_queue(value.key, name)
    if hasattr(value, "renewed"):
        return value.renewed(name)
    if type(value) in (tuple, Unknown):
        return Unknown()
    parts = {part: fresh_like(getattr(value, part), f"{name}.{part}") for part in part_names(value)}
    return type(value)(**parts)


def lift(hint: Any, value: Any) -> Any:
    """The symbolic value that stands for exactly this value; symbolic parts stay as they are."""
    inner, _ = unwrap(hint)
    origin, arguments = get_origin(inner), get_args(inner)
    if type(value) in (SymbolicMap, SymbolicQueue, SymbolicSequence):
        return value
    if inner is int:
        return SymbolicInteger(integer_term(value))
    if origin is Map:
        return map_of(shape_of(arguments[0]), element_shape(arguments[1]), FrozenMap.of(value.items()).items())
    if origin is Queue:
        return queue_of(shape_of(arguments[0]), FrozenQueue(value.items()).items())
    if origin is tuple and Ellipsis in arguments:
        return SymbolicSequence.of(element_shape(arguments[0]), value)
    if isinstance(inner, type) and (hasattr(inner, "_fields") or is_dataclass(inner)):
        hints = hints_of(inner)
        return inner(**{part: lift(hints[part], getattr(value, part)) for part in part_names(inner)})
    raise NotFollowedError(f"no symbolic value for a {inner}")


def map_of(key: Shape, value: Shape, entries: Iterable[tuple[Any, Any]]) -> SymbolicMap:
    """The map with these entries."""
    one = SymbolicMap(
        key=key,
        value=value,
        members=z3.K(key.sort, z3.BoolVal(False)),
        values=path().fresh("values", z3.ArraySort(key.sort, value.sort)),
        length_term=z3.IntVal(0),
        total_term=z3.IntVal(0),
        counted=value.numeric,
    )
    for name, bound in entries:
        one = one.set(name, bound)
    return one


def queue_of(key: Shape, entries: Iterable[tuple[Any, int]]) -> SymbolicQueue:
    """The queue with these entries, oldest first."""
    one = SymbolicQueue(
        key=key,
        members=z3.K(key.sort, z3.BoolVal(False)),
        weights=z3.K(key.sort, z3.IntVal(0)),
        stamps=z3.K(key.sort, z3.IntVal(0)),
        owner=path().fresh("owner", z3.ArraySort(z3.IntSort(), key.sort)),
        clock=z3.IntVal(0),
        dawn=z3.IntVal(-1),
        length_term=z3.IntVal(0),
        total_term=z3.IntVal(0),
    )
    for name, weight in entries:
        one = one.push(name, weight)
    return one


def unchanged(before: Any, after: Any) -> SymbolicBoolean:
    """Whether two values of one type are equal; for queues, the stamps too."""
    if type(before) is SymbolicMap:
        return same_map(before, after)
    if type(before) is SymbolicQueue:
        return same_queue(before, after)
    if hasattr(before, "same_as"):
        return both(before.same_as(after))
    if type(before) in (SymbolicInteger, int):
        return SymbolicBoolean(integer_term(before) == integer_term(after))
    return both(True, *(unchanged(getattr(before, part), getattr(after, part)) for part in part_names(before)))


def unchanged_but(before: Any, after: Any, *changed: str) -> SymbolicBoolean:
    """Whether all other fields are the same."""
    others = (part for part in part_names(before) if part not in changed)
    return both(True, *(unchanged(getattr(before, part), getattr(after, part)) for part in others))


def same_map(one: SymbolicMap, other: SymbolicMap) -> SymbolicBoolean:
    """The same keys with the same values."""

    def alike(key: Term) -> Term:
        values = z3.Implies(one.members[key], one.values[key] == other.values[key])
        return z3.And(one.members[key] == other.members[key], values)

    return SymbolicBoolean(every(one.key, alike))


def same_queue(one: SymbolicQueue, other: SymbolicQueue) -> SymbolicBoolean:
    """The same keys with the same weights and the same stamps: hence in the same order."""

    def alike(key: Term) -> Term:
        entries = z3.And(one.weights[key] == other.weights[key], one.stamps[key] == other.stamps[key])
        return z3.And(one.members[key] == other.members[key], z3.Implies(one.members[key], entries))

    return SymbolicBoolean(every(one.key, alike))
