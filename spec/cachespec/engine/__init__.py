"""An engine: frontends with their side of the mirror, the engine core with its scheduler, and workers, all together.

Each part is the component of its own name, unchanged. What is here ties them together: a request travels with the
message of the mirror, a plan of the scheduler becomes a step in the inbox of every worker, clients go away at any
point, and each cache may be reset while all of that is under way. The properties are those of the parts, and X-1 to
X-4.

Read `operations`, `worker` (what really exists, and in which order a step touches it), `transitions`, `properties`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cachespec.engine.configuration import Config, interchangeable, invalid, mirror_config, scheduler_config
from cachespec.engine.environment import calls, switched_off, unknown
from cachespec.engine.operations import Cancel, DeliverAbort, Execute, SubmitRequest
from cachespec.engine.properties import PROGRESS, SAFETY
from cachespec.engine.state import State, View, initial, members, observe, worker_view
from cachespec.engine.transitions import NORMATIVE_PARTS, Parts, transitions
from cachespec.kernel import NORMATIVE, Component, Variant, variants
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, ResetReceiver, Transmit
from cachespec.scheduler.operations import ResetEncoderCache, ResetPrefixCache, Schedule, Update


def view(parts: Parts, config: Config, state: State) -> View:
    """The state with the views of its parts."""
    return View(
        mirror=parts.mirror.view(mirror_config(config), state.mirror),
        scheduler=parts.scheduler.view(scheduler_config(config), state.scheduler),
        workers=tuple(worker_view(worker, parts.phases) for worker in state.workers),
        submitted=members(state.submitted),
        received=members(state.received),
        rejected=members(state.rejected),
        cancelled=members(state.cancelled),
        resets_left=state.resets_left,
    )


def normal(parts: Parts, config: Config, state: State) -> State:
    """Every part in its normal form."""
    if parts.mirror.normal is None:
        return state
    return state._replace(mirror=parts.mirror.normal(mirror_config(config), state.mirror))


def engine(tag: str, title: str, parts: Parts, **changes: Any) -> Variant[Config, State, View]:
    """The engine that is made of these parts."""
    return Variant(
        tag=tag,
        title=title,
        state=State,
        initial=initial,
        transitions=transitions(parts),
        view=partial(view, parts),
        alphabet=partial(calls, parts),
        normal=partial(normal, parts),
        **changes,
    )


NORMATIVE_ENGINE = engine(NORMATIVE, "normative", NORMATIVE_PARTS)

COMPONENT: Component[Config, State, View] = Component(
    name="engine",
    summary="frontends, mirror, scheduler, KV blocks, encoder cache and workers, all together",
    config=Config,
    invalid=invalid,
    operations=(
        SubmitRequest,
        Deliver,
        Receive,
        Transmit,
        Expire,
        Join,
        Cancel,
        DeliverAbort,
        Schedule,
        Execute,
        Update,
        ResetReceiver,
        ResetPrefixCache,
        ResetEncoderCache,
    ),
    variants=variants(NORMATIVE_ENGINE),
    observe=observe,
    interchangeable=interchangeable,
    switched_off=switched_off,
    unknown=unknown,
    safety=SAFETY,
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
