"""A bug for each claim that is proved of the ring."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.ring import chunks, transitions

BUGS = (
    Bug(chunks.candidate, "<= config.capacity", "<= config.capacity + 1", "SHM-1/allocate"),
    Bug(chunks.reserve, "> config.capacity or", "> config.capacity + 1 or", "SHM-1/allocate"),
    Bug(chunks.reserve, "end=address + total", "end=address + payload", "SHM-1/extent/allocate"),
    Bug(chunks.reserve, " or ring.starts.has(ring.id_end)", "", "SHM-5/allocate"),
    Bug(chunks.reserve, "id_end=successor(config, ring.id_end)", "id_end=ring.id_end", "SHM-4/ids/allocate"),
    Bug(
        chunks.reserve,
        "ring.starts.set(ring.id_end, address)",
        "ring.starts.set(ring.id_end, 0)",
        "SHM-6/order/allocate",
    ),
    Bug(chunks.candidate, "<= config.capacity", "< config.capacity", "fits/allocate"),
    Bug(chunks.rebased, "start=ring.start - config.capacity", "start=ring.start", "SHM-1/lap/free"),
    Bug(chunks.without_oldest, "ahead + config.capacity", "ahead", "loops/free"),
    Bug(chunks.without_oldest, "start=0, end=0", "start=0", "loops/free"),
    Bug(transitions.may_go, "not segment.unanswered.has(identity)", "True", "loops/free"),
    Bug(
        transitions.free, "segment._replace(ring=ring)", "segment._replace(ring=ring._replace(id_end=0))", "SHM-6/free"
    ),
    Bug(
        transitions.clear,
        "segment._replace(ring=ring)",
        "segment._replace(ring=ring._replace(starts=ring.starts.remove(ring.id_start)))",
        "SHM-2/freed/clear",
    ),
    Bug(
        transitions.allocate, "return segment, outcome", "return segment._replace(number=1), outcome", "SHM-7/allocate"
    ),
)
