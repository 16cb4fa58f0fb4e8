"""The object store, for any capacity, sizes, requests, items, workers, and any number of live chunks and handles.

`PROOF` runs all operations of the store. The ring's functions that reserve and free chunks are stand-ins there: they
may answer anything that the laws of their own proof allow (`CHUNKS` of `ring/functions.py`). So is the search for the
request that P0 walks, of which `WALKS` shows the law. The memory may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cacheproof.prove.executor import assume, both, integer_term
from cacheproof.prove.loops import modules_of
from cacheproof.prove.object_store.laws import INVARIANTS, LAWS, sizes_agree
from cacheproof.prove.object_store.loops import LOOPS, WALKER
from cacheproof.prove.object_store.stand_ins import REPLACED, is_walker
from cacheproof.prove.object_store.steps import STEPS
from cacheproof.prove.object_store.values import Requests, Workers, lift
from cacheproof.prove.object_store.values import fresh as fresh_part
from cacheproof.prove.object_store.workers import OF_WORKERS
from cacheproof.prove.proof import Law, Proof
from cacheproof.prove.sequences import length
from cachespec import object_store
from cachespec.kernel import Code, Containers, Operation, Outcome
from cachespec.object_store import environment as environment_of_store
from cachespec.object_store import state, writer
from cachespec.object_store.configuration import Config
from cachespec.object_store.operations import (
    Abort,
    Acknowledge,
    Copy,
    End,
    Finish,
    GetCached,
    Look,
    Preempt,
    Read,
    Reject,
    Release,
    Render,
    Repeat,
    Resume,
    Schedule,
    Send,
)


def initial(config: Any, containers: Containers) -> Any:
    """As the specification has it; of any number of requests and workers, none is there."""
    if type(config.requests) is tuple:
        return state.initial(config, containers)
    none = state.initial(config._replace(requests=(), readers=0), containers)
    any_number: Any = none
    return any_number._replace(
        requests=Requests.none(integer_term(length(config.requests))),
        workers=Workers.none(integer_term(config.readers)),
    )


def fresh(kind: Any, name: str) -> Any:
    """Any value. What a valid configuration says of its contents and items is assumed where one is read."""
    value = fresh_part(kind, name)
    if kind is not Config:
        return value
    payloads = value.payloads

    def positive(place: Any, number: Any) -> Any:
        assume(number > 0)
        return number

    def a_content(place: Any, content: Any) -> Any:
        assume(both(content >= 0, content < length(payloads)))
        return content

    def a_request(place: Any, contents: Any) -> Any:
        return replace(contents, seen=a_content)

    return value._replace(payloads=replace(payloads, seen=positive), requests=replace(value.requests, seen=a_request))


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call that names a request, an item and a worker that there are."""
    yield both(config.header >= 2, config.capacity > config.header, config.modulus >= 2)
    yield both(config.concurrent >= 1, config.readers >= 1, config.largest + config.header <= config.capacity)
    if hasattr(operation, "part"):
        yield both(operation.part >= 0, operation.part <= 1)
    if hasattr(operation, "request"):
        yield both(operation.request >= 0, operation.request < length(config.requests))
    if hasattr(operation, "position"):
        yield both(operation.position >= 0, operation.position < length(config.requests[operation.request]))
    if hasattr(operation, "reader"):
        yield both(operation.reader >= 0, operation.reader < config.readers)


def the_chunk(config: Any) -> Any:
    """A ticket is counted by its chunk."""
    return lambda identity: identity


SMALL = Config(capacity=4, payloads=(1, 2), requests=((0,), (1,)), largest=2, readers=1, modulus=2)


def calls(config: Config, store: state.Store) -> Iterable[Operation]:
    """For the witnesses: what the specification offers, and calls that are of no use."""
    yield from environment_of_store.calls(config, store)
    for request in range(len(config.requests)):
        yield from (GetCached(request, 0), Render(request))
        yield from (one(request) for one in (Send, Reject, Preempt, Resume, Finish, Abort, End, Repeat))
        yield Schedule(request, 0)
    for reader in range(config.readers):
        yield from (one(reader) for one in (Read, Look, Copy, Acknowledge))
    yield Release()


COUNTED_BY_HAND = ("SHM-3", "SHM-3/settled", "SHM-3/out", "SHM-11", "X-3/store")
"""Claims about tickets; the properties are about acknowledgements."""

PROOF = Proof(
    component="object_store",
    variant=replace(object_store.COMPONENT.normative, initial=initial, alphabet=calls),
    config=Config,
    invariants=INVARIANTS,
    laws=(*LAWS, *STEPS, *OF_WORKERS),
    witnesses=(
        SMALL._replace(touches=1, clears=1, reclaims=1, restarts=1, rejects=1, forges=1),
        SMALL._replace(stepwise=1, deaths=1, aborts=1, preempts=1, repeats=1),
        SMALL._replace(stores=1),
        SMALL._replace(payloads=(1,), requests=((0,),), aborts=1, deaths=1),
    ),
    environment=environment,
    lemmas=lambda config, store, operation: (sizes_agree(config, store),),
    loops=LOOPS,
    modules=modules_of(object_store),
    replaced=REPLACED,
    fresh=fresh,
    lift=lift,
    tallies={"tickets": the_chunk},
    by_value=("tickets",),
    by_hand=dict.fromkeys(COUNTED_BY_HAND, "a chunk has at most one acknowledgement for each ticket and worker"),
    second_opinion=False,
)

# The search for a walk ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindWalk(Operation):
    """P0 asks which request it walks."""


def find_walk(config: Config, store: state.Store, op: FindWalk) -> tuple[state.Store, Outcome]:
    """As `writer.may_begin`, `writer.may_walk` and `writer.release`."""
    return store, Outcome(Code.DONE, (writer.walker(config, store),))


def calls_and_search(config: Config, store: state.Store) -> Iterable[Operation]:
    """For the witnesses."""
    return (FindWalk(), *environment_of_store.calls(config, store))


WALKS = replace(
    PROOF,
    variant=replace(
        PROOF.variant, transitions={**PROOF.variant.transitions, FindWalk: find_walk}, alphabet=calls_and_search
    ),
    invariants=(),
    given=INVARIANTS,
    laws=(
        Law(
            "SHM-7/walker",
            "P0 finds a request that it walks, if there is one",
            (FindWalk,),
            lambda move: is_walker(move.config, move.before, move.outcome.values[0]),
        ),
    ),
    loops=(WALKER,),
    replaced=(),
    by_hand={},
)

PROOFS = (PROOF, WALKS)
