"""Planted bugs in the tensor code: each is caught by comparing every triple of a small scope with the specification.

Those that leave the layout are caught earlier, by its bounds or by a derived field that disagrees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import DEFAULT, scope_named
from cacheproof.search.tensor import compare
from cacheproof.tensor_models import model_of
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.lru.configuration import Config as LruConfig

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = LruConfig(capacity=3, sizes=(1, 1, 2), grown=(2, 1, 1), lookups=2, pins=1)
WIDE_LRU = LruConfig(capacity=300, sizes=(100, 100, 100, 150), lookups=0)
ENCODER = EncoderConfig(capacity=3, sizes=(1, 2), requests=((0, 1, 0), (1,)), failures=1, resets=1)
CLAIMS = EncoderConfig(capacity=3, sizes=(1, 2), requests=((0, 1), (0, 1)), claims=((1, 2), (2, 2)), budgets=(1, 2))
TIGHT = EncoderConfig(capacity=2, sizes=(1, 2), requests=((0,), (1,)))
WIDE_ENCODER = EncoderConfig(capacity=200, sizes=(190, 180), requests=((0,), (1,)))

RECENCY, LRU_CODE, ENCODER_CODE = "cacheimpl.recency", "cacheimpl.lru.operations", "cacheimpl.encoder_cache"
ACCOUNTING, OPERATIONS = f"{ENCODER_CODE}.accounting", f"{ENCODER_CODE}.operations"

MUTANTS: dict[str, tuple[Any, str, str, str]] = {
    # queues
    "the oldest counts itself": (LRU, f"{RECENCY}.total_of_older", "$by_age.cumsum(0) - $by_age", "$by_age.cumsum(0)"),
    "one eviction too many": (LRU, f"{RECENCY}.oldest_until", "$gained_before < $need", "$gained_before <= $need"),
    "one eviction too few": (LRU, f"{RECENCY}.oldest_until", "$gained_before < $need", "$gained_before < $need - 1"),
    "the wrong end": (
        LRU,
        f"{RECENCY}.oldest_until",
        "total_of_older($ranks, $x)",
        "total_of_older(torch.where(queued($ranks), length($ranks) - 1 - $ranks, $ranks), $x)",
    ),
    "those that cannot go are counted": (
        LRU,
        f"{RECENCY}.oldest_until",
        "torch.where($candidates, $gains, 0)",
        "$gains",
    ),
    "the gap stays": (
        LRU,
        f"{RECENCY}.without",
        "torch.where(queued($ranks) & ~$leaving, $closed_up, OUTSIDE)",
        "torch.where(queued($ranks) & ~$leaving, $ranks, OUTSIDE)",
    ),
    "who left keeps its rank": (LRU, f"{RECENCY}.without", "queued($ranks) & ~$leaving", "queued($ranks)"),
    "the newest gets the rank of another": (LRU, f"{RECENCY}.with_newest", "length($rest)", "length($rest) - 1"),
    "the newest becomes the oldest": (
        LRU,
        f"{RECENCY}.with_newest",
        "torch.where($joining, length($rest), $rest)",
        "torch.where($joining, 0, torch.where(queued($rest), $rest + 1, $rest))",
    ),
    "turns from the other end": (
        ENCODER,
        f"{RECENCY}.with_newest_in_turn",
        "$turns.to",
        "(joining.sum() - 1 - $turns).to",
    ),
    "sums in eight bits": (
        WIDE_LRU,
        f"{RECENCY}.total_of_older",
        "$by_age.cumsum(0)",
        "$by_age.cumsum(0, dtype=torch.int8).long()",
    ),
    # lru
    "an eviction gives no bytes back": (
        LRU,
        f"{LRU_CODE}.removed",
        "$cache.used - $x",
        "$cache.used",
    ),
    "a pin outlives its entry": (LRU, f"{LRU_CODE}.removed", "$cache.pinned & ~$leaving", "$cache.pinned"),
    "bytes of what is stored again count twice": (
        LRU,
        f"{LRU_CODE}.stored",
        "$cache.used - row($cache.sizes, $key)",
        "$cache.used",
    ),
    "storing is no use": (LRU, f"{LRU_CODE}.stored", "recent($cache, $key)", "$cache"),
    "a growing entry counts with its old size": (
        LRU,
        f"{LRU_CODE}.with_room",
        "$cache.used - row($cache.sizes, $key)",
        "$cache.used",
    ),
    "its own eviction counts as gain": (
        LRU,
        f"{LRU_CODE}.with_room",
        "torch.where($x, 0, $cache.sizes)",
        "$cache.sizes",
    ),
    "pinned entries are evicted": (LRU, f"{LRU_CODE}.with_room", "~$cache.pinned", "$cache.pinned | ~$cache.pinned"),
    "pins are not asked": (LRU, f"{LRU_CODE}.put", "torch.where($others_pinned, $cache.sizes, 0).sum()", "0"),
    "its own pin leaves no room": (
        LRU,
        f"{LRU_CODE}.put",
        "$cache.pinned & ~is_row($cache.pinned, $key)",
        "$cache.pinned",
    ),
    "a miss is not counted": (LRU, f"{LRU_CODE}.get", "choose($found, $hit, $counted)", "choose($found, $hit, cache)"),
    "a miss of a look-up is counted": (
        LRU,
        f"{LRU_CODE}.lookup",
        "choose($found, $hit, $cache)",
        "choose($found, $hit, $cache._replace(total=$cache.total + 1))",
    ),
    "a report does not move the mark": (LRU, f"{LRU_CODE}.stat", "reported_hits=$cache.hits", ""),
    "a ghost enters the order": (
        LRU,
        f"{LRU_CODE}.touch",
        "choose($found, recent($cache, $key), $cache)",
        "recent($cache, $key)",
    ),
    "asking is a use": (
        LRU,
        f"{LRU_CODE}.contains",
        "($cache, answer(either(present($cache, $key), Code.HIT, Code.MISS)))",
        "(recent($cache, $key), answer(either(present($cache, $key), Code.HIT, Code.MISS)))",
    ),
    # encoder cache
    "what is held stays idle": (ENCODER, f"{ACCOUNTING}.hold", "without($cache.idle, $waking)", "$cache.idle"),
    "what is held stays freeable": (
        ENCODER,
        f"{ACCOUNTING}.hold",
        "$cache.freeable - $x",
        "$cache.freeable",
    ),
    "a reference is not counted": (ENCODER, f"{ACCOUNTING}.hold", "$cache.references + $entry", "$cache.references"),
    "what is created again is still reported": (
        ENCODER,
        f"{ACCOUNTING}.place",
        "without($cache.freed, $entry)",
        "$cache.freed",
    ),
    "slots are taken from one count only": (
        ENCODER,
        f"{ACCOUNTING}.place",
        "$cache.freeable - $wanted.claim",
        "$cache.freeable",
    ),
    "what is not held gives slots back": (
        ENCODER,
        f"{ACCOUNTING}.release",
        "row($cache.held, $request)",
        "row(config.contents, $request) >= 0",
    ),
    "the first occurrence lets go for all": (
        ENCODER,
        f"{ACCOUNTING}.release",
        "($released > 0) & ($references == 0)",
        "$released > 0",
    ),
    "idle in the order of the first input": (
        ENCODER,
        f"{ACCOUNTING}.turns_to_rest",
        "$x(0, $place, $positions, 'amax')",
        "$x(0, $place, $positions, 'amin', include_self=False)",
    ),
    "an eviction gives no slots back": (
        ENCODER,
        f"{ACCOUNTING}.with_room",
        "$cache.free + $x",
        "$cache.free",
    ),
    "an eviction is not reported": (
        ENCODER,
        f"{ACCOUNTING}.with_room",
        "$x($cache.freed, $leaving, $cache.idle.long())",
        "$cache.freed",
    ),
    "what is pending is forgotten": (
        ENCODER,
        f"{OPERATIONS}.can_allocate",
        "$wanted.claim + $pending",
        "$wanted.claim",
    ),
    "the budget is not asked": (CLAIMS, f"{OPERATIONS}.can_allocate", "($wanted.claim <= $budget) & $x", "$x"),
    "a budget is never used up": (
        CLAIMS,
        f"{OPERATIONS}.can_allocate",
        "$wanted.claim <= $budget",
        "$wanted.claim < $budget",
    ),
    "another size is accepted": (
        CLAIMS,
        f"{OPERATIONS}.check_and_update",
        "$resident & $agreed & ~is_held($cache, $wanted)",
        "$resident & ~is_held($cache, $wanted)",
    ),
    "what is resident is charged again": (ENCODER, f"{OPERATIONS}.allocate", "$absent & $fits", "$fits"),
    "allocating does not ask for room": (TIGHT, f"{OPERATIONS}.allocate", "$absent & $fits", "$absent"),
    "a report tells everything twice": (
        ENCODER,
        f"{ACCOUNTING}.end_pass",
        "torch.full_like($cache.freed, OUTSIDE)",
        "$cache.freed",
    ),
    "a failed admission keeps its pins": (
        ENCODER,
        f"{OPERATIONS}.abandon",
        "release($config, $cache, $request, $x)",
        "$cache",
    ),
    "a failed admission loses all": (
        ENCODER,
        f"{OPERATIONS}.abandon",
        "queued(row($cache.attempted, $request))",
        "torch.ones_like($cache.held[0])",
    ),
    "an admitted request can still be abandoned": (
        ENCODER,
        f"{ACCOUNTING}.redeem",
        "removed($cache.attempted, $mine)",
        "$cache.attempted",
    ),
    "slots in eight bits": (
        WIDE_ENCODER,
        f"{ACCOUNTING}.with_room",
        "$needed - $cache.free",
        "($needed - $cache.free).to(torch.int8)",
    ),
}


def caught(config: Any) -> str:
    """How a comparison of the whole scope ends: nothing, a difference, or the error of the layout."""
    component = component_named("lru" if isinstance(config, LruConfig) else "encoder_cache")
    try:
        difference = compare(model_of(component, config)).difference
    except (OutOfBoundsError, RoundTripError) as error:
        return type(error).__name__
    return "nothing" if difference is None else difference.operation.wire_name()


@pytest.mark.parametrize(
    "config",
    [LRU, WIDE_LRU, ENCODER, CLAIMS, WIDE_ENCODER],
    ids=["lru", "wide lru", "encoder", "claims", "wide encoder"],
)
def test_without_a_bug_nothing_is_caught(config: Any) -> None:
    assert caught(config) == "nothing"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    config, function, right, wrong = MUTANTS[mutant]
    plant(function, right, wrong)
    assert caught(config) != "nothing"


@pytest.mark.parametrize(
    ("mutant", "component", "scope"),
    [("sums in eight bits", "lru", "gigabytes"), ("slots in eight bits", "encoder_cache", "billions")],
)
def test_a_narrow_number_is_caught_in_a_default_scope(plant: Plant, mutant: str, component: str, scope: str) -> None:
    """So `check --engine tensor` catches it."""
    where = scope_named(component_named(component), scope)
    assert where.set == DEFAULT
    assert caught(where.config) == "nothing"
    _, function, right, wrong = MUTANTS[mutant]
    plant(function, right, wrong)
    assert caught(where.config) != "nothing"
