"""How a loop of the object store is cut: the parts that it changes are any at a turn, the others stay to the term."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import NotFollowedError, SymbolicInteger
from cacheproof.prove.lines import Line
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.object_store.values import APART, Cell, Requests, Row, Workers
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import part_names

Conditions = Callable[[Locals, Locals], Iterable[Any]]
Changed = Mapping[str, tuple[str, ...]]
"""The parts that a loop changes: of the store, of its requests or workers, or of a worker."""


def renewing(changed: Changed) -> Callable[[str, Any], Any]:
    """At a turn these parts are any, and the others are those of the entry: `the_others_stay` checks that they stay."""

    def renewed(name: str, value: Any) -> Any:
        if name == "gone":
            return Line.fresh(name)
        if name == "found":
            return Row.fresh(INTEGER, name)
        if name == "worker":
            return value._replace(**{part: states.fresh_like(getattr(value, part), part) for part in changed[name]})
        if name != "store":
            return None
        return value._replace(**{part: another(getattr(value, part), part, changed) for part in changed[name]})

    return renewed


def another(value: Any, part: str, changed: Changed) -> Any:
    """Any other value of this part of a store."""
    return value.but(*changed[part]) if part in changed else states.fresh_like(value, part)


def the_others_stay(changed: Changed, entry: Locals, now: Locals) -> None:
    """The loop has left the other parts as they are, to the term."""
    for name in ("store", "worker"):
        if name in changed and name in entry:
            same(entry[name], now[name], changed[name])
    for part in APART:
        if part in changed:
            same(getattr(entry["store"], part), getattr(now["store"], part), changed[part])


def same(before: Any, after: Any, changed: tuple[str, ...]) -> None:
    """All parts but these are the same. Raises `NotFollowedError` if one is not."""
    for part in part_names(before):
        if part not in changed and not is_same(getattr(before, part), getattr(after, part)):
            raise NotFollowedError(f"a loop changes {part}, which is not in its list")


def is_same(one: Any, other: Any) -> bool:
    """The same object, equal terms, or records of these."""
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind in (SymbolicInteger, Cell, Row, Requests, Workers):
        parts = ("term",) if kind is SymbolicInteger else kind.__slots__
        return all(is_same(getattr(one, part), getattr(other, part)) for part in parts)
    return issubclass(kind, z3.ExprRef) and bool(one.eq(other))


def turn(loop: Callable[[Locals, Locals], Iterable[Any]], changed: Changed) -> Conditions:
    """The conditions of a loop that changes these parts."""

    def invariant(entry: Locals, now: Locals) -> Iterable[Any]:
        the_others_stay(changed, entry, now)
        yield from loop(entry, now)

    return invariant


def cut(
    function: Callable[..., Any],
    *turns: tuple[Conditions, Changed],
    measures: tuple[Callable[[Locals], Any], ...] = (),
) -> Loop:
    """The loops of this function, in order; of each, its conditions and what it changes."""
    each = tuple(
        Loop(function, "loops", turn(conditions, changed), renewed=renewing(changed), in_order=True)
        for conditions, changed in turns
    )
    return replace(each[0], measures=measures, each=each)
