"""Several forms of a function in one library: which is in force is chosen by a number when the library runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from cacheproof.search.native.assigned import may_lack_a_value
from cacheproof.search.native.function import Scope
from cacheproof.search.native.source import Source
from cacheproof.search.native.unit import CompileError, Instance

ORIGINAL = 0
"""The number of the specification as it stands."""


@dataclass(frozen=True, slots=True)
class Form:
    """Another form of one function, with a number from 1 on. `names` are known to it beside those of its module."""

    number: int
    function: FunctionType
    tree: ast.FunctionDef
    names: Mapping[str, Any] = field(default_factory=dict)


class Made(NamedTuple):
    """A function that was compiled: what it is known by, its syntax, and what names mean in its body."""

    key: object
    source: Source
    instance: Instance
    scope: Scope


class Forms:
    """The forms of a unit, and those that the compiler refused, each with the reason."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.refused: dict[int, str] = {}
        self.only: dict[int, int] = {}
        """Functions that one form alone needs have no other forms."""
        self._all = tuple(forms)
        self._names: dict[int, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def last(self) -> int:
        """The largest number."""
        return max((form.number for form in self._all), default=ORIGINAL)

    def of(self, made: Made) -> Iterator[Form]:
        """The forms of a function."""
        only = self.only.get(id(made.instance))
        for form in self._all:
            if form.function is made.key and form.number not in self.refused and only in (None, form.number):
                yield form

    def source(self, form: Form, original: Source) -> Source:
        """The syntax of a form. Raises CompileError if a variable may be read before it has a value."""
        unbound = may_lack_a_value(form.tree)
        if unbound:
            raise CompileError(f"{original.qualname}: {', '.join(sorted(unbound))} may have no value")
        names = original.globals
        if form.names:
            names = self._names.setdefault(id(names), {**names, **form.names})
        return Source(form.tree, original.filename, names, original.qualname)
