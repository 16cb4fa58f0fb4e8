"""Questions about classes and attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from cacheproof.search.native.builtins_ import Builtins
from cacheproof.search.native.types import (
    ANY_OPERATION,
    BOOL,
    INT,
    TAG,
    UNIT,
    EnumType,
    Holder,
    Record,
    Tup,
    is_form,
    join,
)
from cacheproof.search.native.values import (
    Val,
    coerce,
    const,
    const_of,
    is_const,
    plain,
)
from cachespec.kernel import Operation

Methods = Callable[..., Val]


class ClassQuestions(Builtins):
    """`isinstance`, `type` and `getattr`."""

    def b_isinstance(self, node: ast.Call) -> Val:
        value, classes = (self.expression(each) for each in node.args)
        return self.is_instance(node, value, classes)

    def is_instance(self, node: ast.AST, value: Val, classes: Val) -> Val:
        target = const_of(classes)
        several: tuple[Any, ...] = target if isinstance(target, tuple) else getattr(target, "__args__", (target,))
        if is_const(value):
            return const(isinstance(const_of(value), several))
        kind = value.type
        if isinstance(kind, Holder) and kind.form == "Opt":
            inner = self.is_instance(node, Val(f"{value.text}.get()", kind.element), classes)
            if is_const(inner):
                return Val(f"{value.text}.has", BOOL) if const_of(inner) else const(False)
            return Val(f"({value.text}.has && {inner.text})", BOOL)
        if kind == ANY_OPERATION:
            for owner in several:
                if isinstance(owner, type) and issubclass(owner, Operation):
                    self.compiler.ask_class(owner)
            tests = [f"op_is_{self.compiler.class_name(owner)}({value.text})" for owner in several]
            return Val(f"({' || '.join(tests)})", BOOL)
        if isinstance(kind, Record):
            return const(any(isinstance(owner, type) and issubclass(kind.owner, owner) for owner in several))
        if kind in (INT, BOOL):
            return const(int in several or (kind == BOOL and bool in several))
        if kind == UNIT:
            return const(type(None) in several)
        if isinstance(kind, (Tup,)) or is_form(kind, "Seq"):
            return const(tuple in several)
        if isinstance(kind, EnumType):
            return const(any(issubclass(kind.owner, owner) for owner in several))
        raise self.error(node, f"the class of {kind}")

    def b_type(self, node: ast.Call) -> Val:
        value = self.expression(node.args[0])
        if is_const(value):
            return const(type(const_of(value)))
        if value.type == ANY_OPERATION:
            return Val(f"Int({value.text}.tag)", TAG)
        if isinstance(value.type, Record):
            return const(value.type.owner)
        raise self.error(node, f"the class of {value.type}")

    def b_getattr(self, node: ast.Call) -> Val:
        owner, name = self.expression(node.args[0]), const_of(self.expression(node.args[1]))
        if len(node.args) > 2:
            default = self.expression(node.args[2])
            if owner.type == ANY_OPERATION:
                kind = join(self.unit.operation_field(name), plain(self.unit, default).type)
                own = Val(f"op_get_{name}({owner.text})", self.unit.accessors[name])
                one, other = coerce(self.unit, own, kind), coerce(self.unit, default, kind)
                return Val(f"(op_has_{name}({owner.text}) ? {one} : {other})", kind)
            if (
                isinstance(owner.type, Record)
                and owner.type.field(name) is None
                and not hasattr(owner.type.owner, name)
            ):
                return default
        return self.attribute(node, owner, name)

    def b_hasattr(self, node: ast.Call) -> Val:
        owner, name = self.expression(node.args[0]), const_of(self.expression(node.args[1]))
        if is_const(owner):
            return const(hasattr(const_of(owner), name))
        if isinstance(owner.type, Record):
            return const(owner.type.field(name) is not None or hasattr(owner.type.owner, name))
        raise self.error(node, f"whether {owner.type} has {name}")

    def b_callable(self, node: ast.Call) -> Val:
        value = self.expression(node.args[0])
        return const(callable(const_of(value)) if is_const(value) else type(value.type).__name__ == "Closure")
