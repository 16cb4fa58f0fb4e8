"""A frontend that begins again under its old name: nothing of its earlier life counts, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.impl.test_mirror import join, joined, sent
from tests.planting import Change, planted

from cacheimpl.mirror import Answer, Grant, JoinRequest, Message, MirrorReceiver, MirrorSender, Reason, Refusal, Verdict


def confirmed(sender: MirrorSender, receiver: MirrorReceiver, message: Message) -> tuple[Any, ...]:
    """What one message and its answer confirm."""
    return sender.receive(receiver.receive(message).answer)


def begun_again() -> None:
    """The new sender's first requests are delivered, each once, with the payloads that P1 lacks."""
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    for tag in ("one", "two", "three"):
        assert confirmed(former, receiver, sent(former, ("a", 2), tag=tag)) == (tag,)
    sender = joined(receiver)
    assert receiver.order("front") == ()
    first = sent(sender, ("a", 2), ("b", 1), tag="first")
    assert first.payloads == ("pixels of a", "pixels of b")
    delivery = receiver.receive(first)
    assert delivery.payloads == ("pixels of a", "pixels of b")
    assert sender.receive(delivery.answer) == ("first",)
    assert receiver.receive(sent(sender, ("a", 2))).payloads == ("pixels of a",)


def late_messages_are_refused() -> None:
    """What the former life sent arrives when the new one has a partition of the same generation."""
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    late = sent(former, ("x", 1), tag="former")
    sender = joined(receiver)
    assert late.generation == sender.generation
    assert late.sequence == sender.next
    delivery = receiver.receive(late)
    assert delivery.payloads is None
    assert delivery.answer.verdict is Verdict.STALE
    assert sender.receive(delivery.answer) == ()
    assert sender.joined
    assert receiver.receive(sent(sender, ("a", 2))).payloads == ("pixels of a",)


def late_answers_confirm_nothing() -> None:
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    for _ in range(3):
        late = receiver.receive(sent(former, ("a", 2))).answer
    sender = joined(receiver)
    for tag in ("one", "two", "three"):
        sent(sender, ("a", 2), tag=tag)
    assert sender.receive(late) == ()
    assert [entry.tag for entry in sender.unconfirmed] == ["one", "two", "three"]


def late_grants_begin_nothing() -> None:
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    late = Grant("front", former.session, receiver.incarnation, former.generation)
    sender = MirrorSender("front", 4)
    refusal = receiver.admit(question_of(sender))
    assert isinstance(refusal, Refusal)
    sender.take_refusal(refusal)
    assert not sender.take_grant(late)
    assert not sender.take_grant(late._replace(session=sender.session))
    assert sender.waits_for_grant


def late_questions_are_refused() -> None:
    """However often they come: the partition of the new life stays."""
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    late = [JoinRequest("front", former.session, receiver.incarnation, former.generation + n, n) for n in range(3)]
    sender = joined(receiver)
    assert receiver.receive(sent(sender, ("a", 2))).payloads is not None
    for question in (*late, *late):
        refusal = receiver.admit(question)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.INCARNATION
        assert sender.take_refusal(refusal) is None
    assert [item.key for item in receiver.order("front")] == ["a"]
    assert confirmed(sender, receiver, sent(sender, ("a", 2), tag="two")) == ("", "two")


def question_of(sender: MirrorSender) -> JoinRequest:
    question = sender.ask()
    assert question is not None
    return question


CHECKS = (
    begun_again,
    late_messages_are_refused,
    late_answers_confirm_nothing,
    late_grants_begin_nothing,
    late_questions_are_refused,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_frontend_begins_again_under_its_name(check: Any) -> None:
    check()


BUGS = {
    "a session is not looked at in a join": (
        Change(MirrorReceiver.admit, "$last is None or $last.session != $x", "$last is None"), begun_again,
    ),
    "nor in a message": (
        Change(MirrorReceiver.receive, "$message.session != $partition.session", "False"), late_messages_are_refused,
    ),
    "nor in an answer": (
        Change(MirrorSender.receive, "$answer.session != self.session", "False"), late_answers_confirm_nothing,
    ),
    "nor in a grant": (
        Change(MirrorSender.take_grant, "$grant != Grant(*$asked[:4])", "$grant.generation != $asked.generation"),
        late_grants_begin_nothing,
    ),
    "every session names the same incarnation": (
        Change(MirrorReceiver._incarnation_for, "$last.following", "$last.incarnation"),
        late_questions_are_refused,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug: str) -> None:
    change, check = BUGS[bug]
    with planted(change), pytest.raises((AssertionError, ValueError)):
        check()


def test_a_question_under_way_when_the_frontend_died_does_not_stop_the_next_one() -> None:
    """The former life's second question arrives before the new one's, or after it."""
    for late_first in (True, False):
        receiver = MirrorReceiver(4)
        former, sender = MirrorSender("front", 4), MirrorSender("front", 4)
        questions = []
        for each in (former, sender):
            refusal = receiver.admit(question_of(each))
            assert isinstance(refusal, Refusal)
            question = each.take_refusal(refusal)
            assert question is not None
            questions.append(question)
        replies = [receiver.admit(question) for question in (questions if late_first else reversed(questions))]
        assert [isinstance(reply, Grant) for reply in replies] == [True, False]
        for reply in replies:
            if isinstance(reply, Grant):
                sender.take_grant(reply)
        join(sender, receiver)
        assert sender.joined
        assert confirmed(sender, receiver, sent(sender, ("a", 1), tag="one")) == ("one",)


def test_a_partition_is_taken_over_when_all_are_granted() -> None:
    receiver = MirrorReceiver(4, partitions=1)
    joined(receiver)
    assert joined(receiver).joined
    assert receiver.senders == ("front",)


def test_after_a_reset_any_session_may_begin() -> None:
    receiver = MirrorReceiver(4)
    former = joined(receiver)
    sender = joined(receiver)
    receiver.reset()
    assert confirmed(sender, receiver, sent(sender, ("a", 1))) == ()
    join(sender, receiver)
    assert sender.joined
    assert isinstance(receiver.receive(sent(former, ("a", 1))).answer, Answer)


def test_a_forgotten_name_begins_again() -> None:
    receiver = MirrorReceiver(4)
    joined(receiver)
    receiver.forget("front")
    sender = joined(receiver)
    assert receiver.receive(sent(sender, ("a", 1))).payloads == ("pixels of a",)
