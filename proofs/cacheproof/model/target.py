"""What an implementation under test has to be: something that takes operations and shows observables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.declaration import CLAIMS
from cachespec.kernel import DONE, Observation, Operation, Outcome


class Failure(Enum):
    """How a driver or its connection failed: what reports name."""

    TIMED_OUT = "timed_out"
    """No answer within the time for it: a hang, or a child that is too slow."""
    CRASHED = "crashed"
    """The child ended, or closed its output."""
    GARBAGE = "garbage"
    """An answer that is no message, or no answer to what was asked."""
    TOO_LONG = "too_long"
    """A line longer than the side that reads it takes."""
    SPOKE_UNASKED = "spoke_unasked"
    """More than one answer, or one before anything was asked."""
    REFUSED = "refused"
    """The child answered with an error of its own."""
    WRONG_VERSION = "wrong_version"
    """The child speaks another version of the protocol."""
    RAISED = "raised"
    """An exception in an implementation in this process, during a call."""
    DRIVER_FAILED = "driver_failed"
    """Anything else that is no answer of a driver in this process, such as an exception before the first call."""


class TargetError(InconclusiveError):
    """The driver or its connection failed: not a verdict on the implementation."""

    def __init__(self, text: str, failure: Failure = Failure.DRIVER_FAILED, details: str = "") -> None:
        super().__init__(text)
        self.failure = failure
        self.details = details
        """The traceback of the implementation, or its standard error: several lines, or empty."""


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


T = TypeVar("T")


def once_reset(made: T | None) -> T:
    """What `reset` made; raises `TargetError` before the first one, and after `close`."""
    if made is None:
        raise TargetError("the target was not reset to a configuration yet")
    return made


class ByOperation:
    """A target with a method for each operation that it has, which is named `_` and then as the operation is.

    A method without an outcome is done.
    """

    def apply(self, operation: Operation) -> Outcome:
        """Perform one whole call and say how it ended."""
        # Joined, not formatted: CrossHair makes a formatted text symbolic, and no attribute has such a name.
        perform: Callable[[Operation], Outcome | None] = getattr(self, "_" + operation.wire_name(), self.lacking)
        return perform(operation) or DONE

    def close(self) -> None:
        """Nothing is held, unless a target says so."""

    def lacking(self, operation: Operation) -> Outcome:
        """How a call ends for which there is no method. Raises `TargetError`."""
        raise TargetError(f"there is no call for {operation.wire_name()}")


@dataclass(frozen=True)
class _Factory(Generic[T]):
    """What `python:MODULE:FACTORY` names: a factory of targets of one component, which `make` makes."""

    component: str
    make: Callable[[], T]
    claims = CLAIMS
    """Its names are the specification's."""

    def __call__(self, asked: object) -> T:
        """The target, for a configuration or for the name of the component."""
        if isinstance(asked, str) and asked != self.component:
            raise InputError(f"this is a target of {self.component}, not of {asked}")
        return self.make()


def factory_of(component: str, make: Callable[[], T]) -> Callable[[object], T]:
    """What `python:MODULE:FACTORY` names: a factory of targets of one component, which `make` makes.

    It is given a configuration, which the target's `reset` is given again, or the name of a component; raises
    `InputError` for that of another.
    """
    return _Factory(component, make)
