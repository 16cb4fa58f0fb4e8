"""The normative variant."""

from __future__ import annotations

from cachespec.kernel import NORMATIVE, Transitions, Variant
from cachespec.object_store import journeys, readers, writer
from cachespec.object_store.configuration import Config
from cachespec.object_store.environment import calls
from cachespec.object_store.normal_form import normal
from cachespec.object_store.operations import (
    Abort,
    Acknowledge,
    Clear,
    Copy,
    Die,
    End,
    Finish,
    Forge,
    FreeUnused,
    GetCached,
    Look,
    Preempt,
    Put,
    Read,
    Reject,
    Release,
    Render,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Send,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import Store, initial
from cachespec.object_store.view import View, view

TRANSITIONS: Transitions[Config, Store] = {
    Render: writer.render,
    Touch: writer.touch,
    GetCached: writer.get_cached,
    Put: writer.put,
    StorePart: writer.store_part,
    Release: writer.release,
    FreeUnused: writer.free_unused,
    Clear: writer.clear,
    Send: journeys.send,
    Reject: journeys.reject,
    Forge: journeys.forge,
    Schedule: journeys.schedule,
    Repeat: journeys.repeat,
    Preempt: journeys.preempt,
    Resume: journeys.resume,
    Finish: journeys.finish,
    Abort: journeys.abort,
    End: journeys.end,
    Die: journeys.die,
    Restart: journeys.restart,
    Read: readers.read,
    Look: readers.look,
    Copy: readers.copy,
    Acknowledge: readers.acknowledge,
}

NORMATIVE_STORE: Variant[Config, Store, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Store,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=calls,
    normal=normal,
)
