"""Rank compression: sequence numbers and epochs matter by order and adjacency only, so they are kept small.

Within each scope, and for each sort, the distinct ranks are numbered from 0 in their order: neighbours that differ by
exactly 1 still do, every larger gap becomes 2. A negative rank stands for "none" and is left as it is.

Order and adjacency are enough only if no rank counts up, step by step, across a gap towards another. A protocol that
keeps every number between two compared numbers, such as a log of unconfirmed messages, satisfies this.
`tests/proofs/search/soundness.py` checks it for a component, state by state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproof.search.shape import Form, Shape
from cachespec.kernel import FrozenMap, FrozenQueue

Ranks = dict[str, set[int]]
Numbering = dict[str, dict[int, int]]
Collect = Callable[[Any, Ranks], None]
Rewrite = Callable[[Any, Numbering], Any]
Compress = Callable[[Any], Any]


def compression(shape: Shape) -> Compress | None:
    """The function that compresses every rank in a value of this shape, or None if it has none."""
    if not shape.has_ranks():
        return None
    collect, rewrite = _collector(shape, root=True), _rewriter(shape, root=True)

    def compress(value: Any) -> Any:
        ranks: Ranks = {}
        if collect is not None:
            collect(value, ranks)
        numbering = {sort: numbered(found) for sort, found in ranks.items()}
        return value if rewrite is None else rewrite(value, numbering)

    return compress


def numbered(ranks: set[int]) -> dict[int, int]:
    """The least numbers from 0 that keep order and adjacency."""
    numbers: dict[int, int] = {}
    before, number = -1, 0
    for rank in sorted(ranks):
        number = number + min(rank - before, 2) if numbers else 0
        numbers[rank] = number
        before = rank
    return numbers


def _collector(shape: Shape, *, root: bool = False) -> Collect | None:
    """Gathers the ranks that belong to the scope of this shape: it stops where an inner scope begins."""
    if shape.scope and not root:
        return None
    if shape.rank is not None:
        return _collect_leaf(shape.rank)
    parts = tuple(_collector(part) for part in shape.parts)
    if not any(parts):
        return None
    if shape.form in (Form.RECORD, Form.FIXED):
        places = tuple((place, part) for place, part in enumerate(parts) if part is not None)

        def collect_record(value: Any, ranks: Ranks) -> None:
            for place, part in places:
                part(value[place], ranks)

        return collect_record
    if shape.form in (Form.MAP, Form.QUEUE):
        key, item = parts[0], parts[1] if shape.form is Form.MAP else None

        def collect_pairs(value: Any, ranks: Ranks) -> None:
            for first, second in value:
                if key is not None:
                    key(first, ranks)
                if item is not None:
                    item(second, ranks)

        return collect_pairs
    (element,) = parts
    return None if element is None else _collect_several(element, optional=shape.form is Form.OPTIONAL)


def _collect_leaf(sort: str) -> Collect:
    def collect(value: Any, ranks: Ranks) -> None:
        if value >= 0:
            ranks.setdefault(sort, set()).add(value)

    return collect


def _collect_several(element: Collect, *, optional: bool) -> Collect:
    def collect(value: Any, ranks: Ranks) -> None:
        for item in (() if value is None else (value,)) if optional else value:
            element(item, ranks)

    return collect


def _rewriter(shape: Shape, *, root: bool = False) -> Rewrite | None:
    """Replaces the ranks; a scope inside is compressed by itself."""
    if shape.scope and not root:
        return _rewrite_scope(shape)
    if shape.rank is not None:
        sort = shape.rank
        return lambda value, numbering: numbering[sort][value] if value >= 0 else value
    parts = tuple(_rewriter(part) for part in shape.parts)
    if not any(parts):
        return None
    if shape.form in (Form.RECORD, Form.FIXED):
        return _rewrite_record(shape.make._make if shape.make else tuple, parts)
    if shape.form is Form.MAP:
        key, item = parts
        return lambda value, numbering: FrozenMap.of(
            (key(k, numbering) if key else k, item(v, numbering) if item else v) for k, v in value
        )
    (element,) = parts
    assert element is not None
    if shape.form is Form.QUEUE:
        return lambda value, numbering: FrozenQueue((element(k, numbering), weight) for k, weight in value)
    if shape.form is Form.OPTIONAL:
        return lambda value, numbering: None if value is None else element(value, numbering)
    return lambda value, numbering: tuple([element(item, numbering) for item in value])


def _rewrite_scope(shape: Shape) -> Rewrite | None:
    compress = compression(shape)
    return None if compress is None else lambda value, numbering: compress(value)


def _rewrite_record(make: Callable[[Any], Any], parts: tuple[Rewrite | None, ...]) -> Rewrite:
    places = tuple((place, part) for place, part in enumerate(parts) if part is not None)

    def rewrite(value: Any, numbering: Numbering) -> Any:
        items = list(value)
        for place, part in places:
            items[place] = part(items[place], numbering)
        return make(items)

    return rewrite
