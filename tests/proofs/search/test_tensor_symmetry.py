"""Packed states up to the exchange of names: exact, whether every renaming is tried or signatures give the order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout
from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.search import tensor
from cacheproof.search.tensor import signatures, symmetry
from cacheproof.search.tensor.symmetry import Ordering, all_renamings, canonical_keys, renamed
from cachespec.lru.configuration import Config as LruConfig

torch.set_num_threads(1)


class Owned(NamedTuple):
    owner: Tensor
    sizes: Tensor


OWNED = Layout(
    Owned,
    (
        Field("owner", (2,), torch.int32, -1, 3, holds="key"),
        Field("sizes", (4,), torch.int64, 0, 9, axes=("key",)),
    ),
    lambda owned: owned,
)


class Tables(NamedTuple):
    """Names on several axes, on the same sort twice, and as values; and one that is derived."""

    blocks: Tensor
    links: Tensor
    shared: Tensor
    used: Tensor


def counted(tables: Tables) -> Tables:
    return tables._replace(used=(tables.blocks >= 0).sum())


TABLES = Layout(
    Tables,
    (
        Field("blocks", (3, 2), torch.int32, -1, 3, axes=("request", ""), holds="block"),
        Field("links", (4, 4), torch.bool, 0, 1, axes=("block", "block")),
        Field("shared", (3, 4), torch.int8, 0, 1, axes=("request", "block")),
        Field("used", (), torch.int64, 0, 6, derived=True),
    ),
    counted,
)
CLASSES = {"request": ((0, 2), (1,)), "block": ((0, 1, 2, 3),)}


def tables_of(draw: random.Random, density: float) -> Tables:
    """One state; the fewer things there are in it, the more names are alike."""

    def some(shape: tuple[int, ...], least: int, most: int, dtype: torch.dtype) -> Tensor:
        count = torch.Size(shape).numel()
        values = [draw.randint(least, most) if draw.random() < density else least for _ in range(count)]
        return torch.tensor(values, dtype=dtype).reshape(1, *shape)

    links = some((4, 4), 0, 1, torch.bool)
    blocks = some((3, 2), -1, 3, torch.int32)
    return Tables(blocks, links, some((3, 4), 0, 1, torch.int8), (blocks >= 0).sum().reshape(1))


def packed(states: list[Tables]) -> Tensor:
    return torch.cat([TABLES.pack(state) for state in states])


def partition(keys: Tensor) -> list[int]:
    """For each key the number of the first one that equals it."""
    rows = [tuple(row) for row in keys.tolist()]
    return [rows.index(row) for row in rows]


def test_values_that_are_names_are_renamed() -> None:
    states = Owned(torch.tensor([[2, -1], [3, 0]], dtype=torch.int32), torch.tensor([[5, 6, 7, 8], [5, 6, 7, 8]]))
    moved = renamed(OWNED, states, {"key": (1, 2, 0)})
    assert moved[0].tolist() == [[0, -1], [3, 1]]
    assert moved[1].tolist() == [[7, 5, 6, 8], [7, 5, 6, 8]]
    least = canonical_keys(OWNED, {"key": ((0, 1, 2),)})
    assert torch.equal(least(OWNED.pack(states)), least(OWNED.pack(Owned(*moved))))


def without_signatures(values: Tensor) -> Tensor:
    """Every name looks like every other."""
    return torch.zeros_like(values)


@pytest.mark.parametrize("hashes", [None, without_signatures], ids=["signatures", "no signatures"])
@pytest.mark.parametrize("density", [0.1, 0.3, 0.7])
def test_the_order_of_signatures_is_exact(
    density: float, hashes: Callable[[Tensor], Tensor] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two states have one canonical form where, and only where, a renaming turns one into the other."""
    if hashes is not None:
        monkeypatch.setattr(signatures, "scattered", hashes)
    draw = random.Random(density)
    states = [tables_of(draw, density) for _ in range(60)]
    renamings = list(all_renamings(CLASSES))
    states += [Tables(*renamed(TABLES, draw.choice(states), draw.choice(renamings))) for _ in range(200)]
    keys = packed(states)
    exact, ordered = symmetry._least_of_all(TABLES, CLASSES)(keys), Ordering(TABLES, CLASSES)(keys)
    assert partition(ordered) == partition(exact)
    assert 20 < len(set(partition(exact))) < 61
    assert torch.equal(symmetry._least_of_all(TABLES, CLASSES)(ordered), exact), "a canonical form is a renaming"


def circles(*lengths: int) -> Tables:
    """Blocks linked in circles: each looks like each other one, whatever the circles are."""
    links = torch.zeros(1, 6, 6, dtype=torch.bool)
    names = iter(random.Random(str(lengths)).sample(range(6), 6))
    for length in lengths:
        circle = [next(names) for _ in range(length)]
        for one, other in zip(circle, circle[1:] + circle[:1], strict=True):
            links[0, one, other] = links[0, other, one] = True
    nothing = torch.zeros(1, 3, 6, dtype=torch.int8)
    return Tables(torch.full((1, 3, 2), -1, dtype=torch.int32), links, nothing, torch.tensor([0]))


SIX = Layout(
    Tables,
    (
        Field("blocks", (3, 2), torch.int32, -1, 5, axes=("request", ""), holds="block"),
        Field("links", (6, 6), torch.bool, 0, 1, axes=("block", "block")),
        Field("shared", (3, 6), torch.int8, 0, 1, axes=("request", "block")),
        Field("used", (), torch.int64, 0, 6, derived=True),
    ),
    counted,
)


def test_names_that_no_signature_tells_apart() -> None:
    """Two triangles and a hexagon have the same signatures throughout."""
    order = Ordering(SIX, {"block": (tuple(range(6)),)})
    hexagon, triangles = SIX.pack(circles(6)), SIX.pack(circles(3, 3))
    found = order(torch.cat([hexagon, triangles]))
    assert found[0].tolist() != found[1].tolist()
    for to in [(1, 2, 3, 4, 5, 0), (5, 0, 2, 1, 3, 4), (3, 5, 1, 0, 2, 4)]:
        moved = [renamed(SIX, SIX.unpack(keys), {"block": to}) for keys in (hexagon, triangles)]
        assert torch.equal(order(torch.cat([SIX.pack(Tables(*state)) for state in moved])), found)


def test_too_many_renamings_of_one_state_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetry, "MOST_RENAMINGS", 719)
    with pytest.raises(InputError, match="720 renamings of one state are too many"):
        Ordering(SIX, {"block": (tuple(range(6)),)})(SIX.pack(circles(6)))


def explored(keys: int) -> int:
    component = component_named("lru")
    config = LruConfig(capacity=2, sizes=(1,) * keys, lookups=0, pins=1)
    return tensor.explore(component, component.normative, config, Plan()).states


def test_names_that_do_not_occur_cost_nothing() -> None:
    """Eight keys have 40,320 renamings; of a cache of two, all that count are those that are in it."""
    assert explored(8) == explored(4) > 5


def test_a_tie_that_is_taken_for_no_difference_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ordering, "changes", lambda order, keys, ties: torch.zeros_like(ties))
    monkeypatch.setattr(signatures, "scattered", without_signatures)
    draw = random.Random(1)
    states = [tables_of(draw, 0.3) for _ in range(20)]
    moved = [Tables(*renamed(TABLES, state, {"block": (2, 3, 1, 0)})) for state in states]
    order = Ordering(TABLES, CLASSES)
    assert not torch.equal(order(packed(states)), order(packed(moved)))


def turned(owned: Owned) -> Owned:
    """Who comes first of the owners does not matter."""
    return owned._replace(owner=owned.owner.sort().values)


def test_what_was_renamed_is_brought_to_its_normal_state() -> None:
    layout = Layout(Owned, OWNED.fields, OWNED.derive, turned)
    states = Owned(torch.tensor([[2, 0]], dtype=torch.int32), torch.tensor([[5, 6, 5, 8]]))
    moved = renamed(layout, states, {"key": (2, 1, 0)})
    few = canonical_keys(layout, {"key": ((0, 1, 2),)})
    assert torch.equal(few(layout.pack(states)), few(layout.pack(Owned(*moved))))
    with pytest.raises(InputError, match="depends on how names are called, and there are more than 6 renamings"):
        canonical_keys(layout, {"key": ((0, 1, 2, 3),)})(layout.pack(states._replace(sizes=states.sizes.flip(1))))


def doubled(owned: Owned) -> Owned:
    """Sizes matter by the pair."""
    return owned._replace(sizes=owned.sizes // 2 * 2)


def test_a_normal_state_that_knows_no_names_does_with_many() -> None:
    layout = Layout(Owned, OWNED.fields, OWNED.derive, doubled)
    states = Owned(torch.tensor([[2, 0]], dtype=torch.int32), torch.tensor([[5, 6, 4, 7]]))
    moved = renamed(layout, states, {"key": (2, 3, 0, 1)})
    many = canonical_keys(layout, {"key": ((0, 1, 2, 3),)})
    assert torch.equal(many(layout.pack(states)), many(layout.pack(Owned(*moved))))
