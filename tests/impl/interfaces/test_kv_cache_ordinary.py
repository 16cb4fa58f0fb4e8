"""A request that goes on takes a short path through several groups of layers: it does what the general path does."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import LaterKVCacheManager, ordinary
from cacheimpl.kv_cache_manager.rules import KV_2025_10, KV_2026_11, NORMATIVE, Rules

SIZE, LIMIT = 4, 64
GROUPS = {
    "window": (("FullAttentionSpec", {}), ("SlidingWindowSpec", {"sliding_window": 9})),
    "chunk": (("ChunkedLocalAttentionSpec", {"attention_chunk_size": 12}), ("FullAttentionSpec", {})),
    "windows": (("SlidingWindowSpec", {"sliding_window": 6}), ("SlidingWindowSpec", {"sliding_window": 13})),
}


def manager(groups: str, rules: Rules) -> Any:
    """Twenty blocks."""
    specs = [type(name, (SimpleNamespace,), {})(block_size=SIZE, **more) for name, more in GROUPS[groups]]
    config = SimpleNamespace(num_blocks=21, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec) for spec in specs])
    return LaterKVCacheManager(
        config,
        LIMIT,
        rules=rules,
        scheduler_block_size=SIZE,
        hash_block_size=SIZE,
        enable_kv_cache_events=True,
        max_in_flight_tokens=16,
    )


def request(name: int, kind: int, *, keys: bool) -> SimpleNamespace:
    """One of three sequences of tokens, with keys or without."""
    tokens = [token if token < 8 else token + 100 * kind for token in range(LIMIT)]
    hashes = [f"{tokens[: end + SIZE]}".encode() for end in range(0, LIMIT, SIZE)] if keys else []
    return SimpleNamespace(
        request_id=str(name),
        all_token_ids=tokens,
        block_hashes=hashes,
        num_computed_tokens=0,
        num_in_flight_tokens=0,
        status=SimpleNamespace(name="RUNNING"),
    )


def seen(manager: Any) -> tuple[Any, ...]:
    """All that shows: tables, counters, the free queue, keys, references, events."""
    groups = manager.coordinator.single_type_managers
    tables = [
        {name: [block.block_id for block in its] for name, its in group.req_to_blocks.items()} for group in groups
    ]
    counted = [
        {name: (its.registered, its.computed, its.scheduled) for name, its in group.holdings.items()}
        for group in groups
    ]
    pool = manager.block_pool
    free = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    return tables, counted, free, [(block.block_hash, block.ref_cnt) for block in pool.blocks], manager.take_events()


def agrees(groups: str, rules: Rules, seed: int, *, keys: bool) -> bool:
    """Whether a random run is the same by both paths; and the short path was taken."""
    draw, short, general = random.Random(seed), manager(groups, rules), manager(groups, rules)  # a test
    general._by_token = []
    running: list[Any] = []
    for step in range(120):
        if len(running) < 3:
            new = request(step, draw.randrange(3), keys=keys)
            running.append(new)
        chosen = draw.choice(running)
        tokens = min(draw.choice((1, 1, 1, 2, 7)), LIMIT - chosen.num_computed_tokens)
        answers = []
        for each in (short, general):
            hits, found = None, 0
            if not each.get_blocks(chosen.request_id).blocks[0]:
                hits, found, _ = each.get_computed_blocks(chosen)
            tokens = min(tokens, LIMIT - found) if hits is not None else tokens
            given = each.allocate_slots(chosen, tokens, found, hits) if tokens else None
            answers.append((found, None if given is None else given.get_block_ids()))
        if answers[0] != answers[1] or seen(short) != seen(general):
            return False
        if answers[0][1] is None or draw.random() < 0.05:
            for each in (short, general):
                each.free(chosen)
            running.remove(chosen)
        else:
            chosen.num_computed_tokens += answers[0][0] + tokens
            chosen.num_in_flight_tokens = draw.choice((0, 0, min(tokens, 1)))
        if seen(short) != seen(general):
            return False
    return True


@pytest.mark.parametrize("rules", [NORMATIVE, KV_2025_10, KV_2026_11])
@pytest.mark.parametrize("groups", GROUPS)
def test_both_paths_agree(groups: str, rules: Rules) -> None:
    assert all(agrees(groups, rules, seed, keys=bool(seed % 2)) for seed in range(10))


def test_the_short_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    right = ordinary.go_on

    def counting(*arguments: Any) -> Any:
        given = right(*arguments)
        taken.append(given is not None)
        return given

    monkeypatch.setattr("cacheimpl.kv_cache_manager.later.go_on", counting)
    assert agrees("window", NORMATIVE, 1, keys=True)
    assert taken.count(True) > 50


BUGS = {
    "a block that is due stays": Change(ordinary.go_on, "read >= holding.due", "False"),
    "full blocks are not registered": Change(ordinary.go_on, "executed // size > holding.registered", "False"),
    "a step in flight counts as executed": Change(ordinary.go_on, "computed - ahead", "computed"),
    "room for one group only": Change(ordinary.go_on, "needed += -(-slots // size) - blocks", "needed = 1"),
    "what is scheduled is forgotten": Change(
        ordinary.go_on,
        "for holding in holdings: holding.computed, holding.scheduled = executed, end",
        "for holding in holdings: holding.computed = executed",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str) -> None:
    with planted(BUGS[bug]):
        try:
            noticed = not all(
                agrees(groups, NORMATIVE, seed, keys=bool(seed % 2)) for groups in GROUPS for seed in range(10)
            )
        except Exception:  # noqa: BLE001  # whatever breaks is noticed
            noticed = True
    assert noticed
