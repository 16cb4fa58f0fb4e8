"""P0: a frontend's record of what P1 holds for it, and the messages that no answer has confirmed yet."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cacheimpl.mirror.errors import (
    BadMessageError,
    InvalidCapacityError,
    InvalidItemError,
    NotJoinedError,
    SizeMismatchError,
)
from cacheimpl.mirror.messages import (
    NONE,
    Answer,
    Grant,
    Item,
    JoinRequest,
    Message,
    Reason,
    Refusal,
    Verdict,
    checked,
    is_item,
)
from cacheimpl.mirror.order import RecencyOrder

PayloadOf = Callable[[int], Any]
"""The payload of an item of a request, by the item's position. It is read whenever the item is sent: first if P1 lacks
it, and again if a fault makes that necessary, until P1 has confirmed the request."""


class Unconfirmed(NamedTuple):
    """A request that P1 is not known to have applied."""

    sequence: int
    items: tuple[Item, ...]
    needed: tuple[bool, ...]
    payload_of: PayloadOf
    tag: Any
    """Whatever the caller knows the request by."""


class MirrorSender:
    """One frontend. It gives messages and takes answers, and knows nothing of how they travel.

    The rules are those of the normative protocol: P0 changes only together with a message (MIR-4); messages carry
    consecutive numbers, over all epochs; what is unconfirmed goes out again, unchanged and in order, when P1 reports a
    gap, and only then (MIR-10). Not safe for threads: one thread, or a lock around it, owns a sender.
    """

    def __init__(self, name: str, capacity: int) -> None:
        if not is_item(name, capacity) or capacity == 0:
            raise InvalidCapacityError(
                f"a sender has a name and a positive number of bytes, not {name!r}, {capacity!r}"
            )
        self.name = name
        self.session = secrets.randbits(62)
        """Of this object: a frontend that begins again under the same name has another."""
        self.order = RecencyOrder(capacity)
        """What P1 holds once it has applied every message."""
        self.generation = 0
        self.next = 0
        """Sequence number of the next request."""
        self.joined = False
        """Whether P1 has granted a partition, as far as the sender knows."""
        self._log: deque[Unconfirmed] = deque()
        self._sent = 0
        """How many of the log are out in this generation."""
        self._incarnation = NONE
        self._asked: JoinRequest | None = None

    @property
    def unconfirmed(self) -> tuple[Unconfirmed, ...]:
        """The requests that no answer has confirmed, oldest first."""
        return tuple(self._log)

    @property
    def backlog(self) -> int:
        """How many messages have still to go out, again or for the first time."""
        return len(self._log) - self._sent

    @property
    def waits_for_grant(self) -> bool:
        """Whether the sender has asked for a partition; until it has one, it takes no answers."""
        return self._asked is not None

    def is_cached(self, key: str) -> bool:
        """Whether P1 will have the item, so that it need not be processed. Changes nothing."""
        if not isinstance(key, str):
            raise InvalidItemError(f"the key of an item is a text, not {key!r}")
        return key in self.order

    # Requests -------------------------------------------------------------------------------------------------------

    def submit(self, items: Iterable[tuple[str, int]], payload_of: PayloadOf, tag: Any = None) -> Message | None:
        """Update the record for one request, and give its message; None where it has to wait behind the backlog.

        Items are pairs of key and bytes, in prompt order. Raises `NotJoinedError` without a partition,
        `InvalidItemError`, `SizeMismatchError`, and whatever `payload_of` raises; then nothing has changed.
        """
        request = self._checked(items)
        if not callable(payload_of):
            raise InvalidItemError(f"payload_of must be a function of an item's place, not {payload_of!r}")
        if not self.joined:
            raise NotJoinedError(f"{self.name} has no partition: it has to join first")
        walk = self.order.plan(request)
        entry = Unconfirmed(self.next, request, walk.needed, payload_of, tag)
        message = self._message(entry) if self.backlog == 0 else None
        self.order.apply(walk)
        self._log.append(entry)
        self.next += 1
        self._sent += message is not None
        return message

    def transmit(self) -> Message | None:
        """The next message of the backlog; None where there is none, or no partition."""
        if not self.joined or self.backlog == 0:
            return None
        message = self._message(self._log[self._sent])
        self._sent += 1
        return message

    def expire(self) -> Message | None:
        """No answer came for too long: a probe, which asks how far P1 is; None where nothing is unconfirmed."""
        if not self.joined or not self._log:
            return None
        return Message(self.name, self.session, self.generation, self.next, (), ())

    def receive(self, answer: Answer) -> tuple[Any, ...]:
        """Take an answer, and give the tags of the requests that it confirms, oldest first.

        An answer to an earlier session of this name confirms nothing. While the sender waits for a grant it takes no
        answers, because the grant decides its requests anew. Afterwards there may be a backlog, or no partition. Raises
        `BadMessageError`.
        """
        checked(answer, Answer)
        self._check_name(answer.sender)
        if self.waits_for_grant or answer.session != self.session:
            return ()
        if answer.expected > self.next:
            raise BadMessageError(f"answer: {self.next} requests were submitted, and {answer.expected} are confirmed")
        confirmed = []
        while self._log and self._log[0].sequence < answer.expected:
            confirmed.append(self._log.popleft().tag)
            self._sent = max(self._sent - 1, 0)
        if self.joined and answer.generation == self.generation:
            if answer.verdict == Verdict.STALE:
                self.joined = False
            elif answer.verdict == Verdict.GAP and self._log and answer.expected == self._log[0].sequence:
                self.generation += 1
                self._sent = 0
        return tuple(confirmed)

    # Epochs ---------------------------------------------------------------------------------------------------------

    def ask(self) -> JoinRequest | None:
        """The question for a partition, for the first time or again; None where the sender has one."""
        if self.joined:
            return None
        self._asked = JoinRequest(self.name, self.session, self._incarnation, self.generation + 1, self.next)
        return self._asked

    def take_grant(self, grant: Grant) -> bool:
        """An epoch begins: both sides are empty, and what is unconfirmed is decided anew (MIR-8).

        False if the sender does not wait for this grant; then nothing has changed.
        """
        checked(grant, Grant)
        self._check_name(grant.sender)
        asked = self._asked
        if asked is None or grant != Grant(*asked[:4]):
            return False
        unanswered = tuple(self._log)
        self._asked, self.joined, self.generation, self._sent = None, True, grant.generation, 0
        self._log.clear()
        self.order.clear()
        for entry in unanswered:
            walk = self.order.plan(entry.items)
            self.order.apply(walk)
            self._log.append(entry._replace(sequence=self.next, needed=walk.needed))
            self.next += 1
        return True

    def take_refusal(self, refusal: Refusal) -> JoinRequest | None:
        """What to ask instead, where P1 is another one by now or has seen the number; None where nothing helps yet."""
        checked(refusal, Refusal)
        self._check_name(refusal.sender)
        asked = self._asked
        if asked is None or (refusal.session, refusal.generation) != (asked.session, asked.generation):
            return None
        if refusal.reason is Reason.INCARNATION and refusal.incarnation != asked.incarnation:
            self._incarnation = refusal.incarnation
        elif refusal.reason is Reason.LATE and refusal.incarnation == asked.incarnation:
            self.generation = asked.generation  # P1 has seen it and forgotten the partition: it cannot be used again
        else:
            return None
        return self.ask()

    def reset(self) -> None:
        """Forget what P1 holds; the sender has to join before it sends again. What is unconfirmed stays to be sent."""
        self.joined = False
        self.order.clear()

    # Inside ---------------------------------------------------------------------------------------------------------

    def _check_name(self, sender: str) -> None:
        if sender != self.name:
            raise BadMessageError(f"a message to the sender {sender!r} was given to {self.name!r}")

    def _message(self, entry: Unconfirmed) -> Message:
        payloads = tuple(entry.payload_of(place) if need else None for place, need in enumerate(entry.needed))
        for (key, _), need, payload in zip(entry.items, entry.needed, payloads, strict=True):
            if need and payload is None:
                raise InvalidItemError(f"{key} has to be sent, and its payload is None, which means that P1 has it")
        return Message(self.name, self.session, self.generation, entry.sequence, entry.items, payloads)

    def _checked(self, items: Iterable[tuple[str, int]]) -> tuple[Item, ...]:
        try:
            request = tuple(Item(*item) for item in items)
        except TypeError:
            raise InvalidItemError(f"items must be pairs of key and bytes, not {items!r}") from None
        sizes: dict[str, int] = {}
        for key, size in request:
            if not is_item(key, size):
                raise InvalidItemError(f"an item is a text and a number of bytes, not {key!r}, {size!r}")
            known = sizes.setdefault(key, size if (held := self.order.size(key)) is None else held)
            if known != size:
                raise SizeMismatchError(f"{key} has {known} bytes, not {size}")
        if not request:
            raise InvalidItemError("a request has at least one item")
        return request
