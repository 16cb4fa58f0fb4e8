"""What an engine's tests ask of the keys that requests bring from 0.11 on; `api` has ours, or a release's.

Standard library only.
"""

from __future__ import annotations

import hashlib
from typing import Any


def digest(value: Any) -> bytes:
    return hashlib.sha256(repr(value).encode()).digest()


def case_a_hash_covers_parent_tokens_and_extra_keys(api: Any) -> None:
    api.init_none_hash(digest)
    first = api.hash_block_tokens(digest, None, [1, 2, 3], None)
    assert isinstance(first, bytes)
    assert first == api.hash_block_tokens(digest, None, (1, 2, 3), None)
    assert first == digest((api.none_hash(), (1, 2, 3), None))
    others = [
        api.hash_block_tokens(digest, first, [1, 2, 3], None),
        api.hash_block_tokens(digest, None, [1, 2, 4], None),
        api.hash_block_tokens(digest, None, [1, 2, 3], ("key",)),
        api.hash_block_tokens(digest, None, [1, 2, 3]),
    ]
    assert [other == first for other in others] == [False, False, False, True]
    assert len(set(others)) == 4


def case_full_blocks_are_hashed_once(api: Any) -> None:
    api.init_none_hash(digest)
    hasher = api.hasher(4, digest)
    request = api.request("0", [1] * 9)
    request.block_hashes.extend(hasher(request))
    assert len(request.block_hashes) == 2
    assert hasher(request) == []
    request.all_token_ids.extend([1] * 7)
    assert len(hasher(request)) == 2
    request.block_hashes.extend(hasher(request))
    assert len(set(request.block_hashes)) == 4
    whole = api.request("1", [1] * 16)
    assert hasher(whole) == request.block_hashes


def case_a_chain_of_single_hashes(api: Any) -> None:
    api.init_none_hash(digest)
    hasher = api.hasher(2, digest)
    first = api.hash_block_tokens(digest, None, [5, 6], None)
    assert hasher(api.request("0", [5, 6, 7, 8, 9])) == [first, api.hash_block_tokens(digest, first, [7, 8], None)]


def case_what_else_a_block_depends_on(api: Any) -> None:
    api.init_none_hash(digest)
    hasher = api.hasher(4, digest)
    plain = hasher(api.request("0", [0] * 12))
    item = hasher(api.request("1", [0] * 12, items=[("cat", 5, 2)]))
    other = hasher(api.request("2", [0] * 12, items=[("dog", 5, 2)]))
    salted = hasher(api.request("3", [0] * 12, cache_salt="salt"))
    adapted = hasher(api.request("4", [0] * 12, lora_request=api.adapter(1)))
    assert plain[0] == item[0] == other[0]
    for row in (item, other, salted, adapted):
        assert plain[1] != row[1]
        assert plain[2] != row[2]
    assert item[1] != other[1]
    assert len({row[0] for row in (plain, salted, adapted)}) == 3
