"""Which integers of a configuration are any number, and between which bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.registry import components
from cacheproof.search.regions.decisions import Decisions, Form
from cacheproof.search.regions.number import Number

COMPARING = ("__hash__", "__eq__", "__ne__")

Place = tuple[str | int, ...]
"""A field of the configuration, and the positions inside it."""

TEXT = re.compile(r"(?P<field>\w+)(?P<places>(\[\d{1,9}\])*)(=(?P<low>\d{1,18})\.\.(?P<high>\d{0,18}))?")


class Unknown(NamedTuple):
    """An integer of the configuration that is any number from `low` to `high`; None if there is no greatest."""

    place: Place
    low: int
    high: int | None

    def __str__(self) -> str:
        field, *positions = self.place
        return f"{field}{''.join(f'[{position}]' for position in positions)}"

    @property
    def bounds(self) -> str:
        """In words."""
        if self.high is None:
            return f"any {self}" if self.low == 0 else f"any {self} from {self.low}"
        return f"{self} from {self.low} to {self.high}"


def unknowns(config: Any, texts: Iterable[str]) -> tuple[Unknown, ...]:
    """What the texts name: `FIELD`, `FIELD[POSITION]`, each with `=LOW..HIGH` or `=LOW..` behind it.

    A field with several integers names all of them. Without bounds, a number is at least 0. What is named twice has
    the later bounds. Raises `InputError` for a text that names no integer of the configuration.
    """
    named: dict[Place, Unknown] = {}
    for text in texts:
        match = TEXT.fullmatch(text)
        if match is None:
            raise InputError(f"{shortened(text)!r} is not FIELD, FIELD[POSITION] or FIELD=LOW..HIGH")
        low, high = int(match["low"] or 0), int(match["high"]) if match["high"] else None
        if high is not None and high < low:
            raise InputError(f"{text!r}: {high} is less than {low}")
        positions = [int(number) for number in re.findall(r"\d+", match["places"])]
        for place in _places(config, (match["field"], *positions), text):
            named[place] = Unknown(place, low, high)
    return tuple(named.values())


def _places(config: Any, place: Place, text: str) -> list[Place]:
    field, *positions = place
    if field not in config._fields:
        raise InputError(f"{text!r}: the configuration has no {field!r}: it has {', '.join(config._fields)}")
    value = getattr(config, str(field))
    for position in positions:
        if not isinstance(value, tuple) or int(position) >= len(value):
            raise InputError(f"{text!r}: {field} is {getattr(config, str(field))}")
        value = value[int(position)]
    found = [(*place, *rest) for rest in _integers(value)]
    if not found:
        raise InputError(f"{text!r}: there is no integer in it")
    return found


def _integers(value: Any) -> list[tuple[int, ...]]:
    if not isinstance(value, tuple):
        return [()]
    return [(position, *rest) for position, part in enumerate(value) for rest in _integers(part)]


def configured(config: Any, every: Sequence[Unknown], values: Sequence[int]) -> Any:
    """The configuration with these values in the place of the unknowns."""
    return _replaced(config, dict(zip((one.place for one in every), values, strict=True)))


def lifted(config: Any, every: Sequence[Unknown], values: Sequence[int], decisions: Decisions) -> Any:
    """The same with numbers that remember what they depend on."""
    numbers = {
        one.place: Number(value, Form(0, (((0, symbol), 1),)), decisions)
        for symbol, (one, value) in enumerate(zip(every, values, strict=True))
    }
    return _replaced(config, numbers)


@contextmanager
def configurations_by_identity() -> Iterator[None]:
    """In the block, a configuration is known by identity, that of a part of a composite too.

    Functions of configurations are cached. If they looked one up by its numbers, this would fix the numbers.
    """
    records = {component.config for component in components().values()}
    for record, name in product(records, COMPARING):
        setattr(record, name, getattr(object, name))
    try:
        yield
    finally:
        for record, name in product(records, COMPARING):
            delattr(record, name)


def _replaced(config: Any, values: Mapping[Place, Any]) -> Any:
    def part(value: Any, place: Place) -> Any:
        if place in values:
            return values[place]
        if isinstance(value, tuple):
            return tuple(part(inner, (*place, position)) for position, inner in enumerate(value))
        return value

    return config._replace(**{field: part(getattr(config, field), (field,)) for field in config._fields})
