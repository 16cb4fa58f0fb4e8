"""Several groups of layers: quiet steps, and contents in one buffer, are served as by the general path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.test_kv_cache_packed import HASHES, LIMIT, SIZE, Load, taken_out, whole
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import LaterKVCacheManager, ordinary
from cacheimpl.kv_cache_manager.errors import StaleBlocksError
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.packed import PackedTables
from cacheimpl.kv_cache_manager.rules import KV_2026_11, NORMATIVE, Rules
from cacheimpl.kv_cache_manager.tables import Tables

RULES = (NORMATIVE, KV_2026_11)
BLOCKS = 40


def layers(name: str, **more: Any) -> Any:
    return SimpleNamespace(kv_cache_spec=type(name, (SimpleNamespace,), {})(block_size=SIZE, **more))


class GroupsLoad(Load):
    """Random requests in a manager of full attention and a window; the other one always takes the general path."""

    def __init__(self, rules: Rules, hashes: str, seed: int) -> None:
        super().__init__(rules, hashes, seed)
        for group in self.general._groups:  # an object for each block
            group.__dict__["_register_packed"] = lambda *_: False

    def made_of(self, rules: Rules, blocks: int = BLOCKS) -> Any:
        """Full attention and a window of two blocks."""
        groups = [layers("FullAttentionSpec"), layers("SlidingWindowSpec", sliding_window=2 * SIZE)]
        config = SimpleNamespace(num_blocks=blocks, kv_cache_groups=groups)
        return LaterKVCacheManager(config, LIMIT, rules=rules, scheduler_block_size=SIZE, hash_block_size=SIZE)

    def hash(self, request: Any) -> None:
        """Some requests bring no keys: their tokens are known before they are executed."""
        if not request.request_id.endswith(("3", "6", "9")):
            super().hash(request)

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
        if self.running and chance < 0.3:  # the last block of full attention that was registered
            holding = self.short._tables.holdings[self.draw.choice(self.running).request_id]
            number = holding.blocks[holding.registered - 1].block_id
        if chance < 0.15:
            return self.both(lambda manager: taken_out(manager, number))
        if chance < 0.4:
            return self.both(lambda manager: manager.evict_blocks({number}))
        if chance < 0.5 or not self.running:
            return self.both(lambda manager: manager.reset_prefix_cache())
        request = self.draw.choice(self.running)
        back = request.num_computed_tokens - self.draw.randrange(1, SIZE + 1)
        request.num_computed_tokens, request.num_in_flight_tokens = max(0, back), 0
        return True

    odds = 0.3, 0.9, 0.95

    def remembers(self) -> bool:
        """Of the blocks that both managers have named, they know the same."""
        return all(
            ours[: len(its)] == its[: len(ours)]
            for short, general in zip(self.short._groups, self.general._groups, strict=True)
            for name, holding in short.holdings.items()
            for ours, its in [([*map(whole, each.links.contents)] for each in (holding, general.holdings[name]))]
        )


def all_agree() -> bool:
    return all(
        GroupsLoad(rules, hashes, seed).agrees(200) for rules in RULES for hashes in HASHES for seed in range(30)
    )


@pytest.mark.parametrize("rules", RULES, ids=["normative", "0.33.0"])
@pytest.mark.parametrize("hashes", HASHES)
def test_short_and_general_paths_are_alike(rules: Rules, hashes: str) -> None:
    assert all(GroupsLoad(rules, hashes, seed).agrees(200) for seed in range(60))


def test_a_released_table_is_not_used() -> None:
    assert a_released_table_is_not_used()


def test_the_short_paths_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"quiet": 0, "packed": 0}
    quiet, commit = ordinary.goes_on_quietly, PackedTables._register_packed

    def counted_quiet(*given: Any) -> bool:
        taken["quiet"] += (went := quiet(*given))
        return went

    def counted_commit(self: PackedTables, *given: Any) -> bool:
        taken["packed"] += (done := commit(self, *given))
        return done

    monkeypatch.setattr(ordinary, "goes_on_quietly", counted_quiet)
    monkeypatch.setattr(PackedTables, "_register_packed", counted_commit)
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


def null_blocks_stay_unregistered() -> bool:
    """A scheduler gives the blocks behind a window back before they are registered."""
    load = GroupsLoad(NORMATIVE, "prefix", 1)
    request: Any = SimpleNamespace(
        request_id="0", all_token_ids=[*range(24)], block_hashes=[], num_computed_tokens=0, cache_salt=None
    )
    load.hash(request)
    assert load.short.allocate_slots(request, 24) is not None
    load.short.remove_skipped_blocks("0", 24)
    load.short.commit(request, 24)
    null = load.short.block_pool.null_block
    return null.block_hash is None and null in load.short._groups[1].holdings["0"].blocks


def quiet_steps_are_within_their_bounds() -> bool:
    """A step is quiet from the tokens on that it must have behind it, and up to those that have slots."""
    request: Any = SimpleNamespace()

    def is_quiet(computed: int) -> bool:
        holding = Holding(request, [], quiet_until=9, quiet_from=4, scheduled=6)
        return ordinary.goes_on_quietly((holding,), request, computed, computed, computed + 1, computed + 1, 9)

    return [is_quiet(computed) for computed in range(3, 8)] == [False, True, True, True, False]


def test_quiet_steps_are_within_their_bounds() -> None:
    assert quiet_steps_are_within_their_bounds()


def test_null_blocks_stay_unregistered() -> None:
    assert null_blocks_stay_unregistered()


BUGS = {
    "a block without its slots is quiet": Change(ordinary.goes_on_quietly, "slots > $its.quiet_until", "False"),
    "a request that went back to an earlier block is quiet": Change(
        ordinary.goes_on_quietly, "$its.quiet_from <= computed <= $its.scheduled", "True"
    ),
    "a request that went back is quiet": Change(ordinary.goes_on_quietly, "executed < $its.computed", "False"),
    "counters of a quiet step stay": Change(
        ordinary.goes_on_quietly, "($its.computed, $its.scheduled) = (executed, end)", "pass"
    ),
    "a released table is quiet": Change(Tables.pop, "$holding.quiet_until = 0", "pass"),
    "keys without their group": Change(
        PackedTables._brought, "list(map(add, $hashes, repeat(self.chains.ending)))", "list(hashes)"
    ),
    "salts are ignored": Change(PackedTables._register_packed, "not is_plain(request)", "False"),
    "behind an evicted block": Change(PackedTables._register_packed, "$rules.whole_prefixes", "False"),
    "blocks are registered again": Change(PackedTables._register_packed, "$holding.registered = $full", "pass"),
    "a window registers its null blocks": Change(
        PackedTables._register_packed, "self.pool.null_block in $fresh", "False"
    ),
    "what is taken after the look-up is not seen": Change(
        ordinary.admit, "$seen.removals != pool.registered.removals", "False"
    ),
    "the buffer of another prefix": Change(PackedTables._packed_behind, "$its.has(before, start, data)", "True"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str) -> None:
    with planted(BUGS[bug]):
        try:
            alone = a_released_table_is_not_used() and taken_hits_are_refused() and null_blocks_stay_unregistered()
            alone = alone and quiet_steps_are_within_their_bounds()
            noticed = not (alone and all_agree())
        except Exception:  # noqa: BLE001  # whatever breaks is noticed
            noticed = True
    assert noticed
