"""The canonical encoding of a state, and the digest of a set of states: the same in whatever order they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec

from cacheproof.search.shape import Form, Shape
from cachespec.kernel import FrozenMap, FrozenQueue

MODULUS = 1 << 64

Build = Callable[[Any], Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encoding(state: Any) -> bytes:
    """The canonical encoding of a state: JSON without spaces; named tuples, maps and queues are arrays."""
    return _encode(state)


def digest_of_encoding(encoded: bytes) -> int:
    """The first eight bytes of BLAKE2b, as an unsigned integer."""
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "big")


def digest_of_state(state: Any) -> int:
    """The digest of the state's encoding."""
    return digest_of_encoding(encoding(state))


def digest(states: Iterable[Any]) -> str:
    """The sum of the states' digests modulo 2**64, as 16 hexadecimal digits."""
    return as_text(sum(map(digest_of_state, states)))


def as_text(total: int) -> str:
    """A sum of digests modulo 2**64, as 16 hexadecimal digits."""
    return f"{total % MODULUS:016x}"


def decoder(shape: Shape) -> Callable[[bytes], Any]:
    """The function from an encoding back to the state of this shape."""
    build = _builder(shape)
    return lambda encoded: build(_decode(encoded))


@cache
def _builder(shape: Shape) -> Build:
    parts = tuple(_builder(part) for part in shape.parts)
    if shape.form is Form.LEAF:
        return _leaf
    if shape.form in (Form.RECORD, Form.FIXED):
        return _build_fixed(shape.make._make if shape.make else tuple, parts)
    if shape.form is Form.MAP:
        key, item = parts
        return lambda value: FrozenMap([(key(k), item(v)) for k, v in value])
    (element,) = parts
    if shape.form is Form.QUEUE:
        return lambda value: FrozenQueue([(element(k), weight) for k, weight in value])
    if shape.form is Form.OPTIONAL:
        return lambda value: None if value is None else element(value)
    return lambda value: tuple([element(item) for item in value])


def _leaf(value: Any) -> Any:
    """A leaf is a number, or a tuple whose parts the declarations do not name."""
    return tuple([_leaf(item) for item in value]) if type(value) is list else value


def _build_fixed(make: Build, parts: tuple[Build, ...]) -> Build:
    nested = tuple((place, part) for place, part in enumerate(parts) if part is not _leaf)
    if len(nested) == len(parts):
        return lambda value: make([part(item) for part, item in zip(parts, value, strict=True)])

    def build(value: Any) -> Any:
        for place, part in nested:
            value[place] = part(value[place])
        return make(map(_leaf, value) if list in map(type, value) else value)

    return build
