"""Both sides of the mirror: held to the specification in lockstep, and what neither side may be talked into."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.planting import Change, planted

from cacheimpl.mirror import Answer, Grant, Item, JoinRequest, Message, MirrorReceiver, MirrorSender, Reason, Verdict
from cacheimpl.mirror.errors import (
    BadMessageError,
    InvalidCapacityError,
    InvalidItemError,
    MirrorError,
    MissingPayloadError,
    NotJoinedError,
    SizeMismatchError,
)
from cacheimpl.mirror.messages import AnyMessage, Refusal, from_plain, plain
from cacheimpl.mirror.order import RecencyOrder
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.registry import component_named
from cacheproof.targets.tensor.mirror_classes import open_mirror
from cachespec.kernel import FrozenQueue, Queue
from cachespec.mirror import recency
from cachespec.mirror.configuration import Config

MIRROR = component_named("mirror")
EVERY_FAULT = Config(capacity=1, sizes=(0,), reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1, impatient=1)
CONFIGURATIONS = {
    "one sender": EVERY_FAULT._replace(capacity=5, sizes=(1, 2, 3, 4, 6), items=2, channel=4, outstanding=3),
    "two senders": EVERY_FAULT._replace(capacity=2, sizes=(1, 1, 1), items=2, senders=2, channel=4),
    "fewer partitions": EVERY_FAULT._replace(capacity=2, sizes=(1, 1, 2), senders=3, partitions=2, channel=3),
    "rendering": EVERY_FAULT._replace(capacity=3, sizes=(1, 1, 2), rendered=2, channel=3),
    "drafts": EVERY_FAULT._replace(
        capacity=3, sizes=(1, 1, 2), rendered=2, processing=2, fan_out=2, outstanding=4, channel=4, cancel=1
    ),
    "embeddings": EVERY_FAULT._replace(capacity=2, sizes=(1, 1, 2), items=2, embeddings=1, fan_out=2, duplicate=1),
    "reordered": Config(capacity=2, sizes=(1, 1, 2), items=2, channel=4, outstanding=3, reorder=1),
}


def difference(config: Config, steps: int, seed: int) -> Any:
    """What lockstep finds between the two sides and the specification."""
    target = open_mirror("mirror")
    return lockstep(MIRROR, MIRROR.normative, config, target, steps=steps, seed=seed, seconds_to_shrink=0.1).finding


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_in_lockstep_with_the_specification(name: str) -> None:
    assert difference(CONFIGURATIONS[name], steps=1500, seed=7) is None


def test_the_target_is_of_the_mirror_alone() -> None:
    with pytest.raises(InputError, match="not of lru"):
        open_mirror("lru")


# The walk -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [3, 64, 4096])
def test_the_walk_is_that_of_the_specification(keys: int) -> None:
    source = random.Random(keys)
    sizes = tuple(source.randint(0, 9) for _ in range(keys))
    capacity = max(1, sum(sizes) // 3)
    config = Config(capacity=capacity, sizes=sizes)
    theirs: Queue[int] = FrozenQueue()
    ours = RecencyOrder(capacity)
    for _ in range(300 if keys < 1000 else 12):
        request = source.choices(range(keys), k=source.randint(1, min(keys, 400)))
        before = tuple(ours)
        walk = ours.plan(Item(str(key), sizes[key]) for key in request)
        assert tuple(ours) == before
        ours.apply(walk)
        theirs, needed = recency.walk(config, theirs, tuple(request))
        assert walk.needed == tuple(map(bool, needed))
        assert [(int(key), size) for key, size in ours] == list(theirs.items())
        assert ours.total == theirs.total


# Planted bugs -------------------------------------------------------------------------------------------------------

BUGS: dict[str, Change] = {
    "a message out of turn is applied": Change(
        MirrorReceiver.receive,
        "$message.sequence != $partition.expected",
        "$message.sequence < $partition.expected",
    ),
    "a duplicate is applied": Change(
        MirrorReceiver.receive,
        "$message.sequence != $partition.expected",
        "$message.sequence > $partition.expected",
    ),
    "an older generation is read": Change(
        MirrorReceiver.receive,
        "$message.generation < $partition.generation",
        "False",
    ),
    "a join empties nothing": Change(
        MirrorReceiver.admit,
        "$partition is None or $request.generation > $partition.generation",
        "$partition is None",
    ),
    "a reset keeps the partitions": Change(MirrorReceiver.reset, "self._partitions.clear()", "pass"),
    "every sender finds room": Change(MirrorReceiver.admit, "len(self._partitions) >= self.most", "False"),
    "a gap is not repaired": Change(MirrorSender.receive, "self._sent = 0", "pass"),
    "every complaint is repaired": Change(
        MirrorSender.receive,
        "self.joined and $x",
        "self.joined",
    ),
    "a refusal is not heard": Change(MirrorSender.receive, "self.joined = False", "pass"),
    "one too many is confirmed": Change(
        MirrorSender.receive,
        "self._log[0].sequence < $answer.expected",
        "self._log[0].sequence <= $answer.expected",
    ),
    "a message overtakes the backlog": Change(MirrorSender.submit, "self.backlog == 0", "True"),
    "a new epoch keeps the order": Change(MirrorSender.take_grant, "self.order.clear()", "pass"),
    "a new epoch sends what the old one sent": Change(
        MirrorSender.take_grant,
        "$walk.needed",
        "entry.needed",
    ),
    "a reset sender sends on": Change(MirrorSender.reset, "self.joined = False", "pass"),
    "what is there is not touched first": Change(RecencyOrder.plan, "key in self._sizes", "False"),
    "the wrong end": Change(
        RecencyOrder.plan, "($key for $key in self._sizes if $x)", "($key for $key in reversed(self._sizes) if $x)"
    ),
    "one eviction too many": Change(
        RecencyOrder.plan, "$total + $size > self.capacity", "$total + $size >= self.capacity"
    ),
    "what is larger than the cache is kept": Change(RecencyOrder.plan, "$size <= self.capacity", "True"),
    "a use is no use": Change(RecencyOrder.plan, "present.move_to_end($key)", "pass"),
}


def found_in(config: Config) -> str:
    """What lockstep says of the two sides, with a bug in them."""
    try:
        finding = difference(config, steps=1500, seed=7)
    except (AssertionError, KeyError, IndexError) as error:
        return type(error).__name__
    return "" if finding is None else type(finding).__name__


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug: str) -> None:
    with planted(BUGS[bug]):
        assert any(found_in(config) for config in CONFIGURATIONS.values())


# By hand ------------------------------------------------------------------------------------------------------------


def joined(receiver: MirrorReceiver, name: str = "front", capacity: int = 4) -> MirrorSender:
    sender = MirrorSender(name, capacity)
    join(sender, receiver)
    return sender


def join(sender: MirrorSender, receiver: MirrorReceiver) -> None:
    request = sender.ask()
    while request is not None:
        reply = receiver.admit(request)
        request = sender.take_refusal(reply) if isinstance(reply, Refusal) else None
        assert isinstance(reply, Refusal) or sender.take_grant(reply)


def sent(sender: MirrorSender, *items: tuple[str, int], tag: str = "") -> Message:
    message = sender.submit(items, lambda place: f"pixels of {items[place][0]}", tag)
    assert message is not None
    return message


def everything(side: MirrorSender | MirrorReceiver) -> Any:
    if isinstance(side, MirrorSender):
        return (tuple(side.order), side.order.total, side.generation, side.next, side.unconfirmed, side.backlog)
    return {name: (side.order(name), dict(side.payloads(name))) for name in side.senders}, side.incarnation


def test_a_payload_is_made_once_per_residency_and_used_for_every_place() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    first = sent(sender, ("a", 2), ("b", 1), ("a", 2))
    assert first.payloads == ("pixels of a", "pixels of b", None)
    assert receiver.receive(first).payloads == ("pixels of a", "pixels of b", "pixels of a")
    assert sent(sender, ("b", 1), ("a", 2)).payloads == (None, None)


def test_answers_confirm_by_tag_and_a_lost_message_goes_out_again_unchanged() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    lost, second = sent(sender, ("a", 2), tag="one"), sent(sender, ("a", 2), tag="two")
    gap = receiver.receive(second).answer
    assert gap.verdict is Verdict.GAP
    assert sender.receive(gap) == ()
    assert sender.backlog == 2
    assert sender.submit([("a", 2)], lambda place: "never asked", "three") is None
    again = [sender.transmit() for _ in range(3)]
    assert [message.payloads for message in again if message] == [("pixels of a",), (None,), (None,)]
    assert again[0] == lost._replace(generation=lost.generation + 1)
    answers = [receiver.receive(message).answer for message in again if message]
    assert sender.receive(answers[-1]) == ("one", "two", "three")
    assert sender.transmit() is None
    assert sender.expire() is None


def test_a_probe_is_answered_with_what_comes_next() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    receiver.receive(sent(sender, ("a", 1), tag="one"))
    probe = sender.expire()
    assert probe is not None
    assert sender.receive(receiver.receive(probe).answer) == ("one",)


def test_after_a_reset_payloads_are_asked_again_for_what_is_unconfirmed() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    sender.receive(receiver.receive(sent(sender, ("a", 2))).answer)
    without = sent(sender, ("a", 2), tag="two")
    assert without.payloads == (None,)
    receiver.reset()
    assert sender.receive(receiver.receive(without).answer) == ()
    assert not sender.joined
    with pytest.raises(NotJoinedError):
        sent(sender, ("b", 1))
    join(sender, receiver)
    again = sender.transmit()
    assert again is not None
    assert again.payloads == ("pixels of a",)
    assert sender.receive(receiver.receive(again).answer) == ("two",)


# Joins that are late ------------------------------------------------------------------------------------------------


def test_a_join_of_before_a_reset_is_not_granted_after_it() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    late = JoinRequest("front", sender.session, receiver.incarnation, sender.generation, 0)
    sender.receive(receiver.receive(sent(sender, ("a", 2))).answer)
    receiver.reset()
    refusal = receiver.admit(late)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.INCARNATION
    assert receiver.senders == ()


def test_without_incarnations_a_late_join_stops_a_sender_for_ever() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    late = JoinRequest("front", sender.session, receiver.incarnation, sender.generation, 0)
    assert sender.receive(receiver.receive(sent(sender, ("a", 2), tag="one")).answer) == ("one",)
    receiver.reset()
    with planted(Change(MirrorReceiver.admit, "$request.incarnation != $wanted", "False")):
        assert isinstance(receiver.admit(late), Grant)
    sender.receive(receiver.receive(sent(sender, ("a", 2), tag="two")).answer)
    for _ in range(20):
        probe = sender.expire()
        assert probe is not None
        assert sender.receive(receiver.receive(probe).answer) == ()
        assert (sender.joined, sender.backlog) == (True, 0)  # it neither sends again nor joins again


def test_the_same_question_gets_the_same_grant_and_empties_nothing() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    late = JoinRequest("front", sender.session, receiver.incarnation, sender.generation, 0)
    receiver.receive(sent(sender, ("a", 2)))
    grant = receiver.admit(late)
    assert isinstance(grant, Grant)
    assert not sender.take_grant(grant)
    assert receiver.order("front") == tuple(sender.order) == (Item("a", 2),)


def test_a_forgotten_partition_is_not_granted_again_by_a_late_join() -> None:
    receiver = MirrorReceiver(4, partitions=2)
    sender, other = joined(receiver), joined(receiver, "other")
    receiver.receive(sent(other, ("b", 1)))
    late = JoinRequest("front", sender.session, receiver.incarnation, sender.generation, 0)
    receiver.forget("front")
    refusal = receiver.admit(late)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.LATE
    assert receiver.senders == ("other",)
    assert receiver.order("other") == (Item("b", 1),)
    assert sender.receive(receiver.receive(sent(sender, ("a", 1))).answer) == ()
    join(sender, receiver)
    assert sender.joined


def test_a_grant_that_was_lost_and_then_forgotten_does_not_stop_the_sender() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    sender.reset()
    request = sender.ask()
    assert request is not None
    assert isinstance(receiver.admit(request), Grant)  # and it is lost
    receiver.forget("front")
    join(sender, receiver)
    assert sender.joined
    assert receiver.receive(sent(sender, ("a", 1))).payloads == ("pixels of a",)


def test_there_are_no_more_partitions_than_there_is_room_for() -> None:
    receiver = MirrorReceiver(4)
    joined(receiver)
    other = MirrorSender("other", 4)
    join(other, receiver)
    assert not other.joined
    receiver.forget("front")
    join(other, receiver)
    assert other.joined


# Bad input: the outcome of the specification as an exception, and the state as it was ------------------------------


def not_made(place: int) -> Any:
    raise OSError("the file is gone")


@pytest.mark.parametrize(
    ("error", "misuse"),
    [
        (InvalidItemError, lambda sender: sender.submit([], str)),
        (InvalidItemError, lambda sender: sender.submit([("c", -1)], str)),
        (InvalidItemError, lambda sender: sender.submit([("c", 1.5)], str)),
        (InvalidItemError, lambda sender: sender.submit([(3, 1)], str)),
        (InvalidItemError, lambda sender: sender.submit([("c", 1)], lambda place: None)),
        (SizeMismatchError, lambda sender: sender.submit([("a", 3)], str)),
        (SizeMismatchError, lambda sender: sender.submit([("c", 1), ("c", 2)], str)),
        (OSError, lambda sender: sender.submit([("c", 1)], not_made)),
    ],
)
def test_a_request_that_raises_changes_nothing(error: type[Exception], misuse: Callable[[MirrorSender], Any]) -> None:
    sender = joined(MirrorReceiver(4))
    sent(sender, ("a", 2), ("b", 1))
    before = everything(sender)
    with pytest.raises(error):
        misuse(sender)
    assert everything(sender) == before


def test_a_message_without_what_p1_lacks_is_an_error_and_changes_nothing() -> None:
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    receiver.receive(sent(sender, ("a", 2)))
    message = sent(sender, ("a", 2), ("b", 1), ("c", 3))
    before = everything(receiver)
    with pytest.raises(MissingPayloadError) as raised:
        receiver.receive(message._replace(payloads=(None, None, None), generation=message.generation + 1))
    assert raised.value.keys == ("b", "c")
    assert isinstance(raised.value, MirrorError)
    assert everything(receiver) == before
    assert receiver.receive(message).payloads == ("pixels of a", "pixels of b", "pixels of c")


def test_an_item_that_is_named_twice_and_has_no_payload_is_missing() -> None:
    """At its second place the item would be held, had it come with the first: the error is the same one."""
    receiver = MirrorReceiver(4)
    sender = joined(receiver)
    message = sent(sender, ("a", 2), ("a", 2))
    before = everything(receiver)
    with pytest.raises(MissingPayloadError) as raised:
        receiver.receive(message._replace(payloads=(None, None)))
    assert raised.value.keys == ("a",)
    assert everything(receiver) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: MirrorSender("front", 0),
        lambda: MirrorSender("front", -1),
        lambda: MirrorReceiver(1.5, 1),  # type: ignore[arg-type]
        lambda: MirrorReceiver(4, 0),
        lambda: MirrorReceiver(0),
    ],
)
def test_a_capacity_that_is_none(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidCapacityError):
        make()


# On the wire --------------------------------------------------------------------------------------------------------

EACH: tuple[AnyMessage, ...] = (
    Message("front", 5, 2, 7, (Item("a", 3), Item("b", 0)), (b"pixels", None)),
    Message("front", 5, 2, 7, (), ()),
    Answer("front", 5, -1, 8, Verdict.ACCEPTED),
    Answer("front", 5, 2, 7, Verdict.GAP),
    JoinRequest("front", 2**62 - 2, 2**62 - 1, 3, 0),
    Grant("front", 2**62 - 2, 2**62 - 1, 3),
    Refusal("front", 5, 1, 3, Reason.FULL),
)


@pytest.mark.parametrize("message", EACH, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_from_msgpack(message: AnyMessage) -> None:
    back = from_plain(msgspec.msgpack.decode(msgspec.msgpack.encode(plain(message))))
    assert back == message
    assert type(back) is type(message)


@pytest.mark.parametrize(
    "given",
    [
        *([None, 3, [], {}, "grant", ["nothing"], ["grant", "front", 5, 1], [["grant"], "front", 5, 1, 2]]),
        *(["grant", 1, 5, 1, 2], ["grant", "front", 5, -2, 2], ["grant", "front", 5, 1, True]),
        *(["grant", "front", 5, 1, "2"], ["grant", "front", "5", 1, 2], ["grant", "front", 1, 2]),
        *(["answer", "front", 5, 1, 2, 3], ["refusal", "front", 5, 1, 2, 7]),
        *(["message", "front", 5, 1, 2, [["a", 1]], []], ["message", "front", 5, 1, 2, [["a"]], [None]]),
        *(["message", "front", 5, 1, 2, [["a", -1]], [None]], ["message", "front", 5, 1, 2, "ab", [None, None]]),
        ["message", "front", 5, 1, 2, [["a", 1]], b"x"],
    ],
)
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(BadMessageError):
        from_plain(given)
