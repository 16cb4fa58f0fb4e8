"""Requests that are more than one step or one message: look-ups, fan-out, embeddings, cancelled and doubled ones.

For each new transition of the normative mirror a planted bug, the property that breaks, and where.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyVariant
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.verdict import unwitnessed
from cachespec.kernel import ABSENT, DONE, REFUSED, UNSUPPORTED, Code, Kind, Operation, Outcome
from cachespec.mirror import COMPONENT, protocol, recency
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, Draft
from cachespec.mirror.faults import Cancel, Duplicate, DuplicateAnswer, Reject
from cachespec.mirror.normative import NORMATIVE_MIRROR, fan_out, look_up, process, send, submit_embeddings
from cachespec.mirror.normative_faults import cancel, duplicate, duplicate_answer
from cachespec.mirror.normative_state import State, with_link
from cachespec.mirror.operations import (
    Deliver,
    FanOut,
    Join,
    LookUp,
    Process,
    Receive,
    Send,
    Submit,
    SubmitEmbeddings,
)
from cachespec.mirror.vocabulary import OPERATIONS

Result = tuple[State, Outcome]

ROUND = Config(2, (1, 1, 1), rendered=1, processing=1, fan_out=2, embeddings=1, outstanding=3, channel=3, cancel=1)
LOOKS = Config(1, (1, 1), processing=2)
SEVERAL = Config(1, (1, 1), fan_out=2, outstanding=3, channel=3)
EMBEDDINGS = Config(1, (1, 1), embeddings=1)
CANCELLED = Config(1, (1, 1), rendered=2, cancel=1)
DOUBLED = Config(1, (1, 1), duplicate=1)


def after(config: Config, *operations: Operation, tag: str = "normative") -> tuple[Any, list[Outcome]]:
    """The link of the only sender, and how each call ended."""
    variant = COMPONENT.variants[tag]
    state, outcomes = variant.start(config), []
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
        outcomes.append(outcome)
    return state.links[0], outcomes


# What the operations do ---------------------------------------------------------------------------------------------


def test_a_look_up_tells_what_is_missing_and_changes_nothing_else() -> None:
    served = (Join(0), SubmitEmbeddings(0, (0,)), Deliver(0), Receive(0))
    before, _ = after(ROUND, *served)
    link, outcomes = after(ROUND, *served, LookUp(0, (0, 1, 0)))
    assert outcomes[-1] == DONE._replace(values=(0, 1, 0))
    assert link == before._replace(drafts=(Draft((0, 1, 0), LOOKED_UP),))


def test_a_request_is_looked_up_processed_and_sent() -> None:
    link, outcomes = after(ROUND, Join(0), LookUp(0, (0,)), Send(0, 0), Process(0, 0), Process(0, 0), Send(0, 0))
    assert outcomes[2:] == [ABSENT, DONE, ABSENT, DONE._replace(values=(1,))]
    assert (link.drafts, len(link.messages)) == ((), 1)


def test_an_item_that_is_gone_since_its_look_up_is_sent() -> None:
    served = (Join(0), LookUp(0, (0,)), Process(0, 0), Deliver(0), Receive(0))
    _, outcomes = after(LOOKS, *served, LookUp(0, (0,)), LookUp(0, (1,)), Process(0, 1), Process(0, 0))
    assert outcomes[5] == DONE._replace(values=(0,))
    assert outcomes[-2:] == [DONE._replace(values=(1,))] * 2


def test_each_message_of_a_request_is_decided_when_it_is_sent() -> None:
    link, outcomes = after(SEVERAL, Join(0), FanOut(0, (0,)), Submit(0, (1,)), Send(0, 0))
    assert [outcome.values for outcome in outcomes[1:]] == [(1,)] * 3
    assert [message.sequence for message in link.messages] == [0, 1, 2]
    assert link.drafts == ()


def test_what_is_sent_in_part_can_be_cancelled_and_not_rejected() -> None:
    config = ROUND._replace(reject=1)
    link, outcomes = after(config, Join(0), FanOut(0, (0,)), Reject(0, 0))
    assert (outcomes[-1], link.drafts) == (ABSENT, (Draft((0,), PARTLY_SENT, 1),))
    link, outcomes = after(config, Join(0), FanOut(0, (0,)), Cancel(0, 0), Cancel(0, 0))
    assert (outcomes[-2:], link.drafts, len(link.messages)) == ([DONE, ABSENT], (), 1)


@pytest.mark.parametrize("operation", [FanOut(0, (0,)), SubmitEmbeddings(0, (0,))], ids=str)
def test_nothing_is_sent_before_the_sender_has_joined(operation: Operation) -> None:
    start = COMPONENT.normative.start(ROUND)
    assert COMPONENT.normative.call(ROUND, start, operation) == (start, REFUSED)


def test_a_copy_is_answered_and_used_once() -> None:
    link, outcomes = after(DOUBLED, Join(0), Submit(0, (0,)), Duplicate(0, 0), Deliver(0), Deliver(0))
    assert outcomes[-2:] == [Outcome(Code.HIT, (0,)), DONE]
    assert len(link.answers) == 2


@pytest.mark.parametrize("operation", [Process(0, 0), Cancel(0, 0), Duplicate(0, 0), DuplicateAnswer(0, 0)], ids=str)
def test_what_is_not_there_is_absent(operation: Operation) -> None:
    _, outcomes = after(ROUND._replace(duplicate=1), Join(0), operation)
    assert outcomes[-1] == ABSENT


def test_several_messages_need_as_many_requests() -> None:
    alphabet = set(COMPONENT.normative.alphabet(SEVERAL, after_states(SEVERAL, Join(0), FanOut(0, (0,)))))
    assert Send(0, 0) in alphabet
    assert Submit(0, (0,)) in alphabet
    assert FanOut(0, (0,)) not in alphabet


def after_states(config: Config, *operations: Operation) -> State:
    """The state of the normative variant."""
    state: State = COMPONENT.normative.start(config)
    for operation in operations:
        state, _ = COMPONENT.normative.call(config, state, operation)
    return state


@pytest.mark.parametrize("tag", ["M1", "M2", "M3"])
def test_an_era_sends_one_rendering_twice_with_one_payload(tag: str) -> None:
    link, outcomes = after(SEVERAL, FanOut(0, (0,)), Submit(0, (0,)), Send(0, 0), tag=tag)
    assert [message.payloads for message in link.messages] == [(1,), (0,), (1,)]
    assert [message.number for message in link.messages] == [1, 2, 1]
    assert outcomes[-1] == DONE


@pytest.mark.parametrize(
    "operation", [LookUp(0, (0,)), Process(0, 0), FanOut(0, (0,)), SubmitEmbeddings(0, (0,)), Duplicate(0, 0)], ids=str
)
def test_the_first_era_has_one_message_and_one_step_for_each_request(operation: Operation) -> None:
    _, outcomes = after(ROUND, operation, tag="M0")
    assert outcomes == [UNSUPPORTED]


@pytest.mark.parametrize("operation", [LookUp(0, (0,)), Process(0, 0)], ids=str)
def test_the_second_era_looks_up_and_updates_in_one_step(operation: Operation) -> None:
    _, outcomes = after(ROUND, operation, tag="M1")
    assert outcomes == [UNSUPPORTED]


@pytest.mark.parametrize("tag", ["M1", "M2", "M3"])
def test_an_era_does_not_record_embeddings(tag: str) -> None:
    link, outcomes = after(EMBEDDINGS, SubmitEmbeddings(0, (0,)), Submit(0, (0,)), tag=tag)
    assert outcomes[0].code is Code.DONE
    assert outcomes[1].values == (1,)
    assert link.updates == 2


# Declarations -------------------------------------------------------------------------------------------------------


def test_every_operation_of_a_frontend_is_offered_where_nothing_rules_it_out() -> None:
    for config in (ROUND, ROUND._replace(processing=0), ROUND._replace(processing=0, rendered=0)):
        wanted = {kind for kind in OPERATIONS if kind.kind is Kind.CALL and not kind.ruled_out(config)}
        found = explore(COMPONENT, COMPONENT.normative, config, Plan(depth=7, limit_states=20_000))
        fired = {name for name, codes in found.coverage.items() if codes}
        assert {kind.wire_name() for kind in wanted} <= fired


# Planted bugs -------------------------------------------------------------------------------------------------------


def bug(transition: Any, kind: type[Operation]) -> AnyVariant:
    """The normative mirror with a bug."""
    return NORMATIVE_MIRROR.era("planted", "a planted bug", {kind: transition}, {kind: "planted"})


def touch_at_look_up(config: Config, state: State, op: LookUp) -> Result:
    """What is looked up becomes the most recent, at P0 only."""
    looked_up, outcome = look_up(config, state, op)
    link = looked_up.links[op.sender]
    order = recency.touch_all(config, link.sender.order, op.items)
    return with_link(looked_up, op.sender, link._replace(sender=link.sender._replace(order=order))), outcome


def report_nothing(config: Config, state: State, op: LookUp) -> Result:
    """The look-up says that every item is missing."""
    looked_up, _ = look_up(config, state, op)
    return looked_up, Outcome(Code.DONE, (1,) * len(op.items))


def send_the_first_twice(config: Config, state: State, op: FanOut) -> Result:
    """One update, two messages."""
    after_first, outcome = fan_out(config, state, op)
    link = after_first.links[op.sender]
    again = link._replace(messages=(*link.messages, link.messages[-1]), drafts=link.drafts[:-1])
    return with_link(after_first, op.sender, again), outcome


def forget_the_rest(config: Config, state: State, op: FanOut) -> Result:
    """The first message is the only one."""
    after_first, outcome = fan_out(config, state, op)
    link = after_first.links[op.sender]
    return with_link(after_first, op.sender, link._replace(drafts=link.drafts[:-1])), outcome


def one_too_many(config: Config, state: State, op: Send) -> Result:
    """The last message of several is sent again and again."""
    link = state.links[op.sender]
    sent, outcome = send(config, state, op)
    return with_link(sent, op.sender, sent.links[op.sender]._replace(drafts=link.drafts)), outcome


def pass_the_record_by(config: Config, state: State, op: SubmitEmbeddings) -> Result:
    """The message is in P0's order, and P0's cache does not hear of it."""
    before = state.links[op.sender].sender.order
    sent, outcome = submit_embeddings(config, state, op)
    link = sent.links[op.sender]
    return with_link(sent, op.sender, link._replace(sender=link.sender._replace(order=before))), outcome


def send_all_embeddings(config: Config, state: State, op: SubmitEmbeddings) -> Result:
    """As in the eras: every payload, whether or not P1 has it."""
    link = state.links[op.sender]
    order, needed = recency.walk(config, link.sender.order, op.items)
    if link.sender.joined == 0 or 0 not in needed or link.sender.sent < len(link.sender.log):
        return submit_embeddings(config, state, op)
    sender = protocol.commit(lambda *_: (order, (1,) * len(op.items)), link.sender, op.items)
    sender, message = protocol.transmit(sender)
    link = link._replace(sender=sender, messages=(*link.messages, message))
    return with_link(state, op.sender, link), Outcome(Code.DONE, message.payloads)


def process_the_oldest(config: Config, state: State, op: Process) -> Result:
    """Whichever is ready, the request that was looked up first goes on."""
    return process(config, state, replace(op, which=0))


def cancel_the_oldest(config: Config, state: State, op: Cancel) -> Result:
    """Whoever goes away, the oldest request is dropped."""
    return cancel(config, state, replace(op, which=0))


def cancel_with_an_update(config: Config, state: State, op: Cancel) -> Result:
    """The items of the request stay recorded at P0."""
    link = state.links[op.sender]
    order, _ = recency.walk(config, link.sender.order, link.drafts[op.which].items)
    cancelled, outcome = cancel(config, state, op)
    link = cancelled.links[op.sender]
    return with_link(cancelled, op.sender, link._replace(sender=link.sender._replace(order=order))), outcome


def triple(config: Config, state: State, op: Duplicate) -> Result:
    """The channel delivers a message three times."""
    twice, _ = duplicate(config, state, op)
    return duplicate(config, twice, op)


def corrupt_the_copy(config: Config, state: State, op: Duplicate) -> Result:
    """The copy has another content."""
    twice, outcome = duplicate(config, state, op)
    link = twice.links[op.sender]
    copy = link.messages[op.which + 1]
    other = copy._replace(items=tuple(1 - item for item in copy.items))
    messages = (*link.messages[: op.which + 1], other, *link.messages[op.which + 2 :])
    return with_link(twice, op.sender, link._replace(messages=messages)), outcome


def lose_the_answer(config: Config, state: State, op: DuplicateAnswer) -> Result:
    """Nothing arrives twice."""
    _, outcome = duplicate_answer(config, state, op)
    return state, outcome


def apply_a_copy(config: Config, state: State, op: Deliver) -> Result:
    """P1 walks an earlier message again, and says that it did not."""
    link = state.links[op.sender]
    delivered, outcome = NORMATIVE_MIRROR.step(config, state, op)
    if link.messages == () or link.partition.granted == 0 or link.messages[0].sequence >= link.partition.expected:
        return delivered, outcome
    order, _ = recency.walk(config, link.partition.order, link.messages[0].items)
    link = delivered.links[op.sender]
    return with_link(delivered, op.sender, link._replace(partition=link.partition._replace(order=order))), outcome


class Planted(NamedTuple):
    """A bug, a property that it breaks, and where."""

    breaks: str
    variant: AnyVariant
    where: Config


PLANTED = [
    Planted("MIR-1", bug(touch_at_look_up, LookUp), LOOKS._replace(capacity=2)),
    Planted("MIR-9/looked-up", bug(report_nothing, LookUp), LOOKS),
    Planted("MIR-6/kept", bug(send_the_first_twice, FanOut), SEVERAL),
    Planted("MIR-6/kept", bug(forget_the_rest, FanOut), SEVERAL),
    Planted("MIR-6/kept", bug(one_too_many, Send), SEVERAL),
    Planted("MIR-1", bug(pass_the_record_by, SubmitEmbeddings), EMBEDDINGS),
    Planted("MIR-10/needed", bug(send_all_embeddings, SubmitEmbeddings), EMBEDDINGS),
    Planted("MIR-6/kept", bug(process_the_oldest, Process), LOOKS),
    Planted("MIR-6/kept", bug(cancel_the_oldest, Cancel), CANCELLED),
    Planted("MIR-4", bug(cancel_with_an_update, Cancel), CANCELLED),
    Planted("MIR-7/channel", bug(triple, Duplicate), DOUBLED),
    Planted("MIR-7/channel", bug(corrupt_the_copy, Duplicate), DOUBLED),
    Planted("MIR-7/channel", bug(lose_the_answer, DuplicateAnswer), DOUBLED),
    Planted("MIR-1", bug(apply_a_copy, Deliver), DOUBLED._replace(capacity=2, reorder=1, channel=3, faults=2)),
]


def run(variant: AnyVariant, where: Config, until: Iterable[str] = ()) -> Exploration:
    """To the end, or to the level of the first step or state that breaks one of these properties."""
    return explore(COMPONENT, variant, where, Plan(symmetry=False, limit_states=40_000, until=frozenset(until)))


@pytest.mark.parametrize("where", sorted({planted.where for planted in PLANTED}), ids=str)
def test_the_normative_variant_holds_where_the_bugs_are_planted(where: Config) -> None:
    found = run(COMPONENT.normative, where)
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.variant.transitions and planted.breaks)
def test_a_planted_bug_breaks_a_property(planted: Planted) -> None:
    broken = {violation.property for violation in run(planted.variant, planted.where, [planted.breaks]).violations}
    assert planted.breaks in broken


def test_every_new_operation_has_a_planted_bug() -> None:
    changed = {
        kind
        for planted in PLANTED
        for kind, transition in planted.variant.transitions.items()
        if NORMATIVE_MIRROR.transitions[kind] is not transition
    }
    assert changed >= {LookUp, Process, FanOut, SubmitEmbeddings, Cancel, Duplicate, DuplicateAnswer}


@pytest.mark.parametrize("scope", ["fan-out", "embeddings", "look-ups", "cancelled", "duplicates"])
def test_the_scopes_reach_what_they_are_about(scope: str) -> None:
    found = explore(COMPONENT, COMPONENT.normative, scope_named(COMPONENT, scope).config, Plan(limit_states=20_000))
    assert found.ending is Ending.EXHAUSTED
    assert found.violations == ()
    assert {"MIR-1", "MIR-2", "MIR-3", "MIR-4"}.isdisjoint(unwitnessed(COMPONENT, [found]))
