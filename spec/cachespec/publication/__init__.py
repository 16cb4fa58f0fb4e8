"""Publication: how a chunk comes from the writer to readers in other processes, step by step.

A call on the ring is one step in `cachespec.ring`. Here it is several: the writer reserves a chunk, stores its header,
its counts and its data, and gives out handles; a reader compares the id, copies the data unit by unit, and answers by
a count that is its own. Steps of different processes interleave in any way, and a store may become visible after
later ones.

Read `operations`, `state` and `transitions` in this order, then `properties` and `eras`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.publication.configuration import Config, interchangeable, malformed
from cachespec.publication.environment import unknown
from cachespec.publication.eras import DROPPING, NORMATIVE_PUBLICATION, WITHOUT_BARRIER
from cachespec.publication.operations import OPERATIONS
from cachespec.publication.properties import PROGRESS, SAFETY, STEPS
from cachespec.publication.state import GROUPING, OBSERVABLES, Exchange, View, observe

COMPONENT: Component[Config, Exchange, View] = Component(
    name="publication",
    summary="publishing a chunk of shared memory to its readers, store by store",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_PUBLICATION, WITHOUT_BARRIER, DROPPING),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
)

__all__ = ["COMPONENT", "DROPPING", "NORMATIVE_PUBLICATION", "WITHOUT_BARRIER", "Config", "Exchange", "View"]
