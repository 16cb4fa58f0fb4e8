"""The shared-memory object store: items that P0 puts into shared memory once, and that every worker reads there.

P0 sends handles instead of items. Read `operations` (what can happen), `state`, `accounting` (which handles are out),
`writer` (P0), `readers` (the workers), `journeys` (what becomes of requests, and faults), then `properties`,
`completeness`, `answers` and the eras. The chunks are those of `cachespec.ring`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.object_store.answers import ANSWERED_STATES, ANSWERED_STEPS
from cachespec.object_store.completeness import COMPLETENESS
from cachespec.object_store.configuration import Config, interchangeable, malformed
from cachespec.object_store.environment import unknown
from cachespec.object_store.eras import M1, M2, M3, STRIPPED, TOUCHING_UNCHECKED, UNSIGNED
from cachespec.object_store.normative import NORMATIVE_STORE
from cachespec.object_store.operations import OPERATIONS
from cachespec.object_store.properties import PROGRESS, SAFETY, STEPS
from cachespec.object_store.state import Store
from cachespec.object_store.view import GROUPING, OBSERVABLES, View, observe

COMPONENT: Component[Config, Store, View] = Component(
    name="object_store",
    summary="multimodal items in shared memory, written once and read by every worker",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_STORE, M1, M2, M3, STRIPPED, TOUCHING_UNCHECKED, UNSIGNED),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=(*SAFETY, *ANSWERED_STATES),
    steps=(*STEPS, *COMPLETENESS, *ANSWERED_STEPS),
    progress=PROGRESS,
)
