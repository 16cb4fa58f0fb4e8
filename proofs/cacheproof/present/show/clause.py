"""The part of a property that became false: the conjunct, as the specification writes it, and its variables."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproof.lockstep.properties import AnyProperty
from cacheproof.model.finding import Subject
from cachespec.kernel import Progress, Safety

WIDEST = 150
"""Letters of a value."""

DEPTH = 4
"""How many functions a clause is followed into."""


@dataclass(frozen=True, slots=True)
class Clause:
    """The text of an expression that is false, the function that it is in, and for which values it is."""

    text: str
    function: str
    values: str = ""


def clause_of(
    subject: Subject, rule: AnyProperty, views: tuple[Any, Any], call: tuple[Any, Any] | None
) -> Clause | None:
    """The false clause of a property between two views; None if it holds, or if its source cannot be read so far."""
    if isinstance(rule, Progress):
        return None
    if isinstance(rule, Safety):
        arguments: tuple[Any, ...] = (subject.config, views[1])
    elif call is not None:
        arguments = (subject.config, views[0], *call, views[1])
    else:
        return None
    return _false_part(rule.holds, arguments, DEPTH)


def _false_part(function: Callable[..., Any], arguments: tuple[Any, ...], depth: int) -> Clause | None:
    """The first false conjunct of a function that returns a conjunction, followed into the functions that it calls."""
    lifted = inspect.getclosurevars(function).nonlocals if function.__name__ == "<lambda>" else {}
    if {"rule", "config", "view"} <= lifted.keys():
        of_part = lifted["config"](arguments[0]), lifted["view"](arguments[1])
        return _false_part(lifted["rule"].holds, of_part, depth)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
        bound = inspect.signature(function).bind(*arguments).arguments
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.FunctionDef) or not isinstance(tree.body[-1], ast.Return):
        return None
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals, **bound}
    return _in_block(_Function(tree.name, scope, {}, depth), tree.body)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that is run again line by line: its variables, and the expressions that they were assigned."""

    name: str
    scope: dict[str, Any]
    assigned: dict[str, ast.expr]
    depth: int


def _in_block(function: _Function, block: list[ast.stmt]) -> Clause | None:
    """The false part of the expression that these lines return; None where a loop returns it."""
    for line in block:
        if isinstance(line, ast.Return):
            return None if line.value is None else _in_expression(function, line.value)
        if isinstance(line, ast.If):
            branch = line.body if _value(line.test, function.scope) else line.orelse
            if _returns(branch):
                return _in_block(function, branch)
        elif _returns([line]):
            return None
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            function.assigned[line.targets[0].id] = line.value
        if not _returns([line]):
            exec(compile(ast.Module([line], []), "clause", "exec"), function.scope)  # noqa: S102  # the property's line
    return None


def _returns(lines: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Return) for line in lines for node in ast.walk(line))


def _in_expression(function: _Function, value: ast.expr) -> Clause | None:
    """The first false conjunct, followed into the variable or the function that it names."""
    parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    part = next((part for part in parts if not _value(part, function.scope)), None)
    if part is None:
        return None
    if isinstance(part, ast.Name) and part.id in function.assigned:
        return _in_expression(function, function.assigned[part.id])
    own = Clause(ast.unparse(part), function.name, _counter(part, function.scope))
    return _followed(part, function.scope, function.depth) or own


def _followed(part: ast.expr, scope: dict[str, Any], depth: int) -> Clause | None:
    """The clause of the function that a call names."""
    if depth == 0 or not isinstance(part, ast.Call) or not isinstance(part.func, ast.Name) or part.keywords:
        return None
    function = scope.get(part.func.id)
    if not inspect.isfunction(function):
        return None
    return _false_part(function, tuple(_value(argument, scope) for argument in part.args), depth - 1)


def _counter(part: ast.expr, scope: dict[str, Any]) -> str:
    """Of `all(...)` and `not any(...)`: the first values of the loop that make it false."""
    wrong = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)
    call = part.operand if isinstance(part, ast.UnaryOp) and wrong else part
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args):
        return ""
    loop = call.args[0]
    if call.func.id != ("any" if wrong else "all") or not isinstance(loop, ast.GeneratorExp):
        return ""
    names = [node.id for each in loop.generators for node in ast.walk(each.target) if isinstance(node, ast.Name)]
    *others, last = loop.generators
    test = loop.elt if wrong else ast.UnaryOp(ast.Not(), loop.elt)
    narrowed = ast.comprehension(last.target, last.iter, [*last.ifs, test], last.is_async)
    pair = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
    found = _value(ast.ListComp(pair, [*others, narrowed]), scope)
    shown = zip(names, found[0], strict=True) if found else ()
    return ", ".join(f"{name} = {_short(value)}" for name, value in shown if name != "_")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def _value(part: ast.expr, scope: dict[str, Any]) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(part))
    return eval(compile(expression, "clause", "eval"), scope)  # noqa: S307  # the property's own expression
