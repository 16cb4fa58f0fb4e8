"""The early `KVCacheManager`, as tests of such a manager are written; and the same tests with 0.7.3."""

from __future__ import annotations

import pytest
from tests.impl.interfaces.cases import kv_cache_early as cases
from tests.impl.interfaces.kv_requests import EARLY
from tests.impl.interfaces.releases import Case, Difference, check_release, each

NOBODY_LOOKS = "no release looks"

DIFFERENCES = {
    name: Difference(("0.7.3",), entry)
    for name, entry in {
        "what_is_scheduled_is_not_found_before_it_is_executed": "C-KV-6",
        "of_a_full_hit_a_token_is_left": "C-KV-4",
        "an_item_elsewhere_is_something_else": "C-KV-9",
        "a_block_that_the_output_fills_is_found_by_a_prompt": "C-KV-7",
        "what_cannot_be_found_is_taken_first": "C-KV-15",
        "who_has_finished_does_not_count_as_running": "C-KV-13",
        "fewer_than_no_tokens": "C-KV-5",
        "hits_for_a_request_with_a_table": "C-KV-5",
        "more_tokens_than_the_longest_request": "C-KV-2",
        "hits_that_were_evicted_meanwhile": NOBODY_LOOKS,
        "an_id_that_is_used_twice": NOBODY_LOOKS,
        "a_block_is_in_the_free_queue_once": NOBODY_LOOKS,
    }.items()
}


@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case) -> None:
    case(EARLY)


@pytest.mark.nightly
def test_released() -> None:
    check_release("0.7.3", cases, DIFFERENCES)
