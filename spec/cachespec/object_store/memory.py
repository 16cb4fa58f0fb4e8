"""What stands in the shared memory: chunks as their readers see them, written by P0 alone.

A write goes over whatever stood there. A chunk whose beginning it covers is gone: no header is there any more, only
bytes that happen to be no id. A chunk that it reaches into from behind keeps its header, and its bytes are of no single
content.
"""

from __future__ import annotations

from cachespec.kernel import Map
from cachespec.object_store.configuration import NOTHING, Config
from cachespec.object_store.state import Block, Handle, Store, Writing
from cachespec.ring.configuration import Address, Place

NOBODY = Block(NOTHING, NOTHING, NOTHING, NOTHING, 0, NOTHING)
"""No chunk begins here."""


def place_of(config: Config, address: Address) -> Place:
    """Where an address is, however many laps it counts."""
    return address % config.capacity


def found_at(config: Config, store: Store, handle: Handle) -> Block:
    """What stands where the handle points."""
    return store.memory.get(place_of(config, handle.address), NOBODY)


def cleared_for(config: Config, memory: Map[Place, Block], place: Place, units: int) -> Map[Place, Block]:
    """The memory after a write of `size` units from this address on."""
    for other in range(config.capacity):
        block = memory.get(other, NOBODY)
        if place <= other < place + units:
            memory = memory.remove(other)
        elif other < place < other + block.total:
            memory = memory.set(other, block._replace(data=NOTHING))
    return memory


def write(config: Config, memory: Map[Place, Block], place: Place, block: Block) -> Map[Place, Block]:
    """A whole chunk at once."""
    return cleared_for(config, memory, place, block.total).set(place, block)


def write_header(config: Config, memory: Map[Place, Block], writing: Writing) -> Map[Place, Block]:
    """The header alone: behind it are the bytes of something else, unless the data is there already."""
    block, place = writing.block, writing.place
    data = block.data if writing.data == 1 else NOTHING
    return cleared_for(config, memory, place, config.header).set(place, block._replace(data=data))


def write_data(config: Config, memory: Map[Place, Block], writing: Writing) -> Map[Place, Block]:
    """The data alone: before it stands whatever header stood there."""
    block, place = writing.block, writing.place
    before = memory.get(place, NOBODY)
    behind = cleared_for(config, memory, place, block.total)
    return behind if before == NOBODY else behind.set(place, before._replace(data=block.data))
