"""What an engine is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cachespec import mirror, object_store, scheduler
from cachespec.engine.ledger import NUMBERED, Ledger
from cachespec.engine.worker import DROP_FIRST, Intake, Judge, Phase, lacks_item, queue
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
    judges: Judge = lacks_item
    """What a worker makes of a handle that it cannot read."""
    ledger: Ledger = NUMBERED
    """How the requests on their way are ordered, which depends on the mirror."""
    is_dead: Callable[[Any], bool] = lambda state: False
    """Whether the scheduler's state is that of an engine that an error has ended."""


NORMATIVE_PARTS = Parts(mirror.COMPONENT.normative, object_store.COMPONENT.normative, scheduler.COMPONENT.normative)
