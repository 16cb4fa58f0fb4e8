"""Both sides of the mirror beside the protocol: the walk, one message or answer in a small state, and the wire form."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

from icontract import ensure, require

from cacheimpl.mirror.messages import NONE, Answer, Item, Message, Verdict, from_plain, plain
from cacheimpl.mirror.order import RecencyOrder
from cacheimpl.mirror.receiver import MirrorReceiver, Partition
from cacheimpl.mirror.sender import MirrorSender, Unconfirmed
from cacheimpl.processor_cache.caches import MultiModalProcessorSenderCache, MultiModalReceiverCache
from cacheimpl.processor_cache.lru_cache import Entry
from cacheimpl.processor_cache.sizes import MultiModalProcessorCacheItemMetadata
from cacheproof.prove.contract import Beside
from cachespec.kernel import Queue
from cachespec.kernel.containers import FrozenQueue
from cachespec.mirror import protocol
from cachespec.mirror.configuration import Config
from cachespec.mirror.recency import walk

Sizes = tuple[int, int, int]
"""Bytes of the keys 0, 1 and 2, of which 0 and 1 are held, 0 first."""

NAME, SESSION = "P0", 5
SENT = b"pixels"


def chosen(key: int) -> int:
    """The same key, and known: the implementation keeps keys in a dictionary."""
    return 0 if key == 0 else 1 if key == 1 else 2


def order_of(sizes: Sizes, room: int) -> RecencyOrder:
    """Two keys, and a capacity in bytes."""
    order = RecencyOrder(sizes[0] + sizes[1] + room)
    order._sizes.update({"0": sizes[0], "1": sizes[1]})  # noqa: SLF001  # any state, and not only those from empty
    order.total = sizes[0] + sizes[1]
    return order


def queue_of(sizes: Sizes) -> FrozenQueue[int]:
    """The same in the specification."""
    return FrozenQueue(((0, sizes[0]), (1, sizes[1])))


def config_of(sizes: Sizes, room: int) -> Config:
    """A cache of that capacity."""
    return Config(capacity=sizes[0] + sizes[1] + room, sizes=sizes)


def items_of(sizes: Sizes, keys: tuple[int, ...]) -> tuple[Item, ...]:
    """As they are in a message."""
    return tuple(Item(str(key), sizes[key]) for key in keys)


def same_order(mine: RecencyOrder, its: Queue[int]) -> bool:
    """Keys, oldest first, and bytes."""
    return [(int(item.key), item.size) for item in mine] == list(its.items()) and mine.total == its.total


def walks_alike(sizes: Sizes, room: int, keys: tuple[int, ...]) -> bool:
    """A planned and applied walk is the specification's walk."""
    order = order_of(sizes, room)
    planned = order.plan(items_of(sizes, keys))
    order.apply(planned)
    after, needed = walk(config_of(sizes, room), queue_of(sizes), keys)
    return tuple(map(int, planned.needed)) == needed and same_order(order, after)


def are_bytes(sizes: Sizes, room: int) -> bool:
    """No size is negative, and there is a cache."""
    return min(*sizes, room) >= 0 and sizes[0] + sizes[1] + room > 0


@require(lambda sizes, room, key: are_bytes(sizes, room) and 0 <= key <= 2)
@ensure(lambda result: result)
def walk_of_one_item(sizes: Sizes, room: int, key: int) -> bool:
    """One item: found, stored behind evictions, or larger than the cache."""
    return walks_alike(sizes, room, (chosen(key),))


@require(lambda sizes, room, key: are_bytes(sizes, room) and 0 <= key <= 2)
@ensure(lambda result: result)
def walk_of_two_items(sizes: Sizes, room: int, key: int) -> bool:
    """A new item before another one, which it may evict."""
    return walks_alike(sizes, room, (2, chosen(key)))


# P1 -----------------------------------------------------------------------------------------------------------------


def receives_alike(
    generation: int, expected: int, message: tuple[int, int], keys: tuple[int, ...], *, granted: int = 1
) -> bool:
    """One message to P1, which holds two keys of one byte and has room for no other."""
    sizes = (1, 1, 1)
    receiver = MirrorReceiver(2)
    partition = Partition(2, SESSION, generation, expected)
    partition.order, partition.payloads = order_of(sizes, 0), {"0": SENT, "1": SENT}
    if granted:
        receiver._partitions[NAME] = partition  # noqa: SLF001  # any state, and not only those that calls lead to
    its = protocol.Partition(queue_of(sizes), granted, generation, expected)
    number, sequence = message
    payloads = tuple(None if key < 2 else SENT for key in keys)
    answer, given = receiver.receive(Message(NAME, SESSION, number, sequence, items_of(sizes, keys), payloads))
    sent = protocol.Message(number, sequence, keys, tuple(int(payload is not None) for payload in payloads))
    after, wanted, applied = protocol.receive(lambda order, items: walk(config_of(sizes, 0), order, items), its, sent)
    state = (partition.generation, partition.expected) == (after.generation, after.expected)
    told = (answer.generation, answer.expected, int(answer.verdict)) == tuple(wanted)
    return told and state and same_order(partition.order, after.order) and (given is not None) == applied


@require(lambda generation, expected, number, sequence: min(generation, expected, number, sequence) >= 0)
@ensure(lambda result: result)
def receive_a_message(generation: int, expected: int, number: int, sequence: int, key: int) -> bool:
    """Only the next message of the newest generation is applied."""
    return receives_alike(generation, expected, (number, sequence), (2 if key == 2 else 0,))


@require(lambda generation, expected, number, sequence: min(generation, expected, number, sequence) >= 0)
@ensure(lambda result: result)
def receive_a_probe(generation: int, expected: int, number: int, sequence: int) -> bool:
    """A message without items asks how far P1 is."""
    return receives_alike(generation, expected, (number, sequence), ())


@require(lambda number, sequence: min(number, sequence) >= 0)
@ensure(lambda result: result)
def receive_without_a_partition(number: int, sequence: int) -> bool:
    """P1 refuses what comes before a join."""
    return receives_alike(NONE, NONE, (number, sequence), (2,), granted=0)


# P0 -----------------------------------------------------------------------------------------------------------------


def senders(generation: int, following: int, unconfirmed: int, sent: int) -> tuple[MirrorSender, protocol.Sender]:
    """P0 in both, with this number of unconfirmed requests of one item, and this number of sent ones."""
    sizes, first = (1, 1, 1), following - unconfirmed
    mine = MirrorSender(NAME, 2)
    mine.session, mine.generation, mine.next, mine.joined = SESSION, generation, following, True
    mine.order = order_of(sizes, 0)
    entries = [
        Unconfirmed(first + place, items_of(sizes, (2,)), (True,), lambda place: SENT, place)
        for place in range(unconfirmed)
    ]
    mine._log, mine._sent = deque(entries), sent  # noqa: SLF001  # any state, and not only those that calls lead to
    log = tuple(protocol.Message(NONE, first + place, (2,), (1,)) for place in range(unconfirmed))
    return mine, protocol.Sender(queue_of(sizes), 1, generation, following, log, sent)


def same_sender(mine: MirrorSender, its: protocol.Sender) -> bool:
    """Numbers, log, and sent requests; the order by its keys."""
    return (
        (mine.generation, mine.next, int(mine.joined)) == (its.generation, its.next, its.joined)
        and [entry.sequence for entry in mine.unconfirmed] == [message.sequence for message in its.log]
        and mine.backlog == len(its.log) - its.sent
        and same_order(mine.order, its.order)
    )


def same_message(mine: Message | None, its: protocol.Message) -> bool:
    """Generation, sequence, items, and which payloads are in it."""
    if mine is None:
        return False
    payloads = tuple(int(payload is not None) for payload in mine.payloads)
    items = tuple(int(item.key) for item in mine.items)
    return (mine.generation, mine.sequence) == (its.generation, its.sequence) and (items, payloads) == its[2:]


@require(lambda generation, following, number, expected: generation >= 0 and following >= 2 and number >= -1)
@require(lambda following, expected: 0 <= expected <= following)
@ensure(lambda result: result)
def take_an_answer(generation: int, following: int, number: int, expected: int, verdict: int) -> bool:
    """An answer confirms, makes the sender go back once, or ends the epoch."""
    mine, its = senders(generation, following, 2, 2)
    said = Verdict.GAP if verdict == 1 else Verdict.STALE if verdict == 2 else Verdict.ACCEPTED
    mine.receive(Answer(NAME, SESSION, number, expected, said))
    return same_sender(mine, protocol.answered(its, protocol.Answer(number, expected, int(said))))


@require(lambda generation, following, sent: generation >= 0 and following >= 2 and 0 <= sent <= 1)
@ensure(lambda result: result)
def transmit_the_backlog(generation: int, following: int, sent: int) -> bool:
    """The next unconfirmed message goes out, unchanged but for its generation."""
    mine, its = senders(generation, following, 2, 1 if sent == 1 else 0)
    message = mine.transmit()
    its, wanted = protocol.transmit(its)
    return same_message(message, wanted) and same_sender(mine, its)


@require(lambda generation, following: generation >= 0 and following >= 1)
@ensure(lambda result: result)
def expire(generation: int, following: int) -> bool:
    """A late answer costs a probe, and changes nothing."""
    mine, its = senders(generation, following, 1, 1)
    return same_message(mine.expire(), protocol.probe(its)) and same_sender(mine, its)


@require(lambda generation, following, key: min(generation, following) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def submit(generation: int, following: int, key: int) -> bool:
    """A request updates the order and goes out in one step."""
    sizes, known = (1, 1, 1), chosen(key)
    mine, its = senders(generation, following, 0, 0)
    message = mine.submit(items_of(sizes, (known,)), lambda place: SENT)
    committed = protocol.commit(lambda order, items: walk(config_of(sizes, 0), order, items), its, (known,))
    after, wanted = protocol.transmit(committed)
    return same_message(message, wanted) and same_sender(mine, after)


# The wire form -------------------------------------------------------------------------------------------------------


@require(lambda generation, expected: min(generation, expected) >= NONE)
@ensure(lambda result: result)
def answers_come_back(generation: int, expected: int, verdict: int) -> bool:
    """An answer of P1 is the same after its plain form."""
    its = protocol.Answer(generation, expected, 1 if verdict == 1 else 2 if verdict == 2 else 0)
    answer = from_plain(plain(Answer(NAME, SESSION, its.generation, its.expected, Verdict(its.verdict))))
    return isinstance(answer, Answer) and (answer.generation, answer.expected, int(answer.verdict)) == tuple(its)


@require(lambda generation, sequence, size: min(generation, sequence, size) >= 0)
@ensure(lambda result: result)
def messages_come_back(generation: int, sequence: int, size: int) -> bool:
    """A message of P0 is the same after its plain form."""
    items = items_of((1, 1, size), (2, 0))
    given = from_plain(plain(Message(NAME, SESSION, generation, sequence, items, (SENT, None))))
    return (
        isinstance(given, Message)
        and same_message(given, protocol.Message(generation, sequence, tuple(int(item.key) for item in items), (1, 0)))
        and given.items == items
    )


# The processor caches of the field ----------------------------------------------------------------------------------


class Pixels:
    """An item of this size in bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def filled(cache: MultiModalProcessorSenderCache | MultiModalReceiverCache, sizes: Sizes, room: int) -> None:
    """The keys 0 and 1 are present, with this capacity in bytes."""
    held = cache._cache  # noqa: SLF001  # any state, and not only those from empty
    held.maxsize, held.currsize = sizes[0] + sizes[1] + room, sizes[0] + sizes[1]
    for key in (0, 1):
        pixels = Pixels(sizes[key])
        kept = MultiModalProcessorCacheItemMetadata(pixels, ()) if is_sender(cache) else pixels
        held._entries[str(key)] = Entry(kept, sizes[key])  # noqa: SLF001  # likewise


def is_sender(cache: object) -> bool:
    """Whether it keeps sizes only."""
    return isinstance(cache, MultiModalProcessorSenderCache)


def same_cache(cache: MultiModalProcessorSenderCache | MultiModalReceiverCache, its: Queue[int]) -> bool:
    """Keys, oldest first, and bytes."""
    held = cache._cache  # noqa: SLF001  # as released, tests look there
    return [(int(key), held.size_of(key)) for key in held] == list(its.items()) and held.currsize == its.total


MODEL = SimpleNamespace(get_multimodal_config=lambda: SimpleNamespace(mm_processor_cache_gb=1))


@require(lambda sizes, room, key: are_bytes(sizes, room) and 0 <= key <= 2)
@ensure(lambda result: result)
def sender_cache(sizes: Sizes, room: int, key: int) -> bool:
    """`MultiModalProcessorSenderCache` does the walk, and sends what P1 lacks."""
    known, cache = chosen(key), MultiModalProcessorSenderCache(MODEL)
    filled(cache, sizes, room)
    ((sent, _),) = cache.get_and_update([(Pixels(sizes[known]), ())], [str(known)])
    after, needed = walk(config_of(sizes, room), queue_of(sizes), (known,))
    return (sent is not None) == (needed == (1,)) and same_cache(cache, after)


@require(lambda sizes, room, key: are_bytes(sizes, room) and 0 <= key <= 2)
@ensure(lambda result: result)
def receiver_cache(sizes: Sizes, room: int, key: int) -> bool:
    """`MultiModalReceiverCache` does the same walk with what it is sent."""
    known, cache = chosen(key), MultiModalReceiverCache(MODEL)
    filled(cache, sizes, room)
    after, needed = walk(config_of(sizes, room), queue_of(sizes), (known,))
    cache.get_and_update([Pixels(sizes[known]) if needed == (1,) else None], [str(known)])
    return same_cache(cache, after)


ORDERS = "2 held keys and 1 other, any sizes and room"
NUMBERS = "any generations and sequence numbers"
MESSAGE = {"generation": 3, "expected": 7, "number": 3, "sequence": 7}
LEDGER = {
    "walk_of_one_item": Beside(ORDERS, RecencyOrder.apply, {"sizes": (3, 4, 5), "room": 2, "key": 2}, 8),
    "walk_of_two_items": Beside(ORDERS, RecencyOrder.plan, {"sizes": (3, 4, 5), "room": 2, "key": 1}, 20),
    "receive_a_message": Beside(f"{NUMBERS}, 1 item", MirrorReceiver.receive, {**MESSAGE, "key": 2}, 5),
    "receive_a_probe": Beside(NUMBERS, MirrorReceiver.receive, MESSAGE, 3),
    "receive_without_a_partition": Beside(NUMBERS, MirrorReceiver.receive, {"number": 3, "sequence": 7}),
    "take_an_answer": Beside(
        f"{NUMBERS}, 2 unconfirmed requests",
        MirrorSender.receive,
        {"generation": 3, "following": 7, "number": 3, "expected": 6, "verdict": 0},
        8,
    ),
    "transmit_the_backlog": Beside(
        f"{NUMBERS}, 2 unconfirmed requests", MirrorSender.transmit, {"generation": 3, "following": 7, "sent": 1}
    ),
    "expire": Beside(NUMBERS, MirrorSender.expire, {"generation": 3, "following": 7}),
    "submit": Beside(f"{NUMBERS}, 1 item", MirrorSender.submit, {"generation": 3, "following": 7, "key": 2}, 3),
    "answers_come_back": Beside(NUMBERS, from_plain, {"generation": 3, "expected": 7, "verdict": 1}, 3),
    "messages_come_back": Beside(
        f"{NUMBERS}, 2 items, one of any size",
        plain,
        {"generation": 3, "sequence": 7, "size": 5},
    ),
    "sender_cache": Beside(
        ORDERS, MultiModalProcessorSenderCache.get_and_update, {"sizes": (3, 4, 5), "room": 2, "key": 2}, 8
    ),
    "receiver_cache": Beside(
        ORDERS, MultiModalReceiverCache.get_and_update_item, {"sizes": (3, 4, 5), "room": 2, "key": 2}, 8
    ),
}
