"""`KVCacheManager` in both shapes beside the specification, its eras beside theirs, and planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.impl.interfaces.lockstep import differs, findings
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import KVCacheBlock, KVCacheManagerError
from cacheimpl.kv_cache_manager.allocation import _free, allocate
from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import alike
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.tables import Tables
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import Scope
from cacheproof.targets.tensor import kv_cache_manager as targets
from cachespec.kernel import Code
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import AllocateSlots, Commit, EvictBlock

Open = Callable[[str], Any]


def has_one_group(scope: Scope) -> bool:
    """What the early manager, and the rules of eras, are for."""
    return not scope.config.groups


def keeps_order(scope: Scope) -> bool:
    """An era is only asked for what an engine asks: under any rules misuse is refused, and not as in the era.

    Drafts beyond the longest request are misuse (C-KV-2). A table that has a block twice breaks the free list of a
    release (C-KV-21), and no rule of ours.
    """
    config = scope.config
    hashes = [[config.hashes[content] for content in chain] for chain in config.chains if config.hashes]
    breaks = any(len(set(row)) < len(row) for row in hashes)
    calls = config.repeats or config.drafts or config.rollbacks  # engines go back by themselves: see `manager_loads`
    return has_one_group(scope) and config.disciplined and not calls and not breaks


@pytest.mark.parametrize("opened", [targets.open_early, targets.open_early_committed])
def test_lockstep_in_every_scope_with_one_group(opened: Open) -> None:
    found = dict(findings("kv_blocks", "normative", opened, steps=300, only=has_one_group))
    assert len(found) >= 11
    assert set(found.values()) == {None}


def test_lockstep_in_every_scope() -> None:
    found = dict(findings("kv_blocks", "normative", targets.open_later, steps=300))
    assert len(found) >= 13
    assert set(found.values()) == {None}


@pytest.mark.parametrize(
    ("variant", "opened"),
    [("K0b", targets.open_2025_02), ("K1", targets.open_2025_10), ("K2", targets.open_2026_11)],
)
def test_eras_on_request(variant: str, opened: Open) -> None:
    found = dict(findings("kv_blocks", variant, opened, steps=300, only=keeps_order))
    assert len(found) >= 8
    assert set(found.values()) == {None}


@pytest.mark.parametrize("opened", [targets.open_2025_02, targets.open_2025_10, targets.open_2026_11])
def test_no_era_is_normative(opened: Open) -> None:
    assert differs("kv_blocks", "normative", opened, steps=150, only=keeps_order)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("opened", [targets.open_early, targets.open_later])
def test_long_runs(opened: Open) -> None:
    only = has_one_group if opened is targets.open_early else lambda scope: True
    found = dict(findings("kv_blocks", "normative", opened, steps=10_000, only=only, seed=7))
    assert set(found.values()) == {None}


def test_a_target_of_another_component() -> None:
    with pytest.raises(InputError, match="not of lru"):
        targets.open_early("lru")


# Planted bugs -------------------------------------------------------------------------------------------------------


def is_noticed(where: str, opened: Open = targets.open_later) -> bool:
    """A difference in this scope, or an exception that no outcome stands for."""
    only = lambda scope: scope.name == where  # noqa: E731  # one word
    try:
        return differs("kv_blocks", "normative", opened, steps=6000, only=only, seed=3)
    except (AssertionError, KVCacheManagerError):
        return True


def late_touch(pool: BlockPool, blocks: Any) -> None:
    """Hits stay in the free queue."""
    for block in blocks:
        block.incr_ref()


def append_always(pool: BlockPool, block: KVCacheBlock) -> None:
    block.decr_ref()
    if block.ref_cnt == 0:
        pool.free_block_queue.append(block)


def keep_hash(pool: BlockPool, count: int) -> list[KVCacheBlock]:
    blocks = pool.free_block_queue.popleft_n(count)
    for block in blocks:
        block.incr_ref()
    return blocks


def forwards(pool: BlockPool, blocks: Any) -> None:
    for block in blocks:
        pool.let_go(block)


def last_copy(pool: BlockPool, key: Any, content: Any) -> Any:
    found = [block for block in pool.copies(key) if alike(block.content, content)]
    return found[-1] if found else None


def any_copy(pool: BlockPool, key: Any, content: Any) -> Any:
    return next(iter(pool.copies(key)), None)


def from_the_end(queue: FreeKVCacheBlockQueue) -> KVCacheBlock:
    block = queue.free_list_tail
    assert block is not None
    queue.remove(block)
    return block


def reset_always(pool: BlockPool) -> bool:
    for block in pool.blocks:
        pool.forget(block)
    return True


def only_that_block(tables: Tables, block: KVCacheBlock) -> None:
    """What stands behind it stays."""


def never_stale(tables: Tables, hits: Any, links: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "method", "wrong", "where"),
    [
        (BlockPool, "_touch_all", late_touch, "shared-prefix"),
        (BlockPool, "_let_go", append_always, "any-call"),
        (BlockPool, "_take_all", keep_hash, "any-call"),
        (BlockPool, "_release", forwards, "any-call"),
        (BlockPool, "find", last_copy, "shared-prefix"),
        (BlockPool, "find", any_copy, "equal-hashes"),
        (BlockPool, "reset_prefix_cache", reset_always, "any-call"),
        (FreeKVCacheBlockQueue, "popleft", from_the_end, "any-call"),
        (Tables, "forget_behind", only_that_block, "shared-prefix"),
        (Tables, "_hold", never_stale, "any-call"),
        (Tables, "commit", lambda tables, request, computed: tables.known(request), "any-call"),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, wrong: Any, where: str
) -> None:
    monkeypatch.setattr(owner, method, wrong)
    assert is_noticed(where)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (Change(_free, "$pool.get_num_free_blocks() - $x", "$pool.get_num_free_blocks()"), "scarce-hits"),
        (
            Change(allocate, "sum($plan.needed for $its in $plans)", "max($plan.needed for $its in $plans)"),
            "two-groups",
        ),
        (Change(allocate, "$plan.length + $more", "1 + $more"), "two-groups"),
        (Change(Tables.plan, "$demand.lookahead", "1"), "any-call"),
        (Change(Chains._content, "$its.piece == $piece", "True"), "equal-hashes"),
        (Change(Tables.begin, "$plan.end", "0"), "any-call"),
        (Change(Tables._check, "$end > self.longest", "$end > self.longest + 1"), "drafts"),
        (Change(Tables._check, "$hits and $holding is not None", "False"), "again"),
        (Change(Tables._check, "$demand.tokens <= 0", "$demand.tokens < 0"), "any-call"),
        (Change(Tables.roll_back, "min($holding.registered, $first)", "$holding.registered"), "computed-again"),
        (Change(Tables.roll_back, "$holding.blocks[$first:$holding.registered]", "()"), "computed-again"),
        (Change(Tables.check_going_back, "$block.ref_cnt > 1", "False"), "computed-again"),
    ],
)
def test_planted_bugs_in_allocating_are_found(change: Change, where: str) -> None:
    with planted(change):
        assert is_noticed(where)


def test_tokens_that_go_back_in_the_early_shape_are_noticed() -> None:
    """The later shape takes them for a request that computes tokens again."""
    with planted(Change(Tables._check, "$least <= $computed <= $most", "$computed <= $most")):
        assert is_noticed("any-call", targets.open_early)


COPIES = Config(1, 4, ((0,), (0, 1), (0, 1, 2)), (1, 2, 3), prompts=(1, 1, 3), steps=(1,), evictions=1)
"""The first two requests have copies of one content; the third adopts one copy, and what stands behind the other."""
SHARED_BEHIND = (
    AllocateSlots(0, 0, 1, ()),
    AllocateSlots(1, 0, 1, ()),
    Commit(0, 1),
    Commit(1, 1),
    AllocateSlots(1, 1, 1, ()),
    Commit(1, 2),
    AllocateSlots(2, 0, 1, (0, 2)),
    Commit(2, 3),
    EvictBlock(1),
)


def is_as_specified(opened: Open) -> bool:
    """Whether these calls end with the specification's observables; random runs hardly ever meet them."""
    component = component_named("kv_blocks")
    variant, target = component.normative, opened(component.name)
    target.reset(COPIES)
    state = variant.start(COPIES)
    for operation in SHARED_BEHIND:
        state, outcome = variant.call(COPIES, state, operation)
        assert outcome.code is Code.DONE
        target.apply(operation)
    return dict(target.observe()) == dict(component.observe(COPIES, variant.view(COPIES, state)))


@pytest.mark.parametrize("opened", [targets.open_later, targets.open_early], ids=["later", "early"])
def test_what_is_shared_behind_an_evicted_copy_is_forgotten(opened: Open) -> None:
    assert is_as_specified(opened)
    right = "($place for $place, $link in enumerate($holding.links) if $key and alike($link.content, $block.content))"
    wrong = "($place for $place, $link in enumerate($holding.blocks) if $link is $block)"
    with planted(Change(Tables.forget_behind, right, wrong)):
        assert not is_as_specified(opened)
