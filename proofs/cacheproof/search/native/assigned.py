"""Variables that may be read before they have a value: Python raises then, and C++ would read a zero."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from cacheproof.search.native.source import names_in

Names = frozenset[str]


def may_lack_a_value(function: ast.FunctionDef) -> Names:
    """The names of variables that some way through the function reads before it assigns them.

    A name may be reported that always has a value, if only the values of conditions show that. None is left out.
    """
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    flow = _Flow(_assigned(function.body))
    flow.block(function.body, frozenset(each.arg for each in given if each is not None))
    return frozenset(flow.lacking)


class _Flow:
    """A walk over statements with the names that have a value; None where control does not come."""

    def __init__(self, variables: Names) -> None:
        self.variables, self.lacking = variables, set[str]()

    def block(self, statements: Iterable[ast.stmt], known: Names | None) -> Names | None:
        for statement in statements:
            if known is None:
                return None
            known = self.statement(statement, known)
        return known

    def statement(self, node: ast.stmt, known: Names) -> Names | None:
        match node:
            case ast.If():
                self.reads(node.test, known)
                return _both(self.block(node.body, known), self.block(node.orelse, known))
            case ast.While():
                self.reads(node.test, known)
                self.block(node.body, known)
                return known
            case ast.For():
                self.reads(node.iter, known)
                self.block(node.body, known | _stored(node.target))
                return known
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                self.reads(node, known)
                return None
            case ast.FunctionDef():
                return known | {node.name}  # what it reads from around is read when it is called
            case ast.AugAssign(target=ast.Name(id=name)):
                self.reads(node.value, known)
                self.reads(ast.Name(name, ast.Load()), known)
                return known
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                self.reads(node.value, known)
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                return known.union(*map(_stored, targets))
        self.reads(node, known)
        return known

    def reads(self, node: ast.AST, known: Names) -> None:
        """Note the variables that are read here. Names that a comprehension binds are its own."""
        bound: set[str] = set()
        for each in ast.walk(node):
            if isinstance(each, ast.comprehension):
                bound |= _stored(each.target)
            elif isinstance(each, ast.Lambda):
                bound |= {argument.arg for argument in each.args.args}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in bound:
                self.lacking |= {each.id} & self.variables - known


def _both(one: Names | None, other: Names | None) -> Names | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _stored(node: ast.AST) -> Names:
    return frozenset(each.id for each in names_in(node) if isinstance(each.ctx, ast.Store))


def _assigned(statements: Iterable[ast.stmt]) -> Names:
    """The variables of a function: names that its statements assign, but for those of comprehensions."""
    found: set[str] = set()
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found |= {node.id} if isinstance(node.ctx, ast.Store) else set()
        elif not isinstance(node, (ast.comprehension, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return frozenset(found)
