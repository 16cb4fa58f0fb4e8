"""What happens to an engine beside what happens to its parts.

The parts keep their own words: a message of the mirror is delivered by the mirror's `Deliver`, a round is the
scheduler's `Schedule`. Only what ties them together is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.engine.configuration import Request, WorkerName
from cachespec.kernel import Kind, Operation


@dataclass(frozen=True, slots=True)
class SubmitRequest(Operation):
    """A client's request reaches its frontend, which updates P0 and sends the message."""

    lane: ClassVar[tuple[str, str]] = ("client", "P0")
    request: Request


@dataclass(frozen=True, slots=True)
class DeliverRequest(Operation):
    """P1 takes a request that carries handles; a request with a mirror arrives with `Deliver`."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Cancel(Operation):
    """The client disconnects, at any time after it sent the request."""

    lane: ClassVar[tuple[str, str]] = ("client", "P0")
    setting: ClassVar[str] = "aborts"
    request: Request


@dataclass(frozen=True, slots=True)
class DeliverAbort(Operation):
    """P1 learns that the request's client has disconnected."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "P1")
    setting: ClassVar[str] = "aborts"
    request: Request


@dataclass(frozen=True, slots=True)
class Execute(Operation):
    """A worker executes the oldest step of its inbox."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "W")
    worker: WorkerName
