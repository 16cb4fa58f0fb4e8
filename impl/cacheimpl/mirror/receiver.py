"""P1: a partition of the cache for each sender, with the payloads beside the order."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cacheimpl.mirror.errors import BadMessageError, InvalidCapacityError, MissingPayloadError
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
    checked_name,
    is_item,
)
from cacheimpl.mirror.order import RecencyOrder, Walk


class Delivery(NamedTuple):
    """What became of a message."""

    answer: Answer
    payloads: tuple[Any, ...] | None
    """For each item of the message its payload, where the message was applied now; None where it was not."""


class Admission(NamedTuple):
    """The session that P1 admitted last under a name."""

    session: int
    incarnation: int
    """The number that this session names in its questions."""
    following: int
    """The number that another session has to name: drawn afterwards, so no question from before can name it."""


class Partition:
    """A sender's part of P1."""

    def __init__(self, capacity: int, session: int, generation: int, expected: int) -> None:
        self.order = RecencyOrder(capacity)
        self.session = session
        self.generation = generation
        self.expected = expected
        self.payloads: dict[str, Any] = {}
        """For each key of the order its payload."""


class MirrorReceiver:
    """The engine core's side, for up to so many senders. It takes messages and gives answers; see `MirrorSender`.

    `capacity` is the bytes of one partition. Only the next message of the newest generation is applied; nothing else is
    read (MIR-3, MIR-8, MIR-12). Not safe for threads, and it takes one message at a time.
    """

    def __init__(self, capacity: int, partitions: int = 1) -> None:
        if not is_item("", capacity) or not is_item("", partitions) or 0 in (capacity, partitions):
            raise InvalidCapacityError(f"bytes and partitions are positive, not {capacity!r} and {partitions!r}")
        self.capacity = capacity
        self.most = partitions
        self.incarnation = _new_incarnation()
        """Another number after every `reset` and in every process."""
        self._partitions: dict[str, Partition] = {}
        self._admissions: dict[str, Admission] = {}
        self._forgotten: dict[str, int] = {}
        """The last generation of each sender that was forgotten alone: a join that was on its way is not granted."""

    @property
    def senders(self) -> tuple[str, ...]:
        """The senders that have a partition."""
        return tuple(self._partitions)

    def order(self, sender: str) -> tuple[Item, ...]:
        """What is held for a sender, oldest first."""
        partition = self._partitions.get(checked_name(sender))
        return () if partition is None else tuple(partition.order)

    def payloads(self, sender: str) -> Mapping[str, Any]:
        """The payloads that are held for a sender, by key."""
        partition = self._partitions.get(checked_name(sender))
        return MappingProxyType({} if partition is None else partition.payloads)

    def receive(self, message: Message) -> Delivery:
        """Apply the message if it is in its turn, and say what to answer.

        Raises `BadMessageError` for what is no message, `MissingPayloadError` where it is in its turn, and an item is
        neither in it nor held; then nothing has changed.
        """
        checked(message, Message)
        partition = self._partitions.get(message.sender)
        if partition is None or message.session != partition.session or message.generation < partition.generation:
            return Delivery(answer_to(message, message.generation, NONE, Verdict.STALE), None)
        if message.sequence != partition.expected or not message.items:
            partition.generation = message.generation
            if message.sequence > partition.expected:
                answer = answer_to(message, message.generation, partition.expected, Verdict.GAP)
            else:
                answer = answer_to(message, NONE, partition.expected, Verdict.ACCEPTED)
            return Delivery(answer, None)
        _check_sizes(partition, message)
        walk = partition.order.plan(message.items)
        used = _used(partition, message, walk)
        _apply(partition, walk, {item.key: payload for item, payload in zip(message.items, used, strict=True)})
        partition.generation = message.generation
        partition.expected += 1
        return Delivery(answer_to(message, NONE, partition.expected, Verdict.ACCEPTED), used)

    def admit(self, request: JoinRequest) -> Grant | Refusal:
        """Grant the sender a partition, empty, whatever it had before; the same question again gets the same grant.

        A frontend that begins again under its name has another session. It gets an empty partition in the place of the
        old one. Questions of its earlier life that are still on their way name an earlier incarnation, and are refused.
        """
        checked(request, JoinRequest)
        last = self._admissions.get(request.sender)
        wanted = self._incarnation_for(request, last)
        if request.incarnation != wanted:
            return self._refused(request, wanted, Reason.INCARNATION)
        partition = self._partitions.get(request.sender)
        if partition is None and len(self._partitions) >= self.most:
            return self._refused(request, wanted, Reason.FULL)
        if last is None or last.session != request.session:
            self._admissions[request.sender] = Admission(request.session, wanted, _new_incarnation())
            partition = None
        else:
            known = self._forgotten.get(request.sender, NONE) + 1 if partition is None else partition.generation
            if request.generation < known:
                return self._refused(request, wanted, Reason.LATE)
        if partition is None or request.generation > partition.generation:
            fresh = Partition(self.capacity, request.session, request.generation, request.sequence)
            self._partitions[request.sender] = fresh
        return Grant(request.sender, request.session, wanted, request.generation)

    def reset(self) -> None:
        """Forget everything (sleep, weight update): messages are refused until their senders have joined again."""
        self._partitions.clear()
        self._admissions.clear()
        self._forgotten.clear()
        self.incarnation = _new_incarnation()

    def forget(self, sender: str) -> None:
        """Forget the partition of one sender, which is gone or has to join again; for others nothing changes."""
        partition = self._partitions.pop(checked_name(sender), None)
        if partition is not None:
            self._forgotten[sender] = partition.generation

    def _incarnation_for(self, request: JoinRequest, last: Admission | None) -> int:
        """The number that the request has to name."""
        if last is None:
            return self.incarnation
        return last.incarnation if last.session == request.session else last.following

    def _refused(self, request: JoinRequest, incarnation: int, reason: Reason) -> Refusal:
        return Refusal(request.sender, request.session, incarnation, request.generation, reason)


def answer_to(message: Message, generation: int, expected: int, verdict: Verdict) -> Answer:
    """The answer to the session that sent the message."""
    return Answer(message.sender, message.session, generation, expected, verdict)


def _check_sizes(partition: Partition, message: Message) -> None:
    """Raises `BadMessageError` where an item has another size than is held, or than before in the same message."""
    sizes: dict[str, int] = {}
    for key, size in message.items:
        held = partition.order.size(key)
        known = sizes.setdefault(key, size if held is None else held)
        if known != size:
            raise BadMessageError(f"message: item {key!r} has {known} bytes, not {size}")


def _used(partition: Partition, message: Message, walk: Walk) -> tuple[Any, ...]:
    """For each item its payload: of the message, of the same request before, or what is held."""
    used: list[Any] = []
    missing: list[str] = []
    fresh: dict[str, Any] = {}
    for (key, _), payload, need in zip(message.items, message.payloads, walk.needed, strict=True):
        if payload is not None:
            fresh[key] = payload
        elif need:
            missing.append(key)
            continue
        elif key in missing:  # the walk took it for stored at its first place
            continue
        elif key not in fresh:
            fresh[key] = partition.payloads[key]
        used.append(fresh[key])
    if missing:
        raise MissingPayloadError(tuple(missing))
    return tuple(used)


def _apply(partition: Partition, walk: Walk, fresh: Mapping[str, Any]) -> None:
    """Order and payloads change together."""
    partition.order.apply(walk)
    for key in walk.leaving:
        del partition.payloads[key]
    for key, _ in walk.newest:
        if key not in partition.payloads:
            partition.payloads[key] = fresh[key]


def _new_incarnation() -> int:
    return secrets.randbits(62)
