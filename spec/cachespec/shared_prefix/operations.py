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
    """The scheduler plans a step and the worker executes it.

    Returns what was scheduled: request, tokens, request, tokens, and so on.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("scheduler", "worker")


@dataclass(frozen=True, slots=True)
class Finish(Operation):
    """The request has its last token, or its client has gone. Its prefix stays cached."""

    lane: ClassVar[tuple[str, str]] = ("client", "scheduler")

    request: Request
