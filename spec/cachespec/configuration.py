"""Which caches for processed items there are, in which process, for which settings.

A frontend (P0) processes an item; its result goes to an engine core (P1) and from there to workers. A cache can save
the processing (P0 keeps results), or also the sending: then P0 has on record what the other side keeps, and the other
side is P1 (type "lru", see `mirror`) or the workers, in a shared memory that P0 writes (type "shm", see
`object_store`). Each process decides for itself, from the same settings, which cache it makes.

P0's record is right only if no other process changes the other side, and if there is only one other side. So each
partition of a receiver has one sender, and each sender one receiver (X-5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from cachespec.kernel import (
    DONE,
    NORMATIVE,
    REFUSED,
    Code,
    Component,
    Containers,
    Observation,
    Operation,
    Outcome,
    Safety,
    Step,
    Transitions,
    Variant,
    variants,
)

LRU, SHM = 0, 1
"""`mm_processor_cache_type`."""

NO_CACHE, PROCESSOR_ONLY, SENDER, RECEIVER, WRITER, READER = range(6)
"""What a process has: none; one that saves the processing only; the two sides of a mirror; those of an object store."""


class Config(NamedTuple):
    """Which settings a scope tries: the choices of each field of `Start`."""

    multimodal: tuple[int, ...] = (0, 1)
    """Choices of `multimodal`."""
    gigabytes: tuple[int, ...] = (0, 4)
    """Choices of `gigabytes`."""
    api_processes: tuple[int, ...] = (1, 2)
    """Choices of `api_processes`."""
    engines: tuple[int, ...] = (1, 2)
    """Choices of `engines`."""
    external: tuple[int, ...] = (0, 1)
    """Choices of `external`."""
    cache_types: tuple[int, ...] = (LRU, SHM)
    """Choices of `cache_type`."""


@dataclass(frozen=True, slots=True)
class Start(Operation):
    """Frontends, engines and workers start with these settings, after any earlier ones have stopped."""

    lane: ClassVar[tuple[str, str]] = ("operator", "deployment")

    multimodal: int
    """1: the model takes other inputs than text."""
    gigabytes: int
    """`mm_processor_cache_gb`; 0: no cache."""
    api_processes: int
    """Frontends of one deployment. Each sends to every engine of the deployment."""
    engines: int
    """`data_parallel_size`."""
    external: int
    """1: something outside balances the load; each engine is a deployment of its own, with its own frontends."""
    cache_type: int
    """`mm_processor_cache_type`, LRU or SHM."""


@dataclass(frozen=True, slots=True)
class Profile(Operation):
    """Before serving, an engine runs its model once with synthetic items of the largest size."""

    lane: ClassVar[tuple[str, str]] = ("deployment", "deployment")


class Deployment(NamedTuple):
    """Processes of one sort decide alike, so there is one field for each sort."""

    started: int = 0
    enabled: int = 0
    """1: the model takes other inputs than text, and there is memory for a cache."""
    api_processes: int = 0
    engines: int = 0
    external: int = 0
    frontend: int = NO_CACHE
    engine: int = NO_CACHE
    worker: int = NO_CACHE
    private: int = NO_CACHE
    """What profiling uses."""
    made_up: int = 0
    """Items that profiling has put into a cache from which requests are served."""


Result = tuple[Deployment, Outcome]


# Who sends to whom --------------------------------------------------------------------------------------------------


def senders_of_an_engine(deployment: Deployment) -> int:
    """Frontends that send to one engine."""
    return deployment.api_processes


def engines_of_a_sender(deployment: Deployment) -> int:
    """Engines to which one frontend sends."""
    return 1 if deployment.external > 0 else deployment.engines


def one_to_one(deployment: Deployment) -> bool:
    """X-5 (C-MIR-13): one sender for each receiver and one receiver for each sender, with any load balancer."""
    return senders_of_an_engine(deployment) == 1 and engines_of_a_sender(deployment) == 1


# Calls --------------------------------------------------------------------------------------------------------------


def with_caches(deployment: Deployment, op: Start, *, shared: bool) -> Deployment:
    """What each process makes. `shared`: the sending is saved too."""
    if deployment.enabled == 0:
        return deployment
    private = deployment._replace(private=PROCESSOR_ONLY)
    if not shared:
        return private._replace(frontend=PROCESSOR_ONLY)
    if op.cache_type == LRU:
        return private._replace(frontend=SENDER, engine=RECEIVER)
    return private._replace(frontend=WRITER, worker=READER)


def as_started(op: Start) -> Deployment:
    """The processes, without caches."""
    return Deployment(
        started=1,
        enabled=min(op.multimodal, op.gigabytes, 1),
        api_processes=op.api_processes,
        engines=op.engines,
        external=op.external,
    )


def start(config: Config, deployment: Deployment, op: Start) -> Result:
    """X-5: the sending is saved where frontends and engines are pairs, and nowhere else."""
    started = as_started(op)
    return with_caches(started, op, shared=one_to_one(started)), DONE


def profile(config: Config, deployment: Deployment, op: Profile) -> Result:
    """Profiling puts its synthetic items into a private cache, which is dropped with them."""
    return deployment, DONE if deployment.started > 0 else REFUSED


TRANSITIONS: Transitions[Config, Deployment] = {Start: start, Profile: profile}


def initial(config: Config, containers: Containers) -> Deployment:
    """Nothing runs."""
    return Deployment()


def calls(config: Config, deployment: Deployment) -> Iterable[Operation]:
    """Every choice of settings at any time, and profiling."""
    choices = (
        config.multimodal,
        config.gigabytes,
        config.api_processes,
        config.engines,
        config.external,
        config.cache_types,
    )
    for choice in product(*choices):
        yield Start(*choice)
    yield Profile()


# What must hold -----------------------------------------------------------------------------------------------------


def is_fed(deployment: Deployment) -> bool:
    """Something outside P0 keeps what P0 has on record."""
    return deployment.engine == RECEIVER or deployment.worker == READER


def has_one_sender(config: Config, deployment: Deployment) -> bool:
    return not is_fed(deployment) or deployment.api_processes == 1


def sends_to_one(deployment: Deployment) -> bool:
    """There is one engine, or something outside gives each its own frontends; not by the rule's own words."""
    return bool(deployment.external) or deployment.engines == 1


def has_one_receiver(config: Config, deployment: Deployment) -> bool:
    keeps_record = deployment.frontend in (SENDER, WRITER)
    return not keeps_record or sends_to_one(deployment)


def sides_agree(config: Config, deployment: Deployment) -> bool:
    pairs = {SENDER: (RECEIVER, NO_CACHE), WRITER: (NO_CACHE, READER)}
    return (deployment.engine, deployment.worker) == pairs.get(deployment.frontend, (NO_CACHE, NO_CACHE))


def profiling_is_private(config: Config, deployment: Deployment) -> bool:
    wanted = PROCESSOR_ONLY if deployment.enabled else NO_CACHE
    return deployment.made_up == 0 and deployment.private == wanted


def cache_is_there(config: Config, deployment: Deployment) -> bool:
    """Caching is given up nowhere without need."""
    if not deployment.enabled:
        return deployment.frontend == NO_CACHE
    saves_sending = deployment.api_processes == 1 and sends_to_one(deployment)
    return deployment.frontend in ((SENDER, WRITER) if saves_sending else (PROCESSOR_ONLY,))


def type_is_as_asked(config: Config, before: Deployment, op: Operation, outcome: Outcome, after: Deployment) -> bool:
    if not isinstance(op, Start) or outcome.code is not Code.DONE:
        return True
    return after.frontend != (WRITER if op.cache_type == LRU else SENDER)


def settings_are_as_asked(
    config: Config, before: Deployment, op: Operation, outcome: Outcome, after: Deployment
) -> bool:
    """A start always succeeds; profiling needs one, and changes nothing."""
    if isinstance(op, Profile):
        return after == before and (outcome == DONE) == (before.started == 1)
    if not isinstance(op, Start):
        return True
    settings = (after.started, after.enabled, after.api_processes, after.engines, after.external)
    cached = int(bool(op.multimodal) and bool(op.gigabytes))
    return outcome == DONE and settings == (1, cached, op.api_processes, op.engines, op.external)


SAFETY: tuple[Safety[Config, Deployment], ...] = (
    Safety(
        "X-5",
        "a cache that keeps a frontend's results in another process has exactly one sender",
        has_one_sender,
        lambda c, d: is_fed(d) and d.engines > 1,
    ),
    Safety(
        "X-5/record",
        "a frontend that records what a remote cache holds has exactly one such cache",
        has_one_receiver,
        lambda c, d: is_fed(d) and d.external > 0,
    ),
    Safety(
        "X-5/agreed",
        "frontend, engine and workers agree on which of them holds the payloads",
        sides_agree,
        lambda c, d: d.worker == READER,
    ),
    Safety(
        "X-5/profile",
        "profiling uses a private cache and leaves nothing in any other cache",
        profiling_is_private,
        lambda c, d: d.frontend == SENDER and d.private == PROCESSOR_ONLY,
    ),
    Safety(
        "X-5/used",
        "a cache exists whenever one is possible, and saves repeated sending whenever each frontend sends to one "
        "engine",
        cache_is_there,
        lambda c, d: d.frontend == PROCESSOR_ONLY,
    ),
)

STEPS: tuple[Step[Config, Deployment], ...] = (
    Step(
        "X-5/type",
        "a cache that avoids repeated sending has the requested type",
        type_is_as_asked,
        lambda c, b, op, o, a: isinstance(op, Start) and op.cache_type == SHM and a.frontend == WRITER,
    ),
    Step(
        "X-5/asked",
        "a deployment has the requested settings; profiling requires a deployment and does not change it",
        settings_are_as_asked,
        lambda c, b, op, o, a: isinstance(op, Profile) and o == REFUSED,
    ),
)


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "frontend": "cache of the frontends: 0 none, 1 processor only, 2 sender, 3 receiver, 4 writer, 5 reader",
        "engine": "cache of the engine core, numbered as `frontend`",
        "worker": "cache of the workers, numbered as `frontend`",
        "private": "cache that profiling uses, numbered as `frontend`",
    }
)
"""What each observable holds."""


def observe(config: Config, deployment: Deployment) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "frontend": deployment.frontend,
        "engine": deployment.engine,
        "worker": deployment.worker,
        "private": deployment.private,
    }


# Variants -----------------------------------------------------------------------------------------------------------


def start_if_balanced_outside(config: Config, deployment: Deployment, op: Start) -> Result:
    """C-MIR-13: with an external load balancer, the number of frontends per engine is not checked."""
    started = as_started(op)
    alone = op.api_processes == 1 and op.engines == 1
    return with_caches(started, op, shared=alone or op.external > 0), DONE


def unchanged(config: Config, deployment: Deployment) -> Deployment:
    """The state is what properties see."""
    return deployment


NORMATIVE_CONFIGURATION: Variant[Config, Deployment, Deployment] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Deployment,
    initial=initial,
    transitions=TRANSITIONS,
    view=unchanged,
    alphabet=calls,
)

BALANCED_OUTSIDE = NORMATIVE_CONFIGURATION.era(
    "M1",
    "configuration-2025-10",
    {Start: start_if_balanced_outside},
    {Start: "C-MIR-13: with an external load balancer, several frontends may send to one engine (0.11.0, 0.12)"},
)

RELEASED = NORMATIVE_CONFIGURATION.era("M3", "configuration-2026-05", {}, {})
"""0.20.2 and 0.33.0 decide as is normative."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    for name in config._fields:
        if not getattr(config, name) or min(getattr(config, name)) < 0:
            return f"{name} must be given, none of them negative"
    if min(*config.api_processes, *config.engines) == 0:
        return "api_processes and engines must be positive"
    flags = max(*config.multimodal, *config.external, *config.cache_types)
    return "multimodal, external and cache_types must be 0 or 1" if flags > 1 else None


def unknown(config: Config, operation: Operation) -> str | None:
    """Settings that no deployment has."""
    if not isinstance(operation, Start):
        return None
    if min(operation.api_processes, operation.engines) <= 0:
        return "api_processes and engines must be positive"
    flags = max(operation.multimodal, operation.external, operation.cache_type)
    return "multimodal, external and cache_type must be 0 or 1" if flags > 1 else None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Nothing has a name here."""
    return {}


COMPONENT: Component[Config, Deployment, Deployment] = Component(
    name="configuration",
    summary="which process has which cache for processed items, by settings",
    config=Config,
    malformed=malformed,
    operations=(Start, Profile),
    variants=variants(NORMATIVE_CONFIGURATION, BALANCED_OUTSIDE, RELEASED),
    observe=observe,
    observables=OBSERVABLES,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
)
