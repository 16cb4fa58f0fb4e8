"""Packed states up to the exchange of names: one key for all states that some allowed renaming turns into one another.

A layout says which axes are indexed by a sort of name and which values are names; so a renaming is an exchange of
columns and a table for values. Where there are few renamings, every one is tried, all states at once, and the least key
is taken. Where there are many, each state's names are put in the order of their signatures. Names of equal signature
that can be exchanged without any change need no order. Of the others every order is tried. So this is exact too: equal
signatures cost time and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, permutations, product
from math import factorial, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout, as_it_is
from cacheproof.foundation.errors import InputError
from cacheproof.search.tensor.keys import less
from cacheproof.search.tensor.signatures import Table, refined, sizes_of
from cachespec.kernel.names import Permutations

Classes = Mapping[str, tuple[tuple[int, ...], ...]]
CanonicalKeys = Callable[[Tensor], Tensor]

FEW_RENAMINGS = 6
"""So many are all tried."""
MOST_RENAMINGS = 5040
"""So many are tried for one state at most."""


def canonical_keys(layout: Layout[Any], classes: Classes) -> CanonicalKeys:
    """The function from keys to the keys of the canonical states ([states, words] both), which are settled."""
    of_settled = _canonical(layout, classes)
    return of_settled if layout.settled is as_it_is else lambda keys: of_settled(layout.settle(keys))


def _canonical(layout: Layout[Any], classes: Classes) -> CanonicalKeys:
    count = prod(factorial(len(members)) for groups in classes.values() for members in groups)
    if count == 1:
        return lambda keys: keys
    if count <= FEW_RENAMINGS:
        return _least_of_all(layout, classes)
    return Ordering(layout, classes)


def _least_of_all(layout: Layout[Any], classes: Classes) -> CanonicalKeys:
    renamings = list(all_renamings(classes))

    def least(keys: Tensor) -> Tensor:
        states, best = layout.unpack(keys), keys
        for to in renamings:
            best = lesser(layout.key_of(layout.normalised(renamed(layout, states, to))), best)
        return best

    return least


def lesser(one: Tensor, other: Tensor) -> Tensor:
    """[states, words]: the lesser of two keys, each."""
    return torch.where(less(one, other)[:, None], one, other)


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
    """States ([states, ...]) with every name replaced, in all of them alike."""
    sizes = sizes_of(layout, {sort: len(places) for sort, places in to.items()})
    count, device = states[0].shape[0], states[0].device
    places = {sort: torch.tensor((*to[sort], *range(len(to[sort]), sizes[sort])), device=device) for sort in to}
    return renamed_each(layout, states, {sort: table.expand(count, -1) for sort, table in places.items()})


def renamed_each(layout: Layout[Any], states: tuple[Tensor, ...], to: Table) -> tuple[Tensor, ...]:
    """States ([states, ...]) with every name replaced; `to` says for each state where each name goes."""
    moved = (_renamed_field(field, values, to) for field, values in zip(layout.fields, states, strict=True))
    states_after: tuple[Tensor, ...] = layout.state(*moved)
    return states_after


def _renamed_field(field: Field, values: Tensor, to: Table) -> Tensor:
    for axis, sort in enumerate(field.axes):
        if sort in to:
            size = values.shape[axis + 1]
            places = to[sort][:, :size].argsort(1)
            shape = [values.shape[0], *(size if one == axis else 1 for one in range(values.ndim - 1))]
            values = values.gather(axis + 1, places.reshape(shape).expand_as(values))
    if field.holds in to:
        flat = values.clamp(min=0).long().reshape(values.shape[0], field.width)
        known = to[field.holds].gather(1, flat).reshape(values.shape)
        values = torch.where(values >= 0, known.to(values.dtype), values)
    return values


# Many names -----------------------------------------------------------------------------------------------------------


class Class(NamedTuple):
    """Names that may be exchanged."""

    sort: str
    members: tuple[int, ...]


class Ordering:
    """Canonical keys by the order of signatures."""

    def __init__(self, layout: Layout[Any], classes: Classes) -> None:
        self.layout = layout
        self.classes = [
            Class(sort, members) for sort, groups in classes.items() for members in groups if len(members) > 1
        ]
        largest = {one.sort: 1 + max(name for group in classes[one.sort] for name in group) for one in self.classes}
        self.sizes = sizes_of(layout, largest)

    def __call__(self, keys: Tensor) -> Tensor:
        if keys.shape[0] == 0:
            return keys
        states = self.layout.unpack(keys)
        colours = refined(self.layout, states, self.first_colours(keys))
        found, ties = self.ordered(states, colours)
        (open_ones,) = ties.any(1).nonzero(as_tuple=True)
        if open_ones.shape[0] > 0:
            some = {sort: known[open_ones] for sort, known in colours.items()}
            found[open_ones] = self.settled(self.layout.unpack(keys[open_ones]), some)
        return found

    def keys_of(self, states: tuple[Tensor, ...]) -> Tensor:
        """The keys of normal states that were renamed.

        Raises `InputError` where they are not normal any more: then signatures cannot give an order.
        """
        keys = self.layout.key_of(states)
        if self.layout.normal is not as_it_is and bool(
            (self.layout.key_of(self.layout.normalised(states)) != keys).any()
        ):
            raise InputError(
                f"the normal state depends on how names are called, and there are more than {FEW_RENAMINGS} renamings"
            )
        return keys

    def first_colours(self, keys: Tensor) -> Table:
        """Names that may be exchanged are alike; any other is like no other."""
        table = {sort: list(range(1, size + 1)) for sort, size in self.sizes.items()}
        for number, one in enumerate(self.classes):
            for name in one.members:
                table[one.sort][name] = -number
        return {sort: keys.new_tensor(known).expand(keys.shape[0], -1) for sort, known in table.items()}

    def ordered(self, states: tuple[Tensor, ...], colours: Table) -> tuple[Tensor, Tensor]:
        """The keys of the states whose names are in the order of these colours.

        And [states, ties] bool: for each two members of a class that come to stand side by side, whether their colours
        are equal.
        """
        to = {sort: torch.arange(size).expand_as(colours[sort]).clone() for sort, size in self.sizes.items()}
        to = {sort: places.to(colours[sort].device) for sort, places in to.items()}
        ties = []
        for sort, members in self.classes:
            names = colours[sort].new_tensor(members)
            values, order = colours[sort][:, names].sort(1)
            to[sort].scatter_(1, names[order], names.expand_as(order))
            ties.append(values[:, 1:] == values[:, :-1])
        return self.keys_of(renamed_each(self.layout, states, to)), torch.cat(ties, 1)

    def settled(self, states: tuple[Tensor, ...], colours: Table) -> Tensor:
        """The canonical keys of states of which some names have equal colours; they are refined once more."""
        keys, ties = self.ordered(states, refined(self.layout, states, colours))
        differ = ties & self.changes(keys, ties)
        (open_ones,) = differ.any(1).nonzero(as_tuple=True)
        if open_ones.shape[0] > 0:
            patterns, which = torch.unique(torch.cat([ties, differ], 1)[open_ones], dim=0, return_inverse=True)
            for number, pattern in enumerate(patterns.tolist()):
                some = open_ones[which == number]
                keys[some] = self.least_of(keys[some], pattern[: ties.shape[1]], pattern[ties.shape[1] :])
        return keys

    def changes(self, keys: Tensor, ties: Tensor) -> Tensor:
        """[states, ties] bool: whether an exchange of the two names of a tie makes another state."""
        changed = torch.zeros_like(ties)
        for place, (sort, one, other) in enumerate(self.neighbours()):
            (tied,) = ties[:, place].nonzero(as_tuple=True)
            if tied.shape[0] > 0:
                to = list(range(self.sizes[sort]))
                to[one], to[other] = other, one
                after = renamed(self.layout, self.layout.unpack(keys[tied]), {sort: tuple(to)})
                changed[tied, place] = (self.keys_of(after) != keys[tied]).any(1)
        return changed

    def least_of(self, keys: Tensor, ties: list[bool], differ: list[bool]) -> Tensor:
        """The least key of every order of names that are tied, where an exchange of some of them is a change.

        Raises `InputError` where these are too many.
        """
        runs = self.runs(ties, differ)
        count = prod(factorial(len(run.members)) for run in runs)
        if count > MOST_RENAMINGS:
            raise InputError(f"{count} renamings of one state are too many for the tensor engine: leave out symmetry")
        states, best = self.layout.unpack(keys), keys
        for orders in product(*(permutations(run.members) for run in runs)):
            to = {sort: list(range(size)) for sort, size in self.sizes.items()}
            for run, order in zip(runs, orders, strict=True):
                for old, new in zip(run.members, order, strict=True):
                    to[run.sort][old] = new
            after = renamed(self.layout, states, {sort: tuple(places) for sort, places in to.items()})
            best = lesser(self.keys_of(after), best)
        return best

    def runs(self, ties: list[bool], differ: list[bool]) -> list[Class]:
        """The names that are tied with one another, where an exchange of some neighbours among them is a change."""
        runs: list[Class] = []
        changing: list[bool] = []
        for (sort, one, other), tied, differs in zip(self.neighbours(), ties, differ, strict=True):
            if not tied:
                continue
            if runs and runs[-1].sort == sort and runs[-1].members[-1] == one:
                runs[-1] = Class(sort, (*runs[-1].members, other))
                changing[-1] |= differs
            else:
                runs.append(Class(sort, (one, other)))
                changing.append(differs)
        return [run for run, changes in zip(runs, changing, strict=True) if changes]

    def neighbours(self) -> Iterator[tuple[str, int, int]]:
        """Each two names of a class that stand side by side in it."""
        for sort, members in self.classes:
            for one, other in pairwise(members):
                yield sort, one, other
