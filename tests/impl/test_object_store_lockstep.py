"""The object store in shared memory beside the specification, call by call, and planted bugs that this finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.object_store.reading import Reader
from cacheimpl.object_store.tickets import Tickets
from cacheimpl.object_store.writing import Writer
from cacheimpl.ring.placement import Placement
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import Campaign, lockstep
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.targets.process import InProcessTarget
from cacheproof.targets.tensor.object_storage import StoreTarget, open_store

torch.set_num_threads(1)

COMPONENT = component_named("object_store")
SCOPES = {scope.name: scope.config for scope in scopes_of(COMPONENT)}
WIDE = SCOPES["overlap"]._replace(
    capacity=40,
    payloads=(1, 2, 3, 5, 9),
    requests=((0, 1, 2), (3, 0), (4,), (2, 2), (1,), (3, 4)),
    largest=5,
    readers=3,
    modulus=7,
    renders=-1,
    touches=1,
    stepwise=1,
    rejects=1,
    aborts=1,
    covered=1,
    preempts=1,
    clears=1,
    deaths=1,
    forges=1,
    reclaims=1,
)
"""Everything at once, beyond what is explored."""


def run(config: Any, steps: int, seed: int) -> Campaign:
    target = InProcessTarget(open_store, COMPONENT)
    try:
        return lockstep(COMPONENT, COMPONENT.normative, config, target, steps=steps, seed=seed, seconds_to_shrink=0.0)
    finally:
        target.close()


DRIVEN = [name for name, config in SCOPES.items() if not config.stores and not config.restarts]


@pytest.mark.parametrize("scope", DRIVEN)
def test_it_agrees_in_every_scope_that_it_can_be_driven_in(scope: str) -> None:
    campaign = run(SCOPES[scope], 300, 1)
    assert campaign.finding is None
    assert campaign.tally.steps == 300


def test_it_agrees_with_everything_at_once() -> None:
    campaign = run(WIDE, 3000, 2)
    assert campaign.finding is None
    assert campaign.tally.steps == 3000


def test_most_scopes_are_driven() -> None:
    assert len(DRIVEN) >= 15


@pytest.mark.nightly
def test_it_agrees_for_long() -> None:
    campaign = run(WIDE, 100_000, 3)
    assert campaign.finding is None
    assert campaign.tally.steps == 100_000


@pytest.mark.parametrize("fault", ["stores", "restarts"])
def test_what_it_cannot_do_is_said(fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        StoreTarget().reset(WIDE._replace(**{fault: 1}))


BASE = SCOPES["rejected"]._replace(touches=0, rejects=0, readers=1)
PROTECTED = BASE._replace(
    capacity=8, payloads=(2, 2, 2), requests=((0, 1), (1, 2), (2, 0)), modulus=8, touches=1, rejects=1, aborts=1
)
LATE = BASE._replace(capacity=4, stepwise=1, aborts=1, reclaims=1)
TIGHT = BASE._replace(capacity=6, payloads=(1, 1, 2), requests=((0,), (1,), (2,)), modulus=8, aborts=1)
FEW_IDS = BASE._replace(capacity=9, payloads=(1, 1, 1), requests=((0,), (1,), (2,)), largest=1)
CHOSEN = (SCOPES["touched"], PROTECTED, LATE, TIGHT, FEW_IDS, SCOPES["cleared"], SCOPES["hot"], SCOPES["halves"], WIDE)
"""Small ones, in which each rule matters soon."""

MUTANTS: dict[str, tuple[Callable[..., Any], str, str]] = {
    # the books
    "a handle is settled and still counts": (Tickets.settle, "self.counts[$identity] -= 1", "pass"),
    "a revoked handle keeps its cell": (
        Tickets.settle,
        "self._chunks.pop($number)",
        "self._chunks[$number]",
    ),
    "one reader is enough": (Tickets.settle_acknowledged, "self._rows", "self._rows[:1]"),
    "what is protected goes": (Writer.may_go, "self.issued[$identity] == 0 and $x", "self.issued[$identity] == 0"),
    "what is out goes": (Writer.may_go, "self.issued[$identity] == 0", "self.issued[$identity] <= 1"),
    "a hit issues no handle": (Tickets.issue, "self.counts[$identity] += 1", "self.counts[$identity] += 0"),
    "a protection outlives its look-up": (Writer._issue, "self.protected.discard($identity)", "pass"),
    "a protection outlives its walk": (Writer.release, "self.protected.clear()", "pass"),
    "a touch protects nothing": (Writer.touch, "self.protected.add(self.key_index[$key][1])", "pass"),
    "what is in the way is handed out again": (Writer._drain, "self._withdraw($key)", "pass"),
    "what is protected is withdrawn": (Writer._drain, "$oldest is not None and $x", "$oldest is not None"),
    "clearing withdraws nothing": (Writer.clear, "self._withdraw($key)", "pass"),
    "clearing frees nothing": (Writer.clear, "self.free_unused()", "pass"),
    "a chunk that goes is still found": (Writer._drop_oldest, "del self.key_index[$key]", "pass"),
    "a put settles nothing": (Writer.put, "self.tickets.settle_acknowledged()", "pass"),
    "one chunk goes, and no more": (
        Writer._make_room,
        "while $x:\n    $body",
        "if $x:\n    $body",
    ),
    "what is as large as can be is refused": (Writer.put, "$exact > self._largest", "$exact >= self._largest"),
    # the ring
    "a chunk across the end": (Placement.address_for, "$at + $total > $capacity", "False"),
    "the last byte is not used": (Placement.address_for, "$at + $total > $capacity", "$at + $total >= $capacity"),
    "one byte too many is occupied": (
        Placement.address_for,
        "$address + $total - self.start <= $capacity",
        "$address + $total - self.start <= $capacity + 64",
    ),
    "an id is given twice": (Placement.address_for, "$x and $has_id", "$x"),
    "ids do not come round": (Placement.take, "($identity + 1) % self.modulus", "$identity + 1"),
    "the start stays behind": (Placement.drop_oldest, "$x % self.capacity", "$x * 0"),
    "the start is a lap ahead": (
        Placement.drop_oldest,
        "self.start += $x",
        "self.start = self.starts[self.id_start]",
    ),
    "start and end stay in the second lap": (Placement.rebase, "self.start >= self.capacity", "False"),
    "what is empty does not begin at 0": (Placement.drop_oldest, "self.start = self.end = 0", "self.start = self.end"),
    # reading
    "nobody looks again": (
        Reader.look_again,
        "$x != $looked.head",
        "False",
    ),
    "only one reader acknowledges": (
        Reader.acknowledge,
        "max($cells[$handle.cell], $handle.number)",
        "$handle.number if self.number == 0 else 0",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    with planted(Change(*MUTANTS[name])):
        assert any(run(config, 1_500, 5).finding is not None for config in CHOSEN)
