"""What the specification's source says of the fields of its classes: the string below each."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


@cache
def attribute_docs(owner: type) -> Mapping[str, str]:
    """For each attribute of a class that has one, the string that stands below it, on one line."""
    body = _module(owner.__module__).get(owner.__name__, ())
    return {name: text for before, after in pairwise(body) if (text := _string(after)) for name in _assigned(before)}


@cache
def alias_docs(module: str) -> Mapping[str, str]:
    """The same for the names that a module assigns, such as its type aliases."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        name: text for before, after in pairwise(tree.body) if (text := _string(after)) for name in _assigned(before)
    }


@cache
def _module(name: str) -> Mapping[str, list[ast.stmt]]:
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _string(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""
