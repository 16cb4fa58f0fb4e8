"""What an implementation under test has to be: something that takes operations and shows observables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cacheproof.errors import InconclusiveError
from cachespec.kernel import Observation, Operation, Outcome


class TargetError(InconclusiveError):
    """The driver or its connection failed: not a verdict on the implementation."""


class Target(Protocol):
    """One instance of an implementation of one component, in one configuration."""

    def reset(self, config: Any) -> None:
        """Begin again from the initial state of this configuration."""
        ...

    def apply(self, operation: Operation) -> Outcome:
        """Perform one whole call and say how it ended. An assertion inside the implementation is an outcome."""
        ...

    def observe(self) -> Mapping[str, Observation]:
        """The observables that this implementation shows; those it leaves out are not compared."""
        ...

    def close(self) -> None:
        """Give back what the target holds."""
        ...
