"""Bugs of the object store that the properties in `cachespec.object_store.answers` have to find."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.planting import Change

from cachespec.kernel import Transitions
from cachespec.object_store import accounting, journeys, memory, readers, writer
from cachespec.object_store.configuration import Config
from cachespec.object_store.state import Store

NOTHING_CHANGED: Transitions[Config, Store] = MappingProxyType({})


class Bug(NamedTuple):
    """The property that has to find it, the scope, and what is wrong."""

    property: str
    scope: str
    transitions: Transitions[Config, Store] = NOTHING_CHANGED
    changes: tuple[Change, ...] = ()
    config: Mapping[str, Any] = MappingProxyType({})


ANSWER_BUGS = (
    Bug(
        "SHM-7/concurrent",
        "walks-overlap",
        changes=(
            Change(writer.may_begin, "len($rendering) < $config.concurrent", "len($rendering) <= $config.concurrent"),
        ),
    ),
    Bug("SHM-3/early", "aborted", changes=(Change(readers.noted, "$delivery.handle.standing == 0", "False"),)),
    Bug("SHM-10/parts", "stored-in-parts", changes=(Change(memory.write_header, "$writing.data == 1", "True"),)),
    Bug("SHM-10/parts", "aborted", changes=(Change(writer.written, "$config.stores == 0", "False"),)),
    Bug("SHM-7/answers", "resumed", changes=(Change(writer.render, "1 if $listed else 0", "0 if $listed else 1"),)),
    Bug("SHM-7/answers", "touched", changes=(Change(writer.touched, "DONE", "REFUSED"),)),
    Bug("SHM-3/reused", "aborted", changes=(Change(writer.unused, "not has_to_do($store, $request)", "True"),)),
    Bug("SHM-7/counted", "covered", changes=(Change(writer.render, "$store.renders_left - 1", "$store.renders_left"),)),
    Bug("SHM-7/between", "rejected", changes=(Change(writer.release, "$walker == NOTHING", "$walker != NOTHING"),)),
    Bug("SHM-8/left", "rejected", changes=(Change(writer.may_begin, "$few and not $left", "$few"),)),
    Bug(
        "SHM-2/named",
        "resumed",
        changes=(Change(writer.handed_out, "($handle.address, $identity)", "($identity, $handle.address)"),),
    ),
    Bug(
        "SHM-7/handed",
        "touched",
        changes=(Change(accounting.issue, "$store.protected.remove($identity)", "$store.protected"),),
    ),
    Bug(
        "SHM-7/own", "batch-larger", changes=(Change(accounting.may_go, "not $store.protected.has($identity)", "True"),)
    ),
    Bug(
        "SHM-6/needed",
        "halves",
        changes=(Change(writer.lacks_room, "$refused and oldest_may_go($store)", "oldest_may_go($store)"),),
    ),
    Bug(
        "SHM-6/reported",
        "found-and-gone",
        changes=(Change(writer.free_unused, "Outcome(Code.DONE, $gone)", "Outcome(Code.DONE)"),),
    ),
    Bug(
        "SHM-10/stores",
        "stored-in-parts",
        changes=(Change(writer.stored_part, "$op.part == 0 and $writing.header == 0", "$op.part == 0"),),
    ),
    Bug("SHM-8/phases", "faults", changes=(Change(journeys.moved, "$journey.phase not in $expected", "False"),)),
    Bug("SHM-8/moved", "delivered-twice", changes=(Change(journeys.repeat, "$phase != RUNNING", "True"),)),
    Bug("SHM-8/marked", "resumed", changes=(Change(journeys.resume, "delivered(*$rest, 1)", "delivered(*$rest, 0)"),)),
    Bug(
        "SHM-8/revoked",
        "aborted",
        changes=(Change(journeys.fallen, "$delivery.request != $request", "False"),),
    ),
    Bug("SHM-8/passed", "faults", changes=(Change(readers.next_one, "$worker.inbox[1:]", "$worker.inbox[2:]"),)),
    Bug("SHM-8/passed", "faults", changes=(Change(readers.acknowledge, "STALE", "DONE"),)),
)
