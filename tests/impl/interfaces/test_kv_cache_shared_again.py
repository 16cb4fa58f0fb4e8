"""Two requests share a block, and both compute its tokens again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import LaterKVCacheManager, execution

SIZE = 4


def both_compute_again() -> tuple[LaterKVCacheManager, list[Any]]:
    """Two requests with nine tokens; the second block is shared, and each goes back to the first one."""
    spec = type("FullAttentionSpec", (SimpleNamespace,), {})(block_size=SIZE)
    config = SimpleNamespace(num_blocks=20, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec)])
    manager = LaterKVCacheManager(config, 64, scheduler_block_size=SIZE)
    requests: list[Any] = [later_request(name, list(range(9))) for name in "ab"]
    for request in requests:
        hits, tokens, _ = manager.get_computed_blocks(request)
        assert manager.allocate_slots(request, 9 - tokens, tokens, hits) is not None
        request.num_computed_tokens = 9
        request.all_token_ids.append(9)
        assert manager.allocate_slots(request, 1) is not None
    first, second = (manager.get_block_ids(request.request_id)[0] for request in requests)
    assert first[:2] == second[:2]
    for computed, tokens in ((4, 4), (8, 1)):
        for request in requests:
            request.num_computed_tokens = computed
            assert manager.allocate_slots(request, tokens) is not None
    return manager, requests


def test_the_block_is_found_again() -> None:
    manager, _ = both_compute_again()
    assert manager.get_computed_blocks(later_request("c", list(range(9))))[1] == 8


def test_without_the_check_the_second_request_fails() -> None:
    bug = Change(execution._without_hashes, "all($x for first, end in runs)", "True")
    with planted(bug), pytest.raises(AssertionError, match="already has a hash"):
        both_compute_again()
