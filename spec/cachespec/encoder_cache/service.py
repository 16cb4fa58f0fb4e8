"""How the encoder cache serves a recorded workload: a pass for each request, with the calls of the engine's scheduler.

An input is checked; where it is absent, room is asked for beside what was granted before in the pass. Only when all
inputs have their room are they allocated, and an input whose content was granted already refers to it then. Otherwise
the attempt is abandoned, and the request waits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.operations import (
    ENCODER,
    Abandon,
    Allocate,
    CanAllocate,
    CheckAndUpdate,
    FreeRequest,
    Report,
)
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import Check, Code, Demand, Operation, Outcome, Request, Script, Served, Service


class Attempt(NamedTuple):
    """What looking at the inputs of one request gave."""

    hits: tuple[bool, ...]
    granted: tuple[int, ...]
    """Positions."""
    repeated: tuple[int, ...]
    """Positions whose content was granted at an earlier position."""
    refused: bool


def configure(demand: Demand) -> Config:
    """The sizes of the workload are embeddings; callers keep to the order of the engine's scheduler."""
    return Config(demand.capacity, demand.sizes, demand.requests, disciplined=1, failures=1)


def look(config: Config, request: Request) -> Generator[Operation, Outcome, Attempt]:
    """Check every input, also after a refusal, so that each has been looked up; ask for room until one is refused."""
    hits: list[bool] = []
    granted: dict[int, int] = {}
    repeated: list[int] = []
    pending, refused = 0, False
    for position, content in enumerate(request.contents):
        if content in granted:
            repeated.append(position)
            hits.append(True)
            continue
        answer = yield CheckAndUpdate(request.name, position)
        hits.append(answer.code is Code.HIT)
        if answer.code is Code.MISS and not refused:
            size = config.sizes[content]
            answer = yield CanAllocate(request.name, position, size, pending)
            refused = answer.code is not Code.DONE
            if not refused:
                granted[content] = position
                pending += size
    return Attempt(tuple(hits), tuple(granted.values()), tuple(repeated), refused)


def admit(config: Config, request: Request) -> Script:
    """One pass: look at the inputs, then allocate what was granted, or abandon the attempt; then report."""
    attempt = yield from look(config, request)
    if attempt.refused:
        yield Abandon(request.name, ENCODER)
        yield Report()
        return Served(attempt.hits, admitted=False)
    for position in attempt.granted:
        yield Allocate(request.name, position)
    for position in attempt.repeated:
        yield CheckAndUpdate(request.name, position)
    yield Report()
    return Served(attempt.hits)


def finish(config: Config, request: Request) -> tuple[Operation, ...]:
    """The request is finished."""
    return (FreeRequest(request.name),)


def counts_are_in_range(config: Config, cache: Cache) -> bool:
    return 0 <= cache.free <= cache.freeable <= config.capacity


CHECKS: tuple[Check, ...] = (
    Check("ENC-1", "0 <= free <= freeable <= capacity", counts_are_in_range),
    Check(
        "ENC-2",
        "the free slots and the sizes of the resident entries sum to the capacity",
        lambda c, s: s.free + s.sizes.total == c.capacity,
    ),
    Check(
        "ENC-2/freeable",
        "freeable slots equal free slots plus the sizes of unreferenced entries",
        lambda c, s: s.freeable == s.free + s.idle.total,
    ),
    Check(
        "ENC-3",
        "each resident entry is either unreferenced or held",
        lambda c, s: s.idle.length + s.references.length == s.sizes.length,
    ),
    Check(
        "ENC-5",
        "the reference counts sum to the number of held inputs",
        lambda c, s: s.references.total == s.held.length,
    ),
    Check("ENC-9", "all grants fit the free slots", lambda c, s: s.promised.total <= s.free),
)

SERVICE: Service[Config] = Service(configure=configure, admit=admit, finish=finish, checks=CHECKS)
