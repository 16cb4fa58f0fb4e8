"""Records: made, and changed in some fields."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import is_dataclass
from typing import Any

from cacheproof.search.native.containers import Containers
from cacheproof.search.native.types import (
    Const,
    Record,
    Type,
    field_names,
    of_hint,
)
from cacheproof.search.native.unit import CompileError, Making, member_name
from cacheproof.search.native.values import (
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    record,
)
from cachespec.kernel import Operation
from cachespec.kernel.names import hints_of


class Records(Containers):
    """Named tuples, dataclasses and operations."""

    def constructed(self, node: ast.AST, owner: type, positional: list[Val], named: dict[str, Val]) -> Val:
        """A record, or an operation."""
        if not (hasattr(owner, "_fields") or is_dataclass(owner)):
            raise self.error(node, f"{owner.__name__} cannot be made")
        self.unit.makings.add(Making(owner, self.source.module, self.source.qualname))
        names = field_names(owner)
        values = dict(zip(names, positional, strict=False)) | named
        for name in names:
            if name not in values:
                values[name] = const(_default(owner, name))
        if issubclass(owner, Operation):
            self.unit.tag_of(owner)
        hints = hints_of(owner)
        if all(is_const(value) for value in values.values()):
            made = owner(**{name: const_of(values[name]) for name in names})
            if not can_lift(made):
                return const(made)
        fields: list[tuple[str, Type]] = []
        parts: dict[str, Val] = {}
        for name in names:
            kind = of_hint(hints[name])
            value = values[name]
            if kind is None or not self.compiler.agree(value.type, kind):
                keep = is_const(value) and not can_lift(const_of(value))
                value = value if keep else plain(self.unit, value)
                kind = value.type
            parts[name] = value
            fields.append((name, kind))
        try:
            return record(self.unit, Record(owner, tuple(fields)), parts)
        except CompileError as error:
            raise self.error(node, str(error)) from None

    def replaced_parts(self, node: ast.AST, owner: Val, parts: dict[str, Val]) -> Val:
        """A record with other values in some fields."""
        kind = owner.type
        assert isinstance(kind, Record)
        self.unit.makings.add(Making(kind.owner, self.source.module, self.source.qualname))
        name = self.fresh("r")
        lines = []
        if any(isinstance(kind.field(field), Const) for field in parts):
            everything = {n: self.part(f"{name}.{member_name(n)}", own) for n, own in kind.fields} | parts
            wider = Record(kind.owner, tuple((n, value.type) for n, value in everything.items()))
            made = record(self.unit, wider, everything)
            return Val(f"({{ const auto {name} = {owner.text}; {made.text}; }})", wider)
        for field, value in parts.items():
            own = kind.field(field)
            if own is None:
                raise self.error(node, f"{kind.owner.__name__} has no {field}")
            lines.append(f"{name}.{member_name(field)} = {coerce(self.unit, value, own)};")
        return Val(f"({{ {self.unit.cpp(kind)} {name} = {owner.text}; {' '.join(lines)} {name}; }})", kind)


def _default(owner: type, name: str) -> Any:
    """The default of a field. Raises CompileError where it has none."""
    defaults = getattr(owner, "_field_defaults", None)
    if defaults is None:
        field = {each.name: each for each in dataclasses.fields(owner)}[name]
        if field.default is dataclasses.MISSING:
            if field.default_factory is dataclasses.MISSING:
                raise CompileError(f"{owner.__name__} needs {name}")
            return field.default_factory()
        return field.default
    if name not in defaults:
        raise CompileError(f"{owner.__name__} needs {name}")
    return defaults[name]
