"""What holds of one link of the mirror in every reachable state, as formulas over its terms.

`obligations/mirror.py` proves them through every operation; the proof of progress begins with them.
"""

from __future__ import annotations

from typing import Any

from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, both, implies
from cacheproof.prove.mirror.links import either, links_of, log_of, number, order_before
from cacheproof.prove.proof import Move
from cacheproof.prove.two_of_many import TwoOfMany


def of_every_link(holds: Any) -> Any:
    """A formula of one link, for all links of a state."""
    return lambda config, state: both(True, *(holds(link) for link in links_of(state)))


def pending_messages_lead_on(link: Any) -> SymbolicBoolean:
    """P1 is where P0 was before the first message that P1 has not applied; all later ones are in the log."""
    log, partition = log_of(link.sender), link.partition
    reached = both(number(log.base) <= partition.expected, number(log.next) >= partition.expected)
    known = both(reached, partition.generation <= link.sender.generation)
    return implies(partition.granted != 0, both(known, order_before(log, partition.expected) == partition.order))


def sender_is_after_its_log(link: Any) -> SymbolicBoolean:
    """P0 is where its last message leads."""
    log, sender = log_of(link.sender), link.sender
    return both(
        number(log.next) == sender.next,
        implies(sender.joined == 1, order_before(log, sender.next) == sender.order),
    )


def log_is_a_history(link: Any) -> SymbolicBoolean:
    """Numbered one after the other, each message from the order before it; at most all of them are out.

    No number is negative.
    """
    log = log_of(link.sender)
    out = both(link.sender.sent >= 0, number(log.next - log.base) >= link.sender.sent)
    return both(SymbolicBoolean(log.consistent()), number(log.base) >= 0, link.sender.generation >= 0, out)


def flags_are_flags(link: Any) -> SymbolicBoolean:
    """Joined or not, granted or not."""
    return both(True, *(either(flag == 0, flag == 1) for flag in (link.sender.joined, link.partition.granted)))


def own(move: Move) -> tuple[Any, Any]:
    """The link of the sender that the call names, before and after it."""
    before, after = (links_of(state) for state in (move.before, move.after))
    place = 0 if type(move.before.links) is TwoOfMany else move.operation.sender
    return before[place], after[place]


def out(sender: Any) -> Any:
    """The number of the first message that is not out in this generation."""
    return SymbolicInteger(log_of(sender).base) + sender.sent
