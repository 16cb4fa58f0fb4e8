"""Statements: what each becomes in C++, and whether control can come behind it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from cacheproof.search.native.flow import Flow, Place, Way
from cacheproof.search.native.source import names_in
from cacheproof.search.native.types import (
    BOOL,
    BOTTOM,
    INT,
    Holder,
    Pairs,
    Type,
    is_form,
    of_hint,
    record_of,
    seq,
)
from cacheproof.search.native.values import (
    Val,
    coerce,
    const,
    const_of,
    is_const,
    plain,
)


class Statements(Flow):
    """Statements, each by its kind."""

    def s_expr(self, node: ast.Expr) -> bool:
        if isinstance(node.value, ast.Constant):
            return True
        if isinstance(node.value, ast.Yield):
            value = self.expression(node.value.value or ast.Constant(None))
            kind = self.widen("<yield>", plain(self.unit, value).type, node)
            element = self.element_of_result(kind)
            self.out.append(f"made.add({coerce(self.unit, value, element)});")
            return True
        if isinstance(node.value, ast.YieldFrom):
            self.loop(node.value.value, self.add_each(node))
            return True
        value = self.expression(node.value)
        if not is_const(value):
            self.out.append(f"{value.text};")
        return True

    def add_each(self, node: ast.AST) -> Callable[[Val], None]:
        """Adds each element to what a generator gives."""

        def add(element: Val) -> None:
            kind = self.widen("<yield>", plain(self.unit, element).type, node)
            self.out.append(f"made.add({coerce(self.unit, element, self.element_of_result(kind))});")

        return add

    def element_of_result(self, kind: Type) -> Type:
        """The type of what is yielded: as the function is annotated, if it is."""
        if isinstance(self.hint, Holder) and self.hint.form == "Seq":
            self.types["<yield>"] = self.hint.element
            return self.hint.element
        return kind

    def s_return(self, node: ast.Return) -> bool:
        if self.generates:
            made = Val("made.seq()", seq(self.types.get("<yield>", BOTTOM)))
            self.out.append(f"return {coerce(self.unit, made, self.result())};")
            return False
        self.give_back(self.expression(node.value) if node.value is not None else const(None))
        return False

    def s_pass(self, node: ast.Pass) -> bool:
        return True

    def s_assert(self, node: ast.Assert) -> bool:
        return True

    def s_assign(self, node: ast.Assign) -> bool:
        for target in node.targets:
            self.assign(target, self.expression(node.value))
        return True

    def s_annassign(self, node: ast.AnnAssign) -> bool:
        if node.value is None:
            return True
        value = self.expression(node.value)
        kind = of_hint(self.compiler.hint(node.annotation, self.source))
        if kind is not None and not is_const(value) and self.compiler.agree(value.type, kind):
            value = Val(coerce(self.unit, value, kind), kind)
        self.assign(node.target, value)
        return True

    def s_augassign(self, node: ast.AugAssign) -> bool:
        load = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        self.assign(node.target, self.expression(ast.fix_missing_locations(value)))
        return True

    def assign_entry(self, target: ast.Subscript, value: Val) -> None:
        """`d[k] = v` and `l[i] = v`."""
        owner = self.expression(target.value)
        key = self.expression(target.slice)
        if is_form(owner.type, "Dict"):
            self.grow(target.value, plain(self.unit, key).type, plain(self.unit, value).type)
            owner = self.expression(target.value)
            kind: Any = owner.type
            self.out.append(
                f"{owner.text}.put({coerce(self.unit, key, kind.key)}, {coerce(self.unit, value, kind.value)});"
            )
        elif is_form(owner.type, "List"):
            kind = owner.type
            self.out.append(
                f"{owner.text}.at({coerce(self.unit, key, INT)}) = {coerce(self.unit, value, kind.element)};"
            )
        else:
            raise self.error(target, "only dictionaries and lists are changed in place")

    def grow(self, owner: ast.expr, *kinds: Type) -> None:
        """A variable that is changed in place holds elements of these types, too."""
        if not isinstance(owner, ast.Name) or owner.id not in self.own:
            return
        name = self.own[owner.id]
        now = self.types[name]
        if isinstance(now, Holder):
            kind = self.widen(name, Holder(now.form, kinds[0]), owner)
        else:
            assert isinstance(now, Pairs)
            kind = self.widen(name, Pairs(now.form, kinds[0], kinds[1]), owner)
        self.scope.names[owner.id] = Val(name, kind)

    def s_functiondef(self, node: ast.FunctionDef) -> bool:
        self.scope.names[node.name] = self.closure(node)
        return True

    def s_if(self, node: ast.If) -> bool:
        test = self.condition(node.test)
        if is_const(test):
            return self.block(node.body if const_of(test) else node.orelse)
        ways = [self.way(partial(self.block, node.body)), self.way(partial(self.block, node.orelse))]
        passes = self.meet(ways)
        then, otherwise = (way.lines for way in ways)
        self.out += [f"if ({test.text}) {{", *then, *(["} else {", *otherwise] if otherwise else []), "}"]
        return passes

    def s_while(self, node: ast.While) -> bool:
        with self.nested() as lines:
            test = self.condition(node.test)
        self.out.append("while (true) {")
        if self.unit.has_forms or self.unit.bounded:
            self.out.append("turn();")
        known = "true" if is_const(test) and const_of(test) else "false"
        self.out += [*lines, f"if (!({known if is_const(test) else test.text})) break;"]
        self.breaks.append(Place(None, []))
        self.continues.append(Place(None, []))
        self.turn(partial(self.block, node.body), node)
        self.left([*self.breaks.pop().names, *self.continues.pop().names])
        self.out.append("}")
        return True

    def s_for(self, node: ast.For) -> bool:
        def body(element: Val) -> None:
            if self.unrolled_now:
                statements(element)
            else:
                self.turn(partial(statements, element), node)

        def statements(element: Val) -> None:
            place = Place(self.fresh("next") if self.unrolled_now else None, [])
            self.continues.append(place)
            if place.label is None and self.only_inside(node):
                self.bind(node.target, element)
            else:
                self.assign(node.target, element)
            self.block(node.body)
            self.continues.pop()
            self.left(place.names)
            if place.label is not None:
                self.out.append(f"{place.label}:;")

        stop = Place(self.fresh("stop"), [])
        self.breaks.append(stop)
        self.loop(node.iter, body, node.target)
        self.breaks.pop()
        self.left(stop.names)
        if stop.names:
            self.out.append(f"{stop.label}:;")
        return True

    def only_inside(self, node: ast.For) -> bool:
        """Whether the names of a loop are assigned nowhere else and read nowhere behind it: then they need not last."""
        own = {each.id for each in names_in(node.target)}
        inside = {id(each) for statement in [node.target, *node.body] for each in names_in(statement)}
        named = [each for each in names_in(self.source.node) if each.id in own]
        stored = sum(isinstance(each.ctx, ast.Store) for each in named)
        return stored == len(own) and all(id(each) in inside for each in named)

    unrolled_now = False

    def s_continue(self, node: ast.Continue) -> bool:
        place = self.continues[-1]
        place.names.append(dict(self.scope.names))
        self.out.append("continue;" if place.label is None else f"goto {place.label};")
        return False

    def s_break(self, node: ast.Break) -> bool:
        place = self.breaks[-1]
        place.names.append(dict(self.scope.names))
        self.out.append("break;" if place.label is None else f"goto {place.label};")
        return False

    def s_delete(self, node: ast.Delete) -> bool:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                raise self.error(node, "only entries of dictionaries are deleted")
            owner = self.expression(target.value)
            kind: Any = owner.type
            self.out.append(f"{owner.text}.drop({coerce(self.unit, self.expression(target.slice), kind.key)});")
        return True

    def s_match(self, node: ast.Match) -> bool:
        subject = self.expression(node.subject)
        name = self.fresh("m")
        self.out.append(f"const {self.unit.cpp(subject.type)} {name} = {subject.text};")
        subject = Val(name, subject.type)
        tests: list[Val] = []
        ways: list[Way] = []
        for case in node.cases:
            test, binds = self.pattern(case.pattern, subject)
            if is_const(test) and not const_of(test):
                continue
            tests.append(test)
            ways.append(self.way(partial(self.case, case, binds)))
            if is_const(test):
                break
        else:
            ways.append(self.way(lambda: True))
        passes = self.meet(ways)
        for test, way in zip(tests, ways, strict=False):
            self.out += ["{", *way.lines, "}"] if is_const(test) else [f"if ({test.text}) {{", *way.lines, "} else {"]
        self.out += ways[-1].lines if len(ways) > len(tests) else []
        self.out.append("}" * sum(not is_const(test) for test in tests))
        return passes

    def case(self, case: ast.match_case, binds: list[tuple[str, Val]]) -> bool:
        """The statements for one pattern."""
        for bound, value in binds:
            self.assign_name(ast.copy_location(ast.Name(bound, ast.Store()), case.pattern), value)
        return self.block(case.body)

    def pattern(self, node: ast.pattern, subject: Val) -> tuple[Val, list[tuple[str, Val]]]:
        """Whether a pattern fits, and what it binds."""
        if isinstance(node, ast.MatchAs):
            binds = [(node.name, subject)] if node.name and node.name != "_" else []
            if node.pattern is None:
                return const(True), binds
            test, more = self.pattern(node.pattern, subject)
            return test, [*binds, *more]
        if isinstance(node, ast.MatchClass) and not node.kwd_patterns:
            owner = self.expression(node.cls)
            test = self.is_instance(node.cls, subject, owner)
            if not node.patterns:
                return test, []
            cls = const_of(owner)
            inner = Val(coerce(self.unit, subject, record_of(cls)), record_of(cls))
            inside: list[tuple[str, Val]] = []
            for part, value in zip(node.patterns, self.members(inner), strict=False):
                fits, more = self.pattern(part, value)
                if not (is_const(fits) and const_of(fits)):
                    raise self.error(node, "a pattern inside a pattern")
                inside += more
            return test, inside
        if isinstance(node, ast.MatchOr):
            found = [self.pattern(each, subject) for each in node.patterns]
            either: list[tuple[str, Val]] = []
            for place, (name, value) in enumerate(found[0][1]):
                text = value.text
                for test, others in reversed(found[1:]):
                    text = f"({test.text} ? {others[place][1].text} : {text})"
                either.append((name, Val(text, value.type)))
            return Val(f"({' || '.join(test.text for test, _ in found)})", BOOL), either
        raise self.error(node, "a pattern that is not known")
