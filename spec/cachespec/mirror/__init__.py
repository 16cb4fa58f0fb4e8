"""The mirrored multimodal cache: a frontend records the contents of the engine core, and messages keep both in step.

Read `operations.py` (what can happen), `recency.py` and `protocol.py` (the normative protocol), `normative.py` (its
environment), `properties.py` (MIR-1 to MIR-12), then the eras.
"""

from __future__ import annotations

from dataclasses import replace

from cachespec.kernel import Component, variants
from cachespec.mirror.configuration import Config, interchangeable, malformed
from cachespec.mirror.eras import M0, M0B, M1, M2, M2B, M3
from cachespec.mirror.normal_form import normal
from cachespec.mirror.normative import NORMATIVE_MIRROR
from cachespec.mirror.properties import PROGRESS, SAFETY, STEPS
from cachespec.mirror.service import SERVICE
from cachespec.mirror.view import GROUPING, OBSERVABLES, View, observe
from cachespec.mirror.vocabulary import OPERATIONS

COMPONENT: Component[Config, object, View] = Component(
    name="mirror",
    summary="the processor cache that P0 (frontend) and P1 (engine core) keep in step",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(replace(NORMATIVE_MIRROR, normal=normal), M0, M0B, M1, M2, M2B, M3),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
    service=SERVICE,
)

__all__ = ["COMPONENT", "Config", "View"]
