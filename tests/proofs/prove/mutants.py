"""Small changes of a function's text, one at a time: what a slip of the pen would be."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

OTHERWISE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
OPERATORS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Add: "+",
    ast.Sub: "-",
    ast.And: "and",
    ast.Or: "or",
}


class Mutant(NamedTuple):
    """One function with one change."""

    function: Callable[..., Any]
    text: str
    change: str

    @property
    def name(self) -> str:
        """As in a list of survivors: `put: > becomes >= (line 3)`."""
        return f"{self.function.__name__}: {self.change}"


def mutants_of(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Comparisons and sums turned, conditions joined otherwise, negations dropped, updates left out."""
    source = textwrap.dedent(inspect.getsource(function))
    count = len(list(ast.walk(ast.parse(source))))
    for place in range(count):
        tree = ast.parse(source)
        change = _changed(tree, list(ast.walk(tree))[place])
        if change:
            yield Mutant(function, ast.unparse(ast.fix_missing_locations(tree)), change)


def _changed(tree: ast.Module, node: ast.AST) -> str:
    """Change this node, and say how; or say nothing where it stays."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHERWISE:
        before = node.ops[0]
        node.ops[0] = OTHERWISE[type(before)]()  # type: ignore[call-overload]  # an operator for an operator
        return f"{OPERATORS[type(before)]} becomes {OPERATORS[type(node.ops[0])]} (line {line})"
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHERWISE:
        operator = node.op
        node.op = OTHERWISE[type(operator)]()  # type: ignore[assignment]  # an operator for an operator
        return f"{OPERATORS[type(operator)]} becomes {OPERATORS[type(node.op)]} (line {line})"
    if isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        node.test = node.test.operand
        return f"not is dropped (line {line})"
    return _left_out(node, line)


def _left_out(node: ast.AST, line: int) -> str:
    """A field of an update is left out: of each the last."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_replace":
        last = node.keywords.pop()
        return f"{last.arg} is not updated (line {line})"
    return ""
