"""Tuples, lists, sets, dictionaries and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from cacheproof.search.native.calls import Calls
from cacheproof.search.native.function import Scope
from cacheproof.search.native.types import (
    BOTTOM,
    Holder,
    Pairs,
    Tup,
    Type,
    has_value,
    join,
    seq,
)
from cacheproof.search.native.unit import CompileError
from cacheproof.search.native.values import (
    FieldItem,
    FieldItems,
    Fields,
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    sequence,
    set_of,
    tuple_of,
)


class Collections(Calls):
    """What has several parts."""

    def gathered(self, nodes: list[ast.expr]) -> Val:
        """A tuple of expressions; with a starred one of another length than its parts, a sequence."""
        values = [(isinstance(node, ast.Starred), self.expression(self.unstarred(node))) for node in nodes]
        if all(is_const(value) for _, value in values):
            items: list[Any] = []
            for starred, value in values:
                items.extend(const_of(value) if starred else [const_of(value)])
            return const(tuple(items))
        parts: list[Val] = []
        fixed = True
        for starred, value in values:
            if not starred:
                parts.append(value if is_const(value) and not can_lift(const_of(value)) else plain(self.unit, value))
            elif is_const(value):
                parts += [const(item) for item in const_of(value)]
            elif isinstance(value.type, Tup) and not value.type.parts:
                continue
            else:
                fixed = False
        if fixed:
            return tuple_of(self.unit, parts)
        element: Type = BOTTOM
        for starred, value in values:
            inner = self.element(plain(self.unit, value)) if starred else plain(self.unit, value).type
            element = join(element, inner)
        made, lines = self.fresh("b"), []
        for starred, value in values:
            lines.append(
                f"{made}.add_all({coerce(self.unit, value, seq(element))});"
                if starred
                else f"{made}.add({coerce(self.unit, value, element)});"
            )
        kind = seq(element)
        return Val(f"({{ Builder<{self.unit.cpp(element)}> {made}; {' '.join(lines)} {made}.seq(); }})", kind)

    def element(self, val: Val) -> Type:
        """The type of what a sequence or a tuple holds."""
        if isinstance(val.type, Tup):
            kind: Type = BOTTOM
            for part in val.type.parts:
                kind = join(kind, part)
            return kind
        found = sequence(self.unit, val)
        if found is None or not isinstance(found.type, Holder):
            raise CompileError(f"{val.type} has no elements")
        return found.type.element

    def unstarred(self, node: ast.expr) -> ast.expr:
        """What stands behind a star."""
        return node.value if isinstance(node, ast.Starred) else node

    def e_tuple(self, node: ast.Tuple) -> Val:
        return self.gathered(node.elts)

    def e_list(self, node: ast.List) -> Val:
        found = plain(self.unit, self.gathered(node.elts))
        element = self.element(found)
        kind = Holder("List", element)
        text = coerce(self.unit, found, seq(element))
        return Val(f"List<{self.unit.cpp(element)}>::of({text})", kind)

    def e_set(self, node: ast.Set) -> Val:
        if not any(isinstance(each, ast.Starred) for each in node.elts):
            return set_of(self.unit, [plain(self.unit, self.expression(each)) for each in node.elts])
        found = plain(self.unit, self.gathered(node.elts))
        return self.as_set(found)

    def as_set(self, found: Val) -> Val:
        """A set of what can be iterated over."""
        element = self.element(found)
        text = coerce(self.unit, found, seq(element))
        return Val(f"Set<{self.unit.cpp(element)}>::of({text})", Holder("Set", element))

    def e_dict(self, node: ast.Dict) -> Val:
        if not node.keys:
            return Val("Dict<Bottom, Bottom>::make()", Pairs("Dict", BOTTOM, BOTTOM))
        known = [self.expression(each) for each in [*node.keys, *node.values] if each is not None]
        if None not in node.keys and all(is_const(value) for value in known):
            half = len(known) // 2
            return const({const_of(k): const_of(v) for k, v in zip(known[:half], known[half:], strict=True)})
        if all(each is not None for each in node.keys):
            names = known[: len(node.keys)]
            if all(is_const(name) and isinstance(const_of(name), str) for name in names):
                return const(Fields({const_of(n): v for n, v in zip(names, known[len(names) :], strict=True)}))
        made, lines = self.fresh("d"), []
        key: Type = BOTTOM
        value: Type = BOTTOM
        entries: list[tuple[Val | None, Val]] = []
        for each, inner in zip(node.keys, node.values, strict=True):
            second = plain(self.unit, self.expression(inner))
            if each is None:
                assert isinstance(second.type, Pairs)
                key, value = join(key, second.type.key), join(value, second.type.value)
                entries.append((None, second))
            else:
                first = plain(self.unit, self.expression(each))
                key, value = join(key, first.type), join(value, second.type)
                entries.append((first, second))
        kind = Pairs("Dict", key, value)
        for first_or_none, second in entries:
            if first_or_none is None:
                lines.append(f"{made}.put_all({coerce(self.unit, second, kind)});")
            else:
                lines.append(
                    f"{made}.put({coerce(self.unit, first_or_none, key)}, {coerce(self.unit, second, value)});"
                )
        cpp = self.unit.cpp(kind)
        return Val(f"({{ {cpp} {made} = {cpp}::make(); {' '.join(lines)} {made}; }})", kind)

    def comprehension(self, node: Any, form: str) -> Val:
        """A list, set or generator comprehension, as a value of this form."""
        name = self.fresh("b")
        key = f"<{name}>"

        def add() -> None:
            value = plain(self.unit, self.expression(node.elt))
            kind = self.widen(key, value.type, node)
            self.out.append(f"{name}.add({coerce(self.unit, value, kind)});")

        with self.nested() as lines:
            self.clauses(node.generators, add)
        element = self.types.get(key, BOTTOM)
        self.widen(key, element, node)
        made = f"{name}.seq()"
        if form == "Set":
            made = f"Set<{self.unit.cpp(element)}>::of({made})"
        elif form == "List":
            made = f"List<{self.unit.cpp(element)}>::of({made})"
        text = f"({{ Builder<{self.unit.cpp(element)}> {name}; {' '.join(lines)} {made}; }})"
        return Val(text, Holder(form, element))

    def clauses(self, generators: list[ast.comprehension], innermost: Callable[[], None]) -> None:
        """The loops and conditions of a comprehension, around what stands innermost."""
        if not generators:
            innermost()
            return
        first, rest = generators[0], generators[1:]
        before = self.scope

        def body(element: Val) -> None:
            self.bind(first.target, element)
            tests = 0
            for test in first.ifs:
                found = self.condition(test)
                if is_const(found):
                    if not const_of(found):
                        self.out.append("}" * tests)
                        return
                    continue
                self.out.append(f"if ({found.text}) {{")
                tests += 1
            self.clauses(rest, innermost)
            self.out.append("}" * tests)

        self.scope = Scope(before)
        try:
            self.loop(first.iter, body, first.target)
        finally:
            self.scope = before

    def bind(self, target: ast.expr, value: Val) -> None:
        """Names that are bound once, as those of a comprehension: they are constants of C++."""
        if isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Name):
            if target.id == "_":
                return
            if is_const(value):
                self.scope.names[target.id] = value
                return
            name = self.fresh(f"c_{target.id}")
            self.scope.names[target.id] = Val(name, value.type)
            if has_value(value.type):
                self.out.append(f"const {self.unit.cpp(value.type)}& {name} = {value.text};")
        elif isinstance(target, ast.Tuple):
            for part, inner in zip(target.elts, self.taken_apart(target, value), strict=True):
                self.bind(part, inner)
        else:
            raise self.error(target, "this cannot be bound")

    def e_generatorexp(self, node: ast.GeneratorExp) -> Val:
        return self.comprehension(node, "Seq")

    def e_listcomp(self, node: ast.ListComp) -> Val:
        return self.comprehension(node, "List")

    def e_setcomp(self, node: ast.SetComp) -> Val:
        return self.comprehension(node, "Set")

    def e_dictcomp(self, node: ast.DictComp) -> Val:
        name = self.fresh("d")
        known = self.of_fields(node)
        if known is not None:
            return known

        def add() -> None:
            key, value = plain(self.unit, self.expression(node.key)), plain(self.unit, self.expression(node.value))
            first = self.widen(f"<{name}.key>", key.type, node)
            second = self.widen(f"<{name}.value>", value.type, node)
            self.out.append(f"{name}.put({coerce(self.unit, key, first)}, {coerce(self.unit, value, second)});")

        with self.nested() as lines:
            self.clauses(node.generators, add)
        kind = Pairs("Dict", self.types.get(f"<{name}.key>", BOTTOM), self.types.get(f"<{name}.value>", BOTTOM))
        cpp = self.unit.cpp(kind)
        return Val(f"({{ {cpp} {name} = {cpp}::make(); {' '.join(lines)} {name}; }})", kind)

    def of_fields(self, node: ast.DictComp) -> Val | None:
        """A dictionary by the names of fields, which are known when the code is compiled; None if it is another."""
        (clause, *rest) = node.generators
        with self.nested():
            source = self.expression(clause.iter)
        if rest or not is_const(source):
            return None
        value = const_of(source)
        items = list(value) if isinstance(value, (tuple, list, Mapping)) else []
        if not items or not (all(isinstance(item, str) for item in items) or isinstance(value, FieldItems)):
            return None
        made = Fields()
        before = self.scope
        for item in self.expression_items(source):
            self.scope = Scope(before)
            self.bind(clause.target, item)
            tests = [self.condition(test) for test in clause.ifs]
            if all(const_of(test) for test in tests):
                made[const_of(self.expression(node.key))] = self.expression(node.value)
        self.scope = before
        return const(made)

    def expression_items(self, source: Val) -> list[Val]:
        """The elements of what is known when the code is compiled."""
        value = const_of(source)
        if isinstance(value, FieldItems):
            return [const(FieldItem(const(name), item)) for name, item in value]
        return [const(item) for item in value]
