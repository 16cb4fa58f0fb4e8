"""Operators and comparisons."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from cacheproof.search.native.collections_ import Collections
from cacheproof.search.native.types import (
    BOOL,
    BOTTOM,
    INT,
    TAG,
    UNIT,
    EnumType,
    Holder,
    NoJoinError,
    Pairs,
    Tup,
    Type,
    is_form,
    join,
    opt,
    seq,
)
from cacheproof.search.native.unit import CompileError
from cacheproof.search.native.values import (
    Val,
    can_lift,
    coerce,
    common,
    const,
    const_of,
    equal,
    is_const,
    plain,
    sequence,
    there,
    truth,
)

ARITHMETIC = {ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times"}
ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
SETS = {ast.BitOr: "united", ast.BitAnd: "shared", ast.Sub: "without", ast.BitXor: "either"}

CONSTANTS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
"""Operators on values that are known when the code is compiled."""


class Operators(Collections):
    """Operators, each by its kind."""

    def e_unaryop(self, node: ast.UnaryOp) -> Val:
        if isinstance(node.op, ast.Not):
            test = self.condition(node.operand)
            return const(not const_of(test)) if is_const(test) else Val(f"(!{test.text})", BOOL)
        value = self.expression(node.operand)
        if is_const(value):
            return const(-const_of(value) if isinstance(node.op, ast.USub) else const_of(value))
        if is_form(value.type, "Dict") and isinstance(node.op, ast.UAdd):
            return Val(f"positive({value.text})", value.type)
        sign = "-" if isinstance(node.op, ast.USub) else "+"
        return Val(f"({sign}{coerce(self.unit, there(self.unit, value), INT)})", INT)

    def e_boolop(self, node: ast.BoolOp) -> Val:
        ends = isinstance(node.op, ast.Or)
        tests: list[Val] = []
        for part in node.values:
            value = self.expression(part)
            test = truth(self.unit, value)
            if is_const(test):
                if bool(const_of(test)) == ends:
                    tests.append(value)
                    break
                if part is node.values[-1]:
                    tests.append(value)
                continue
            tests.append(value)
        if len(tests) == 1:
            return tests[0]
        if all(plain(self.unit, each).type == BOOL for each in tests):
            texts = [plain(self.unit, each).text for each in tests]
            return Val(f"({(' || ' if ends else ' && ').join(texts)})", BOOL)
        return self.chosen(tests, ends=ends)

    def chosen(self, values: list[Val], *, ends: bool) -> Val:
        """`a or b` and `a and b` where a value is asked for and not a truth."""
        first, rest = plain(self.unit, values[0]), values[1:]
        second = rest[0] if len(rest) == 1 else self.chosen(rest, ends=ends)
        inner = first.type
        if not ends and inner == BOOL:
            kind = opt(plain(self.unit, second).type)
            text = f"({first.text} ? {coerce(self.unit, second, kind)} : {self.unit.cpp(kind)}{{}})"
            return Val(text, kind)
        if ends and isinstance(inner, Holder) and inner.form == "Opt":
            kind = join(inner.element, plain(self.unit, second).type)
        else:
            kind = join(inner, plain(self.unit, second).type)
        name = self.fresh("o")
        own = Val(name, inner)
        test = truth(self.unit, own)
        one, other = coerce(self.unit, own, kind), coerce(self.unit, second, kind)
        one, other = (one, other) if ends else (other, one)
        text = f"({{ const {self.unit.cpp(inner)} {name} = {first.text}; {test.text} ? {one} : {other}; }})"
        return Val(text, kind)

    def condition(self, node: ast.expr) -> Val:
        if isinstance(node, ast.BoolOp):
            ends = isinstance(node.op, ast.Or)
            texts = []
            for part in node.values:
                test = self.condition(part)
                if not is_const(test):
                    texts.append(test.text)
                elif bool(const_of(test)) == ends:
                    texts.append(str(ends).lower())
                    break
            if not texts:
                return const(not ends)
            if texts == [str(ends).lower()]:
                return const(ends)
            return Val(f"({(' || ' if ends else ' && ').join(texts)})", BOOL)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.turned(self.condition(node.operand), negative=True)
        return super().condition(node)

    def e_ifexp(self, node: ast.IfExp) -> Val:
        test = self.condition(node.test)
        if is_const(test):
            return self.expression(node.body if const_of(test) else node.orelse)
        first, second = self.expression(node.body), self.expression(node.orelse)
        if is_const(first) and is_const(second) and first.type == second.type:
            return first
        one, two, kind = common(self.unit, first, second)
        return Val(f"({test.text} ? {one.text} : {two.text})", kind)

    def e_binop(self, node: ast.BinOp) -> Val:
        first, second = self.expression(node.left), self.expression(node.right)
        if is_const(first) and is_const(second):
            return const(CONSTANTS[type(node.op)](const_of(first), const_of(second)))
        first, second = there(self.unit, first), there(self.unit, second)
        if is_form(first.type, "Set") or is_form(second.type, "Set"):
            one, two, kind = common(self.unit, first, second)
            return Val(f"{SETS[type(node.op)]}({one.text}, {two.text})", kind)
        if is_form(first.type, "Dict") and isinstance(node.op, ast.BitOr):
            one, two, kind = common(self.unit, first, second)
            return Val(f"merged({one.text}, {two.text})", kind)
        if isinstance(node.op, ast.Mult) and (self.is_several(first.type) or self.is_several(second.type)):
            if not self.is_several(first.type):
                first, second = second, first
            element = self.element(first)
            text = coerce(self.unit, first, seq(element))
            return Val(f"repeated({text}, {coerce(self.unit, second, INT)})", seq(element))
        if isinstance(node.op, ast.Add) and self.is_several(first.type):
            kind = seq(join(self.element(first), self.element(second)))
            return Val(f"joined({coerce(self.unit, first, kind)}, {coerce(self.unit, second, kind)})", kind)
        return self.number(node, first, second)

    def number(self, node: ast.BinOp, first: Val, second: Val) -> Val:
        """Arithmetic of integers."""
        one, other = coerce(self.unit, first, INT), coerce(self.unit, second, INT)
        if isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            sign = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}[type(node.op)]
            return Val(f"({one} {sign} {other})", BOOL if first.type == second.type == BOOL else INT)
        if type(node.op) in ARITHMETIC:
            return Val(f"{ARITHMETIC[type(node.op)]}({one}, {other})", INT)
        names: dict[type[ast.operator], str] = {ast.FloorDiv: "floor_div", ast.Mod: "floor_mod", ast.Pow: "power"}
        names |= {ast.LShift: "shift_left", ast.RShift: "shift_right"}
        if type(node.op) not in names:
            raise self.error(node, "an operator that is not known")
        return Val(f"{names[type(node.op)]}({one}, {other})", INT)

    def is_several(self, kind: Type) -> bool:
        """Whether it is a tuple or a list."""
        return isinstance(kind, Tup) or is_form(kind, "Seq", "List")

    def e_compare(self, node: ast.Compare) -> Val:
        tests: list[Val] = []
        lines: list[str] = []
        left = self.expression(node.left)
        for place, (sign, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            value = self.expression(right)
            if place < len(node.ops) - 1 and not is_const(value):
                name = self.fresh("m")
                lines.append(f"const {self.unit.cpp(value.type)} {name} = {value.text};")
                value = Val(name, value.type)
            tests.append(self.compared(node, sign, left, value))
            left = value
        if any(is_const(test) and not const_of(test) for test in tests):
            return const(False)
        texts = [test.text for test in tests if not is_const(test)]
        if not texts:
            return const(True)
        text = f"({' && '.join(texts)})"
        return Val(f"({{ {' '.join(lines)} {text}; }})" if lines else text, BOOL)

    def compared(self, node: ast.Compare, comparison: ast.cmpop, first: Val, second: Val) -> Val:
        """One comparison."""
        if isinstance(comparison, (ast.Is, ast.IsNot)):
            return self.turned(self.same(node, first, second), negative=isinstance(comparison, ast.IsNot))
        if isinstance(comparison, (ast.Eq, ast.NotEq)):
            return self.turned(self.equal(first, second), negative=isinstance(comparison, ast.NotEq))
        if isinstance(comparison, (ast.In, ast.NotIn)):
            return self.turned(self.contained(node, first, second), negative=isinstance(comparison, ast.NotIn))
        if is_const(first) and is_const(second):
            return const(_ordered(comparison, const_of(first), const_of(second)))
        one, two, kind = common(self.unit, there(self.unit, first), there(self.unit, second))
        sign = ORDER[type(comparison)]
        if kind in (INT, BOOL):
            return Val(f"({one.text} {sign} {two.text})", BOOL)
        if is_form(kind, "Set"):
            if sign in (">", ">="):
                one, two = two, one
            whole = f"is_subset({one.text}, {two.text})"
            return Val(f"({whole} && !eq({one.text}, {two.text}))" if sign in "<>" else whole, BOOL)
        text = {"<": f"less({one.text}, {two.text})", ">": f"less({two.text}, {one.text})"}
        text |= {"<=": f"(!less({two.text}, {one.text}))", ">=": f"(!less({one.text}, {two.text}))"}
        return Val(text[sign], BOOL)

    def equal(self, first: Val, second: Val) -> Val:
        """Equality; classes of operations are compared by their tags."""
        if TAG in (first.type, second.type):
            return self.tags_equal(first, second)
        return equal(self.unit, first, second)

    def tags_equal(self, first: Val, second: Val) -> Val:
        """Whether two classes of operations are the same."""
        one, two = (
            Val(f"Int({self.unit.tag_of(const_of(each))})", TAG) if is_const(each) else each for each in (first, second)
        )
        return Val(f"({one.text} == {two.text})", BOOL)

    def turned(self, test: Val, *, negative: bool) -> Val:
        """A test, or its opposite."""
        if not negative:
            return test
        return const(not const_of(test)) if is_const(test) else Val(f"(!{test.text})", BOOL)

    def same(self, node: ast.Compare, first: Val, second: Val) -> Val:
        """`is`: for None, members of enumerations and classes; of other values the identity is no value."""
        if is_const(second) and const_of(second) is None:
            if is_const(first):
                return const(const_of(first) is None)
            if isinstance(first.type, Holder) and first.type.form == "Opt":
                return Val(f"(!{first.text}.has)", BOOL)
            return const(first.type == UNIT)
        if is_const(first) and is_const(second):
            return const(const_of(first) is const_of(second))
        if TAG in (first.type, second.type):
            return self.tags_equal(first, second)
        if isinstance(first.type, EnumType) or isinstance(second.type, EnumType):
            return equal(self.unit, first, second)
        if BOOL in (first.type, second.type) and {plain(self.unit, first).type, plain(self.unit, second).type} == {
            BOOL
        }:
            return equal(self.unit, first, second)
        raise self.error(node, "identity is compared of None, enumerations and classes only")

    def contained(self, node: ast.Compare, item: Val, owner: Val) -> Val:
        """`in`."""
        if is_const(owner) and is_const(item):
            return const(const_of(item) in const_of(owner))
        if item.type == TAG and is_const(owner):
            tests = [self.tags_equal(item, const(each)).text for each in const_of(owner)]
            return Val(f"({' || '.join(tests)})", BOOL) if tests else const(False)
        if is_const(owner) and not can_lift(const_of(owner)) and isinstance(item.type, EnumType):
            tests = [equal(self.unit, item, const(each)).text for each in const_of(owner)]
            return Val(f"({' || '.join(tests)})", BOOL) if tests else const(False)
        range_node = node.comparators[-1]
        if isinstance(range_node, ast.Call) and isinstance(range_node.func, ast.Name) and range_node.func.id == "range":
            bounds = [coerce(self.unit, self.expression(each), INT) for each in range_node.args]
            low, high = ("Int(0)", bounds[0]) if len(bounds) == 1 else bounds[:2]
            return Val(f"in_range({coerce(self.unit, there(self.unit, item), INT)}, {low}, {high})", BOOL)
        owner = there(self.unit, owner)
        kind = owner.type
        try:
            if is_form(kind, "Dict"):
                assert isinstance(kind, Pairs)
                return Val(f"{owner.text}.has({coerce(self.unit, item, kind.key)})", BOOL)
            if isinstance(kind, Tup) and not kind.parts:
                return const(False)
            found = owner if is_form(kind, "Set") else sequence(self.unit, owner)
            if found is None or not isinstance(found.type, Holder):
                raise CompileError(f"nothing is in {kind}")
            if found.type.element == BOTTOM:
                return const(False)
            wanted = join(plain(self.unit, item).type, found.type.element)
            if wanted != found.type.element:
                found = Val(coerce(self.unit, found, Holder(found.type.form, wanted)), Holder(found.type.form, wanted))
            return Val(f"{found.text}.has({coerce(self.unit, item, wanted)})", BOOL)
        except NoJoinError:
            return const(False)


def _ordered(comparison: ast.cmpop, first: Any, second: Any) -> bool:
    """A comparison of two values that are known when the code is compiled."""
    compare = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
    return bool(compare[type(comparison)](first, second))
