"""Patterns of Python: which parts of a tree look like a piece of code, and what stands there instead.

A pattern is an expression, or statements, with placeholders:

- `$name` is any expression or name; the same placeholder again is the same expression;
- `*$name` among arguments or elements is any number of them, `**$name` any other keywords;
- `$name` as a whole statement is any number of statements; as the first or the last one, the pattern is the whole body;
- `name=value` is an assignment, or that keyword of a call.

Line breaks, parentheses, quotes, comments and the order of keywords make no difference.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARK = "placeholder_"
BODIES = ("body", "orelse", "finalbody")
NOT_COMPARED = ("ctx", "kind", "type_comment")

Bound = Mapping[str, Any]
"""Of each placeholder what it stands for: a node, or a list of nodes."""


class PatternError(AssertionError):
    """A pattern does not match exactly one part of a function, or cannot be read."""


def replaced(tree: ast.FunctionDef, right: str, wrong: str) -> ast.FunctionDef:
    """A tree with `wrong` in the place of the one part that looks like `right`.

    Raises `PatternError` if there is no such part, or more than one, or if both forms are the same.
    """
    before, tree = ast.dump(tree), copy.deepcopy(tree)
    both = [_parsed(text) for text in (right, wrong)]
    if not both[0]:
        raise PatternError(f"no part of {tree.name} is named")
    if all(isinstance(pattern, ast.expr) for pattern in both):
        _with_expression(tree, *both)
    else:
        _with_statements(tree, *map(_statements, both))
    if ast.dump(tree) == before:
        raise PatternError(f"nothing changes in {tree.name}: {right!r} becomes {wrong!r}")
    return tree


def _parsed(text: str) -> ast.expr | list[ast.stmt]:
    plain = re.sub(r"\$(\w+)", rf"{MARK}\1", text)
    try:
        body = ast.parse(plain).body
    except SyntaxError as error:
        raise PatternError(f"neither an expression nor statements: {text!r} ({error.msg})") from None
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else body


def _statements(pattern: ast.expr | list[ast.stmt]) -> list[ast.stmt]:
    return [ast.Expr(pattern)] if isinstance(pattern, ast.expr) else pattern


def _with_expression(tree: ast.FunctionDef, right: Any, wrong: Any) -> None:
    expressions = (node for node in _inside(tree, ast.expr) if not isinstance(_context(node), ast.Store | ast.Del))
    node, bound = _the_only(_sites(right, expressions), tree, right)
    _Exchanged(node, _Filled(bound).visit(wrong)).visit(tree)


def _with_statements(tree: ast.FunctionDef, right: list[Any], wrong: list[Any]) -> None:
    if _is_run(right[0]) or _is_run(right[-1]):
        windows = [(tree.body, slice(0, len(tree.body)))]
    else:
        windows = [
            (body, slice(start, end + 1))
            for body in _bodies(tree)
            for start in range(len(body))
            for end in range(start, len(body))
        ]
    sites: list[Any] = [
        (window, bound)
        for window in windows
        if (bound := next(_all_match(right, window[0][window[1]], {}), None)) is not None
    ]
    sites += _sites(_keyword(right), _inside(tree, ast.keyword))
    site, bound = _the_only(sites, tree, right)
    if isinstance(site, ast.keyword):
        _Exchanged(site, _Filled(bound).visit(keyword) if (keyword := _keyword(wrong)) else None).visit(tree)
    else:
        body, window = site
        body[window] = _Filled(bound).visit(ast.Module(wrong, [])).body


def _keyword(pattern: list[ast.stmt]) -> ast.keyword | None:
    """What `name=value` is in a call."""
    match pattern:
        case [ast.Assign([ast.Name(name)], value)]:
            return ast.keyword(name, value)
    return None


def _inside(tree: ast.FunctionDef, kind: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of this kind in the body."""
    for statement in tree.body:
        yield from (node for node in ast.walk(statement) if isinstance(node, kind))


def _context(node: ast.AST) -> ast.AST | None:
    return getattr(node, "ctx", None)


def _sites(pattern: ast.AST | None, nodes: Iterator[ast.AST]) -> list[tuple[ast.AST, Bound]]:
    """The nodes that look like the pattern, each with what its placeholders stand for."""
    if pattern is None:
        return []
    return [(node, bound) for node in nodes if (bound := next(_matches(pattern, node, {}), None)) is not None]


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in BODIES:
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield body


def _the_only(sites: list[Any], tree: ast.FunctionDef, pattern: Any) -> Any:
    if len(sites) != 1:
        text = ast.unparse(ast.Module(_statements(pattern), [])).replace(MARK, "$")
        raise PatternError(f"{tree.name} has {len(sites)} parts like this, not one: {text}")
    return sites[0]


def _placeholder(node: Any) -> str:
    """The name of the placeholder that stands here, or nothing."""
    name = node if isinstance(node, str) else getattr(node, "id", "") if isinstance(node, ast.Name) else ""
    return name.removeprefix(MARK) if name.startswith(MARK) else ""


def _is_run(node: Any) -> str:
    """The name of the placeholder for any number of arguments, elements or statements, or nothing."""
    inside = isinstance(node, ast.Starred | ast.Expr) or (isinstance(node, ast.keyword) and node.arg is None)
    return _placeholder(node.value) if inside else ""


def _matches(pattern: Any, node: Any, bound: Bound) -> Iterator[Bound]:
    """Every way in which the node looks like the pattern."""
    name = _placeholder(pattern)
    if name and isinstance(node, ast.expr | str):
        expression = ast.Name(node, ast.Load()) if isinstance(node, str) else node
        if name not in bound:
            yield {**bound, name: expression}
        else:
            yield from (bound for _ in _matches(bound[name], expression, {}))
    elif isinstance(pattern, list) and isinstance(node, list):
        keywords = any(isinstance(part, ast.keyword) for part in (*pattern, *node))
        yield from (_keywords_match if keywords else _all_match)(pattern, node, bound)
    elif isinstance(pattern, ast.AST) and type(pattern) is type(node):
        fields = [field for field in pattern._fields if field not in NOT_COMPARED]
        yield from _fields_match(fields, pattern, node, bound)
    elif type(pattern) is type(node) and pattern == node:
        yield bound


def _fields_match(fields: Sequence[str], pattern: ast.AST, node: ast.AST, bound: Bound) -> Iterator[Bound]:
    if not fields:
        yield bound
        return
    field, *rest = fields
    for found in _matches(getattr(pattern, field, None), getattr(node, field, None), bound):
        yield from _fields_match(rest, pattern, node, found)


def _all_match(patterns: Sequence[Any], nodes: Sequence[Any], bound: Bound) -> Iterator[Bound]:
    if not patterns:
        if not nodes:
            yield bound
        return
    first, *rest = patterns
    if name := _is_run(first):
        for end in range(len(nodes) + 1):
            yield from _all_match(rest, nodes[end:], {**bound, name: list(nodes[:end])})
    elif nodes:
        for found in _matches(first, nodes[0], bound):
            yield from _all_match(rest, nodes[1:], found)


def _keywords_match(patterns: Sequence[Any], nodes: Sequence[Any], bound: Bound) -> Iterator[Bound]:
    """In any order; what is left over belongs to `**$name`."""
    if not patterns:
        if not nodes:
            yield bound
        return
    first, *rest = sorted(patterns, key=lambda pattern: bool(_is_run(pattern)))
    if name := _is_run(first):
        yield from _keywords_match(rest, [], {**bound, name: list(nodes)})
        return
    for node in nodes:
        if first.arg == node.arg:
            others = [other for other in nodes if other is not node]
            for found in _matches(first.value, node.value, bound):
                yield from _keywords_match(rest, others, found)


class _Exchanged(ast.NodeTransformer):
    """Puts one node in the place of another, or removes it."""

    def __init__(self, old: ast.AST, new: ast.AST | None) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


class _Filled(ast.NodeTransformer):
    """Puts what they stand for in the place of placeholders. Raises `PatternError` for one that stands for nothing."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound

    def visit(self, node: ast.AST) -> Any:
        if (name := _is_run(node)) and isinstance(meant := self._meant(name), list):
            return meant
        if name := _placeholder(node):
            meant = self._meant(name)
            if isinstance(node, ast.Name) and hasattr(meant, "ctx"):
                meant.ctx = node.ctx
            return meant
        for field, value in ast.iter_fields(node):
            if isinstance(value, str) and (name := _placeholder(value)):
                setattr(node, field, self._meant(name).id)
        return self.generic_visit(node)

    def _meant(self, name: str) -> Any:
        if name not in self.bound:
            raise PatternError(f"nothing is known of ${name}")
        return copy.deepcopy(self.bound[name])
