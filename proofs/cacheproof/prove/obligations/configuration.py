"""The caches of a deployment, for any settings: gigabytes, frontends and engines are any numbers.

The transitions read the operation and the deployment only; the choices of a scope play no part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cacheproof.prove.executor import SymbolicBoolean, both, implies
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.states import unchanged
from cachespec import configuration
from cachespec.configuration import (
    LRU,
    NO_CACHE,
    PROCESSOR_ONLY,
    READER,
    RECEIVER,
    SENDER,
    WRITER,
    Config,
    Profile,
    Start,
)
from cachespec.kernel import DONE, Code

Deployment = Any

NORMATIVE = configuration.COMPONENT.normative


def equal(one: Any, other: Any) -> SymbolicBoolean:
    """Equality of two integers, as a condition."""
    return both(one == other)


# Invariants ---------------------------------------------------------------------------------------------------------


def is_fed(deployment: Deployment) -> SymbolicBoolean:
    """Another process keeps what the frontends have on record."""
    return equal(deployment.engine, RECEIVER) | equal(deployment.worker, READER)


def sends_to_one(deployment: Deployment) -> SymbolicBoolean:
    """There is one engine, or each has frontends of its own."""
    return ~equal(deployment.external, 0) | equal(deployment.engines, 1)


def saves_sending(deployment: Deployment) -> SymbolicBoolean:
    """The frontends have the sending side of a cache."""
    return equal(deployment.frontend, SENDER) | equal(deployment.frontend, WRITER)


def has_one_sender(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """X-5."""
    return implies(is_fed(deployment), deployment.api_processes == 1)


def has_one_receiver(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """X-5/record."""
    return implies(saves_sending(deployment), sends_to_one(deployment))


def sides_agree(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """X-5/agreed."""

    def others_are(engine: int, worker: int) -> SymbolicBoolean:
        return both(deployment.engine == engine, deployment.worker == worker)

    return both(
        implies(deployment.frontend == SENDER, others_are(RECEIVER, NO_CACHE)),
        implies(deployment.frontend == WRITER, others_are(NO_CACHE, READER)),
        implies(~saves_sending(deployment), others_are(NO_CACHE, NO_CACHE)),
    )


def profiling_is_private(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """X-5/profile."""
    return both(
        deployment.made_up == 0,
        implies(deployment.enabled == 0, deployment.private == NO_CACHE),
        implies(deployment.enabled != 0, deployment.private == PROCESSOR_ONLY),
    )


def cache_is_there(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """X-5/used."""
    possible = both(deployment.api_processes == 1, sends_to_one(deployment))
    return both(
        implies(deployment.enabled == 0, deployment.frontend == NO_CACHE),
        implies(both(deployment.enabled != 0, possible), saves_sending(deployment)),
        implies(both(deployment.enabled != 0, ~possible), deployment.frontend == PROCESSOR_ONLY),
    )


def is_started_or_not(config: Any, deployment: Deployment) -> SymbolicBoolean:
    """What the refusal of profiling depends on."""
    return equal(deployment.started, 0) | equal(deployment.started, 1)


INVARIANTS = (
    Invariant(
        "X-5",
        "a cache that keeps a frontend's results in another process has exactly one sender",
        has_one_sender,
    ),
    Invariant(
        "X-5/record",
        "a frontend that records what a remote cache holds has exactly one such cache",
        has_one_receiver,
    ),
    Invariant(
        "X-5/agreed",
        "frontend, engine and workers agree on which of them holds the payloads",
        sides_agree,
    ),
    Invariant(
        "X-5/profile",
        "profiling uses a private cache and leaves nothing in any other cache",
        profiling_is_private,
    ),
    Invariant(
        "X-5/used",
        "a cache exists whenever one is possible, and saves repeated sending whenever each frontend sends to one "
        "engine",
        cache_is_there,
    ),
    Invariant("started", "a deployment is started or not", is_started_or_not),
)


# Laws ---------------------------------------------------------------------------------------------------------------


def type_is_as_asked(move: Move) -> SymbolicBoolean:
    """X-5/type."""
    asked = move.operation.cache_type
    return both(
        implies(asked == LRU, move.after.frontend != WRITER),
        implies(asked != LRU, move.after.frontend != SENDER),
    )


def settings_are_as_asked(move: Move) -> SymbolicBoolean:
    """X-5/asked."""
    op, before, after = move.operation, move.before, move.after
    if type(op) is Profile:
        known = equal(before.started, 1)
        return both(unchanged(before, after), known if move.outcome == DONE else ~known)
    cached = both(op.multimodal != 0, op.gigabytes != 0)
    return both(
        move.outcome == DONE,
        after.started == 1,
        implies(cached, after.enabled == 1),
        implies(~cached, after.enabled == 0),
        after.api_processes == op.api_processes,
        after.engines == op.engines,
        after.external == op.external,
    )


LAWS = (
    Law(
        "X-5/type",
        "a cache that avoids repeated sending has the requested type",
        (Start,),
        type_is_as_asked,
        lambda move: move.outcome.code is Code.DONE,
    ),
    Law(
        "X-5/asked",
        "a deployment has the requested settings; profiling requires a deployment and does not change it",
        (Start, Profile),
        settings_are_as_asked,
    ),
)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """Settings as `unknown` and `malformed` have them."""
    if type(operation) is Start:
        yield both(operation.gigabytes >= 0, operation.api_processes > 0, operation.engines > 0)
        for flag in (operation.multimodal, operation.external, operation.cache_type):
            yield both(flag >= 0, flag <= 1)


PROOF = Proof(
    component="configuration",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(Config(),),
    environment=environment,
)

PROOFS = (PROOF,)
