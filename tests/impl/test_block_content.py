"""Rows of contents are those of a dictionary {(parent, tokens, extras): row}, whatever collides, and however full."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from tests.impl.block_content_checks import (
    CHAINS,
    calls_for_a_chain,
    check_a_table_with_few_lanes,
    check_a_table_without_a_row_to_spare,
    check_blocks_without_extras,
    check_chains,
    check_decode,
    check_long_chains,
    check_many_on_one_way,
    check_that_few_rounds_are_enough,
    check_that_what_has_no_row_is_said,
    check_that_what_is_passed_is_no_content,
    check_the_end_of_a_search,
    check_whether_a_prompt_may_be_cached,
    check_who_may_not_take_a_slot,
)
from tests.impl.block_contents import (
    ONE_WAY,
    ConfigOf,
    Plant,
    Prompt,
    colliding,
    depth_only,
    drawn_prompts,
    fixed,
    lockstep,
    one_way_each_twice,
    tensors_of,
)

from cacheimpl.block_content import BlockContents, Burst, Contents, Interned, again, empty, intern
from cacheimpl.writing import COPYING, IN_PLACE, Writing

torch.set_num_threads(1)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


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


@pytest.mark.parametrize("config_of", [lambda config: config, one_way_each_twice], ids=["drawn", "extras collide"])
def test_where_all_go_one_way_it_takes_longer_and_is_still_exact(config_of: ConfigOf, plant: Plant) -> None:
    for bug in ONE_WAY:
        plant(*bug)
    for seed in range(2):
        assert lockstep(seed, config_of(fixed(2)), 2, requests=5, bursts=3) > 3


def test_who_stands_before_an_empty_slot_at_the_end_takes_that_one(plant: Plant) -> None:
    for bug in ONE_WAY:
        plant(*bug)
    check_the_end_of_a_search()


ONE_ROUND = ("cacheimpl.block_content.probing.searched", "MANY if $items > FEW_ITEMS else FEW", "((1, 1),)")


def test_one_search_that_does_not_end_delays_no_chain(plant: Plant) -> None:
    plant(*ONE_ROUND)
    assert calls_for_a_chain() < 20


def test_what_is_passed_and_looks_like_its_claim_delays_whole_chains(plant: Plant) -> None:
    plant(*ONE_ROUND)
    plant("cacheimpl.block_content.operations._made", "$looked.sought ^ LOW", "$looked.sought")
    assert calls_for_a_chain() > 200


def test_few_rounds_are_enough() -> None:
    check_that_few_rounds_are_enough()


@pytest.mark.parametrize("case", CHAINS)
def test_chains_whose_hashes_agree(case: str) -> None:
    check_chains(CHAINS[case])


def test_a_table_without_a_row_to_spare() -> None:
    check_a_table_without_a_row_to_spare()


def test_whether_a_prompt_may_be_cached() -> None:
    check_whether_a_prompt_may_be_cached()


def test_what_is_passed_is_no_content() -> None:
    check_that_what_is_passed_is_no_content()


def test_many_contents_on_one_way() -> None:
    check_many_on_one_way()


def test_what_has_no_row_is_said_and_takes_nothing() -> None:
    check_that_what_has_no_row_is_said()


def test_blocks_without_extras() -> None:
    check_blocks_without_extras()


def test_long_chains_and_what_is_behind_any_of_their_blocks() -> None:
    check_long_chains()


def test_who_may_not_take_a_slot() -> None:
    check_who_may_not_take_a_slot()


def test_what_has_no_lane_comes_later() -> None:
    check_a_table_with_few_lanes()


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_functions_can_be_lifted(config_of: ConfigOf) -> None:
    """Several engines at once are the engines one after the other, call by call."""
    config = config_of(fixed(2))
    rng = random.Random(7)
    bursts = [tensors_of(drawn_prompts(rng, 3, 4, 2), 4, 2) for _ in range(3)]
    together = stacked(bursts)
    states = Contents(*(torch.stack([table] * 3) for table in empty(2, 40)))
    for calls in range(1, 4):
        axes = tuple(None if values is None else 0 for values in together)
        lifted = torch.func.vmap(lambda contents, burst: intern(config, contents, burst), in_dims=(0, Burst(*axes)))  # type: ignore[arg-type]  # an axis in the place of each tensor
        after, found = lifted(states, together)
        for engine in range(3):
            alone = Contents(*(table[engine] for table in states))
            expected = intern(config, alone, bursts[engine])
            assert_same(Contents(*(table[engine] for table in after)), expected[0])
            assert_same(Interned(*(values[engine] for values in found)), expected[1])
            bursts[engine] = again(bursts[engine], expected[1], calls)
        states, together = after, stacked(bursts)


def stacked(bursts: list[Burst]) -> Burst:
    """One burst of several engines; what there is no tensor of in the first, there is none of in any."""
    fields: list[Any] = [None if parts[0] is None else torch.stack(parts) for parts in zip(*bursts, strict=True)]
    return Burst(*fields)


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


@pytest.mark.parametrize("config_of", [lambda config: config, colliding], ids=["drawn", "colliding"])
def test_blocks_that_are_filled_later_are_those_of_a_longer_prompt(config_of: ConfigOf) -> None:
    check_decode(config_of)
