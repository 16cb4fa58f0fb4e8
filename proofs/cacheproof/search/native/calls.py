"""Calls: of functions of the specification, of methods, and of functions that were made while running."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from cacheproof.search.native.records import Records
from cacheproof.search.native.source import Source, free_values, source_of, unwrapped
from cacheproof.search.native.types import (
    ANY_OPERATION,
    BOTTOM,
    INT,
    TAG,
    Closure,
    Holder,
    Pairs,
    Record,
    Tup,
    Type,
    has_value,
    is_operation,
    join,
    of_hint,
    record_of,
    seq,
)
from cacheproof.search.native.unit import CompileError, Entry, Making, member_name
from cacheproof.search.native.values import (
    FieldItems,
    Fields,
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    lift,
    plain,
    sequence,
    there,
    tuple_of,
)
from cachespec.kernel import Variant

CALL = "__call__"
"""The method of an object that is called like a function."""


class Calls(Records):
    """Calls, by what is called."""

    def e_call(self, node: ast.Call) -> Val:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name and self.scope.find(name) is None and name not in self.source.globals:
            handle = getattr(self, f"b_{name}", None)
            if handle is not None:
                found: Val = handle(node)
                return found
        if isinstance(node.func, ast.Attribute):
            owner = self.expression(node.func.value)
            if not is_const(owner):
                return self.method(node, owner, node.func.attr)
            if isinstance(const_of(owner), Variant) and node.func.attr == "step":
                return self.step(node, const_of(owner))
            if isinstance(const_of(owner), Fields) and node.func.attr == "items":
                return const(FieldItems(const_of(owner).items()))
            if isinstance(const_of(owner), Mapping):
                given = [self.expression(each) for each in node.args]
                if not all(is_const(each) for each in given):
                    return self.method(node, lift(self.unit, const_of(owner)), node.func.attr)
        function = self.expression(node.func)
        if is_const(function) and const_of(function) is math.lcm:
            numbers = sequence(self.unit, plain(self.unit, self.gathered(node.args)))
            assert numbers is not None
            return Val(f"least_common_multiple({numbers.text})", INT)
        return self.called(node, function, *self.arguments(node))

    def arguments(self, node: ast.Call) -> tuple[list[Val], dict[str, Val]]:
        """The arguments of a call, by position and by name."""
        positional: list[Val] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                value = self.expression(each.value)
                if is_const(value):
                    positional += [const(item) for item in const_of(value)]
                elif isinstance(value.type, (Tup, Record)):
                    positional += self.taken_apart(each.value, value)
                else:
                    raise self.error(node, "arguments of a number that is not known")
            else:
                positional.append(self.expression(each))
        named: dict[str, Val] = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif is_const(value) and isinstance(const_of(value), Fields):
                named |= const_of(value)
            elif is_const(value):
                named |= {name: const(item) for name, item in const_of(value).items()}
            else:
                raise self.error(node, "names of arguments that are not known")
        return positional, named

    def called(self, node: ast.AST, function: Val, positional: list[Val], named: dict[str, Val]) -> Val:
        """The result of a call."""
        if isinstance(function.type, Closure):
            return self.call_closure(node, function, positional, named)
        if not is_const(function):
            raise self.error(node, f"{function.type} cannot be called")
        target = const_of(function)
        own = self.own_function(node, target, positional, named)
        if own is not None:
            return own
        if isinstance(target, partial):
            bound = [const(value) for value in target.args]
            more = {name: const(value) for name, value in target.keywords.items()}
            return self.called(node, const(target.func), [*bound, *positional], {**more, **named})
        if isinstance(target, MethodType) and target.__func__.__name__ == "_replace":
            if all(is_const(value) for value in named.values()):
                self.unit.makings.add(Making(type(target.__self__), self.source.module, self.source.qualname))
                return const(target(**{name: const_of(value) for name, value in named.items()}))
            return self.replaced_parts(node, lift(self.unit, target.__self__), named)
        if isinstance(target, MethodType):
            return self.called(node, const(target.__func__), [const(target.__self__), *positional], named)
        if isinstance(target, type):
            return self.constructed(node, target, positional, named)
        inner, kept = unwrapped(target)
        if isinstance(inner, FunctionType):
            return self.call_function(node, inner, positional, named, kept=kept)
        own_call = getattr(type(target), CALL, None)
        if isinstance(own_call, FunctionType):
            return self.call_function(node, own_call, [function, *positional], named, kept=False)
        raise self.error(node, f"{target!r} cannot be called")

    def call_function(
        self, node: ast.AST, function: FunctionType, positional: list[Val], named: dict[str, Val], *, kept: bool
    ) -> Val:
        """A function of the specification."""
        source = source_of(function)
        frees = {name: const(value) for name, value in free_values(function).items()}
        defaults = {name: const(value) for name, value in (function.__kwdefaults__ or {}).items()}
        arguments = source.node.args
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
        given = function.__defaults__ or ()
        defaults |= {name: const(v) for name, v in zip(names[len(names) - len(given) :], given, strict=True)}
        hints = self.compiler.hints(function)
        return self.call_source(node, source, frees, None, positional, named, defaults, hints, function, kept=kept)

    def call_closure(self, node: ast.AST, function: Val, positional: list[Val], named: dict[str, Val]) -> Val:
        """A function that was made while running."""
        kind = function.type
        assert isinstance(kind, Closure)
        if kind.source is partial:
            name = self.fresh("f")
            parts = [self.part(f"{name}.c_{n}", k) for n, k in zip(kind.names, kind.kinds, strict=True)]
            inner = self.called(node, parts[0], [*parts[1:], *positional], named)
            return Val(f"({{ const auto {name} = {function.text}; {inner.text}; }})", inner.type)
        source: Source = kind.source
        frees = {n: self.part(f"self_.c_{n}", k) for n, k in zip(kind.names, kind.kinds, strict=True)}
        if isinstance(source.node, ast.FunctionDef):
            frees.setdefault(source.node.name, Val("self_", kind))
        arguments = source.node.args
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
        count = len(arguments.defaults)
        defaults: dict[str, Val] = {}
        for name_, default in zip(names[len(names) - count :], arguments.defaults, strict=True):
            defaults[name_] = self.expression(default)
        for only, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if given is not None:
                defaults[only.arg] = self.expression(given)
        hints = self.compiler.hints_of_syntax(source)
        return self.call_source(node, source, frees, function, positional, named, defaults, hints, kind, kept=False)

    def call_source(
        self,
        node: ast.AST,
        source: Source,
        frees: dict[str, Val],
        itself: Val | None,
        positional: list[Val],
        named: dict[str, Val],
        defaults: dict[str, Val],
        hints: dict[str, Any],
        key: object,
        *,
        kept: bool,
    ) -> Val:
        """A function by its syntax, for the types of these arguments."""
        arguments = source.node.args
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
        values = dict(zip(names, positional, strict=False))
        if arguments.vararg is not None:
            rest = positional[len(names) :]
            values[arguments.vararg.arg] = self.packed(rest)
        elif len(positional) > len(names):
            raise self.error(node, f"too many arguments for {source.qualname}")
        wanted = [*names, *(each.arg for each in arguments.kwonlyargs)]
        for name in wanted:
            if name not in values:
                found = named.get(name) or defaults.get(name)
                if found is None:
                    raise self.error(node, f"{source.qualname} needs {name}")
                values[name] = found
        given: dict[str, Val] = {name: self.as_hinted(node, value, hints.get(name)) for name, value in values.items()}
        instance = self.compiler.instance(source, frees, itself, given, hints.get("return"), key, kept=kept)
        texts = [value.text for value in given.values() if has_value(value.type)]
        if itself is not None and has_value(itself.type):
            texts.insert(0, itself.text)
        result = instance.result
        called = (source.module, source.qualname)
        self.unit.entries.add(Entry(self.source.module, self.source.qualname, called, result))
        if not has_value(result):
            return Val("", result)
        return Val(f"{instance.name}({', '.join(texts)})", result)

    def packed(self, values: list[Val]) -> Val:
        """Arguments behind a star."""
        if all(is_const(value) for value in values):
            return const(tuple(const_of(value) for value in values))
        return tuple_of(self.unit, [plain(self.unit, value) for value in values])

    def as_hinted(self, node: ast.AST, value: Val, hint: Any) -> Val:
        """An argument as the parameter's annotation says; as it is where that leaves the type open."""
        kind = of_hint(hint) if hint is not None else None
        if is_const(value) and (kind is None or not can_lift(const_of(value))):
            if kind is None and can_lift(const_of(value)) and const_of(value) is not None:
                return plain(self.unit, value) if not isinstance(const_of(value), (str, bool)) else value
            if not can_lift(const_of(value)):
                return self.lifted_config(value, kind)
            return value
        if kind is None or value.type == kind:
            return value
        if kind == ANY_OPERATION and is_operation(value.type):
            return value
        if is_operation(kind) and value.type == ANY_OPERATION and isinstance(kind, Record):
            return Val(coerce(self.unit, value, kind), kind)
        if not self.compiler.agree(value.type, kind):
            return value
        try:
            return Val(coerce(self.unit, value, kind), kind)
        except CompileError as error:
            raise self.error(node, str(error)) from None

    def lifted_config(self, value: Val, kind: Type | None) -> Val:
        """A record of plain values that is known when the code is compiled is lifted where a record is asked for."""
        if isinstance(kind, (Record, Holder, Pairs, Tup)):
            try:
                return Val(coerce(self.unit, value, kind), kind)
            except CompileError:
                return value
        return value

    def step(self, node: ast.Call, variant: Variant[Any, Any, Any]) -> Val:
        """`variant.step(config, state, operation)`: by the class of the operation."""
        config, state, operation = self.arguments(node)[0]
        operation = plain(self.unit, operation)
        if isinstance(operation.type, Record):
            function = variant.transitions.get(operation.type.owner)
            if function is None:
                return self.unsupported(state)
            return self.as_result(self.called(node, const(function), [config, state, operation], {}), state.type)
        name, result = self.compiler.dispatch(variant, plain(self.unit, config).type, state.type)
        return Val(f"{name}({plain(self.unit, config).text}, {state.text}, {operation.text})", result)

    def as_result(self, val: Val, state: Type) -> Val:
        """The state after it, and the outcome."""
        kind = self.compiler.result_of(state)
        return Val(coerce(self.unit, val, kind), kind)

    def unsupported(self, state: Val) -> Val:
        """What an operation gives that a variant lacks."""
        kind = self.compiler.result_of(state.type)
        outcome = self.compiler.unsupported()
        return Val(f"{self.unit.cpp(kind)}{{{state.text}, {outcome.text}}}", kind)

    def method(self, node: ast.Call, owner: Val, name: str) -> Val:
        """A method of a value."""
        owner = there(self.unit, owner)
        kind = owner.type
        if isinstance(kind, Record):
            if name == "_replace":
                return self.replaced_parts(node, owner, self.arguments(node)[1])
            if name == "_asdict":
                name = self.fresh("r")
                self.out.append(f"const {self.unit.cpp(kind)} {name} = {owner.text};")
                parts = {field: self.part(f"{name}.{member_name(field)}", own) for field, own in kind.fields}
                return const(Fields(parts))
            return self.of_record(node, owner, kind, name)
        if kind == INT and name == "to_bytes":
            width = coerce(self.unit, self.expression(node.args[0]), INT)
            return Val(f"little_endian({owner.text}, {width})", seq(INT))
        if kind == ANY_OPERATION:
            return self.of_operation(node, owner, name)
        if kind == TAG:
            return self.by_class(node, owner, name)
        form = kind.form if isinstance(kind, (Holder, Pairs)) else ""
        handle = getattr(self, f"m_{form.lower()}_{name}", None) or getattr(self, f"m_any_{name}", None)
        if handle is None or not form:
            raise self.error(node, f"{kind} has no method {name}")
        found: Val = handle(node, owner, kind, [self.expression(each) for each in node.args])
        return found

    def by_class(self, node: ast.Call, owner: Val, name: str) -> Val:
        """A method of a class of operations, of which the class is known at run time only."""
        lines, positional, named = self.named_arguments(node)
        each = self.each_class(
            node, owner, name, lambda cls, _: self.called(node, const(getattr(cls, name)), positional, named), tag=True
        )
        return Val(f"({{ {' '.join(lines)} {each.text}; }})", each.type)

    def of_operation(self, node: ast.Call, owner: Val, name: str) -> Val:
        """A method of an operation of any class."""
        lines, positional, named = self.named_arguments(node)
        each = self.each_class(
            node,
            owner,
            name,
            lambda cls, itself: self.called(node, const(getattr(cls, name)), [itself, *positional], named),
        )
        return Val(f"({{ {' '.join(lines)} {each.text}; }})", each.type)

    def named_arguments(self, node: ast.Call) -> tuple[list[str], list[Val], dict[str, Val]]:
        """The arguments, each with a name, because they are used several times."""
        positional, named = self.arguments(node)
        lines: list[str] = []

        def own(value: Val) -> Val:
            if is_const(value):
                return value
            name = self.fresh("g")
            lines.append(f"const {self.unit.cpp(value.type)}& {name} = {value.text};")
            return Val(name, value.type)

        return lines, [own(value) for value in positional], {name: own(value) for name, value in named.items()}

    def each_class(
        self, node: ast.AST, owner: Val, name: str, give: Callable[[type, Val], Val], *, tag: bool = False
    ) -> Val:
        """What `give` gives for the class that an operation has, among those that have the name."""
        name_ = self.fresh("tag")
        found: list[tuple[int, Val]] = []
        for cls, number in list(self.unit.operations.items()):
            if hasattr(cls, name):
                itself = owner if tag else Val(f"op_as_{number}({name_})", record_of(cls))
                found.append((number, plain(self.unit, give(cls, itself))))
        if not found:
            raise self.error(node, f"no operation has {name}")
        cpp, test = ("Int", name_) if tag else ("Op&", f"{name_}.tag")
        kind: Type = BOTTOM
        for _, each in found:
            kind = join(kind, each.type)
        texts = [(number, coerce(self.unit, each, kind)) for number, each in found]
        return Val(f"({{ const {cpp} {name_} = {owner.text}; {_by_number(test, _merged(texts))}; }})", kind)

    def of_record(self, node: ast.Call, owner: Val, kind: Record, name: str) -> Val:
        """A method that the record's class declares, or a function that a field holds."""
        own = kind.field(name)
        positional, named = self.arguments(node)
        if own is not None:
            return self.called(node, self.part(f"{owner.text}.{member_name(name)}", own), positional, named)
        found = kind.owner.__dict__.get(name, getattr(kind.owner, name, None))
        if isinstance(found, staticmethod):
            return self.called(node, const(found.__func__), positional, named)
        if not isinstance(found, FunctionType):
            raise self.error(node, f"{kind.owner.__name__} has no method {name}")
        return self.called(node, const(found), [owner, *positional], named)


def _merged(texts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Of neighbours with the same text only the last one, which has the largest number."""
    last = len(texts) - 1
    return [each for place, each in enumerate(texts) if place == last or each[1] != texts[place + 1][1]]


def _by_number(test: str, texts: list[tuple[int, str]]) -> str:
    """The text whose number is the least that is not below the test, by halving."""
    if len(texts) == 1:
        return texts[0][1]
    middle = len(texts) // 2
    low, high = _by_number(test, texts[:middle]), _by_number(test, texts[middle:])
    return f"({test} <= {texts[middle - 1][0]} ? {low} : {high})"
