"""The interface of an implementation in Python: what a `python:` target must provide.

A *factory* takes a configuration, a named tuple with the fields that the component declares, and returns an object in
its initial state. The object is one of two:

- one with `apply(operation)` and `observe()`, an `Implementation`; it may have `reset(config)`, and is then made once
  and begun again, rather than made anew for each run;
- one with a method for each operation, named as on the wire (`put`, `can_allocate`), that takes the fields of the
  operation in their order. What it shows are its attributes, properties or methods named as the observables.

Either may have `close()`. A public method that is no operation, no observable and none of these is refused as misspelt;
a helper's name begins with `_`.

What the factory says of itself stands in its attributes `implementation`, `features`, `deviations` and `own`, as in the
`hello` of the line protocol; a class with methods declares the operations that it has. docs/your_implementation.md is a
tutorial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from cachespec.kernel import Code, Operation, Outcome

Answer = Outcome | Code | str | bool | tuple[Code | str, Iterable[int]] | None
"""How a call ended. A code, alone or with the integers that the call returned. None is `done`; True is `hit` and False
is `miss`, for calls that ask whether something is there."""

Shown = int | Iterable[int]
"""What is shown under one name: an integer, or integers in their order. A set has no order and is refused."""


class Implementation(Protocol):
    """One instance of an implementation, in one configuration."""

    def apply(self, operation: Operation) -> Answer:
        """Perform one whole call.

        An AssertionError is an answer (`failed`), any other exception a crash of the implementation.
        """
        ...

    def observe(self) -> Mapping[str, Shown]:
        """The observables that this implementation shows; those that it leaves out are not compared."""
        ...


Factory = Callable[[Any], object]
"""Takes the configuration and returns an implementation, of one form or the other."""

__all__ = ["Answer", "Code", "Factory", "Implementation", "Operation", "Outcome", "Shown"]
