"""Values in compiled code: a C++ expression and its type, and how a value of one type becomes one of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, NamedTuple

from cacheproof.search.native.types import (
    ANY_OPERATION,
    BOOL,
    BOTTOM,
    INT,
    TAG,
    TEXT,
    UNIT,
    Const,
    EnumType,
    Holder,
    NoJoinError,
    Pairs,
    Record,
    Tup,
    Type,
    field_names,
    is_form,
    is_operation,
    join,
    record_of,
    seq,
)
from cacheproof.search.native.unit import CompileError, Unit, literal_of_enum, member_name, several
from cachespec.kernel import FrozenMap, FrozenQueue, Operation


class Val(NamedTuple):
    """A C++ expression and its type. Of a `Const` the expression is empty."""

    text: str
    type: Type


class Fields(dict[str, Val]):
    """A dictionary of which the keys are known when the code is compiled, and the values are not."""


class FieldItem(NamedTuple):
    """A name and a value of `Fields`."""

    name: Val
    value: Val


class Parts(tuple[Val, ...]):
    """A tuple that is taken apart at once: there is none when the code runs."""

    __slots__ = ()


class FieldItems(list[tuple[str, Val]]):
    """The names and values of `Fields`."""


def const(value: Any) -> Val:
    """A value that is known when the code is compiled."""
    return Val("", Const(value))


def is_const(val: Val) -> bool:
    """Whether the value is known when the code is compiled."""
    return isinstance(val.type, Const)


def const_of(val: Val) -> Any:
    """The Python object of a `Const`."""
    assert isinstance(val.type, Const)
    return val.type.value


def can_lift(value: Any) -> bool:
    """Whether a Python object can be written as a value of C++."""
    if value is None or isinstance(value, (bool, int, Enum)):
        return True
    if isinstance(value, (FrozenMap, FrozenQueue)):
        return not value
    if isinstance(value, (tuple, frozenset)):
        return all(map(can_lift, value))
    return isinstance(value, Operation)


def lift(unit: Unit, value: Any) -> Val:
    """A Python object as a value of C++. Raises CompileError where there is none."""
    if value is None:
        return Val("Unit{}", UNIT)
    if isinstance(value, bool):
        return Val("true" if value else "false", BOOL)
    if isinstance(value, int):
        return Val(f"Int({value})", INT)
    if isinstance(value, str):
        return Val(f"Text{{{unit.text_of(value)}}}", TEXT)
    if isinstance(value, Enum):
        return Val(f"Int({literal_of_enum(value)})", EnumType(type(value)))
    if isinstance(value, FrozenMap) and not value:
        kind = Pairs("Map", BOTTOM, BOTTOM)
        return Val(f"{unit.cpp(kind)}{{}}", kind)
    if isinstance(value, FrozenQueue) and not value:
        return Val("Queue<Bottom>{}", Holder("Queue", BOTTOM))
    if isinstance(value, Operation) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return lifted_record(unit, value)
    if isinstance(value, frozenset):
        return set_of(unit, [lift(unit, item) for item in value])
    if isinstance(value, tuple):
        return tuple_of(unit, [lift(unit, item) for item in value])
    if isinstance(value, type) and issubclass(value, Operation):
        return Val(f"Int({unit.tag_of(value)})", TAG)
    if isinstance(value, Mapping) and value:
        return lifted_dictionary(unit, value)
    raise CompileError(f"{str(value)[:80]!r} is no value at run time")


def lifted_dictionary(unit: Unit, value: Mapping[Any, Any]) -> Val:
    """A dictionary of plain values."""
    keys, items = ([lift(unit, each) for each in several] for several in (value, value.values()))
    key: Type = BOTTOM
    item: Type = BOTTOM
    for each, other in zip(keys, items, strict=True):
        key, item = join(key, each.type), join(item, other.type)
    kind = Pairs("Dict", key, item)
    puts = " ".join(
        f"d.put({coerce(unit, k, key)}, {coerce(unit, v, item)});" for k, v in zip(keys, items, strict=True)
    )
    return Val(f"({{ {unit.cpp(kind)} d = {unit.cpp(kind)}::make(); {puts} d; }})", kind)


def lifted_record(unit: Unit, value: Any) -> Val:
    """A named tuple or an operation."""
    items = {name: getattr(value, name) for name in field_names(type(value))}
    if isinstance(value, Operation):
        unit.tag_of(type(value))
    if all(map(can_lift, items.values())):
        return record(unit, record_of(type(value)), {name: lift(unit, item) for name, item in items.items()})
    parts = {name: lift(unit, item) if can_lift(item) else const(item) for name, item in items.items()}
    kind = Record(type(value), tuple((name, part.type) for name, part in parts.items()))
    return record(unit, kind, parts)


def record(unit: Unit, kind: Record, parts: Mapping[str, Val]) -> Val:
    """A record of these parts."""
    inside = several(coerce(unit, parts[name], own) for name, own in kind.fields if not isinstance(own, Const))
    return Val(f"{unit.cpp(kind)}{{{inside}}}", kind)


def tuple_of(unit: Unit, parts: list[Val]) -> Val:
    """A tuple of these parts."""
    kind = Tup(tuple(part.type for part in parts))
    inside = several(part.text for part in parts if not is_const(part))
    return Val(f"{unit.cpp(kind)}{{{inside}}}", kind)


def set_of(unit: Unit, parts: list[Val]) -> Val:
    """A set of these parts."""
    element: Type = BOTTOM
    for part in parts:
        element = join(element, part.type)
    kind = Holder("Set", element)
    if not parts:
        return Val("Set<Bottom>{}", kind)
    inside = several(coerce(unit, part, element) for part in parts)
    return Val(f"set_of<{unit.cpp(element)}>({{{inside}}})", kind)


def common(unit: Unit, first: Val, second: Val) -> tuple[Val, Val, Type]:
    """Both values in the least type that holds both."""
    first, second = plain(unit, first), plain(unit, second)
    kind = join(first.type, second.type)
    return Val(coerce(unit, first, kind), kind), Val(coerce(unit, second, kind), kind), kind


def plain(unit: Unit, val: Val) -> Val:
    """The value at run time."""
    return lift(unit, const_of(val)) if is_const(val) else val


def there(unit: Unit, val: Val) -> Val:
    """The value at run time; of an optional what it holds."""
    val = plain(unit, val)
    if isinstance(val.type, Holder) and val.type.form == "Opt":
        return Val(f"{val.text}.get()", val.type.element)
    return val


def coerce(unit: Unit, val: Val, to: Type) -> str:
    """The expression as one of another type. Raises CompileError where that is not possible."""
    if isinstance(to, Const):
        return ""
    if val.type == to:
        return val.text
    if is_const(val):
        return coerce(unit, plain(unit, val), to)
    kind, text = val.type, val.text
    found = _scalar(unit, kind, text, to) or _container(unit, kind, text, to) or _record(unit, kind, text, to)
    if found is None:
        raise CompileError(f"{kind} is not {to}")
    return found


def _scalar(unit: Unit, kind: Type, text: str, to: Type) -> str | None:
    if kind == BOTTOM:
        return f"bottom<{unit.cpp(to)}>()"
    if kind == BOOL and to == INT:
        return f"Int({text})"
    if kind == INT and to == BOOL:
        return f"({text} != 0)"
    if isinstance(to, Holder) and to.form == "Opt":
        if kind == UNIT:
            return f"{unit.cpp(to)}{{}}"
        if isinstance(kind, Holder) and kind.form == "Opt":
            o = unit.local()
            inner = coerce(unit, Val(f"{o}.value", kind.element), to.element)
            return f"({{ auto {o} = {text}; {o}.has ? {unit.cpp(to)}{{true, {inner}}} : {unit.cpp(to)}{{}}; }})"
        return f"{unit.cpp(to)}{{true, {coerce(unit, Val(text, kind), to.element)}}}"
    if isinstance(kind, Holder) and kind.form == "Opt":
        return coerce(unit, Val(f"{text}.get()", kind.element), to)
    return None


def _container(unit: Unit, kind: Type, text: str, to: Type) -> str | None:
    if isinstance(to, Holder) and to.form == "Seq":
        return _as_sequence(unit, kind, text, to)
    if isinstance(kind, Holder) and isinstance(to, Holder) and kind.form == to.form:
        if kind.element == BOTTOM:
            return f"{unit.cpp(to)}::make()" if to.form == "List" else f"{unit.cpp(to)}{{}}"
        inner = coerce(unit, Val("x", kind.element), to.element)
        each = f"[&](const {unit.cpp(kind.element)}& x) {{ return {inner}; }}"
        return f"convert_{to.form.lower()}<{unit.cpp(to.element)}>({text}, {each})"
    if isinstance(kind, Pairs) and isinstance(to, Pairs) and kind.form == to.form:
        if kind.key == BOTTOM:
            return f"{unit.cpp(to)}::make()" if to.form == "Dict" else f"{unit.cpp(to)}{{}}"
        key, value = coerce(unit, Val("x", kind.key), to.key), coerce(unit, Val("x", kind.value), to.value)
        return (
            f"convert_{to.form.lower()}<{unit.cpp(to.key)}, {unit.cpp(to.value)}>({text}, "
            f"[&](const {unit.cpp(kind.key)}& x) {{ return {key}; }}, "
            f"[&](const {unit.cpp(kind.value)}& x) {{ return {value}; }})"
        )
    return None


def _as_sequence(unit: Unit, kind: Type, text: str, to: Holder) -> str | None:
    element = unit.cpp(to.element)
    if isinstance(kind, Record) and not is_operation(kind):
        names, t = _names(kind), unit.local()
        inside = several(
            coerce(unit, Val(f"{t}.{member}", part), to.element)
            for member, part in zip(names, _kinds(kind), strict=True)
        )
        return f"({{ auto {t} = {text}; seq_of<{element}>({{{inside}}}); }})"
    if isinstance(kind, Tup):
        if not kind.parts:
            return f"Seq<{element}>{{}}"
        t = unit.local()
        inside = several(coerce(unit, Val(f"{t}.f{place}", part), to.element) for place, part in enumerate(kind.parts))
        return f"({{ auto {t} = {text}; seq_of<{element}>({{{inside}}}); }})"
    source = sequence(unit, Val(text, kind))
    if source is None:
        return None
    assert isinstance(source.type, Holder)
    if source.type.element == to.element:
        return source.text
    if source.type.element == BOTTOM:
        return f"Seq<{element}>{{}}"
    inner = coerce(unit, Val("x", source.type.element), to.element)
    each = f"[&](const {unit.cpp(source.type.element)}& x) {{ return {inner}; }}"
    return f"convert_seq<{element}>({source.text}, {each})"


def _names(kind: Record) -> list[str]:
    return [member_name(name) for name, _ in kind.fields]


def _kinds(kind: Record) -> list[Type]:
    return [own for _, own in kind.fields]


def sequence(unit: Unit, val: Val) -> Val | None:
    """What iterating over a value gives, as a sequence; None where it cannot be iterated over."""
    val = there(unit, val)
    kind, text = val.type, val.text
    if isinstance(kind, Holder):
        if kind.form == "Seq":
            return val
        if kind.form in ("List", "Set"):
            return Val(f"{text}.seq()", seq(kind.element))
        if kind.form == "Queue":
            pair = Tup((kind.element, INT))
            return Val(f"items_of<{unit.cpp(pair)}>({text})", seq(pair))
    if isinstance(kind, Pairs):
        if kind.form == "Dict":
            return Val(f"{text}.keys()", seq(kind.key))
        return Val(f"items_of<{unit.cpp(Tup((kind.key, kind.value)))}>({text})", seq(Tup((kind.key, kind.value))))
    if isinstance(kind, Tup) or (isinstance(kind, Record) and not is_operation(kind)):
        parts = kind.parts if isinstance(kind, Tup) else tuple(own for _, own in kind.fields)
        element: Type = BOTTOM
        for part in parts:
            element = join(element, part)
        return Val(coerce(unit, val, seq(element)), seq(element))
    return None


def _record(unit: Unit, kind: Type, text: str, to: Type) -> str | None:
    if to == ANY_OPERATION and isinstance(kind, Record) and is_operation(kind):
        tag = unit.tag_of(kind.owner)
        return f"op_of_{tag}({text})"
    if kind == ANY_OPERATION and isinstance(to, Record) and is_operation(to):
        return f"op_as_{unit.tag_of(to.owner)}({text})"
    if isinstance(kind, Tup) and isinstance(to, Tup) and len(kind.parts) == len(to.parts):
        t = unit.local()
        inside = several(
            coerce(unit, Val(f"{t}.f{place}", own), other)
            for place, (own, other) in enumerate(zip(kind.parts, to.parts, strict=True))
            if not isinstance(other, Const)
        )
        return f"({{ auto {t} = {text}; {unit.cpp(to)}{{{inside}}}; }})"
    if isinstance(kind, Record) and isinstance(to, (Record, Tup)):
        others = to.parts if isinstance(to, Tup) else tuple(other for _, other in to.fields)
        same = isinstance(to, Tup) or to.owner is kind.owner or not is_dataclass(to.owner)
        if same and len(others) == len(kind.fields):
            t = unit.local()
            inside = several(
                coerce(unit, Val(f"{t}.{member_name(name)}", own), other)
                for (name, own), other in zip(kind.fields, others, strict=True)
            )
            return f"({{ auto {t} = {text}; {unit.cpp(to)}{{{inside}}}; }})"
    return None


def truth(unit: Unit, val: Val) -> Val:
    """Whether a value counts as true: a `Const` where that is known."""
    if is_const(val):
        return const(bool(const_of(val)))
    kind, text = val.type, val.text
    if kind == BOOL:
        return val
    if kind == INT:
        return Val(f"({text} != 0)", BOOL)
    if kind == TEXT:
        return Val(f"({text}.id != 0)", BOOL)
    if kind == UNIT:
        return const(False)
    if isinstance(kind, Tup):
        return const(bool(kind.parts))
    if isinstance(kind, Holder) and kind.form == "Opt":
        o = unit.local()
        inner = truth(unit, Val(f"{o}.value", kind.element))
        if is_const(inner):
            return Val(f"{text}.has" if const_of(inner) else "false", BOOL)
        return Val(f"({{ auto {o} = {text}; {o}.has && {inner.text}; }})", BOOL)
    if isinstance(kind, (Holder, Pairs)):
        return Val(f"({text}.size() != 0)", BOOL)
    return const(True)


def equal(unit: Unit, first: Val, second: Val) -> Val:
    """Whether two values are equal."""
    if is_const(first) and is_const(second):
        return const(const_of(first) == const_of(second))
    for one, other in ((first, second), (second, first)):
        empty = is_const(one) and const_of(one) == () and isinstance(const_of(one), tuple)
        if (empty or one.type == Tup(())) and is_form(other.type, "Seq", "Map", "Queue"):
            return Val(f"({other.text}.size() == 0)", BOOL)
    try:
        one, two, kind = common(unit, first, second)
    except NoJoinError:
        return const(False)
    if kind in (INT, BOOL) or isinstance(kind, EnumType):
        return Val(f"({one.text} == {two.text})", BOOL)
    return Val(f"eq({one.text}, {two.text})", BOOL)
