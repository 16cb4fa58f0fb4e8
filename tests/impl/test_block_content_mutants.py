"""Bugs planted in the contents of blocks: each is found by the checks that are run without it."""

from __future__ import annotations

import pytest
import torch
from tests.impl.block_content_checks import (
    CHAINS,
    check_a_table_with_few_lanes,
    check_a_table_without_a_row_to_spare,
    check_blocks_without_extras,
    check_chains,
    check_decode,
    check_giving_back,
    check_growth,
    check_long_chains,
    check_many_on_one_way,
    check_slots_after_building,
    check_that_few_rounds_are_enough,
    check_that_what_has_no_row_is_said,
    check_that_what_is_passed_is_no_content,
    check_the_end_of_a_search,
    check_whether_a_prompt_may_be_cached,
    check_who_may_not_take_a_slot,
)
from tests.impl.block_contents import ONE_WAY, Plant, colliding, depth_only, fixed, lockstep, one_way_each_twice

torch.set_num_threads(1)

PLACE = "cacheimpl.block_content"
MUTANTS = {
    # comparing
    "tokens are not compared": (f"{PLACE}.comparing.agree", "$tokens & ($y == $ours.parents)", "$y == $ours.parents"),
    "the first tokens are enough": (
        f"{PLACE}.comparing.all_of",
        "if $x:\n    return $equal.all(-1)",
        "if $x:\n    return $equal[..., :1].all(-1)",
    ),
    "one equal word is enough": (
        f"{PLACE}.comparing.all_of",
        "$equal.view(torch.int64) == EIGHT_TIMES_TRUE",
        "$equal.view(torch.int64) != 0",
    ),
    "parents are not compared": (
        f"{PLACE}.comparing.agree",
        "$y(0, $names) == $ours.parents",
        "$names >= 0",
    ),
    "extras are not compared": (
        f"{PLACE}.comparing.agree",
        "$theirs.extras.index_select(0, $names) == $x",
        "$names >= 0",
    ),
    "without extras, any will do": (
        f"{PLACE}.comparing.agree",
        "if $theirs.extras is None:\n    $body",
        "if $theirs.extras is None or ours.extras is None:\n    $body",
    ),
    "the parent's name is that of the first": (
        f"{PLACE}.comparing.parents_in",
        "torch.cat(($first[:, None], $names[:, :-1]), 1)",
        "$first[:, None].expand($names.shape)",
    ),
    "what is passed is a content": (
        f"{PLACE}.comparing.compared",
        "($same & ~$passed, $other | $same & $passed)",
        "($same, $other | $same & $passed)",
    ),
    "a claim that may come to nothing is a content": (
        f"{PLACE}.comparing.compared",
        "$same & ~$unequal.any()",
        "$same",
    ),
    "who has no lane is another": (f"{PLACE}.comparing._with", "$asked & ($asked.cumsum(0) <= $lanes)", "$asked"),
    "one lane too many": (f"{PLACE}.comparing._with", "$asked.cumsum(0) <= $lanes", "$asked.cumsum(0) <= $lanes + 1"),
    "a lane is nobody's": (f"{PLACE}.probing.first_of", "fill_value=0", "fill_value=-1"),
    "lanes for who has ended": (f"{PLACE}.probing.first_of", "$chosen.nonzero_static", "(~$chosen).nonzero_static"),
    # looking and settling
    "a block is right though the one before is not": (
        f"{PLACE}.operations._whole",
        "$y.cumsum(1, dtype=torch.int32)",
        "$y.long()",
    ),
    "the last block of a prompt is left out": (
        f"{PLACE}.operations.look",
        "$burst.counts[:, None]",
        "$burst.counts[:, None] - 1",
    ),
    "what is behind the end counts": (
        f"{PLACE}.operations.look",
        "$x < $burst.counts[:, None]",
        "$x <= $burst.counts[:, None]",
    ),
    "an empty slot has a hash": (f"{PLACE}.operations.look", "$x & ($search.seen != EMPTY)", "$x"),
    "a row is an item": (f"{PLACE}.operations.look", "$found < $first << ABOVE", "$found < 0"),
    "an item is a row": (f"{PLACE}.operations.look", "$found < $first << ABOVE", "$found >= 0"),
    "a row is given twice": (
        f"{PLACE}.operations.settle",
        "$own.cumsum(0, dtype=torch.int32)",
        "$own.int()",
    ),
    "one row more than there are": (
        f"{PLACE}.operations.settle",
        "$wanted - $contents.free_rows",
        "$wanted - $contents.free_rows - 1",
    ),
    "rows are made though some are lacking": (
        f"{PLACE}.operations.settle",
        "$settled & ($lacking == 0)",
        "$settled & True",
    ),
    "rows that are made are still free": (
        f"{PLACE}.operations.settle",
        "torch.where($lacking == 0, $wanted, 0)",
        "$wanted * 0",
    ),
    "who finds a claim has the claim's number": (
        f"{PLACE}.operations._rows_of",
        "$made.index_select(0, $claimant)",
        "$claimant",
    ),
    "the parent of all is the first": (
        f"{PLACE}.operations._made",
        "$rows[:, :-1].int()",
        "$rows[:, :-1].int() * 0",
    ),
    "claims that came to nothing leave an empty slot": (
        f"{PLACE}.operations._made",
        "($made << ABOVE) + torch.where($made == $contents.rows, $z, $looked.sought)",
        "torch.where($made < $contents.rows, ($made << ABOVE) + $looked.sought, 1 << 62)",
    ),
    "who finds another content waits for ever": (f"{PLACE}.operations.again", "$found.moving", "0"),
    "what is pending is passed": (f"{PLACE}.operations._met_another", "$x & $before", "$x"),
    "what was a content before is new": (
        f"{PLACE}.table.BlockContents._interned",
        "self.may_be_cached or $asked[0] > 0",
        "self.may_be_cached",
    ),
    "once a content, always one": (
        f"{PLACE}.table.BlockContents.of_prompts",
        "(packed($tokens, self.block_size), False)",
        "(packed($tokens, self.block_size), self.may_be_cached)",
    ),
    # the way
    "an empty slot is not for those that may not take it": (
        f"{PLACE}.probing.round_of",
        "$search.going_on & $other & ($seen != EMPTY)",
        "$search.going_on & $other",
    ),
    "the later round takes the slot": (
        f"{PLACE}.probing.round_of",
        "$number << $rounds.above",
        "15 - $number << $rounds.above",
    ),
    "everybody stays where it is": (
        f"{PLACE}.probing.stepped",
        "$search.stands + strides($search.sums)",
        "$search.stands",
    ),
    "even strides": (f"{PLACE}.hashing.strides", "$sums >> WAY_SHIFT | 1", "$sums >> WAY_SHIFT & ~1"),
    "an odd block loses its last token": (
        f"{PLACE}.hashing.packed",
        "torch.nn.functional.pad($whole, (0, 1))",
        "torch.nn.functional.pad($whole[..., :-1], (0, 2))",
    ),
    "the rest of a chain begins elsewhere": (
        f"{PLACE}.hashing.of_prefixes",
        "$x ^ $first - 1 & TOGETHER - 1",
        "$x",
    ),
    "the rest of a chain is led by its own": (
        f"{PLACE}.hashing.of_prefixes",
        "min=-1",
        "min=0",
    ),
    "the rest of a chain is less deep": (
        f"{PLACE}.hashing.of_prefixes",
        "$contents.depths.index_select(0, $row) + 1",
        "$contents.depths.index_select(0, $row)",
    ),
    "the rest of a chain has a hash of its own": (
        f"{PLACE}.hashing.of_prefixes",
        "torch.where($root, 0, $y(0, $row))",
        "torch.zeros_like($row)",
    ),
    # giving back
    "a held child does not need its parent": (f"{PLACE}.release.is_closed", "$parents < 0", "$parents < rows"),
    "only parents stay, not theirs": (f"{PLACE}.release.with_ancestors", "$nobody.bit_length()", "1"),
    "who is held stays without those before": (
        f"{PLACE}.release.with_ancestors",
        "$marked.scatter_reduce(0, $up, $marked, 'amax')",
        "$marked",
    ),
    "who leaves keeps its slot": (f"{PLACE}.release.cleared", "$write.fill($contents.slots, EMPTY)", "$contents.slots"),
    "who leaves is a content": (
        f"{PLACE}.release.cleared",
        "$write.put($contents.depths, $dead, $x)",
        "$contents.depths",
    ),
    "who leaves keeps its extras": (
        f"{PLACE}.release.cleared",
        "$write.put($contents.extras, $dead, $x)",
        "$contents.extras",
    ),
    "the table is built without its first row": (
        f"{PLACE}.release.place",
        "$waiting & ~$search.going_on",
        "$waiting & (live > 0) & ~$search.going_on",
    ),
    "a row takes the slot of another": (
        f"{PLACE}.release.place",
        "$entries + ($contents.rows + 1 << ABOVE)",
        "$entries",
    ),
    "two rows in one slot": (f"{PLACE}.release.place", "whose=True", "whose=False"),
    "who has found no slot has one": (f"{PLACE}.release.place", "$waiting & ~$search.going_on", "$waiting"),
}
EXPECTED = (AssertionError, IndexError, RuntimeError, ValueError)


def everything(plant: Plant) -> None:
    """Each kind of run once, small: the short ones first, then those in which everything collides."""
    for chains in CHAINS.values():
        check_chains(chains)
    check_that_few_rounds_are_enough()
    check_blocks_without_extras()
    check_who_may_not_take_a_slot()
    check_long_chains()
    check_a_table_with_few_lanes()
    check_a_table_without_a_row_to_spare()
    check_slots_after_building()
    check_that_what_has_no_row_is_said()
    check_that_what_is_passed_is_no_content()
    check_whether_a_prompt_may_be_cached()
    check_many_on_one_way()
    lockstep(1, depth_only(fixed(2)), 2, requests=4, bursts=2)
    for config_of in (lambda config: config, colliding):
        check_giving_back(config_of)
        check_decode(config_of)
        for block_size in (2, 3):
            lockstep(1, config_of(fixed(block_size)), block_size, requests=4, bursts=2)
        check_growth(config_of)
    lockstep(1, colliding(fixed(16)), 16, requests=3, bursts=2)
    for bug in ONE_WAY:
        plant(*bug)
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
