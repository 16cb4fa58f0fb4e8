"""Which handles the requests of an object store hold, and how P0's tickets follow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import SymbolicBoolean, Term, both, integer_term
from cacheproof.prove.object_store.values import DELIVERY, HANDLE, SLOT
from cacheproof.prove.sequences import known_number
from cachespec.object_store.configuration import UNLIMITED
from cachespec.object_store.state import ABSENT, ENDED, PREEMPTED, RENDERING, RUNNING, Handle

Store = Any
Exempt = Callable[[Term], Term]
"""For which requests nothing is said."""

REQUEST, POSITION = z3.Ints("request position")
READER, AT = z3.Ints("reader at")


def no_request(request: Term) -> Term:
    """It is said of all requests."""
    return z3.BoolVal(False)


def parts_of(slot: Term) -> tuple[Term, Term]:
    """Request and position."""
    request, position = (z3.simplify(SLOT.sort.accessor(0, place)(slot)) for place in range(2))
    return request, position


def slot_of(request: Term, position: Term) -> Term:
    """The slot of this item."""
    return SLOT.sort.constructor(0)(request, position)


def handle_of(requests: Any, request: Term, position: Term) -> dict[str, Term]:
    """The parts of the handle that the request holds for this item."""
    parts = HANDLE.decode(requests.handles[request][position])
    return {name: getattr(parts, name).term for name in Handle._fields}


def items_of(config: Any, request: Term) -> Term:
    """How many items the request has."""
    items = config.requests.items[request]
    return items.sort().accessor(0, 1)(items)


def holds(requests: Any, request: Term, position: Term) -> Term:
    """Whether the request is there and has a handle, or sends the item itself, at this position."""
    there = z3.And(request >= 0, request < requests.length, requests.phase[request] != ABSENT)
    return z3.And(there, position >= 0, position < requests.count[request])


def acknowledged(workers: Any, slot: Term) -> Term:
    """Whether every worker's cell has this handle."""
    inside = z3.And(READER >= 0, workers.length > READER)
    return z3.ForAll([READER], z3.Implies(inside, workers.cells[READER][slot]))


def tickets_are_held(config: Any, store: Store, exempt: Exempt = no_request) -> SymbolicBoolean:
    """Each ticket is that of a handle to a live chunk which a request holds, and which is not revoked."""
    tickets, requests = store.tickets, store.requests
    slot = z3.Const("slot", SLOT.sort)
    request, position = parts_of(slot)
    one, handle = tickets.values[slot], handle_of(requests, request, position)
    named = (
        handle["identity"] == one,
        handle["standing"] == 1,
        handle["epoch"] == store.epochs.values[one],
        handle["address"] == store.ring.starts.values[one],
        handle["content"] == store.owners.values[one],
    )
    held = z3.And(holds(requests, request, position), *named)
    known = z3.Implies(z3.And(tickets.members[slot], z3.Not(exempt(request))), held)
    return SymbolicBoolean(
        z3.ForAll([slot], z3.And(known, z3.Implies(tickets.members[slot], store.owners.members[one])))
    )


def standing_have_tickets(config: Any, store: Store, exempt: Exempt = no_request) -> SymbolicBoolean:
    """A handle that a request holds, and that is not revoked, has a ticket until every worker has acknowledged it."""
    requests, slot = store.requests, slot_of(REQUEST, POSITION)
    standing = handle_of(requests, REQUEST, POSITION)["standing"] == 1
    out = z3.And(holds(requests, REQUEST, POSITION), standing, z3.Not(exempt(REQUEST)))
    known = z3.Or(store.tickets.members[slot], acknowledged(store.workers, slot))
    return SymbolicBoolean(z3.ForAll([REQUEST, POSITION], z3.Implies(out, known)))


def missing_are_out(config: Any, store: Store) -> SymbolicBoolean:
    """What some worker has not acknowledged of P0's tickets is a handle that is out, to the chunk of the ticket."""
    tickets, requests, slot = store.tickets, store.requests, z3.Const("slot", SLOT.sort)
    request, position = parts_of(slot)
    one, handle = tickets.values[slot], handle_of(requests, request, position)
    missing = z3.And(tickets.members[slot], READER >= 0, store.workers.length > READER)
    named = z3.And(
        handle["identity"] == one,
        handle["epoch"] == store.epochs.values[one],
        handle["address"] == store.ring.starts.values[one],
    )
    out = z3.And(holds(requests, request, position), handle["standing"] == 1, named)
    formula = z3.Implies(z3.And(missing, z3.Not(store.workers.cells[READER][slot])), out)
    return SymbolicBoolean(z3.ForAll([slot, READER], formula))


def tickets_are_of_items(config: Any, store: Store) -> SymbolicBoolean:
    """Each ticket is for an item that there is: there are no more of them than items."""
    slot = z3.Const("slot", SLOT.sort)
    request, position = parts_of(slot)
    there = z3.And(request >= 0, request < store.requests.length, position >= 0, position < items_of(config, request))
    return SymbolicBoolean(z3.ForAll([slot], z3.Implies(store.tickets.members[slot], there)))


def is_older(store: Store, identity: Term, epoch: Term) -> Term:
    """An id was given out before the next one: in an earlier epoch, or as a smaller number of this one."""
    now, following = integer_term(store.epoch), integer_term(store.ring.id_end)
    return z3.And(epoch <= now, z3.Implies(z3.And(epoch == now, following != 0), identity < following))


def chunks_are_older(config: Any, store: Store) -> SymbolicBoolean:
    """All ids and epochs of live chunks were given out before the next ones."""
    one = z3.Int("one")
    older = is_older(store, one, store.epochs.values[one])
    return SymbolicBoolean(z3.ForAll([one], z3.Implies(store.epochs.members[one], older)))


def handles_are_older(config: Any, store: Store) -> SymbolicBoolean:
    """Likewise those of the handles that requests and workers have."""
    return SymbolicBoolean(of_each_handle(store, lambda handle: is_older(store, handle["identity"], handle["epoch"])))


def of_each_handle(store: Store, formula: Callable[[dict[str, Term]], Term]) -> Term:
    """The formula, of each handle that a request or a worker has."""
    requests, workers = store.requests, store.workers
    held = z3.And(REQUEST >= 0, requests.length > REQUEST, POSITION >= 0, requests.count[REQUEST] > POSITION)
    sent = z3.And(READER >= 0, workers.length > READER, in_inbox(workers, READER, AT))
    of_requests = z3.Implies(held, formula(handle_of(requests, REQUEST, POSITION)))
    of_workers = z3.Implies(sent, formula(delivered(workers, READER, AT)))
    return z3.And(z3.ForAll([REQUEST, POSITION], of_requests), z3.ForAll([READER, AT], of_workers))


def walks_are_counted(config: Any, store: Store) -> SymbolicBoolean:
    """A rendered request has a handle for each item that P0 has walked, and one that was sent for each of its items."""
    requests = store.requests
    walked, count = requests.walked[REQUEST], requests.count[REQUEST]
    few = z3.Or(count == 0, count <= items_of(config, REQUEST))
    known = z3.And(walked >= 0, requests.touched[REQUEST] >= 0, count >= 0, few)
    phase = requests.phase[REQUEST]
    rendered = z3.Implies(phase == RENDERING, walked == count)
    sent = z3.Implies(phase > RENDERING, count == items_of(config, REQUEST))
    alike = z3.And(rendered, sent, phase >= ABSENT, phase <= ENDED)
    right = z3.Implies(z3.And(REQUEST >= 0, requests.length > REQUEST), z3.And(known, alike))
    return SymbolicBoolean(z3.ForAll([REQUEST], right))


# Walks --------------------------------------------------------------------------------------------------------------


def content_at(config: Any, request: Term, position: Term) -> Term:
    """The content of this item."""
    items = config.requests.items[request]
    return items.sort().accessor(0, 0)(items)[position]


def is_walked(config: Any, requests: Any, request: Term) -> Term:
    """Whether P0 has touched or walked an item of the request, and not walked all."""
    begun = z3.And(requests.phase[request] == RENDERING, requests.touched[request] + requests.walked[request] > 0)
    return z3.And(begun, requests.walked[request] < items_of(config, request))


def is_awaited(config: Any, requests: Any, request: Term, position: Term, content: Term) -> Term:
    """Whether P0 has touched this item of the request and not reached it, and the item has this content."""
    touched = z3.And(position >= requests.walked[request], position < requests.touched[request])
    return z3.And(requests.phase[request] == RENDERING, touched, content_at(config, request, position) == content)


def one_walk_at_a_time(config: Any, store: Store) -> SymbolicBoolean:
    """P0 walks one request; none has more touched items than items."""
    requests, other = store.requests, z3.Int("other")
    inside = z3.And(REQUEST >= 0, requests.length > REQUEST, other >= 0, other < requests.length)
    walked = z3.And(is_walked(config, requests, REQUEST), is_walked(config, requests, other))
    few = z3.Or(requests.touched[REQUEST] == 0, requests.touched[REQUEST] <= items_of(config, REQUEST))
    alone = z3.ForAll([REQUEST, other], z3.Implies(z3.And(inside, walked), other == REQUEST))
    bounded = z3.Implies(z3.And(REQUEST >= 0, requests.length > REQUEST), few)
    return SymbolicBoolean(z3.And(alone, z3.ForAll([REQUEST], bounded)))


# Workers ------------------------------------------------------------------------------------------------------------


def in_inbox(workers: Any, reader: Term, at: Term) -> Term:
    """Whether something stands there."""
    return z3.And(at >= workers.first[reader], at < workers.last[reader])


def delivered(workers: Any, reader: Term, at: Term) -> dict[str, Term]:
    """The parts of what stands there, and those of its handle."""
    return parts_of_delivery(workers.items[reader][at])


def parts_of_delivery(term: Term) -> dict[str, Term]:
    """The parts of what a worker was sent, and those of its handle."""
    sent = DELIVERY.decode(term)
    own = {name: getattr(sent, name).term for name in ("request", "position", "task", "again")}
    return {**own, **{name: getattr(sent.handle, name).term for name in Handle._fields}}


def awaits(workers: Any, request: Term) -> Term:
    """Whether some inbox has something for the request."""
    other = z3.Implies(in_inbox(workers, READER, AT), delivered(workers, READER, AT)["request"] != request)
    return z3.Not(over(workers.length, READER, z3.ForAll([AT], other)))


def over(number: Term, variable: Term, formula: Term) -> Term:
    """The formula, for each number below this one; one after the other, if that is known."""
    last = known_number(number)
    if last is None:
        return z3.ForAll([variable], z3.Implies(z3.And(variable >= 0, variable < number), formula))
    return z3.And(*(z3.substitute(formula, (variable, z3.IntVal(each))) for each in range(last)))


def deliveries_are_of_items(config: Any, store: Store) -> SymbolicBoolean:
    """Each handle that a worker was sent is for an existing item; unless revoked, its request is at the workers."""
    workers, requests = store.workers, store.requests
    sent = delivered(workers, READER, AT)
    request, position = sent["request"], sent["position"]
    there = z3.And(request >= 0, request < requests.length, position >= 0, position < items_of(config, request))
    right = z3.And(there, z3.Implies(sent["standing"] != 0, is_at_workers(requests, request)))
    inside = z3.And(READER >= 0, workers.length > READER, in_inbox(workers, READER, AT))
    ends = z3.Implies(z3.And(READER >= 0, workers.length > READER), workers.first[READER] <= workers.last[READER])
    return SymbolicBoolean(z3.And(z3.ForAll([READER, AT], z3.Implies(inside, right)), z3.ForAll([READER], ends)))


def is_at_workers(requests: Any, request: Term) -> Term:
    """Whether the request was sent to the workers, and P0 has not heard of its end."""
    return z3.Or(*(requests.phase[request] == phase for phase in (RUNNING, PREEMPTED, ENDED)))


def cells_are_of_the_sent(config: Any, store: Store) -> SymbolicBoolean:
    """SHM-3/early; and only items that there are are acknowledged."""
    slot = z3.Const("slot", SLOT.sort)
    request, position = parts_of(slot)
    there = z3.And(request >= 0, request < store.requests.length, position >= 0, position < items_of(config, request))
    inside = z3.And(READER >= 0, store.workers.length > READER, store.workers.cells[READER][slot])
    right = z3.And(there, is_at_workers(store.requests, request))
    return SymbolicBoolean(z3.ForAll([READER, slot], z3.Implies(inside, right)))


def few_are_rendered(config: Any, store: Store) -> SymbolicBoolean:
    """SHM-7/concurrent."""
    return SymbolicBoolean(store.requests.rendering <= integer_term(config.concurrent))


def renders_are_limited(config: Any, store: Store) -> SymbolicBoolean:
    """The number of requests that may still be rendered is limited if the configuration says so."""
    left, all_of_them = integer_term(store.renders_left), integer_term(config.renders)
    unlimited = (all_of_them == UNLIMITED) == (left == UNLIMITED)
    return SymbolicBoolean(z3.And(unlimited, z3.Implies(all_of_them >= 0, left >= 0)))


def parts_are_numbers(config: Any, store: Store) -> SymbolicBoolean:
    """Of a chunk that P0 writes, header and data are visible or not."""
    writing = store.writing
    if type(writing) is tuple:
        return both(*(both(part >= 0, part <= 1) for one in writing for part in (one.header, one.data)))
    first = writing.element.decode(writing.items[0])
    numbers = both(first.header >= 0, first.header <= 1, first.data >= 0, first.data <= 1)
    return SymbolicBoolean(z3.Implies(writing.length > 0, numbers.term))


# What stays ---------------------------------------------------------------------------------------------------------


def of_each(ids: Any, formula: Callable[[Term], Term]) -> SymbolicBoolean:
    """The formula, for each key of this map."""
    return SymbolicBoolean(every(ids.key, formula))


def missed_stay(before: Store, after: Store) -> SymbolicBoolean:
    """Each handle that some worker has not acknowledged counts for the same chunk, and none counts anew."""
    had, has = before.tickets, after.tickets

    def right(slot: Term) -> Term:
        same = z3.And(had.members[slot], had.values[slot] == has.values[slot])
        missed = z3.Implies(z3.And(had.members[slot], z3.Not(acknowledged(before.workers, slot))), has.members[slot])
        return z3.And(z3.Implies(has.members[slot], same), missed)

    return of_each(had, right)


def handed_out_less(before: Store, after: Store) -> SymbolicBoolean:
    """What is handed out was handed out before."""

    def right(content: Term) -> Term:
        same = z3.And(before.listed.members[content], before.listed.values[content] == after.listed.values[content])
        return z3.Implies(after.listed.members[content], same)

    return of_each(before.listed, right)


def protected_stay(before: Store, after: Store) -> SymbolicBoolean:
    """The same chunks are protected."""
    had, has = before.protected.members, after.protected.members
    return of_each(before.protected, lambda one: had[one] == has[one])
