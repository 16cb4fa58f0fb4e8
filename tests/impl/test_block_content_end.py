"""A search for contents ends, whatever collides: every hash is zero here, and tables are small."""

from __future__ import annotations

import random

import pytest
import torch
from tests.impl.block_contents import colliding, fixed
from tests.planting import Change, planted

from cacheimpl.block_content import BlockContents, again
from cacheimpl.block_content.operations import most_calls

torch.set_num_threads(1)

LONG = (3, 6, 7, 10, 13, 14, 20)
"""Seeds of runs that need more calls than their table has slots."""


def interned(seed: int) -> None:
    """Some bursts; equal prefixes have equal rows, and no others."""
    choose = random.Random(seed)
    table = BlockContents(1, choose.choice((4, 8, 16, 64)), config=colliding(fixed(1)))
    for _ in range(choose.randint(1, 4)):
        requests, blocks = choose.randint(1, 8), choose.randint(1, 12)
        prompts = [[choose.randrange(3) for _ in range(blocks)] for _ in range(requests)]
        lengths = [choose.randint(0, blocks) for _ in range(requests)]
        rows = table.of_prompts(torch.tensor(prompts, dtype=torch.int32), torch.tensor(lengths)).tolist()
        by_prefix: dict[tuple[int, ...], int] = {}
        for prompt, length, found in zip(prompts, lengths, rows, strict=True):
            for end in range(1, length + 1):
                assert by_prefix.setdefault(tuple(prompt[:end]), found[end - 1]) == found[end - 1]
        assert len(set(by_prefix.values())) == len(by_prefix)
        if choose.random() < 0.3:
            table.keep()


@pytest.mark.parametrize("seed", LONG)
def test_the_search_ends_where_every_hash_is_zero(seed: int) -> None:
    interned(seed)


@pytest.mark.nightly
def test_the_search_ends_in_many_runs() -> None:
    for seed in range(1000, 1300):
        interned(seed)


def test_a_search_that_goes_nowhere_is_given_up() -> None:
    """And not repeated for ever: an item that does not move is a bug, which the number of calls shows."""
    table = BlockContents(1, 2, config=colliding(fixed(1)))
    tokens = torch.tensor([[0], [1]], dtype=torch.int32)
    with (
        planted(Change(again, "$found.stands + $x * $found.moving", "$found.stands")),
        pytest.raises(AssertionError, match="does not end"),
    ):
        table.of_prompts(tokens, torch.ones(2, dtype=torch.int64))


def test_the_most_calls_follow_from_the_table() -> None:
    assert most_calls(1, 8) == 8 + 3 * 2 * 9
    assert most_calls(100, 64) > 100 * 64
