"""What the specification's source says of its classes and their fields: docstrings, and the string below each field."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


def attribute_docs(owner: type) -> Mapping[str, str]:
    """For each attribute of a class that has one, the string that stands below it, on one line.

    A class that the kernel has joined has the attributes of its parts.
    """
    if hasattr(owner, "parts"):
        return {name: text for part in owner.parts for name, text in attribute_docs(part).items()}
    body = _tree(owner.__module__).body
    bodies = (node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner.__name__)
    return _below(next(bodies, []))


@cache
def alias_docs(package: str) -> Mapping[str, str]:
    """The same for the names that the modules of a package assign, such as its type aliases."""
    modules = [name for name in sorted(sys.modules) if name == package or name.startswith(f"{package}.")]
    return {name: text for module in modules for name, text in _below(_tree(module).body).items()}


def paragraphs(owner: type) -> list[str]:
    """The docstring of a class, a line for each paragraph."""
    return [" ".join(part.split()) for part in (inspect.getdoc(owner) or "").split("\n\n") if part.strip()]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def _below(body: list[ast.stmt]) -> dict[str, str]:
    return {name: text for before, after in pairwise(body) if (text := _string(after)) for name in _assigned(before)}


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _string(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""
