"""Rows that come back, tables that grow, input that is refused, and the numbers of extras."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.impl.block_content_checks import check_giving_back, check_growth, check_slots_after_building
from tests.impl.block_contents import ConfigOf, colliding

from cacheimpl.block_content import NONE, BlockContents, ExtraKeys, Item, extras_of

torch.set_num_threads(1)


# Giving back ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_what_is_held_keeps_its_rows_and_the_others_come_back(config_of: ConfigOf) -> None:
    check_giving_back(config_of)


def test_a_row_that_came_back_is_another_content_and_what_came_after_it_is_gone() -> None:
    table = BlockContents(2, 4)
    tokens = torch.tensor([[1, 1, 2, 2]], dtype=torch.int32)
    first = table.of_prompts(tokens, torch.tensor([4]))
    table.keep(first[:, :1])
    assert table.used == 1
    other = table.of_prompts(torch.tensor([[3, 3, 2, 2]], dtype=torch.int32), torch.tensor([4]))
    assert not set(other.flatten().tolist()) & set(first[:, :1].flatten().tolist())
    table.keep()
    assert table.used == 0
    assert table.of_prompts(tokens, torch.tensor([4])).min() >= 0


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_a_table_grows_and_everything_keeps_its_row(config_of: ConfigOf) -> None:
    check_growth(config_of)


def test_rows_leave_the_slots_that_they_have_since_the_table_was_built() -> None:
    check_slots_after_building()


# Wrong input ----------------------------------------------------------------------------------------------------------

TOKENS = torch.tensor([[1, 2, 3, 4], [1, 2, 5, 6]], dtype=torch.int32)
WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "tokens of another type": ({"tokens": TOKENS.long()}, TypeError),
    "tokens of one request": ({"tokens": TOKENS[0]}, TypeError),
    "lengths of another type": ({"lengths": torch.tensor([4, 4], dtype=torch.int32)}, TypeError),
    "a length too many": ({"lengths": torch.tensor([4, 4, 4])}, TypeError),
    "a negative length": ({"lengths": torch.tensor([4, -1])}, ValueError),
    "a length beyond the tokens": ({"lengths": torch.tensor([4, 5])}, ValueError),
    "extras for other blocks": ({"extras": torch.zeros(2, 3, dtype=torch.int64)}, TypeError),
    "a parent that is free": ({"parents": torch.tensor([NONE, 5])}, ValueError),
    "a parent that is no row": ({"parents": torch.tensor([NONE, 8])}, ValueError),
    "a parent below none": ({"parents": torch.tensor([NONE, -2])}, ValueError),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused_and_changes_nothing(case: str) -> None:
    given, error = WRONG[case]
    table = BlockContents(2, 8)
    rows = table.of_prompts(TOKENS, torch.tensor([4, 4]))
    before = [tensor.clone() for tensor in table.contents]
    with pytest.raises(error):
        table.of_prompts(**{"tokens": TOKENS, "lengths": torch.tensor([4, 4]), **given})
    assert all(torch.equal(one, other) for one, other in zip(before, table.contents, strict=True))
    assert torch.equal(table.of_prompts(TOKENS, torch.tensor([4, 4])), rows)


@pytest.mark.parametrize(("block_size", "rows"), [(0, 4), (2, 0), (-1, 4)])
def test_a_table_of_nothing(block_size: int, rows: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        BlockContents(block_size, rows)


# Extras ---------------------------------------------------------------------------------------------------------------


def test_extras_have_numbers_by_their_value() -> None:
    keys = ExtraKeys()
    assert keys.number(()) == 0
    names = [(("item", "x", 0),), (("salt", "x", 0),), (("adapter", "x", 0),), (("item", "x", -2),)]
    assert [keys.number(name) for name in names] == [1, 2, 3, 4]
    assert [keys.number(name) for name in names] == [1, 2, 3, 4]
    keys.keep([2])
    assert len(keys) == 1
    assert keys.number(names[1]) == 2
    assert keys.number(names[0]) == 5, "a number is never given to other extras"


def test_where_an_item_begins_is_part_of_it() -> None:
    items = [Item("a", 1, 3), Item("b", 4, 1)]
    assert extras_of(items, 3, 2, adapter="l", salt="s") == [
        (("adapter", "l", 0), ("item", "a", 1), ("salt", "s", 0)),
        (("adapter", "l", 0), ("item", "a", -1)),
        (("adapter", "l", 0), ("item", "b", 0)),
    ]
    assert extras_of(items, 1, 2) == [(("item", "a", 1),)]
    assert extras_of([], 0, 2, salt="s") == []
