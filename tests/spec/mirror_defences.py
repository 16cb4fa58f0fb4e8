"""The defences of the normative mirror: the rule, its removal, and the shortest consequence of that."""

from __future__ import annotations

from typing import NamedTuple

from tests.planting import Change

from cachespec.mirror import normative, normative_faults, normative_view, protocol, recency
from cachespec.mirror.configuration import Config

FAULTS = Config(1, (1, 1), reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1)
LARGE = Config(1, (1, 1), items=2)
LOSS = Config(1, (1, 1), drop=1, restart=1)
OVERSIZE = Config(2, (1, 3), items=2)
PAIRS = Config(2, (1, 1, 1), items=2)
RENDERING = Config(1, (1, 1), rendered=2, reject=1)
REORDER_IMPATIENT = Config(1, (1, 1), reorder=1, impatient=1)
RESET = Config(1, (1, 1), reset=1)


class Defence(NamedTuple):
    """A rule of the protocol, its removal, and the shortest consequence."""

    rule: str
    removed: tuple[Change, ...]
    where: Config
    breaks: str
    length: int
    """Operations of the shortest trace; of a lasso, stem and cycle."""


TOUCHED_LAST = (Change(recency.touch_all, "$order.has($key)", "False"),)
DECIDED_AT_RENDERING = (
    Change(
        normative.render,
        "$link._replace(drafts=(*$link.drafts, Draft($op.items)))",
        (
            "$link._replace(sender=$link.sender._replace(order=recency.walk(config, "
            "$link.sender.order, $op.items)[0]), drafts=(*$link.drafts, Draft((*$op.items, *(-2 - n "
            "for n in recency.walk(config, $link.sender.order, $op.items)[1])))))"
        ),
    ),
    Change(
        normative.submitted,
        "protocol.commit($x, $link.sender, $items)",
        (
            "$link.sender._replace(next=$link.sender.next + 1, log=(*$link.sender.log, "
            "protocol.Message(-1, $link.sender.next, $items[:len($items) // 2], tuple((-2 - n for n "
            "in $items[len($items) // 2:])))))"
        ),
    ),
    Change(normative_view.link_view, "(False,)", "(True,)"),
    Change(
        normative_view.link_view,
        "$same_epoch and $y == $sender.next",
        "link.drafts == () and $same_epoch and ($y == $sender.next)",
    ),
    Change(
        normative_view.link_view,
        "$x and $link.answers == () and ($sender.log == ())",
        "$link.drafts == () and $x and ($link.answers == ()) and ($sender.log == ())",
    ),
)
"""What is rendered carries its decision, behind its items and negative, so that it is taken for no content."""

UNTOUCHED_AT_P1 = (
    Change(
        protocol.receive,
        "$order, $needed = walk($partition.order, $message.items)",
        "$order = $partition.order\nfor item in $message.items:\n    $order, $needed = walk($order, (item,))",
    ),
    Change(
        normative.deliver,
        "$order, $needed = recency.walk(config, $before, $items)",
        "$order, $needed = $before, ()\nfor item in $items:\n"
        "    $order, need = recency.walk(config, $order, (item,))\n    $needed = (*$needed, *need)",
    ),
)

DEFENCES = [
    # When P0 decides
    Defence("P0 is updated when a request is sent: it may be refused", DECIDED_AT_RENDERING, RENDERING, "MIR-4", 2),
    Defence(
        "P0 is updated when a request is sent: requests leave in any order",
        DECIDED_AT_RENDERING,
        RENDERING._replace(reject=0),
        "MIR-1",
        4,
    ),
    # One walk
    Defence(
        "P1 walks a request in the order in which P0 did",
        (
            Change(
                protocol.receive,
                "$walk($partition.order, $message.items)",
                "$walk($partition.order, $message.items[::-1])",
            ),
        ),
        PAIRS,
        "MIR-1",
        3,
    ),
    Defence("P1 touches what P0 touched", UNTOUCHED_AT_P1, PAIRS, "MIR-2", 5),
    Defence(
        "each item is looked up at its own turn",
        (
            Change(
                protocol.commit,
                "$order, $needed = walk($sender.order, $items)",
                "$order, _ = walk($sender.order, $items)\n"
                "$needed = tuple([int(not $sender.order.has(key)) for key in $items])",
            ),
        ),
        LARGE,
        "MIR-2",
        5,
    ),
    Defence(
        "what is larger than the cache is kept on neither side",
        (
            Change(
                recency.insert,
                "if $size > $config.capacity:\n    return $order",
                "if $size > $config.capacity:\n    return $order.push(key, $size)",
            ),
        ),
        OVERSIZE,
        "MIR-11",
        3,
    ),
    Defence(
        "what is larger than the cache is kept by P1 no more than by P0",
        (
            Change(
                protocol.receive,
                "order=$order",
                "order=$order if $order.length > 0 else $order.push(message.items[0], 1)",
            ),
        ),
        OVERSIZE,
        "MIR-1",
        3,
    ),
    # What P1 accepts
    Defence(
        "P1 applies the next message and none that comes too early",
        (Change(protocol.receive, "$message.sequence > $partition.expected", "False"),),
        FAULTS,
        "MIR-3",
        5,
    ),
    Defence(
        "P1 knows by its number what it has applied already",
        (Change(protocol.receive, "$x or $message.items == ()", "$message.items == ()"),),
        FAULTS,
        "MIR-3",
        9,
    ),
    Defence(
        "P1 refuses what is of an older generation",
        (Change(protocol.receive, "$partition.granted == 0 or $x", "$partition.granted == 0"),),
        FAULTS,
        "MIR-8",
        5,
    ),
    Defence(
        "P1 applies nothing of an older epoch, whether it knows it by its generation or by its number",
        (
            Change(protocol.receive, "$partition.granted == 0 or $x", "$partition.granted == 0"),
            Change(
                protocol.join,
                "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0)",
                "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0, next=0)",
            ),
        ),
        FAULTS,
        "MIR-3",
        5,
    ),
    Defence(
        "P1 refuses a sender that has no partition",
        (Change(protocol.receive, "$partition.granted == 0 or $x", "$x"),),
        FAULTS,
        "MIR-12",
        4,
    ),
    Defence(
        "P1 takes a probe for a question and not for a request",
        (
            Change(protocol.receive, "$x or $message.items == ()", "$x"),
            Change(protocol.probe, "$sender.next", "$sender.log[0].sequence"),
        ),
        FAULTS,
        "MIR-3",
        5,
    ),
    # What P0 keeps, and what it sends again
    Defence(
        "P0 keeps a message until it is confirmed",
        (
            Change(protocol.transmit, "$sender.log[$sender.sent]", "$sender.log[0]"),
            Change(
                protocol.transmit, "$sender._replace(sent=$sender.sent + 1)", "$sender._replace(log=$sender.log[1:])"
            ),
        ),
        Config(1, (1, 1), drop=1, outstanding=1),
        "MIR-7/served",
        3,
    ),
    Defence(
        "P1 confirms what it has applied and nothing more",
        (Change(protocol.confirm, "$sender.log[0].sequence < $expected", "$sender.log[0].sequence <= $expected"),),
        FAULTS,
        "MIR-7/kept",
        6,
    ),
    Defence(
        "a message goes out again with its payloads",
        (
            Change(
                protocol.go_back,
                "$sender._replace(generation=$x, sent=0)",
                (
                    "$sender._replace(generation=$x, sent=0, log=tuple([entry._replace(payloads=(0,) * "
                    "len(entry.items)) for entry in $sender.log]))"
                ),
            ),
        ),
        FAULTS,
        "MIR-2",
        8,
    ),
    Defence(
        "what P1 lacks goes out again",
        (Change(protocol.answered, "go_back($confirmed)", "$confirmed"),),
        LOSS,
        "MIR-7/served",
        6,
    ),
    Defence(
        "what goes out again goes out in order",
        (Change(protocol.transmit, "$sender.log[$sender.sent]", "$sender.log[-1]"),),
        FAULTS,
        "MIR-10",
        9,
    ),
    Defence(
        "a new request waits behind the backlog",
        (
            Change(
                normative.submitted,
                "($after, DONE)",
                (
                    "($after._replace(messages=(*$after.messages, "
                    "$after.sender.log[-1]._replace(generation=$after.sender.generation))), DONE)"
                ),
            ),
        ),
        FAULTS,
        "MIR-10",
        9,
    ),
    Defence(
        "in one generation a message goes out once",
        (Change(protocol.transmit, "$sender.sent + 1", "$sender.sent"),),
        FAULTS,
        "MIR-10/once",
        3,
    ),
    # What P0 asks, and which answers it heeds
    Defence(
        "P0 asks before it sends again",
        (
            Change(
                normative.expire,
                "$messages = (*$link.messages, protocol.probe($link.sender))\n"
                "return with_link($state, $op.sender, $link._replace(messages=$messages)), DONE",
                "return begun($state, $op.sender, $link, $link._replace(sender=protocol.go_back($link.sender))), DONE",
            ),
        ),
        FAULTS,
        "MIR-10",
        5,
    ),
    Defence(
        "a probe bears the next number, so that P1 sees what it lacks",
        (Change(protocol.probe, "$sender.next", "$sender.log[0].sequence"),),
        LOSS,
        "MIR-7/served",
        6,
    ),
    Defence(
        "P0 goes back once for a generation",
        (Change(protocol.go_back, "generation=$sender.generation + 1", ""),),
        FAULTS,
        "MIR-10",
        10,
    ),
    Defence(
        "P0 heeds no complaint about an older generation",
        (Change(protocol.answered, "$sender.joined == 0 or $x", "$sender.joined == 0"),),
        FAULTS,
        "MIR-10",
        7,
    ),
    Defence(
        "P0 heeds no complaint about what is confirmed already",
        (Change(protocol.answered, "$answer.verdict == GAP and $unconfirmed and $first", "$answer.verdict == GAP"),),
        REORDER_IMPATIENT,
        "MIR-10",
        13,
    ),
    # Epochs
    Defence(
        "P0 joins again when it is refused",
        (Change(protocol.answered, "$confirmed._replace(joined=0)", "$confirmed"),),
        LOSS,
        "MIR-7/served",
        6,
    ),
    Defence(
        "P0 joins again after it was cleared",
        (Change(normative_faults.reset_sender, "joined=0", ""),),
        FAULTS,
        "MIR-1",
        4,
    ),
    Defence(
        "P1 revokes the partition that it clears",
        (
            Change(
                normative_faults.forgotten,
                "$link._replace(partition=protocol.revoked($empty))",
                "$link._replace(partition=$link.partition._replace(order=$empty))",
            ),
        ),
        FAULTS,
        "MIR-1",
        4,
    ),
    Defence(
        "P1 knows that a partition is revoked",
        (Change(protocol.revoked, "Partition(order=$empty)", "Partition(order=$empty, granted=1)"),),
        RESET,
        "MIR-7/served",
        2,
    ),
    Defence(
        "P1 grants no more partitions than it has room for",
        (Change(normative.join, "granted($state) >= partitions($config)", "False"),),
        Config(1, (1, 1), senders=2, partitions=1),
        "MIR-11",
        6,
    ),
    Defence(
        "a join empties P0",
        (
            Change(
                protocol.join,
                "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0)",
                "$sender._replace(joined=1, generation=$generation, log=(), sent=0)",
            ),
        ),
        FAULTS,
        "MIR-2",
        8,
    ),
    Defence(
        "a join empties P1",
        (
            Change(
                normative.join,
                "$sender, $partition = protocol.join($walk, $link.sender, $empty)",
                "$sender, $partition = protocol.join($walk, $link.sender, $empty)\n"
                "$partition = $partition._replace(order=$link.partition.order)",
            ),
        ),
        FAULTS,
        "MIR-1",
        6,
    ),
    Defence(
        "a join keeps what is unanswered",
        (Change(protocol.join, "$sender.log", "()"),),
        FAULTS,
        "MIR-7/kept",
        4,
    ),
    Defence(
        "a join forgets the old numbers of what it numbers anew",
        (Change(protocol.join, "log=()", ""),),
        FAULTS,
        "MIR-7/kept",
        4,
    ),
    Defence(
        "a join decides anew which payloads the unanswered requests need",
        (
            Change(
                protocol.join,
                "for $message in $unanswered:\n    $fresh = commit(*$rest)",
                (
                    "for $message in $unanswered:\n"
                    "    $fresh = commit(*$rest)\n"
                    "    decided = $fresh.log[-1]._replace(payloads=$message.payloads)\n"
                    "    $fresh = $fresh._replace(log=(*$fresh.log[:-1], decided))"
                ),
            ),
        ),
        FAULTS,
        "MIR-2",
        10,
    ),
    Defence(
        "a join begins a generation",
        (Change(protocol.join, "$sender.generation + 1", "$sender.generation"),),
        FAULTS,
        "MIR-10",
        13,
    ),
    Defence(
        "sequence numbers go on from one epoch to the next",
        (
            Change(
                protocol.join,
                "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0)",
                "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0, next=0)",
            ),
        ),
        FAULTS,
        "MIR-7/kept",
        8,
    ),
    Defence(
        "what a request finds is touched before anything is evicted",
        TOUCHED_LAST,
        PAIRS,
        "MIR-9/fitting",
        5,
    ),
]
