"""A channel that loses messages and delays them, by seeded choices; the names of messages, and their wire form.

Faults are put in on the way out of each process, so that both directions have them. A delayed message is overtaken by
those that are sent after it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import msgspec

from cacheimpl.mirror.errors import BadMessageError
from cacheimpl.mirror.example.settings import Settings
from cacheimpl.mirror.messages import AnyMessage, from_plain, plain


class Envelope(NamedTuple):
    """A message with the name that the recordings call it by."""

    name: str
    message: AnyMessage


def packed(envelope: Envelope) -> bytes:
    """As it goes over the wire."""
    return msgspec.msgpack.encode([envelope.name, plain(envelope.message)])


def unpacked(data: bytes) -> Envelope:
    """Back. Raises `BadMessageError` for bytes that are no message, whatever they are."""
    try:
        name, message = msgspec.msgpack.decode(data, type=tuple[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessageError(f"no message: {error}") from error
    return Envelope(name, from_plain(message))


class FaultyChannel:
    """What one process sends, with faults. `send` is the transport: it takes a destination and bytes."""

    def __init__(self, settings: Settings, process: str, send: Callable[[str, bytes], None]) -> None:
        self._settings, self._process, self._send = settings, process, send
        self._source = random.Random(f"{settings.seed}/{process}/faults")  # noqa: S311  # faults, not a secret
        self._numbers = count()
        self._later: list[tuple[float, int, str, bytes]] = []
        self.lost = self.late = 0

    def named(self, message: AnyMessage) -> Envelope:
        """The message with a name that no other has."""
        return Envelope(f"{self._process}:{next(self._numbers)}", message)

    def post(self, destination: str, envelope: Envelope) -> None:
        """Send it now, or later, or never."""
        chance, due = self._source.random(), time.monotonic() + self._source.uniform(0, self._settings.latest)
        if chance < self._settings.drop:
            self.lost += 1
        elif chance < self._settings.drop + self._settings.delay:
            self.late += 1
            heappush(self._later, (due, next(self._numbers), destination, packed(envelope)))
        else:
            self._send(destination, packed(envelope))

    def deliver_what_is_due(self) -> None:
        """Send what was delayed until now."""
        while self._later and self._later[0][0] <= time.monotonic():
            _, _, destination, data = heappop(self._later)
            self._send(destination, data)
