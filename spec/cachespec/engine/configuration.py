"""Which frontends, requests and workers an engine has, and what its parts see of that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cachespec import mirror, object_store, scheduler
from cachespec.kernel import Name, Unspecified, apart, is_on, joined, not_together
from cachespec.object_store.configuration import Config as StoreConfig
from cachespec.scheduler.configuration import CONTENT, is_turn, items_of

Request = Annotated[int, Name("request")]
SenderName = Annotated[int, Name("sender")]
WorkerName = Annotated[int, Name("worker")]

HEADER = 2
"""Units before an item in shared memory."""
IDS = 8
"""How many ids chunks have, before they begin again."""


class Own(NamedTuple):
    """The settings of an engine, in addition to those of its scheduler."""

    sizes: tuple[int, ...]
    """Bytes of each content, as the mirror weighs it."""
    mirror_capacity: int
    """Bytes of each frontend's cache, and of its partition at P1."""
    senders: tuple[int, ...] = ()
    """The frontend of each request; empty if there is one frontend."""
    shared_memory: int = 0
    """1: items travel through the object store, and there is no mirror."""
    store_capacity: int = 0
    """Units of shared memory, if it is used; `sizes` are in the same units."""
    workers: int = 1
    """Worker processes."""
    channel: int = 2
    """Messages and answers in flight between frontends and P1."""
    resets: int = 0
    """How many times one of the caches may be reset."""


if TYPE_CHECKING:
    Config = Own
else:
    Config = joined("Config", Own, scheduler.Config)
    """All settings of the scheduler, and an engine's own. `scheduler_config` gives the former with their types."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.workers < 1 or config.resets < 0:
        return "workers must be positive, and resets not negative"
    if config.shared_memory not in (0, 1):
        return f"shared_memory must be 0 or 1, not {config.shared_memory}"
    wrong = scheduler.COMPONENT.invalid(scheduler_config(config))
    if wrong is not None:
        return wrong
    if config.senders and (len(config.senders) != len(requests(config)) or min(config.senders) < 0):
        return f"senders must be given for each of the {len(requests(config))} requests, none of them negative"
    if max((content for request in requests(config) for content in contents_of(config, request)), default=0) >= len(
        config.sizes
    ):
        return "every content of an item must have a size"
    return mirror.COMPONENT.invalid(mirror_config(config)) or (
        object_store.COMPONENT.invalid(store_config(config)) if config.shared_memory else None
    )


def uses_memory(config: Config) -> bool:
    """Whether items travel through shared memory."""
    return config.shared_memory == 1


def is_ahead(config: Config) -> bool:
    """Whether a step may be scheduled while another one is in flight."""
    return scheduler_config(config).ahead > 1


def requests(config: Config) -> range:
    """The names of all requests."""
    return range(len(scheduler_config(config).prompts))


def sender_of(config: Config, request: Request) -> SenderName:
    """The frontend that the client of this request speaks to."""
    return config.senders[request] if config.senders else 0


def frontends(config: Config) -> int:
    """How many frontends there are."""
    return max(config.senders, default=0) + 1


def contents_of(config: Config, request: Request) -> tuple[int, ...]:
    """What the request's message shows, in the order of its prompt: of a turn, the items of its own input."""
    told = scheduler_config(config)
    before = len(items_of(told, request - 1)) if is_turn(told, request) else 0
    return tuple(item[CONTENT] for item in items_of(told, request)[before:])


@cache
def scheduler_config(config: Config) -> scheduler.Config:
    """What the scheduler sees: each of its settings. Resets are counted here, so there they are always possible."""
    settings = {name: getattr(config, name) for name in scheduler.Config._fields}
    return scheduler.Config(**settings)._replace(resets=min(config.resets, 1))


@cache
def mirror_config(config: Config) -> mirror.Config:
    """What the mirror sees: requests of up to as many items as the longest has."""
    return mirror.Config(
        capacity=config.mirror_capacity,
        sizes=config.sizes,
        items=max((len(contents_of(config, request)) for request in requests(config)), default=1),
        senders=frontends(config),
        outstanding=len(requests(config)),
        channel=config.channel,
        reset=min(config.resets, 1),
    )


@cache
def store_config(config: Config) -> StoreConfig:
    """What the object store sees; where there is none, the least one."""
    largest = max(config.sizes, default=1)
    return StoreConfig(
        capacity=max(config.store_capacity, largest + HEADER),
        payloads=config.sizes,
        requests=tuple(contents_of(config, request) for request in requests(config)),
        largest=largest,
        readers=config.workers,
        header=HEADER,
        modulus=IDS,
        touches=1,
        skips=1,
        aborts=scheduler_config(config).aborts,
        preempts=1,
        clears=min(config.resets, 1),
    )


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """All blocks. Contents are weighed by the mirror and counted by the scheduler: none is like another."""
    return {
        **scheduler.COMPONENT.interchangeable(scheduler_config(config)),
        "sender": apart(frontends(config)),
        "worker": apart(config.workers),
    }


UNSPECIFIED: tuple[Unspecified[Config], ...] = (
    Unspecified("ahead above 1 together with shared_memory", lambda config: uses_memory(config) and is_ahead(config)),
    Unspecified(
        "several senders together with shared_memory", lambda config: uses_memory(config) and frontends(config) > 1
    ),
    *not_together("shared_memory", "running_resets", "turns"),
    Unspecified(
        "ahead above 1 together with load_failures",
        lambda config: is_ahead(config) and scheduler_config(config).load_failures == 1,
    ),
    Unspecified("encoder_connector for an engine", lambda config: is_on(config, "encoder_connector")),
    Unspecified("pooling for an engine", lambda config: is_on(config, "pooling")),
)
"""What an engine has no rules for, beside what its scheduler has none for."""
