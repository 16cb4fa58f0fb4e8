"""A bug for each claim that is proved of the ring, and of its chunks alone."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.ring import chunks, transitions

BUGS = (
    Bug(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total <= $config.capacity + 1", "SHM-1/allocate"),
    Bug(chunks.reserve, "$config.capacity", "$config.capacity + 1", "SHM-1/allocate"),
    Bug(chunks.reserve, "end=$address + $total", "end=$address + payload", "SHM-1/extent/allocate"),
    Bug(chunks.reserve, "$x or $ring.starts.has($ring.id_end)", "$x", "SHM-5/allocate"),
    Bug(chunks.reserve, "successor($config, $ring.id_end)", "$ring.id_end", "SHM-4/ids/allocate"),
    Bug(
        chunks.reserve,
        "$ring.starts.set($ring.id_end, $address)",
        "$ring.starts.set($ring.id_end, 0)",
        "SHM-6/order/allocate",
    ),
    Bug(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total < $config.capacity", "fits/allocate"),
    Bug(chunks.rebased, "$ring.start - $config.capacity", "$ring.start", "SHM-1/lap/free"),
    Bug(chunks.without_oldest, "$ahead + $config.capacity", "$ahead", "loops/free"),
    Bug(chunks.without_oldest, "end=0", "", "loops/free"),
    Bug(transitions.may_go, "not $segment.unanswered.has($identity)", "True", "loops/free"),
    Bug(transitions.free, "ring=$ring", "ring=$ring._replace(id_end=0)", "SHM-6/free"),
    Bug(
        transitions.clear,
        "ring=$ring",
        "ring=$ring._replace(starts=$ring.starts.remove($ring.id_start))",
        "SHM-2/freed/clear",
    ),
    Bug(
        transitions.allocate,
        "if $x:\n    return ($segment, $outcome)",
        "if $x:\n    return ($segment._replace(number=1), $outcome)",
        "SHM-7/allocate",
    ),
)

OF_CHUNKS = (
    Bug(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total <= $config.capacity + 1", "SHM-1/reserve"),
    Bug(chunks.reserve, "end=$address + $total", "end=$address + payload", "SHM-1/extent/reserve"),
    Bug(chunks.reserve, "successor($config, $ring.id_end)", "$ring.id_end", "SHM-4/ids/reserve"),
    Bug(
        chunks.reserve,
        "$ring.starts.set($ring.id_end, $address)",
        "$ring.starts.set($ring.id_end, 0)",
        "SHM-6/order/reserve",
    ),
    Bug(chunks.reserve, "return ($ring, REFUSED)", "return ($ring._replace(start=1), REFUSED)", "SHM-7/reserve"),
    Bug(chunks.rebased, "$ring.start - $config.capacity", "$ring.start", "SHM-1/lap/free_oldest"),
    Bug(
        chunks.rebased,
        "$ring._replace(start=$start, end=$end)",
        "$ring._replace(start=$start, end=$end, id_end=0)",
        "SHM-6/free_all",
    ),
    Bug(chunks.without_oldest, "$ahead + $config.capacity", "$ahead", "loops/free_oldest"),
)
"""For the claims about the chunks alone."""
