"""A bug for each claim that is proved of the ring, of its chunks alone, and of its memory alone."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.ring import chunks, memory, transitions

BUGS = (
    Bug(
        transitions.clear,
        "ring=$ring",
        "ring=$ring._replace(starts=$ring.starts.set($ring.id_start, -1))",
        "SHM-1/clear",
    ),
    Bug(
        transitions.restart,
        "$ring._replace(id_start=0, id_end=0)",
        "$ring._replace(id_start=0, id_end=0, start=1)",
        "SHM-1/window/restart",
    ),
    Bug(
        transitions.restart,
        "$ring._replace(id_start=0, id_end=0)",
        "$ring._replace(id_start=0, id_end=1)",
        "SHM-4/ids/restart",
    ),
    Bug(
        transitions.clear,
        "ring=$ring",
        "ring=$ring._replace(sizes=$ring.sizes.set($ring.id_start, 1))",
        "laid out/clear",
    ),
    Bug(transitions.issue, "$segment.number", "$segment.number + 1", "loops/allocate"),
    Bug(
        transitions.clear,
        "$segment._replace(ring=$ring)",
        "$segment._replace(ring=$ring, memory=$segment.memory.set(0, 1))",
        "SHM-2/clear",
    ),
    Bug(transitions.clear, "forgotten($x, $outcome.values)", "$x", "SHM-4/clear"),
    Bug(transitions.forgotten, "($x.remove($key), $y.remove($key))", "($x, $y.remove($key))", "loops/free"),
    Bug(
        transitions.allocate,
        "issue($config, $x, $op.content, $identity, $at)",
        "issue($config, $x, $op.content, 0, $at)",
        "SHM-5/allocate",
    ),
    Bug(transitions.answered, "$left > 0", "$left > 1", "owed/read"),
    Bug(transitions.may_go, "not $segment.unanswered.has($identity)", "True", "SHM-2/freed/free"),
    Bug(transitions.restart, "wiped($config, $segment.memory)", "$segment.memory", "SHM-5/segment/restart"),
    Bug(transitions.free, "ring=$ring", "ring=$ring._replace(id_end=0)", "SHM-6/free"),
    Bug(transitions.free, "$op.want", "$op.want + 1", "SHM-6/wanted/free"),
    Bug(
        transitions.allocate,
        "if $x:\n    return ($segment, $outcome)",
        "if $x:\n    return ($segment._replace(number=1), $outcome)",
        "SHM-7/allocate",
    ),
    Bug(transitions.clear, "DONE", "Outcome(Code.REFUSED)", "SHM-7/other/clear"),
    Bug(transitions.allocate, "$config.sizes[$op.content]", "$config.sizes[$op.content] + 1", "SHM-8/room/allocate"),
    Bug(transitions.allocate, "$config.sizes[$op.content]", "0", "defined/allocate"),
    Bug(transitions.read, "$op.segment != $segment.number or $x", "$x", "SHM-8/served/read"),
    Bug(
        transitions.without_handle,
        "$segment.handles.get($handle, 0) - 1",
        "$segment.handles.get($handle, 0)",
        "SHM-8/once/revoke",
    ),
    Bug(transitions.revoke, "not $segment.handles.has($x)", "False", "SHM-8/held/revoke"),
    Bug(
        transitions.read,
        "answered($left, $op.identity)",
        "answered($left._replace(memory=$left.memory.set($op.place, 1)), $op.identity)",
        "SHM-9/read",
    ),
    Bug(
        transitions.read,
        "read_payload($config, $segment.memory, $op.place)",
        "read_payload($config, $segment.memory, $op.place + 1)",
        "SHM-10/read",
    ),
)

OF_CHUNKS = (
    Bug(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total <= $config.capacity + 1", "SHM-1/reserve"),
    Bug(chunks.reserve, "$config.capacity", "$config.capacity + 1", "SHM-1/reserve"),
    Bug(chunks.reserve, "end=$address + $total", "end=$address + payload", "SHM-1/extent/reserve"),
    Bug(chunks.reserve, "$x or $ring.starts.has($ring.id_end)", "$x", "SHM-5/new/reserve"),
    Bug(chunks.reserve, "($address, $ring.id_end)", "($address, $ring.id_start)", "SHM-5/new/reserve"),
    Bug(chunks.reserve, "successor($config, $ring.id_end)", "$ring.id_end", "SHM-4/ids/reserve"),
    Bug(
        chunks.reserve,
        "$ring.starts.set($ring.id_end, $address)",
        "$ring.starts.set($ring.id_end, 0)",
        "SHM-6/order/reserve",
    ),
    Bug(chunks.reserve, "return ($ring, REFUSED)", "return ($ring._replace(start=1), REFUSED)", "SHM-7/reserve"),
    Bug(
        chunks.candidate,
        "$at + $total <= $config.capacity",
        "$at + $total < $config.capacity",
        "SHM-8/room/reserve",
    ),
    Bug(chunks.rebased, "$ring.start - $config.capacity", "$ring.start", "SHM-1/window/free_oldest"),
    Bug(
        chunks.rebased,
        "$ring._replace(start=$start, end=$end)",
        "$ring._replace(start=$start, end=$end, id_end=0)",
        "SHM-6/free_all",
    ),
    Bug(chunks.free_chunks, "Outcome(Code.DONE, $gone)", "Outcome(Code.DONE, ())", "SHM-6/listed/free_oldest"),
    Bug(chunks.goes_next, "$wanting > 0", "$wanting > 1", "SHM-6/wanted/free_oldest"),
    Bug(chunks.goes_next, "$wanting > 0", "$wanting > 1", "SHM-6/first/free_oldest"),
    Bug(chunks.clear_chunks, "$config.capacity", "$config.capacity // 2", "SHM-6/all/free_all"),
    Bug(
        chunks.rebased,
        "if $x:\n    return $ring",
        "if $x:\n    return $ring._replace(starts=$ring.starts.remove($ring.id_start))",
        "SHM-2/kept/free_oldest",
    ),
    Bug(chunks.goes_next, "$x and $y and may_go($ring.id_start)", "$x and $y", "loops/free_oldest"),
    Bug(chunks.without_oldest, "$ahead + $config.capacity", "$ahead", "loops/free_oldest"),
    Bug(chunks.without_oldest, "end=0", "", "loops/free_oldest"),
)
"""For the claims about the chunks alone."""

OF_MEMORY = (
    Bug(memory.write_chunk, "$config.header + $size", "$size", "written/write"),
    Bug(memory.write_chunk, "$at + $config.header + $unit", "$at + $unit", "loops/write"),
    Bug(memory.write_field, "$value // BASE", "$value", "loops/write"),
    Bug(
        memory.read_id, "read_field($config, $memory, $at)", "read_field($config, $memory, $at + 1)", "read id/read_id"
    ),
    Bug(
        memory.read_payload,
        "$at + read_size($config, $memory, $at)",
        "$at + read_size($config, $memory, $at) - 1",
        "read payload/read_payload",
    ),
    Bug(memory.read_field, "$value * BASE", "$value", "loops/read_id"),
)
"""For the claims about the memory alone."""
