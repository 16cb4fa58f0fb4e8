"""Which operations a configuration rules out."""

from __future__ import annotations

from collections.abc import Mapping

from cachespec.kernel import Operation
from cachespec.object_store.configuration import Config
from cachespec.object_store.operations import (
    Abort,
    Acknowledge,
    Clear,
    Copy,
    Die,
    Forge,
    FreeUnused,
    Look,
    Preempt,
    Read,
    ReaderTouch,
    Reject,
    Release,
    Repeat,
    Restart,
    Resume,
    Store,
    Touch,
)

SWITCHED: Mapping[str, tuple[type[Operation], ...]] = {
    "touches": (Touch, Release, ReaderTouch),
    "stores": (Store,),
    "rejects": (Reject,),
    "aborts": (Abort,),
    "preempts": (Preempt, Resume),
    "clears": (Clear,),
    "deaths": (Die,),
    "restarts": (Restart,),
    "forges": (Forge,),
    "reclaims": (FreeUnused,),
    "repeats": (Repeat,),
}


def switched_off(config: Config) -> Mapping[type[Operation], str]:
    """Each operation that cannot happen, with the switch that says so."""
    off: dict[type[Operation], str] = {}
    for name, operations in SWITCHED.items():
        if not getattr(config, name):
            off.update(dict.fromkeys(operations, f"{name} = 0"))
    if config.stepwise:
        off[Read] = "stepwise = 1: reading is three steps"
    else:
        off.update(dict.fromkeys((Look, Copy, Acknowledge), "stepwise = 0: reading is one step"))
    return off
