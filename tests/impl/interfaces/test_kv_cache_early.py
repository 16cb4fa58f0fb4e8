"""The early `KVCacheManager`, as tests of such a manager are written; and the same tests with 0.7.3."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import kv_cache_early as cases
from tests.impl.interfaces.kv_requests import EARLY
from tests.impl.interfaces.releases import Case, Difference, cases_of, check_release, each

from cacheimpl.kv_cache_manager import KV_2025_02

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
        "without_caching_the_end_is_taken_first": "0.7.3 frees from the beginning",
        "an_id_that_is_used_twice": NOBODY_LOOKS,
        "a_block_is_in_the_free_queue_once": NOBODY_LOOKS,
    }.items()
}


@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case) -> None:
    case(EARLY)


UNDER_ANY_RULES = {
    "an_item_elsewhere_is_something_else": "keys are ours",
    "a_block_that_the_output_fills_is_found_by_a_prompt": "keys are ours",
    "hits_for_a_request_with_a_table": "misuse",
    "fewer_than_no_tokens": "misuse",
    "more_tokens_than_the_longest_request": "misuse",
    "an_id_that_is_used_twice": "misuse",
    "a_block_is_in_the_free_queue_once": "misuse",
}
"""Cases that ours end under the rules of the era, too, as normatively; with the reason."""


def test_the_era_ends_each_case_as_its_release() -> None:
    api = SimpleNamespace(**{**vars(EARLY), "manager": partial(EARLY.manager, rules=KV_2025_02)})
    differs = {name for name, case in cases_of(cases).items() if not passes(case, api)}
    assert differs == set(DIFFERENCES) - set(UNDER_ANY_RULES)


def passes(case: Case, api: Any) -> bool:
    try:
        case(api)
    except (AssertionError, ValueError):
        return False
    return True


def test_no_tokens_take_no_slots_in_the_era() -> None:
    """0.7.3 has no such call any more."""
    made = EARLY.manager(4, 8, 64, rules=KV_2025_02)
    request = EARLY.request("0", [1] * 6)
    made.allocate_slots(request, 6)
    assert made.append_slots(request, 0) == []
    with pytest.raises(ValueError, match="num_tokens"):
        made.append_slots(request, -1)
    normative = EARLY.manager(4, 8, 64)
    normative.allocate_slots(request, 6)
    with pytest.raises(ValueError, match="num_tokens"):
        normative.append_slots(request, 0)


@pytest.mark.nightly
def test_released() -> None:
    check_release("0.7.3", cases, DIFFERENCES)
