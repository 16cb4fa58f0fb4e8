"""Each defence of the normative mirror, removed: the consequence, and how many operations show it.

Mutants are explored without the normal form of states, which rests on the protocol being as it is. The rules without
which every property still holds are in `test_mirror_redundant.py`.
"""

from __future__ import annotations

from functools import cache

import pytest
from tests.planting import Change, planted
from tests.spec.mirror_defences import DEFENCES, FAULTS, LARGE, Defence

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cachespec.mirror import COMPONENT, protocol
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative import NORMATIVE_MIRROR


def explored(removed: tuple[Change, ...], where: Config, plan: Plan) -> Exploration:
    with planted(*removed):
        return explore(COMPONENT, NORMATIVE_MIRROR, where, plan)


def plan_for(breaks: str) -> Plan:
    """Lassos are looked for where a request is never served; names are not exchanged there."""
    liveness = breaks == "MIR-7/served"
    return Plan(symmetry=not liveness, liveness=liveness, limit_states=20_000, until=frozenset({breaks}))


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda defence: defence.rule)
def test_a_removed_defence_is_missed(defence: Defence) -> None:
    found = explored(defence.removed, defence.where, plan_for(defence.breaks))
    lengths = {violation.property: len(violation.trace.steps) for violation in found.violations}
    assert lengths.get(defence.breaks) == defence.length, lengths


@cache
def whole(where: Config) -> Exploration:
    return explore(COMPONENT, COMPONENT.normative, where, Plan(symmetry=False, liveness=True))


@pytest.mark.parametrize("where", sorted({defence.where for defence in DEFENCES} - {FAULTS}), ids=str)
def test_with_all_its_defences_the_protocol_holds_there(where: Config) -> None:
    """FAULTS is the scope `served`, which `cacheproof check` explores."""
    found = whole(where)
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


def test_the_widest_of_these_scopes_is_one_that_is_checked() -> None:
    assert scope_named(COMPONENT, "served").config == FAULTS


def test_a_change_is_planted_and_taken_back() -> None:
    before = protocol.probe(protocol.Sender(NORMATIVE_MIRROR.start(LARGE).empty, next=4))
    with planted(Change(protocol.probe, "$sender.next", "0")):
        assert protocol.probe(protocol.Sender(NORMATIVE_MIRROR.start(LARGE).empty, next=4)).sequence == 0
    assert protocol.probe(protocol.Sender(NORMATIVE_MIRROR.start(LARGE).empty, next=4)) == before
    with pytest.raises(AssertionError, match="0 parts"), planted(Change(protocol.probe, "no_such_name", "0")):
        pass
