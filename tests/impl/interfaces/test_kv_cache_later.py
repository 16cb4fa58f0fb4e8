"""The later `KVCacheManager`, as tests of such a manager are written; and the same tests with releases."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import kv_cache_later as cases
from tests.impl.interfaces.kv_requests import LATER
from tests.impl.interfaces.releases import Case, Difference, cases_of, check_release, each

from cacheimpl.kv_cache_manager import KV_2025_10, KV_2026_11, Rules

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")
NOBODY_LOOKS = "no release looks"

DIFFERENCES = {
    "what_is_scheduled_is_not_found_before_it_is_executed": Difference(VERSIONS, "C-KV-6"),
    "an_item_elsewhere_is_something_else": Difference(("0.11.0",), "C-KV-9"),
    "a_block_that_the_output_fills_is_found_by_a_prompt": Difference(("0.11.0", "0.20.2"), "C-KV-7"),
    "what_cannot_be_found_is_taken_first": Difference(("0.11.0", "0.20.2"), "C-KV-15"),
    "who_has_finished_does_not_count_as_running": Difference(("0.11.0",), "C-KV-13"),
    "leading_blocks_of_all_running_requests": Difference(("0.33.0",), "always none: cascade attention was removed"),
    "an_evicted_block_takes_what_follows_along": Difference(("0.20.2", "0.33.0"), "C-KV-19"),
    "hits_for_a_request_with_a_table": Difference(("0.11.0",), "C-KV-20"),
    "fewer_than_no_tokens": Difference(VERSIONS, "C-KV-5"),
    "more_tokens_than_the_longest_request": Difference(VERSIONS, "slots end at the longest request, unsaid"),
    "hits_that_were_evicted_meanwhile": Difference(VERSIONS, NOBODY_LOOKS),
    "an_id_that_is_used_twice": Difference(VERSIONS, NOBODY_LOOKS),
    "a_block_is_in_the_free_queue_once": Difference(VERSIONS, NOBODY_LOOKS),
    "what_is_computed_again_is_not_found": Difference(VERSIONS, "C-KV-6"),
    "other_tokens_behind_the_computed_ones": Difference(VERSIONS, "C-KV-6"),
    "tokens_in_flight_are_not_found": Difference(VERSIONS, "C-KV-6"),
}


@pytest.mark.parametrize("shape", LATER)
@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case, shape: str) -> None:
    case(LATER[shape])


ERAS = {"0.11.0": KV_2025_10, "0.33.0": KV_2026_11}
UNDER_ANY_RULES = {
    "an_item_elsewhere_is_something_else": "keys are ours",
    "a_block_that_the_output_fills_is_found_by_a_prompt": "keys are ours",
    "hits_for_a_request_with_a_table": "misuse",
    "fewer_than_no_tokens": "misuse",
    "more_tokens_than_the_longest_request": "misuse",
    "an_id_that_is_used_twice": "misuse",
    "a_block_is_in_the_free_queue_once": "misuse",
}
"""Cases that ours end under the rules of an era, too, as normatively; with the reason."""

ABSENT = {"0.11.0": {"an_evicted_block_takes_what_follows_along"}}
"""Cases of calls that a release lacks, and that ours end as a later release does."""


@pytest.mark.parametrize("version", ERAS)
def test_an_era_ends_each_case_as_its_release(version: str) -> None:
    api = under(LATER[version], ERAS[version])
    differs = {name for name, case in cases_of(cases).items() if not passes(case, api)}
    known = {name for name, one in DIFFERENCES.items() if version in one.versions}
    assert differs == (known | ABSENT.get(version, set())) - set(UNDER_ANY_RULES)


def under(api: Any, rules: Rules) -> Any:
    """The same managers under these rules."""
    return SimpleNamespace(**{**vars(api), "manager": partial(api.manager, rules=rules)})


def passes(case: Case, api: Any) -> bool:
    try:
        case(api)
    except (AssertionError, ValueError):
        return False
    return True


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, DIFFERENCES)
