"""Which steps a scope makes in a state: those that can take effect, and the calls and faults that it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cachespec.kernel import Operation
from cachespec.publication.configuration import Config
from cachespec.publication.operations import (
    Acknowledge,
    Allocate,
    Appear,
    Clear,
    Copy,
    Free,
    Open,
    Publish,
    ReaderDies,
    Restart,
    WriteCounts,
    WriteData,
    WriteHeader,
)
from cachespec.publication.state import COUNTS, DATA, HEADER, IDLE, IDLE_READER, NONE, RESERVED, Exchange
from cachespec.publication.transitions import may_appear, unanswered

NEXT: Mapping[int, Operation] = {RESERVED: WriteHeader(), HEADER: WriteCounts(), COUNTS: WriteData(), DATA: Publish()}
"""What the writer does next with a chunk."""


def steps(config: Config, exchange: Exchange) -> Iterable[Operation]:
    """The steps, in a fixed order."""
    if exchange.writing.stage == IDLE:
        yield from between_chunks(config, exchange)
    else:
        yield NEXT[exchange.writing.stage]
    for which in range(len(exchange.pending)):
        if may_appear(exchange, which):
            yield Appear(which)
    for reader in range(config.readers):
        yield from steps_of(config, exchange, reader)
    if exchange.number < config.restarts:
        yield Restart()


def between_chunks(config: Config, exchange: Exchange) -> Iterable[Operation]:
    """What the writer may do when it is not busy with one."""
    room = config.outstanding == 0 or len(unanswered(exchange)) + config.readers <= config.outstanding
    if room and (config.buffer == 0 or len(exchange.pending) < config.buffer):
        for content in range(len(config.sizes)):
            yield Allocate(content)
    yield Free()
    if config.clears:
        yield Clear()


def steps_of(config: Config, exchange: Exchange, reader: int) -> Iterable[Operation]:
    """What a reader may do, or suffer."""
    reading = exchange.readers[reader]
    if reading.opened == NONE:
        if reading.handles:
            yield Open(reader)
    elif len(reading.units) < reading.size:
        yield Copy(reader)
    else:
        yield Acknowledge(reader)
    if config.deaths and reading != IDLE_READER:
        yield ReaderDies(reader)


def unknown(config: Config, operation: Operation) -> str | None:
    """A store that there cannot be."""
    if isinstance(operation, Appear) and operation.which >= config.capacity * len(config.sizes) * config.modulus:
        return f"there is no store {operation.which}"
    return None
