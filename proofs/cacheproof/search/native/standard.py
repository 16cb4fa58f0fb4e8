"""Functions of the standard library, as far as the specification uses them."""

from __future__ import annotations

import ast
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import partial
from types import GenericAlias, MappingProxyType
from typing import Any, cast

from cacheproof.search.native.classes import ClassQuestions
from cacheproof.search.native.types import (
    BOTTOM,
    INT,
    UNIT,
    Holder,
    Pairs,
    Record,
    Tup,
    Type,
    is_form,
    join,
    of_hint,
    seq,
)
from cacheproof.search.native.unit import member_name
from cacheproof.search.native.values import (
    Val,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    sequence,
)
from cachespec.kernel import FrozenMap, FrozenQueue

Methods = Callable[..., Val]


class Standard(ClassQuestions):
    """Functions of `functools`, `itertools`, `dataclasses` and `collections`."""

    def own_function(self, node: ast.AST, target: Any, positional: list[Val], named: dict[str, Val]) -> Val | None:
        """A function of the standard library that the compiler knows; None for any other."""
        if target is cast:
            return positional[1]
        if isinstance(target, GenericAlias) and target.__origin__ in (list, set) and not positional:
            kind = of_hint(target)
            assert isinstance(kind, Holder)
            return Val(
                f"{kind.form}<{self.unit.cpp(kind.element)}>" + ("::make()" if kind.form == "List" else "{}"), kind
            )
        if target is FrozenQueue or (target is FrozenMap and positional):
            return self.frozen(node, target, positional)
        if target is partial:
            return self.partial(positional, named)
        if target is MappingProxyType:
            return positional[0]
        if target is replace and is_const(positional[0]) and all(is_const(v) for v in named.values()):
            return const(replace(const_of(positional[0]), **{n: const_of(v) for n, v in named.items()}))
        if target is replace and isinstance(positional[0].type, Record) and is_dataclass(positional[0].type.owner):
            return self.replaced_fields(node, positional[0], named)
        if target is itertools.product and "repeat" in named:
            (found,) = self.several(node, positional)
            assert isinstance(found.type, Holder)
            count = coerce(self.unit, named["repeat"], INT)
            return Val(f"product({found.text}, {count})", seq(found.type))
        if target is getattr and len(positional) == 2:
            return self.attribute(node, positional[0], const_of(positional[1]))
        if all(is_const(value) for value in [*positional, *named.values()]) and _is_plain(target):
            return const(target(*map(const_of, positional), **{n: const_of(v) for n, v in named.items()}))
        handle = (
            {
                itertools.product: self.product,
                itertools.pairwise: self.pairwise,
                itertools.combinations: self.combinations,
                itertools.chain: self.chain,
                Counter: self.counter,
                math.lcm: self.lcm,
                dict.fromkeys: self.from_keys,
            }.get(target)
            if _is_hashable(target)
            else None
        )
        if handle is not None:
            return handle(node, positional)
        if (isinstance(target, type) and target.__module__ == "builtins") or target in (
            len,
            min,
            max,
            sum,
            any,
            all,
            sorted,
        ):
            return self.builtin_of_values(node, target.__name__, positional)
        return None

    def builtin_of_values(self, node: ast.AST, name: str, positional: list[Val]) -> Val:
        """A builtin that is handed on as a value, such as `map(len, rows)`."""
        handle: Methods = getattr(self, f"b_{name}")
        call = ast.Call(ast.Name(name, ast.Load()), [], [])
        names = []
        for value in positional:
            own = f"<argument {len(self.scope.names)}>"
            self.scope.names[own] = value
            names.append(own)
            call.args.append(ast.Name(own, ast.Load()))
        found = handle(ast.fix_missing_locations(ast.copy_location(call, node)))
        for own in names:
            del self.scope.names[own]
        return found

    def partial(self, positional: list[Val], named: dict[str, Val]) -> Val:
        """`functools.partial`."""
        if all(is_const(value) for value in [*positional, *named.values()]):
            function, *rest = map(const_of, positional)
            return const(partial(function, *rest, **{n: const_of(v) for n, v in named.items()}))
        if named:
            raise self.compiler.cannot("a partial function with names")
        return self.bound(positional[0], positional[1:])

    def frozen(self, node: ast.AST, target: type, positional: list[Val]) -> Val:
        """A queue or a map of given pairs."""
        (found,) = self.several(node, positional)
        assert isinstance(found.type, Holder)
        pair = found.type.element
        first, second = self.pair(node, pair)
        each = [f"[&](const {self.unit.cpp(pair)}& x) {{ return x.{name}; }}" for name, _ in (first, second)]
        if target is FrozenQueue:
            kind: Type = Holder("Queue", first[1])
            return Val(f"queue_of<{self.unit.cpp(first[1])}>({found.text}, {each[0]}, {each[1]})", kind)
        kind = Pairs("Map", first[1], second[1])
        return Val(
            f"map_of<{self.unit.cpp(first[1])}, {self.unit.cpp(second[1])}>({found.text}, {each[0]}, {each[1]})", kind
        )

    def replaced_fields(self, node: ast.AST, owner: Val, named: dict[str, Val]) -> Val:
        """`dataclasses.replace`."""
        kind = owner.type
        assert isinstance(kind, Record)
        name = self.fresh("r")
        lines = [
            f"{name}.{member_name(field)} = {coerce(self.unit, value, kind.field(field) or BOTTOM)};"
            for field, value in named.items()
        ]
        return Val(f"({{ {self.unit.cpp(kind)} {name} = {owner.text}; {' '.join(lines)} {name}; }})", kind)

    def several(self, node: ast.AST, values: list[Val]) -> list[Val]:
        """Arguments that can be iterated over, as sequences."""
        found = [
            sequence(self.unit, plain(self.unit, value if not is_const(value) else const(tuple(const_of(value)))))
            for value in values
        ]
        if any(each is None for each in found):
            raise self.error(node, "this cannot be iterated over")
        return [each for each in found if each is not None]

    def product(self, node: ast.AST, values: list[Val]) -> Val:
        found = self.several(node, values)
        kinds = [each.type.element for each in found if isinstance(each.type, Holder)]
        pair = Tup(tuple(kinds))
        name = self.fresh("b")
        loops = "".join(f"for (const auto& p{n}_ : {each.text}) " for n, each in enumerate(found))
        inside = ", ".join(f"p{n}_" for n in range(len(found)))
        cpp = self.unit.cpp(pair)
        return Val(f"({{ Builder<{cpp}> {name}; {loops} {name}.add({cpp}{{{inside}}}); {name}.seq(); }})", seq(pair))

    def pairwise(self, node: ast.AST, values: list[Val]) -> Val:
        (found,) = self.several(node, values)
        assert isinstance(found.type, Holder)
        pair = Tup((found.type.element, found.type.element))
        return Val(f"pairwise<{self.unit.cpp(pair)}>({found.text})", seq(pair))

    def combinations(self, node: ast.AST, values: list[Val]) -> Val:
        (found,) = self.several(node, values[:1])
        assert isinstance(found.type, Holder)
        return Val(f"combinations({found.text}, {coerce(self.unit, values[1], INT)})", seq(found.type))

    def chain(self, node: ast.AST, values: list[Val]) -> Val:
        found = self.several(node, values)
        kind: Type = seq(BOTTOM)
        for each in found:
            kind = join(kind, each.type)
        text = coerce(self.unit, found[0], kind)
        for each in found[1:]:
            text = f"joined({text}, {coerce(self.unit, each, kind)})"
        return Val(text, kind)

    def counter(self, node: ast.AST, values: list[Val]) -> Val:
        if is_form(values[0].type, "Dict"):
            return Val(f"{values[0].text}.counting()", values[0].type)
        (found,) = self.several(node, values)
        assert isinstance(found.type, Holder)
        return Val(f"counted({found.text})", Pairs("Dict", found.type.element, INT))

    def lcm(self, node: ast.AST, values: list[Val]) -> Val:
        raise self.error(node, "a least common multiple of values at run time")

    def from_keys(self, node: ast.AST, values: list[Val]) -> Val:
        (found,) = self.several(node, values[:1])
        assert isinstance(found.type, Holder)
        value = plain(self.unit, values[1]) if len(values) > 1 else Val("Unit{}", UNIT)
        return Val(f"from_keys({found.text}, {value.text})", Pairs("Dict", found.type.element, value.type))


_PLAIN = (
    range,
    len,
    min,
    max,
    sum,
    sorted,
    tuple,
    set,
    frozenset,
    dict,
    any,
    all,
    reversed,
    zip,
    enumerate,
    abs,
    bool,
    int,
)


def _is_plain(target: Any) -> bool:
    return _is_hashable(target) and (target in _PLAIN or target is dict.fromkeys)


def _is_hashable(target: Any) -> bool:
    try:
        hash(target)
    except TypeError:
        return False
    return True
