"""What #37164 describes: a hit is looked up, another request takes its block, and the hit is allocated all the same.

The released managers share the block between both requests. The normative manager refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import Message, config_from_message, operation_from_message
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release, installed
from cachespec.kernel import Code, Outcome

KV_BLOCKS = component_named("kv_blocks")
CONFIG = config_from_message(
    KV_BLOCKS,
    {
        "block_size": 2,
        "blocks": 4,
        "lengths": [4, 4, 3, 2],
        "chains": [[0, 1], [2, 3], [0, 4], [5]],
    },
)
FIRST, B, A, SECOND = range(4)
ERAS = {"0.11.0": "K1", "0.20.2": "K1b", "0.33.0": "K2"}


def allocate(request: int, tokens: int, *hits: int) -> Message:
    return {"op": "allocate_slots", "request": request, "computed": 0, "tokens": tokens, "hits": list(hits)}


def calls(hit: int) -> list[Any]:
    """Two requests leave a block each; B takes the first one between A's look-up and A's allocation."""
    made: list[Message] = [
        allocate(FIRST, 2),
        {"op": "commit", "request": FIRST, "computed": 2},
        allocate(SECOND, 2),
        {"op": "commit", "request": SECOND, "computed": 2},
        {"op": "free_request", "request": FIRST},
        {"op": "free_request", "request": SECOND},
        {"op": "get_computed_blocks", "request": A, "tokens": 3},
        allocate(B, 4),
        allocate(A, 1, hit),
    ]
    return [operation_from_message(KV_BLOCKS.operations, one) for one in made]


def run(variant: str, made: Sequence[Any], config: Any = CONFIG) -> tuple[list[Outcome], list[str]]:
    """The outcomes, and the safety properties that do not hold at the end."""
    era = variant_named(KV_BLOCKS, variant)
    state, outcomes = era.start(config), []
    for call in made:
        state, outcome = era.call(config, state, call)
        outcomes.append(outcome)
    view = era.view(config, state)
    return outcomes, [rule.name for rule in KV_BLOCKS.safety if not rule.holds(config, view)]


@pytest.mark.parametrize("variant", ERAS.values())
def test_eras_share_the_block(variant: str) -> None:
    outcomes, broken = run(variant, calls(hit=1))
    assert outcomes[-3] == Outcome(Code.HIT, (1,))
    assert 1 in outcomes[-2].values
    assert outcomes[-1].code is Code.DONE
    assert "KV-7" in broken


def test_the_normative_manager_refuses_a_stale_hit() -> None:
    """It reserves no block, so one block fewer is as many."""
    config = CONFIG._replace(blocks=CONFIG.blocks - 1)
    outcomes, broken = run("normative", calls(hit=0), config)
    assert outcomes[-3] == Outcome(Code.HIT, (0,))
    assert 0 in outcomes[-2].values
    assert outcomes[-1].code is Code.STALE
    assert broken == []
    without_b = [call for call in calls(hit=0) if getattr(call, "request", None) != B]
    assert run("normative", without_b, config)[0][-1].code is Code.DONE


@pytest.mark.parametrize("version", ERAS)
def test_releases_share_the_block(version: str) -> None:
    if installed(Release(version)) is None:
        pytest.skip(f"vllm=={version} is not installed")
    assert ERAS[version] in {era.variant for era in table().of(Release(version), "kv_blocks")}
    target = open_target(f"vllm=={version}", KV_BLOCKS, variant_named(KV_BLOCKS, ERAS[version]), 20.0)
    try:
        target.reset(CONFIG)
        outcomes = [target.apply(call) for call in calls(hit=1)]
        shown = target.observe()
    finally:
        target.close()
    assert outcomes == run(ERAS[version], calls(hit=1))[0]
    references = shown["references"]
    assert isinstance(references, tuple)
    assert dict(zip(references[::2], references[1::2], strict=True))[1] == len(["of A", "of B"])
