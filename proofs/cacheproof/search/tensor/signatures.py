"""Signatures of names, for many states at once: where a name occurs and what stands there, said without any name.

A signature is a sum of hashes, so it does not depend on the order of anything. Names of different signatures are
different; names of equal ones may be different still, be it by chance, so nothing may rest on equality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout

Table = dict[str, Tensor]
"""For each sort of name a tensor [states, names] int64."""

FACTOR = 0x1E3779B97F4A7C15
LOW_HALF = 0xFFFFFFFF
INTEGERS = 0x5851F42D4C957F2D
"""Told apart from colours."""


def scattered(values: Tensor) -> Tensor:
    """A hash of each value (int64), one to one."""
    for _ in range(2):
        values = (values ^ (values >> 32 & LOW_HALF)) * FACTOR  # products wrap around
    return values ^ (values >> 32 & LOW_HALF)


def sizes_of(layout: Layout[Any], sorts: Mapping[str, int]) -> dict[str, int]:
    """How many names of each sort there are, which is at least as many as given, in whatever fields name them."""
    sizes = dict(sorts)
    for field in layout.packed_fields:
        for sort, size in (*zip(field.axes, field.shape, strict=False), (field.holds, field.high + 1)):
            if sort in sizes:
                sizes[sort] = max(sizes[sort], size)
    return sizes


def refined(layout: Layout[Any], states: Any, colours: Table) -> Table:
    """Finer colours: of each name its colour, and how it occurs in the fields of these states ([states, ...])."""
    found = {sort: scattered(known) for sort, known in colours.items()}
    for number, (field, values) in enumerate(zip(layout.fields, states, strict=True)):
        if not field.derived and ({*field.axes, field.holds} & colours.keys()):
            for sort, names, hashes in _occurrences(field, values.long(), colours, number + 1):
                found[sort] = found[sort].scatter_add(1, names, hashes)
    return found


def _occurrences(field: Field, values: Tensor, colours: Table, number: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Of each sort, which names occur in this field and how: names and hashes, both [states, occurrences] int64."""
    elements = _contents(field, values, colours)
    for axis, sort in enumerate((*field.axes, *[""] * (len(field.shape) - len(field.axes)))):
        size = field.shape[axis]
        places = torch.arange(size, device=values.device).expand(values.shape[0], size) ^ INTEGERS
        known = colours[sort][:, :size] if sort in colours else places
        shape = [values.shape[0], *(size if one == axis else 1 for one in range(len(field.shape)))]
        elements = scattered(elements * 3 + scattered(known).reshape(shape))
    for axis, sort in enumerate(field.axes):
        if sort in colours:
            hashes = scattered(elements + (number << 8) + axis + 1).movedim(axis + 1, 1)
            sums = hashes.reshape(*hashes.shape[:2], -1).sum(2)
            yield sort, torch.arange(sums.shape[1], device=values.device).expand_as(sums), sums
    if field.holds in colours:
        hashes = torch.where(values >= 0, scattered(elements + (number << 8)), 0)
        flat = (values.shape[0], field.width)
        yield field.holds, values.clamp(min=0).reshape(flat), hashes.reshape(flat)


def _contents(field: Field, values: Tensor, colours: Table) -> Tensor:
    """A hash of each value, of the colour where it is a name; of the shape of the values."""
    plain = scattered(values ^ INTEGERS)
    if field.holds not in colours:
        return plain
    flat = values.clamp(min=0).reshape(values.shape[0], field.width)
    known = colours[field.holds].gather(1, flat).reshape(values.shape)
    return torch.where(values >= 0, scattered(known), plain)
