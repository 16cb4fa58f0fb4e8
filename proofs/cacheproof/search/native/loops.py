"""Loops over what an expression gives, without making a sequence of it where that is not needed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from cacheproof.search.native.function import Scope
from cacheproof.search.native.statements import Statements
from cacheproof.search.native.types import BOTTOM, INT, Holder, Tup, Type, has_value
from cacheproof.search.native.values import (
    Parts,
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

Each = Callable[[Val], None]


class Loops(Statements):
    """Loops."""

    def loop(self, node: ast.expr, body: Each, target: ast.expr | None = None) -> None:
        name = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self.is_own(node.func.id):
            name = node.func.id
        if name == "range" and isinstance(node, ast.Call):
            self.loop_range(node, body)
        elif name == "enumerate" and isinstance(node, ast.Call):
            self.loop_enumerate(node, body, target)
        elif name == "zip" and isinstance(node, ast.Call):
            self.loop_zip(node, body, target)
        elif isinstance(node, ast.GeneratorExp):
            self.loop_generator(node, body)
        else:
            self.loop_value(self.expression(node), node, body)

    def is_own(self, name: str) -> bool:
        """Whether a name means a function of Python's own."""
        return self.scope.find(name) is None and name not in self.source.globals

    def loop_generator(self, node: ast.GeneratorExp, body: Each) -> None:
        """The values of a generator, one by one."""
        before = self.scope
        self.clauses(node.generators, lambda: self.inside(before, self.expression(node.elt), body))

    def inside(self, scope: Scope, value: Val, body: Each) -> None:
        """The body sees the names around the generator, not those of the generator."""
        value = value if is_const(value) and not can_lift(const_of(value)) else plain(self.unit, value)
        if has_value(value.type):
            name = self.fresh("e")
            self.out.append(f"const {self.unit.cpp(value.type)}& {name} = {value.text};")
            value = Val(name, value.type)
        own, self.scope = self.scope, scope
        body(value)
        self.scope = own

    def loop_range(self, node: ast.Call, body: Each) -> None:
        """`range` with one, two or three bounds."""
        bounds = [coerce(self.unit, there(self.unit, self.expression(each)), INT) for each in node.args]
        low, high = ("Int(0)", bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else "Int(1)"
        name, end, by = self.fresh("i"), self.fresh("end"), self.fresh("by")
        self.out.append(f"const Int {end} = {high}; const Int {by} = {step};")
        test = f"({by} > 0 ? {name} < {end} : {name} > {end})" if len(bounds) == 3 else f"{name} < {end}"
        self.out.append(f"for (Int {name} = {low}; {test}; {name} += {by}) {{")
        if self.unit.bounded:
            self.out.append("turn();")
        body(Val(name, INT))
        self.out.append("}")

    def loop_enumerate(self, node: ast.Call, body: Each, target: ast.expr | None) -> None:
        """Elements with their places."""
        begins = [*node.args[1:], *(each.value for each in node.keywords)]
        first = self.expression(begins[0]) if begins else const(0)
        with self.nested():
            items = self.expression(node.args[0])
        if is_const(items) and not can_lift(const_of(items)):
            for place, item in enumerate(const_of(items), const_of(first)):
                self.each_of_const(Val("", const((place, item)).type), body)
            return
        name = self.fresh("n")
        self.out.append(f"Int {name} = {coerce(self.unit, first, INT)};")

        def element(value: Val) -> None:
            own = self.fresh("n")
            self.out.append(f"const Int {own} = {name}++;")
            body(self.together([Val(own, INT), value], target))

        parts = _parts_of(target, 2)
        self.loop(node.args[0], element, parts[1] if parts else None)

    def together(self, values: list[Val], target: ast.expr | None) -> Val:
        """A tuple of values; where the target takes it apart there is none when the code runs."""
        if _parts_of(target, len(values)):
            return const(Parts(values))
        return tuple_of(self.unit, [plain(self.unit, value) for value in values])

    def loop_zip(self, node: ast.Call, body: Each, target: ast.expr | None) -> None:
        """Several sequences at once, as far as the shortest goes; then, if `strict`, they must all be at their end."""
        if isinstance(node.args[0], ast.Starred):
            rows = sequence(self.unit, self.expression(node.args[0].value))
            assert rows is not None
            self.loop_value(Val(f"transposed({rows.text})", rows.type), node, body)
            return
        names: list[tuple[str, Type]] = []
        for each in node.args:
            found = sequence(self.unit, self.expression(each))
            if found is None or not isinstance(found.type, Holder):
                raise self.error(each, "this cannot be iterated over")
            name = self.fresh("z")
            self.out.append(f"const {self.unit.cpp(found.type)} {name} = {found.text};")
            names.append((name, found.type.element))
        place, end = self.fresh("i"), self.fresh("end")
        ends = ", ".join(f"{name}.size()" for name, _ in names)
        self.out.append(f"const Int {end} = least({{{ends}}});")
        self.out.append(f"Int {place} = 0;")
        if not any(kind == BOTTOM for _, kind in names):
            self.out.append(f"for (; {place} < {end}; ++{place}) {{")
            body(self.together([Val(f"{name}.p[{place}]", kind) for name, kind in names], target))
            self.out.append("}")
        if _is_strict(node):
            # Python looks at the lengths only when the shortest has no more: a loop that is left before does not fail.
            longer = " || ".join(f"{name}.size() != {end}" for name, _ in names)
            self.out.append(f"if ({place} == {end} && ({longer})) uneven();")

    def loop_value(self, value: Val, node: ast.AST, body: Each) -> None:
        """Whatever can be iterated over."""
        if is_const(value) and not can_lift(const_of(value)):
            items: Iterable[object] = const_of(value)
            for item in items:
                self.each_of_const(const(item), body)
            return
        value = plain(self.unit, value)
        if isinstance(value.type, Tup) and any(not has_value(part) for part in value.type.parts):
            for part in self.taken_apart_all(node, value):
                self.each_of_const(part, body)
            return
        found = sequence(self.unit, value)
        if found is None or not isinstance(found.type, Holder):
            raise self.error(node, f"{value.type} cannot be iterated over")
        if found.type.element == BOTTOM:
            return
        name = self.fresh("s")
        place = self.fresh("i")
        self.out.append(f"const {self.unit.cpp(found.type)} {name} = {found.text};")
        self.out.append(f"for (Int {place} = 0; {place} < {name}.n; ++{place}) {{")
        element = self.fresh("e")
        self.out.append(f"const {self.unit.cpp(found.type.element)}& {element} = {name}.p[{place}];")
        body(Val(element, found.type.element))
        self.out.append("}")

    def taken_apart_all(self, node: ast.AST, value: Val) -> list[Val]:
        """All parts of a tuple."""
        name = self.fresh("t")
        self.out.append(f"const {self.unit.cpp(value.type)} {name} = {value.text};")
        return self.parts(ast.Constant(None), Val(name, value.type), 0)

    def each_of_const(self, item: Val, body: Each) -> None:
        """One turn of a loop over what is known when the code is compiled: the body stands there once for each."""
        self.unrolled += 1
        before = self.unrolled_now, self.conditional
        self.unrolled_now, self.conditional = True, 0
        self.out.append("{")
        body(item)
        self.out.append("}")
        self.unrolled_now, self.conditional = before
        self.unrolled -= 1


def _is_strict(node: ast.Call) -> bool:
    """Whether a call of `zip` refuses sequences of different lengths."""
    given = [each.value for each in node.keywords if each.arg == "strict"]
    return any(isinstance(value, ast.Constant) and value.value is True for value in given)


def _parts_of(target: ast.expr | None, count: int) -> list[ast.expr]:
    """The targets of a tuple with `count` elements, or none."""
    if not isinstance(target, ast.Tuple) or len(target.elts) != count:
        return []
    return [] if any(isinstance(each, ast.Starred) for each in target.elts) else target.elts
