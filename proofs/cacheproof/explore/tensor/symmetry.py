"""Packed states up to the exchange of names: the least key of all renamings that the scope allows.

A layout says which axes are indexed by a sort of name and which values are names; so a renaming is an exchange of
columns and a table for values. Every renaming is tried, all states at once: exact, and meant for few names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations, product
from math import factorial, prod
from typing import Any

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout
from cacheproof.errors import InputError
from cacheproof.explore.tensor.keys import less
from cachespec.kernel.names import Permutations

Classes = Mapping[str, tuple[tuple[int, ...], ...]]
CanonicalKeys = Callable[[Tensor], Tensor]

MOST_RENAMINGS = 5040


def canonical_keys(layout: Layout[Any], classes: Classes) -> CanonicalKeys:
    """The function from keys to the keys of the canonical states."""
    count = prod(factorial(len(members)) for groups in classes.values() for members in groups)
    if count > MOST_RENAMINGS:
        raise InputError(f"{count} renamings are too many for the tensor engine: explore without symmetry")
    if count == 1:
        return lambda keys: keys
    renamings = list(all_renamings(classes))

    def least(keys: Tensor) -> Tensor:
        states = layout.unpack(keys)
        candidates = (layout.key_of(layout.normalised(renamed(layout, states, to))) for to in renamings)
        best = keys
        for candidate in candidates:
            best = torch.where(less(candidate, best)[:, None], candidate, best)
        return best

    return least


def all_renamings(classes: Classes) -> Iterator[Permutations]:
    """Every permutation of every class, as where each name goes."""
    choices = [
        [(sort, members, order) for order in permutations(members)]
        for sort, groups in classes.items()
        for members in groups
    ]
    sizes = {sort: 1 + max(name for members in groups for name in members) for sort, groups in classes.items()}
    for choice in product(*choices):
        to = {sort: list(range(size)) for sort, size in sizes.items()}
        for sort, members, order in choice:
            for old, new in zip(members, order, strict=True):
                to[sort][old] = new
        yield {sort: tuple(places) for sort, places in to.items()}


def renamed(layout: Layout[Any], states: tuple[Tensor, ...], to: Permutations) -> tuple[Tensor, ...]:
    """States ([states, ...]) with every name replaced."""
    moved = (_renamed_field(field, values, to) for field, values in zip(layout.fields, states, strict=True))
    states_after: tuple[Tensor, ...] = layout.state(*moved)
    return states_after


def _renamed_field(field: Field, values: Tensor, to: Permutations) -> Tensor:
    for axis, sort in enumerate(field.axes):
        if sort in to:
            places = _all_places(to[sort], values.shape[axis + 1], values.device)
            values = values.index_select(axis + 1, places.argsort())
    if field.holds in to:
        table = _all_places(to[field.holds], field.high + 1, values.device).to(values.dtype)
        values = torch.where(values >= 0, table[values.clamp(min=0).long()], values)
    return values


def _all_places(to: tuple[int, ...], count: int, device: torch.device) -> Tensor:
    """[count] int64: where each name goes; names after the last of the classes stay."""
    return torch.tensor((*to, *range(len(to), count)), device=device)
