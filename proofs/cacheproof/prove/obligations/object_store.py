"""The books of the object store, for any number of contents, requests, items and live chunks.

The proofs are about `accounting`: the functions by which P0 enters a chunk, issues a handle, settles a handle and
forgets a chunk. They are the transitions here, each under the condition of its call in `writer`. That the writer calls
them under no other condition is explored and not proved; so are readers, the ring and the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import SymbolicBoolean, Term, both
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cachespec.kernel import ABSENT, DONE, NORMATIVE, Code, Containers, Map, Operation, Outcome, Variant
from cachespec.object_store import accounting
from cachespec.ring.configuration import Id


class Config(NamedTuple):
    """The books know no configuration; the number of contents, requests and items plays no part."""

    contents: int


class Books(NamedTuple):
    """The part of the store's state that `accounting` reads and writes."""

    ring: int
    listed: Map[int, Id]
    owners: Map[Id, int]
    epochs: Map[Id, int]
    issued: Map[Id, int]
    tickets: Map[tuple[int, int], Id]
    withdrawn: Map[Id, int]
    protected: Map[Id, int]
    metadata: Map[int, int]
    epoch: int
    blocking: Id


@dataclass(frozen=True, slots=True)
class Enter(Operation):
    """A chunk was reserved for a content that is not handed out; no live chunk has its id."""

    content: int
    identity: int


@dataclass(frozen=True, slots=True)
class Issue(Operation):
    """A handle to a live chunk, for an item that has none."""

    request: int
    position: int
    identity: int


@dataclass(frozen=True, slots=True)
class Settle(Operation):
    """Every worker has acknowledged the handle, or it is revoked."""

    request: int
    position: int


@dataclass(frozen=True, slots=True)
class Forget(Operation):
    """A chunk that may go has gone."""

    identity: int


def enter(config: Config, books: Any, op: Enter) -> tuple[Any, Outcome]:
    """As `writer.put`."""
    if books.owners.has(op.identity) or books.listed.has(op.content):
        return books, ABSENT
    return accounting.enter(books, books.ring, op.content, op.identity), DONE


def issue(config: Config, books: Any, op: Issue) -> tuple[Any, Outcome]:
    """As `writer.handed_out`."""
    if books.tickets.has((op.request, op.position)) or not books.owners.has(op.identity):
        return books, ABSENT
    return accounting.issue(books, (op.request, op.position), op.identity), DONE


def settle(config: Config, books: Any, op: Settle) -> tuple[Any, Outcome]:
    """As `writer.settled` and `journeys.revoked`, which settle without asking first."""
    return accounting.settle(books, (op.request, op.position)), DONE


def forget(config: Config, books: Any, op: Forget) -> tuple[Any, Outcome]:
    """As `writer.without_oldest`."""
    if not books.owners.has(op.identity) or not accounting.may_go(books, op.identity):
        return books, ABSENT
    return accounting.forget(books, op.identity), DONE


def initial(config: Config, containers: Containers) -> Books:
    """No chunks, no handles."""
    listed, owners, epochs, issued, tickets, withdrawn, protected, metadata = (containers.map() for _ in range(8))
    return Books(0, listed, owners, epochs, issued, tickets, withdrawn, protected, metadata, 0, -1)


def calls(config: Config, books: Books) -> list[Operation]:
    """For the witnesses: two ids, two requests of one item."""
    chosen = [Enter(content, identity) for content in range(config.contents) for identity in range(2)]
    handles = [Issue(request, 0, identity) for request in range(2) for identity in range(2)]
    return [*chosen, *handles, *(Settle(request, 0) for request in range(2)), *(Forget(one) for one in range(2))]


ACCOUNTING: Variant[Config, Books, Books] = Variant(
    tag=NORMATIVE,
    title="the books of the normative store",
    state=Books,
    initial=initial,
    transitions={Enter: enter, Issue: issue, Settle: settle, Forget: forget},
    view=lambda config, books: books,
    alphabet=calls,
)


def the_chunk(config: Any) -> Any:
    """A ticket is counted by its chunk."""
    return lambda identity: identity


def handles_are_counted(config: Any, books: Any) -> SymbolicBoolean:
    """SHM-3: for each chunk as many handles as there are tickets for it, and none for what is not live."""
    counts, issued = books.tickets.tally.counts, books.issued

    def right(identity: Term) -> Term:
        live = z3.Implies(issued.members[identity], issued.values[identity] == counts[identity])
        return z3.And(live, z3.Implies(z3.Not(issued.members[identity]), counts[identity] == 0), counts[identity] >= 0)

    return SymbolicBoolean(every(issued.key, right))


def tables_agree(config: Any, books: Any) -> SymbolicBoolean:
    """SHM-4: owners, epochs and counts have the same chunks."""
    owners, epochs, issued = books.owners, books.epochs, books.issued

    def right(identity: Term) -> Term:
        there = owners.members[identity]
        return z3.And(there == epochs.members[identity], there == issued.members[identity])

    return SymbolicBoolean(every(issued.key, right))


def what_is_out_stays(move: Move) -> SymbolicBoolean:
    """SHM-2: the chunk that went had no ticket."""
    counts, identity = move.before.tickets.tally.counts, move.operation.identity.term
    return both(SymbolicBoolean(counts[identity] == 0))


def epoch_is_a_number(config: Any, books: Any) -> SymbolicBoolean:
    """It counts up from 0."""
    return both(books.epoch >= 0)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """Names and ids are numbers from 0 on."""
    if type(operation) in (Enter, Issue, Forget):
        yield operation.identity >= 0
    if type(operation) is Enter:
        yield operation.content >= 0


PROOF = Proof(
    component="object_store",
    variant=ACCOUNTING,
    config=Config,
    invariants=(
        Invariant("SHM-3/tickets", "the handle count of each chunk equals its number of tickets", handles_are_counted),
        Invariant("SHM-4/tables", "owners, epochs and counts have the same chunks", tables_agree),
        Invariant("SHM-5/epoch", "the epoch is not negative", epoch_is_a_number),
    ),
    laws=(
        Law(
            "SHM-2/gone",
            "a chunk that goes has no ticket",
            (Forget,),
            what_is_out_stays,
            lambda move: move.outcome.code is Code.DONE,
        ),
    ),
    witnesses=(Config(contents=2),),
    environment=environment,
    tallies={"tickets": the_chunk},
    by_value=("tickets",),
)

PROOFS = (PROOF,)
