"""Rows of contents are those of a dictionary {(parent, tokens, extras): row}, whatever collides, and however full."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from cacheimpl.block_content import (
    NONE,
    BlockContents,
    Burst,
    Config,
    Contents,
    ExtraKeys,
    Interned,
    Item,
    again,
    burst_of,
    drawn,
    empty,
    extras_of,
    intern,
    packed,
)
from cacheimpl.block_content.probing import FEW_ITEMS
from cacheimpl.writing import COPYING, IN_PLACE, Writing

torch.set_num_threads(1)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
PASSES_AT_MOST = 400


ConfigOf = Callable[[Config], Config]
Plant = Callable[[str, str, str], None]


def colliding(config: Config) -> Config:
    """Everything has one hash, and so goes one way."""
    return Config(*(torch.zeros_like(numbers) for numbers in config))


def fixed(block_size: int, seed: int = 0) -> Config:
    """Numbers as `drawn` has them, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return Config(*(torch.randint(0, 1 << 62, n.shape, generator=generator) * 2 + 1 for n in drawn(block_size)))


class Prompt(NamedTuple):
    """What a dictionary keeps of a prompt."""

    tokens: list[int]
    extras: list[int]
    parent: int = NONE


def drawn_prompts(rng: random.Random, requests: int, blocks: int, block_size: int) -> list[Prompt]:
    """Of two tokens only, so that many begin alike."""
    return [
        Prompt(
            [rng.randrange(2) for _ in range(rng.randrange(blocks * block_size + 1))],
            [rng.choice((0, 0, 0, 1, 2)) for _ in range(blocks)],
        )
        for _ in range(requests)
    ]


def tensors_of(prompts: list[Prompt], blocks: int, block_size: int) -> Burst:
    """The same in tensors; what is behind the end of a prompt is rubbish that nobody may look at."""
    tokens = torch.randint(0, 2, (len(prompts), blocks * block_size), dtype=torch.int32)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt.tokens)] = torch.tensor(prompt.tokens, dtype=torch.int32)
    return burst_of(
        packed(tokens, block_size),
        torch.tensor([prompt.extras for prompt in prompts]),
        torch.tensor([prompt.parent for prompt in prompts]),
        torch.tensor([len(prompt.tokens) // block_size for prompt in prompts]),
    )


def ended(config: Config, contents: Contents, burst: Burst, write: Writing) -> tuple[Contents, Interned, int]:
    """The call, as often as something remains, and how often that was."""
    for passes in range(1, PASSES_AT_MOST):
        contents, found = intern(config, contents, burst, write)
        assert int(found.lacking) == 0
        if int(found.remaining) == 0:
            return contents, found, passes
        burst = again(burst, found, passes)
    raise AssertionError("it does not come to an end")


class Dictionary:
    """What a content is, said as directly as can be."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.rows: dict[tuple[int, tuple[int, ...], int], int] = {}

    def check(self, prompts: list[Prompt], rows: list[list[int]]) -> None:
        """Equal contents have equal rows, others have others, and where there is no block there is none."""
        for prompt, found in zip(prompts, rows, strict=True):
            full, parent = len(prompt.tokens) // self.block_size, prompt.parent
            assert found[full:] == [NONE] * (len(found) - full)
            for place, row in enumerate(found[:full]):
                tokens = tuple(prompt.tokens[place * self.block_size : (place + 1) * self.block_size])
                content = (parent, tokens, prompt.extras[place])
                if content not in self.rows:
                    assert row not in self.rows.values(), f"{content} has the row of another"
                    self.rows[content] = row
                assert self.rows[content] == row
                parent = row


def lockstep(
    seed: int, config: Config, block_size: int, write: Writing = IN_PLACE, *, requests: int = 6, bursts: int = 6
) -> int:
    """Several bursts of prompts that begin alike, each twice, against the dictionary; how many calls it took."""
    rng, dictionary, calls, blocks, rows = random.Random(seed), Dictionary(block_size), 0, 5, 200
    contents = empty(block_size, rows)
    for _ in range(bursts):
        prompts = drawn_prompts(rng, requests, blocks, block_size)
        burst = tensors_of(prompts, blocks, block_size)
        contents, first, passes = ended(config, contents, burst, write)
        calls += passes
        dictionary.check(prompts, first.rows.tolist())
        contents, again, _ = ended(config, contents, burst, write)
        assert torch.equal(again.rows, first.rows)
        assert int(again.created) == 0
        assert int(contents.free_rows) == rows - len(dictionary.rows)
    return calls


@pytest.mark.parametrize("write", [COPYING, IN_PLACE], ids=["copying", "in place"])
@pytest.mark.parametrize("block_size", [1, 2, 3, 16])
def test_rows_are_those_of_a_dictionary(block_size: int, write: Writing) -> None:
    for seed in range(4):
        assert lockstep(seed, fixed(block_size), block_size, write) == 6, "nothing remains where nothing collides"


@pytest.mark.parametrize("block_size", [2, 3])
def test_where_everything_collides_it_takes_longer_and_is_still_exact(block_size: int) -> None:
    for seed in range(2):
        calls = lockstep(seed, colliding(fixed(block_size)), block_size, requests=4, bursts=2)
        assert calls > 2, "the first call says that something remains"


def test_where_prefixes_of_one_depth_collide_it_is_still_exact() -> None:
    for seed in range(2):
        assert lockstep(seed, depth_only(fixed(2)), 2, requests=4, bursts=2) > 2


ONE_WAY = ("cacheimpl.block_content.hashing.ways", "begin = mixed(config, sums)", "begin = sums * 0")
"""All hashes begin at the same slot, with the same stride; planted, it makes long searches, and is no bug."""


def one_way_each_twice(config: Config) -> Config:
    """Contents of the same tokens collide, whatever their extras."""
    return config._replace(extra=torch.zeros_like(config.extra))


@pytest.mark.parametrize("config_of", [lambda config: config, one_way_each_twice], ids=["drawn", "extras collide"])
def test_where_all_go_one_way_it_takes_longer_and_is_still_exact(config_of: ConfigOf, plant: Plant) -> None:
    plant(*ONE_WAY)
    for seed in range(2):
        assert lockstep(seed, config_of(fixed(2)), 2, requests=5, bursts=3) > 3


def test_who_stands_before_an_empty_slot_at_the_end_takes_that_one(plant: Plant) -> None:
    plant(*ONE_WAY)
    check_the_end_of_a_search()


def check_the_end_of_a_search() -> None:
    """Nine contents on one way, the first of which has the hash of the tenth: eight rounds end before the empty slot.

    Another time it is looked for in a burst so large that it has more rounds, and comes to the same slot.
    """
    config, contents = one_way_each_twice(fixed(1)), empty(1, 20)
    for token in range(9):
        contents, found, _ = ended(config, contents, tensors_of([Prompt([token], [0])], 1, 1), COPYING)
        assert found.rows.tolist() == [[token]]
    contents, found, _ = ended(config, contents, tensors_of([Prompt([0], [1])], 1, 1), COPYING)
    assert found.rows.tolist() == [[9]]
    many = [Prompt([0], [1]), *[Prompt([], [0])] * FEW_ITEMS]
    contents, found, _ = ended(config, contents, tensors_of(many, 1, 1), COPYING)
    assert found.rows[0].tolist() == [9]
    assert int(contents.free_rows) == 10


def check_that_few_rounds_are_enough() -> None:
    """Where nothing collides and a tenth of the slots is taken, one call does it."""
    for seed in range(4):
        tokens = torch.arange(1024, dtype=torch.int32).reshape(256, 4)
        ones = torch.ones(256, 4, dtype=torch.int64)
        burst = burst_of(packed(tokens, 1), ones, torch.full((256,), NONE), torch.full((256,), 4))
        _, found = intern(fixed(1, seed), empty(1, 1300), burst)
        assert (int(found.remaining), int(found.created)) == (0, 1024)


def test_few_rounds_are_enough() -> None:
    check_that_few_rounds_are_enough()


def depth_only(config: Config) -> Config:
    """A hash of nothing but the depth: chains agree in every hash and in no content."""
    return config._replace(words=torch.zeros_like(config.words), extra=torch.zeros_like(config.extra))


A, B, C, D, E = ([token, token] for token in (1, 2, 3, 4, 5))
CHAINS = {
    "a child of another parent": [[A + B], [C + B]],
    "the own block is there, behind the parent that comes second": [[A, C], [C + B], [A + B], [C + B]],
    "what was claimed in vain": [[A, C], [C + B], [C + B + D], [C + B + E], [A + E, C + B + D]],
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


@pytest.mark.parametrize("case", CHAINS)
def test_chains_whose_hashes_agree(case: str) -> None:
    check_chains(CHAINS[case])


def test_a_table_without_a_row_to_spare() -> None:
    """As many rows as contents: eight prompts of two blocks, all different. Built anew, every one is found."""
    tokens = torch.tensor([[place, place, 9, place] for place in range(8)], dtype=torch.int32)
    table, lengths = BlockContents(2, 16), torch.full((8,), 4)
    rows = table.of_prompts(tokens, lengths)
    assert sorted(rows.flatten().tolist()) == list(range(16))
    table.keep(rows)
    assert torch.equal(table.of_prompts(tokens, lengths), rows)
    assert (table.used, table.contents.rows) == (16, 16)


def test_what_has_no_row_is_said_and_takes_nothing() -> None:
    prompts = [Prompt([place, place, 9, place], [0, 0]) for place in range(8)]
    dictionary = Dictionary(2)
    contents, found = intern(fixed(2), empty(2, 10), tensors_of(prompts, 2, 2))
    assert (int(found.lacking), int(found.remaining), int(found.created)) == (6, 6, 10)
    whole = [prompt for prompt, rows in zip(prompts, found.rows.tolist(), strict=True) if NONE not in rows]
    dictionary.check(whole, [rows for rows in found.rows.tolist() if NONE not in rows])
    assert int(contents.free_rows) == 0


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_functions_can_be_lifted(config_of: ConfigOf) -> None:
    """Several engines at once are the engines one after the other, call by call."""
    config = config_of(fixed(2))
    rng = random.Random(7)
    bursts = [tensors_of(drawn_prompts(rng, 3, 4, 2), 4, 2) for _ in range(3)]
    together = Burst(*(torch.stack(parts) for parts in zip(*bursts, strict=True)))
    states = Contents(*(torch.stack([table] * 3) for table in empty(2, 40)))
    lifted = torch.func.vmap(lambda contents, burst: intern(config, contents, burst))
    for _ in range(3):
        after, found = lifted(states, together)
        for engine, burst in enumerate(bursts):
            alone = Contents(*(table[engine] for table in states))
            expected = intern(config, alone, burst._replace(walked=together.walked[engine]))
            assert_same(Contents(*(table[engine] for table in after)), expected[0])
            assert_same(Interned(*(values[engine] for values in found)), expected[1])
        states, together = after, together._replace(walked=found.walked)


def assert_same(one: Any, other: Any) -> None:
    """But for the last row and the last slot, which are nobody's."""
    for name, left, right in zip(one._fields, one, other, strict=True):
        whole = left.dim() == 0 or type(one) is not Contents
        assert torch.equal(left if whole else left[:-1], right if whole else right[:-1]), name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("requests", [2, 3, 64, 4096])
def test_every_size_is_the_same_function(requests: int, device: str) -> None:
    generator = torch.Generator().manual_seed(requests)
    tokens = torch.randint(0, 3, (requests, 8), generator=generator, dtype=torch.int32)
    lengths = torch.randint(0, 9, (requests,), generator=generator)
    table = BlockContents(2, 4 * requests, device)
    rows = table.of_prompts(tokens.to(device), lengths.to(device)).cpu()
    prompts = [Prompt(line[:length], [0] * 4) for line, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    expected: dict[tuple[int, ...], int] = {}
    for prompt, found in zip(prompts, rows.tolist(), strict=True):
        for place in range(len(prompt.tokens) // 2):
            assert expected.setdefault(tuple(prompt.tokens[: 2 * place + 2]), found[place]) == found[place]
    assert len(set(expected.values())) == len(expected) == table.used


# Decode ---------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_blocks_that_are_filled_later_are_those_of_a_longer_prompt(config_of: ConfigOf) -> None:
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


# Giving back ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_what_is_held_keeps_its_rows_and_the_others_come_back(config_of: ConfigOf) -> None:
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
            table.keep(torch.tensor([*held, NONE], dtype=torch.int32), torch.full((2, 2), NONE))
            live = live_rows(dictionary, held)
            dictionary.rows = {content: row for content, row in dictionary.rows.items() if row in live}
            assert table.used == len(live)


def interned(table: BlockContents, prompts: list[Prompt]) -> Tensor:
    """By the public face, with the tokens padded."""
    length = 5 * table.block_size
    tokens = torch.tensor([[*prompt.tokens, *[0] * (length - len(prompt.tokens))] for prompt in prompts])
    lengths = torch.tensor([len(prompt.tokens) for prompt in prompts])
    return table.of_prompts(tokens.int(), lengths, torch.tensor([prompt.extras for prompt in prompts]))


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


def test_rows_leave_the_slots_that_they_have_since_the_table_was_built() -> None:
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
    with pytest.raises(ValueError, match="must be positive"):
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


# Bugs that have to be found -------------------------------------------------------------------------------------------

PLACE = "cacheimpl.block_content"
MUTANTS = {
    "tokens are not compared": (f"{PLACE}.operations._equal", "tokens & others", "others"),
    "the first tokens are enough": (f"{PLACE}.operations.all_of", "equal.all(-1)", "equal[..., :1].all(-1)"),
    "one equal word is enough": (f"{PLACE}.operations.all_of", "== EIGHT_TIMES_TRUE", "!= 0"),
    "a row does not know its slot": (
        f"{PLACE}.operations._committed",
        "contents.homes, entry, place)",
        "contents.homes, entry, place * 0)",
    ),
    "a row that was placed does not know its slot": (
        f"{PLACE}.release.place",
        "claims - (rows + 1), rows), here)",
        "claims - (rows + 1), rows), here * 0)",
    ),
    "who leaves keeps its slot": (f"{PLACE}.release.forgotten", "contents.homes[:-1], nowhere", "nowhere, nowhere"),
    "who stays loses its slot": (f"{PLACE}.release.forgotten", "& ~live", "& live"),
    "a slot that was left is empty": (f"{PLACE}.release.forgotten", "place, contents.rows)", "place, 1 << 30)"),
    "a held child does not need its parent": (f"{PLACE}.release.is_closed", "(~held |", "(held | ~held |"),
    "parents are not compared": (
        f"{PLACE}.operations._equal",
        "contents.parents.index_select(0, row) == parents.flatten()",
        "row >= 0",
    ),
    "extras are not compared": (
        f"{PLACE}.operations._equal",
        "contents.extras.index_select(0, row) == burst.extras.flatten()",
        "row >= 0",
    ),
    "a block is right though the one before is not": (
        f"{PLACE}.operations.intern",
        "~((~_equal(contents, burst, parents, rows)).cumsum(1) > 0)",
        "_equal(contents, burst, parents, rows)",
    ),
    "the last block of a prompt is left out": (
        f"{PLACE}.operations.intern",
        "< burst.counts[:, None]",
        "< burst.counts[:, None] - 1",
    ),
    "what is behind the end counts": (
        f"{PLACE}.operations.intern",
        "< burst.counts[:, None]",
        "<= burst.counts[:, None]",
    ),
    "a row is given twice": (f"{PLACE}.operations.intern", "contents.free_rows - 1 - rank", "contents.free_rows - 1"),
    "one row more than there are": (
        f"{PLACE}.operations.intern",
        "rank < contents.free_rows",
        "rank <= contents.free_rows",
    ),
    "the parent of all is the first": (
        f"{PLACE}.operations.intern",
        "torch.cat((burst.parents[:, None], rows[:, :-1]), 1)",
        "burst.parents[:, None].expand(rows.shape)",
    ),
    "who finds another content waits for ever": (
        f"{PLACE}.operations.intern",
        "found.stride * mismatch.flatten()",
        "found.stride * 0",
    ),
    "what is pending is passed": (
        f"{PLACE}.operations.intern",
        "& ended & ~settled",
        "& ~settled",
    ),
    "claims that came to nothing are rows": (
        f"{PLACE}.operations._committed",
        "torch.where(committed, made, nobody)",
        "made",
    ),
    "rows of claims that came to nothing are lost": (
        f"{PLACE}.operations._committed",
        "free_rows=height + back.sum()",
        "free_rows=height",
    ),
    "an empty slot has a hash": (f"{PLACE}.operations._found", "(seen != EMPTY) & ", ""),
    "the later round takes the slot": (
        f"{PLACE}.probing.round_of",
        "number << index_bits(known)",
        "(15 - number) << index_bits(known)",
    ),
    "everybody stays where it is": (f"{PLACE}.probing.round_of", "search.stride * going_on", "search.stride * 0"),
    "even strides": (f"{PLACE}.hashing.ways", "(begin >> WAY_SHIFT) | 1", "(begin >> WAY_SHIFT) & ~1"),
    "an odd block loses its last token": (f"{PLACE}.hashing.packed", "(whole, (0, 1))", "(whole[..., :-1], (0, 2))"),
    "only parents stay, not theirs": (
        f"{PLACE}.release.with_ancestors",
        "range(nobody.bit_length())",
        "range(1)",
    ),
    "who is held stays without those before": (
        f"{PLACE}.release.with_ancestors",
        'marked.scatter_reduce(0, up, marked, "amax")',
        "marked",
    ),
    "live rows are free": (f"{PLACE}.release.with_free_rows", "dead = ~live", "dead = live"),
    "the table is built without its first row": (
        f"{PLACE}.release.place",
        "mine = live & ",
        "mine = live & (claims > rows + 1) & ",
    ),
    "two rows in one slot": (
        f"{PLACE}.release.place",
        "torch.cat((claims, claims.new_zeros(1), claims))",
        "torch.cat((claims, claims.new_zeros(1), claims)) * 0 + claims",
    ),
}
EXPECTED = (AssertionError, IndexError, RuntimeError, ValueError)


def everything(plant: Plant) -> None:
    """Each kind of run once, small."""
    for chains in CHAINS.values():
        check_chains(chains)
    check_that_few_rounds_are_enough()
    for config_of in (lambda config: config, colliding):
        for block_size in (2, 3):
            lockstep(1, config_of(fixed(block_size)), block_size, requests=4, bursts=2)
    lockstep(1, colliding(fixed(16)), 16, requests=3, bursts=2)
    for config_of in (lambda config: config, colliding):
        test_blocks_that_are_filled_later_are_those_of_a_longer_prompt(config_of)
        test_what_is_held_keeps_its_rows_and_the_others_come_back(config_of)
        test_a_table_grows_and_everything_keeps_its_row(config_of)
    test_a_table_without_a_row_to_spare()
    test_rows_leave_the_slots_that_they_have_since_the_table_was_built()
    test_what_has_no_row_is_said_and_takes_nothing()
    plant(*ONE_WAY)
    for config_of in (fixed, lambda block_size: one_way_each_twice(fixed(block_size))):
        lockstep(2, config_of(2), 2, requests=5, bursts=3)
    check_the_end_of_a_search()


def test_without_a_bug_everything_passes(plant: Plant) -> None:
    everything(plant)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    plant(*MUTANTS[mutant])
    with pytest.raises(EXPECTED):
        everything(plant)
