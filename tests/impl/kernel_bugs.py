"""Kernels with a part of their source changed."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

from cacheimpl.kernels.launching import Kernel
from cacheproof.model.rewriting import tree_of
from cacheproof.releases.planted.child.bugs.patterns import replaced

NUMBERS = count()


def mutant(function: Callable[..., Any], right: str, wrong: str) -> Kernel:
    """The kernel with one part of its source changed."""
    assert isinstance(function, FunctionType)
    tree = tree_of(function)
    assert tree is not None
    source, name = ast.unparse(replaced(tree, right, wrong)), f"<mutant {next(NUMBERS)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    known = dict(function.__globals__)
    exec(compile(f"from __future__ import annotations\n{source}", name, "exec"), known)
    linecache.cache[name] = (len(source), None, ["\n", *source.splitlines(keepends=True)], name)
    return Kernel(known[function.__name__])
