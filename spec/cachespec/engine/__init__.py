"""An engine: frontends with their side of the mirror, the engine core with its scheduler, and workers, all together.

Each part is the component of its own name, unchanged. What is here ties them together: a request travels with the
message of the mirror, a plan of the scheduler becomes a step in the inbox of every worker, clients go away at any
point, and each cache may be reset while all of that is under way. The properties are those of
the states of the parts, and X-1, X-3 and X-4; X-2 is SCH-1 here.

Read `operations`, `worker` (what really exists, and in which order a step touches it), `transitions`, `properties` and
`steps`.
"""

from __future__ import annotations

from dataclasses import replace

from cachespec.engine.answers import ANSWERS
from cachespec.engine.assembly import engine
from cachespec.engine.configuration import UNSPECIFIED, Config, interchangeable, malformed
from cachespec.engine.environment import config_of, rules_out, unknown
from cachespec.engine.eras import ERAS
from cachespec.engine.normative import TRANSITIONS
from cachespec.engine.operations import Cancel, DeliverAbort, DeliverRequest, Execute, SubmitRequest
from cachespec.engine.parts import NORMATIVE_PARTS, Parts
from cachespec.engine.properties import PROGRESS, SAFETY
from cachespec.engine.state import GROUPING, OBSERVABLES, State, View, observe
from cachespec.engine.steps import STEPS
from cachespec.kernel import NORMATIVE, Component, variants
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Retry, Transmit
from cachespec.object_store.operations import Clear, End
from cachespec.scheduler.operations import (
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)

NORMATIVE_ENGINE = replace(engine(NORMATIVE, "normative", NORMATIVE_PARTS), transitions=TRANSITIONS)

COMPONENT: Component[Config, State, View] = Component(
    name="engine",
    summary="the whole engine: frontends, mirror, object store, scheduler, KV blocks, encoder cache, workers",
    config=Config,
    malformed=malformed,
    unspecified=UNSPECIFIED,
    operations=(
        SubmitRequest,
        Deliver,
        Receive,
        Transmit,
        Expire,
        Join,
        Retry,
        DeliverRequest,
        End,
        Cancel,
        DeliverAbort,
        Compile,
        Schedule,
        Execute,
        Update,
        FinishLoad,
        FailLoad,
        FailStep,
        FinishSend,
        ResetReceiver,
        Clear,
        ResetPrefixCache,
        ResetRunning,
        ResetEncoderCache,
    ),
    variants=variants(NORMATIVE_ENGINE, *ERAS),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    rules_out=rules_out,
    config_of=config_of,
    unknown=unknown,
    safety=SAFETY,
    steps=(*STEPS, *ANSWERS),
    progress=PROGRESS,
)

__all__ = [
    "COMPONENT",
    "NORMATIVE_ENGINE",
    "Cancel",
    "Config",
    "DeliverAbort",
    "Execute",
    "Parts",
    "State",
    "SubmitRequest",
    "View",
    "engine",
]
