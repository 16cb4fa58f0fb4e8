"""Canonical states: one for all states that differ by exchangeable names, or by the size of ranks, only.

First the variant's own normal form is taken and ranks are compressed; then names are exchanged within their classes,
all sorts at once: they are put in the order of their signatures, and where signatures are equal every order is tried
and the least state is taken. Where these are too many, each of some equal names is told apart from the others in turn,
which tells others apart too (a request its blocks), and the least state of all that come out of that is taken. This is
exact: two states have the same canonical form if and only if an allowed permutation turns one into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, permutations, product
from math import factorial, prod
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.ranks import compression
from cacheproof.search.shape import Form, Shape, shape_of
from cacheproof.search.signature import Colours, Occurrences, Path, Scan, scanner
from cachespec.kernel.names import Permutations, renaming

Canonical = Callable[[Any], Any]
Classes = Mapping[str, tuple[tuple[int, ...], ...]]
Groups = list[tuple[str, tuple[int, ...], list[list[int]]]]
"""Each class of names: its sort, its members, and these in the order of their signatures, equal ones together."""
Choice = tuple[str, tuple[int, ...], Iterable[int]]
"""A class of names, and its members in the order in which they take the names of the class."""

FEW = 6
"""So many candidates are tried rather than looking for finer signatures."""


def canonical(component: AnyComponent, variant: AnyVariant, config: Any, *, symmetry: bool = True) -> Canonical:
    """The function from a state of this variant to its canonical form."""
    normal = variant.normal
    parts: list[Canonical] = [] if normal is None else [partial(normal, config)]
    compress = compression(shape_of(variant.state))
    least = _least_renaming(variant.state, component.interchangeable(config)) if symmetry else None
    parts += [part for part in (compress, least) if part is not None]
    return reduce(_after, parts) if parts else lambda state: state


def _after(first: Canonical, second: Canonical) -> Canonical:
    return lambda state: second(first(state))


def _least_renaming(owner: Any, classes: Classes) -> Canonical | None:
    """The function that takes the least of all allowed renamings, or None where nothing is exchangeable."""
    shape = shape_of(owner)
    several = exchanged(classes)
    sorts = frozenset(several) & shape.names()
    scan, rename = scanner(shape, sorts), renaming(owner)
    if scan is None or rename is None:
        return None
    first = {sort: first_colours(several[sort]) for sort in sorts}
    order = _comparison(shape)

    def least(state: Any) -> Any:
        groups, candidates, colours = _grouped(scan, state, several, first)
        if candidates == 1:
            to = _permutation(((sort, members, chain(*parts)) for sort, members, parts in groups), first)
            return state if to is None else rename(state, to)
        if candidates <= FEW:
            choices: Iterable[Iterable[Choice]] = _choices(groups)
        else:
            choices = _told_apart(scan, state, several, colours)
        renamings = (_permutation(choice, first) for choice in choices)
        return min((state if to is None else rename(state, to) for to in renamings), key=order)

    return least


def _comparison(shape: Shape) -> Callable[[Any], Any] | None:
    """None cannot be compared with an integer: then states are compared as text."""
    return repr if any(inner.form is Form.OPTIONAL for inner in shape.inside()) else None


def exchanged(classes: Classes) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The sorts of names of which any may be exchanged with another one."""
    return {sort: groups for sort, groups in classes.items() if any(len(group) > 1 for group in groups)}


def first_colours(classes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Before anything is known, names differ by their class; a name in no class is like no other."""
    size = 1 + max(name for members in classes for name in members)
    colours = [-1 - name for name in range(size)]
    for colour, members in enumerate(classes):
        for name in members:
            colours[name] = colour
    return tuple(colours)


def _told_apart(scan: Scan, state: Any, classes: Classes, colours: Colours) -> Iterator[Iterable[Choice]]:
    """The remaining orders when names of one colour are separated one by one, with each name as the first once.

    Which names these are is said by colours alone, so equal states up to permutation give equal states to choose from.
    """
    groups, candidates, colours = _grouped(scan, state, classes, colours, by_colour=True)
    if candidates <= FEW:
        yield from _choices(groups)
        return
    sort, part = next((sort, part) for sort, _, parts in groups for part in parts if len(part) > 1)
    for name in part:
        marked = [2 * colour for colour in colours[sort]]
        marked[name] -= 1
        yield from _told_apart(scan, state, classes, {**colours, sort: tuple(marked)})


def _grouped(
    scan: Scan, state: Any, classes: Classes, colours: Colours, *, by_colour: bool = False
) -> tuple[Groups, int, Colours]:
    """The members of each class by signature, how many orders there are to try, and the colours that this is by.

    Signatures are refined for as long as too many orders remain. With `by_colour`, names of different colours are told
    apart whatever their signatures.
    """
    while True:
        found = _signatures(scan, state, colours)
        groups = [
            (sort, members, _by_signature(members, found[sort], colours[sort] if by_colour else None))
            for sort in colours
            for members in classes[sort]
        ]
        candidates = prod(factorial(len(part)) for _, _, parts in groups for part in parts if len(part) > 1)
        if candidates <= FEW:
            return groups, candidates, colours
        finer = {sort: _finer_colours(colours[sort], found[sort]) for sort in colours}
        if all(len(set(finer[sort])) == len(set(colours[sort])) for sort in colours):
            return groups, candidates, colours
        colours = finer


def _signatures(scan: Scan, state: Any, colours: Colours) -> Occurrences:
    found: Occurrences = {sort: [[] for _ in known] for sort, known in colours.items()}
    scan(state, (), colours, found)
    for occurrences in found.values():
        for paths in occurrences:
            if len(paths) > 1:
                paths.sort()
    return found


def _by_signature(
    members: tuple[int, ...], found: list[list[Path]], colours: tuple[int, ...] | None
) -> list[list[int]]:
    """Members with equal signatures are in one group; those that do not occur at all need not be told apart."""
    if len(members) == 1:
        return [[members[0]]]
    key = {name: (0 if colours is None else colours[name], found[name]) for name in members}
    groups: list[list[int]] = []
    for name in sorted(members, key=lambda name: (not found[name], key[name])):
        if groups and found[name] and key[name] == key[groups[-1][-1]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _finer_colours(colours: tuple[int, ...], found: list[list[Path]]) -> tuple[int, ...]:
    """Colours that also tell names of different signatures apart, numbered without looking at the names."""
    known = [(colour, paths) for colour, paths in zip(colours, found, strict=True)]
    ranks = {repr(pair): rank for rank, pair in enumerate(sorted(known))}
    return tuple(ranks[repr(pair)] for pair in known)


def _permutation(choice: Iterable[Choice], colours: Colours) -> Permutations | None:
    """Where each name goes when the members of each class are put in the chosen order; None where none moves."""
    to = {sort: list(range(len(known))) for sort, known in colours.items()}
    moved = False
    for sort, members, order in choice:
        places = to[sort]
        for new, old in zip(members, order, strict=True):
            places[old] = new
            moved = moved or old != new
    return {sort: tuple(places) for sort, places in to.items()} if moved else None


def _choices(groups: Groups) -> Iterator[tuple[Choice, ...]]:
    """Every way to order the members of every class that keeps the order of the groups."""
    yield from product(*([(sort, members, order) for order in _orders(parts)] for sort, members, parts in groups))


def _orders(parts: list[list[int]]) -> Iterator[tuple[int, ...]]:
    for chosen in product(*(permutations(part) for part in parts)):
        yield tuple(chain(*chosen))
