"""Rules of the normative mirror without which every property still holds, and why they are there all the same."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.planting import Change, planted
from tests.spec.mirror_defences import TOUCHED_LAST

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cachespec.kernel import Code
from cachespec.mirror import COMPONENT, protocol
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative import NORMATIVE_MIRROR
from cachespec.mirror.operations import Deliver, Join, Submit


class Redundant(NamedTuple):
    """A rule without which every property still holds, and why it is there all the same."""

    rule: str
    removed: tuple[Change, ...]
    reason: str
    small: Config
    large: Config
    is_normal: bool
    """Whether the normal form of states does not rest on the rule."""


PAIRS = Config(2, (1, 1, 1), items=2)
LOSS = Config(1, (1, 1), drop=1, restart=1)
FAULTS = Config(1, (1, 1), reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1)
TWO_SENDERS = FAULTS._replace(senders=2, outstanding=1)
MIXED_SIZES = FAULTS._replace(capacity=2, sizes=(1, 1, 2), items=2, outstanding=1)

REDUNDANT = [
    Redundant(
        "P1 adopts a newer generation",
        (Change(protocol.receive, "$partition._replace(generation=$y)", "$partition"),),
        "Within an epoch a message of an older generation is, but for that number, what the newer one is; whichever P1 "
        "takes first is applied and the other is known by its sequence number. Messages of an older epoch are refused "
        "by the generation of the join. The rule makes MIR-8 hold of generations too, and leaves fewer states.",
        LOSS._replace(reset=1),
        TWO_SENDERS,
        is_normal=True,
    ),
    Redundant(
        "a confirmation counts whatever its generation",
        (
            Change(
                protocol.answered,
                "confirm($sender, $answer.expected)",
                "$sender if $answer.generation != $sender.generation else confirm($sender, $answer.expected)",
            ),
            Change(
                protocol.receive,
                "($current, Answer(NONE, *$rest), False)",
                "($current, Answer(message.generation, *$rest), False)",
            ),
            Change(
                protocol.receive,
                "($after, Answer(NONE, *$rest), True)",
                "($after, Answer(message.generation, *$rest), True)",
            ),
        ),
        "What goes out again is confirmed in its own generation. The rule spares the sending again of what P1 has "
        "applied in the meantime.",
        LOSS,
        FAULTS,
        is_normal=False,
    ),
]


def surviving(rule: Redundant, where: Config, *, liveness: bool) -> Exploration:
    plan = Plan(symmetry=not liveness, liveness=liveness, limit_states=300_000)
    with planted(*rule.removed):
        return explore(COMPONENT, COMPONENT.normative if rule.is_normal else NORMATIVE_MIRROR, where, plan)


@pytest.mark.parametrize("rule", REDUNDANT, ids=lambda rule: rule.rule)
def test_without_a_redundant_rule_every_property_holds(rule: Redundant) -> None:
    """Should one fail here, the rule is a defence and belongs above."""
    found = surviving(rule, rule.small, liveness=True)
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())
    assert rule.reason


@pytest.mark.nightly
@pytest.mark.parametrize("rule", REDUNDANT, ids=lambda rule: rule.rule)
def test_without_it_every_property_holds_in_a_default_scope(rule: Redundant) -> None:
    found = surviving(rule, rule.large, liveness=False)
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


def payloads_sent(config: Config, *requests: tuple[int, ...]) -> int:
    """How many payloads these requests cost, one after the other."""
    state, sent = NORMATIVE_MIRROR.start(config), 0
    state, _ = NORMATIVE_MIRROR.call(config, state, Join(0))
    for items in requests:
        state, outcome = NORMATIVE_MIRROR.call(config, state, Submit(0, items))
        sent += sum(outcome.values)
        state, outcome = NORMATIVE_MIRROR.call(config, state, Deliver(0))
        assert outcome.code is Code.HIT
    return sent


def test_touching_first_spares_a_payload() -> None:
    requests = ((0,), (1,), (2, 0))
    assert payloads_sent(PAIRS, *requests) == 3
    with planted(*TOUCHED_LAST):
        assert payloads_sent(PAIRS, *requests) == 4
