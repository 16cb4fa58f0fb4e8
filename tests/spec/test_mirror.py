"""The functions of the normative mirror, one by one; its walk beside the cache by recency; and wrong configurations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.wire import config_from_message
from cachespec.kernel import ABSENT, DONE, REFUSED, Code, FrozenQueue, Operation
from cachespec.lru import NORMATIVE_LRU, Contains, Put, Touch
from cachespec.lru import Config as LruConfig
from cachespec.mirror import COMPONENT, recency
from cachespec.mirror.configuration import Config, interchangeable, requests
from cachespec.mirror.drafts import Draft
from cachespec.mirror.faults import Abort, Drop, DropAnswer, Reject, Reorder, ReorderAnswers
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Render, Send, Submit, Transmit
from cachespec.mirror.protocol import (
    ACCEPTED,
    GAP,
    NONE,
    STALE,
    Answer,
    Message,
    Partition,
    Sender,
    answered,
    commit,
    confirm,
    go_back,
    join,
    probe,
    receive,
    revoked,
    transmit,
)

EMPTY: Any = FrozenQueue()


def walk(order: Any, items: tuple[int, ...]) -> Any:
    """Keeps everything."""
    needed = tuple([int(not order.has(item)) for item in items])
    for item in items:
        order = order.push(item, 1)
    return order, needed


def keys_of(order: Any) -> tuple[int, ...]:
    """Oldest first."""
    return tuple(key for key, _ in order.items())


def committed(*contents: int) -> Sender:
    """Joined in generation 3, with one request for each content; the first number is 5."""
    sender = Sender(EMPTY, joined=1, generation=3, next=5)
    for content in contents:
        sender = commit(walk, sender, (content,))
    return sender


def out(sender: Sender) -> Sender:
    """Everything is sent."""
    while sender.sent < len(sender.log):
        sender, _ = transmit(sender)
    return sender


# P0 -----------------------------------------------------------------------------------------------------------------


def test_commit_updates_and_numbers() -> None:
    sender = committed(0, 0)
    assert tuple(sender.order.items()) == ((0, 1),)
    assert sender.log == (Message(NONE, 5, (0,), (1,)), Message(NONE, 6, (0,), (0,)))
    assert (sender.next, sender.sent) == (7, 0)


def test_transmit_sends_in_order_and_marks_the_generation() -> None:
    sender, message = transmit(committed(0, 1))
    assert message == Message(3, 5, (0,), (1,))
    sender, message = transmit(sender)
    assert (message.sequence, sender.sent) == (6, 2)


def test_a_probe_asks_about_the_next_number() -> None:
    assert probe(committed(0, 1)) == Message(3, 7, (), ())


@pytest.mark.parametrize(("expected", "left"), [(NONE, 2), (5, 2), (6, 1), (7, 0), (9, 0)])
def test_confirm_forgets_what_was_applied(expected: int, left: int) -> None:
    sender = confirm(out(committed(0, 1)), expected)
    assert (len(sender.log), sender.sent) == (left, left)


def test_confirm_before_anything_went_out_again() -> None:
    sender = confirm(go_back(out(committed(0, 1))), 6)
    assert (len(sender.log), sender.sent) == (1, 0)


def test_going_back_begins_a_generation_and_keeps_the_messages() -> None:
    before = out(committed(0, 1))
    sender = go_back(before)
    assert (sender.generation, sender.sent, sender.log) == (4, 0, before.log)


def test_a_gap_is_repaired_once() -> None:
    sender = answered(out(committed(0, 1)), Answer(3, 5, GAP))
    assert sender.generation == 4
    assert answered(sender, Answer(3, 5, GAP)) == sender


def test_a_gap_confirms_what_is_before_it() -> None:
    sender = answered(out(committed(0, 1)), Answer(3, 6, GAP))
    assert [message.sequence for message in sender.log] == [6]
    assert sender.generation == 4


@pytest.mark.parametrize(
    "answer", [Answer(3, 4, GAP), Answer(2, 5, GAP), Answer(2, NONE, STALE), Answer(NONE, 5, ACCEPTED)], ids=str
)
def test_a_late_answer_changes_nothing(answer: Answer) -> None:
    sender = out(committed(0, 1))
    assert answered(sender, answer) == sender


def test_a_gap_where_nothing_is_unconfirmed_is_closed() -> None:
    sender = out(committed(0))
    assert answered(sender, Answer(3, 6, GAP)) == sender._replace(log=(), sent=0)


def test_a_refusal_ends_the_epoch() -> None:
    sender = answered(out(committed(0)), Answer(3, NONE, STALE))
    assert sender.joined == 0
    assert answered(sender, Answer(3, NONE, STALE)) == sender


def test_a_confirmation_counts_in_any_epoch() -> None:
    sender = committed(0, 1)._replace(joined=0)
    assert len(answered(sender, Answer(NONE, 6, ACCEPTED)).log) == 1


def test_joining_decides_anew() -> None:
    sender = out(committed(0, 0))._replace(joined=0)
    fresh, partition = join(walk, sender, EMPTY)
    assert partition == Partition(EMPTY, granted=1, generation=4, expected=7)
    assert fresh.log == (Message(NONE, 7, (0,), (1,)), Message(NONE, 8, (0,), (0,)))
    assert (fresh.joined, fresh.generation, fresh.next, fresh.sent) == (1, 4, 9, 0)


# P1 -----------------------------------------------------------------------------------------------------------------

GRANTED = Partition(EMPTY, granted=1, generation=3, expected=5)


def test_the_next_message_is_applied() -> None:
    after, answer, applied = receive(walk, GRANTED, Message(3, 5, (0, 1), (1, 1)))
    assert applied
    assert answer == Answer(NONE, 6, ACCEPTED)
    assert (keys_of(after.order), after.expected) == ((0, 1), 6)


REFUSED_OR_KNOWN = [
    (Message(2, 5, (0,), (1,)), Answer(2, NONE, STALE)),
    (Message(3, 6, (0,), (1,)), Answer(3, 5, GAP)),
    (Message(3, 4, (0,), (1,)), Answer(NONE, 5, ACCEPTED)),
    (Message(3, 5, (), ()), Answer(NONE, 5, ACCEPTED)),
    (Message(3, 6, (), ()), Answer(3, 5, GAP)),
]


@pytest.mark.parametrize(("message", "expected"), REFUSED_OR_KNOWN, ids=str)
def test_any_other_message_changes_nothing(message: Message, expected: Answer) -> None:
    assert receive(walk, GRANTED, message) == (GRANTED, expected, False)


def test_a_newer_generation_is_adopted() -> None:
    after, _, applied = receive(walk, GRANTED, Message(4, 6, (0,), (1,)))
    assert not applied
    assert after == GRANTED._replace(generation=4)


def test_a_revoked_partition_refuses_everything() -> None:
    partition = revoked(EMPTY)
    for message in (Message(9, 5, (0,), (1,)), Message(0, 0, (), ())):
        assert receive(walk, partition, message) == (partition, Answer(message.generation, NONE, STALE), False)


# The walk -----------------------------------------------------------------------------------------------------------

WALKS = [Config(2, (1, 1, 1), items=3), Config(3, (1, 1, 2, 4), items=3), Config(3, (2, 2, 1, 0), items=2)]


def orders(config: Config) -> Iterator[tuple[int, ...]]:
    """Every order of contents that fits."""
    for count in range(len(config.sizes) + 1):
        for keys in permutations(range(len(config.sizes)), count):
            if sum(config.sizes[key] for key in keys) <= config.capacity:
                yield keys


def by_the_cache(config: Config, keys: tuple[int, ...], items: tuple[int, ...]) -> tuple[tuple[int, ...], Any]:
    """The same request to the cache by recency: touch what is there, then item by item touch, or put."""
    where = LruConfig(config.capacity, config.sizes)
    cache, needed = NORMATIVE_LRU.start(where), []
    for key in keys:
        cache, _ = NORMATIVE_LRU.call(where, cache, Put(key, config.sizes[key]))
    for item in items:
        cache, _ = NORMATIVE_LRU.call(where, cache, Touch(item))
    for item in items:
        held = NORMATIVE_LRU.call(where, cache, Contains(item))[1].code is Code.HIT
        cache, _ = NORMATIVE_LRU.call(where, cache, Touch(item) if held else Put(item, config.sizes[item]))
        needed.append(int(not held))
    return NORMATIVE_LRU.view(where, cache).order, tuple(needed)


@pytest.mark.parametrize("config", WALKS, ids=str)
def test_the_walk_is_that_of_the_cache_by_recency(config: Config) -> None:
    for keys, items in product(orders(config), requests(config)):
        held: Any = FrozenQueue((key, config.sizes[key]) for key in keys)
        order, needed = recency.walk(config, held, items)
        assert (keys_of(order), needed) == by_the_cache(config, keys, items)
        assert order.total <= config.capacity


def test_without_the_look_at_its_size_an_oversize_item_is_never_stored() -> None:
    """The loop of `insert` would come to an empty cache, lack room still, and go round on the spot (C-MIR-10)."""
    oversize = Config(2, (1, 3))
    assert recency.lacks_room(oversize, EMPTY, oversize.sizes[1])
    assert recency.evict_oldest(EMPTY) == EMPTY


# What names nothing ---------------------------------------------------------------------------------------------------

NOTHING: list[Operation] = [
    Send(0, 0),
    Reject(0, 0),
    Abort(0, 0),
    Deliver(0),
    Receive(0),
    Transmit(0),
    Expire(0),
    Drop(0, 0),
    DropAnswer(0, 0),
    Reorder(0, 0),
    ReorderAnswers(0, 0),
]
WIDE = Config(1, (1, 1), rendered=2, reorder=1, drop=1, reject=1, abort=1)


@pytest.mark.parametrize("operation", NOTHING, ids=str)
def test_what_is_not_there_is_absent(operation: Operation) -> None:
    variant = COMPONENT.normative
    state, _ = variant.call(WIDE, variant.start(WIDE), Join(0))
    assert variant.call(WIDE, state, operation) == (state, ABSENT)


def test_a_request_is_not_sent_before_its_sender_has_joined() -> None:
    variant = COMPONENT.normative
    state, _ = variant.call(WIDE, variant.start(WIDE), Render(0, (1,)))
    assert variant.call(WIDE, state, Send(0, 0)) == (state, REFUSED)
    assert variant.call(WIDE, state, Submit(0, (1,))) == (state, REFUSED)


def test_what_is_sent_is_rendered_no_more() -> None:
    variant = COMPONENT.normative
    state, _ = variant.call(WIDE, variant.start(WIDE), Join(0))
    for items in ((0,), (1,)):
        state, _ = variant.call(WIDE, state, Render(0, items))
    state, outcome = variant.call(WIDE, state, Send(0, 1))
    assert outcome == DONE._replace(values=(1,))
    assert state.links[0].drafts == (Draft((0,)),)
    assert [message.items for message in state.links[0].messages] == [(1,)]


# Configurations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"capacity": 0, "sizes": [1]}, "capacity must be positive, not 0"),
        ({"capacity": -2, "sizes": [1]}, "capacity must be positive, not -2"),
        ({"capacity": 1, "sizes": []}, "sizes must be given"),
        ({"capacity": 1, "sizes": [1, -1]}, "none of them negative"),
        ({"capacity": 1, "sizes": [1, 1], "modalities": [0]}, "modalities has 1 entries for 2 contents"),
        ({"capacity": 1, "sizes": [1], "identities": [-1]}, "identities must not be negative"),
        ({"capacity": 1, "sizes": [1], "rendered": -1}, "must not be negative"),
        ({"capacity": 1, "sizes": [1], "senders": 0, "items": 0}, "items, senders must be at least 1"),
        ({"capacity": 1, "sizes": [1], "channel": 0}, "channel must be at least 1"),
        ({"capacity": 1, "sizes": [1], "faults": -2}, "faults must be -1, for any number, or more"),
        ({"capacity": 1, "sizes": [1], "outstanding": 0}, "outstanding must be at least 1"),
        ({"capacity": 1, "sizes": 1}, "sizes"),
        ({"capacity": "many", "sizes": [1]}, "capacity"),
        ({"sizes": [1]}, "capacity"),
        ({"capacity": 1, "sizes": [1], "losses": 1}, "losses"),
    ],
    ids=str,
)
def test_a_wrong_configuration_says_what_is_wrong(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        config_from_message(COMPONENT, given)


def test_what_is_interchangeable() -> None:
    """Contents of one size and modality that no other shares a name with; and senders."""
    config = Config(2, (1, 1, 2, 1), modalities=(0, 0, 0, 1), senders=2)
    assert interchangeable(config) == {"key": ((0, 1), (2,), (3,)), "sender": ((0, 1),)}
    named = Config(2, (1, 1), identities=(0, 0))
    assert interchangeable(named)["key"] == ((0,), (1,))


def test_every_request_of_a_scope() -> None:
    assert list(requests(Config(1, (1, 1), items=2))) == [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
