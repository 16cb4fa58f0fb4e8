"""Where an index repeats, a device may keep any of the values: the answers are the specification's whichever stays."""

from __future__ import annotations

import pytest
import torch
from tests.impl.block_contents import colliding, fixed, lockstep
from tests.impl.kv_bursts import Crowd, Sides, crowded
from tests.impl.layer_groups_bugs import CROWDED
from tests.impl.scheduler_runs import Lockstep
from tests.impl.scheduler_runs import crowded as scheduler_load
from tests.planting import Change, planted
from torch import Tensor

from cacheimpl.layer_groups.slots import with_slots
from cacheimpl.writing import COPYING, IN_PLACE, Writing
from cacheproof.device.tensor.comparing import OtherWinners
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.campaign import lockstep as campaign
from cacheproof.model.registry import component_named
from cacheproof.targets.tensor import TensorTarget
from cacheproof.tensor_models.scheduler import extent_of

torch.set_num_threads(1)

GROUPS = component_named("layer_groups")


def bursts(write: Writing = IN_PLACE) -> None:
    for seed in range(2):
        Crowd(Sides(crowded(12, seed, room=0.4), write), seed, 12).play(30)


@pytest.mark.parametrize("write", [COPYING, IN_PLACE], ids=["copying", "in place"])
def test_bursts_of_the_kv_blocks(write: Writing) -> None:
    with OtherWinners():
        bursts(write)


def test_rounds_of_the_scheduler() -> None:
    with OtherWinners():
        for seed in range(2):
            config = scheduler_load(8, seed)
            Lockstep(config, extent_of(config), seed).play(40)


def test_contents_of_blocks() -> None:
    with OtherWinners():
        assert lockstep(0, fixed(4), 4) == 6
        assert lockstep(0, colliding(fixed(2)), 2, requests=4, bursts=2) > 2


def groups() -> Campaign:
    return campaign(GROUPS, GROUPS.normative, CROWDED, TensorTarget(GROUPS), steps=600, seed=1)


def test_groups_of_layers() -> None:
    with OtherWinners():
        found = groups()
    assert (found.finding, found.tally.steps) == (None, 600)


def test_a_count_of_a_group_that_has_to_stay_is_found() -> None:
    """Planted: a block is counted as free before it is counted as taken."""
    right = "$write.put($pool.references, $blocks, $counts)"
    wrong = "$write.put($pool.references, torch.cat(($blocks, $blocks)), torch.cat((0 * $counts, $counts)))"
    with planted(Change(with_slots, right, wrong)):
        assert groups().finding is None
        with OtherWinners():
            assert groups().finding is not None


def clumsy(table: Tensor, index: Tensor, values: Tensor | int) -> Tensor:
    """Planted: another value before each that has to stay."""
    if isinstance(values, int):
        return IN_PLACE.put(table, index, values)
    other = ~values if values.dtype == torch.bool else values + 1
    return IN_PLACE.put(table, torch.cat((index, index)), torch.cat((other, values)))


def test_a_value_that_has_to_stay_is_found() -> None:
    write = IN_PLACE._replace(put=clumsy)
    bursts(write)
    with OtherWinners(), pytest.raises((AssertionError, RuntimeError, IndexError)):
        bursts(write)
