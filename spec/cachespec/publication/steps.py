"""What each step of writer, memory and readers does, and that it does nothing else."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, HIT, REFUSED, STALE, Code, Operation, Outcome, Step
from cachespec.publication.configuration import FIELDS, Config
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
from cachespec.publication.state import (
    COUNTS,
    DATA,
    HEADER,
    IDLE,
    IDLE_READER,
    NONE,
    NOT_WRITING,
    RESERVED,
    Reading,
    Store,
    View,
    Writing,
    count_of,
    data_of,
)
from cachespec.ring.configuration import Content, Id, Reader


def data_in(config: Config, content: Content) -> tuple[int, ...]:
    """One number again and again, never 0; not by the rule's own words."""
    return (content + 1,) * config.sizes[content]


# The writer and memory ----------------------------------------------------------------------------------------------


def reserved_and_nothing_else(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Whether there is room is the business of `ring`."""
    if not isinstance(op, Allocate):
        return True
    if outcome != DONE._replace(values=outcome.values):
        return outcome == REFUSED and after == before
    (address, identity), units = outcome.values, FIELDS + config.readers + config.sizes[op.content]
    return before.writing.stage == IDLE and after == before._replace(
        chunks=tuple(sorted((*before.chunks, (identity, address, units)))),
        contents=tuple(sorted((*before.contents, (identity, op.content)))),
        writing=Writing(RESERVED, (op.content, identity, address % config.capacity, before.number)),
    )


def stores_of(config: Config, view: View, op: Operation) -> tuple[int, tuple[Store, ...]]:
    """The stage at which the writer makes these stores, and the stores."""
    content, identity, at, _ = view.writing.handle
    if isinstance(op, WriteHeader):
        return RESERVED, ((at, identity), (at + 1, FIELDS + config.readers + config.sizes[content]))
    if isinstance(op, WriteCounts):
        return HEADER, tuple((count_of(reader, at), 0) for reader in range(config.readers))
    first = data_of(config, at)
    return COUNTS, tuple((first + unit, value) for unit, value in enumerate(data_in(config, content)))


def stores_wait(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, WriteHeader | WriteCounts | WriteData):
        return True
    stage, stores = stores_of(config, before, op)
    if before.writing.stage != stage:
        return outcome == ABSENT and after == before
    writing = before.writing._replace(stage=stage + 1)
    return outcome == DONE and after == before._replace(pending=(*before.pending, *stores), writing=writing)


def one_store_appears(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Appear) or outcome != DONE:
        return not isinstance(op, Appear) or (outcome == ABSENT and after == before)
    unit, value = before.pending[op.which]
    earlier, later = before.pending[: op.which], before.pending[op.which + 1 :]
    memory = (*before.memory[:unit], value, *before.memory[unit + 1 :])
    in_order = all(other != unit for other, _ in earlier)
    return in_order and after == before._replace(memory=memory, pending=(*earlier, *later))


def handed_to_everybody(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a handle leads to is said by SHM-2/visible."""
    if not isinstance(op, Publish):
        return True
    if outcome != DONE:
        waits = before.writing.stage == DATA and len(before.pending) > 0
        return (
            (outcome == REFUSED and waits) or (outcome == ABSENT and before.writing.stage != DATA)
        ) and after == before
    readers = tuple(one._replace(handles=(*one.handles, before.writing.handle)) for one in before.readers)
    return after == before._replace(readers=readers, writing=NOT_WRITING)


# Freeing ------------------------------------------------------------------------------------------------------------


def has_everybody(config: Config, view: View, identity: Id) -> bool:
    """Each reader has stored its answer, or has died."""
    at = {one: start for one, start, _ in view.chunks}[identity] % config.capacity
    stored = dict(enumerate(view.memory)) | dict(view.pending)
    return all(
        (identity, reader) in view.given_up or stored[count_of(reader, at)] == 1 for reader in range(config.readers)
    )


def answered_from_the_oldest(config: Config, view: View) -> tuple[Id, ...]:
    """Live chunks, up to the first that some reader has not answered."""
    live, gone, identity = {one for one, _, _ in view.chunks}, list[Id](), view.oldest
    while identity in live and identity not in gone and has_everybody(config, view, identity):
        gone.append(identity)
        identity = (identity + 1) % config.modulus
    return tuple(gone)


def what_is_answered_goes(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Free | Clear):
        return True
    if before.writing.stage != IDLE:
        return outcome == REFUSED and after == before
    gone = answered_from_the_oldest(config, before)
    return outcome == DONE._replace(values=gone if isinstance(op, Free) else ()) and after == before._replace(
        chunks=tuple(chunk for chunk in before.chunks if chunk[0] not in gone),
        contents=tuple(pair for pair in before.contents if pair[0] not in gone),
        given_up=tuple(pair for pair in before.given_up if pair[0] not in gone),
        oldest=(before.oldest + len(gone)) % config.modulus,
    )


# The readers --------------------------------------------------------------------------------------------------------


def next_of(config: Config, view: View, op: Open | Copy | Acknowledge | ReaderDies) -> tuple[Outcome, Reading]:
    """What the reader is answered, and where it is then. Whether a handle is good is said by SHM-8/served."""
    was = view.readers[op.reader]
    if isinstance(op, ReaderDies):
        return DONE, IDLE_READER
    if isinstance(op, Open):
        possible = was.opened == NONE and len(was.handles) > 0
        return (HIT, was._replace(handles=was.handles[1:], opened=was.handles[0])) if possible else (ABSENT, was)
    complete = len(was.units) >= was.size
    if was.opened == NONE or complete == isinstance(op, Copy):
        return ABSENT, was
    if isinstance(op, Acknowledge):
        return HIT._replace(values=was.units), IDLE_READER._replace(handles=was.handles)
    unit = view.memory[data_of(config, was.opened[2]) + len(was.units)]
    return DONE, was._replace(units=(*was.units, unit))


def one_reader_goes_on(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Open | Copy | Acknowledge | ReaderDies):
        return True
    expected, reading = next_of(config, before, op)
    if outcome == STALE:
        expected, reading = STALE, reading._replace(opened=NONE)
    elif isinstance(op, Open):
        reading = reading._replace(size=after.readers[op.reader].size)
    readers = (*before.readers[: op.reader], reading, *before.readers[op.reader + 1 :])
    given_up = set(before.given_up) | (lost(before, op.reader) if isinstance(op, ReaderDies) else set())
    return outcome == expected and after == before._replace(
        readers=readers, given_up=tuple(sorted(given_up)), memory=after.memory
    )


def lost(view: View, reader: Reader) -> set[tuple[Id, Reader]]:
    """The chunks of this segment that the reader has handles to."""
    one = view.readers[reader]
    return {(identity, reader) for _, identity, _, number in (*one.handles, one.opened) if number == view.number}


# The end of a writer ------------------------------------------------------------------------------------------------


def segments_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Readers keep their handles, which are good for nothing; what they are reading they read to the end (SHM-10)."""
    if not isinstance(op, Restart):
        return after.number == before.number
    kept = tuple((one.handles, one.opened, one.size) for one in before.readers)
    empty = View(
        chunks=(),
        memory=(0,) * config.capacity,
        pending=(),
        writing=NOT_WRITING,
        readers=after.readers,
        given_up=(),
        number=before.number + 1,
        contents=(),
        oldest=0,
    )
    return outcome == DONE and after == empty and kept == tuple((o.handles, o.opened, o.size) for o in after.readers)


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SHM-5/segment",
        "a restarted writer has the next segment, which is empty, and no other operation creates a segment",
        segments_are_counted,
        lambda c, b, op, o, a: isinstance(op, Restart) and bool(b.chunks),
    ),
    Step(
        "SHM-6",
        "freeing removes exactly the leading chunks that every reader has answered",
        what_is_answered_goes,
        lambda c, b, op, o, a: isinstance(op, Free) and bool(o.values),
    ),
    Step(
        "SHM-7",
        "a reservation succeeds only if the writer has no other chunk in progress, and otherwise changes nothing",
        reserved_and_nothing_else,
        lambda c, b, op, o, a: isinstance(op, Allocate) and o.code is Code.REFUSED and bool(b.chunks),
    ),
    Step(
        "SHM-8/step",
        "a reader step opens its oldest handle, copies the next unit or answers; a reader that dies loses all its "
        "handles",
        one_reader_goes_on,
        lambda c, b, op, o, a: isinstance(op, ReaderDies) and bool(a.given_up),
    ),
    Step(
        "SHM-10/stored",
        "the writer stores id and size, then a 0 for each reader, then the data; each store waits to become visible",
        stores_wait,
        lambda c, b, op, o, a: isinstance(op, WriteData) and bool(b.pending),
    ),
    Step(
        "SHM-10/visible",
        "one store becomes visible at a time, and stores to the same unit in program order",
        one_store_appears,
        lambda c, b, op, o, a: isinstance(op, Appear) and op.which > 0,
    ),
    Step(
        "SHM-10/handed",
        "all readers receive a handle together, once the whole chunk is stored",
        handed_to_everybody,
        lambda c, b, op, o, a: isinstance(op, Publish) and o.code is Code.REFUSED,
    ),
)
