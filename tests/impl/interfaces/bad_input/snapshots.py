"""All that an object is made of, as plain values that can be compared: every attribute, every element of every tensor.

What is shared is shared in the picture too, and what goes round in a circle ends: the second time an object is only
numbered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from mmap import mmap
from multiprocessing.shared_memory import SharedMemory
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

import torch

NAMED = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type, torch.dtype, torch.device)
"""What is told by its name, or does not change."""


def snapshot(thing: Any) -> Any:
    """The picture of a thing."""
    return _Picture().of(thing)


class _Picture:
    """What was seen on the way, so that it is drawn once; it is kept, so that nothing else gets its number."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []

    def of(self, one: Any) -> Any:
        if one is None or isinstance(one, bool | int | str | bytes | float | complex):
            return repr(one)
        if isinstance(one, NAMED):
            return f"{type(one).__name__} {getattr(one, '__qualname__', None) or one}"
        if id(one) in self.seen:
            return f"number {self.seen[id(one)]}"
        self.seen[id(one)] = len(self.seen)
        self.kept.append(one)
        return (type(one).__name__, self.parts(one))

    def parts(self, one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return (
                str(one.dtype),
                str(one.device),
                tuple(one.shape),
                one.tolist() if one.device.type != "meta" else None,
            )
        if isinstance(one, memoryview | bytearray | mmap):
            return crc32(one)  # segments have megabytes of cells
        if isinstance(one, WeakValueDictionary):
            return len(one)
        if isinstance(one, SharedMemory):
            return one.name
        if isinstance(one, AbstractSet):
            return sorted(repr(self.of(part)) for part in one)
        if isinstance(one, Mapping):
            return [(self.of(key), self.of(value)) for key, value in one.items()], self.attributes(one)
        if isinstance(one, Sequence):
            return [self.of(part) for part in one]
        return self.attributes(one)

    def attributes(self, one: Any) -> Any:
        names = [*getattr(one, "__dict__", ()), *_slots(type(one))]
        return [(name, self.of(getattr(one, name))) for name in names if hasattr(one, name)]


def _slots(kind: type) -> list[str]:
    """Attributes without a dictionary."""
    declared = (vars(base).get("__slots__", ()) for base in kind.__mro__)
    named = [(slots,) if isinstance(slots, str) else tuple(slots) for slots in declared]
    return [name for slots in named for name in slots if name not in ("__dict__", "__weakref__")]


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two pictures differ, in words; a few at most."""
    if before == after:
        return []
    if isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        found: list[str] = []
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            step = f".{one[0]}" if isinstance(one, tuple) and one and isinstance(one[0], str) else f"[{number}]"
            found += differences(one, other, place + step)
        return found[:4]
    return [f"{place}: {str(before)[:80]} became {str(after)[:80]}"]
