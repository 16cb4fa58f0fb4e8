"""The KV blocks, for any pool, any requests, any chains and hashes, and any number of blocks in tables.

The proof leaves some facts arbitrary: which content is in which block and its hash, which blocks a look-up hits, how
many blocks a number of tokens needs, and the order of copies. References and the free queue depend on none of them. The
call for two groups of layers is explored and not proved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.block_tables import (
    INVARIANTS,
    LOOPS,
    block_itself,
    filled_blocks,
    is_pooled,
    no_reference_is_lost,
    pair_of,
)
from cacheproof.prove.containers import every
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, integer, integer_term, path
from cacheproof.prove.loops import modules_of
from cacheproof.prove.proof import Law, Move, Proof
from cacheproof.prove.sequences import SymbolicSequence, Unknown, length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import unchanged
from cachespec import kv_blocks
from cachespec.kernel import Code
from cachespec.kv_blocks import rolling_back, transitions
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    Commit,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
    Withdraw,
)

NORMATIVE = kv_blocks.COMPONENT.normative.lacking({AllocateGroups: "explored, not proved"})


# Laws ---------------------------------------------------------------------------------------------------------------


def failure_changes_nothing(move: Move) -> SymbolicBoolean:
    """KV-8."""
    return unchanged(move.before, move.after)


def has_no_table(move: Move) -> SymbolicBoolean:
    """The request is gone, and so are its places."""
    request = integer_term(move.operation.request)
    after = move.after

    def right(place: Term) -> Term:
        return z3.Implies(pair_of(place)[0] == request, z3.Not(after.tables.members[place]))

    return both(SymbolicBoolean(every(after.tables.key, right)), ~both(after.holdings.has(move.operation.request)))


def others_are_left_alone(move: Move) -> SymbolicBoolean:
    """KV-5, of the requests that the call does not name."""
    before, after, request = move.before.tables, move.after.tables, integer_term(move.operation.request)

    def right(place: Term) -> Term:
        same = z3.And(
            before.members[place] == after.members[place],
            z3.Implies(before.members[place], before.values[place] == after.values[place]),
        )
        return z3.Implies(pair_of(place)[0] != request, same)

    return SymbolicBoolean(every(before.key, right))


def nothing_leaves_a_table(move: Move) -> SymbolicBoolean:
    """KV-5: what stands in a table stands there afterwards."""
    before, after = move.before.tables, move.after.tables

    def right(place: Term) -> Term:
        kept = z3.And(after.members[place], after.values[place] == before.values[place])
        return z3.Implies(before.members[place], kept)

    return SymbolicBoolean(every(before.key, right))


def only_an_allocation_gives(move: Move) -> SymbolicBoolean:
    """A place that was not in a table is in one afterwards only by an allocation, for its request."""
    before, after, operation = move.before.tables, move.after.tables, move.operation

    def right(place: Term) -> Term:
        new = z3.And(after.members[place], z3.Not(before.members[place]))
        if type(operation) is not AllocateSlots:
            return z3.Not(new)
        return z3.Implies(new, pair_of(place)[0] == integer_term(operation.request))

    return SymbolicBoolean(every(before.key, right))


def held_stays_held(move: Move) -> SymbolicBoolean:
    """KV-9: what somebody holds is not taken."""
    return no_reference_is_lost(move.before, move.after)


LAWS = (
    Law(
        "KV-8",
        "a call that is not done changes nothing",
        (AllocateSlots, Commit, RollBack, FreeRequest, Withdraw, ResetPrefixCache, GetComputedBlocks),
        failure_changes_nothing,
        lambda move: move.outcome.code is not Code.DONE,
    ),
    Law(
        "KV-5",
        "a table only grows",
        (AllocateSlots, Commit, RollBack, GetComputedBlocks),
        nothing_leaves_a_table,
    ),
    Law("KV-9/held", "held blocks stay held", (AllocateSlots,), held_stays_held),
    Law(
        "KV-5/others",
        "the tables of other requests are left alone",
        (AllocateSlots, RollBack, FreeRequest, Withdraw),
        others_are_left_alone,
    ),
    Law(
        "KV-5/freed",
        "a request that is freed has no table, and no place in one",
        (FreeRequest, Withdraw),
        has_no_table,
    ),
    Law(
        "KV-5/given",
        "only an allocation gives blocks, and to its own request",
        (AllocateSlots, Commit, RollBack, FreeRequest, Withdraw, ResetPrefixCache, GetComputedBlocks),
        only_an_allocation_gives,
    ),
)


# What may be anything -----------------------------------------------------------------------------------------------


def some_integer(*_: Any) -> Any:
    """Any integer."""
    return integer("anything")


def some_content(*_: Any) -> Any:
    """Any content."""
    content = integer("content")
    assume(content >= 0)
    return content


def some_blocks(*_: Any) -> Any:
    """Any blocks."""
    return SymbolicSequence.fresh(INTEGER, "blocks")


def nothing_known(*_: Any) -> Any:
    """A result that no claim reads."""
    return Unknown()


def some_answer(*_: Any) -> Any:
    """Yes or no."""
    return SymbolicBoolean(path().fresh("answer", z3.BoolSort()))


REPLACED = (
    (transitions, "content_of", some_content),
    (transitions, "hash_of", some_integer),
    (transitions, "limit_of", some_integer),
    (transitions, "blocks_for", some_integer),
    (transitions, "full_blocks", filled_blocks),
    (transitions, "cached_prefix", some_blocks),
    (transitions, "without", some_blocks),
    (transitions, "blocks_from", nothing_known),
    (transitions, "is_common", some_answer),
    (rolling_back, "full_blocks", filled_blocks),
)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A pool, and a call that names a request and blocks that there are."""
    yield both(config.blocks > 0, config.block_size > 0)
    if hasattr(operation, "request"):
        yield both(operation.request >= 0, operation.request < length(config.lengths))
    if type(operation) is AllocateSlots:
        yield blocks_are_there(config, operation.hits)
    if type(operation) is Commit:
        yield operation.computed >= 0


def blocks_are_there(config: Any, hits: Any) -> SymbolicBoolean:
    """Each of the hits is a block of the pool."""
    place = z3.Int("place")
    inside = z3.And(place >= 0, place < hits.length)
    return SymbolicBoolean(z3.ForAll([place], z3.Implies(inside, is_pooled(config, hits.items[place]))))


PROOF = Proof(
    component="kv_blocks",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        Config(2, 4, ((0, 1), (0, 2)), (4, 5), steps=(2, 4), withdrawals=1, evictions=1, resets=1, commons=1),
        Config(1, 2, ((0,), (1,)), (1, 2), steps=(1,), withdrawals=1, evictions=1, resets=1, disciplined=0),
        Config(1, 4, ((0, 1), (0, 2)), (2, 2), steps=(1,), rollbacks=1),
    ),
    environment=environment,
    loops=LOOPS,
    modules=modules_of(kv_blocks),
    replaced=REPLACED,
    tallies={"tables": block_itself},
    by_value=("tables",),
)

PROOFS = (PROOF,)
