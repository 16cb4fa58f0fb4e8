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
    "tokens are not compared": (f"{PLACE}.comparing.agree", "tokens & (", "("),
    "the first tokens are enough": (f"{PLACE}.comparing.all_of", "equal.all(-1)", "equal[..., :1].all(-1)"),
    "one equal word is enough": (f"{PLACE}.comparing.all_of", "== EIGHT_TIMES_TRUE", "!= 0"),
    "parents are not compared": (
        f"{PLACE}.comparing.agree",
        "theirs.parents.index_select(0, names) == ours.parents",
        "names >= 0",
    ),
    "extras are not compared": (
        f"{PLACE}.comparing.agree",
        "(theirs.extras.index_select(0, names) == (0 if ours.extras is None else ours.extras))",
        "(names >= 0)",
    ),
    "without extras, any will do": (
        f"{PLACE}.comparing.agree",
        "theirs.extras is None",
        "theirs.extras is None or ours.extras is None",
    ),
    "the parent's name is that of the first": (
        f"{PLACE}.comparing.parents_in",
        "torch.cat((first[:, None], names[:, :-1]), 1)",
        "first[:, None].expand(names.shape)",
    ),
    "what is passed is a content": (f"{PLACE}.comparing.compared", "same & ~passed", "same"),
    "a claim that may come to nothing is a content": (f"{PLACE}.comparing.compared", "same & ~unequal.any()", "same"),
    "who has no lane is another": (f"{PLACE}.comparing._with", "asked & (asked.cumsum(0) <= lanes)", "asked"),
    "one lane too many": (f"{PLACE}.comparing._with", "<= lanes", "<= lanes + 1"),
    "a lane is nobody's": (f"{PLACE}.probing.first_of", "fill_value=0", "fill_value=-1"),
    "lanes for who has ended": (f"{PLACE}.probing.first_of", "chosen.nonzero", "(~chosen).nonzero"),
    # looking and settling
    "a block is right though the one before is not": (
        f"{PLACE}.operations._whole",
        "reshape(requests, blocks).cumsum(1, dtype=torch.int32) == 0",
        "reshape(requests, blocks).long() == 0",
    ),
    "the last block of a prompt is left out": (
        f"{PLACE}.operations.look",
        "< burst.counts[:, None]",
        "< burst.counts[:, None] - 1",
    ),
    "what is behind the end counts": (
        f"{PLACE}.operations.look",
        "< burst.counts[:, None]",
        "<= burst.counts[:, None]",
    ),
    "an empty slot has a hash": (f"{PLACE}.operations.look", " & (search.seen != EMPTY)", ""),
    "a row is an item": (f"{PLACE}.operations.look", "found < first << ABOVE", "found < 0"),
    "an item is a row": (f"{PLACE}.operations.look", "found < first << ABOVE", "found >= 0"),
    "a row is given twice": (
        f"{PLACE}.operations.settle",
        "own.cumsum(0, dtype=torch.int32)",
        "own.int()",
    ),
    "one row more than there are": (
        f"{PLACE}.operations.settle",
        "(wanted - contents.free_rows).clamp(min=0)",
        "(wanted - contents.free_rows - 1).clamp(min=0)",
    ),
    "rows are made though some are lacking": (
        f"{PLACE}.operations.settle",
        "settled = settled & (lacking == 0)",
        "settled = settled & True",
    ),
    "rows that are made are still free": (
        f"{PLACE}.operations.settle",
        "torch.where(lacking == 0, wanted, 0)",
        "wanted * 0",
    ),
    "who finds a claim has the claim's number": (
        f"{PLACE}.operations._rows_of",
        "made.index_select(0, claimant)",
        "claimant",
    ),
    "the parent of all is the first": (
        f"{PLACE}.operations._made",
        "rows[:, :-1].int()",
        "rows[:, :-1].int() * 0",
    ),
    "claims that came to nothing leave an empty slot": (
        f"{PLACE}.operations._made",
        "(made << ABOVE) + torch.where(made == contents.rows, looked.sought ^ LOW, looked.sought)",
        "torch.where(made < contents.rows, (made << ABOVE) + looked.sought, 1 << 62)",
    ),
    "who finds another content waits for ever": (f"{PLACE}.operations.again", "* found.moving", "* 0"),
    "what is pending is passed": (f"{PLACE}.operations._met_another", " & before", ""),
    "what was a content before is new": (
        f"{PLACE}.table.BlockContents._interned",
        "self.may_be_cached or asked[0] > 0",
        "self.may_be_cached",
    ),
    "once a content, always one": (
        f"{PLACE}.table.BlockContents.of_prompts",
        "self.block_size), False",
        "self.block_size), self.may_be_cached",
    ),
    # the way
    "an empty slot is not for those that may not take it": (f"{PLACE}.probing.round_of", " & (seen != EMPTY)", ""),
    "the later round takes the slot": (
        f"{PLACE}.probing.round_of",
        "number << rounds.above",
        "(15 - number) << rounds.above",
    ),
    "everybody stays where it is": (
        f"{PLACE}.probing.stepped",
        "search.stands + strides(search.sums)",
        "search.stands",
    ),
    "even strides": (f"{PLACE}.hashing.strides", "| 1", "& ~1"),
    "an odd block loses its last token": (f"{PLACE}.hashing.packed", "(whole, (0, 1))", "(whole[..., :-1], (0, 2))"),
    "the rest of a chain begins elsewhere": (
        f"{PLACE}.hashing.of_prefixes",
        " ^ ((first - 1) & (TOGETHER - 1))",
        "",
    ),
    "the rest of a chain is led by its own": (
        f"{PLACE}.hashing.of_prefixes",
        "leaders.clamp(min=-1) + 1",
        "leaders.clamp(min=0) + 1",
    ),
    "the rest of a chain is less deep": (
        f"{PLACE}.hashing.of_prefixes",
        "contents.depths.index_select(0, row) + 1",
        "contents.depths.index_select(0, row)",
    ),
    "the rest of a chain has a hash of its own": (
        f"{PLACE}.hashing.of_prefixes",
        "torch.where(root, 0, contents.sums.index_select(0, row))",
        "torch.zeros_like(row)",
    ),
    # giving back
    "a held child does not need its parent": (f"{PLACE}.release.is_closed", "parents < 0", "parents < rows"),
    "only parents stay, not theirs": (f"{PLACE}.release.with_ancestors", "range(nobody.bit_length())", "range(1)"),
    "who is held stays without those before": (
        f"{PLACE}.release.with_ancestors",
        'marked.scatter_reduce(0, up, marked, "amax")',
        "marked",
    ),
    "who leaves keeps its slot": (f"{PLACE}.release.cleared", "write.fill(contents.slots, EMPTY)", "contents.slots"),
    "who leaves is a content": (
        f"{PLACE}.release.cleared",
        "write.put(contents.depths, dead, torch.full_like(dead, NONE, dtype=torch.int32))",
        "contents.depths",
    ),
    "who leaves keeps its extras": (
        f"{PLACE}.release.cleared",
        "write.put(contents.extras, dead, torch.zeros_like(dead))",
        "contents.extras",
    ),
    "the table is built without its first row": (
        f"{PLACE}.release.place",
        "mine = waiting & ",
        "mine = waiting & (live > 0) & ",
    ),
    "a row takes the slot of another": (f"{PLACE}.release.place", " + ((contents.rows + 1) << ABOVE)", ""),
    "two rows in one slot": (f"{PLACE}.release.place", "whose=True", "whose=False"),
    "who has found no slot has one": (f"{PLACE}.release.place", "mine = waiting & ~search.going_on", "mine = waiting"),
}
EXPECTED = (AssertionError, IndexError, RuntimeError, ValueError)


def everything(plant: Plant) -> None:
    """Each kind of run once, small."""
    for chains in CHAINS.values():
        check_chains(chains)
    check_that_few_rounds_are_enough()
    check_blocks_without_extras()
    check_who_may_not_take_a_slot()
    check_long_chains()
    check_a_table_with_few_lanes()
    for config_of in (lambda config: config, colliding):
        for block_size in (2, 3):
            lockstep(1, config_of(fixed(block_size)), block_size, requests=4, bursts=2)
    lockstep(1, colliding(fixed(16)), 16, requests=3, bursts=2)
    lockstep(1, depth_only(fixed(2)), 2, requests=4, bursts=2)
    for config_of in (lambda config: config, colliding):
        check_decode(config_of)
        check_giving_back(config_of)
        check_growth(config_of)
    check_a_table_without_a_row_to_spare()
    check_slots_after_building()
    check_that_what_has_no_row_is_said()
    check_that_what_is_passed_is_no_content()
    check_many_on_one_way()
    check_whether_a_prompt_may_be_cached()
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
