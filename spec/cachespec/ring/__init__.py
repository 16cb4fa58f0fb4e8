"""The shared-memory ring: one writer places chunks, readers in other processes read them through handles.

`chunks` is the writer's private side and all that another component embeds: `Ring`, `empty_ring`, `reserve`,
`free_chunks`, `clear_chunks`, each `(config, ring, ...) -> (ring, Outcome)`; `era_chunks` has what released writers do
otherwise. Here it is put together with the memory and the handles that are out, each call in one step. What may come
between the steps of a call is in `cachespec.publication`.

Read `operations`, `chunks`, `memory`, `state` and `transitions` in this order, then `properties` and `eras`. Source:
semantics of the released `SingleWriterShmRingBuffer`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.ring.chunks import MayGo, Ring, clear_chunks, empty_ring, free_chunks, reserve
from cachespec.ring.configuration import Config, interchangeable, malformed
from cachespec.ring.environment import unknown
from cachespec.ring.eras import BEGINNING_AGAIN, KEEPING_IDS, NORMATIVE_RING, STAYING_BEHIND
from cachespec.ring.operations import OPERATIONS, Allocate, Clear, Free, Read, Restart, Revoke
from cachespec.ring.properties import PROGRESS, SAFETY, STEPS
from cachespec.ring.state import GROUPING, OBSERVABLES, Segment, View, initial, observe, view

COMPONENT: Component[Config, Segment, View] = Component(
    name="ring",
    summary="the shared-memory ring: one process writes chunks, others read them",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_RING, STAYING_BEHIND, BEGINNING_AGAIN, KEEPING_IDS),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
)

__all__ = [
    "BEGINNING_AGAIN",
    "COMPONENT",
    "KEEPING_IDS",
    "NORMATIVE_RING",
    "STAYING_BEHIND",
    "Allocate",
    "Clear",
    "Config",
    "Free",
    "MayGo",
    "Read",
    "Restart",
    "Revoke",
    "Ring",
    "Segment",
    "View",
    "clear_chunks",
    "empty_ring",
    "free_chunks",
    "initial",
    "reserve",
    "view",
]
