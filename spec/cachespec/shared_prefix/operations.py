"""What happens: requests arrive and end, and the engine takes a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.shared_prefix.configuration import Request


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """The request arrives and waits."""

    lane: ClassVar[tuple[str, str]] = ("client", "scheduler")

    request: Request


@dataclass(frozen=True, slots=True)
class Step(Operation):
    """The scheduler plans one step, and the worker executes it.

    Returns request and token count of each scheduled request.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("scheduler", "worker")


@dataclass(frozen=True, slots=True)
class Finish(Operation):
    """The request is finished or its client has disconnected. Its prefix stays cached."""

    lane: ClassVar[tuple[str, str]] = ("client", "scheduler")

    request: Request


OPERATIONS: tuple[type[Operation], ...] = (
    Add,
    Step,
    Finish,
)
