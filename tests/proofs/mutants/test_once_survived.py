"""Mutants that survived until a property was made stricter, or a scope added: a small scope shows each of them."""

from __future__ import annotations

import pytest

from cacheproof.model.registry import component_named
from cacheproof.mutants.generate import mutants_of
from cacheproof.mutants.judge import Fate, Limits, judged


@pytest.mark.parametrize(
    ("name", "scope", "by"),
    [
        ("scheduler/requests.abort/condition-9a5862", "session-alone", "SCH-16/aborted"),
        ("scheduler/requests.abort/condition-c791b1", "session-alone", "SCH-16/aborted"),
        ("scheduler/requests.is_awaited/constant-6e18c1", "session-alone", "SCH-16/aborted"),
        ("scheduler/requests.has_arrived/condition-e460d2", "longer-turns", "SCH-9/queued"),
        ("scheduler/requests.reset_running/constant-2cea21", "running-resets", "X-4/running"),
        ("scheduler/configuration.priority_of/comparison-122c6c", "running-resets-with-priorities", "X-4/running"),
        ("scheduler/requests.has_arrived/condition-260c58", "three-turns", "SCH-9/queued"),
        ("scheduler/counts.aligned/comparison-24124c", "steps-of-one-token", "SCH-8"),
        ("scheduler/rounds.is_full/constant-73e9f0", "steps-of-one-token", "SCH-8"),
        ("scheduler/feasibility.fits_one_step/constant-f01187", "uncut-beside", "SCH-9"),
        ("scheduler/normative.offered_whole/constant-3ba797", "uncut-beside", "SCH-8/far"),
        ("scheduler/normative.offered_whole/dropped-08ecd3", "uncut-beside", "SCH-1/uncut"),
        ("scheduler/normative.offered_whole/comparison-2c64f2", "uncut-beside", "SCH-8"),
        ("scheduler/feasibility.limited/constant-73e9f0", "threshold-of-one", "SCH-1/threshold"),
        ("scheduler/loading.lacks_reserve/comparison-63815f", "load-into-the-last-block", "SCH-8"),
        ("scheduler/loading.missing_blocks/constant-6e18c1", "load-into-the-last-block", "SCH-8"),
        ("scheduler/worker.most_tokens/arithmetic-c56cfc", "drafts-at-the-end", "KV-7/read"),
        ("partial_hits/prefixes.register/dropped-dedc3c", "one-request", "PH-3"),
    ],
)
def test_a_property_notices_it(name: str, scope: str, by: str) -> None:
    component = component_named(name.partition("/")[0])
    mutant = next(one for one in mutants_of(component) if one.name == name)
    result = judged(mutant, Limits(60.0), first=(scope,))
    assert (result.fate, result.by, result.scope) == (Fate.PROPERTY, by, scope)
