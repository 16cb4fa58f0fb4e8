"""The scheduler: which requests compute how many tokens in the next step, with which blocks and encoder outputs.

`NORMATIVE_SCHEDULER.step(config, state, operation)` does `Add(request)`, `Schedule()` (a whole round, whose plan is
then the newest of `state.plans`), `Update(accepted)` (the oldest plan, `state.plans[0]`, was executed; without drafts
`accepted` is 0), `Abort(request)`, `ResetPrefixCache()` and `ResetEncoderCache()`; `state.kv` and `state.encoder` are
the caches, and the workers learn what to drop, encode and compute from the `Plan` alone. `state.worker` has what they
really have computed.

Read `configuration`, `operations` and `state`, then `rounds`, which is the definition of a scheduling step, with
`counts` and `items`; `requests` says how requests come and go, `feasibility` which can be served, `worker` and `work`
what workers have and do, `properties` and `steps` what must hold. `rules` names the decisions in which released
schedulers differ.
"""

from __future__ import annotations

from cachespec.kernel import NORMATIVE, Component, Variant, variants
from cachespec.scheduler.configuration import UNSPECIFIED, Config, interchangeable, malformed
from cachespec.scheduler.environment import calls, unknown
from cachespec.scheduler.eras import S0, S1, S2, S2B, S3
from cachespec.scheduler.normative import RULES, TRANSITIONS
from cachespec.scheduler.operations import (
    OPERATIONS,
    Abort,
    Add,
    BringOutput,
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    LoseOutput,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.properties import PROGRESS, SAFETY
from cachespec.scheduler.service import SERVICE
from cachespec.scheduler.single_faults import SINGLE_FAULTS
from cachespec.scheduler.state import Plan, Scheduled, State, View, initial
from cachespec.scheduler.steps import STEPS
from cachespec.scheduler.view import GROUPING, OBSERVABLES, observe, seen
from cachespec.scheduler.work import normal

NORMATIVE_SCHEDULER: Variant[Config, State, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=State,
    initial=initial,
    transitions=TRANSITIONS,
    view=lambda config, state: seen(RULES, config, state),
    alphabet=calls,
    normal=normal,
)

COMPONENT: Component[Config, State, View] = Component(
    name="scheduler",
    summary="the scheduling step: tokens, KV blocks and encoder outputs for requests",
    config=Config,
    malformed=malformed,
    unspecified=UNSPECIFIED,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_SCHEDULER, S0, S1, S2, S2B, S3, *SINGLE_FAULTS),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
    service=SERVICE,
)

__all__ = [
    "COMPONENT",
    "NORMATIVE_SCHEDULER",
    "Abort",
    "Add",
    "BringOutput",
    "Compile",
    "Config",
    "FailLoad",
    "FailStep",
    "FinishLoad",
    "FinishSend",
    "LoseOutput",
    "Plan",
    "ResetEncoderCache",
    "ResetPrefixCache",
    "ResetRunning",
    "Schedule",
    "Scheduled",
    "State",
    "Update",
    "View",
]
