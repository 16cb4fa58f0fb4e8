"""A bug for each claim that is proved of a publication, and of the function that says which chunks may go."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.publication import transitions

BUGS = (
    Bug(transitions.stored, "stage=$stage", "", "SHM-10/stored/write_header"),
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
    Bug(transitions.free, "may_go($config, $exchange, $identity)", "True", "SHM-2/free"),
    Bug(transitions.publish, "if $exchange.pending:\n    return $x", "", "waiting/publish"),
    Bug(transitions.acknowledge, "count_of($op.reader, $at)", "$at", "SHM-2/visible/acknowledge"),
    Bug(
        transitions.acknowledge,
        "$memory.set(count_of($op.reader, $at), 1)",
        "$memory.set(count_of($op.reader, $at), 2)",
        "SHM-3/acknowledge",
    ),
    Bug(transitions.clear, "forgotten($config, $x, $values)", "$x", "SHM-4/clear"),
    Bug(
        transitions.allocate,
        "$config.readers + $config.sizes[$op.content]",
        "$config.sizes[$op.content]",
        "sized/allocate",
    ),
    Bug(transitions.handed_out, "writing=NOT_WRITING", "", "in progress/publish"),
    Bug(
        transitions.write_counts,
        "(count_of($reader, $at), 0)",
        "(count_of($reader, $at), 1)",
        "waiting/write_counts",
    ),
    Bug(
        transitions.open_chunk,
        "Reading(handles=$rest, opened=$handle, size=$size, units=())",
        "Reading(handles=reading.handles, opened=$handle, size=$size, units=())",
        "once/open",
    ),
    Bug(
        transitions.reader_dies,
        "with_reader($exchange, $op.reader, IDLE_READER)",
        "with_reader($exchange, $op.reader, reading)",
        "given up/reader_dies",
    ),
    Bug(transitions.copy, "$exchange.memory.get($unit, 0)", "$exchange.memory.get($unit, 0) + 1", "copied/copy"),
    Bug(transitions.restart, "$exchange.number + 1", "$exchange.number + 2", "SHM-5/segment/restart"),
    Bug(transitions.free, "$config.capacity", "1", "SHM-6/free"),
    Bug(
        transitions.allocate,
        "if $outcome.code is not Code.DONE:\n    return ($exchange, $outcome)",
        "if $outcome.code is not Code.DONE:\n    return ($exchange._replace(number=1), $outcome)",
        "SHM-7/allocate",
    ),
    Bug(transitions.acknowledge, "IDLE_READER._replace(handles=$handles)", "IDLE_READER", "SHM-8/step/acknowledge"),
    Bug(transitions.open_chunk, "$number != $exchange.number or $x", "$x", "SHM-8/served/open"),
    Bug(
        transitions.open_chunk,
        "with_reader($exchange, $op.reader, $opened), HIT",
        "with_reader($exchange._replace(memory=$exchange.memory.set(0, 0)), $op.reader, $opened), HIT",
        "SHM-9/open",
    ),
    Bug(
        transitions.acknowledge,
        "Outcome(Code.HIT, $reading.units)",
        "Outcome(Code.HIT, $reading.units[1:])",
        "SHM-10/acknowledge",
    ),
    Bug(transitions.appear, "pending=$rest", "", "SHM-10/visible/appear"),
    Bug(transitions.handed_out, "(*$reading.handles, $handle)", "($handle,)", "SHM-10/handed/publish"),
    Bug(transitions.forgotten, "contents.remove(identity)", "contents", "loops/free"),
    Bug(transitions.reader_dies, "$content >= 0 and $x", "$content > 0 and $x", "loops/reader_dies"),
    Bug(transitions.restart, "$memory.remove($unit)", "$memory.remove(0)", "loops/restart"),
)

OF_ANSWERS = (
    Bug(transitions.may_go, "$missing == 0", "$missing <= 1", "SHM-3/answered/ask"),
    Bug(transitions.as_the_writer_sees, "$stored_unit == $unit", "$stored_unit >= $unit", "loops/ask"),
    Bug(transitions.has_answered, "$x or $seen == 1", "$x", "loops/ask"),
)
"""For the claim about which chunks may go."""
