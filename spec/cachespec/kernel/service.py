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

A component that serves all requests in common steps has `Rounds` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from cachespec.kernel.operation import Operation
from cachespec.kernel.outcome import Outcome

Config = TypeVar("Config")


class Tokens(NamedTuple):
    """One request in tokens. Its contents are then the full blocks of its prompt."""

    prompt: int
    length: int
    """Tokens that get KV: of the prompt, and of the output all but the last one."""
    output: int = 0
    """Tokens that are generated."""
    appended: tuple[int, ...] = ()
    """The contents of the blocks that the output fills, behind those of the prompt."""


class Engine(NamedTuple):
    """What a workload of rounds assumes of the engine."""

    token_budget: int
    """Tokens of one round."""
    max_running: int
    """Requests that may run at once."""


class Demand(NamedTuple):
    """What a workload asks of a component: enough to choose a configuration of production size."""

    capacity: int
    """In the unit of the sizes."""
    sizes: tuple[int, ...]
    """Of each content; its position is the content's name."""
    requests: tuple[tuple[int, ...], ...]
    """The contents of each request, in the order of arrival; its position is the request's name."""
    block_size: int = 1
    """Tokens in a content, where contents are blocks of tokens."""
    tokens: tuple[Tokens, ...] = ()
    """Of each request. Empty where the workload does not say: a content is one block then."""
    engine: Engine | None = None
    """Where the workload is one of rounds."""
    window: int = 0
    """Tokens of a sliding window in a second group of layers; 0: full attention only."""


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


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure of a state in constant time, of which a replay reports the greatest."""

    name: str
    statement: str
    value: Callable[[Any, Any], int]
    """Takes the configuration and the state of the normative variant, as a check does."""


def _nothing(config: Any, request: Request) -> tuple[Operation, ...]:
    """No calls."""
    return ()


@dataclass(frozen=True, slots=True)
class Service(Generic[Config]):
    """How one component serves a workload.

    `configure` gives the configuration for a demand; it must be one that the component calls valid. `admit` looks the
    contents up and makes room for them; `compute` is called when the prompt has been computed, and `finish` gives back
    what the request holds. `checks` hold after every call.
    """

    configure: Callable[[Demand], Config]
    admit: Callable[[Config, Request], Script]
    compute: Callable[[Config, Request], tuple[Operation, ...]] = _nothing
    finish: Callable[[Config, Request], tuple[Operation, ...]] = _nothing
    checks: tuple[Check, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    windows: bool = False
    """Whether it serves a workload with a sliding window beside full attention."""


class Told(NamedTuple):
    """What a round was, as the workers are told."""

    scheduled: tuple[tuple[int, int], ...]
    """Each request that is scheduled, and how many of its tokens."""
    preempted: int
    """How many requests lost what they had."""


@dataclass(frozen=True, slots=True)
class Rounds(Generic[Config]):
    """How one component serves a workload in rounds: requests arrive, and each round does some of their tokens.

    `arrive` is DONE, or the request can never be served. `begin` is DONE where there was something to do, and then
    `told` says what it was; `end` follows when that was executed, and its values are the requests that it finished.
    """

    configure: Callable[[Demand], Config]
    arrive: Callable[[Request], Operation]
    begin: Operation
    end: Operation
    told: Callable[[Any], Told]
    checks: tuple[Check, ...] = ()
    gauges: tuple[Gauge, ...] = ()
