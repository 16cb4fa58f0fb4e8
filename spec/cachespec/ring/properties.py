"""What must hold of the ring: SHM, as far as the ring alone can say it.

Not said here, because it needs the object store: that a count is what readers have answered (SHM-3, SHM-11), keys and
their index (the rest of SHM-4), and that every handle comes to be answered or revoked (the rest of SHM-8). Writing and
reading in steps, and the order in which stores become visible, are the business of `publication`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from cachespec.kernel import DONE, Code, Operation, Outcome, Progress, Safety, Step
from cachespec.ring.configuration import Config
from cachespec.ring.operations import Allocate, Clear, Free, Read, Restart, Revoke
from cachespec.ring.state import View

# Of a state ---------------------------------------------------------------------------------------------------------


def extents(config: Config, view: View) -> tuple[tuple[int, int], ...]:
    """Where each live chunk begins and ends, ascending."""
    return tuple(sorted((start % config.capacity, start % config.capacity + size) for _, start, size in view.chunks))


def chunks_are_apart(config: Config, view: View) -> bool:
    places = extents(config, view)
    inside = all(end <= config.capacity for _, end in places)
    return inside and all(before[1] <= after[0] for before, after in pairwise(places))


def by_age(config: Config, view: View) -> tuple[tuple[int, int, int], ...]:
    """Live chunks, from the oldest id on."""
    return tuple(sorted(view.chunks, key=lambda chunk: (chunk[0] - view.id_start) % config.modulus))


def window_is_what_is_occupied(config: Config, view: View) -> bool:
    within = 0 <= view.start < config.capacity and view.start <= view.end <= view.start + config.capacity
    if not view.chunks:
        return within and view.start == view.end
    (_, oldest, _), (_, newest, size) = by_age(config, view)[0], by_age(config, view)[-1]
    return within and all(
        (place - at) % config.capacity == 0 for place, at in ((oldest, view.start), (newest + size, view.end))
    )


def presentable(view: View) -> tuple[tuple[int, int, int, int], ...]:
    """Handles to this segment: reader, content, id, place."""
    return tuple(handle[:4] for handle, _ in view.handles if handle[4] == view.number)


def chunk_is_as_written(config: Config, view: View, content: int, identity: int, at: int) -> bool:
    """The chunk is live in its place, and memory holds what was put there."""
    size = config.header + config.sizes[content]
    live = any(one == identity and start % config.capacity == at and units == size for one, start, units in view.chunks)
    return live and view.memory[at : at + size] == as_written(config, identity, content)


def as_written(config: Config, identity: int, content: int) -> tuple[int, ...]:
    """The units of a whole chunk."""
    size, width = config.sizes[content], config.header // 2
    fields = (identity.to_bytes(width, "little"), (config.header + size).to_bytes(width, "little"))
    return (*fields[0], *fields[1], *payload_of(config, content))


def payload_of(config: Config, content: int) -> tuple[int, ...]:
    """One number again and again, never 0; not by the rule's own words."""
    return (content + 1,) * config.sizes[content]


def handles_lead_to_their_chunks(config: Config, view: View) -> bool:
    return all(chunk_is_as_written(config, view, *handle[1:]) for handle in presentable(view))


def tables_agree(config: Config, view: View) -> bool:
    ids = [identity for identity, _, _ in view.chunks]
    count = (view.id_end - view.id_start) % config.modulus
    expected = sorted((view.id_start + age) % config.modulus for age in range(len(ids)))
    counted = len(ids) == count or (len(ids) == config.modulus and count == 0)
    held = {identity for identity, _ in view.unanswered}
    return counted and ids == expected and ids == [identity for identity, _ in view.contents] and held <= set(ids)


def ids_are_unique(config: Config, view: View) -> bool:
    known = {handle[2]: handle[1:] for handle in presentable(view)}
    live = {identity: start % config.capacity for identity, start, _ in view.chunks}
    contents = dict(view.contents)
    for _, content, identity, at in presentable(view):
        if known[identity] != (content, identity, at):
            return False
        if identity in contents and (contents[identity], live.get(identity, at)) != (content, at):
            return False
    return True


# Of a step ----------------------------------------------------------------------------------------------------------


def freed_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """From the oldest on, those and no others."""
    left = tuple(chunk for chunk in before.chunks if chunk not in after.chunks)
    if not isinstance(op, Free):
        return not left or isinstance(op, Clear | Restart)
    oldest = tuple(identity for identity, _, _ in by_age(config, before)[: len(outcome.values)])
    known = {identity for identity, _ in before.contents}
    gone = {identity for identity, _, _ in left}
    return outcome.values == oldest and gone == set(oldest) and gone <= known


def freed_as_wanted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """One chunk fewer would not have been enough; and if it is not enough, the next one may not go."""
    if not isinstance(op, Free):
        return True
    sizes = {identity: size for identity, _, size in before.chunks}
    freed = [sizes.get(identity, 0) for identity in outcome.values]
    held = {identity for identity, _ in before.unanswered}
    following = [identity for identity, _, _ in by_age(config, before)][len(freed) :]
    enough = sum(freed) >= op.want or not following or following[0] in held
    return enough and (not freed or sum(freed[:-1]) < op.want)


def freed_is_answered(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Restart):
        return True
    left = [
        identity
        for identity, start, _ in before.chunks
        if (identity, start) not in {(i, s) for i, s, _ in after.chunks}
    ]
    return not any(handle[2] in left for handle in presentable(before) if handle[:4] in presentable(after))


def refusal_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return outcome.code is not Code.REFUSED or before == after


def has_room(config: Config, view: View, total: int) -> bool:
    """Behind the newest chunk, or before the oldest at the beginning of the data; or anywhere, if nothing is there."""
    if not view.chunks:
        return total <= config.capacity
    order = by_age(config, view)
    oldest, newest = order[0][1] % config.capacity, order[-1][1] % config.capacity
    behind = newest + order[-1][2]
    if newest < oldest:
        return behind + total <= oldest
    return behind + total <= config.capacity or total <= oldest


def refused_for_a_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """An id that is taken is a reason too."""
    if not isinstance(op, Allocate) or outcome.code is not Code.REFUSED:
        return True
    taken = any(identity == before.id_end for identity, _, _ in before.chunks)
    return taken or not has_room(config, before, config.header + config.sizes[op.content])


def readers_change_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, Read) or (before.memory, before.chunks) == (after.memory, after.chunks)


def read_is_its_own(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Read) or outcome.code is not Code.HIT:
        return True
    return outcome.values == payload_of(config, op.content)


def handles_are_served(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Read) or outcome.code is Code.ABSENT:
        return True
    return (outcome.code is Code.HIT) == (op.segment == before.number)


def segments_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Restart):
        return after.number == before.number
    empty = not after.chunks and not any(after.memory) and (after.id_start, after.id_end) == (0, 0)
    return outcome == DONE and empty and after.number == before.number + 1


def answers_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A handle is used once; one that is good counts as an answer. Whether it is good is another question (served)."""
    if not isinstance(op, Read | Revoke) or outcome.code is Code.ABSENT:
        return True
    handles, unanswered = Counter(dict(before.handles)), Counter(dict(before.unanswered))
    handles[(op.reader, op.content, op.identity, op.place, op.segment)] -= 1
    unanswered[op.identity] -= op.segment == before.number and outcome.code is not Code.STALE
    return +handles == dict(after.handles) and +unanswered == dict(after.unanswered)


def is_possible(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The holder of a handle can use it, once; no other process can."""
    if not isinstance(op, Read | Revoke):
        return True
    handle = (op.reader, op.content, op.identity, op.place, op.segment)
    return (outcome.code is Code.ABSENT) == (handle not in dict(before.handles))


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SHM-1",
        "live chunks lie inside the data area, none wraps around its end, and no two overlap",
        chunks_are_apart,
        lambda c, v: any(start >= c.capacity for _, start, _ in v.chunks) and len(v.chunks) > 1,
    ),
    Safety(
        "SHM-1/window",
        "the occupied range starts at the oldest chunk, ends behind the newest, and is at most one lap long",
        window_is_what_is_occupied,
        lambda c, v: v.end > c.capacity and len(v.chunks) > 1,
    ),
    Safety(
        "SHM-2",
        "every unanswered handle names its chunk, which is live and unchanged",
        handles_lead_to_their_chunks,
        lambda c, v: len(presentable(v)) > 1,
    ),
    Safety(
        "SHM-4",
        "live ids are consecutive from the oldest to the next, and every table has exactly those",
        tables_agree,
        lambda c, v: len(v.chunks) > 1 and v.id_end < v.id_start,
    ),
    Safety(
        "SHM-5",
        "an id names one chunk among the live chunks and those that a handle may still name",
        ids_are_unique,
        lambda c, v: len({handle[2] for handle in presentable(v)}) > 1,
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SHM-2/freed",
        "no chunk is freed while a handle to it is unanswered",
        freed_is_answered,
        lambda c, b, op, o, a: isinstance(op, Free) and bool(o.values) and bool(a.unanswered),
    ),
    Step(
        "SHM-5/segment",
        "a restarted writer has the next segment, which is empty, and no other operation creates a segment",
        segments_are_counted,
        lambda c, b, op, o, a: isinstance(op, Restart) and bool(b.chunks),
    ),
    Step(
        "SHM-6",
        "only freeing removes chunks, from the oldest on, with consecutive ids",
        freed_in_order,
        lambda c, b, op, o, a: isinstance(op, Free) and len(o.values) > 1 and o.values[0] > o.values[-1],
    ),
    Step(
        "SHM-6/wanted",
        "freeing stops once the requested space is free, or at a chunk that is still needed",
        freed_as_wanted,
        lambda c, b, op, o, a: isinstance(op, Free) and bool(o.values) and len(a.chunks) > len(a.unanswered),
    ),
    Step(
        "SHM-7",
        "a refused allocation changes nothing",
        refusal_changes_nothing,
        lambda c, b, op, o, a: o.code is Code.REFUSED and bool(b.chunks),
    ),
    Step(
        "SHM-8/room",
        "no allocation is refused if it fits behind the newest chunk or at the beginning",
        refused_for_a_reason,
        lambda c, b, op, o, a: isinstance(op, Allocate) and o.code is Code.REFUSED and bool(b.chunks),
    ),
    Step(
        "SHM-8/served",
        "a handle is served unless its segment is gone",
        handles_are_served,
        lambda c, b, op, o, a: isinstance(op, Read) and o.code is Code.STALE,
    ),
    Step(
        "SHM-8/once",
        "a presented or revoked handle is removed, no longer protects its chunk, and affects no other handle",
        answers_are_counted,
        lambda c, b, op, o, a: isinstance(op, Revoke) and len(b.handles) > 1,
    ),
    Step(
        "SHM-8/held",
        "the holder of a handle can always present or revoke it",
        is_possible,
        lambda c, b, op, o, a: isinstance(op, Revoke) and o.code is Code.DONE,
    ),
    Step(
        "SHM-9",
        "reading changes neither memory nor chunks",
        readers_change_nothing,
        lambda c, b, op, o, a: isinstance(op, Read) and o.code is Code.HIT,
    ),
    Step(
        "SHM-10",
        "a reader gets the complete payload for which its handle was issued",
        read_is_its_own,
        lambda c, b, op, o, a: isinstance(op, Read) and len(o.values) > 1,
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress(
        "SHM-8",
        "once allocation stops and every handle is presented or revoked, every chunk is eventually freed",
        lambda c, v: bool(v.chunks),
    ),
)
