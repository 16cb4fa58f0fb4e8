"""Small changes of a function's text, one at a time: what a slip of the pen would be."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType

from cacheproof.model.rewriting import tree_of

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


@dataclass(frozen=True)
class Mutant:
    """One function with one change."""

    function: FunctionType
    tree: ast.FunctionDef
    change: str

    @property
    def name(self) -> str:
        """As in a list of survivors: `put: > becomes >= (line 3)`."""
        return f"{self.function.__name__}: {self.change}"


def mutants_of(function: FunctionType) -> Iterator[Mutant]:
    """Comparisons and sums turned, conditions joined otherwise, negations dropped, updates left out."""
    original = tree_of(function)
    assert original is not None
    for number in range(len(list(ast.walk(original)))):
        tree = copy.deepcopy(original)
        change = _changed(list(ast.walk(tree))[number])
        if change:
            yield Mutant(function, tree, change)


def _changed(node: ast.AST) -> str:
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
