"""What must hold of the object store: SHM-1 to SHM-11 and the store's part of X-3 and X-4.

That each call does all that it is there for is in `completeness`.

A handle is *out* for a reader from the moment it is issued until that reader acknowledges it or it is revoked; this is
read from where requests and workers are, and not from P0's books, which are held to it.
"""

from __future__ import annotations

from itertools import pairwise

from cachespec.kernel import Code, Operation, Outcome, Progress, Safety, Step
from cachespec.object_store.configuration import Config, content_of
from cachespec.object_store.operations import (
    Acknowledge,
    Clear,
    Copy,
    End,
    GetCached,
    Look,
    Put,
    Read,
    ReaderTouch,
    Reject,
    Render,
    Restart,
)
from cachespec.object_store.state import RENDERING
from cachespec.object_store.view import Chunk, View

READER_STEPS = (ReaderTouch, Read, Look, Copy, Acknowledge)


# Of a state ---------------------------------------------------------------------------------------------------------


def chunks_do_not_overlap(config: Config, view: View) -> bool:
    spans = sorted((chunk.place, chunk.place + chunk.total) for chunk in view.chunks)
    inside = all(start >= 0 and end <= config.capacity for start, end in spans)
    return inside and all(before[1] <= after[0] for before, after in pairwise(spans))


def bytes_are_of_one_chunk(config: Config, view: View) -> bool:
    places = [block[0] for block in view.blocks]
    whole = [(block[0], block[0] + config.header + config.payloads[block[4]]) for block in view.blocks if block[4] >= 0]
    return not any(start < place < end for start, end in whole for place in places)


def what_is_out_is_there(config: Config, view: View) -> bool:
    there = {(chunk.place, chunk.identity, chunk.epoch) for chunk in view.chunks if chunk.intact}
    return all(out.name in there for out in view.outstanding)


def no_more_than_issued(config: Config, view: View) -> bool:
    return all(chunk.acknowledged <= chunk.issued * config.readers for chunk in view.chunks)


def what_is_quiet_is_settled(config: Config, view: View) -> bool:
    return all(is_settled(config, chunk) for chunk in view.chunks if chunk.quiet)


def is_settled(config: Config, chunk: Chunk) -> bool:
    return chunk.acknowledged == chunk.issued * config.readers


def what_is_settled_is_not_out(config: Config, view: View) -> bool:
    return all(chunk.outstanding == 0 for chunk in view.chunks if is_settled(config, chunk))


def indices_agree(config: Config, view: View) -> bool:
    listed = {(identity, content) for content, identity in view.listed}
    kept = {(chunk.identity, chunk.content) for chunk in view.chunks if not chunk.withdrawn}
    owned = tuple(identity for identity, _ in view.owners)
    return listed == kept and owned == view.counted == view.starts == view.dated and set(view.marked) <= set(owned)


def metadata_is_there(config: Config, view: View) -> bool:
    return all(content in view.metadata for content, _ in view.listed)


def counts_fit(config: Config, view: View) -> bool:
    return all(chunk.acknowledged <= config.limit for chunk in view.chunks)


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SHM-1",
        "live chunks lie inside the data area, none wraps around its end, and no two overlap",
        chunks_do_not_overlap,
        lambda c, v: len(v.chunks) > 1,
    ),
    Safety(
        "SHM-1/written",
        "a chunk in the memory has its bytes only until another one is written over a part of them",
        bytes_are_of_one_chunk,
        lambda c, v: len(v.blocks) > len(v.chunks) > 0,
    ),
    Safety(
        "SHM-2",
        "every chunk with an outstanding handle is live and has its original bytes",
        what_is_out_is_there,
        lambda c, v: len({out.name for out in v.outstanding}) > 1,
    ),
    Safety(
        "SHM-3",
        "readers never acknowledge more handles than were issued",
        no_more_than_issued,
        lambda c, v: any(chunk.acknowledged > 0 for chunk in v.chunks),
    ),
    Safety(
        "SHM-3/settled",
        "once no request or worker needs a chunk, all its issued handles are acknowledged",
        what_is_quiet_is_settled,
        lambda c, v: any(chunk.quiet for chunk in v.chunks),
    ),
    Safety(
        "SHM-3/out",
        "a chunk whose issued handles are all acknowledged has no outstanding handle",
        what_is_settled_is_not_out,
        lambda c, v: any(is_settled(c, chunk) for chunk in v.chunks) and bool(v.outstanding),
    ),
    Safety(
        "SHM-4",
        "index, owners, counts, marks and ring list the same chunks, except chunks that are withdrawn from hand-out",
        indices_agree,
        lambda c, v: any(chunk.withdrawn for chunk in v.chunks) and bool(v.listed),
    ),
    Safety(
        "SHM-4/metadata",
        "every content that P0 may hand out has its prompt updates",
        metadata_is_there,
        lambda c, v: bool(v.listed),
    ),
    Safety(
        "SHM-11",
        "no count exceeds the range of its field",
        counts_fit,
        lambda c, v: any(chunk.acknowledged == c.limit for chunk in v.chunks),
    ),
)

# Of a step ----------------------------------------------------------------------------------------------------------


def what_is_out_is_served(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, READER_STEPS):
        return True
    head = before.heads[op.reader]
    late = head is None or head.handle.standing == 0
    return late or outcome.code not in (Code.STALE, Code.FAILED)


def identities_are_new(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Put or outcome.code is not Code.DONE:
        return True
    newest = after.chunks[-1]
    return (newest.place, newest.identity, newest.epoch) not in before.presentable


def oldest_go_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    stayed = live(after)[:-1] if type(op) is Put and outcome.code is Code.DONE else live(after)
    were = live(before)
    return stayed == were[len(were) - len(stayed) :]


def live(view: View) -> tuple[tuple[int, int], ...]:
    """The chunks, oldest first."""
    return tuple((chunk.identity, chunk.epoch) for chunk in view.chunks)


def refusal_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Put or outcome.code in (Code.DONE, Code.FAILED):
        return True
    if outcome.code is not Code.REFUSED:
        return books(before) == books(after)
    needed = [unpaid(config, chunk) for chunk in before.chunks if unpaid(config, chunk) or chunk.protected]
    left = [unpaid(config, chunk) for chunk in after.chunks if unpaid(config, chunk) or chunk.protected]
    return needed == left and set(after.listed) <= set(before.listed)


def unpaid(config: Config, chunk: Chunk) -> int:
    """How many acknowledgements P0 misses."""
    return chunk.issued * config.readers - chunk.acknowledged


def books(view: View) -> tuple[object, ...]:
    """All that P0 knows of the store."""
    return (view.chunks, view.listed, view.owners, view.counted, view.metadata, view.tickets)


def metadata_is_bounded(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) is not Put or outcome.code is not Code.DONE or len(after.metadata) <= 2 * len(after.listed)


def walk_does_not_fail(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) not in (Put, GetCached) or outcome.code is not Code.FAILED


def walks_are_protected(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) in (Clear, Restart):
        return True
    still = {(chunk.identity, chunk.epoch) for chunk in after.chunks if chunk.protected}
    walks = [request for request in range(len(config.requests)) if request != getattr(op, "request", None)]
    return all(
        (chunk.identity, chunk.epoch) in still
        for chunk in before.chunks
        if chunk.protected and any(is_awaited(config, before, request, chunk.content) for request in walks)
    )


def is_awaited(config: Config, view: View, request: int, content: int) -> bool:
    """Whether the request has touched this content in its walk and not reached it."""
    touched = config.requests[request][view.walked[request] : view.touched[request]]
    return view.phases[request] == RENDERING and content in touched


def refusal_has_a_holder(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Put or outcome.code is not Code.REFUSED:
        return True
    return any(chunk.outstanding > 0 or chunk.protected for chunk in before.chunks)


def what_blocks_is_not_handed_out(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    handed = type(op) is GetCached and outcome.code is Code.HIT
    return not handed or outcome.values[1:] != (before.blocking,)


def readers_write_their_own(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, READER_STEPS):
        return True
    head = before.heads[op.reader]
    others = [reader for reader in range(config.readers) if reader != op.reader]
    mine = head is not None and (head.handle.address % config.capacity, head.handle.identity, head.handle.content)
    same_cells = all(before.cells[reader] == after.cells[reader] for reader in others)
    apart = [(was, now) for was, now in zip(before.blocks, after.blocks, strict=False) if was != now]
    same_places = [block[0] for block in before.blocks] == [block[0] for block in after.blocks]
    counted = all(was[:5] == now[:5] and (*was[:2], was[3]) == mine for was, now in apart)
    return same_cells and same_places and counted and writers_part(before) == writers_part(after)


def writers_part(view: View) -> tuple[object, ...]:
    """What only P0 changes."""
    return (view.listed, view.owners, view.counted, view.starts, view.metadata, view.tickets, view.id_end, view.end)


def bytes_are_of_the_item(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, READER_STEPS) or outcome.code is not Code.HIT:
        return True
    head = before.heads[op.reader]
    return head is not None and outcome.values == (content_of(config, head.request, head.position),)


def end_settles(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) not in (Reject, End):
        return True
    return what_is_quiet_is_settled(config, after)


def clearing_hurts_nobody(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) is not Clear or (what_is_out_is_there(config, after) and after.listed == () == after.metadata)


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SHM-2/served",
        "a reader gets the chunk that its handle names, unless the handle was revoked",
        what_is_out_is_served,
        lambda c, b, o, r, a: type(o) in READER_STEPS and r.code is Code.STALE,
    ),
    Step(
        "SHM-4/bounded",
        "after a put, P0 keeps prompt updates for at most twice as many contents as it may hand out",
        metadata_is_bounded,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.DONE and len(b.listed) > 0,
    ),
    Step(
        "SHM-5",
        "a new chunk never has the address and identity of a chunk that a handle may still name",
        identities_are_new,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.DONE and bool(b.presentable),
    ),
    Step(
        "SHM-6",
        "chunks are freed in the order in which they were created",
        oldest_go_first,
        lambda c, b, o, r, a: len(b.chunks) > 1 and 0 < len(a.chunks) < len(b.chunks),
    ),
    Step(
        "SHM-7",
        "a put that stores nothing leaves P0's records unchanged, except for freed chunks without readers",
        refusal_changes_nothing,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.REFUSED,
    ),
    Step(
        "SHM-7/walk",
        "P0 never fails on an item: it hands out a handle or sends the payload",
        walk_does_not_fail,
        lambda c, b, o, r, a: type(o) is Put and 1 in b.skipped[o.request],
    ),
    Step(
        "SHM-7/touched",
        "a touched item stays protected until its own walk reaches it or ends, or the store is cleared",
        walks_are_protected,
        lambda c, b, o, r, a: type(o) is Render and any(chunk.protected for chunk in b.chunks),
    ),
    Step(
        "SHM-8/room",
        "an item is refused for lack of room only while some chunk is still needed",
        refusal_has_a_holder,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.REFUSED,
    ),
    Step(
        "SHM-8/drained",
        "P0 does not hand out again the chunk that blocked a refused item",
        what_blocks_is_not_handed_out,
        lambda c, b, o, r, a: type(o) is GetCached and r.code is Code.HIT and b.blocking >= 0,
    ),
    Step(
        "SHM-9",
        "a reader writes only its own cell or the count of the chunk that its handle names",
        readers_write_their_own,
        lambda c, b, o, r, a: type(o) in READER_STEPS and b.cells != a.cells,
    ),
    Step(
        "SHM-10",
        "a reader uses only the bytes of its item",
        bytes_are_of_the_item,
        lambda c, b, o, r, a: type(o) in READER_STEPS and r.code is Code.HIT,
    ),
    Step(
        "X-3/store",
        "once P0 learns that a request ended, every chunk that nothing needs has all its handles acknowledged",
        end_settles,
        lambda c, b, o, r, a: type(o) is End and b.outstanding != a.outstanding,
    ),
    Step(
        "X-4/store",
        "clearing the store forgets every item and frees no chunk with an outstanding handle",
        clearing_hurts_nobody,
        lambda c, b, o, r, a: type(o) is Clear and bool(b.outstanding),
    ),
)

# In the end ---------------------------------------------------------------------------------------------------------


def is_unsettled(config: Config, view: View) -> bool:
    return any(chunk.acknowledged < chunk.issued * config.readers for chunk in view.chunks)


PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("SHM-8", "every issued handle is eventually acknowledged or revoked", is_unsettled),
    Progress(
        "SHM-8/read",
        "a worker eventually reads, or gives up, every item that it was sent",
        lambda c, v: any(inbox != () for inbox in v.inboxes),
    ),
    Progress(
        "SHM-10/visible", "a chunk that P0 begins to write eventually becomes visible", lambda c, v: v.writing != ()
    ),
)
