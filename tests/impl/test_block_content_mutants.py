"""Bugs planted in the contents of blocks: each is found by the checks that are run without it."""

from __future__ import annotations

import pytest
import torch
from tests.impl.block_content_checks import (
    CHAINS,
    check_a_table_without_a_row_to_spare,
    check_chains,
    check_decode,
    check_giving_back,
    check_growth,
    check_slots_after_building,
    check_that_few_rounds_are_enough,
    check_that_what_has_no_row_is_said,
    check_the_end_of_a_search,
)
from tests.impl.block_contents import ONE_WAY, Plant, colliding, fixed, lockstep, one_way_each_twice

torch.set_num_threads(1)

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
        check_decode(config_of)
        check_giving_back(config_of)
        check_growth(config_of)
    check_a_table_without_a_row_to_spare()
    check_slots_after_building()
    check_that_what_has_no_row_is_said()
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
