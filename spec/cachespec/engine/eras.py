"""Engines of which one part is as it once was, or as it was once proposed.

What a part does by itself is in its own component. Here is what only shows when they are together: an account that is
kept well, and a worker that does in another order what the account was kept for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cachespec.encoder_cache import NORMATIVE_ENCODER_CACHE, Allocate, Cache
from cachespec.encoder_cache import Config as EncoderConfig
from cachespec.encoder_cache.transitions import allocate
from cachespec.engine.assembly import engine
from cachespec.engine.configuration import Config
from cachespec.engine.ledger import IN_TURN
from cachespec.engine.operations import DeliverAbort, Execute, SubmitRequest
from cachespec.engine.parts import NORMATIVE_PARTS
from cachespec.engine.properties import OF_OTHERS
from cachespec.engine.state import State, View
from cachespec.engine.worker import DROP_LAST, drop_at_once, ends_at_stale
from cachespec.kernel import Code, Operation, Outcome, Variant
from cachespec.mirror import COMPONENT as MIRROR
from cachespec.mirror import Config as MirrorConfig
from cachespec.mirror import View as MirrorView
from cachespec.mirror.era_state import State as Mirror
from cachespec.mirror.eras import M1, M2, M3
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Expire, Join, Render, Retry, Transmit
from cachespec.object_store import COMPONENT as STORE
from cachespec.object_store.configuration import Config as StoreConfig
from cachespec.object_store.eras import M1 as M1_STORE
from cachespec.object_store.eras import M2 as M2_STORE
from cachespec.object_store.eras import M3 as M3_STORE
from cachespec.object_store.operations import Clear, End, Put, Read
from cachespec.object_store.operations import Schedule as SendHandles
from cachespec.object_store.state import Store
from cachespec.object_store.view import View as StoreView
from cachespec.scheduler import COMPONENT as SCHEDULER
from cachespec.scheduler.era_placeholders import is_dead
from cachespec.scheduler.era_rules import executed_only, released_at_once
from cachespec.scheduler.eras import S2, S2B, S3, SchedulerVariant
from cachespec.scheduler.eras import scheduler as scheduler_by
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import (
    Add,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    ResetEncoderCache,
    ResetRunning,
    Schedule,
    Update,
)


def allocate_and_still_report(config: EncoderConfig, cache: Cache, op: Allocate) -> tuple[Cache, Outcome]:
    """C-ENC-8: the eviction of what is there again stays on the list."""
    after, outcome = allocate(config, cache, op)
    return (after._replace(freed=cache.freed) if outcome.code is Code.DONE else after), outcome


REPORTING = NORMATIVE_ENCODER_CACHE.era(
    "reports-recreated",
    "an encoder cache that reports what it has created again",
    {Allocate: allocate_and_still_report},
    {Allocate: "C-ENC-8: what is evicted and created again before the report is reported"},
)

REPORTS_RECREATED_PARTS = replace(
    NORMATIVE_PARTS,
    scheduler=scheduler_by("reports-recreated", "reports what is there", RULES._replace(encoder=REPORTING), {}),
)

REPORTS_RECREATED = engine(
    "reports-recreated",
    "engine that reports what is there again",
    REPORTS_RECREATED_PARTS,
    differences={Schedule: "C-ENC-8: an entry evicted and created again in one pass is reported; workers drop first"},
)

DROPS_LAST = engine(
    "drops-last",
    "engine whose workers drop last",
    replace(REPORTS_RECREATED_PARTS, phases=DROP_LAST),
    differences={Schedule: "C-ENC-8: an entry created again is reported, and workers drop after they encode"},
)

DROPS_AT_ONCE = engine(
    "drops-at-once",
    "engine that releases before execution",
    replace(
        NORMATIVE_PARTS,
        scheduler=scheduler_by(
            "releases-early",
            "releases items when they are scheduled",
            RULES._replace(after_round=released_at_once, executed=executed_only),
            {},
        ),
        takes_plan=drop_at_once,
    ),
    differences={Schedule: "C-ENC-9: items are released when scheduled, and dropped before the step is executed"},
)

RESETS_AT_ONCE = engine(
    "resets-at-once",
    "engine whose reset overtakes its steps",
    replace(NORMATIVE_PARTS, takes_reset=drop_at_once),
    differences={ResetEncoderCache: "C-X-1: workers are cleared at once, while steps are in flight"},
)


IN_STATES = {
    rule.name
    for part in (MIRROR, STORE, SCHEDULER)
    for rules in (part.safety, part.progress)
    for rule in rules
    if rule.name not in OF_OTHERS
}
"""Properties of its parts that an engine is held to; steps are checked where these parts are alone."""


def in_states(exempt: Mapping[str, str]) -> dict[str, str]:
    """Those that the engine takes from its parts: none about steps."""
    return {rule: exempt[rule] for rule in sorted(exempt) if rule in IN_STATES}


def engine_with(
    mirror: Variant[MirrorConfig, Mirror, MirrorView],
    store: Variant[StoreConfig, Store, StoreView],
    scheduler: SchedulerVariant,
    title: str,
) -> Variant[Config, State, View]:
    """The engine of these three eras, which differs as they do. A request is added when it is delivered."""
    differences: dict[type[Operation], str] = {
        SubmitRequest: f"{mirror.differences[Render]}; {store.differences[Put]}",
        Deliver: f"{mirror.differences[Deliver]}; {scheduler.differences[Add]}",
        ResetReceiver: mirror.differences[ResetReceiver],
        End: store.differences[End],
        Clear: store.differences[Clear],
        Schedule: f"{scheduler.differences[Schedule]}; {store.differences[SendHandles]}",
        Execute: f"{store.differences[Read]}; a stale handle ends the worker, and the engine with it",
        Update: scheduler.differences[Update],
    }
    newer: dict[type[Operation], str] = {
        **dict.fromkeys((ResetEncoderCache, ResetRunning), "not there yet"),
        **dict.fromkeys((FinishLoad, FailLoad, FailStep, FinishSend), "connectors are not modelled"),
        Retry: "a miss is an error",
    }
    there = {*mirror.transitions, *scheduler.transitions}
    parts = replace(
        NORMATIVE_PARTS, mirror=mirror, store=store, scheduler=scheduler, ledger=IN_TURN, judges=ends_at_stale
    )
    return engine(
        scheduler.tag,
        title,
        replace(parts, is_dead=is_dead) if "dead" in scheduler.state._fields else parts,
        differences=differences,
        start_differs="; ".join(text for text in (scheduler.start_differs, store.start_differs) if text),
        exempt={
            **in_states(mirror.exempt),
            **in_states(store.exempt),
            **in_states(scheduler.exempt),
            "X-3/ledger": "P0 keeps no request until an answer confirms it",
        },
    ).lacking({**NO_PROTOCOL, **{kind: why for kind, why in newer.items() if kind not in there}})


NO_PROTOCOL: Mapping[type[Operation], str] = {
    Transmit: "P0 keeps no message",
    Expire: "P0 waits for an answer for ever",
    Join: "a frontend is never told what P1 has",
}

MIRRORS: Mapping[str, str] = {"S2": "M1", "S2b": "M2", "S3": "M3"}
"""The era of the mirror that each released engine has."""

STORES: Mapping[str, str] = {"S2": "M1", "S2b": "M2", "S3": "M3"}
"""The era of the object store that each released engine has."""

S2_ENGINE = engine_with(M1, M1_STORE, S2, "engine of 2025-10")
S2B_ENGINE = engine_with(M2, M2_STORE, S2B, "engine of 2026-05")
S3_ENGINE = engine_with(M3, M3_STORE, S3, "engine of 2026-11")

M3_STORE_ALONE = engine(
    "M3-store",
    "engine with the object store of 2026-11",
    replace(NORMATIVE_PARTS, store=M3_STORE),
    differences={DeliverAbort: "C-SHM-4: handles of a request that never reached a worker are never acknowledged"},
)

ERAS: tuple[Variant[Config, State, View], ...] = (
    REPORTS_RECREATED,
    DROPS_LAST,
    DROPS_AT_ONCE,
    RESETS_AT_ONCE,
    S2_ENGINE,
    S2B_ENGINE,
    S3_ENGINE,
    M3_STORE_ALONE,
)
