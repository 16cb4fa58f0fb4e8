"""What the body of a function asks of the compiler that compiles it."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any, Protocol

from cacheproof.search.native.source import Source
from cacheproof.search.native.types import Tup, Type
from cacheproof.search.native.unit import CompileError, Instance, Unit
from cacheproof.search.native.values import Val
from cachespec.kernel import Variant


class Services(Protocol):
    """The compiler, as the body of a function sees it."""

    unit: Unit

    def cannot(self, about: str) -> CompileError:
        """An error without a place."""
        ...

    def hints(self, function: FunctionType) -> dict[str, Any]:
        """The annotations of a function, as far as they can be evaluated."""
        ...

    def hints_of_syntax(self, source: Source) -> dict[str, Any]:
        """The annotations of an inner function."""
        ...

    def hint(self, annotation: ast.expr, source: Source) -> Any:
        """An annotation by its syntax; None where it cannot be evaluated."""
        ...

    def instance(
        self,
        source: Source,
        frees: dict[str, Val],
        itself: Val | None,
        given: dict[str, Val],
        returns: Any,
        key: object,
        *,
        kept: bool,
    ) -> Instance:
        """The function for these types of arguments."""
        ...

    def check_hint(self, kind: Type, hint: Type) -> None:
        """Raise where a function gives back a record of another class than it is annotated with."""
        ...

    def agree(self, kind: Type, hint: Type) -> bool:
        """Whether a value of a type can be one of another, as far as records go."""
        ...

    def result_of(self, state: Type) -> Tup:
        """What a transition gives."""
        ...

    def unsupported(self) -> Val:
        """The outcome of an operation that a variant lacks."""
        ...

    def dispatch(self, variant: Variant[Any, Any, Any], config: Type, state: Type) -> tuple[str, Tup]:
        """The function that steps a variant by an operation of any class."""
        ...

    def ask_class(self, owner: type) -> None:
        """Operations are asked whether they are of this class."""
        ...

    def class_name(self, owner: type) -> str:
        """The name under which operations are asked for a class."""
        ...
