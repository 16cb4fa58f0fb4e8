"""Packing, and the errors that keep it sound: out of bounds, another type or shape, a derived field that disagrees."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from cacheimpl.layout import LARGEST_WORD, Field, Layout, LayoutError, OutOfBoundsError, RoundTripError

torch.set_num_threads(1)


class Pair(NamedTuple):
    small: Tensor
    flags: Tensor
    total: Tensor


def derive(pair: Pair) -> Pair:
    return pair._replace(total=pair.small.sum())


LAYOUT = Layout(
    Pair,
    (
        Field("small", (3,), torch.int16, -2, 5, axes=("key",)),
        Field("flags", (2, 2), torch.bool, 0, 1),
        Field("total", (), torch.int64, -6, 15, derived=True),
    ),
    derive,
)


def states(*rows: list[int]) -> Pair:
    small = torch.tensor(rows, dtype=torch.int16)
    flags = torch.zeros(len(rows), 2, 2, dtype=torch.bool)
    flags[:, 1, 0] = True
    return Pair(small, flags, small.long().sum(1))


def test_every_state_has_its_own_key() -> None:
    everything = torch.cartesian_prod(*[torch.arange(-2, 6, dtype=torch.int16)] * 3)
    pairs = states(*everything.tolist())
    keys = LAYOUT.pack(pairs)
    assert keys.dtype == torch.int64
    assert keys.shape == (8**3, 1)
    assert torch.unique(keys).shape[0] == 8**3
    for before, after in zip(pairs, LAYOUT.unpack(keys), strict=True):
        assert torch.equal(before, after)


def test_no_states_have_no_keys() -> None:
    none = Pair(*(values[:0] for values in states([0, 0, 0])))
    keys = LAYOUT.pack(none)
    assert keys.shape == (0, 1)
    assert [values.shape[0] for values in LAYOUT.unpack(keys)] == [0, 0, 0]


@pytest.mark.parametrize("value", [-3, 6, 127, -32768])
def test_a_value_out_of_bounds_is_an_error(value: int) -> None:
    with pytest.raises(OutOfBoundsError, match=f"small is {value}, outside -2 to 5"):
        LAYOUT.pack(states([0, 0, 0], [0, value, 0]))


def test_a_derived_value_out_of_bounds_is_an_error() -> None:
    with pytest.raises(OutOfBoundsError, match="total is 16"):
        LAYOUT.pack(states([0, 0, 0])._replace(total=torch.tensor([16])))


def test_a_derived_value_that_disagrees_is_an_error() -> None:
    with pytest.raises(RoundTripError, match="total is 4, not 3"):
        LAYOUT.pack(states([1, 1, 1])._replace(total=torch.tensor([4])))


def test_another_type_or_shape_is_an_error() -> None:
    pair = states([1, 1, 1])
    with pytest.raises(OutOfBoundsError, match=r"small is torch\.int64"):
        LAYOUT.pack(pair._replace(small=pair.small.long()))
    with pytest.raises(OutOfBoundsError, match=r"flags is torch\.bool"):
        LAYOUT.pack(pair._replace(flags=pair.flags.flatten(1)))


def test_a_sum_that_overflowed_its_type_is_an_error() -> None:
    wrapped = torch.tensor([100], dtype=torch.int8) + torch.tensor([100], dtype=torch.int8)
    narrow = Layout(
        Pair,
        (
            Field("small", (1,), torch.int8, 0, 120),
            Field("flags", (2, 2), torch.bool, 0, 1),
            Field("total", (), torch.int64, 0, 120, derived=True),
        ),
        derive,
    )
    pair = Pair(wrapped[:, None], torch.zeros(1, 2, 2, dtype=torch.bool), wrapped.long())
    with pytest.raises(OutOfBoundsError, match="small is -56"):
        narrow.pack(pair)


def wide(high: int) -> Layout[Pair]:
    fields = (
        Field("small", (3,), torch.int64, 0, high),
        Field("flags", (2, 2), torch.bool, 0, 1),
        Field("total", (), torch.int64, 0, min(3 * high, LARGEST_WORD), derived=True),
    )
    return Layout(Pair, fields, derive)


def wide_states(*rows: list[int]) -> Pair:
    small = torch.tensor(rows)
    flags = (torch.arange(len(rows))[:, None] >> torch.arange(4) & 1).bool().reshape(-1, 2, 2)
    return Pair(small, flags, small.sum(1))


@pytest.mark.parametrize(("high", "words"), [(2**19, 1), (2**20, 2), (2**40, 3), (2**61, 4), (LARGEST_WORD - 1, 4)])
def test_a_key_has_as_many_words_as_it_takes(high: int, words: int) -> None:
    most = high if high < 2**61 else high // 3  # the sum of three has to fit too
    states = wide_states([0, 0, 0], [most, 0, 0], [0, most, 0], [0, 0, most], [most, most, most], [1, 2, 3])
    keys = wide(high).pack(states)
    assert wide(high).words == keys.shape[1] == words
    assert int(keys.min()) >= 0
    assert len(set(map(tuple, keys.tolist()))) == 6
    for before, after in zip(states, wide(high).unpack(keys), strict=True):
        assert torch.equal(before, after)


def test_an_element_that_does_not_fit_in_a_word_is_refused() -> None:
    with pytest.raises(LayoutError, match=f"small has {2**63} values, more than a word"):
        wide(LARGEST_WORD)


def test_the_fields_are_those_of_the_state() -> None:
    with pytest.raises(LayoutError, match="Pair has other fields"):
        Layout(Pair, LAYOUT.fields[:2], derive)


# Normal states --------------------------------------------------------------------------------------------------------


class Circle(NamedTuple):
    """Two cells in use of four, the first of them anywhere."""

    first: Tensor
    cells: Tensor


def from_the_beginning(circle: Circle) -> Circle:
    """Rotated so that the first cell is cell 0, and nothing is left in the cells that are not used."""
    cells = circle.cells[(circle.first + torch.arange(4)) % 4]
    return Circle(torch.zeros_like(circle.first), torch.where(torch.arange(4) < 2, cells, 0))


CIRCLE = Layout(
    Circle,
    (Field("first", (), torch.int64, 0, 0), Field("cells", (4,), torch.int16, 0, 5)),
    lambda circle: circle,
    from_the_beginning,
)


def circles(*rows: tuple[int, list[int]]) -> Circle:
    return Circle(torch.tensor([first for first, _ in rows]), torch.tensor([r for _, r in rows], dtype=torch.int16))


def test_states_of_one_normal_state_have_one_key() -> None:
    same, other = (0, [1, 2, 9, 9]), (0, [2, 1, 0, 0])
    keys = CIRCLE.pack(circles(same, (3, [2, 7, -3, 1]), (1, [0, 1, 2, 0]), other))
    assert len(set(keys[:3, 0].tolist())) == 1
    assert int(keys[0]) != int(keys[3])
    assert CIRCLE.unpack(keys[:1]).cells.tolist() == [[1, 2, 0, 0]]


def test_no_states_are_normal() -> None:
    none = Circle(*(values[:0] for values in circles((0, [0, 0, 0, 0]))))
    assert CIRCLE.pack(none).shape == (0, 1)


def test_the_bounds_are_those_of_the_normal_state() -> None:
    with pytest.raises(OutOfBoundsError, match="cells is 6, outside 0 to 5"):
        CIRCLE.pack(circles((2, [0, 0, 5, 6])))


def test_the_round_trip_is_that_of_the_normal_state() -> None:
    """A derived field that the normal state forgets to fix is an error, as one that an operation forgets."""
    fields = (Field("first", (), torch.int64, 0, 3, derived=True), Field("cells", (4,), torch.int16, 0, 5))

    def beginning(circle: Circle) -> Circle:
        return circle._replace(first=torch.zeros_like(circle.first))

    rotated = circles((2, [0, 0, 1, 2]))
    assert Layout(Circle, fields, beginning, from_the_beginning).pack(rotated).shape == (1, 1)
    with pytest.raises(RoundTripError, match="first is 2, not 0"):
        Layout(Circle, fields, beginning).pack(rotated)


# Settled states -------------------------------------------------------------------------------------------------------

SETTLING = Layout(
    Circle,
    (Field("first", (), torch.int64, 0, 3), Field("cells", (4,), torch.int16, 0, 9)),
    lambda circle: circle,
    settled=from_the_beginning,
)


def test_states_are_told_apart_until_they_are_settled() -> None:
    keys = SETTLING.pack(circles((0, [1, 2, 9, 9]), (3, [2, 7, 3, 1]), (0, [2, 1, 0, 0])))
    assert len(set(keys[:, 0].tolist())) == 3
    settled = SETTLING.settle(keys)
    assert len(set(settled[:, 0].tolist())) == 2
    assert SETTLING.unpack(settled[:1]).cells.tolist() == [[1, 2, 0, 0]]
    assert torch.equal(SETTLING.settle(settled), settled)
    assert torch.equal(CIRCLE.settle(keys), keys)
