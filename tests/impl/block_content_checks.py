"""Checks of contents of blocks: the tests run each on its own, and with a bug planted one of them has to fail."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tests.impl.block_contents import (
    ConfigOf,
    Dictionary,
    Prompt,
    colliding,
    depth_only,
    drawn_prompts,
    ended,
    fixed,
    one_way_each_twice,
    tensors_of,
)
from torch import Tensor

from cacheimpl.block_content import (
    NONE,
    BlockContents,
    Config,
    Contents,
    Lanes,
    again,
    burst_of,
    empty,
    intern,
    look,
    packed,
    settle,
)
from cacheimpl.block_content.bursts import Burst
from cacheimpl.block_content.operations import Interned
from cacheimpl.block_content.probing import FEW_ITEMS
from cacheimpl.block_content.state import ABOVE, EMPTY, LOW
from cacheimpl.writing import COPYING


def check_the_end_of_a_search() -> None:
    """Twelve contents on one way, the first of which has the hash of the next: few rounds end before the empty slot.

    Another time it is looked for in a burst so large that it has more rounds, and comes to the same slot.
    """
    config, contents = one_way_each_twice(fixed(1)), empty(1, 20)
    for token in range(12):
        contents, found, _ = ended(config, contents, tensors_of([Prompt([token], [0])], 1, 1), COPYING)
        assert found.rows.tolist() == [[token]]
    contents, found, _ = ended(config, contents, tensors_of([Prompt([0], [1])], 1, 1), COPYING)
    assert found.rows.tolist() == [[12]]
    many = [Prompt([0], [1]), *[Prompt([], [0])] * FEW_ITEMS]
    contents, found, _ = ended(config, contents, tensors_of(many, 1, 1), COPYING)
    assert found.rows[0].tolist() == [12]
    assert int(contents.free_rows) == 7


def named(table: BlockContents, tokens: list[list[int]]) -> Tensor:
    """[prompts, blocks] int64: the rows of prompts that are equally long, and full to the end."""
    return table.of_prompts(torch.tensor(tokens, dtype=torch.int32), torch.full((len(tokens),), len(tokens[0])))


def check_that_what_is_passed_is_no_content() -> None:
    """A slot that is passed for good, with the hash of what is looked for, and a row of nobody that looks like it."""
    table = BlockContents(1, 4, config=fixed(1))
    row = int(named(table, [[7]]))
    contents = table.contents
    held = (contents.slots != EMPTY).nonzero().flatten()
    contents.slots[held] = (contents.slots[held] & LOW) + (contents.rows << ABOVE)
    for values in (contents.words, contents.parents, contents.extras):
        values[contents.rows] = values[row]
    assert int(named(table, [[7]])) < contents.rows


def check_whether_a_prompt_may_be_cached() -> None:
    """New ones may not be, though two of them are equal; those that begin like an old one may."""
    table = BlockContents(2, 20, config=fixed(2))
    for tokens, may in (
        ([[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]], False),
        ([[9, 9, 9, 9], [5, 6, 0, 0]], True),
        ([[8, 8, 8, 8]], False),
        ([[8, 8, 8, 8]], True),
        ([[2, 1, 3, 4]], False),
    ):
        named(table, tokens)
        assert table.may_be_cached is may


def check_many_on_one_way() -> None:
    """More contents than one call has rounds: after the table is built anew, each is where it was."""
    table = BlockContents(1, 64, config=colliding(fixed(1)))
    prompts = [[token] for token in range(40)]
    rows = named(table, prompts)
    assert sorted(rows.flatten().tolist()) == list(range(40))
    table.keep(rows)
    assert torch.equal(named(table, prompts), rows)


def calls_for_a_chain() -> int:
    """The most calls that it takes to settle a chain of 200 blocks, or to find it, in a table that fills."""
    table, most = BlockContents(1, 800, config=fixed(1)), 0
    rng = random.Random(0)
    for _ in range(3):
        tokens = [rng.randrange(1 << 30) for _ in range(200)]
        for _ in range(2):
            with counting(table) as calls:
                named(table, [tokens])
            most = max(most, len(calls))
    return most


@contextmanager
def counting(table: BlockContents) -> Iterator[list[Burst]]:
    """The bursts that are interned."""
    calls: list[Burst] = []
    settled = table._interned

    def noted(burst: Burst) -> Interned:
        calls.append(burst)
        return settled(burst)

    table._interned = noted  # type: ignore[method-assign]  # it is noted, and done
    try:
        yield calls
    finally:
        table._interned = settled  # type: ignore[method-assign]


def check_that_few_rounds_are_enough() -> None:
    """Where nothing collides and a tenth of the slots is taken, one call does it."""
    for seed in range(4):
        tokens = torch.arange(1024, dtype=torch.int32).reshape(256, 4)
        ones = torch.ones(256, 4, dtype=torch.int64)
        burst = burst_of(packed(tokens, 1), ones, torch.full((256,), NONE), torch.full((256,), 4))
        _, found = intern(fixed(1, seed), empty(1, 1300), burst)
        assert (int(found.remaining), int(found.created)) == (0, 1024)


A, B, C, D, E = ([token, token] for token in (1, 2, 3, 4, 5))
CHAINS = {
    "a child of another parent": [[A + B], [C + B]],
    "the own block is there, behind the parent that comes second": [[A, C], [C + B], [A + B], [C + B]],
    "what was claimed in vain": [[A, C], [C + B], [C + B + D], [C + B + E], [A + E, C + B + D]],
    "what is behind a claim that came to nothing": [[A], [C + B, A + B + D], [A + B + D]],
    "what was claimed in vain is left": [[A], [C + B + D, A + B + D, C + B + E], [C + B + E]],
}


def check_chains(chains: list[list[list[int]]]) -> None:
    """Bursts one after the other, where blocks of one depth have one hash."""
    config, dictionary, contents = depth_only(fixed(2)), Dictionary(2), empty(2, 20)
    for burst in chains:
        prompts = [Prompt(tokens, [0, 0, 0]) for tokens in burst]
        contents, found, _ = ended(config, contents, tensors_of(prompts, 3, 2), COPYING)
        dictionary.check(prompts, found.rows.tolist())
        assert int(contents.free_rows) == 20 - len(dictionary.rows)
        assert int((contents.slots[:-1] != EMPTY).sum()) == int(contents.used_slots), "slots once claimed are not empty"


def check_who_may_not_take_a_slot() -> None:
    """It stays before the empty one; what it would be is not taken for row 0, which is nobody's and all zeros."""
    contents, burst = empty(2, 4), tensors_of([Prompt([0, 0], [0])], 1, 2)
    after, found = intern(fixed(2), contents, burst._replace(claiming=torch.zeros(1, 1, dtype=torch.bool)))
    assert (found.rows.tolist(), int(found.remaining), bool(found.moving.any())) == ([[NONE]], 1, False)
    assert bool((after.slots[:-1] == EMPTY).all())


def check_a_table_without_a_row_to_spare() -> None:
    """As many rows as contents: eight prompts of two blocks, all different. Built anew, every one is found."""
    tokens = torch.tensor([[place, place, 9, place] for place in range(8)], dtype=torch.int32)
    table, lengths = BlockContents(2, 16, config=fixed(2)), torch.full((8,), 4)
    rows = table.of_prompts(tokens, lengths)
    assert sorted(rows.flatten().tolist()) == list(range(16))
    table.keep(rows)
    assert torch.equal(table.of_prompts(tokens, lengths), rows)
    assert (table.used, table.contents.rows) == (16, 16)


def check_that_what_has_no_row_is_said() -> None:
    """Ten rows for sixteen contents: six are lacking, and none is made; what is there before stays as it is."""
    prompts = [Prompt([place, place, 9, place], [0, 0]) for place in range(8)]
    dictionary, config = Dictionary(2), fixed(2)
    contents, found = intern(config, empty(2, 10), tensors_of(prompts[:5], 2, 2))
    assert (int(found.lacking), int(found.remaining), int(found.created)) == (0, 0, 10)
    dictionary.check(prompts[:5], found.rows.tolist())
    after, found = intern(config, contents, tensors_of(prompts, 2, 2))
    assert (int(found.lacking), int(found.remaining), int(found.created)) == (6, 16, 0)
    assert int(after.free_rows) == 0
    _, found = intern(config, after, tensors_of(prompts[:5], 2, 2))
    dictionary.check(prompts[:5], found.rows.tolist())
    assert (int(found.lacking), int(found.remaining), int(found.created)) == (0, 0, 0)


def stepped(config: Config, contents: Contents, prompts: list[Prompt]) -> tuple[Contents, list[list[int]]]:
    """Every prompt block by block, as if its output filled them: the rows by place."""
    rows: list[list[int]] = []
    parents = [NONE] * len(prompts)
    for place in range(5):
        steps = [
            Prompt(prompt.tokens[2 * place : 2 * place + 2], prompt.extras[place : place + 1], parent)
            for prompt, parent in zip(prompts, parents, strict=True)
        ]
        contents, found, _ = ended(config, contents, tensors_of(steps, 1, 2), COPYING)
        parents = found.rows[:, 0].tolist()
        rows.append(parents)
    return contents, rows


def check_decode(config_of: ConfigOf) -> None:
    """Blocks that are filled one after the other have the rows of a longer prompt, and the other way round."""
    config = config_of(fixed(2))
    for seed in range(2):
        prompts = drawn_prompts(random.Random(seed), 4, 5, 2)
        contents, whole, _ = ended(config, empty(2, 60), tensors_of(prompts, 5, 2), COPYING)
        after, rows = stepped(config, contents, prompts)
        assert list(zip(*rows, strict=True)) == [tuple(line) for line in whole.rows.tolist()]
        assert int(after.free_rows) == int(contents.free_rows)
        contents, _ = stepped(config, empty(2, 60), prompts)
        _, again, _ = ended(config, contents, tensors_of(prompts, 5, 2), COPYING)
        assert int(again.created) == 0


def live_rows(dictionary: Dictionary, held: set[int]) -> set[int]:
    """What is held, and what comes before it, one after the other."""
    parent_of = {row: parent for (parent, _, _), row in dictionary.rows.items()}
    live = set()
    for one in held:
        row = one
        while row != NONE:
            live.add(row)
            row = parent_of[row]
    return live


def check_giving_back(config_of: ConfigOf) -> None:
    """In a small table, which is built anew each time, and in a large one, in which slots are passed."""
    for seed, rows in ((0, 30), (1, 200), (2, 200)):
        rng, dictionary = random.Random(seed), Dictionary(2)
        table = BlockContents(2, rows, config=config_of(fixed(2)))
        for _ in range(4):
            prompts = drawn_prompts(rng, 3, 5, 2)
            dictionary.check(prompts, interned(table, prompts).tolist())
            assert table.used == len(dictionary.rows)
            known = list(dictionary.rows.values())
            held = set(rng.sample(known, len(known) // 3))
            table.keep(torch.tensor([*held, NONE]), torch.full((2, 2), NONE))
            live = live_rows(dictionary, held)
            dictionary.rows = {content: row for content, row in dictionary.rows.items() if row in live}
            assert table.used == len(live)


def interned(table: BlockContents, prompts: list[Prompt]) -> Tensor:
    """By the public face, with the tokens padded."""
    length = 5 * table.block_size
    tokens = torch.tensor([[*prompt.tokens, *[0] * (length - len(prompt.tokens))] for prompt in prompts])
    lengths = torch.tensor([len(prompt.tokens) for prompt in prompts])
    return table.of_prompts(tokens.int(), lengths, torch.tensor([prompt.extras for prompt in prompts]))


def check_growth(config_of: ConfigOf) -> None:
    """From one row on; then some come back, from the slots that they have since."""
    table, dictionary, rng = BlockContents(2, 1, config=config_of(fixed(2))), Dictionary(2), random.Random(3)
    for _ in range(4):
        prompts = drawn_prompts(rng, 4, 5, 2)
        dictionary.check(prompts, interned(table, prompts).tolist())
    assert table.used == len(dictionary.rows) > 16
    held = set(list(dictionary.rows.values())[::3])
    table.keep(torch.tensor(sorted(held)))
    live = live_rows(dictionary, held)
    dictionary.rows = {content: row for content, row in dictionary.rows.items() if row in live}
    for _ in range(2):
        prompts = drawn_prompts(rng, 4, 5, 2)
        dictionary.check(prompts, interned(table, prompts).tolist())
        assert table.used == len(dictionary.rows)
    with pytest.raises(ValueError, match="rows already"):
        table.grow(table.contents.rows)


def check_blocks_without_extras() -> None:
    """Nothing beside the tokens is a zero, in rows that had something beside them before too."""
    table = BlockContents(1, 6, config=one_way_each_twice(fixed(1)))
    tokens, lengths = torch.arange(3, dtype=torch.int32)[None], torch.tensor([3])
    ones = torch.ones(1, 3, dtype=torch.int64)
    with_ones = table.of_prompts(tokens, lengths, ones)
    without = table.of_prompts(tokens, lengths)
    assert sorted((*with_ones.flatten().tolist(), *without.flatten().tolist())) == list(range(6))
    assert torch.equal(table.of_prompts(tokens, lengths, 0 * ones), without)
    table.keep()
    tokens, lengths = torch.arange(6, dtype=torch.int32)[None], torch.tensor([6])
    assert torch.equal(table.of_prompts(tokens, lengths), table.of_prompts(tokens, lengths))
    assert table.used == 6


def check_long_chains() -> None:
    """Prompts of 40 blocks that part at many places; every rest of one, behind every parent, has the same rows."""
    rng, table, blocks = random.Random(4), BlockContents(1, 400, config=fixed(1)), 40
    prompts: list[list[int]] = [[rng.randrange(9) for _ in range(blocks)]]
    for part in (3, 15, 16, 17, 23, 24, 25, 39):
        prompts.append([*prompts[0][:part], *(9 + rng.randrange(9) for _ in range(blocks - part))])
    tokens, extras = torch.tensor(prompts, dtype=torch.int32), torch.zeros(len(prompts), blocks, dtype=torch.int64)
    whole, dictionary = table.of_prompts(tokens, torch.full((len(prompts),), blocks), extras), Dictionary(1)
    dictionary.check([Prompt(prompt, [0] * blocks) for prompt in prompts], whole.tolist())
    assert table.used == len(dictionary.rows)
    for known in (1, 8, 9, 15, 16, 17, 20, 24, 39):
        rest = tokens[:, known:].contiguous()
        rows = table.of_prompts(rest, torch.full((len(prompts),), blocks - known), parents=whole[:, known - 1])
        assert torch.equal(rows, whole[:, known:])
    assert table.used == len(dictionary.rows)


def check_a_table_with_few_lanes() -> None:
    """Twelve prompts that are there and six copies of a new one, with few lanes: what has none is not settled."""
    config, dictionary, contents = fixed(2), Dictionary(2), empty(2, 40)
    prompts = [Prompt([place, place, 9, place], [0, 0]) for place in range(12)]
    contents, found, _ = ended(config, contents, tensors_of(prompts, 2, 2), COPYING)
    dictionary.check(prompts, found.rows.tolist())
    prompts = [*prompts, *[Prompt([20, 20, 21, 21], [0, 0])] * 6]
    burst = tensors_of(prompts, 2, 2)
    contents, looked = look(config, contents, burst)
    assert looked.counts.tolist() == [24, 10, 2]
    contents, found = settle(contents, burst, looked, Lanes(5, 2, 2))
    assert (int(found.remaining), int(found.created), bool(found.moving.any())) == (36 - 5 - 2 - 2, 2, False)
    settled = [found.rows[place].tolist() for place in (0, 1, 12, 13)]
    dictionary.check([prompts[place] for place in (0, 1, 12, 13)], settled)
    contents, found, _ = ended(config, contents, again(burst, found, 1), COPYING)
    dictionary.check(prompts, found.rows.tolist())
    assert int(contents.free_rows) == 40 - len(dictionary.rows)


def check_slots_after_building() -> None:
    """Four contents on one way; two leave, the others move up, then one of these leaves."""
    table, lengths = BlockContents(1, 8, config=colliding(fixed(1))), torch.ones(4, dtype=torch.int64)
    tokens = torch.arange(4, dtype=torch.int32).reshape(4, 1)
    assert table.of_prompts(tokens, lengths).flatten().tolist() == [0, 1, 2, 3]
    table.keep(torch.tensor([1, 3]))
    table.grow(16)
    table.keep(torch.tensor([3]))
    again = table.of_prompts(tokens, lengths).flatten().tolist()
    assert again[3] == 3
    assert len(set(again)) == table.used == 4
