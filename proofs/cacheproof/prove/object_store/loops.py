"""The loops of the object store: what each changes, and what holds at every turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import someone_counts
from cacheproof.prove.executor import (
    SymbolicBoolean,
    Term,
    integer_term,
    path,
)
from cacheproof.prove.loops import Locals
from cacheproof.prove.object_store.cuts import cut
from cacheproof.prove.object_store.handles import (
    AT,
    POSITION,
    READER,
    REQUEST,
    acknowledged,
    content_at,
    delivered,
    handed_out_less,
    handle_of,
    handles_are_older,
    holds,
    is_walked,
    items_of,
    missed_stay,
    of_each,
    parts_of,
    parts_of_delivery,
    protected_stay,
    standing_have_tickets,
    tickets_are_held,
)
from cacheproof.prove.object_store.laws import AT_EVERY_TURN, BOOKS_ARE_RIGHT, shrunk
from cacheproof.prove.object_store.values import DELIVERY, SLOT, Row, image_of
from cacheproof.prove.proof import Invariant
from cacheproof.prove.ring.chunks import gone_are_listed, line_of
from cacheproof.prove.sequences import length
from cacheproof.prove.shapes import INTEGER
from cachespec.object_store import journeys, writer
from cachespec.object_store.state import ABSENT, ENDED, PREEMPTED, RENDERING, RUNNING

Store = Any


def number(now: Locals, name: str) -> Term:
    """The counter of a loop in order."""
    return integer_term(now[f"{name}_at"] if f"{name}_at" in now else now[name])


def within(now: Locals, name: str) -> SymbolicBoolean:
    """The counter of a loop in order is in its range."""
    last = length(now[f"{name}_all"]) if f"{name}_all" in now else now[f"{name}_end"]
    return SymbolicBoolean(z3.And(number(now, name) >= 0, number(now, name) <= integer_term(last)))


def chunks_left(local: Locals) -> Any:
    """The measure of a loop that frees."""
    return local["store"].ring.starts.length


def right(now: Locals, claims: Iterable[Invariant] = AT_EVERY_TURN) -> Iterable[Any]:
    """The invariants hold at every turn."""
    return (one.holds(now["config"], now["store"]) for one in claims)


def visited(slot: Term, now: Locals) -> Term:
    """Whether a loop over requests has come by this item."""
    request, _ = parts_of(slot)
    return z3.And(request >= 0, request < number(now, "request"), inside(now["config"], slot))


def visited_of_one(slot: Term, now: Locals) -> Term:
    """Whether the loop over the items of one of the requests has come by this item, too."""
    request, position = parts_of(slot)
    here = z3.And(request == number(now, "request"), position < number(now, "position"), position >= 0)
    return z3.Or(visited(slot, now), here)


def inside(config: Any, slot: Term) -> Term:
    """Whether the configuration has such an item, if its request is one."""
    request, position = parts_of(slot)
    return z3.And(position >= 0, position < items_of(config, request))


def settling(entry: Locals, now: Locals) -> Iterable[Any]:
    """What is missed at some worker stays; each other handle that was visited is settled."""
    yield from settled(entry, now, visited)


def settling_one(entry: Locals, now: Locals) -> Iterable[Any]:
    """Likewise, of the items of a request."""
    yield within(now, "position")
    yield from settled(entry, now, visited_of_one)


def settled(entry: Locals, now: Locals, reached: Callable[[Term, Locals], Term]) -> Iterable[Any]:
    """The conditions of both loops."""
    before, store = entry["store"], now["store"]
    yield from right(now)
    yield within(now, "request")
    yield missed_stay(before, store)

    def done(slot: Term) -> Term:
        all_read = z3.And(reached(slot, now), acknowledged(store.workers, slot))
        return z3.Implies(all_read, z3.Not(store.tickets.members[slot]))

    yield of_each(store.tickets, done)


def freeing(entry: Locals, now: Locals) -> Iterable[Any]:
    """The oldest chunks go, and none that is needed."""
    yield from right(now)
    yield shrunk(now["config"], entry["store"], now["store"])
    yield handed_out_less(entry["store"], now["store"])
    yield protected_stay(entry["store"], now["store"])


def reporting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Likewise, and their ids are listed."""
    yield from freeing(entry, now)
    before, after = entry["store"].ring, now["store"].ring
    yield SymbolicBoolean(gone_are_listed(now["config"], before, after, line_of(now["gone"])))


def forgetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first contents are forgotten."""
    yield from right(now)
    yield within(now, "content")
    yield from forgotten(now)


def clearing(entry: Locals, now: Locals) -> Iterable[Any]:
    """All contents are forgotten, and the oldest chunks go."""
    yield from freeing(entry, now)
    yield from forgotten(now)


def forgotten(now: Locals) -> Iterable[Any]:
    """The first contents are not handed out, and none of their chunks is protected."""
    store, last = now["store"], number(now, "content")

    def of_content(content: Term) -> Term:
        return z3.Implies(z3.And(content >= 0, content < last), z3.Not(store.listed.members[content]))

    yield of_each(store.listed, of_content)
    yield unprotected(now)


def unprotected(now: Locals) -> SymbolicBoolean:
    """No chunk of the first contents is protected."""
    store, last = now["store"], number(now, "content")
    protected, owners = store.protected.members, store.owners.values
    return of_each(store.protected, lambda one: z3.Implies(protected[one], owners[one] >= last))


def releasing(entry: Locals, now: Locals) -> Iterable[Any]:
    """No chunk of the first contents is protected."""
    yield from right(now)
    yield within(now, "content")
    yield unprotected(now)


def walking(entry: Locals, now: Locals) -> Iterable[Any]:
    """P0 walks none of the first requests."""
    requests, last = now["store"].requests, number(now, "request")
    yield within(now, "request")
    earlier = z3.And(REQUEST >= 0, last > REQUEST)
    walked = is_walked(now["config"], requests, REQUEST)
    yield SymbolicBoolean(z3.ForAll([REQUEST], z3.Implies(earlier, z3.Not(walked))))


def looking_up(entry: Locals, now: Locals) -> Iterable[Any]:
    """Of the first items it is said whether they are handed out."""
    request, last, found = integer_term(now["op"].request), number(now, "position"), Row.of(INTEGER, now["found"])
    listed = now["store"].listed.members[content_at(now["config"], request, POSITION)]
    right = found.items[POSITION] == z3.If(listed, 1, 0)
    yield within(now, "position")
    yield SymbolicBoolean(z3.And(found.first == 0, found.last == last))
    yield SymbolicBoolean(z3.ForAll([POSITION], z3.Implies(z3.And(POSITION >= 0, last > POSITION), right)))


def revoking(entry: Locals, now: Locals) -> Iterable[Any]:
    """The handles of the first items do not count any more."""
    config, before, store = now["config"], entry["store"], now["store"]
    request, last = integer_term(now["request"]), number(now, "position")
    yield from right(now, BOOKS_ARE_RIGHT)
    yield within(now, "position")
    yield tickets_are_held(config, store)
    yield standing_have_tickets(config, store, lambda one: one == request)

    def settled(slot: Term) -> Term:
        of, position = parts_of(slot)
        done = z3.And(of == request, position >= 0, position < last)
        return store.tickets.members[slot] == z3.And(before.tickets.members[slot], z3.Not(done))

    yield of_each(store.tickets, settled)


def leaving(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first workers have nothing of the request in their cells, and what they were sent for it is revoked."""
    was, has, last = entry["store"].workers, now["store"].workers, number(now, "reader")
    request, slot = integer_term(now["request"]), z3.Const("slot", SLOT.sort)
    yield within(now, "reader")
    earlier = z3.And(READER >= 0, last > READER)
    mine = z3.And(parts_of(slot)[0] == request, inside(now["config"], slot))
    cells = has.cells[READER][slot] == z3.And(was.cells[READER][slot], z3.Not(z3.And(earlier, mine)))
    yield SymbolicBoolean(z3.ForAll([READER, slot], cells))
    image = image_of(DELIVERY, lambda sent: journeys.fallen(sent, now["request"]), was.items[READER][AT])
    revoked = z3.And(earlier, integer_term(now["revoking"]) == 1)
    items = has.items[READER][AT] == z3.If(revoked, image, was.items[READER][AT])
    yield SymbolicBoolean(z3.ForAll([READER, AT], items))


def emptying(entry: Locals, now: Locals) -> Iterable[Any]:
    """The cell has none of the first items of the request."""
    was, has, slot = entry["worker"].acknowledged, now["worker"].acknowledged, z3.Const("slot", SLOT.sort)
    request, position = parts_of(slot)
    mine = z3.And(request == integer_term(now["request"]), position >= 0, position < number(now, "position"))
    yield within(now, "position")
    yield SymbolicBoolean(z3.ForAll([slot], has.slots[slot] == z3.And(was.slots[slot], z3.Not(mine))))


def delivering(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first workers have something more to read."""
    yield within(now, "reader")
    was, has = entry["store"].workers, now["store"].workers
    yield from sent_more(was, has, now)
    later = z3.Or(READER < 0, number(now, "reader") <= READER)
    same = z3.And(was.last[READER] == has.last[READER], was.items[READER] == has.items[READER])
    yield SymbolicBoolean(z3.ForAll([READER], z3.Implies(later, same)))


def sent_more(was: Any, has: Any, now: Locals) -> Iterable[Any]:
    """In each inbox stands what stood there, and behind it some of the handles of the request."""
    request, again = (integer_term(now[name]) for name in ("request", "again"))
    held, sent = now["store"].requests, delivered(has, READER, AT)
    yield SymbolicBoolean(z3.ForAll([READER], was.last[READER] <= has.last[READER]))
    old = z3.Implies(was.last[READER] > AT, was.items[READER][AT] == has.items[READER][AT])
    yield SymbolicBoolean(z3.ForAll([READER, AT], old))
    new = z3.And(was.last[READER] <= AT, has.last[READER] > AT)
    yield SymbolicBoolean(z3.ForAll([READER, AT], z3.Implies(new, is_sent(held, request, again, sent))))


def is_sent(requests: Any, request: Term, again: Term, sent: Mapping[str, Term]) -> Term:
    """What was sent is one of the handles of the request."""
    position = sent["position"]
    named = z3.And(sent["request"] == request, sent["again"] == again, position >= 0)
    handle = handle_of(requests, request, position)
    return z3.And(named, position < requests.count[request], *(sent[name] == handle[name] for name in handle))


def delivering_one(entry: Locals, now: Locals) -> Iterable[Any]:
    """One worker has something more to read."""
    yield within(now, "position")
    was, has = entry["worker"].inbox, now["worker"].inbox
    request, again = (integer_term(now[name]) for name in ("request", "again"))
    sent = parts_of_delivery(has.items[AT])
    yield SymbolicBoolean(was.last <= has.last)
    yield SymbolicBoolean(z3.ForAll([AT], z3.Implies(was.last > AT, was.items[AT] == has.items[AT])))
    new = z3.And(was.last <= AT, has.last > AT)
    yield SymbolicBoolean(z3.ForAll([AT], z3.Implies(new, is_sent(now["store"].requests, request, again, sent))))


def dying(entry: Locals, now: Locals) -> Iterable[Any]:
    """P1 ends requests that were sent to the workers."""
    was, has = entry["store"].requests, now["store"].requests
    yield within(now, "request")
    before, after = was.phase[REQUEST], has.phase[REQUEST]
    earlier = z3.And(REQUEST >= 0, number(now, "request") > REQUEST)
    moved = z3.If(z3.And(earlier, z3.Or(before == RUNNING, before == PREEMPTED)), ENDED, before)
    yield SymbolicBoolean(z3.ForAll([REQUEST], after == moved))
    yield SymbolicBoolean(was.rendering == has.rendering)


def disowning(entry: Locals, now: Locals) -> Iterable[Any]:
    """The workers keep what they were sent, and the first ones' handles are revoked."""
    yield within(now, "reader")
    was, has = entry["store"].workers, now["store"].workers
    image = image_of(DELIVERY, journeys.unstanding_delivery, was.items[READER][AT])
    earlier = z3.And(READER >= 0, number(now, "reader") > READER)
    items = has.items[READER][AT] == z3.If(earlier, image, was.items[READER][AT])
    yield SymbolicBoolean(z3.ForAll([READER, AT], items))


def orphaning(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first requests are orphaned, and have no tickets."""
    yield from orphaned(entry, now, visited, number(now, "request"))


def orphaning_one(entry: Locals, now: Locals) -> Iterable[Any]:
    """Likewise, and the first items of one more have none."""
    yield within(now, "position")
    yield from orphaned(entry, now, visited_of_one, number(now, "request") + 1)


def orphaned(entry: Locals, now: Locals, reached: Callable[[Term, Locals], Term], last: Term) -> Iterable[Any]:
    """The conditions of both loops."""
    before, store = entry["store"], now["store"]
    requests, tickets = store.requests, store.tickets
    yield from right(now, BOOKS_ARE_RIGHT)
    yield within(now, "request")
    yield of_each(tickets, lambda slot: z3.Implies(tickets.members[slot], before.tickets.members[slot]))
    yield of_each(tickets, lambda slot: z3.Not(z3.And(tickets.members[slot], reached(slot, now))))
    orphan = handle_of(requests, REQUEST, POSITION)["standing"] == 0
    gone = z3.And(last > REQUEST, holds(requests, REQUEST, POSITION))
    yield SymbolicBoolean(z3.ForAll([REQUEST, POSITION], z3.Implies(gone, orphan)))
    yield from moved_to_nowhere(before.requests, requests, last)
    yield handles_are_older(now["config"], store)


def moved_to_nowhere(was: Any, has: Any, last: Term) -> Iterable[Any]:
    """Of the first requests, those that P0 rendered are nowhere; all others are where they were."""
    before, after = was.phase[REQUEST], has.phase[REQUEST]
    gone = z3.And(REQUEST >= 0, last > REQUEST, before == RENDERING)
    moved = after == z3.If(gone, ABSENT, before)
    same = (getattr(has, part)[REQUEST] == getattr(was, part)[REQUEST] for part in ("touched", "walked", "count"))
    none = (getattr(has, part)[REQUEST] == 0 for part in ("touched", "walked", "count"))
    yield SymbolicBoolean(z3.ForAll([REQUEST], z3.And(moved, z3.If(gone, z3.And(*none), z3.And(*same)))))
    yield SymbolicBoolean(has.rendering <= was.rendering)


def dropping(entry: Locals, now: Locals) -> Iterable[Any]:
    """The oldest chunks go."""
    path().assume(someone_counts(now["store"].tickets))
    yield from right(now, BOOKS_ARE_RIGHT)
    yield shrunk(now["config"], entry["store"], now["store"])


FREED = ("ring", "listed", "owners", "epochs", "issued", "withdrawn", "protected", "metadata", "blocking")
"""Parts of the store from which a chunk that goes is taken."""

COUNTED = {"store": ("tickets", "issued")}
FORGOTTEN = {"store": ("listed", "metadata", "withdrawn", "protected")}
DELIVERED = {"store": ("workers",), "workers": ("items", "last")}
ORPHANED = {
    "store": ("requests", "tickets", "issued"),
    "requests": ("phase", "rendering", "touched", "walked", "answers", "answered", "handles", "count"),
}
GOES = {"store": FREED}

WALKER = cut(writer.walker, (walking, {}))
"""The search that `any_walker` stands for."""

LOOPS = (
    cut(writer.render, (looking_up, {})),
    cut(writer.released, (releasing, {"store": ("protected",)})),
    cut(writer.settled, (settling, COUNTED), (settling_one, COUNTED)),
    cut(writer.with_room, (freeing, GOES), measures=(chunks_left,)),
    cut(writer.free_unused, (reporting, GOES), measures=(chunks_left,)),
    cut(writer.clear, (forgetting, FORGOTTEN), (clearing, GOES), measures=(chunks_left,)),
    cut(journeys.revoked, (revoking, COUNTED)),
    cut(journeys.gone, (leaving, {"store": ("workers",), "workers": ("items", "cells")})),
    cut(journeys.without_cells, (emptying, {"worker": ("acknowledged",)})),
    cut(journeys.delivered, (delivering, DELIVERED), (delivering_one, {"worker": ("inbox",)})),
    cut(journeys.die, (dying, {"store": ("requests",), "requests": ("phase", "rendering")})),
    cut(
        journeys.restart,
        (disowning, {"store": ("workers",), "workers": ("items",)}),
        (orphaning, ORPHANED),
        (orphaning_one, COUNTED),
        (dropping, GOES),
        measures=(chunks_left,),
    ),
)
