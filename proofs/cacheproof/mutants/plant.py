"""A mutant in the place of the function that it was made from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from cacheproof.model.rewriting import Rewritten, rewritten
from cacheproof.mutants.changes import INJECTED
from cacheproof.mutants.generate import Mutant


@contextmanager
def planted(mutant: Mutant) -> Iterator[Rewritten]:
    """The mutant is in force; afterwards the function is what it was."""
    tree = ast.parse(mutant.text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = mutant.function.__globals__
    added = [name for name in INJECTED if name not in names]
    names.update(INJECTED)
    try:
        with rewritten(mutant.function, tree) as forms:
            yield forms
    finally:
        for name in added:
            del names[name]
