"""The mutants of a component, from the source of its own functions; the same ones every time, under the same names."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from cacheproof.model.registry import AnyComponent
from cacheproof.model.rewriting import tree_of
from cacheproof.mutants.changes import Change, changes_of
from cacheproof.mutants.functions import home_of, own_functions
from cacheproof.mutants.statements import changes_of_bodies

LETTERS = 6
"""Of the digest in a name."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One function of a component with one change.

    The name says component, function and kind of change; its digest is that of what is replaced by what, and which
    one it is of several that are alike. So it stays the same when other lines of the file change.
    """

    name: str
    component: str
    change: str
    text: str = field(repr=False)
    """The whole function, changed."""
    function: FunctionType = field(repr=False, compare=False)


def mutants_of(component: AnyComponent) -> Iterator[Mutant]:
    """Every mutant, in the order of the functions and of their text. Two changes that come to the same are one."""
    for function in own_functions(component):
        tree = tree_of(function)
        if tree is not None:
            yield from _of_a_function(component, function, tree)


def _of_a_function(component: AnyComponent, function: FunctionType, tree: ast.FunctionDef) -> Iterator[Mutant]:
    seen, alike = {_body(tree)}, dict[tuple[str, str], int]()
    for place, number, change in _changes(tree, function):
        changed = _changed(function, place, number)
        body = _body(changed)
        if body in seen:
            continue
        seen.add(body)
        same = alike[change.kind, change.said] = alike.get((change.kind, change.said), 0) + 1
        name = _name(component, function, change, same)
        yield Mutant(name, component.name, _shown(change, same), ast.unparse(changed), function)


def _changes(tree: ast.FunctionDef, function: FunctionType) -> Iterator[tuple[int, int, Change]]:
    """Each change with the place of its node, and its number among the changes of that node."""
    bound = frozenset(argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs))
    for place, node in enumerate(_nodes(tree)):
        for number, change in enumerate(_of_a_node(node, function, bound)):
            yield place, number, change


def _of_a_node(node: ast.AST, function: FunctionType, bound: frozenset[str]) -> Iterator[Change]:
    yield from changes_of(node, function)
    yield from changes_of_bodies(node, function, bound)


def _nodes(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """The function and the nodes of its body in the order of the text, annotations and the docstring left out."""
    yield tree
    pending: list[ast.AST] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        kept = [child for name, child in _children(node) if name not in ("annotation", "returns")]
        pending += reversed(kept)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def _changed(function: FunctionType, place: int, number: int) -> ast.FunctionDef:
    """A fresh tree with one change made."""
    tree = tree_of(function)
    assert tree is not None
    bound = frozenset(argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs))
    node = list(_nodes(tree))[place]
    change = list(_of_a_node(node, function, bound))[number]
    made = change.node if node is tree else _Replaced(node, change.node).visit(tree)
    assert isinstance(made, ast.FunctionDef)
    made.decorator_list = []
    return ast.fix_missing_locations(made)


class _Replaced(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        """The new node where the old one is."""
        return self.new if node is self.old else self.generic_visit(node)


def _body(tree: ast.FunctionDef) -> str:
    return "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in tree.body)


def _name(component: AnyComponent, function: FunctionType, change: Change, same: int) -> str:
    inside = function.__module__.removeprefix(home_of(component)).strip(".")
    where = f"{inside}.{function.__qualname__}" if inside else function.__qualname__
    text = f"{change.kind}\0{change.said}\0{same}".encode()
    digest = hashlib.sha256(text).hexdigest()[:LETTERS]
    return f"{component.name}/{where.replace('<locals>.', '')}/{change.kind}-{digest}"


def _shown(change: Change, same: int) -> str:
    return change.said if same == 1 else f"{change.said} (number {same} of these)"
