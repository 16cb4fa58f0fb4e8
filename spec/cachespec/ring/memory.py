"""The bytes that writer and readers share: a chunk is two fields, its id and its size, and then the payload.

The payload of a chunk repeats one number, by which it is known; memory that was never written holds 0.
"""

from __future__ import annotations

from cachespec.kernel import Map
from cachespec.ring.configuration import BASE, Config, Content, Id, Place, size_of

Memory = Map[Place, int]


def mark(content: Content) -> int:
    """What each unit of the content's payload holds: never 0."""
    return content + 1


def write_field(config: Config, memory: Memory, at: Place, value: int) -> Memory:
    """A number, the lowest unit first."""
    for unit in range(config.header // 2):
        memory = memory.set(at + unit, value % BASE)
        value = value // BASE
    return memory


def read_field(config: Config, memory: Memory, at: Place) -> int:
    """The number stored there, by any writer."""
    value = 0
    for unit in range(config.header // 2):
        value = value * BASE + memory.get(at + config.header // 2 - 1 - unit, 0)
    return value


def write_chunk(config: Config, memory: Memory, at: Place, identity: Id, content: Content) -> Memory:
    """The id, the size, and the payload."""
    size = size_of(config, content)
    memory = write_field(config, memory, at, identity)
    memory = write_field(config, memory, at + config.header // 2, config.header + size)
    for unit in range(size):
        memory = memory.set(at + config.header + unit, mark(content))
    return memory


def read_id(config: Config, memory: Memory, at: Place) -> Id:
    """The id that is there."""
    return read_field(config, memory, at)


def read_size(config: Config, memory: Memory, at: Place) -> int:
    """The size that is there, header included."""
    return read_field(config, memory, at + config.header // 2)


def read_payload(config: Config, memory: Memory, at: Place) -> tuple[int, ...]:
    """As much payload as the size that is there says, and not beyond the end of the data."""
    units: tuple[int, ...] = ()
    end = min(at + read_size(config, memory, at), config.capacity)
    for unit in range(config.capacity):
        if at + config.header + unit < end:
            units = (*units, memory.get(at + config.header + unit, 0))
    return units


def wiped(config: Config, memory: Memory) -> Memory:
    """Memory that was never written."""
    for unit in range(config.capacity):
        memory = memory.remove(unit)
    return memory
