"""What an engine is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cachespec import mirror, object_store, scheduler
from cachespec.engine.worker import DROP_FIRST, Intake, Phase, queue
from cachespec.kernel import Variant


@dataclass(frozen=True, slots=True)
class Parts:
    """The variant of each component, and the order in which workers do things. An era names other parts."""

    mirror: Variant[Any, Any, mirror.View]
    store: Variant[Any, Any, Any]
    scheduler: Variant[scheduler.Config, Any, scheduler.View]
    phases: tuple[Phase, ...] = DROP_FIRST
    """What a worker does with a step, in order."""
    takes_plan: Intake = queue
    takes_reset: Intake = queue


NORMATIVE_PARTS = Parts(mirror.COMPONENT.normative, object_store.COMPONENT.normative, scheduler.COMPONENT.normative)
