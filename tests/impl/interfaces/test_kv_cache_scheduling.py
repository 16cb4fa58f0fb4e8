"""The calls of schedulers, as an engine's tests are written; and the same tests with releases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import kv_cache_scheduling as cases
from tests.impl.interfaces.kv_requests import LATER, later_request
from tests.impl.interfaces.releases import Case, check_release, each

from cacheimpl.kv_cache_manager import KVCacheManagerError, LaterKVCacheManager

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")


def api_of(shape: str) -> Any:
    call = lambda made, name, *arguments: getattr(made, name)(*arguments)  # noqa: E731  # one word
    return SimpleNamespace(**vars(LATER[shape]), call=call, newest=shape == "0.33.0")


@pytest.mark.parametrize("shape", LATER)
@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case, shape: str) -> None:
    case(api_of(shape))


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, {})


def test_new_blocks_are_zeroed_if_the_configuration_wants_that() -> None:
    """So that what another precision has written is not read."""
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=16))
    config = SimpleNamespace(num_blocks=9, kv_cache_groups=[group], needs_kv_cache_zeroing=True)
    made = LaterKVCacheManager(config, max_model_len=64)
    made.allocate_slots(later_request("0", [1] * 40), 40)
    assert made.take_new_block_ids() == [1, 2, 3]
    assert made.take_new_block_ids() == []
    made.record_blocks_for_zeroing("0", 16)
    assert made.take_new_block_ids() == [2, 3]
    with pytest.raises(KVCacheManagerError, match="multiple of every block size"):
        made.record_blocks_for_zeroing("0", 17)
