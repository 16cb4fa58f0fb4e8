"""What each call does, normatively. Where chunks are is said by `chunks`, what is in them by `memory`."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, STALE, Code, Outcome, Transitions
from cachespec.ring.chunks import clear_chunks, free_chunks, place, reserve
from cachespec.ring.configuration import Config, Content, Id, Place
from cachespec.ring.memory import read_id, read_payload, wiped, write_chunk
from cachespec.ring.operations import Allocate, Clear, Free, Read, Restart, Revoke
from cachespec.ring.state import Handle, Segment

Result = tuple[Segment, Outcome]


# Handles ------------------------------------------------------------------------------------------------------------


def handle_of(op: Read | Revoke) -> Handle:
    """The handle that the operation is about."""
    return (op.reader, op.content, op.identity, op.place, op.segment)


def issue(config: Config, segment: Segment, content: Content, identity: Id, at: Place) -> Segment:
    """A handle to the chunk for each reader."""
    handles = segment.handles
    for reader in range(config.readers):
        handle = (reader, content, identity, at, segment.number)
        handles = handles.set(handle, handles.get(handle, 0) + 1)
    return segment._replace(
        handles=handles,
        contents=segment.contents.set(identity, content),
        unanswered=segment.unanswered.set(identity, config.readers),
    )


def without_handle(segment: Segment, handle: Handle) -> Segment:
    """It will not be presented again."""
    left = segment.handles.get(handle, 0) - 1
    handles = segment.handles.set(handle, left) if left > 0 else segment.handles.remove(handle)
    return segment._replace(handles=handles)


def answered(segment: Segment, identity: Id) -> Segment:
    """One handle fewer keeps the chunk of this id."""
    left = segment.unanswered.get(identity, 0) - 1
    unanswered = segment.unanswered
    return segment._replace(unanswered=unanswered.set(identity, left) if left > 0 else unanswered.remove(identity))


def may_go(segment: Segment, identity: Id) -> bool:
    """SHM-2: every handle to the chunk is answered, or revoked."""
    return not segment.unanswered.has(identity)


# Calls --------------------------------------------------------------------------------------------------------------


def allocate(config: Config, segment: Segment, op: Allocate) -> Result:
    """SHM-1, SHM-7: the chunk is reserved and written, or nothing happens."""
    ring, outcome = reserve(config, segment.ring, config.sizes[op.content])
    if outcome.code is not Code.DONE:
        return segment, outcome
    address, identity = outcome.values
    at = place(config, address)
    memory = write_chunk(config, segment.memory, at, identity, op.content)
    return issue(config, segment._replace(ring=ring, memory=memory), op.content, identity, at), outcome


def read(config: Config, segment: Segment, op: Read) -> Result:
    """SHM-10: what is found in the place is believed only with the id and the segment of the handle.

    SHM-9: memory stays as it is.
    """
    if not segment.handles.has(handle_of(op)):
        return segment, ABSENT
    left = without_handle(segment, handle_of(op))
    if op.segment != segment.number or read_id(config, segment.memory, op.place) != op.identity:
        return left, STALE
    return answered(left, op.identity), Outcome(Code.HIT, read_payload(config, segment.memory, op.place))


def revoke(config: Config, segment: Segment, op: Revoke) -> Result:
    """SHM-8: a handle that will never be presented keeps no chunk (C-SHM-4: nothing told the writer)."""
    if not segment.handles.has(handle_of(op)):
        return segment, ABSENT
    left = without_handle(segment, handle_of(op))
    return answered(left, op.identity) if op.segment == segment.number else left, DONE


def free(config: Config, segment: Segment, op: Free) -> Result:
    """SHM-2, SHM-6: unneeded chunks are freed in the order of creation."""
    ring, outcome = free_chunks(config, segment.ring, lambda identity: may_go(segment, identity), op.want)
    return forgotten(segment._replace(ring=ring), outcome.values), outcome


def clear(config: Config, segment: Segment, op: Clear) -> Result:
    """SHM-2, SHM-5: as freeing everything; a handle that is not answered stays good (C-SHM-7)."""
    ring, outcome = clear_chunks(config, segment.ring, lambda identity: may_go(segment, identity))
    return forgotten(segment._replace(ring=ring), outcome.values), DONE


def forgotten(segment: Segment, gone: tuple[Id, ...]) -> Segment:
    """Nothing is known any more of the chunks that are gone."""
    contents, unanswered = segment.contents, segment.unanswered
    for identity in gone:
        contents, unanswered = contents.remove(identity), unanswered.remove(identity)
    return segment._replace(contents=contents, unanswered=unanswered)


def restart(config: Config, segment: Segment, op: Restart) -> Result:
    """SHM-5: the new segment has a number of its own, so a handle to the old one is refused whatever its id."""
    ring, outcome = free_chunks(config, segment.ring, lambda identity: True, config.capacity)
    begun = segment._replace(
        ring=ring._replace(id_start=0, id_end=0),
        memory=wiped(config, segment.memory),
        number=segment.number + 1,
    )
    return forgotten(begun, outcome.values), DONE


TRANSITIONS: Transitions[Config, Segment] = {
    Allocate: allocate,
    Read: read,
    Revoke: revoke,
    Free: free,
    Clear: clear,
    Restart: restart,
}
