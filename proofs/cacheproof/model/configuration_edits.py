"""Configurations of any component with one thing changed: a number, an entry, or all that is said of a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent
from cacheproof.model.wire import config_from_message, config_to_message

Path = tuple[int, ...]
"""Where a number or a tuple is in a configuration: the place of the field, then those in tuples within tuples."""


def holds(component: AnyComponent, config: Any) -> bool:
    """Whether it has the types of a configuration, and its numbers go together."""
    try:
        config_from_message(component, config_to_message(config))
    except InputError:
        return False
    return True


def nodes(values: tuple[Any, ...], before: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number and tuple within a configuration, and where it is."""
    for place, value in enumerate(values):
        path = (*before, place)
        yield path, value
        if isinstance(value, tuple):
            yield from nodes(value, path)


def numbers(config: Any) -> list[tuple[Path, int]]:
    """Every number within a configuration, and where it is."""
    return [(path, value) for path, value in nodes(tuple(config)) if isinstance(value, int)]


def put(config: Any, path: Path, value: Any) -> Any:
    """The configuration with this value there."""
    return type(config)(*_put(tuple(config), path, value))


def _put(values: tuple[Any, ...], path: Path, value: Any) -> tuple[Any, ...]:
    place, rest = path[0], path[1:]
    new = _put(values[place], rest, value) if rest else value
    return (*values[:place], new, *values[place + 1 :])


def without(values: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    """The tuple without one of its entries."""
    return (*values[:place], *values[place + 1 :])


def lengths(config: Any) -> list[int]:
    """The lengths that fields have: requests, contents, groups."""
    return sorted({len(value) for value in config if isinstance(value, tuple)} - {0})


def without_place(config: Any, length: int, place: int) -> Any:
    """Without this place of all fields of one length: without a request, or a content."""
    return _in_all(config, length, lambda values: without(values, place))


def with_place_again(config: Any, length: int, place: int) -> Any:
    """With this place twice in all fields of one length: a request like one that is there."""
    return _in_all(config, length, lambda values: (*values[: place + 1], *values[place:]))


def _in_all(config: Any, length: int, change: Any) -> Any:
    return type(config)(*(change(one) if isinstance(one, tuple) and len(one) == length else one for one in config))
