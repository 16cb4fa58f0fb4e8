"""`KVCacheManager` with hits that end within a block, beside the specification and its era."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request
from tests.impl.interfaces.lockstep import differs, findings
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import (
    KV_2026_11,
    NORMATIVE,
    BlockRemoved,
    BlockStored,
    KVCacheBlocks,
    KVCacheManagerError,
    LaterKVCacheManager,
    Rules,
)
from cacheimpl.kv_cache_manager.contents import hash_of
from cacheimpl.kv_cache_manager.draft_states import DraftStates
from cacheimpl.kv_cache_manager.errors import FreeQueueError, StaleBlocksError, UnsupportedError
from cacheimpl.kv_cache_manager.partial import PartialFullTables, PartialStateTables, PartialTables
from cacheimpl.kv_cache_manager.partial_finding import found_partial
from cacheimpl.kv_cache_manager.several_keys import SeveralKeysPool
from cacheimpl.kv_cache_manager.steps import Steps
from cacheproof.model.scope import Scope
from cacheproof.targets.tensor import partial_hits_manager as targets

Open = Callable[[str], Any]


def in_k2(scope: Scope) -> bool:
    """0.33.0 has such hits beside state-space layers only."""
    return not scope.config.alone


@pytest.mark.parametrize("opened", [targets.open_later, targets.open_keyed])
def test_lockstep_in_every_scope(opened: Open) -> None:
    found = dict(findings("partial_hits", "normative", opened, steps=600))
    assert len(found) >= 9
    assert set(found.values()) == {None}


def test_the_era() -> None:
    found = dict(findings("partial_hits", "K2", targets.open_2026_11, steps=600, only=in_k2))
    assert len(found) >= 7
    assert set(found.values()) == {None}
    assert differs("partial_hits", "normative", targets.open_2026_11, steps=600, only=in_k2)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_long_runs() -> None:
    """20,000 calls in each scope."""
    for variant, opened, only in (
        ("normative", targets.open_later, lambda scope: True),
        ("normative", targets.open_keyed, lambda scope: True),
        ("K2", targets.open_2026_11, in_k2),
    ):
        found = dict(findings("partial_hits", variant, opened, steps=20_000, only=only, seed=7))
        assert set(found.values()) == {None}


BUGS = (
    Change(Steps.take, "(its.source, its.target) if $own else (its.source,)", "(its.source,)"),
    Change(Steps.take, "sorted(self._pending, key=$key)", "self._pending[::-1]"),
    Change(Steps._complete, "its.step < self._executed", "its.step <= self._executed"),
    Change(PartialTables._redirect, "target.ref_cnt += 1", "target.ref_cnt += 0"),
    Change(PartialTables.copies, "int(self.ends_within($found))", "0"),
    Change(PartialTables.prompt_end, "max(1, $ahead)", "0"),
    Change(PartialFullTables.register, "tokens >= tail", "tokens == tail"),
    Change(PartialStateTables._stays, "$ends and not $overwritten", "$ends"),
    Change(PartialStateTables._keep, "self.pool.forget(source)", "None"),
    Change(PartialStateTables._keep, "source.ref_cnt += 1", "source.ref_cnt += 0"),
    Change(PartialStateTables.register, "tail or full", "tail"),
    Change(SeveralKeysPool._forget, "self._others.pop(block.block_id, {})", "{}"),
    Change(
        SeveralKeysPool.let_all_go, "self.free_block_queue.prepend_n(first)", "self.free_block_queue.append_n(first)"
    ),
    Change(SeveralKeysPool._release, "reversed(blocks)", "blocks"),
    Change(found_partial, "blocks_for(tokens, group.block_size)", "tokens // group.block_size"),
)
"""Each is noticed in the normative scopes."""

ERA_BUGS = (
    Change(PartialStateTables.awaits_step, "last in self._keys_this_step", "last is self"),
    Change(PartialTables.enter, "self.pool.forget(block)", "None"),
    Change(PartialStateTables.register, "range(begin, holding.registered)", "()"),
    Change(SeveralKeysPool.move, "self.add(target, key, content)", "None"),
)
"""Each is noticed beside 0.33.0."""


def named(bug: Change) -> str:
    return f"{bug.function.__qualname__}-{bug.wrong}"


def noticed(variant: str, opened: Open, **more: Any) -> bool:
    """A scope shows a difference, or the manager itself refuses what cannot be."""
    try:
        return differs("partial_hits", variant, opened, steps=1_500, **more)
    except KVCacheManagerError:
        return True


@pytest.mark.parametrize("bug", BUGS, ids=named)
def test_planted_bugs(bug: Change) -> None:
    with planted(bug):
        assert noticed("normative", targets.open_later)


@pytest.mark.parametrize("bug", ERA_BUGS, ids=named)
def test_planted_bugs_of_the_era(bug: Change) -> None:
    with planted(bug):
        assert noticed("K2", targets.open_2026_11, only=in_k2)


# A manager as an engine has it --------------------------------------------------------------------------------------


def spec(kind: str, block_size: int, **more: Any) -> Any:
    return type(kind, (SimpleNamespace,), {})(block_size=block_size, **more)


def manager_of(
    *specs: Any, rules: Rules = NORMATIVE, hash_size: int = 1, interval: int | None = None, **more: Any
) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=its) for its in specs]
    sizes = {its.block_size for its in specs}
    return LaterKVCacheManager(
        SimpleNamespace(num_blocks=24, kv_cache_groups=groups, prefix_cache_retention_interval=interval),
        64,
        scheduler_block_size=max(sizes),
        hash_block_size=hash_size,
        rules=rules,
        **more,
    )


def both(rules: Rules = NORMATIVE, **more: Any) -> Any:
    """Full attention and states in blocks of four tokens; hits end with any token."""
    return manager_of(spec("FullAttentionSpec", 4), spec("MambaSpec", 4, mamba_cache_mode="align"), rules=rules, **more)


def request_of(name: str, tokens: list[int]) -> Any:
    request: Any = later_request(name, tokens)
    request.num_prompt_tokens = len(tokens)
    return request


def step(manager: Any, request: Any, tokens: int) -> list[tuple[int, int]]:
    """One step of this request alone, as the scheduler of 0.33.0 plans it: its copies. Its tokens are in flight."""
    manager.new_step_starts()
    hits, found = None, 0
    if request.num_computed_tokens == 0:
        hits, found, _ = manager.get_computed_blocks(request)
    assert manager.allocate_slots(request, tokens, found, hits) is not None
    request.num_computed_tokens += found + tokens
    request.num_in_flight_tokens = tokens
    copies, held = manager.take_kv_cache_block_copies()
    manager.block_pool.free_blocks(held)
    return [tuple(copy) for copy in copies]


def test_a_scheduler_that_says_nothing_of_steps() -> None:
    """What a request says of itself suffices: the state behind the prompt can be found when its copy was made."""
    manager = both()
    first, second = request_of("0", [1, 2, 3, 4, 5, 6, 7]), request_of("1", [1, 2, 3, 4, 5, 6, 7])
    assert step(manager, first, 4) == []
    first.num_in_flight_tokens = 0
    assert step(manager, first, 2) == []
    assert manager.get_computed_blocks(second)[1] == 4
    first.num_in_flight_tokens = 0
    assert step(manager, first, 1) == [(4, 5)]
    assert manager.get_computed_blocks(second)[1:] == (4, 6)  # full attention has 6 tokens, and the copy is to come
    first.num_in_flight_tokens = 0
    manager.free(first)
    assert manager.get_computed_blocks(second)[1:] == (6, 0)
    assert step(manager, second, 1) == [(3, 4), (5, 6)]


def test_a_request_that_is_aborted_before_its_copy_is_made() -> None:
    """A later step of another request shows that the copy was made; until then its block is held."""
    manager = both()
    first, second = request_of("0", [1, 2, 3]), request_of("1", [7, 8, 9])
    step(manager, first, 2)
    first.num_in_flight_tokens = 0
    assert step(manager, first, 1) == [(2, 3)]
    first.num_computed_tokens, first.num_in_flight_tokens = 3, 1
    manager.free(first)
    assert not manager.reset_prefix_cache()
    step(manager, second, 2)
    assert manager.get_computed_blocks(request_of("2", [1, 2, 3]))[1] == 0
    second.num_in_flight_tokens = 0
    step(manager, second, 1)
    assert manager.get_computed_blocks(request_of("2", [1, 2, 3]))[1] == 2


def hit_of_a_prompt(manager: Any) -> tuple[Any, Any, int]:
    """A prompt of three tokens, and an equal one with its hit of two."""
    first, second = request_of("0", [1, 2, 3]), request_of("1", [1, 2, 3])
    step(manager, first, 2)
    manager.commit(first, 2)
    hits, tokens, _ = manager.get_computed_blocks(second)
    return second, hits, tokens


def test_blocks_that_hold_something_else_are_no_hit() -> None:
    """The last block of a hit is compared, too: by its tokens, and with what is before it."""
    manager = both()
    _, hits, tokens = hit_of_a_prompt(manager)
    assert tokens == 2
    for other in ([1, 9, 3], [9, 2, 3]):
        with pytest.raises(StaleBlocksError):
            manager.allocate_slots(request_of("2", other), 1, 2, hits)
    with pytest.raises(StaleBlocksError):  # the state is that of two tokens
        manager.allocate_slots(request_of("2", [1, 2, 3]), 2, 1, hits)
    with pytest.raises(StaleBlocksError):
        manager.allocate_slots(request_of("2", [1, 2, 3]), 1, 2, KVCacheBlocks(hits.blocks[::-1]))
    assert manager.allocate_slots(request_of("2", [1, 2, 3]), 1, 2, hits).get_block_ids() == ([3], [4])


def test_equal_hashes_of_other_tokens() -> None:
    """A hash that collides leads to a block, and the tokens differ."""
    manager = both()
    first, second = request_of("0", [1, 2, 3]), request_of("1", [1, 5, 3])
    first.block_hashes = second.block_hashes = [b"a", b"b", b"c"]
    step(manager, first, 2)
    manager.commit(first, 2)
    assert manager.get_computed_blocks(second)[1] == 0
    trusting = both(KV_2026_11)
    first.num_computed_tokens = 0
    step(trusting, first, 2)
    trusting.new_step_starts()
    hits, tokens, _ = trusting.get_computed_blocks(second)
    assert tokens == 2
    assert trusting.allocate_slots(second, 1, tokens, hits) is not None


def test_nothing_is_loaded_behind_a_hit_within_a_block() -> None:
    manager = both()
    second, hits, _ = hit_of_a_prompt(manager)
    with pytest.raises(UnsupportedError, match="leave that block out"):
        manager.allocate_slots(second, 0, 2, hits, num_external_computed_tokens=1)
    whole = manager.truncate_computed_blocks(hits, 0)
    assert manager.allocate_slots(second, 0, 0, whole, num_external_computed_tokens=2) is not None


def test_blocks_of_copies_are_given_back_as_often_as_they_are_held() -> None:
    """Two requests share a source, so it is held for two copies."""
    manager = both()
    second, hits, tokens = hit_of_a_prompt(manager)
    assert manager.allocate_slots(second, 1, tokens, hits) is not None
    assert manager.allocate_slots(request_of("2", [1, 2, 3]), 1, tokens, hits) is not None
    _, held = manager.take_kv_cache_block_copies()
    assert [block.block_id for block in held] == [1, 3, 1, 5, 2, 4, 2, 6]
    with pytest.raises(FreeQueueError, match="given back 4 times"):
        manager.block_pool.free_blocks([*held, held[0], held[0]])
    manager.block_pool.free_blocks(held)
    assert [manager.block_pool.blocks[number].ref_cnt for number in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_an_evicted_block_is_found_by_none_of_its_keys() -> None:
    """A block of full attention has two keys; what is behind it goes with it."""
    manager = both()
    first = request_of("0", [1, 2, 3])
    for tokens, more in ((2, []), (1, [4]), (1, [5]), (1, [])):
        step(manager, first, tokens)
        first.all_token_ids.extend(more)
        manager.commit(first, first.num_computed_tokens)
        first.num_in_flight_tokens = 0
    block = manager.block_pool.blocks[1]
    assert [content.token_ids for _, content in manager.block_pool.keys_of(block)] == [(1, 2, 3, 4), (1, 2)]
    assert block.block_hash_num_tokens == 4
    assert manager.estimate_cached_tokens(first) == 4
    manager.evict_blocks([1])
    assert list(manager.block_pool.keys_of(block)) == []
    assert manager.get_computed_blocks(request_of("1", [1, 2, 3]))[1] == 0


def test_events_of_prefixes_that_end_within_a_block() -> None:
    """A hash block is told when it can be found; the copy of a state under the rules of 0.33.0 is not told."""
    for rules in (NORMATIVE, KV_2026_11):
        manager = both(rules, enable_kv_cache_events=True)
        first = request_of("0", [1, 2, 3])
        first.block_hashes = [b"\1", b"\2", b"\3"]
        for tokens in (2, 1):
            step(manager, first, tokens)
            first.num_in_flight_tokens = 0
        manager.free(first)
        told = manager.take_events()
        stored = [event for event in told if isinstance(event, BlockStored)]
        assert [(its.block_hashes, its.parent_block_hash, its.token_ids, its.block_size) for its in stored[:2]] == [
            ([2], 1, [2], 1),
            ([2], 1, [2], 1),
        ]
        assert {its.group_idx for its in stored[:2]} == {0, 1}
        removed = [event for event in told if isinstance(event, BlockRemoved)]
        assert len(removed) == (1 if rules is NORMATIVE else 0)  # normatively the state is not found until it is copied


@pytest.mark.parametrize("rules", [NORMATIVE, KV_2026_11])
def test_a_state_within_a_step(rules: Rules) -> None:
    """Layers that can save the state at the end of a prompt need no step that ends there."""
    state = spec(
        "MambaSpec", 8, mamba_cache_mode="align", num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=2
    )
    manager = manager_of(spec("FullAttentionSpec", 2), state, rules=rules, hash_size=2)
    first, second = request_of("0", list(range(21))), request_of("1", list(range(21)))
    step(manager, first, 21)
    null, saved, last = manager.get_block_ids("0")[1]
    assert null == 0
    first.num_in_flight_tokens = 0
    manager.commit(first, 21) if rules is NORMATIVE else None
    assert manager.block_pool.blocks[saved].block_hash_num_tokens == 20
    assert manager.block_pool.blocks[last].block_hash is None
    manager.new_step_starts()
    hits, tokens, _ = manager.get_computed_blocks(second)
    assert (tokens, hits.get_block_ids()[1]) == (20, [0, 0, saved])


@pytest.mark.parametrize(
    ("interval", "rules", "ends"),
    [
        (None, NORMATIVE, [4, 8, 10]),
        (8, NORMATIVE, [8, 10]),
        (0, NORMATIVE, [10]),
        (None, KV_2026_11, [4, 8, 10]),
        (0, KV_2026_11, [8, 10]),
    ],
)
def test_a_retention_interval(interval: int | None, rules: Rules, ends: list[int]) -> None:
    """Few states of whole blocks can be found, and that behind the prompt. 0.33.0 keeps the last whole block, too."""
    manager = both(rules, interval=interval)
    request = request_of("0", list(range(11)))
    for tokens in (4, 4, 2):
        step(manager, request, tokens)
        request.num_in_flight_tokens = 0
        if rules is NORMATIVE:
            manager.commit(request, request.num_computed_tokens)
    keys = [found for block in manager.block_pool.blocks for found in manager.block_pool.keys_of(block)]
    assert sorted(content.prefix for key, content in keys if hash_of(key, several=True)[1]) == ends


@pytest.mark.parametrize(("interval", "saved"), [(None, True), (0, False)])
def test_a_state_within_a_step_that_does_not_end_the_prompt(interval: int | None, saved: bool) -> None:
    """It is saved unless only the states of prompts can be found."""
    state = spec(
        "MambaSpec", 8, mamba_cache_mode="align", num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=2
    )
    manager = manager_of(spec("FullAttentionSpec", 2), state, hash_size=2, interval=interval)
    step(manager, request_of("0", list(range(41))), 24)
    null, middle, last = manager.get_block_ids("0")[1]
    assert (null == 0, middle != 0, last != 0) == (True, saved, True)


def test_states_for_a_connector() -> None:
    """Each state of a whole block is offered once; that behind the prompt when its request has ended there."""
    manager = both()
    first = request_of("0", list(range(7)))
    step(manager, first, 4)
    manager.commit(first, 4)
    assert manager.take_boundary_state_offloads() == {"0": [(1, 2, 4)]}
    assert manager.take_boundary_state_offloads() == {}
    first.num_in_flight_tokens = 0
    assert manager.finalize_partial_tail_offloads(first) == []
    step(manager, first, 2)
    first.num_in_flight_tokens = 0
    assert manager.finalize_partial_tail_offloads(first) == [(1, 4, 6)]


def test_look_ups_by_hash_alone() -> None:
    """Each group by itself: full attention has more than there is a state for."""
    manager = both()
    first = request_of("0", list(range(8)))
    first.block_hashes = [bytes((number,)) for number in range(8)]
    step(manager, first, 7)
    manager.commit(first, 7)
    coordinator = manager.coordinator
    assert coordinator.enable_partial_hash_hits
    blocks, tokens = coordinator.find_longest_cache_hit_per_group(first.block_hashes, 8)
    assert tokens == (7, 7)
    assert [[block.block_id for block in its] for its in blocks] == [[1, 2], [0, 3]]
    assert coordinator.find_longest_cache_hit_per_group(first.block_hashes, 6)[1] == (4, 0)
    window = manager_of(spec("SlidingWindowSpec", 2, sliding_window=4), hash_size=2)
    with pytest.raises(UnsupportedError, match="not looked up by themselves"):
        window.coordinator.find_longest_cache_hit_per_group([], 6)


def test_a_window_beside_hits_within_blocks() -> None:
    """Layers with a window have hash blocks; a hit needs the window before its end."""
    manager = manager_of(
        spec("FullAttentionSpec", 4),
        spec("SlidingWindowSpec", 2, sliding_window=3),
        spec("MambaSpec", 4, mamba_cache_mode="align"),
        hash_size=2,
    )
    first, second = request_of("0", list(range(7))), request_of("1", list(range(7)))
    step(manager, first, 6)
    manager.commit(first, 6)
    hits, tokens, _ = manager.get_computed_blocks(second)
    assert (tokens, [len(its) for its in hits.blocks]) == (6, [2, 3, 2])
    assert hits.get_block_ids()[1][0] == 0
    assert manager.allocate_slots(second, 1, tokens, hits) is not None
    copies, _ = manager.take_kv_cache_block_copies()
    assert len(copies) == 2


# States of drafts ---------------------------------------------------------------------------------------------------


def tables_with_drafts(hash_size: int) -> list[list[int]]:
    """The table of states with two blocks for drafts, behind steps of 4, 4, 12 and 2 tokens."""
    state = spec("MambaSpec", 4, mamba_cache_mode="align", num_speculative_blocks=2)
    manager = manager_of(spec("FullAttentionSpec", 4), state, hash_size=hash_size)
    request = request_of("0", list(range(30)))
    tables = []
    for tokens in (4, 4, 12, 2):
        request.num_in_flight_tokens = 0
        assert manager.allocate_slots(request, tokens, num_lookahead_tokens=2) is not None
        request.num_computed_tokens += tokens
        tables.append(manager.get_block_ids("0")[1])
    request.num_in_flight_tokens = 0
    manager.free(request)
    assert manager.block_pool.get_num_free_blocks() == 23
    assert manager.get_computed_blocks(request_of("1", list(range(30))))[1] == 20
    return tables


@pytest.mark.parametrize("hash_size", [1, 4])
def test_blocks_for_the_states_of_drafts(hash_size: int) -> None:
    """They move along with the running state, and the first one of them becomes its block."""
    moved = [[3, 4, 5], [3, 4, 5, 7], [0, 4, 0, 0, 5, 7, 11], [0, 0, 0, 0, 5, 7, 11, 12]]
    assert tables_with_drafts(hash_size) == moved
    with planted(Change(DraftStates.skip, "block.block_id in self.scratch", "False")):
        assert tables_with_drafts(hash_size) != moved


def test_a_request_is_admitted_if_the_states_of_its_drafts_find_blocks() -> None:
    """Two blocks of full attention, the running state, and two blocks for drafts: 5 of the 23 blocks."""
    state = spec("MambaSpec", 4, mamba_cache_mode="align", num_speculative_blocks=2)
    manager = manager_of(spec("FullAttentionSpec", 4), state)
    for reserved, admitted in ((19, False), (18, True)):
        request = request_of("0", list(range(8)))
        given = manager.allocate_slots(request, 8, reserved_blocks=reserved, full_sequence_must_fit=True)
        assert (given is not None) == admitted
    assert manager.block_pool.get_num_free_blocks() == 18
