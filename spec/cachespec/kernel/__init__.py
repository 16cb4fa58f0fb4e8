"""The form of the specification: components, operations, outcomes, properties, containers and names."""

from cachespec.kernel.component import NORMATIVE, Component, Observation, Transition, Variant, variants
from cachespec.kernel.containers import FROZEN, REROOTING, Containers, FrozenMap, FrozenQueue, Map, Queue
from cachespec.kernel.names import IndexedBy, Name, Rank, RankScope
from cachespec.kernel.operation import Kind, Operation
from cachespec.kernel.outcome import (
    ABSENT,
    DIVERGED,
    DONE,
    FAILED,
    HIT,
    MISS,
    PRESENT,
    REFUSED,
    STALE,
    TOO_LARGE,
    UNSUPPORTED,
    Code,
    Outcome,
)
from cachespec.kernel.properties import Progress, Safety, Step, lifted, lifted_progress
from cachespec.kernel.service import Check, Demand, Request, Script, Served, Service

__all__ = [
    "ABSENT",
    "DIVERGED",
    "DONE",
    "FAILED",
    "FROZEN",
    "HIT",
    "MISS",
    "NORMATIVE",
    "PRESENT",
    "REFUSED",
    "REROOTING",
    "STALE",
    "TOO_LARGE",
    "UNSUPPORTED",
    "Check",
    "Code",
    "Component",
    "Containers",
    "Demand",
    "FrozenMap",
    "FrozenQueue",
    "IndexedBy",
    "Kind",
    "Map",
    "Name",
    "Observation",
    "Operation",
    "Outcome",
    "Progress",
    "Queue",
    "Rank",
    "RankScope",
    "Request",
    "Safety",
    "Script",
    "Served",
    "Service",
    "Step",
    "Transition",
    "Variant",
    "lifted",
    "lifted_progress",
    "variants",
]
