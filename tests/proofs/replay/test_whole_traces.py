"""Whole traces against published counts, where their folder is given; the files do not come along.

`CACHEPROOF_TRACES` names a folder with `mooncake/conversation_trace.jsonl.gz`, `weka_agentic/requests.jsonl.gz` and
`azure_llm_2023/AzureLLMInferenceTrace_code.csv.gz`, as the README of the slices says where they come from.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.proofs.replay.plain_blocks import plain_hits

from cacheproof.model.registry import component_named
from cacheproof.replay.readers import read
from cacheproof.replay.result import ReplayResult, Setting
from cacheproof.replay.run import Replay, replay_of
from cacheproof.replay.workload import Workload

VARIABLE = "CACHEPROOF_TRACES"
FOLDER = Path(os.environ.get(VARIABLE, ""))
MOONCAKE = FOLDER / "mooncake" / "conversation_trace.jsonl.gz"
WEKA = FOLDER / "weka_agentic" / "requests.jsonl.gz"
AZURE = FOLDER / "azure_llm_2023" / "AzureLLMInferenceTrace_code.csv.gz"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no folder with the whole traces"),
]

CAPACITIES = (1000, 2500, 5000, 10_000, 20_000, 50_000, 100_000)
FULL = (12_990, 17_379, 34_193, 62_005, 84_692, 102_724, 104_926)
ALL = (12_847, 16_974, 32_260, 61_046, 83_035, 102_290, 104_924)
"""Hits of the Mooncake trace at these capacities: of full blocks only, and of all names."""

PREFIX = {"sessions": "12"}
"""So many WEKA sessions, at capacities that the table does not have; all of them take an hour at each."""

SESSIONS = ((50_000, 58_092_293, "81.1"), (100_000, 66_747_086, "93.2"))
"""Capacity, hits of the whole WEKA trace, and their published ratio."""


def through_the_blocks(workload: Workload, capacity: int) -> ReplayResult:
    """Without full checks on the way: a pool of this size takes too long to look at."""
    chosen = component_named("kv_blocks")
    result = Replay(Setting(chosen, chosen.normative, workload, capacity, 0)).run()
    assert result.violations == []
    return result


@pytest.mark.parametrize(("capacity", "hits"), [*zip(CAPACITIES, FULL, strict=True)])
def test_mooncake_full_blocks(capacity: int, hits: int) -> None:
    result = through_the_blocks(read([MOONCAKE], {"as-table": "yes"}), capacity)
    assert (result.references, result.hits) == (276_491, hits)


@pytest.mark.parametrize(("capacity", "hits"), [*zip(CAPACITIES, ALL, strict=True)])
def test_mooncake_all_names(capacity: int, hits: int) -> None:
    result = through_the_blocks(read([MOONCAKE], {"as-table": "yes", "ids": "all"}), capacity)
    assert (result.references, result.hits) == (288_500, hits)


def test_mooncake_with_everything_at_once() -> None:
    workload = read([MOONCAKE], {"as-table": "yes"})
    assert len(workload.sizes) == 170_899
    assert f"{100 * through_the_blocks(workload, workload.infinite).hit_ratio:.2f}" == "38.19"


@pytest.mark.parametrize("capacity", [5000, 20_000])
def test_sessions_through_the_specification_hit_what_a_plain_cache_hits(capacity: int) -> None:
    workload = read([WEKA], {"as-table": "yes", **PREFIX})
    expected = plain_hits((arrival.contents for arrival in workload.arrivals), capacity)
    assert through_the_blocks(workload, capacity).hits == expected


@pytest.mark.parametrize(("capacity", "hits", "ratio"), SESSIONS)
def test_all_sessions_through_the_specification(capacity: int, hits: int, ratio: str) -> None:
    """71.6 million references, beside a plain cache that was written for this alone."""
    workload = read([WEKA], {"as-table": "yes"})
    assert plain_hits((arrival.contents for arrival in workload.arrivals), capacity) == hits
    result = through_the_blocks(workload, capacity)
    assert (result.references, result.hits) == (71_632_521, hits)
    assert f"{100 * result.hits / result.references:.1f}" == ratio


@pytest.mark.parametrize("budget", [2048, 8192])
def test_every_code_request_is_served(budget: int) -> None:
    chosen = component_named("scheduler")
    workload = read([AZURE], {"budget": str(budget)})
    result = replay_of(Setting(chosen, chosen.normative, workload, 20_000, 0)).run()
    assert (result.violations, result.requests, result.rejected) == ([], 8819, 0)
    assert result.least > 0
    computed = sum(arrival.tokens.length for arrival in workload.arrivals if arrival.tokens)
    assert result.tokens >= computed
    assert result.preempted > 0 or result.tokens == computed
