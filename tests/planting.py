"""Bugs planted in our own functions: one part of a function's syntax tree is another one for the length of a block."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any, NamedTuple

from cacheproof.model.rewriting import rewritten, tree_of
from cacheproof.releases.planted.child.bugs.patterns import replaced


class Change(NamedTuple):
    """One part of a function, and what stands there instead: both are patterns (see `planted.child.bugs.patterns`)."""

    function: Callable[..., Any]
    right: str
    wrong: str


@contextmanager
def planted(*changes: Change) -> Iterator[None]:
    """Every function is changed, wherever it is called from; afterwards each is what it was.

    Raises `PatternError` if a function does not have exactly one part like the one to be changed.
    """
    trees: dict[FunctionType, ast.FunctionDef] = {}
    for change in changes:
        function = inspect.unwrap(change.function)
        assert isinstance(function, FunctionType), f"{change.function} is no function that is written in Python"
        tree = trees.get(function) or tree_of(function)
        assert tree is not None, f"{function.__name__} is not written with def"
        trees[function] = replaced(tree, change.right, change.wrong)
    with ExitStack() as bugs:
        for function, tree in trees.items():
            bugs.enter_context(rewritten(function, tree))
        yield
