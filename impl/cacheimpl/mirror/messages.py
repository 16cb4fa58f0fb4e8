"""The messages between the two sides, and their plain form: lists of integers, texts and payloads, as msgpack has them.

Source: the normative protocol, with two additions.

- A join is one step there. Here it is a question and an answer, which may both be late. The question names an
  *incarnation* of P1, so a question from before P1 forgot everything is not granted afterwards.
- A sender is one process there. Here a frontend may restart under its old name. Every message names the *session*, a
  random number of one life of the frontend: no message, answer or grant of an earlier life counts in a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from cacheimpl.mirror.errors import BadMessageError

NONE = -1
"""No generation, no sequence number, no incarnation."""


class Item(NamedTuple):
    """One item of a request."""

    key: str
    """What the content is known by; equal keys are equal contents."""
    size: int
    """Bytes. P1 counts what P0 has measured."""


class Message(NamedTuple):
    """A request on its way to P1. Without items it is a probe: it asks how far P1 has come."""

    sender: str
    session: int
    """Of the sender: drawn at random by each process that begins under this name."""
    generation: int
    sequence: int
    items: tuple[Item, ...]
    payloads: tuple[Any, ...]
    """For each item its payload, or None where P1 has it."""


class Verdict(IntEnum):
    """What P1 says to a message."""

    ACCEPTED = 0
    """It is applied, now or earlier."""
    GAP = 1
    """One before it has not arrived."""
    STALE = 2
    """P1 has granted no partition, or a newer one."""


class Answer(NamedTuple):
    """P1's answer to one message. A confirmation is good for ever and names no generation; a complaint is about one."""

    sender: str
    session: int
    generation: int
    expected: int
    """The sequence number that P1 expects next; all before it are applied."""
    verdict: Verdict


class JoinRequest(NamedTuple):
    """A sender asks for a partition. P1 forgets what it held for this sender."""

    sender: str
    session: int
    incarnation: int
    """Of P1, as far as the sender knows it. P1 draws a new one when it starts or forgets everything, and for a name
    whenever it admits another session of it."""
    generation: int
    sequence: int
    """Of the first message to come."""


class Grant(NamedTuple):
    """The partition is there, empty."""

    sender: str
    session: int
    incarnation: int
    generation: int


class Reason(IntEnum):
    """Why a join is refused."""

    INCARNATION = 0
    """It was meant for P1 before it forgot everything or admitted another session: the refusal names the one to ask."""
    FULL = 1
    """Every partition is granted to others."""
    LATE = 2
    """P1 has seen this generation, or a newer one, and does not grant it again."""


class Refusal(NamedTuple):
    """No partition."""

    sender: str
    session: int
    incarnation: int
    generation: int
    reason: Reason


AnyMessage = Message | Answer | JoinRequest | Grant | Refusal

KINDS: Mapping[str, type[AnyMessage]] = MappingProxyType(
    {"message": Message, "answer": Answer, "join": JoinRequest, "grant": Grant, "refusal": Refusal}
)
NAMES: Mapping[type[AnyMessage], str] = MappingProxyType({kind: name for name, kind in KINDS.items()})


def plain(message: AnyMessage) -> list[Any]:
    """The kind of the message and its fields; payloads as they are, everything else lists, texts and integers."""
    fields: list[Any] = list(message)
    if isinstance(message, Message):
        fields[4:] = [[list(item) for item in message.items], list(message.payloads)]
    elif isinstance(message, Answer | Refusal):
        fields[-1] = int(fields[-1])
    return [NAMES[type(message)], *fields]


def from_plain(given: object) -> AnyMessage:
    """The message of a plain form; raises `BadMessageError` for anything that `plain` does not make."""
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], str):
        raise BadMessageError("a message is a list that begins with its kind")
    kind, fields = KINDS.get(given[0]), list(given[1:])
    if kind is None or len(fields) != len(kind._fields):
        raise BadMessageError(f"there is no message {given[0]!r} of {len(fields)} fields")
    if not isinstance(fields[0], str):
        raise BadMessageError(f"{given[0]}: the sender is a text, not {fields[0]!r}")
    if kind is Message:
        fields[4], fields[5] = _items(fields[4]), _payloads(fields[4], fields[5])
    for name, value in zip(kind._fields[1:], fields[1:], strict=True):
        if name not in ("items", "payloads") and not _is_integer(value):
            raise BadMessageError(f"{given[0]}: {name} is an integer, not {value!r}")
    try:
        if kind is Answer:
            fields[-1] = Verdict(fields[-1])
        if kind is Refusal:
            fields[-1] = Reason(fields[-1])
    except ValueError as error:
        raise BadMessageError(f"{given[0]}: {error}") from None
    return kind(*fields)


def checked(message: object, *kinds: type[AnyMessage]) -> None:
    """Raises `BadMessageError` for a message that is not of one of these kinds, or that `from_plain` would not make."""
    if type(message) not in kinds:
        wanted = " or ".join(NAMES[kind] for kind in kinds)
        raise BadMessageError(f"a message must be one of this kind: {wanted}, not {type(message).__name__}")
    assert isinstance(message, tuple)
    sender, *numbers = message
    kind = next(kind for kind in kinds if type(message) is kind)
    name, fields = NAMES[kind], kind._fields
    if not isinstance(sender, str):
        raise BadMessageError(f"{name}: the sender is a text, not {sender!r}")
    if isinstance(message, Message):
        given: Any = message
        items, payloads = given.items, given.payloads
        numbers = numbers[:3]
        if not isinstance(items, tuple) or not all(isinstance(one, Item) and is_item(*one) for one in items):
            raise BadMessageError("message: items are pairs of a key and a size in bytes")
        _payloads(items, payloads)
    if isinstance(message, Answer | Refusal):
        *numbers, last = numbers
        if not isinstance(last, Verdict | Reason):
            raise BadMessageError(f"{name}: {message._fields[-1]} is one of those that there are, not {last!r}")
    for field, number in zip(fields[1:], numbers, strict=False):
        if not _is_integer(number):
            raise BadMessageError(f"{name}: {field} is an integer from {NONE} on, not {number!r}")


def checked_name(sender: object) -> str:
    """Raises `BadMessageError` for a sender's name that is no text."""
    if not isinstance(sender, str):
        raise BadMessageError(f"the name of a sender is a text, not {sender!r}")
    return sender


def is_item(key: object, size: object) -> bool:
    """Whether this is an item: a text, and bytes that are not negative."""
    return isinstance(key, str) and isinstance(size, int) and not isinstance(size, bool) and size >= 0


def _items(given: object) -> tuple[Item, ...]:
    pairs = given if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and is_item(*pair) for pair in pairs):
        raise BadMessageError("message: items are pairs of a key and a size in bytes")
    return tuple(Item(*pair) for pair in pairs)


def _payloads(items: object, given: object) -> tuple[Any, ...]:
    if not isinstance(given, list | tuple) or not isinstance(items, list | tuple) or len(given) != len(items):
        raise BadMessageError("message: there is a payload, or None, for each item")
    return tuple(given)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= NONE
