"""A recorded workload with a sliding window beside full attention has the hits of a plain count."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.planting import Change, planted
from tests.proofs.replay.plain_blocks import plain_hits as plain_blocks
from tests.proofs.replay.plain_groups import plain_hits

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.replay.readers import read
from cacheproof.replay.result import BY_CLOCK, ReplayResult, Setting
from cacheproof.replay.run import configuration, replay_of
from cacheproof.replay.shipped import DATA
from cachespec.layer_groups import prefixes, tables
from cachespec.layer_groups.service import STEP

MOONCAKE = DATA / "mooncake_slice.jsonl.gz"
REQUESTS = 600


def recorded() -> list[tuple[int, ...]]:
    """The full blocks of the first requests, as they are in the file."""
    with gzip.open(MOONCAKE, "rt") as file:
        rows = [json.loads(line) for line in file][:REQUESTS]
    return [tuple(row["hash_ids"][: row["input_length"] // 512]) for row in rows]


def served(capacity: int, window: int) -> ReplayResult:
    """Without full checks on the way."""
    chosen = component_named("layer_groups")
    given = read([MOONCAKE], {"as-table": "yes", "requests": str(REQUESTS), "window": str(window)})
    result = replay_of(Setting(chosen, chosen.normative, given, capacity, 0)).run()
    assert result.violations == []
    return result


def gives_back(result: ReplayResult) -> bool:
    """Whether the window holds far less than the blocks of the longest request."""
    return result.peaks["held"] < 1.5 * max(map(len, recorded()))


@pytest.mark.parametrize(("capacity", "window"), [(2500, 1024), (4000, 40_000)])
def test_a_window_beside_full_attention_has_the_hits_of_a_plain_count(capacity: int, window: int) -> None:
    names, result = recorded(), served(capacity, window)
    assert (result.references, result.hits) == (sum(map(len, names)), plain_hits(names, capacity, 512, window, STEP))
    assert REQUESTS < result.hits < plain_blocks(names, capacity)
    assert gives_back(result)


def test_without_a_window_it_is_a_plain_cache() -> None:
    assert served(4000, 0).hits == plain_blocks(recorded(), 4000)


BUGS = {
    "a hit that needs the first block of a group only": Change(prefixes.has_prefix, "tokens // $size", "1"),
    "what goes back cannot be found": Change(tables.let_go, "pool.registered.has(block)", "False"),
    "a window that keeps its blocks": Change(tables.give_back, "range(gone)", "range(0)"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_change_the_hits(bug: str) -> None:
    with planted(BUGS[bug]):
        chosen = component_named("layer_groups")
        given = read([MOONCAKE], {"as-table": "yes", "requests": str(REQUESTS), "window": "4096"})
        result = replay_of(Setting(chosen, chosen.normative, given, 4000, 0)).run()
    right = result.hits == plain_hits(recorded(), 4000, 512, 4096, STEP) and gives_back(result)
    assert result.violations or not right


def test_other_components_have_no_windows() -> None:
    chosen, given = component_named("kv_blocks"), read([MOONCAKE], {"requests": "3", "window": "1024"})
    with pytest.raises(InputError, match="kv_blocks has no sliding windows: use layer_groups, or no option 'window'"):
        configuration(Setting(chosen, chosen.normative, given, 100))


def test_a_window_of_one_token_is_refused() -> None:
    chosen, given = component_named("layer_groups"), read([MOONCAKE], {"requests": "3", "window": "1"})
    with pytest.raises(InputError, match="the window of group 1 must be at least 2"):
        configuration(Setting(chosen, chosen.normative, given, 100))


def test_output_and_partial_blocks_are_served_too() -> None:
    """By the clock, in a pool in which requests wait; every property holds."""
    chosen = component_named("layer_groups")
    given = read([MOONCAKE], {"requests": "60", "window": "1024"})
    result = replay_of(Setting(chosen, chosen.normative, given, 400, 0, BY_CLOCK)).run()
    assert (result.violations, result.requests, result.rejected) == ([], 60, 0)
    assert result.waited > 0
    assert result.in_flight > 1
