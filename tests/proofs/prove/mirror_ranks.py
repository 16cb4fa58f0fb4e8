"""The rank of a request of the mirror as plain numbers, and every step of a scope looked at with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cacheproof.search.canonical import Canonical
from cachespec.kernel import Code, Kind, Operation
from cachespec.mirror import COMPONENT
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.normative_view import is_forgotten
from cachespec.mirror.operations import Join, Receive
from cachespec.mirror.protocol import GAP, STALE, Answer, Message

NORMATIVE = COMPONENT.normative


class Rank(NamedTuple):
    """An earlier number counts more."""

    phase: int
    broken: int
    unsent: int
    unanswered: int
    place: int


def rank(link: Link, requests: int) -> Rank:
    """Of the last one of so many requests, from the oldest unanswered one on; 0 if none is looked at."""
    unsent = max(requests - link.sender.sent, 0)
    return Rank(phase(link), int(not is_whole(link)), unsent, requests, place(link, requests))


def phase(link: Link) -> int:
    """2: P1 refuses; 1: P0 has to join; 0: both are of one epoch."""
    if link.sender.joined == 0:
        return 1
    return 2 if link.partition.granted == 0 else 0


def base(link: Link) -> int:
    """The number of the oldest unanswered request."""
    return link.sender.next - len(link.sender.log)


def reached(message: Message) -> int:
    """What P1 expects after it."""
    return message.sequence + (1 if message.items else 0)


def is_whole(link: Link) -> bool:
    """No complaint about the current generation is under way, and no message of it is a gap."""
    generation = link.sender.generation
    if phase(link) == 1:
        return True
    if any(answer.verdict == GAP and answer.generation == generation for answer in link.answers):
        return False
    return phase(link) == 2 or all(follow_on(link))


def follow_on(link: Link) -> Iterator[bool]:
    """Of each message of the current generation, and of the next one to go out: whether it is no gap."""
    generation, expected = link.sender.generation, link.partition.expected
    known = expected
    for message in link.messages:
        if message.generation == generation:
            yield message.sequence <= known
            known = max(expected, reached(message))
        else:
            known = expected
    yield base(link) + link.sender.sent <= known


def place(link: Link, requests: int) -> int:
    """How many answers and messages are before the first decisive one."""
    flight: tuple[Answer | Message, ...] = (*link.answers, *link.messages)
    if requests > 0 and phase(link) != 1:
        last = base(link) + requests - 1
        for number, one in enumerate(flight):
            if is_decisive(link, last, one):
                return number
    return len(flight) + 1


def is_decisive(link: Link, last: int, one: Answer | Message) -> bool:
    """Whether it answers the request of this number or ends the phase or generation; or its answer does."""
    refused, current = phase(link) == 2, one.generation == link.sender.generation
    if isinstance(one, Message):
        return current and (refused or reached(one) > last)
    if refused:
        return current and one.verdict == STALE
    return one.expected > last or (current and one.verdict == GAP and one.expected >= base(link))


# Every step ---------------------------------------------------------------------------------------------------------


def filled(link: Link) -> int:
    """What grows while the rank stays."""
    return len(link.messages) + 2 * len(link.answers)


def wrong_steps(config: Config, state: State) -> Iterator[str]:
    """What is wrong with the steps from this state, if faults are over."""
    steps = [one for one in NORMATIVE.alphabet(config, state) if one.kind is not Kind.FAULT]
    for operation in steps:
        after, outcome = NORMATIVE.step(config, state, operation)
        if outcome.code is Code.REFUSED:
            continue
        for name, (link, then) in enumerate(zip(state.links, after.links, strict=True)):
            for requests in range(len(link.sender.log) + 1):
                if not falls(name, operation, requests, link, then):
                    yield f"{operation} with {rank(link, requests)}: {link} becomes {then}"
    waits = any(link.sender.log != () or is_forgotten(link) for link in state.links)
    if waits and not any(one.kind is Kind.INTERNAL for one in steps):
        yield f"nothing is owed in {state}"


def falls(name: int, operation: Operation, requests: int, link: Link, then: Link) -> bool:
    """Whether the step does to the rank of these requests what is claimed."""
    if getattr(operation, "sender", None) != name:
        return link == then
    owed = operation.kind is Kind.INTERNAL
    if requests == 0 and (not owed or link.sender.log != ()):
        return True
    confirmed = len(link.sender.log) - len(then.sender.log) if isinstance(operation, Receive) else 0
    before, after = rank(link, requests), rank(then, max(requests - confirmed, 0))
    if isinstance(operation, (Receive, Join)):
        return after < before and (isinstance(operation, Receive) or is_whole(then))
    return after <= before if not owed else after < before or (after == before and filled(then) > filled(link))


def reachable(config: Config, representative: Canonical, limit: int) -> Iterator[State]:
    """So many states, breadth first, one of all that have the same representative."""
    start = NORMATIVE.start(config)
    seen, waiting = {representative(start)}, [start]
    for state in waiting:
        yield state
        for operation in NORMATIVE.alphabet(config, state):
            after, _ = NORMATIVE.step(config, state, operation)
            form = representative(after)
            if form not in seen and len(seen) < limit:
                seen.add(form)
                waiting.append(after)
