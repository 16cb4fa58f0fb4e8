"""Expressions: from the syntax of Python to C++, with the types that follow from those of the parts."""

from __future__ import annotations

import ast
from enum import Enum
from functools import partial

from cacheproof.search.native.operators import Operators
from cacheproof.search.native.types import (
    ANY_OPERATION,
    INT,
    TAG,
    TEXT,
    Closure,
    Holder,
    NoJoinError,
    Pairs,
    Record,
    Tup,
    has_value,
    is_form,
    is_operation,
)
from cacheproof.search.native.unit import CompileError, member_name
from cacheproof.search.native.values import (
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    sequence,
    there,
    tuple_of,
)


class Expressions(Operators):
    """Expressions, each by its kind."""

    def expression(self, node: ast.expr) -> Val:
        handle = getattr(self, f"e_{type(node).__name__.lower()}", None)
        if handle is None:
            raise self.error(node, "an expression that is not known")
        try:
            found: Val = handle(node)
        except NoJoinError as error:
            raise self.error(node, f"no common type: {error}") from None
        except CompileError as error:
            if "/" in str(error).split(":")[0]:
                raise
            raise self.error(node, str(error)) from None
        return found

    def e_constant(self, node: ast.Constant) -> Val:
        return const(node.value)

    def e_joinedstr(self, node: ast.JoinedStr) -> Val:
        return Val("Text{-1}", TEXT)

    def e_name(self, node: ast.Name) -> Val:
        return self.named(node)

    def e_namedexpr(self, node: ast.NamedExpr) -> Val:
        with self.nested() as lines:
            self.assign_name(node.target, self.expression(node.value))
        found = self.named(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
        return Val(f"({{ {' '.join(lines)} {found.text}; }})", found.type)

    def e_lambda(self, node: ast.Lambda) -> Val:
        return self.closure(node)

    def e_attribute(self, node: ast.Attribute) -> Val:
        return self.attribute(node, self.expression(node.value), node.attr)

    def attribute(self, node: ast.AST, owner: Val, name: str) -> Val:
        """A field, a property, or a method as a function of one argument less."""
        if is_const(owner):
            value = const_of(owner)
            if isinstance(value, Enum) and name == "value":
                return const(value.value)
            try:
                return const(getattr(value, name))
            except AttributeError:
                raise self.error(node, f"{value!r} has no {name}") from None
        owner = there(self.unit, owner)
        kind = owner.type
        if isinstance(kind, Record):
            own = kind.field(name)
            if own is not None:
                return self.part(f"{owner.text}.{member_name(name)}", own)
            return self.of_class(node, owner, kind.owner, name)
        if kind == ANY_OPERATION:
            if self.unit.has_operation_field(name):
                return Val(f"op_get_{name}({owner.text})", self.unit.operation_field(name))
            return self.each_class(node, owner, name, lambda cls, _: const(getattr(cls, name)))
        if name in ("length", "total") and is_form(kind, "Map", "Queue"):
            return Val(f"{owner.text}.{'size' if name == 'length' else 'total'}()", INT)
        raise self.error(node, f"{kind} has no {name}")

    def of_class(self, node: ast.AST, owner: Val, cls: type, name: str) -> Val:
        """A property, a method or a constant of a record's class."""
        try:
            found = getattr(cls, name)
        except AttributeError:
            raise self.error(node, f"{cls.__name__} has no {name}") from None
        if isinstance(found, property):
            return self.called(node, const(found.fget), [owner], {})
        if callable(found) and not isinstance(found, type):
            return self.bound(const(found), [owner])
        return const(found)

    def e_subscript(self, node: ast.Subscript) -> Val:
        owner = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            return self.sliced(node, owner, node.slice)
        index = self.expression(node.slice)
        if is_const(owner) and is_const(index):
            return const(const_of(owner)[const_of(index)])
        if is_const(owner) and index.type == TAG:
            raise self.error(node, "a table of functions, looked up by the class of an operation")
        owner = there(self.unit, owner)
        kind = owner.type
        if is_form(kind, "Dict"):
            assert isinstance(kind, Pairs)
            return Val(f"{owner.text}.at({coerce(self.unit, index, kind.key)})", kind.value)
        if is_const(index):
            place = const_of(index)
            if isinstance(kind, Tup):
                place = place if place >= 0 else place + len(kind.parts)
                return self.part(f"{owner.text}.f{place}", kind.parts[place])
            if isinstance(kind, Record) and not is_operation(kind):
                name, own = kind.fields[place]
                return self.part(f"{owner.text}.{member_name(name)}", own)
        found = sequence(self.unit, owner)
        if found is None or not isinstance(found.type, Holder):
            raise self.error(node, f"{kind} has no positions")
        return Val(f"{found.text}.at({coerce(self.unit, there(self.unit, index), INT)})", found.type.element)

    def sliced(self, node: ast.Subscript, owner: Val, part: ast.Slice) -> Val:
        """A part of a tuple."""
        bounds = [None if each is None else self.expression(each) for each in (part.lower, part.upper, part.step)]
        if is_const(owner) and all(each is None or is_const(each) for each in bounds):
            return const(const_of(owner)[slice(*(None if each is None else const_of(each) for each in bounds))])
        owner = there(self.unit, owner)
        if isinstance(owner.type, (Tup, Record)) and all(each is None or is_const(each) for each in bounds):
            name = self.fresh("t")
            parts = self.members(Val(name, owner.type))
            made = tuple_of(self.unit, parts[slice(*(None if each is None else const_of(each) for each in bounds))])
            return Val(f"({{ const auto {name} = {owner.text}; {made.text}; }})", made.type)
        found = sequence(self.unit, owner)
        if found is None:
            raise self.error(node, f"{owner.type} has no parts")
        low, high, step = (None if each is None else coerce(self.unit, there(self.unit, each), INT) for each in bounds)
        text = f"{found.text}.slice({low or 'Int(0)'}, {high or 'END'})"
        if step is not None:
            text = f"stepped({found.text}, {step})" if low is None and high is None else f"stepped({text}, {step})"
        made = Val(text, found.type)
        if is_form(owner.type, "List"):
            assert isinstance(found.type, Holder)
            return Val(f"List<{self.unit.cpp(found.type.element)}>::of({text})", owner.type)
        return made

    def bound(self, function: Val, arguments: list[Val]) -> Val:
        """A function with its first arguments given."""
        values = [
            value if is_const(value) and not can_lift(const_of(value)) else plain(self.unit, value)
            for value in arguments
        ]
        if all(is_const(value) for value in values) and is_const(function):
            return const(partial(const_of(function), *(const_of(value) for value in values)))
        names = ("function", *(f"a{place}" for place in range(len(values))))
        kind = Closure(partial, names, (function.type, *(value.type for value in values)))
        inside = ", ".join(each.text for each in [function, *values] if has_value(each.type))
        return Val(f"{self.unit.cpp(kind)}{{{inside}}}", kind)
