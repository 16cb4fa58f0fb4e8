"""A mutant in the place of the function that it was made from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from cacheproof.mutants.changes import INJECTED
from cacheproof.mutants.functions import SPECIFICATION
from cacheproof.mutants.generate import Mutant


class Plant:
    """The two forms of one function, of which one is in force wherever the function is called from."""

    def __init__(self, mutant: Mutant) -> None:
        self._function = mutant.function
        self._codes = {False: mutant.function.__code__, True: _code(mutant)}
        self._kept = list(_caches())

    def choose(self, *, mutant: bool) -> None:
        """The mutant, or the original. What the specification has computed once and kept may be the other's."""
        self._function.__code__ = self._codes[mutant]
        for clear in self._kept:
            clear()


@contextmanager
def planted(mutant: Mutant) -> Iterator[Plant]:
    """The mutant is in force; afterwards the function is what it was."""
    plant = Plant(mutant)
    names = mutant.function.__globals__
    added = [name for name in INJECTED if name not in names]
    names.update(INJECTED)
    try:
        plant.choose(mutant=True)
        yield plant
    finally:
        plant.choose(mutant=False)
        for name in added:
            del names[name]


def _caches() -> Iterator[Callable[[], Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == SPECIFICATION and not name.startswith(f"{SPECIFICATION}.kernel"):
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    yield clear


def _code(mutant: Mutant) -> CodeType:
    """The mutant's code, with the names of the enclosing function that the original takes from there."""
    function = ast.parse(mutant.text).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.returns = None
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    free = mutant.function.__code__.co_freevars
    if free:
        unread = ast.parse(f"if False: ({', '.join(free)},)").body
        function.body = [*unread, *function.body]
    outer = ast.parse(f"def outer({', '.join(free)}): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [function]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    whole = compile(module, f"<{mutant.name}>", "exec", dont_inherit=True)
    return _inside(_inside(whole, "outer"), function.name)


def _inside(code: CodeType, name: str) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
