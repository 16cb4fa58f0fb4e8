"""Where ways of control meet: behind them a name has one meaning, or none that can be read.

A function, and whatever else is known when the code is compiled, has no variable at run time. If it depends on the way
which one a name means, the code behind cannot be written once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cacheproof.search.native.function import Body, Scope
from cacheproof.search.native.services import Services
from cacheproof.search.native.source import Source
from cacheproof.search.native.types import Type
from cacheproof.search.native.unit import Instance
from cacheproof.search.native.values import Val, can_lift, const, const_of, is_const

Names = dict[str, Val]


class Way(NamedTuple):
    """What one way of control emits, whether control comes to its end, and what names mean there."""

    lines: list[str]
    passes: bool
    names: Names


class Place(NamedTuple):
    """Where control goes at `break` or `continue`: a label, if C++ needs one, and what names mean at each of these."""

    label: str | None
    names: list[Names]


class Undecided(NamedTuple):
    """What a name means where that depends on the way."""

    name: str


class Flow(Body):
    """Ways of control."""

    def __init__(self, compiler: Services, source: Source, instance: Instance, scope: Scope, hint: Type | None) -> None:
        super().__init__(compiler, source, instance, scope, hint)
        self.continues: list[Place] = []
        self.breaks: list[Place] = []

    def way(self, emit: Callable[[], bool]) -> Way:
        """Emit statements by themselves; names mean afterwards what they meant before."""
        before = self.scope.names
        self.scope.names = dict(before)
        self.conditional += 1
        with self.nested() as lines:
            passes = emit()
        self.conditional -= 1
        made, self.scope.names = Way(lines, passes, self.scope.names), before
        return made

    def meet(self, ways: list[Way]) -> bool:
        """Names mean what they mean at the ends of all ways that come to one. Whether there is such a way."""
        passing = [way for way in ways if way.passes]
        names: Names = {}
        for way in [*(way for way in ways if not way.passes), *passing]:
            names |= way.names
        for name in names:
            meanings = [self.meaning(way.names, name) for way in passing]
            known = [meaning for meaning in meanings if meaning is not None]
            if all(_is_same(meaning, names[name]) for meaning in known):
                continue
            if all(can_be_stored(meaning) for meaning in known):
                for way, meaning in zip(passing, meanings, strict=True):
                    if meaning is not None:
                        names[name] = self.stored(way.lines, name, meaning)
            else:
                names[name] = const(Undecided(name))
        self.scope.names = names
        return bool(passing)

    def meaning(self, names: Names, name: str) -> Val | None:
        """The meaning of a name at this point: a variable, or a parameter."""
        return names.get(name) or self.outer.find(name)

    def stored(self, lines: list[str], name: str, value: Val) -> Val:
        """Add to the lines that the variable of this name has the value."""
        with self.nested() as more:
            self.assign_variable(ast.copy_location(ast.Name(name, ast.Store()), self.source.node), value)
        lines += more
        return self.scope.names[name]

    def turn(self, emit: Callable[[], object], node: ast.AST) -> None:
        """Emit what a loop does again and again: what a name meant before, it means at its end."""
        before = dict(self.scope.names)
        self.conditional += 1
        emit()
        self.conditional -= 1
        for name, value in self.scope.names.items():
            known = self.meaning(before, name)
            if known is not None and not _is_same(known, value):
                raise self.error(node, f"{name} means something else after the first turn")

    def may_have_left(self) -> bool:
        return any(place.names for place in (*self.continues[-1:], *self.breaks[-1:]))

    def left(self, places: Iterable[Names]) -> None:
        """Control comes here from other places too, where names may mean something else."""
        for there in places:
            for name, value in there.items():
                here = self.scope.names.get(name)
                if here is None:
                    self.scope.names[name] = value
                elif not _is_same(here, value):
                    self.scope.names[name] = const(Undecided(name))

    def named(self, node: ast.Name) -> Val:
        found = super().named(node)
        if is_const(found) and isinstance(const_of(found), Undecided):
            raise self.error(node, f"{node.id} depends on the way that the code takes, and no variable can hold it")
        return found


def can_be_stored(value: Val) -> bool:
    """Whether a variable can hold it."""
    return not is_const(value) or can_lift(const_of(value))


def _is_same(one: Val, other: Val) -> bool:
    """The type of a variable may have become wider."""
    if is_const(one) or is_const(other):
        return one.type == other.type
    return one.text == other.text
