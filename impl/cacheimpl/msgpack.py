"""Values as msgpack, for what is plain: no value, truth values, numbers, text, bytes, lists and maps.

Everything else, tuples among it, is up to the caller: `pack` asks for an extension, `unpack` gives it back. Source: the
public msgpack specification. No other package is needed for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

Buffer = bytes | bytearray | memoryview


class Extension(NamedTuple):
    """A value that msgpack has no form for: a number for its type (0 to 127), and bytes."""

    kind: int
    data: bytes


class MsgpackError(ValueError):
    """No msgpack, or a value that it has no form for."""


def refuse(value: Any) -> Extension:
    """The extension of a value, where there are none."""
    raise MsgpackError(f"msgpack has no form for a value of type {type(value).__name__}")


def pack(value: Any, extend: Callable[[Any], Extension] = refuse) -> bytes:
    """The value as bytes. Raises `MsgpackError`."""
    out = bytearray()
    _pack(value, extend, out)
    return bytes(out)


def _pack(value: Any, extend: Callable[[Any], Extension], out: bytearray) -> None:
    kind = type(value)
    if kind is int:
        if 0 <= value < 128:
            out.append(value)
        else:
            _pack_integer(value, out)
    elif kind is str:
        data = value.encode()
        out += _length(len(data), (0xD9, 0xDA, 0xDB), short=(0xA0, 32)) + data
    elif value is None or kind is bool:
        out.append(0xC0 if value is None else 0xC2 + value)
    elif kind is float:
        out += struct.pack(">Bd", 0xCB, value)
    elif kind in (bytes, bytearray, memoryview):
        data = bytes(value)
        out += _length(len(data), (0xC4, 0xC5, 0xC6)) + data
    elif kind is list:
        out += _length(len(value), (None, 0xDC, 0xDD), short=(0x90, 16))
        for one in value:
            _pack(one, extend, out)
    elif kind is dict:
        out += _length(len(value), (None, 0xDE, 0xDF), short=(0x80, 16))
        for key, one in value.items():
            _pack(key, extend, out)
            _pack(one, extend, out)
    else:
        extension = extend(value)
        out += _length(len(extension.data), (0xC7, 0xC8, 0xC9)) + bytes([extension.kind]) + extension.data


def _pack_integer(value: int, out: bytearray) -> None:
    if -32 <= value < 128:
        out.append(value % 256)
    elif -(2**63) <= value < 2**63:
        out += struct.pack(">Bq", 0xD3, value)
    elif value < 2**64 and value > 0:
        out += struct.pack(">BQ", 0xCF, value)
    else:
        raise MsgpackError(f"msgpack has no integer as large as {value}")


_BYTES = [bytes([value]) for value in range(256)]
"""Each byte by itself."""


def _length(count: int, kinds: tuple[int | None, int, int], short: tuple[int, int] = (0, 0)) -> bytes:
    """The head of something that is so long: in the head itself, in one byte, in two, or in four."""
    if count < short[1]:
        return _BYTES[short[0] + count]
    for kind, form, limit in zip(kinds, (">BB", ">BH", ">BI"), (2**8, 2**16, 2**32), strict=True):
        if kind is not None and count < limit:
            return struct.pack(form, kind, count)
    raise MsgpackError(f"msgpack has no length of {count}")


def unpack(data: Buffer, restore: Callable[[Extension], Any] = lambda extension: extension) -> Any:
    """The value of which these are the bytes, all of them. Raises `MsgpackError`."""
    reader = _Reader(memoryview(data), restore)
    try:
        value = reader.value()
    except (struct.error, IndexError, UnicodeDecodeError, TypeError) as error:
        raise MsgpackError(f"no msgpack: {error}") from None
    if reader.at != len(reader.data):
        raise MsgpackError(f"{len(reader.data) - reader.at} bytes are left over")
    return value


_NUMBERS = {head: struct.Struct(">" + form) for head, form in enumerate("fdBHIQbhiq", start=0xCA)}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class _Reader:
    """What is left of the bytes."""

    def __init__(self, data: memoryview, restore: Callable[[Extension], Any]) -> None:
        self.data, self.restore, self.at = data, restore, 0

    def take(self, count: int) -> memoryview:
        part = self.data[self.at : self.at + count]
        if len(part) != count:
            raise IndexError(f"{count} bytes are missing")
        self.at += count
        return part

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]

    def value(self) -> Any:
        head = self.data[self.at]
        self.at += 1
        if head < 0x80 or head >= 0xE0:
            return head if head < 0x80 else head - 0x100
        if head < 0x90:
            return self.map(head - 0x80)
        if head < 0xA0:
            return self.array(head - 0x90)
        if head < 0xC0:
            return self.text(head - 0xA0)
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        if head in _NUMBERS:
            return self.number(_NUMBERS[head])
        if head in _FIXED_EXTENSIONS:
            return self.extension(_FIXED_EXTENSIONS[head])
        return self.counted(head)

    def counted(self, head: int) -> Any:
        """What has its length in the bytes behind its head."""
        if head not in _COUNTED:
            raise MsgpackError(f"no msgpack begins with the byte {head}")
        length, read = _COUNTED[head]
        return read(self, self.number(length))

    def binary(self, count: int) -> bytes:
        return bytes(self.take(count))

    def text(self, count: int) -> str:
        return str(self.take(count), "utf-8")

    def array(self, count: int) -> list[Any]:
        return [self.value() for _ in range(count)]

    def map(self, count: int) -> dict[Any, Any]:
        return {self.value(): self.value() for _ in range(count)}

    def extension(self, count: int) -> Any:
        kind = self.take(1)[0]
        return self.restore(Extension(kind, bytes(self.take(count))))


_COUNTED: dict[int, tuple[struct.Struct, Callable[[_Reader, int], Any]]] = {
    first + place: (struct.Struct(">" + length), read)
    for first, lengths, read in (
        (0xC4, "BHI", _Reader.binary),
        (0xC7, "BHI", _Reader.extension),
        (0xD9, "BHI", _Reader.text),
        (0xDC, "HI", _Reader.array),
        (0xDE, "HI", _Reader.map),
    )
    for place, length in enumerate(lengths)
}
"""What has its length in the bytes behind its head: the form of the length, and how it is read."""
