"""Signatures of names: where in a state a name occurs, said without any name.

If a permutation turns one state into another, it turns each name into one of equal signature. So only names that share
a signature need to be tried against each other when states are compared up to permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from cacheproof.search.shape import Form, Shape

Path = tuple[Any, ...]
Colours = Mapping[str, tuple[int, ...]]
"""For each sort, what is known of each name so far: names that may be exchanged have equal colours."""
Occurrences = Mapping[str, list[list[Path]]]
"""For each sort and name, the paths at which it occurs."""
Scan = Callable[[Any, Path, Colours, Occurrences], None]
Erase = Callable[[Any, Colours], Any]


def scanner(shape: Shape, sorts: frozenset[str]) -> Scan | None:
    """The function that notes every occurrence of a name of these sorts in a value of this shape."""
    return _scanner(shape, sorts, count())


def _scanner(shape: Shape, sorts: frozenset[str], places: count[int]) -> Scan | None:
    if not shape.names() & sorts:
        return None
    if shape.form is Form.LEAF:
        assert shape.name is not None
        return _scan_name(shape.name, next(places))
    if shape.indexed in sorts:
        assert shape.indexed is not None
        return _scan_indexed(shape.indexed, shape.parts[0], sorts, places)
    parts = tuple(_scanner(part, sorts, places) for part in shape.parts)
    if shape.form in (Form.RECORD, Form.FIXED):
        return _scan_record(parts)
    if shape.form is Form.MAP:
        return _scan_map(parts, tuple(eraser(part, sorts) for part in shape.parts))
    (element,) = parts
    assert element is not None
    return {Form.QUEUE: _scan_queue, Form.OPTIONAL: _scan_optional, Form.SEQUENCE: _scan_sequence}[shape.form](element)


def _scan_name(sort: str, place: int) -> Scan:
    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        if 0 <= value < len(found[sort]):
            found[sort][value].append((place, path))

    return scan


def _scan_indexed(sort: str, element: Shape, sorts: frozenset[str], places: count[int]) -> Scan:
    """The position is a name: what stands there says something of it; what is inside may only see its colour."""
    place, erase, inner = next(places), eraser(element, sorts), _scanner(element, sorts, places)

    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        for name, item in enumerate(value):
            found[sort][name].append((place, (*path, erase(item, colours))))
            if inner is not None:
                inner(item, (*path, colours[sort][name]), colours, found)

    return scan


def _scan_record(parts: tuple[Scan | None, ...]) -> Scan:
    named = tuple((place, part) for place, part in enumerate(parts) if part is not None)

    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        for place, part in named:
            part(value[place], path, colours, found)

    return scan


def _scan_map(parts: tuple[Scan | None, ...], erasers: tuple[Erase, ...]) -> Scan:
    (scan_key, scan_item), (erase_key, erase_item) = parts, erasers

    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        for key, item in value:
            if scan_key is not None:
                scan_key(key, (*path, erase_item(item, colours)), colours, found)
            if scan_item is not None:
                scan_item(item, (*path, erase_key(key, colours)), colours, found)

    return scan


def _scan_queue(key: Scan) -> Scan:
    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        for position, (name, weight) in enumerate(value):
            key(name, (*path, position, weight), colours, found)

    return scan


def _scan_optional(inner: Scan) -> Scan:
    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        if value is not None:
            inner(value, path, colours, found)

    return scan


def _scan_sequence(element: Scan) -> Scan:
    def scan(value: Any, path: Path, colours: Colours, found: Occurrences) -> None:
        for position, item in enumerate(value):
            element(item, (*path, position), colours, found)

    return scan


def eraser(shape: Shape, sorts: frozenset[str]) -> Erase:
    """The function that replaces names by their colours, and order by name by order by content."""
    if not shape.names() & sorts and not any(inner.form is Form.OPTIONAL for inner in shape.inside()):
        return lambda value, colours: value
    if shape.form is Form.LEAF:
        return _erase_name(shape.name) if shape.name in sorts else lambda value, colours: value
    parts = tuple(eraser(part, sorts) for part in shape.parts)
    if shape.form in (Form.RECORD, Form.FIXED):
        return lambda value, colours: tuple(part(item, colours) for part, item in zip(parts, value, strict=True))
    if shape.form is Form.MAP:
        key, item = parts
        return lambda value, colours: tuple(sorted((key(k, colours), item(v, colours)) for k, v in value))
    (element,) = parts
    if shape.form is Form.QUEUE:
        return lambda value, colours: tuple((element(k, colours), weight) for k, weight in value)
    if shape.form is Form.OPTIONAL:
        return lambda value, colours: () if value is None else (element(value, colours),)
    if shape.indexed in sorts:
        return _erase_indexed(shape.indexed, element)
    return lambda value, colours: tuple(element(item, colours) for item in value)


def _erase_name(sort: str | None) -> Erase:
    assert sort is not None

    def erase(value: Any, colours: Colours) -> Any:
        known = colours[sort]
        return (0, known[value]) if 0 <= value < len(known) else (1, value)

    return erase


def _erase_indexed(sort: str | None, element: Erase) -> Erase:
    assert sort is not None
    return lambda value, colours: tuple(
        sorted((colours[sort][name], element(item, colours)) for name, item in enumerate(value))
    )
