"""Contexts in parallel: a block has as many tokens as all ranks that share it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request
from tests.impl.interfaces.lockstep import differs
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import LaterKVCacheManager
from cacheimpl.kv_cache_manager.contexts import shared_by
from cacheimpl.kv_cache_manager.errors import InvalidCountError, UnsupportedError
from cacheproof.targets.tensor import layer_groups_manager as targets
from cachespec.layer_groups.configuration import FULL, Config


def spec(name: str, size: int, **more: Any) -> Any:
    return type(name, (SimpleNamespace,), {})(block_size=size, **more)


def manager_of(*specs: Any, **more: Any) -> LaterKVCacheManager:
    groups = [SimpleNamespace(kv_cache_spec=its) for its in specs]
    return LaterKVCacheManager(SimpleNamespace(num_blocks=40, kv_cache_groups=groups), 256, **more)


TARGET = spec("FullAttentionSpec", 4, dcp_sharded=True)
DRAFT = spec("MLAAttentionSpec", 4, dcp_sharded=False)
STATES = spec("MambaSpec", 4, dcp_sharded=False, mamba_cache_mode="align")
WINDOW = spec("SlidingWindowSpec", 4, dcp_sharded=False, sliding_window=8)


def test_a_shared_group_has_longer_blocks_and_a_replicated_one_has_not() -> None:
    manager = manager_of(TARGET, DRAFT, STATES, dcp_world_size=4, hash_block_size=4, scheduler_block_size=16)
    assert manager.coordinator.group_block_sizes == (16, 4, 4)
    assert [group.dcp_world_size for group in manager.coordinator.single_type_managers] == [4, 1, 1]
    first: Any = later_request("0", [*range(35)])
    assert manager.allocate_slots(first, 32) is not None
    manager.cache_blocks(first, 32)
    hits, tokens, _ = manager.get_computed_blocks(later_request("1", [*range(35)]))
    assert (tokens, [len(its) for its in hits.blocks]) == (32, [2, 8, 8])


def test_releases_before_0_33_share_one_group_among_all_ranks() -> None:
    plain = spec("FullAttentionSpec", 4)
    manager = manager_of(plain, dcp_world_size=2, pcp_world_size=3)
    assert manager.coordinator.group_block_sizes == (24,)
    assert manager_of(TARGET, dcp_world_size=2, pcp_world_size=3).coordinator.group_block_sizes == (8,)


@pytest.mark.parametrize(
    ("specs", "ranks", "problem"),
    [
        ((spec("FullAttentionSpec", 4), WINDOW), (2, 1), "group 0 of kv_cache_groups has no dcp_sharded"),
        ((spec("SlidingWindowSpec", 4, sliding_window=8),), (1, 2), "group 0 of kv_cache_groups has no dcp_sharded"),
        (
            (TARGET, spec("SlidingWindowSpec", 4, sliding_window=8, dcp_sharded=True)),
            (2, 1),
            "share full attention only",
        ),
        ((TARGET, STATES), (1, 2), "pcp_world_size must be 1, not 2"),
    ],
)
def test_what_no_release_serves(specs: tuple[Any, ...], ranks: tuple[int, int], problem: str) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        manager_of(*specs, dcp_world_size=ranks[0], pcp_world_size=ranks[1])


def test_wrong_numbers_of_ranks() -> None:
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(InvalidCountError, match="dcp_world_size"):
            manager_of(TARGET, dcp_world_size=wrong)


def halved(config: Config, group: int) -> Any:
    """The groups of full attention have half as many tokens in a block, and two ranks share it."""
    made, shared = targets.spec_of(config, group), config.kinds[group] == FULL
    made.dcp_sharded = shared
    made.block_size //= 2 if shared else 1
    return made


def differs_with_two_ranks(monkeypatch: pytest.MonkeyPatch) -> bool:
    with monkeypatch.context() as patch:
        patch.setattr(targets.GroupsTarget, "spec_of", staticmethod(halved))
        patch.setattr(targets, "LaterKVCacheManager", partial(LaterKVCacheManager, dcp_world_size=2))
        return differs(
            "layer_groups", "normative", targets.open_later, steps=1500, only=lambda one: one.name == "sizes"
        )


def test_two_ranks_are_blocks_of_twice_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the specification, whose groups have blocks of two tokens and of one."""
    assert not differs_with_two_ranks(monkeypatch)
    with planted(Change(shared_by, "$ranks.decode if $sharded else 1", "1")):
        assert differs_with_two_ranks(monkeypatch)
