"""What stands for the ring, the memory, and the searches among requests and workers, for an object store."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, assume, both, integer, integer_term
from cacheproof.prove.object_store.handles import READER, REQUEST, awaits, is_walked, over
from cacheproof.prove.object_store.values import SLOT
from cacheproof.prove.ring.chunks import any_free, any_reserve
from cachespec import ring
from cachespec.object_store import journeys, writer

Store = Any

# Stand-ins ----------------------------------------------------------------------------------------------------------


def ring_config(config: Any) -> Any:
    """As `configuration.ring_config`, which keeps its answers by configuration."""
    return ring.Config(
        capacity=config.capacity,
        modulus=config.modulus,
        header=config.header,
        sizes=config.payloads,
        readers=config.readers,
    )


def is_acknowledged(store: Store, slot: Any) -> SymbolicBoolean:
    """By its definition: every worker's cell has this handle."""
    return SymbolicBoolean(over(store.workers.length, READER, store.workers.cells[READER][SLOT.encode(slot)]))


def any_walker(config: Any, store: Store) -> SymbolicInteger:
    """A request that P0 walks, or none if there is none: see `WALKS`."""
    one = integer("walker")
    assume(is_walker(config, store, one))
    return one


def is_walker(config: Any, store: Store, answer: Any) -> SymbolicBoolean:
    """It is a request that P0 walks; -1 if there is none."""
    requests, one = store.requests, integer_term(answer)
    none = z3.ForAll(
        [REQUEST],
        z3.Implies(z3.And(REQUEST >= 0, requests.length > REQUEST), z3.Not(is_walked(config, requests, REQUEST))),
    )
    some = z3.And(one >= 0, one < requests.length, is_walked(config, requests, one))
    return SymbolicBoolean(z3.Or(z3.And(one == -1, none), some))


def may_begin(config: Any, store: Store) -> SymbolicBoolean:
    """By its definition, with the count of rendered requests that is kept beside them."""
    left = both(store.protected.length > 0, any_walker(config, store) == -1)
    return both(SymbolicInteger(store.requests.rendering) < config.concurrent, ~left)


def may_walk(config: Any, store: Store, request: Any) -> SymbolicBoolean:
    """By its definition, without a decision."""
    current = any_walker(config, store)
    return both(current == request) | both(current == -1, store.protected.length == 0)


def has_to_do(store: Store, request: Any) -> SymbolicBoolean:
    """By its definition: some worker's inbox has something for the request."""
    return SymbolicBoolean(awaits(store.workers, integer_term(request)))


PLACE_OF = z3.Function("place_of", z3.IntSort(), z3.IntSort(), z3.IntSort())


def place_of(config: Any, address: Any) -> SymbolicInteger:
    """Any function of the capacity and the address."""
    return SymbolicInteger(PLACE_OF(integer_term(config.capacity), integer_term(address)))


def any_memory(config: Any, memory: Any, *written: Any) -> Any:
    """Whatever stands there afterwards."""
    return states.fresh_like(memory, "memory")


REPLACED: tuple[tuple[ModuleType, str, Any], ...] = (
    (writer, "ring_config", ring_config),
    (writer, "reserve", any_reserve),
    (writer, "free_chunks", any_free),
    (writer, "is_acknowledged", is_acknowledged),
    (writer, "may_begin", may_begin),
    (writer, "may_walk", may_walk),
    (writer, "walker", any_walker),
    (writer, "has_to_do", has_to_do),
    (journeys, "has_to_do", has_to_do),
    (writer, "place_of", place_of),
    (writer, "write", any_memory),
    (writer, "write_header", any_memory),
    (writer, "write_data", any_memory),
)
