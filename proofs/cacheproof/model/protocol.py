"""The line protocol: one JSON object a line, flat, with ASCII keys, integers and arrays. See docs/formats/protocol.md.

Both ends use this module: the oracle (`serve`), which answers for the specification, and the child target, which asks
an implementation. A message that is not of this form is refused here, before anything looks at its meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from cacheproof.foundation.errors import shortened as shortened  # noqa: PLC0414  # messages and what is quoted in them go together
from cacheproof.model.wire import Message

VERSION = "1.0"
"""MAJOR.MINOR. From 1.0 on a minor version only adds what a peer may leave out or ignore: children in other languages
rest on it. Before, both sides had to speak the same version, so that any addition would have broken them all."""
EARLIER = "0.1"
"""What is still spoken with peers that speak it: the same messages, and a `hello` that says nothing but the version."""
LONGEST_LINE_BYTES = 1 << 20
"""With the newline. A longer line is refused and skipped."""
DEEPEST = 8
"""How deep arrays may be nested; only configurations nest at all."""
LARGEST_INTEGER = (1 << 63) - 1

RESERVED = frozenset({"do", "op", "protocol", "component", "variant", "answer", "code", "values", "error", "text"})
"""Keys of the protocol itself: no configuration, operation or observable may have a field of this name."""


class Fault(Enum):
    """Why a line was refused. The code is identity; the text beside it is free."""

    TOO_LONG = "too_long"
    """The line is longer than 1 MiB; it was skipped."""
    NOT_A_MESSAGE = "not_a_message"
    """Not one JSON object in UTF-8 with distinct keys, integers of 64 bits, arrays and strings."""
    UNKNOWN_REQUEST = "unknown_request"
    """`do` is missing or names nothing of this protocol, or the protocol's version is another one."""
    OUT_OF_TURN = "out_of_turn"
    """There is no component yet: `init` comes first."""
    WRONG_FIELD = "wrong_field"
    """A component, variant, configuration, operation or field that is not what it must be."""
    NO_ANSWER = "no_answer"
    """The specification itself failed: a bug in it, or more memory than there is. The state is as it was."""


class RefusedError(Exception):
    """A line that is not taken: the fault, and a text for people."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault

    def as_message(self) -> Message:
        """The error as an answer."""
        return {"answer": "error", "error": self.fault.value, "text": shortened(str(self))}


def agreed(version: Any) -> str | None:
    """The version in which a peer that speaks the given one is answered; None where there is none."""
    if version == EARLIER:
        return EARLIER
    parts = re.fullmatch(r"([0-9]{1,9})\.[0-9]{1,9}", version) if isinstance(version, str) else None
    return VERSION if parts is not None and parts[1] == VERSION.partition(".")[0] else None


def encode(message: Message) -> bytes:
    """The message as one line, newline included, in ASCII."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """The message on a line, or RefusedError: never anything else, whatever the bytes are."""
    message = decode_object(line)
    for key, value in message.items():
        _check_value(key, value, DEEPEST)
    return message


def decode_object(line: bytes) -> Message:
    """The JSON object on a line: distinct keys, integers of 64 bits, and no other numbers; or RefusedError.

    What its values are has to be looked at by the caller: they may be `null`, true, or objects of any depth.
    """
    try:
        text = line.rstrip(b"\r\n").decode("utf-8")
        message = json.loads(
            text, object_pairs_hook=_distinct, parse_constant=_no_number, parse_float=_no_number, parse_int=_integer
        )
    except UnicodeDecodeError as error:
        raise RefusedError(Fault.NOT_A_MESSAGE, f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise RefusedError(Fault.NOT_A_MESSAGE, "nested too deep") from None
    except ValueError as error:
        raise RefusedError(Fault.NOT_A_MESSAGE, f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise RefusedError(Fault.NOT_A_MESSAGE, f"a message is an object, not {shortened(repr(message))}")
    return dict(message)


def _distinct(pairs: Iterable[tuple[str, Any]]) -> Message:
    message: Message = {}
    for key, value in pairs:
        if key in message:
            raise RefusedError(Fault.NOT_A_MESSAGE, f"the key {shortened(repr(key))} occurs twice")
        message[key] = value
    return message


def _no_number(text: str) -> int:
    raise RefusedError(Fault.NOT_A_MESSAGE, f"numbers are integers, not {shortened(text)}")


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST_INTEGER:
        raise RefusedError(Fault.NOT_A_MESSAGE, f"integers have 64 bits, not {shortened(text)}")
    return int(text)


def _check_value(key: str, value: Any, left: int) -> None:
    if isinstance(value, list):
        if left == 0:
            raise RefusedError(Fault.NOT_A_MESSAGE, f"{shortened(repr(key))} is nested deeper than {DEEPEST} arrays")
        for item in value:
            _check_value(key, item, left - 1)
    elif isinstance(value, bool) or not isinstance(value, int | str):
        kind = {bool: "true or false", dict: "an object"}.get(type(value), "null")
        wrong = f"{shortened(repr(key))} must be an integer, a string or an array, not {kind}"
        raise RefusedError(Fault.NOT_A_MESSAGE, wrong)
