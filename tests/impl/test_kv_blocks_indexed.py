"""The index beside a pool: whatever is done, it finds what passing over all blocks finds, and the specification too."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.impl.kv_bursts import Crowd, Sides, crowded, integers
from tests.impl.kv_indexed import IndexedSides, same_index
from tests.impl.test_kv_blocks import SCOPES, model, reached

from cacheimpl import kv_blocks as tensors
from cacheimpl.answer import UNANSWERED
from cacheimpl.kv_blocks import index
from cacheimpl.kv_blocks.admission import Reach
from cacheimpl.kv_blocks.prefix import NEVER
from cacheimpl.layout import RoundTripError
from cachespec.kv_blocks import Config

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

ALIKE = Config(2, 14, ((0, 1, 2),) * 7 + ((0, 3, 4),), (6,) * 8)
"""Most requests hold the same, so a content has many copies."""


def played(config: Config, seed: int, bursts: int) -> tuple[Crowd, IndexedSides]:
    """Random bursts, in lockstep."""
    sides = IndexedSides(config)
    crowd = Crowd(sides, seed, len(config.lengths))
    crowd.play(bursts)
    return crowd, sides


@pytest.mark.parametrize(("requests", "seeds", "room"), [(3, 12, 0.4), (6, 12, 0.5), (64, 2, 0.2)])
def test_random_bursts_are_the_calls_one_after_the_other(requests: int, seeds: int, room: float) -> None:
    seen: set[str] = set()
    for seed in range(seeds):
        seen |= played(crowded(requests, seed, room=room), seed, 50)[0].seen
    assert seen >= {"all run", "some do not run", "hits", "no hits", "not admitted", "one round", "a step"}
    assert requests < 64 or "rounds" in seen


def copied(seed: int, steps: int) -> IndexedSides:
    """Requests that hold the same compute it all again, without a look-up, so there are many copies; others look up."""
    sides, draw = IndexedSides(ALIKE), random.Random(seed)
    everybody = range(len(ALIKE.lengths))
    for _ in range(steps):
        running = [who for who in everybody if sides.holding(who).blocks > 0]
        idle = [who for who in everybody if who not in running]
        some = draw.sample(running, draw.randint(0, len(running)))
        match draw.randrange(4):
            case 0:
                new = draw.sample(idle, min(len(idle), 2))
                sides.allocate(new, [0] * len(new), [6] * len(new), width=3)
            case 1:
                sides.commit(some, [draw.choice((4, 6)) if sides.holding(who).computed < 4 else 6 for who in some])
            case 2:
                sides.free(some)
            case _:
                sides.look_up(idle, [6] * len(idle))
        sides.agree()
    return sides


def test_of_many_copies_the_first_is_found_and_when_it_is_gone_the_next() -> None:
    passes = sum(copied(seed, 80).passes for seed in range(8))
    assert passes > 3


def test_all_blocks_are_passed_over_only_where_the_first_of_several_copies_is_gone() -> None:
    sides = IndexedSides(ALIKE)
    sides.allocate([0, 1, 2], [0, 0, 0], [6, 6, 6], width=3)
    sides.commit([1, 0, 2], [6, 6, 6])
    assert sides.look_up([6], [6]).blocks[0, 0] == 3
    assert sides.passes == 0
    sides.free([1])
    sides.allocate([3, 4, 5], [0, 0, 0], [6, 6, 4], width=3)
    assert sides.look_up([6], [6]).blocks[0, 0] == 0
    assert sides.look_up([6], [6]).blocks[0, 0] == 0
    assert sides.passes == 1
    sides.withdraw([3, 4, 5])
    sides.free([0])
    sides.allocate([3, 4, 5], [0, 0, 0], [6, 6, 6], width=3)
    sides.allocate([1], [0], [4], width=3)
    assert sides.look_up([6], [6]).blocks[0, 0] == 6
    assert sides.passes == 1, "one copy alone says where it is"
    sides.withdraw([1, 3, 4, 5])
    sides.free([2])
    sides.allocate([0, 1, 3, 4, 5], [0, 0, 0, 0, 0], [6, 6, 6, 6, 4], width=3)
    sides.commit([3, 1], [6, 6])
    assert sides.look_up([6], [6]).lengths[0] == 2
    assert sides.passes == 1, "the keys of copies that are gone are given up with the last of them"


def test_a_block_that_comes_back_with_the_same_content_is_not_the_first_any_more() -> None:
    sides = IndexedSides(Config(2, 2, ((0, 1),) * 3, (3,) * 3))
    sides.allocate([0, 1], [0, 0], [2, 2], width=2)
    sides.commit([0, 1], [2, 2])
    assert sides.look_up([2], [3]).blocks[0, 0] == 0
    sides.free([0])
    sides.allocate([2], [0], [2], width=2)
    sides.commit([2], [2])
    sides.agree()
    assert sides.look_up([0], [3]).blocks[0, 0] == 1


def test_a_hit_that_nobody_looked_up_is_counted_once() -> None:
    sides = IndexedSides(ALIKE)
    sides.allocate([0], [0], [6], width=3)
    sides.commit([0], [6])
    brought = tensors.Hits(integers([0, 1, 14, 14])[None], integers([2]))
    assert sides.admit([1], [0], [2], brought) == 1
    assert int(index.waiting(sides.pool, sides.engine._index, integers([0, 1]))) == 1, "hits are settled"
    sides.free([0, 1])
    sides.agree()


def test_what_stands_for_nothing_is_neither_counted_nor_found() -> None:
    sides = IndexedSides(ALIKE)
    sides.allocate([0], [0], [6], width=3)
    sides.commit([0], [6])
    pool = sides.pool._replace(carried=sides.pool.carried.clone())
    pool.carried[-1] = 4
    made = index.settle(pool, sides.engine._index, integers([0]), 100)
    same_index(pool, made, index.index_of(sides.tables, pool))
    made.copies[-1] = index.units(pool, integers([7]))[0]
    assert index.look_up(sides.tables, pool, made, integers([1]), integers([100])).hits.lengths.tolist() == [3]


def test_more_blocks_than_a_word_has_room_for_are_refused() -> None:
    tables = Sides(ALIKE).tables
    with pytest.raises(tensors.BurstError, match="2097151"):
        tensors.IndexedServing(tables, 1 << 21)
    pool = tensors.empty(tables, index.MOST_BLOCKS)
    last = integers([index.MOST_BLOCKS - 1])
    every = index.units(pool, last) * index.MOST_BLOCKS
    assert int(every >> index.above(pool)) == index.MOST_BLOCKS


# From every state ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shared", "copies", "any call"])
def test_from_every_state_a_look_up_by_content_is_one_that_passes_over_all_blocks(name: str) -> None:
    code = model(SCOPES[name])
    states, config = reached(code, 200), code.parameters
    rows = torch.arange(tensors.nobody(code.initial) + 1)

    def both(pool: tensors.Pool) -> Any:
        wanted = tensors.get_computed_blocks(config, pool, rows, config.lengths)
        found = index.look_up(config, pool, index.index_of(config, pool), rows, config.lengths)
        return wanted, found

    wanted, found = torch.func.vmap(both)(states)
    assert bool(found.certain.all())
    assert torch.equal(wanted.lengths, found.hits.lengths)
    assert torch.equal(wanted.blocks, found.hits.blocks)
    assert int(wanted.lengths.sum()) > 50


@pytest.mark.parametrize("name", ["shared", "copies", "any call"])
@pytest.mark.parametrize("behind", [False, True], ids=["front", "back"])
def test_from_every_state_hits_are_taken_out_of_a_part_of_the_queue_as_out_of_the_whole(
    name: str, *, behind: bool
) -> None:
    code = model(SCOPES[name])
    states, config = reached(code, 200), code.parameters
    requests = torch.arange(min(3, tensors.nobody(code.initial)))
    width, answered = code.initial.tables.shape[1] - 1, 0

    def admitted(pool: tensors.Pool, cells: int | None) -> Any:
        prompts = config.lengths.index_select(0, requests)
        hits = tensors.get_computed_blocks(config, pool, requests, prompts)
        tokens = prompts - hits.lengths * config.block_size
        made = index.index_of(config, pool)
        reach = None if cells is None else Reach(made.places, cells, behind, torch.full_like(made.places, NEVER))
        after, slots = tensors.admit(
            config, pool, requests, torch.zeros_like(tokens), tokens, hits, width=width, reach=reach
        )
        made = index.adopted(after, made, requests)
        made = index.placed(after, made, 0 if behind or not cells else cells, cells if behind and cells else 0)
        rows = torch.arange(tensors.nobody(pool))
        made = index.settle(after, made, rows, after.tables.numel())
        away = index.distances(pool, index.index_of(config, pool), hits)[int(behind)]
        return after, slots.codes, made, away, index.index_of(config, after)

    cells = code.initial.order.shape[0] - 1
    wanted, codes, _, away, _ = torch.func.vmap(lambda pool: admitted(pool, None))(states)
    for reach in range(cells + 1):
        near = away <= reach
        after, given, made, _, anew = torch.func.vmap(lambda pool: admitted(pool, reach))(states)  # noqa: B023  # called here
        ours, whole = (code.layout.pack(pool) for pool in (after, wanted))
        assert torch.equal(ours[near], whole[near])
        assert torch.equal(given[near], codes[near])
        assert bool(((given == codes) | (given == UNANSWERED)).all())
        answered += int((near & (away > 0)).sum())
        for place in near.nonzero().flatten().tolist():
            one, other = (index.Index(*(values[place] for values in which)) for which in (made, anew))
            same_index(tensors.Pool(*(values[place] for values in after)), one, other)
    assert answered > 20


def test_a_part_of_what_waits_is_settled_and_the_rest_another_time() -> None:
    sides = Sides(Config(2, 12, ((0, 1, 2), (3, 4, 5)), (6, 6)))
    made = index.index_of(sides.tables, sides.pool)
    sides.allocate([0, 1], [0, 0], [6, 6], width=3)
    sides.commit([0, 1], [6, 5])
    rows = integers([0, 1])
    assert int(index.waiting(sides.pool, made, rows)) == 6
    made = index.settle(sides.pool, made, rows, 4)
    assert made.settled.tolist() == [3, 0, 0]
    made = index.settle(sides.pool, made, rows, 3)
    assert made.settled.tolist() == [3, 2, 0]
    same_index(
        sides.pool,
        made._replace(places=index.index_of(sides.tables, sides.pool).places),
        index.index_of(sides.tables, sides.pool),
    )


# Planted bugs -------------------------------------------------------------------------------------------------------

INDEX, INDEXED = "cacheimpl.kv_blocks.index", "cacheimpl.kv_blocks.indexed"
ADMISSION, MARKING = "cacheimpl.kv_blocks.admission", "cacheimpl.kv_blocks.marking"

MUTANTS: dict[str, tuple[str, str, str]] = {
    "what is taken is still counted": (
        f"{INDEX}.counted_as_found",
        "-$unit",
        "0 * $unit",
    ),
    "what is found is not counted": (
        f"{INDEX}.counted_as_found",
        "copies=$write.add($left, $coming, $unit)",
        "copies=$write.add($left, $coming, 0 * $unit)",
    ),
    "the null block is counted": (
        f"{INDEX}.counted_as_found",
        "($now != $was) & ($blocks < null_block($pool))",
        "$now != $was",
    ),
    "the key of a copy that is gone stays the least": (
        f"{INDEX}.counted_as_found",
        "$write.put($index.first, torch.where($alone, $coming, $none), NEVER)",
        "$write.put($index.first, torch.where($alone & ($coming < 0), $coming, $none), NEVER)",
    ),
    "the latest copy is the first": (
        f"{INDEX}.counted_as_found",
        "$write.lower",
        "$write.put",
    ),
    "the key of other copies is given up": (
        f"{INDEX}.counted_as_found",
        "$write.put($index.first, torch.where($alone, $coming, $none), NEVER)",
        "$write.put($index.first, $coming, NEVER)",
    ),
    "a copy that is gone is found": (
        f"{INDEX}.look_up",
        "$x & (key_of($pool, $led) == $key)",
        "$x",
    ),
    "several copies are one": (f"{INDEX}.look_up", "$count == 1", "$count >= 1"),
    "one copy has to be the first": (f"{INDEX}.look_up", "$count == 1", "$count < 0"),
    "no content is found": (f"{INDEX}.look_up", "($count > 0) & $x", "$count > 0"),
    "all tokens are found by content": (f"{INDEX}.look_up", "$ends >= $tokens[:, None]", "$ends > $tokens[:, None]"),
    "what is certain is all": (f"{INDEX}.look_up", "($single | $leads).reshape", "($single | ~$single).reshape"),
    "settled as far as the table goes": (
        f"{INDEX}.settle",
        "torch.minimum($registered, $first + $counts)",
        "$first + $counts",
    ),
    "what is left over counts as settled": (f"{INDEX}.settle", "$up_to <= $most", "$up_to >= 0"),
    "the last that waits is left out": (
        f"{INDEX}.settle",
        "$pieces.there",
        "$pieces.there & ($pieces.rank + 1 < $pieces.total)",
    ),
    "hits are not settled": (f"{INDEX}.adopted", "$pool.registered.index_select(0, $requests)", "0 * $requests"),
    "the front is not placed": (f"{INDEXED}.IndexedServing.admit", "($reach.cells, 0)", "(0, 0)"),
    "the back is not placed": (f"{INDEXED}.IndexedServing.admit", "(0, $reach.cells)", "(0, 0)"),
    "hits of somebody who was not settled": (f"{INDEXED}.IndexedServing.admit", "self._settle(self._rows)", "pass"),
    "a look-up before all is settled": (
        f"{INDEXED}.IndexedServing.get_computed_blocks",
        "self._settle(self._rows)",
        "pass",
    ),
    "a table is given back unsettled": (
        f"{INDEXED}.IndexedServing._settle",
        "if $most:\n    self._index = settle(self.pool, self._index, $requests, $most, SERVING)",
        (
            "if $most and $requests is self._rows:\n"
            "    self._index = settle(self.pool, self._index, $requests, $most, SERVING)"
        ),
    ),
    "what is given back is not placed": (
        f"{INDEX}.released",
        "placed(*$first, $cells, $cells, $write)",
        "placed(*$first, 0, 0, $write)",
    ),
    "a table that is given back stays settled": (
        f"{INDEX}.released",
        "$write.put($index.settled, $requests, $x)",
        "$write.put($index.settled, $requests, $index.settled.index_select(0, $requests))",
    ),
    "the reach is one cell short": (
        f"{INDEX}.distances",
        "distance(*$rest, behind=$end).max() + 1",
        "distance(*$rest, behind=$end).max()",
    ),
    "a hit out of reach is adopted": (
        f"{ADMISSION}.admit",
        "$x >= $reach.cells",
        "$x < -1",
    ),
    "what stands before a hit moves behind it": (
        f"{ADMISSION}.without_held",
        "$pool.head if $behind else $pool.head + $gone",
        "$pool.head",
    ),
    "marks stay": (
        f"{MARKING}.least_by_block",
        "$write.put($marked, $blocks, NEVER)",
        "$write.put($marked, $blocks, 1)",
    ),
    "the back is cut off": (f"{ADMISSION}.without_held", "$moved + $first - 1", "$moved - 1"),
}


def caught() -> str:
    """How it ends: nothing, or the error."""
    try:
        for test in DIRECTED:
            test()
        for seed in range(8):
            played(crowded(6, seed, room=0.3 + 0.1 * (seed % 3)), seed, 30)
            copied(seed, 60)
    except (AssertionError, RuntimeError, IndexError, RoundTripError) as error:
        return type(error).__name__
    return "nothing"


DIRECTED: tuple[Callable[[], None], ...] = (
    test_all_blocks_are_passed_over_only_where_the_first_of_several_copies_is_gone,
    test_a_block_that_comes_back_with_the_same_content_is_not_the_first_any_more,
    test_a_hit_that_nobody_looked_up_is_counted_once,
    test_what_stands_for_nothing_is_neither_counted_nor_found,
    test_a_part_of_what_waits_is_settled_and_the_rest_another_time,
    partial(test_from_every_state_hits_are_taken_out_of_a_part_of_the_queue_as_out_of_the_whole, "shared", behind=True),
)


def test_without_a_bug_nothing_is_caught() -> None:
    assert caught() == "nothing"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    plant(*MUTANTS[mutant])
    assert caught() != "nothing"
