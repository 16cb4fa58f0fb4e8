"""Several groups of layers: a step that changes counters only, and one that fills a block, are served as in general."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.test_kv_cache_packed import HASHES, LIMIT, SIZE, Load, whole
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import LaterKVCacheManager, ordinary
from cacheimpl.kv_cache_manager.errors import StaleBlocksError
from cacheimpl.kv_cache_manager.next_block import NextBlock
from cacheimpl.kv_cache_manager.packed import PackedTables
from cacheimpl.kv_cache_manager.rules import KV_2026_11, NORMATIVE, Rules
from cacheimpl.kv_cache_manager.tables import Tables

RULES = (NORMATIVE, KV_2026_11)
BLOCKS = 40


def layers(name: str, **more: Any) -> Any:
    return SimpleNamespace(kv_cache_spec=type(name, (SimpleNamespace,), {})(block_size=SIZE, **more))


class GroupsLoad(Load):
    """Random requests in a manager of full attention and a window; the other one always takes the general path."""

    def made_of(self, rules: Rules, blocks: int = BLOCKS) -> Any:
        """One that counts how often a block is registered by the short path."""
        groups = [layers("FullAttentionSpec"), layers("SlidingWindowSpec", sliding_window=2 * SIZE)]
        config = SimpleNamespace(num_blocks=blocks, kv_cache_groups=groups)
        made = LaterKVCacheManager(config, LIMIT, rules=rules, scheduler_block_size=SIZE, hash_block_size=SIZE)
        if self.made_first:
            for group in made._groups:
                assert isinstance(group, NextBlock)
                group.__dict__["_commit_next"] = lambda *_: False
        self.made_first = True
        return made

    made_first = False

    def shown(self, manager: Any) -> Any:
        """Of each group its tables and counters, and what it knows; the free queue, and of each block what it holds."""
        pool = manager.block_pool
        tables = [
            {
                name: (its.registered, its.computed, its.scheduled, [block.block_id for block in its.blocks])
                for name, its in group.holdings.items()
            }
            for group in manager._groups
        ]
        blocks = [(one.ref_cnt, one.block_hash, whole(one.content)) for one in pool.blocks]
        first = {key: block.block_id for key, block in pool.registered.first.items()}
        return tables, [block.block_id for block in pool.free_block_queue.get_all_free_blocks()], blocks, first

    def disturb(self) -> bool:
        """Blocks are evicted by number, the cache is reset, and requests go back."""
        number, chance = self.draw.randrange(1, BLOCKS), self.draw.random()
        if chance < 0.4:
            return self.both(lambda manager: manager.evict_blocks({number}))
        if chance < 0.5 or not self.running:
            return self.both(lambda manager: manager.reset_prefix_cache())
        request = self.draw.choice(self.running)
        back = request.num_computed_tokens - self.draw.randrange(1, SIZE + 1)
        request.num_computed_tokens, request.num_in_flight_tokens = max(0, back), 0
        return True

    def agrees(self, steps: int) -> bool:
        """As in the base class; at the end both know the same of all blocks."""
        for _ in range(steps):
            chance = self.draw.random()
            if len(self.running) < 4 and chance < 0.3:
                same = self.arrive()
            elif self.running and chance < 0.9:
                same = self.go_on()
            elif self.running and chance < 0.95:
                same = self.end(self.draw.choice(self.running))
            else:
                same = self.disturb()
            if not (same and self.both(self.shown)):
                return False
        return all(
            [*map(whole, ours.links.contents)] == [*map(whole, its.links.contents)][: len(ours.links)]
            or [*map(whole, its.links.contents)] == [*map(whole, ours.links.contents)][: len(its.links)]
            for short, general in zip(self.short._groups, self.general._groups, strict=True)
            for ours, its in ((holding, general.holdings[name]) for name, holding in short.holdings.items())
        )


def all_agree() -> bool:
    return all(GroupsLoad(rules, hashes, seed).agrees(150) for rules in RULES for hashes in HASHES for seed in range(8))


@pytest.mark.parametrize("rules", RULES, ids=["normative", "0.33.0"])
@pytest.mark.parametrize("hashes", HASHES)
def test_short_and_general_paths_are_alike(rules: Rules, hashes: str) -> None:
    assert all(GroupsLoad(rules, hashes, seed).agrees(200) for seed in range(20))


def test_a_released_table_is_not_used() -> None:
    assert a_released_table_is_not_used()


def test_the_short_paths_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"quiet": 0, "next": 0}
    quiet, commit = ordinary.goes_on_quietly, NextBlock._commit_next

    def counted_quiet(*given: Any) -> bool:
        taken["quiet"] += (went := quiet(*given))
        return went

    def counted_commit(self: NextBlock, *given: Any) -> bool:
        taken["next"] += (done := commit(self, *given))
        return done

    monkeypatch.setattr(ordinary, "goes_on_quietly", counted_quiet)
    monkeypatch.setattr(NextBlock, "_commit_next", counted_commit)
    assert all(GroupsLoad(NORMATIVE, "prefix", seed).agrees(200) for seed in range(10))
    assert min(taken.values()) > 100


def a_released_table_is_not_used() -> bool:
    """A table of the second group alone was released after a quiet step: the next step is refused."""
    load = GroupsLoad(NORMATIVE, "prefix", 1)
    request: Any = SimpleNamespace(
        request_id="0", all_token_ids=[1] * 9, block_hashes=[], num_computed_tokens=0, cache_salt=None
    )
    load.hash(request)
    load.short.allocate_slots(request, 4)
    for tokens in (4, 5):
        request.num_computed_tokens = tokens
        load.short.allocate_slots(request, 1)
    load.short._groups[1].release("0")
    request.num_computed_tokens = 6
    try:
        load.short.allocate_slots(request, 1)
    except Exception:  # noqa: BLE001  # it is not served as if the table were there
        return True
    return bool(load.short._groups[1].holdings)


def taken_hits_are_refused() -> bool:
    """Between a look-up and its admission, another request has taken the blocks and filled them."""
    load = GroupsLoad(NORMATIVE, "prefix", 1)
    one = load.made_of(NORMATIVE, blocks=7)

    def served(tokens: list[int], computed: int) -> tuple[Any, int, Any]:
        request = SimpleNamespace(request_id=f"{tokens}", all_token_ids=tokens, block_hashes=[], cache_salt=None)
        request.num_computed_tokens = request.num_in_flight_tokens = 0
        load.hash(request)
        blocks, found, _ = one.get_computed_blocks(request)
        if computed:
            assert one.allocate_slots(request, computed - found, found, blocks) is not None
            request.num_computed_tokens = computed
        return request, found, blocks

    one.free(served([1] * 4, 4)[0])
    waiting, found, hits = served([1] * 6, 0)
    assert found == SIZE
    one.free(served([0] * 12, 12)[0])
    try:
        return one.allocate_slots(waiting, 6 - found, found, hits) is None
    except StaleBlocksError:
        return True


def test_taken_hits_are_refused() -> None:
    assert taken_hits_are_refused()


BUGS = {
    "a block without its slots is quiet": Change(ordinary.goes_on_quietly, "slots > $its.quiet_until", "False"),
    "a request that went back to an earlier block is quiet": Change(
        ordinary.goes_on_quietly, "$its.quiet_from <= computed <= $its.scheduled", "True"
    ),
    "counters of a quiet step stay": Change(
        ordinary.goes_on_quietly, "($its.computed, $its.scheduled) = (executed, end)", "pass"
    ),
    "a released table is quiet": Change(Tables.pop, "$holding.quiet_until = 0", "pass"),
    "a key without its group": Change(NextBlock._commit_next, "$hashed + $chains.ending", "hashed"),
    "salts are ignored": Change(NextBlock._commit_next, "not is_plain(request)", "False"),
    "behind an evicted block": Change(NextBlock._commit_next, "$rules.whole_prefixes", "False"),
    "the block is registered again": Change(
        NextBlock._commit_next,
        "($holding.registered, $holding.quiet_until) = ($position + 1, 0)",
        "holding.quiet_until = 0",
    ),
    "what is taken after the look-up is not seen": Change(
        ordinary.admit, "$seen.removals != pool.registered.removals", "False"
    ),
    "the buffer of another prefix": Change(PackedTables._packed_behind, "$its.has(before, start, data)", "True"),
    "a chain begins anew": Change(NextBlock._commit_next, "$links.contents[-1] if $position else None", "None"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str) -> None:
    with planted(BUGS[bug]):
        try:
            noticed = not (all_agree() and a_released_table_is_not_used() and taken_hits_are_refused())
        except Exception:  # noqa: BLE001  # whatever breaks is noticed
            noticed = True
    assert noticed
