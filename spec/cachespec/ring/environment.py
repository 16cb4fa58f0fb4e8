"""Which calls a scope makes in a state, and which of two states are one."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import Operation
from cachespec.ring.configuration import Config
from cachespec.ring.operations import Allocate, Clear, Free, Read, Restart, Revoke
from cachespec.ring.state import Handle, Segment


def calls(config: Config, segment: Segment) -> Iterable[Operation]:
    """The calls, in a fixed order."""
    if config.outstanding == 0 or segment.handles.total + config.readers <= config.outstanding:
        for content in range(len(config.sizes)):
            yield Allocate(content)
    for handle in out(segment):
        yield Read(*handle)
        if config.revocations:
            yield Revoke(*handle)
    for want in config.wants or (config.capacity,):
        yield Free(want)
    if config.clears:
        yield Clear()
    if segment.number < config.restarts:
        yield Restart()


def readable(config: Config, segment: Segment) -> Segment:
    """The representative: memory in which nothing is but live chunks.

    A chunk is written as a whole before anyone has a handle to it, and normatively a handle leads to a live chunk or is
    refused before memory is looked at. So nobody reads anything else. The eras have handles that lead elsewhere, and
    keep everything.
    """
    kept: set[int] = set()
    for identity, start in segment.ring.starts.items():
        at = start % config.capacity
        kept |= set(range(at, at + segment.ring.sizes.get(identity, 0)))
    unread = [unit for unit, _ in segment.memory.items() if unit not in kept]
    memory = segment.memory
    for unit in unread:
        memory = memory.remove(unit)
    return segment._replace(memory=memory)


def out(segment: Segment) -> tuple[Handle, ...]:
    """The handles that may be presented."""
    return tuple(handle for handle, _ in segment.handles.items())


def unknown(config: Config, operation: Operation) -> str | None:
    """An id, a place or a segment that there cannot be."""
    if isinstance(operation, Read | Revoke):
        if operation.identity >= config.modulus:
            return f"there is no id {operation.identity}: ids are less than {config.modulus}"
        if operation.place >= config.capacity:
            return f"there is no place {operation.place}: the data has {config.capacity} units"
    return None
