"""How the mirror serves a recorded workload: one frontend, and a message for each request, without faults.

A hit is an item whose payload P0 did not have to send. P1 takes the message when the request finishes, so that where
several requests run at the same time, as many messages are in flight.
"""

from __future__ import annotations

from cachespec.kernel import Check, Code, Demand, Operation, Request, Script, Served, Service
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.operations import Deliver, Join, Receive, Submit

FRONTEND = 0


def configure(demand: Demand) -> Config:
    """The sizes of the workload are bytes; nothing is switched on."""
    longest = max((len(contents) for contents in demand.requests), default=0)
    return Config(demand.capacity, demand.sizes, items=max(1, longest))


def admit(config: Config, request: Request) -> Script:
    """The frontend sends the request; it joins first where it has no partition yet."""
    if request.contents == ():
        return Served(())
    submitted = yield Submit(FRONTEND, request.contents)
    if submitted.code is Code.REFUSED:
        yield Join(FRONTEND)
        submitted = yield Submit(FRONTEND, request.contents)
    return Served(tuple(sent == 0 for sent in submitted.values))


def finish(config: Config, request: Request) -> tuple[Operation, ...]:
    """P1 takes the message, and P0 the answer."""
    return (Deliver(FRONTEND), Receive(FRONTEND)) if request.contents else ()


def is_settled(link: Link) -> bool:
    """Whether P1 has applied every message; a replay is without faults, so that there is one epoch."""
    sender, partition = link.sender, link.partition
    return sender.joined == 1 and partition.granted == 1 and partition.expected == sender.next


def settled_means_as_much(config: Config, state: State) -> bool:
    """The counted part of equality."""
    pairs = [(link.sender.order, link.partition.order) for link in state.links if is_settled(link)]
    return all((sent.length, sent.total) == (held.length, held.total) for sent, held in pairs)


def bytes_within_capacity(config: Config, state: State) -> bool:
    return all(link.partition.order.total <= config.capacity for link in state.links)


CHECKS: tuple[Check, ...] = (
    Check("MIR-1", "once P1 has applied every message, both caches have equal length and size", settled_means_as_much),
    Check("MIR-11", "the bytes of P1's cache never exceed its capacity", bytes_within_capacity),
    Check("MIR-10", "no payload is sent again without a fault", lambda c, s: s.overspent == 0),
)

SERVICE: Service[Config] = Service(configure=configure, admit=admit, finish=finish, checks=CHECKS)
