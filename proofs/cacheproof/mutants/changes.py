"""Small changes of an expression: what a slip of the pen, or of the mind, would write instead."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple, get_type_hints

from cachespec import kernel
from cachespec.kernel import Outcome


class Change(NamedTuple):
    """Another node in the place of one; `kind` is one of a few words, `said` what is replaced by what."""

    kind: str
    said: str
    node: ast.AST


COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
"""Functions that are called by name."""
OTHER_END = {"push": "push_front", "push_front": "push"}
UPDATES = ("set", "push", "push_front", "remove")
"""Members of containers that give another one; without the call, the container stays as it was."""
OUTCOMES: dict[str, str] = {
    "DONE": "REFUSED",
    "REFUSED": "DONE",
    "HIT": "MISS",
    "MISS": "HIT",
    "ABSENT": "DONE",
    "PRESENT": "DONE",
    "TOO_LARGE": "REFUSED",
    "STALE": "DONE",
}
PREFIX = "outcome_of_the_mutant_"
"""Outcomes that the function's module may not have imported are known under this prefix."""
INJECTED: Mapping[str, Outcome] = {f"{PREFIX}{name}": getattr(kernel, name) for name in set(OUTCOMES.values())}


def changes_of(node: ast.AST, function: FunctionType) -> Iterator[Change]:
    """Every change of this node itself; those of its parts are theirs."""
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.BoolOp():
            yield from _joined(node)
        case ast.UnaryOp(op=ast.Not()):
            yield _change("condition", node, node.operand)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            yield _change("constant", node, ast.Constant(0))
        case ast.IfExp():
            yield _change("condition", node, ast.IfExp(node.test, node.orelse, node.body))
        case ast.Constant():
            yield from _constants(node)
        case ast.Call():
            yield from _calls(node, function)
        case ast.Subscript(slice=ast.Constant(value=0)):
            yield _change("end", node, ast.Subscript(node.value, ast.Constant(-1), node.ctx))
        case ast.Tuple(elts=[ast.Starred(), _]) | ast.Tuple(elts=[_, ast.Starred()]):
            yield _change("end", node, ast.Tuple([node.elts[1], node.elts[0]], node.ctx))
        case ast.Name(id=name, ctx=ast.Load()) if name in OUTCOMES and function.__globals__.get(name) == getattr(
            kernel, name
        ):
            yield Change("outcome", f"{name} => {OUTCOMES[name]}", ast.Name(PREFIX + OUTCOMES[name], ast.Load()))
        case ast.comprehension() if node.ifs:
            kept = ast.comprehension(node.target, node.iter, node.ifs[:-1], node.is_async)
            yield Change("condition", f"without if {_said(node.ifs[-1])}", kept)


def _said(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


def _change(kind: str, before: ast.AST, after: ast.AST) -> Change:
    return Change(kind, f"{_said(before)} => {_said(after)}", after)


def _comparisons(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        for other in COMPARISONS.get(type(operator), ()):
            operators = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield _change("comparison", node, ast.Compare(node.left, operators, node.comparators))


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    tuples = any(isinstance(part, ast.Tuple) for part in (node.left, node.right))
    if tuples:
        yield _change("end", node, ast.BinOp(node.right, node.op, node.left))
    elif type(node.op) in ARITHMETIC:
        yield _change("arithmetic", node, ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))


def _joined(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _change("condition", node, ast.BoolOp(other, node.values))
    for place in range(len(node.values)):
        kept = [*node.values[:place], *node.values[place + 1 :]]
        yield _change("condition", node, kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept))


def _constants(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield _change("constant", node, ast.Constant(not node.value))
    elif isinstance(node.value, int):
        yield _change("constant", node, ast.Constant(node.value + 1))
        if node.value > 0:
            yield _change("constant", node, ast.Constant(node.value - 1))


def _calls(node: ast.Call, function: FunctionType) -> Iterator[Change]:
    if isinstance(node.func, ast.Name):
        yield from _calls_by_name(node, node.func, function)
    elif isinstance(node.func, ast.Attribute):
        yield from _calls_of_members(node, node.func)


def _calls_by_name(node: ast.Call, called: ast.Name, function: FunctionType) -> Iterator[Change]:
    if called.id in OPPOSITES:
        yield _change("extreme", node, ast.Call(ast.Name(OPPOSITES[called.id], ast.Load()), node.args, node.keywords))
    elif called.id == "reversed":
        yield _change("end", node, node.args[0])
    elif called.id == "Outcome" and len(node.args) > 1:
        yield _change("outcome", node, ast.Call(node.func, node.args[:1], []))
    else:
        yield from _left_out(node, function.__globals__.get(called.id))


def _left_out(node: ast.Call, helper: Any) -> Iterator[Change]:
    """A helper that makes a new state of an old one is not called: the old one stays."""
    if not isinstance(helper, FunctionType):
        return
    hints = get_type_hints(helper)
    names = helper.__code__.co_varnames[: helper.__code__.co_argcount]
    for place, name in enumerate(names[: len(node.args)]):
        if hints.get(name) is not None and hints.get(name) == hints.get("return") and hasattr(hints[name], "_fields"):
            yield _change("call", node, node.args[place])
            return


def _calls_of_members(node: ast.Call, called: ast.Attribute) -> Iterator[Change]:
    if called.attr == "_replace":
        for keyword in node.keywords:
            kept = [other for other in node.keywords if other is not keyword]
            rest = ast.Call(node.func, node.args, kept) if kept else called.value
            yield Change("update", f"without {keyword.arg}={_said(keyword.value)}", rest)
    if called.attr in UPDATES:
        yield Change("update", f"without .{called.attr}({', '.join(map(_said, node.args))})", called.value)
    if called.attr in OTHER_END:
        other = ast.Attribute(called.value, OTHER_END[called.attr], ast.Load())
        yield _change("end", node, ast.Call(other, node.args, node.keywords))
    if called.attr == "oldest_outside" and len(node.args) == 2:  # what is left out, and the default
        oldest = ast.Attribute(called.value, "oldest", ast.Load())
        yield _change("end", node, ast.Call(oldest, node.args[1:], []))
