"""Engines of which one part is as it once was, or as it was once proposed.

What a part does by itself is in its own component. Here is what only shows when they are together: an account that is
kept well, and a worker that does in another order what the account was kept for.
"""

from __future__ import annotations

from dataclasses import replace

from cachespec.encoder_cache import NORMATIVE_ENCODER_CACHE, Allocate, Cache
from cachespec.encoder_cache import Config as EncoderConfig
from cachespec.encoder_cache.transitions import allocate
from cachespec.engine.assembly import engine
from cachespec.engine.configuration import Config
from cachespec.engine.operations import DeliverAbort
from cachespec.engine.parts import NORMATIVE_PARTS
from cachespec.engine.state import State, View
from cachespec.engine.worker import DROP_LAST, drop_at_once
from cachespec.kernel import Code, Outcome, Variant
from cachespec.mirror.operations import Deliver
from cachespec.object_store.eras import M3
from cachespec.scheduler.era_rules import executed_only, released_at_once
from cachespec.scheduler.eras import S2, S2B, S3, SchedulerVariant
from cachespec.scheduler.eras import scheduler as scheduler_by
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import Add, ResetEncoderCache, Schedule


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


def engine_with(scheduler: SchedulerVariant, title: str) -> Variant[Config, State, View]:
    """The engine that has this scheduler, and differs in the same; a request is added when it is delivered."""
    return engine(
        scheduler.tag,
        title,
        replace(NORMATIVE_PARTS, scheduler=scheduler),
        differences={Deliver if kind is Add else kind: why for kind, why in scheduler.differences.items()},
        start_differs=scheduler.start_differs,
        exempt=dict(scheduler.exempt),
    )


S2_ENGINE = engine_with(S2, "engine with scheduler-2025-10")
S2B_ENGINE = engine_with(S2B, "engine with scheduler-2026-05")
S3_ENGINE = engine_with(S3, "engine with scheduler-2026-11")

M3_STORE = engine(
    "M3-store",
    "engine with the object store of 2026-11",
    replace(NORMATIVE_PARTS, store=M3),
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
    M3_STORE,
)
