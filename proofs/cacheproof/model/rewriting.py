"""A function with another text in its place, wherever it is called from."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import CodeType, FunctionType
from typing import Any

SPECIFICATION = "cachespec"

_NUMBERS = count()


def tree_of(function: FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of the function, a fresh one; None if it is not written with `def` (a lambda)."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return node if isinstance(node, ast.FunctionDef) else None


class Rewritten:
    """The two forms of a function. One of them is in force, at first the original."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        self._function, self._file = function, f"<rewritten {next(_NUMBERS)}>"
        text = _text(function, tree)
        linecache.cache[self._file] = (len(text), None, text.splitlines(keepends=True), self._file)
        self._codes = {False: function.__code__, True: _code(text, self._file, tree.name)}
        self._clear = list(_caches()) if function.__module__.partition(".")[0] == SPECIFICATION else []

    def choose(self, *, rewritten: bool) -> None:
        """Put one form in force. Forgets what the specification has computed once and kept."""
        self._function.__code__ = self._codes[rewritten]
        for clear in self._clear:
            clear()

    def close(self) -> None:
        """Put the original in force, for good."""
        self.choose(rewritten=False)
        linecache.cache.pop(self._file, None)


@contextmanager
def rewritten(function: FunctionType, tree: ast.FunctionDef) -> Iterator[Rewritten]:
    """The function does what the tree says, and its source says so too. Afterwards it is the original again."""
    forms = Rewritten(function, tree)
    try:
        forms.choose(rewritten=True)
        yield forms
    finally:
        forms.close()


def _text(function: FunctionType, tree: ast.FunctionDef) -> str:
    """The tree as text, inside a function that binds what the original takes from around it."""
    names = ", ".join(function.__code__.co_freevars)
    if not names:
        return ast.unparse(ast.fix_missing_locations(tree))
    around = ast.parse(f"def around({names}):\n    def inside():\n        if False: ({names},)").body[0]
    assert isinstance(around, ast.FunctionDef)
    inside = around.body[0]
    assert isinstance(inside, ast.FunctionDef)
    tree.body = [*inside.body, *tree.body]  # every name is read, so that there are as many cells as before
    around.body = [tree]
    return ast.unparse(ast.fix_missing_locations(around))


def _code(text: str, file: str, name: str) -> CodeType:
    whole = compile(text, file, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    pending = [whole]
    for code in pending:
        inner = [value for value in code.co_consts if isinstance(value, CodeType)]
        pending += inner
        for value in inner:
            if value.co_name == name:
                return value
    raise AssertionError(f"{name} is not in its own text")


def _caches() -> Iterator[Callable[[], Any]]:
    """What empties each cache of a function of the specification."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == SPECIFICATION and not name.startswith(f"{SPECIFICATION}.kernel"):
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    yield clear
