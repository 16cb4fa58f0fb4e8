"""Keys that requests bring, as an engine's tests are written; and the same tests with releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import block_hashing as cases
from tests.impl.interfaces.cases.block_hashing import digest
from tests.impl.interfaces.kv_requests import LaterRequest, adapter, kv_cache_config
from tests.impl.interfaces.releases import Case, check_release, each

from cacheimpl.kv_cache_manager import (
    KVCacheManager,
    KVCacheManagerError,
    LaterKVCacheManager,
    get_request_block_hasher,
    hash_block_tokens,
    hashing,
    init_none_hash,
)


@dataclass(eq=False)
class HashedRequest(LaterRequest):
    """A request with keys."""

    block_hashes: list[bytes] = field(default_factory=list)


def request(name: str, tokens: list[int], items: Any = (), **more: Any) -> HashedRequest:
    features = [
        SimpleNamespace(identifier=mm_hash, mm_position=SimpleNamespace(offset=offset, length=length))
        for mm_hash, offset, length in items
    ]
    return HashedRequest(name, list(tokens), features, **more)


OURS = SimpleNamespace(
    init_none_hash=init_none_hash,
    none_hash=lambda: hashing.NONE_HASH,
    hash_block_tokens=hash_block_tokens,
    hasher=get_request_block_hasher,
    request=request,
    adapter=adapter,
)


@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case) -> None:
    case(OURS)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["0.11.0", "0.20.2", "0.33.0"])
def test_released(version: str) -> None:
    check_release(version, cases, {})


def test_processes_agree_if_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "NONE_HASH", b"")  # and the old one comes back
    monkeypatch.setenv(hashing.SEED, "7")
    init_none_hash(digest)
    assert digest("7") == hashing.NONE_HASH
    monkeypatch.delenv(hashing.SEED)
    init_none_hash(digest)
    first = hashing.NONE_HASH
    init_none_hash(digest)
    assert len({first, hashing.NONE_HASH, digest("7")}) == 3


def test_the_manager_finds_by_these_keys() -> None:
    hasher = get_request_block_hasher(4, digest)
    manager = KVCacheManager(kv_cache_config(9, 4), max_model_len=64)
    assert isinstance(manager, LaterKVCacheManager)
    first, second = request("0", [1] * 9), request("1", [1] * 12)
    for made in (first, second):
        made.block_hashes.extend(hasher(made))
    manager.allocate_slots(first, 9)
    first.num_computed_tokens = 9
    manager.free(first)
    assert manager.block_pool.get_cached_block(first.block_hashes[1]) is not None
    assert manager.get_computed_blocks(second)[1] == 8


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: get_request_block_hasher(0, digest),
        lambda: get_request_block_hasher(4, None),  # type: ignore[arg-type]  # what is refused
        lambda: get_request_block_hasher(4, digest, -1),
        lambda: init_none_hash(3),  # type: ignore[arg-type]  # the same
    ],
)
def test_what_is_refused(wrong: Any) -> None:
    before = hashing.NONE_HASH
    with pytest.raises(KVCacheManagerError):
        wrong()
    assert before == hashing.NONE_HASH


def test_keys_that_look_ahead() -> None:
    """A key covers tokens behind its block, and comes with them; the manager finds what has equal ones."""
    init_none_hash(digest)
    plain, ahead = get_request_block_hasher(2, digest), get_request_block_hasher(2, digest, 2)
    one = request("0", [1, 2, 3, 4, 5, 6])
    assert len(plain(one)) == 3
    assert len(ahead(one)) == 2
    one.block_hashes = ahead(request("0", [1, 2, 3, 4, 5]))
    assert len(one.block_hashes) == 1
    one.block_hashes += ahead(one)
    assert one.block_hashes == ahead(request("0", [1, 2, 3, 4, 5, 6]))
    assert one.block_hashes[:1] == ahead(request("1", [1, 2, 3, 4, 9]))
    assert one.block_hashes[1] != ahead(request("1", [1, 2, 3, 4, 5, 9]))[1]
    for keyed in (True, False):
        manager = LaterKVCacheManager(
            kv_cache_config(9, 2), 32, hash_block_size=2, num_hash_lookahead_tokens=2, enable_kv_cache_events=True
        )
        first = request("0", [1, 2, 3, 4, 5, 6])
        first.block_hashes = one.block_hashes if keyed else []
        assert manager.allocate_slots(first, 6) is not None
        manager.commit(first, 6)
        event: Any = manager.take_events()[0]
        assert (event.token_ids, event.lookahead_token_ids) == ([1, 2, 3, 4], [[3, 4], [5, 6]])
        assert event.extra_keys == [None, None]
        for tokens, found in (([1, 2, 3, 4, 5, 6], 4), ([1, 2, 3, 4, 5, 9], 2), ([1, 2, 3, 9], 0), ([1, 2, 3], 0)):
            other = request("1", tokens)
            other.block_hashes = ahead(other) if keyed else []
            assert manager.get_computed_blocks(other)[1] == found
