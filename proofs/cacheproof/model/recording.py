"""A configuration that records which of its fields are read: what an adapter never reads, it ignores."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from cacheproof.foundation.misspelt import UnknownNameError, did_you_mean

READ = "_cacheproof_read"
"""The attribute of a recording configuration that holds the names of the fields that were read."""

KINDS: dict[type, Any] = {}
"""The recording class of each class of configurations, once it was made."""


class UnknownFieldError(UnknownNameError, AttributeError):
    """A field that the configuration does not have. `hasattr` and `getattr` with a default work as usual."""


def recording(config: Any, read: set[str]) -> Any:
    """The same configuration, equal and of the same class; the names of the fields that are read go into `read`.

    A loop over it or an index reads every field. A field that there is not raises UnknownFieldError.
    """
    kind = type(config)
    if kind not in KINDS:
        KINDS[kind] = _recording(kind)
    made = KINDS[kind](*config)
    made.__dict__[READ] = read
    return made


def _recording(kind: Any) -> Any:
    """A subclass of the named tuple whose fields tell that they are read."""

    def field(name: str, place: int) -> property:
        def value(self: Any) -> Any:
            self.__dict__.get(READ, set()).add(name)
            return tuple.__getitem__(self, place)

        return property(value)

    def every(self: Any) -> tuple[Any, ...]:
        self.__dict__.get(READ, set()).update(kind._fields)
        return tuple(tuple.__iter__(self))

    def iterate(self: Any) -> Iterator[Any]:
        return iter(every(self))

    def index(self: Any, place: Any) -> Any:
        return every(self)[operator.index(place)] if not isinstance(place, slice) else every(self)[place]

    def unknown(self: Any, name: str) -> Any:  # what Python calls
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnknownFieldError(f"the configuration has no field '{name}'{did_you_mean(name, kind._fields)}")

    def reduced(self: Any) -> tuple[Any, tuple[Any, ...]]:
        return kind, every(self)

    known = {name: field(name, place) for place, name in enumerate(kind._fields)}
    special = {"__iter__": iterate, "__getitem__": index, "__getattr__": unknown, "__reduce__": reduced}
    return type(kind.__name__, (kind,), {**known, **special, "__module__": kind.__module__})
