"""What must hold of P1's order when a message is applied. MIR-1 then holds it of P0's.

The rules of recency are said once more here: a property that called the walk itself would go wrong with it.
"""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.mirror.configuration import Config
from cachespec.mirror.operations import Deliver
from cachespec.mirror.view import InFlight, Order, View


def head(before: View, op: Operation) -> InFlight | None:
    """The message that this operation delivers."""
    if not isinstance(op, Deliver) or before.links[op.sender].messages == ():
        return None
    return before.links[op.sender].messages[0]


def is_applied(before: View, op: Operation, outcome: Outcome) -> bool:
    """Whether P1 used this message for a request."""
    return head(before, op) is not None and outcome.code is Code.HIT


def keys(order: Order) -> tuple[int, ...]:
    """The keys of an order, oldest first."""
    return tuple(key for key, _ in order)


def beside(order: Order, items: tuple[int, ...]) -> tuple[int, ...]:
    """The entries that the request does not name, oldest first."""
    return tuple(key for key in keys(order) if key not in items)


def by_last_turn(items: tuple[int, ...]) -> tuple[int, ...]:
    """Each item once, in the order of its last turns."""
    return tuple(key for turn, key in enumerate(items) if key not in items[turn + 1 :])


def items_become_newest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    if message is None or not isinstance(op, Deliver) or not is_applied(before, op, outcome):
        return True
    was, now = before.links[op.sender].held_order, after.links[op.sender].held_order
    old, left = beside(was, message.items), beside(now, message.items)
    kept = tuple(key for key in by_last_turn(message.items) if key in keys(now))
    return keys(now) == (*left, *kept) and left == old[len(old) - len(left) :]


def fits_together(config: Config, items: tuple[int, ...]) -> bool:
    """The items of a request fit P1's cache at once."""
    return sum(config.sizes[key] for key in by_last_turn(items)) <= config.capacity


def fitting_items_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    if message is None or not isinstance(op, Deliver) or not is_applied(before, op, outcome):
        return True
    if not fits_together(config, message.items):
        return True
    was, now = before.links[op.sender].held_order, after.links[op.sender].held_order
    sent = tuple(key for key, payload in zip(message.items, message.payloads, strict=True) if payload == 1)
    gone = tuple(key for key in beside(was, message.items) if key not in keys(now))
    needed = gone == () or sum(size for _, size in now) + config.sizes[gone[-1]] > config.capacity
    kept = all(key in keys(now) for key in message.items)
    return kept and needed and not any(key in keys(was) for key in sent)


WALKS: tuple[Step[Config, View], ...] = (
    Step(
        "MIR-5/recency",
        "an applied message makes its items the newest entries, in their order, and evicts the oldest of the others",
        items_become_newest,
        lambda c, b, op, o, a: (
            isinstance(op, Deliver) and is_applied(b, op, o) and 0 < len(a.links[op.sender].held_order) < len(o.values)
        ),
    ),
    Step(
        "MIR-9/fitting",
        "if a request's items fit the cache at once, all stay, none that P1 holds is sent, and no other is evicted "
        "without need",
        fitting_items_stay,
        lambda c, b, op, o, a: (
            isinstance(op, Deliver)
            and is_applied(b, op, o)
            and fits_together(c, o.values)
            and len(a.links[op.sender].held_order) == len(b.links[op.sender].held_order) > 1
            and a.links[op.sender].held_order != b.links[op.sender].held_order
        ),
    ),
)
