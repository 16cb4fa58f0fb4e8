"""How a recorded workload is served: the calls that an engine makes for one request, and when a hit is a hit.

A component that has a `Service` can be replayed; nothing else has to be written for it. The service knows outcomes
only, never the state, so the same script drives the specification and any implementation:

    def admit(config: Config, request: Request) -> Script:
        hits = []
        for content in request.contents:
            outcome = yield Get(content)
            hits.append(outcome.code is Code.HIT)
            if outcome.code is Code.MISS:
                yield Put(content, config.sizes[content])
        return Served(tuple(hits))
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from cachespec.kernel.operation import Operation
from cachespec.kernel.outcome import Outcome

Config = TypeVar("Config")


class Demand(NamedTuple):
    """What a workload asks of a component: enough to choose a configuration of production size."""

    capacity: int
    """In the unit of the sizes."""
    sizes: tuple[int, ...]
    """Of each content; its position is the content's name."""
    requests: tuple[tuple[int, ...], ...]
    """The contents of each request, in the order of arrival; its position is the request's name."""


class Request(NamedTuple):
    """One request of a workload."""

    name: int
    contents: tuple[int, ...]
    """In the order of the prompt; a content may occur more than once."""


class Served(NamedTuple):
    """What came of trying to admit a request."""

    hits: tuple[bool, ...]
    """For each content of the request, whether it was resident when it was looked up."""
    admitted: bool = True
    """False where the component had no room now: the request waits until another one has finished."""


Script = Generator[Operation, Outcome, Served]
"""Whole calls, one after the other; each is answered with its outcome."""


@dataclass(frozen=True, slots=True)
class Check:
    """What can be said of a state in constant time at any size: the counted part of a safety property.

    `holds` takes the configuration and the state of the normative variant, and may use only the constant-time members
    of the containers (`length`, `total`, `has`, `get`).
    """

    name: str
    statement: str
    holds: Callable[[Any, Any], bool]


def _nothing(config: Any, request: Request) -> tuple[Operation, ...]:
    """The calls at the end of a request that holds nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Service(Generic[Config]):
    """How one component serves a workload.

    `configure` gives the configuration for a demand; it must be one that the component calls valid. `admit` looks the
    contents up and makes room for them; `finish` gives back what the request holds. `checks` hold after every call.
    """

    configure: Callable[[Demand], Config]
    admit: Callable[[Config, Request], Script]
    finish: Callable[[Config, Request], tuple[Operation, ...]] = _nothing
    checks: tuple[Check, ...] = ()
