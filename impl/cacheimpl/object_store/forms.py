"""Which values an item may have beside its tensors, and how each is taken apart and put together again.

None, truth values, numbers, texts, bytes, lists, and dictionaries with texts as keys are plain MessagePack. Every other
value is an extension: a number for its form, and its parts. A value without a form is refused.

Objects of four kinds are stored: dataclasses, subclasses of `UserDict`, named tuples, and members of enumerations. A
reader finds the class by its name among the modules that it has loaded. No method of the class runs, neither `__init__`
nor `__setstate__`: a description can fill an object, and cannot make it act.
"""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import MemberDescriptorType
from typing import Any

import msgspec
import torch
from msgspec.msgpack import Ext

from cacheimpl.object_store.errors import SerdeError

TENSOR, ARRAY, OBJECT, NAMED, MEMBER, PAIRS = 1, 2, 3, 4, 5, 6
DEEPEST = 100
"""Levels of values in values, at most: far fewer than Python has, so that a reader does not run out of them."""
MOST_PARTS = 1 << 22
"""Values in one item, at most: lists that contain the same list twice, again and again, end here."""


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SerdeError(f"torch has no type {name}")
    return dtype


PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types that MessagePack has, and gives back as they were."""
FORMS: Mapping[type, tuple[int, Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: (16, list, tuple),
    set: (17, list, set),
    frozenset: (18, list, frozenset),
    bytearray: (19, bytes, bytearray),
    complex: (20, lambda number: [number.real, number.imag], lambda parts: complex(*parts)),
    slice: (21, lambda given: [given.start, given.stop, given.step], lambda parts: slice(*parts)),
    range: (22, lambda given: [given.start, given.stop, given.step], lambda parts: range(*parts)),
    torch.Size: (23, list, torch.Size),
    torch.dtype: (24, lambda dtype: str(dtype).removeprefix("torch."), _dtype),
}
"""By exact type: the number, the parts of a value, and the value of its parts."""
_TOGETHER = {number: together for number, _, together in FORMS.values()}

Own = Callable[[Any], "tuple[int, bytes] | None"]
"""The form of a value that lies beside the description, and its bytes; None for any other value."""
Restoring = Mapping[int, Callable[[Any], Any]]
"""By the number of a form: what makes the value of its parts."""


class Describing:
    """The description of one item."""

    def __init__(self, own: Own) -> None:
        self._own = own
        self._parts = 0

    def encoded(self, value: Any) -> bytes:
        """The value in MessagePack. Raises `SerdeError`."""
        try:
            return _encode(self._plain(value, 0))
        except RecursionError as error:
            raise SerdeError(str(error)) from error

    def _plain(self, value: Any, depth: int) -> Any:
        """The value as MessagePack has it, with extensions for what it has not."""
        kind = type(value)
        if kind in PLAIN:
            return value
        self._parts += 1
        if depth > DEEPEST or self._parts > MOST_PARTS:
            limit = f"{DEEPEST} levels" if depth > DEEPEST else f"{MOST_PARTS} parts"
            raise SerdeError(f"more than {limit}, or a value that is in itself")
        if kind is list:
            return self._all(value, depth)
        if kind is dict:
            if all(type(key) is str for key in value):
                return dict(zip(value, self._all(value.values(), depth), strict=True))
            return self._extension(PAIRS, [[key, part] for key, part in value.items()], depth)
        if kind in FORMS:
            number, apart, _ = FORMS[kind]
            return self._extension(number, apart(value), depth)
        if (own := self._own(value)) is not None:
            return Ext(*own)
        return self._extension(*taken_apart(value), depth)

    def _all(self, values: Any, depth: int) -> list[Any]:
        self._parts += len(values)
        return [part if type(part) in PLAIN else self._plain(part, depth + 1) for part in values]

    def _extension(self, number: int, parts: Any, depth: int) -> Ext:
        return Ext(number, _encode(self._plain(parts, depth + 1)))


def _encode(plain: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(plain)
    except (OverflowError, ValueError) as error:
        raise SerdeError(str(error)) from error


def restored(description: Any, own: Restoring) -> Any:
    """The value of a description (bytes); `own` makes those that lie beside it. Raises `SerdeError`."""
    try:
        return Restored(own).decoded(description)
    except SerdeError:
        raise
    except (msgspec.DecodeError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise SerdeError(f"no description of an item: {error}") from error


class Restored:
    """The value of one description.

    An object and not a closure: one that names itself is a cycle, which keeps the bytes of an item until the next
    collection.
    """

    def __init__(self, own: Restoring) -> None:
        self._own = own

    def decoded(self, data: Any) -> Any:
        """The value of these bytes."""
        return msgspec.msgpack.decode(data, ext_hook=self._extension)

    def _extension(self, number: int, data: memoryview) -> Any:
        if (together := self._own.get(number) or _TOGETHER.get(number) or _OBJECTS.get(number)) is None:
            raise SerdeError(f"a description has the form {number}, which does not exist")
        return together(self.decoded(data))


def is_array(value: Any) -> bool:
    """Whether this is an array of numpy, and of no class that is made of one; numpy need not be there."""
    kind = type(value)
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"


# Objects ------------------------------------------------------------------------------------------------------------


def taken_apart(value: Any) -> tuple[int, Any]:
    """The form of an object, and its class and data. Raises `SerdeError` for an object that is more than data."""
    kind = type(value)
    name = [kind.__module__, kind.__qualname__]
    if class_named(*name) is not kind:
        raise SerdeError(f"another class is found as {kind.__qualname__} of {kind.__module__}")
    if isinstance(value, Enum):
        if kind.__members__.get(value.name) is not value:
            raise SerdeError(f"{value!r} is no single member of its enumeration")
        return MEMBER, [*name, value.name]
    state = dict(getattr(value, "__dict__", {}))
    if isinstance(value, tuple):
        if state:
            raise SerdeError(f"a named tuple with further attributes: {', '.join(state)}")
        return NAMED, [*name, list(value)]
    bare(kind)
    return OBJECT, [*name, state, {slot: getattr(value, slot) for slot in slots_of(kind) if hasattr(value, slot)}]


def class_named(module: Any, name: Any) -> type[Any]:
    """The data class of this name, in a module that is loaded. Raises `SerdeError` where there is none."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise SerdeError(f"no class {name} of {module} is found by its name")
    if not is_data_class(found):
        raise SerdeError(f"objects of the class {found.__name__} are more than data")
    return found


def is_data_class(kind: type[Any]) -> bool:
    """Whether objects of the class are data: a dataclass, `UserDict`, named tuple or enumeration, without `__del__`."""
    if hasattr(kind, "__del__"):
        return False
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")
    return issubclass(kind, Enum | UserDict) or is_dataclass(kind)


def slots_of(kind: type[Any]) -> dict[str, Any]:
    """The attributes that objects of the class have in slots, with what reads and writes each."""
    return {
        name: attribute
        for base in kind.__mro__
        for name, attribute in vars(base).items()
        if type(attribute) is MemberDescriptorType
    }


def _object(parts: Any) -> Any:
    module, name, state, in_slots = parts
    kind = class_named(module, name)
    made = bare(kind)
    if state:
        vars(made).update(state)
    if in_slots:
        slots = slots_of(kind)
        for slot, part in in_slots.items():
            slots[slot].__set__(made, part)
    return made


def bare(kind: type[Any]) -> Any:
    """An object of the class without any data. Raises `SerdeError` for a class with data that only C code sees."""
    try:
        return object.__new__(kind)
    except TypeError as error:
        raise SerdeError(str(error)) from error


def _named_tuple(parts: Any) -> Any:
    module, name, values = parts
    return tuple.__new__(class_named(module, name), values)


def _member(parts: Any) -> Any:
    module, name, member = parts
    return class_named(module, name).__members__[member]


_OBJECTS: Mapping[int, Callable[[Any], Any]] = {
    OBJECT: _object,
    NAMED: _named_tuple,
    MEMBER: _member,
    PAIRS: dict,
}
"""What makes the object of its class and data."""
