"""Small changes of a sequence of statements: one is left out, or two change places."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from types import FunctionType

from cacheproof.mutants.changes import Change

Simple = ast.Assign | ast.AnnAssign | ast.AugAssign


def changes_of_bodies(node: ast.AST, function: FunctionType, bound: frozenset[str]) -> Iterator[Change]:
    """Every change of the statements directly under this node; `bound` are names that have a value before any."""
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        if isinstance(statements, list):
            for kind, said, changed in _changes(statements, bound):
                other = copy.copy(node)
                setattr(other, field, changed or [ast.Pass()])
                yield Change(kind, said, other)
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        other = copy.copy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield Change("condition", f"{_first_line(node.test)} => not {_first_line(node.test)}", other)


def _changes(statements: Sequence[ast.stmt], bound: frozenset[str]) -> Iterator[tuple[str, str, list[ast.stmt]]]:
    known = set(bound)
    for place, statement in enumerate(statements):
        if _can_go(statement, known):
            yield "dropped", f"without {_first_line(statement)}", [*statements[:place], *statements[place + 1 :]]
        following = statements[place + 1] if place + 1 < len(statements) else None
        if following is not None and _can_swap(statement, following, known):
            swapped = [*statements[:place], following, statement, *statements[place + 2 :]]
            yield "order", f"{_first_line(following)} before {_first_line(statement)}", swapped
        known |= _assigned(statement)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]


def _can_go(statement: ast.stmt, known: set[str]) -> bool:
    """Whether every name that is read afterwards has still a value."""
    match statement:
        case ast.Assign() | ast.AnnAssign():
            return bool(_assigned(statement)) and _assigned(statement) <= known
        case ast.AugAssign() | ast.While() | ast.For():
            return True
        case ast.Expr():
            return not isinstance(statement.value, ast.Constant)
        case ast.If():
            return not statement.orelse
    return False


def _can_swap(first: ast.stmt, second: ast.stmt, known: set[str]) -> bool:
    """The second reads what the first assigns, and could read an older value of it."""
    if not isinstance(first, Simple) or not isinstance(second, Simple):
        return False
    written = _assigned(first)
    return written <= known and bool(written & _read(second))


def _assigned(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _read(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
