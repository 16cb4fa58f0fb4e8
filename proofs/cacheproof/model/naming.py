"""The names in an operation: which keys, senders or requests it speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, get_args

from cacheproof.model.registry import AnyComponent
from cachespec.kernel import Name, Operation
from cachespec.kernel.names import Permutations, hints_of, note_of, renaming, unwrap


def names_by_field(operation: Operation) -> Iterator[tuple[str, str, int]]:
    """For every name in the operation: the field that it is in, its sort, and the name."""
    kind: type = type(operation)
    for field, hint in hints_of(kind).items():
        for sort, name in _names_in(hint, getattr(operation, field, None)):
            yield field, sort, name


def names_in(component: AnyComponent, config: Any) -> Mapping[str, frozenset[int]]:
    """The names that a configuration has, by sort; a sort that is not in it has any name."""
    return {
        sort: frozenset(name for members in classes for name in members)
        for sort, classes in component.interchangeable(config).items()
    }


def wrong_operand(kind: type, field: str, value: Any, names: Mapping[str, frozenset[int]]) -> str | None:
    """What is wrong with the value of an operation's field, or None.

    Nothing in an operation is negative: what a negative size or position would do is no question to the model. Names
    that the configuration does not have are not the specification's business either.
    """
    for number in value if isinstance(value, tuple) else (value,):
        if number < 0:
            return f"{field} must not be negative, as {number} is"
    for sort, name in _names_in(hints_of(kind)[field], value):
        if name not in names.get(sort, frozenset({name})):
            return f"{field} names {sort} {name}, which the configuration does not have"
    return None


def wrong_operation(
    component: AnyComponent, config: Any, operation: Operation, names: Mapping[str, frozenset[int]]
) -> str | None:
    """Why an operation is no question to the specification, or None: what it would index is not there.

    `names` are those that the configuration has.
    """
    kind: type = type(operation)
    for field in fields(kind):
        wrong = wrong_operand(kind, field.name, getattr(operation, field.name), names)
        if wrong is not None:
            return f"{operation.wire_name()}: {wrong}"
    unknown = component.unknown(config, operation)
    return None if unknown is None else f"{operation.wire_name()}: {unknown}"


def single_sorts(kind: type) -> dict[str, str]:
    """The fields of an operation's class that are one name each, and the sort of it."""
    notes = {field: note_of(unwrap(hint)[1], Name) for field, hint in hints_of(kind).items()}
    return {field: note.sort for field, note in notes.items() if note is not None}


def by_appearance(component: AnyComponent, config: Any, operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The same operations with interchangeable names given out in the order in which they appear."""
    run = tuple(operations)
    appearing = list(dict.fromkeys((sort, name) for one in run for _, sort, name in names_by_field(one)))
    to: Permutations = {
        sort: _permutation(classes, [name for other, name in appearing if other == sort])
        for sort, classes in component.interchangeable(config).items()
    }
    return tuple(_renamed(operation, to) for operation in run)


def _permutation(classes: tuple[tuple[int, ...], ...], appearing: list[int]) -> tuple[int, ...]:
    """Where each name goes: within its class, first come, first named."""
    to = list(range(1 + max((name for members in classes for name in members), default=-1)))
    for members in classes:
        here = [name for name in appearing if name in members]
        for new, old in zip(members, [*here, *(name for name in members if name not in here)], strict=True):
            to[old] = new
    return tuple(to)


def _renamed(operation: Operation, to: Permutations) -> Operation:
    kind: type = type(operation)
    rename = renaming(kind)
    renamed: Operation = operation if rename is None else rename(operation, to)
    return renamed


def _names_in(hint: Any, value: Any) -> list[tuple[str, int]]:
    inner, notes = unwrap(hint)
    mark = note_of(notes, Name)
    if mark is not None:
        return [(mark.sort, value)]
    if isinstance(value, tuple):
        return [named for item in value for named in _names_in(get_args(inner)[0], item)]
    return []
