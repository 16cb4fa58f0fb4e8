"""Contents in one buffer for each prefix: requests with keys are served as by the general path, and as specified."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.lockstep import findings
from tests.impl.interfaces.test_kv_cache_lockstep import has_one_group, keeps_order
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import KVCacheManagerError, LaterKVCacheManager, packed_prefix
from cacheimpl.kv_cache_manager.contents import Content
from cacheimpl.kv_cache_manager.errors import StaleBlocksError
from cacheimpl.kv_cache_manager.packed import PackedTables
from cacheimpl.kv_cache_manager.packed_prefix import PackedPrefix, packed_of
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.rules import KV_2025_10, KV_2026_11, NORMATIVE, Rules
from cacheproof.targets.tensor import kv_cache_manager as targets

SIZE, LIMIT = 4, 48
RULES = (NORMATIVE, KV_2025_10, KV_2026_11)
HASHES: dict[str, Callable[[list[int]], bytes]] = {
    "prefix": lambda tokens: f"{tokens}".encode(),
    "block alone": lambda tokens: f"{tokens[-SIZE:]}".encode(),
    "last token": lambda tokens: f"{len(tokens)} {tokens[-1] % 2}".encode(),
}
"""The key of a block, of all tokens up to its end. The last two collide."""


def manager(rules: Rules, hash_size: int, blocks: int = 20) -> Any:
    """Some blocks for one group of full attention."""
    spec = type("FullAttentionSpec", (SimpleNamespace,), {})(block_size=SIZE)
    config = SimpleNamespace(num_blocks=blocks + 1, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec)])
    return LaterKVCacheManager(config, LIMIT, rules=rules, scheduler_block_size=SIZE, hash_block_size=hash_size)


class Load:
    """Random requests in a manager that takes its short paths, and in one that does not."""

    def __init__(self, rules: Rules, hashes: str, seed: int, hash_size: int = SIZE) -> None:
        self.draw, self.hashed, self.hash_size = random.Random(seed), HASHES[hashes], hash_size  # a test
        self.short, self.general = self.made_of(rules), self.made_of(rules)
        self.general._full, self.general._by_token = None, []
        self.running: list[Any] = []
        self.ended: list[list[int]] = []
        self.made = 0

    odds = 0.4, 0.85, 0.95
    """Of an arrival, of a step or that, of an end or those."""

    def remembers(self) -> bool:
        """Whether both managers know the same of the blocks in their tables."""
        return remembers(self.short, self.general)

    def made_of(self, rules: Rules) -> Any:
        """A manager."""
        return manager(rules, self.hash_size)

    def shown(self, manager: Any) -> Any:
        """What is compared after each step."""
        return seen(manager)

    def both(self, call: Callable[[Any], Any]) -> bool:
        """Whether both managers answer alike."""
        return bool(answered(call, self.short) == answered(call, self.general))

    def arrive(self) -> bool:
        """A request that continues an earlier one, or begins with few different tokens. Some have a salt."""
        tokens = list(self.draw.choice(self.ended)) if self.ended and self.draw.random() < 0.6 else []
        tokens = tokens[: self.draw.choice((2, 8, 13, 30))]
        tokens += [self.draw.randrange(3) for _ in range(self.draw.randrange(1, 14))]
        self.made += 1
        request = SimpleNamespace(
            request_id=str(self.made),
            all_token_ids=tokens[: LIMIT - 10],
            block_hashes=[],
            num_computed_tokens=0,
            num_in_flight_tokens=0,
            cache_salt="salt" if self.draw.random() < 0.1 else None,
        )
        self.hash(request)
        found: list[Any] = []

        def look_up(manager: Any) -> Any:
            blocks, count, boundary = manager.get_computed_blocks(request)
            found.append((blocks, count))
            return blocks.get_block_ids(), count, boundary

        same = self.both(look_up)
        if self.draw.random() < 0.2:  # fewer of the hits are used
            count = self.draw.randrange(found[0][1] // SIZE + 1) * SIZE
            found = [
                (its.truncate_computed_blocks(blocks, count), count)
                for its, (blocks, _) in zip((self.short, self.general), found, strict=True)
            ]
        hits = found[0][0].get_block_ids()[0]
        between = self.draw.random() if hits else 1.0  # between look-up and admission
        if between < 0.1:
            gone = self.draw.choice(hits)
            same = same and self.both(lambda manager: manager.evict_blocks({gone}))
        new = len(request.all_token_ids) - found[0][1]
        if self.draw.random() < 0.3:
            new = self.draw.randrange(1, new + 1)
        brought = iter(found)
        whole = self.draw.random() < 0.5

        def allocate(manager: Any) -> Any:
            blocks, count = next(brought)
            given = manager.allocate_slots(request, new, count, blocks, full_sequence_must_fit=whole)
            return None if given is None else given.get_block_ids()

        same = same and self.both(allocate)
        if self.short.get_blocks(request.request_id).blocks[0]:
            request.num_computed_tokens = found[0][1] + new
            self.running.append(request)
        return same

    def hash(self, request: Any) -> None:
        """The request has the keys of its full hash blocks."""
        tokens, size = request.all_token_ids, self.hash_size
        salt = b"" if request.cache_salt is None else request.cache_salt.encode()
        for end in range((len(request.block_hashes) + 1) * size, len(tokens) + 1, size):
            request.block_hashes.append(salt + self.hashed(tokens[:end]))

    def go_on(self) -> bool:
        """A request computes one token more, or several; in flight are some of its last ones."""
        request = self.draw.choice(self.running)
        while len(request.all_token_ids) <= request.num_computed_tokens:
            request.all_token_ids.append(self.draw.randrange(3))
        self.hash(request)
        new = min(self.draw.choice((1, 1, 1, 5)), len(request.all_token_ids) - request.num_computed_tokens)
        if request.num_computed_tokens + new > LIMIT:
            return self.end(request)

        def allocate(manager: Any) -> Any:
            given = manager.allocate_slots(request, new)
            return None if given is None else given.get_block_ids()

        same = self.both(allocate)
        if self.short.get_blocks(request.request_id).blocks[0] and same:
            taken = self.short._tables.holdings[request.request_id].scheduled
            request.num_computed_tokens = max(request.num_computed_tokens, taken)
            request.num_in_flight_tokens = self.draw.choice((0, 0, 1))
        return same

    def end(self, request: Any) -> bool:
        """It is freed, or is another object with the same tokens by now."""
        self.running.remove(request)
        self.ended.append(list(request.all_token_ids))
        freed = SimpleNamespace(**vars(request)) if self.draw.random() < 0.1 else request
        same = self.both(lambda manager: manager.free(freed))  # refused if a hit was for equal keys only
        return same and self.both(lambda manager: manager.free(request))

    def disturb(self) -> bool:
        """What callers do beside serving: evict, reset, take blocks out of the map, register them, go back."""
        number, chance = self.draw.randrange(1, 21), self.draw.random()
        if chance < 0.2:
            return self.both(lambda manager: manager.evict_blocks({number}))
        if chance < 0.3 or not self.running:
            return self.both(lambda manager: manager.reset_prefix_cache())
        request = self.draw.choice(self.running)
        holding = self.short._tables.holdings[request.request_id]
        if chance < 0.5:  # mostly the last block that was registered
            last = holding.blocks[holding.registered - 1].block_id
            return self.both(lambda manager: taken_out(manager, last))
        if chance < 0.75:
            full = request.num_computed_tokens // SIZE
            return self.both(lambda manager: registered(manager, request, holding.registered, full))
        shared = [block.ref_cnt > 1 for block in holding.blocks]
        if not any(shared) and holding.computed:
            request.num_computed_tokens, request.num_in_flight_tokens = self.draw.randrange(holding.computed), 0
        return True

    def agrees(self, steps: int) -> bool:
        """Whether a random run is the same in both."""
        for _ in range(steps):
            chance = self.draw.random()
            if len(self.running) < 4 and chance < self.odds[0]:
                same = self.arrive()
            elif self.running and chance < self.odds[1]:
                same = self.go_on()
            elif self.running and chance < self.odds[2]:
                same = self.end(self.draw.choice(self.running))
            else:
                same = self.disturb()
            if not (same and self.both(self.shown)):
                return False
        return self.remembers()


def taken_out(manager: Any, number: int) -> bool:
    """A connector takes a block out of the map; what is behind it stays there."""
    block = manager.block_pool.blocks[number]
    return manager.block_pool.cached_block_hash_to_block.pop(block.block_hash, number) is block


def registered(manager: Any, request: Any, first: int, last: int) -> None:
    """A connector registers blocks of a request by itself."""
    (blocks,) = manager.get_blocks(request.request_id).blocks
    manager.block_pool.cache_full_blocks(request, blocks, first, last, SIZE)


def answered(call: Callable[[Any], Any], manager: Any) -> Any:
    """What the manager answers, or how it refuses."""
    try:
        return call(manager)
    except KVCacheManagerError as error:
        return type(error)


def seen(manager: Any) -> tuple[Any, ...]:
    """Tables, counters, the free queue, and of each block its references, its key and the exact content to its end."""
    tables, pool = manager._tables, manager.block_pool
    counted = {name: (its.registered, its.computed, its.scheduled) for name, its in tables.holdings.items()}
    held = {name: [block.block_id for block in its] for name, its in tables.req_to_blocks.items()}
    free = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    first = {key: block.block_id for key, block in pool.registered.first.items()}
    return counted, held, free, first, [(one.ref_cnt, one.block_hash, whole(one.content)) for one in pool.blocks]


def remembers(short: Any, general: Any) -> bool:
    """Whether both know the same of the blocks in their tables.

    The general path forgets a block that it has just registered, and reads its tokens again when it needs them.
    """
    return all(
        ours[: len(its)] == its[: len(ours)]
        for name, holding in short._tables.holdings.items()
        for ours, its in zip(known(holding), known(general._tables.holdings[name]), strict=True)
    )


def known(holding: Any) -> list[list[Any]]:
    """What is known of a table's blocks."""
    return [holding.known, holding.links.hashes, [whole(one) for one in holding.links.contents]]


def whole(content: Content | None) -> list[Any]:
    """The tokens and the extra keys of a block, and of all before it."""
    blocks = []
    while content is not None:
        blocks.append((content.token_ids, content.extra_keys))
        content = content.parent
    return blocks[::-1]


@pytest.mark.parametrize("hashes", HASHES)
@pytest.mark.parametrize("rules", RULES)
def test_short_and_general_paths_agree(rules: Rules, hashes: str) -> None:
    assert all(
        Load(rules, hashes, seed, hash_size).agrees(150) for seed in range(12) for hash_size in (SIZE, SIZE // 2)
    )


def test_short_paths_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most calls of such a load, and most blocks have no object of their own."""
    taken: list[bool] = []

    def counted(right: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            answer = right(*arguments)
            taken.append(answer is not None and answer is not False)
            return answer

        return counting

    for name in ("found_packed", "admit_packed", "finish", "_register_packed"):
        monkeypatch.setattr(PackedTables, name, counted(getattr(PackedTables, name)))
    packed = 0
    for seed in range(5):
        load = Load(NORMATIVE, "prefix", seed)
        assert load.agrees(150)
        packed += sum(packed_of(block) is not None for block in load.short.block_pool.blocks)
    assert taken.count(True) > taken.count(False) > 0
    assert packed > 20


@pytest.mark.parametrize(
    ("variant", "opened", "only"),
    [("normative", targets.open_served, has_one_group), ("K2", targets.open_served_2026_11, keeps_order)],
)
def test_lockstep_in_the_hands_of_an_engine(variant: str, opened: Any, only: Any) -> None:
    found = dict(findings("kv_blocks", variant, opened, steps=300, only=only))
    assert len(found) >= 8
    assert set(found.values()) == {None}


def test_hits_that_were_taken_since_are_refused() -> None:
    """Another request has evicted the hit after the look-up, and its own tokens can be found in that block."""
    assert taken_hits_are_refused()


def taken_hits_are_refused() -> bool:
    """Whether the manager notices that."""
    load = Load(NORMATIVE, "prefix", 1)
    one = manager(NORMATIVE, SIZE, blocks=3)

    def served(tokens: list[int], *, computed: int) -> Any:
        request = SimpleNamespace(request_id=f"{tokens}", all_token_ids=tokens, block_hashes=[], cache_salt=None)
        request.num_computed_tokens = request.num_in_flight_tokens = 0
        load.hash(request)
        blocks, found, _ = one.get_computed_blocks(request)
        if computed:
            one.allocate_slots(request, computed - found, found, blocks)
            request.num_computed_tokens = computed
        return request, found, blocks

    one.free(served([1] * 5, computed=5)[0])
    other, _, _ = served([0] * 12, computed=8)
    waiting, found, hits = served([1] * 6, computed=0)
    taken = one.allocate_slots(other, 4)
    other.num_computed_tokens = 12
    one.free(other)
    try:
        one.allocate_slots(waiting, 6 - found, found, hits)
    except StaleBlocksError:
        return bool(hits.get_block_ids() == taken.get_block_ids() != ([],))
    return False


def test_branches_are_packed_behind_what_they_share() -> None:
    """The buffer of a branch has its own tokens only; one that ends where the branch begins grows."""
    assert branches_are_right()


def branches_are_right() -> bool:
    """Whether a trunk and a branch behind its second block hold what they should."""
    trunk = PackedPrefix(None, 0, b"aabbcc", 2)
    branch = trunk.followed_by(2, b"dd")
    split = branch is not trunk and (branch.start, branch.owners(3)) == (2, [trunk, trunk, branch])
    grows = trunk.followed_by(3, b"ee") is trunk and trunk.end == 4
    compared = [its for its in (b"aabbdd", b"axbbdd", b"aabbdx", b"aabbd") if branch.begins_with(its, 3)]
    whole = [its.piece for its in branch.contents(3)] == [b"aa", b"bb", b"dd"]
    linked = branch.content(2).parent is trunk.contents(2)[-1] and branch.content(2) is branch.content(2)
    return split and grows and compared == [b"aabbdd"] and whole and linked


BUGS = {
    "tokens of hits are not compared": Change(
        PackedTables.found_packed, "not $its.begins_with($data, $found)", "False"
    ),
    "what is before a branch is not compared": Change(
        PackedPrefix.begins_with, "($end, $its) = ($start, $its.before)", "($end, $its) = ($start, None)"
    ),
    "blocks need not be at their positions": Change(
        packed_prefix.are_leading, "[$block._position for $block in blocks] != list(range($count))", "False"
    ),
    "a shared object may be of another prefix": Change(
        PackedPrefix.has, "self is before if $offset else self.before is before", "True"
    ),
    "a buffer grows wherever a branch begins": Change(PackedPrefix.followed_by, "self.end != start", "False"),
    "hits are not looked at again": Change(
        PackedTables.admit_packed, "$its is None or not self._are_as_seen($blocks, $its, $seen)", "False"
    ),
    "what is taken after the look-up is not seen": Change(
        PackedTables._are_as_seen, "$seen.removals == self.pool.registered.removals", "True"
    ),
    "free hits are counted as room": Change(
        PackedTables.admit_packed, "[$block.ref_cnt for $block in $blocks].count(0)", "0"
    ),
    "one block too few is registered": Change(
        PackedTables._register_packed, "len(holding.blocks)", "len(holding.blocks) - 1"
    ),
    "behind an evicted block is registered": Change(PackedTables._register_packed, "$rules.whole_prefixes", "False"),
    "salts are ignored": Change(PackedTables._register_packed, "not is_plain(request)", "False"),
    "the first hash of a block is its key": Change(
        PackedTables._brought, "($begin + 1) * $scale - 1", "$begin * $scale"
    ),
    "positions stay": Change(BlockPool._register_packed, "$position += 1", "pass"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str) -> None:
    with planted(BUGS[bug]):
        try:
            noticed = not (branches_are_right() and taken_hits_are_refused()) or not all(
                Load(rules, hashes, seed, hash_size).agrees(150)
                for rules in RULES
                for hashes in HASHES
                for seed in range(12)
                for hash_size in (SIZE, SIZE // 2)
            )
        except Exception:  # noqa: BLE001  # whatever breaks is noticed
            noticed = True
    assert noticed
