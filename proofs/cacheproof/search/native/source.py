"""From a function object of Python's to its syntax."""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from cacheproof.search.native.unit import CompileError

Syntax = ast.FunctionDef | ast.Lambda
_NO_POSITION = frozenset({"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP"})


@dataclass(frozen=True)
class Source:
    """The syntax of a function, and the meaning of its free names."""

    node: Syntax
    filename: str
    globals: dict[str, Any]
    qualname: str

    @property
    def module(self) -> str:
        """The name of the module; empty for code that the compiler adds."""
        name: str = self.globals.get("__name__", "")
        return name

    def __hash__(self) -> int:
        return hash((id(self.node), id(self.globals)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.node is other.node and self.globals is other.globals


@cache
def names_in(node: ast.AST) -> tuple[ast.Name, ...]:
    """All names in a piece of syntax, which nothing changes once it was read."""
    return tuple(each for each in ast.walk(node) if isinstance(each, ast.Name))


@cache
def _tree(filename: str) -> list[Syntax]:
    tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]


def source_of(function: FunctionType) -> Source:
    """The syntax of a function that has a source file. Raises CompileError where it is not found there."""
    code = function.__code__
    node = _node(code)
    if node is None:
        raise CompileError(f"{code.co_filename}:{code.co_firstlineno}: the source of {code.co_name} is not found")
    return Source(node, code.co_filename, function.__globals__, function.__qualname__)


@cache
def _node(code: CodeType) -> Syntax | None:
    nodes = _tree(code.co_filename)
    if code.co_name != "<lambda>":
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None
    places = [
        (at.lineno, at.col_offset)
        for instruction in dis.get_instructions(code)
        if instruction.opname not in _NO_POSITION
        and (at := instruction.positions) is not None
        and at.lineno is not None
        and at.col_offset is not None
        and at.end_col_offset
    ]
    around = [node for node in nodes if isinstance(node, ast.Lambda) and all(_inside(node.body, at) for at in places)]
    return min(around, key=_extent, default=None)


def _inside(node: ast.expr, at: tuple[int, int]) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset) <= at < end


def _extent(node: ast.expr) -> tuple[int, int]:
    """Of those that are inside one another the innermost is the shortest."""
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset if lines == 0 else -node.lineno


def free_values(function: FunctionType) -> dict[str, Any]:
    """The values of the free variables of a function."""
    cells = function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}


def unwrapped(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """What `functools.cache` wraps, and whether it does."""
    inner = getattr(function, "__wrapped__", None)
    return (inner, True) if inner is not None and hasattr(function, "cache_info") else (function, False)
