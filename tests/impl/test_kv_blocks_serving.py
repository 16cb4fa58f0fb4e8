"""The pool of a serving engine: what the functions give, at addresses that stay; and nothing done for bad operands."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from tests.impl.kv_bursts import Sides, crowded, integers

from cacheimpl import kv_blocks
from cacheimpl.kv_blocks import BurstError, Hits, Pool, Serving

torch.set_num_threads(1)

REQUESTS, BLOCKS, POSITIONS = 8, 20, 5
HISTORY = {"bytes"}  # nobody who serves keeps it


def serving() -> Serving:
    """Two requests that run, and six that wait."""
    tables = Sides(crowded(REQUESTS, 1)).tables
    engine = Serving(tables, BLOCKS)
    engine.allocate_slots(integers([0, 1]), integers([0, 0]), integers([3, 4]), width=POSITIONS)
    return engine


def test_it_does_what_the_functions_do_at_addresses_that_stay() -> None:
    engine, draw = serving(), random.Random(0)
    config, pool = engine.config, Pool(*(values.clone() for values in engine.pool))
    addresses = [values.data_ptr() for values in engine.pool]
    for _ in range(60):
        rows = integers(draw.sample(range(REQUESTS + 1), draw.randint(1, 4)))
        lengths, zeros = config.lengths.index_select(0, rows), torch.zeros_like(rows)
        ends = torch.minimum(pool.scheduled, config.lengths).index_select(0, rows)
        hits = engine.get_computed_blocks(rows, lengths)
        tokens = lengths - hits.lengths * config.block_size
        block, some = torch.tensor(draw.randrange(BLOCKS)), integers(draw.choices(range(BLOCKS), k=3))
        calls: list[tuple[Callable[[], object], Callable[[], tuple[Pool, object]]]] = [
            (
                lambda: engine.admit(rows, zeros, tokens, hits, width=POSITIONS).codes,  # noqa: B023  # called here
                lambda: kv_blocks.admit(config, pool, rows, zeros, tokens, hits, width=POSITIONS),  # noqa: B023
            ),
            (
                lambda: engine.commit(rows, ends, width=POSITIONS),  # noqa: B023
                lambda: kv_blocks.commit(config, pool, rows, ends, width=POSITIONS),  # noqa: B023
            ),
            (lambda: engine.decode(rows).codes, lambda: kv_blocks.decode(config, pool, rows)),  # noqa: B023
            (lambda: engine.free_request(rows), lambda: kv_blocks.free_request(config, pool, rows)),  # noqa: B023
            (lambda: engine.withdraw(rows[:1]), lambda: kv_blocks.withdraw(config, pool, rows[:1])),  # noqa: B023
            (lambda: engine.evict_block(block), lambda: kv_blocks.evict_block(config, pool, block)),  # noqa: B023
            (lambda: engine.evict_blocks(some), lambda: kv_blocks.evict_blocks(config, pool, some)),  # noqa: B023
            (engine.reset_prefix_cache, lambda: kv_blocks.reset_prefix_cache(config, pool)),  # noqa: B023
        ]
        in_place, copying = draw.choice(calls)
        said, (pool, wanted) = in_place(), copying()
        assert torch.equal(torch.as_tensor(said), torch.as_tensor(getattr(wanted, "codes", wanted)))
        for name, ours, theirs in zip(Pool._fields, engine.pool, pool, strict=True):
            assert torch.equal(ours, theirs) != (name in HISTORY and bool((theirs >= 0).any())), name
    assert [values.data_ptr() for values in engine.pool] == addresses
    assert int(pool.clock) > 0


def hits(*blocks: int) -> Hits:
    """For one request."""
    row = [*blocks, *[BLOCKS] * (POSITIONS + 1 - len(blocks))]
    return Hits(integers(row)[None], integers([len(blocks)]))


ONE, TWICE = integers([2]), integers([2, 2])

BAD: dict[str, Callable[[Serving], object]] = {
    "a negative count": lambda engine: engine.allocate_slots(ONE, integers([0]), integers([-1]), width=1),
    "a negative length": lambda engine: engine.get_computed_blocks(ONE, integers([-1])),
    "a request twice": lambda engine: engine.free_request(TWICE),
    "a request that there is not": lambda engine: engine.withdraw(integers([REQUESTS + 1])),
    "a negative row": lambda engine: engine.decode(integers([-1])),
    "a block that there is not": lambda engine: engine.admit(
        ONE, integers([0]), integers([1]), hits(BLOCKS + 1), width=POSITIONS
    ),
    "another block that there is not": lambda engine: engine.evict_block(torch.tensor(-1)),
    "several, and one that there is not": lambda engine: engine.evict_blocks(integers([0, BLOCKS + 1])),
    "one block for several": lambda engine: engine.evict_blocks(torch.tensor(0)),
    "another type": lambda engine: engine.commit(ONE.int(), integers([0]), width=1),
    "too few counts": lambda engine: engine.commit(TWICE[:2], integers([0]), width=1),
    "no burst": lambda engine: engine.free_request(torch.tensor(2)),
    "another device": lambda engine: engine.free_request(ONE.to("meta")),
}


@pytest.mark.parametrize("bad", BAD)
def test_operands_that_no_call_can_have_do_nothing(bad: str) -> None:
    engine = serving()
    before = [values.clone() for values in engine.pool]
    with pytest.raises(BurstError):
        BAD[bad](engine)
    assert all(torch.equal(ours, was) for ours, was in zip(engine.pool, before, strict=True))
