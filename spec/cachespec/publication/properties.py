"""What must hold while chunks are written and read in steps: SHM, as far as it is about the order of steps."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Progress, Safety, Step
from cachespec.publication.configuration import FIELDS, Config
from cachespec.publication.operations import Acknowledge, Copy, Open
from cachespec.publication.state import Handle, View, count_of, data_of
from cachespec.publication.steps import STEPS as EFFECTS
from cachespec.publication.steps import data_in
from cachespec.ring.configuration import Reader


def presented(view: View) -> tuple[tuple[Reader, Handle], ...]:
    """Readers, and the handles to this segment that they have, opened or not."""
    given = ((reader, (*one.handles, one.opened)) for reader, one in enumerate(view.readers))
    return tuple((reader, handle) for reader, all_of in given for handle in all_of if handle[3] == view.number)


def is_live(config: Config, view: View, handle: Handle) -> bool:
    content, identity, at, _ = handle
    live = any(one == identity and start % config.capacity == at for one, start, _ in view.chunks)
    return live and (identity, content) in view.contents


def handles_lead_to_live_chunks(config: Config, view: View) -> bool:
    return all(is_live(config, view, handle) for _, handle in presented(view))


def is_visible(config: Config, view: View, handle: Handle) -> bool:
    content, identity, at, _ = handle
    size, first = config.sizes[content], data_of(config, at)
    header = view.memory[at : at + FIELDS] == (identity, FIELDS + config.readers + size)
    return header and view.memory[first : first + size] == data_in(config, content)


def published_is_visible(config: Config, view: View) -> bool:
    return all(is_visible(config, view, handle) for _, handle in presented(view))


def counts_are_answers(config: Config, view: View) -> bool:
    """Of the chunks that were published, and the readers that have not died."""
    out = {(handle[1], reader) for reader, handle in presented(view)}
    for identity, start, _ in view.chunks:
        if view.writing.handle[1] == identity:
            continue
        for reader in range(config.readers):
            count = view.memory[count_of(reader, start % config.capacity)]
            if (identity, reader) not in view.given_up and count != ((identity, reader) not in out):
                return False
    return True


def tables_agree(config: Config, view: View) -> bool:
    ids = [identity for identity, _, _ in view.chunks]
    expected = sorted((view.oldest + age) % config.modulus for age in range(len(ids)))
    known = [identity for identity, _ in view.contents]
    return ids == expected == known and {identity for identity, _ in view.given_up} <= set(ids)


def read_is_whole(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Acknowledge) or outcome.code is not Code.HIT:
        return True
    content = before.readers[op.reader].opened[0]
    return outcome.values == data_in(config, content)


def handles_are_served(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Open) or outcome.code is Code.ABSENT:
        return True
    return (outcome.code is Code.HIT) == (before.readers[op.reader].handles[0][3] == before.number)


def readers_keep_to_their_counts(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Open | Copy | Acknowledge):
        return True
    handle = before.readers[op.reader].opened
    own = count_of(op.reader, handle[2]) if isinstance(op, Acknowledge) else -1
    pairs = enumerate(zip(before.memory, after.memory, strict=True))
    return before.chunks == after.chunks and all(old == new or unit == own for unit, (old, new) in pairs)


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SHM-2",
        "every unanswered handle names a live chunk",
        handles_lead_to_live_chunks,
        lambda c, v: len(presented(v)) > 1,
    ),
    Safety(
        "SHM-2/visible",
        "a chunk with a handle is visible in full and stays visible",
        published_is_visible,
        lambda c, v: any(0 < len(one.units) < one.size for one in v.readers),
    ),
    Safety(
        "SHM-3",
        "the count of a reader is 1 if it has answered and 0 otherwise",
        counts_are_answers,
        lambda c, v: any(v.memory[count_of(0, start % c.capacity)] == 1 for _, start, _ in v.chunks),
    ),
    Safety(
        "SHM-4",
        "live ids are consecutive from the oldest, and only live ids are known",
        tables_agree,
        lambda c, v: bool(v.chunks) and v.oldest > 0,
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    *EFFECTS,
    Step(
        "SHM-8/served",
        "a handle is served unless its segment is gone",
        handles_are_served,
        lambda c, b, op, o, a: isinstance(op, Open) and o.code is Code.STALE,
    ),
    Step(
        "SHM-9",
        "a reader changes nothing except its own count",
        readers_keep_to_their_counts,
        lambda c, b, op, o, a: isinstance(op, Acknowledge) and b.memory != a.memory,
    ),
    Step(
        "SHM-10",
        "a reader gets the complete data for which its handle was issued",
        read_is_whole,
        lambda c, b, op, o, a: isinstance(op, Acknowledge) and len(o.values) > 1,
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("SHM-8", "once nothing new is written, every chunk is eventually freed", lambda c, v: bool(v.chunks)),
)
