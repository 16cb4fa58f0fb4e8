"""An engine, made of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cachespec import object_store
from cachespec.engine.configuration import Config, mirror_config, scheduler_config, store_config
from cachespec.engine.environment import calls
from cachespec.engine.parts import Parts
from cachespec.engine.state import AT_P0, AT_P1, State, View, initial, members, turned_down, worker_view
from cachespec.engine.transitions import following
from cachespec.kernel import Containers, Operation, Variant, with_fields


def view(parts: Parts, config: Config, state: State) -> View:
    """The state with the views of its parts."""
    return View(
        mirror=parts.mirror.view(mirror_config(config), state.mirror),
        store=parts.store.view(store_config(config), state.store),
        scheduler=parts.scheduler.view(scheduler_config(config), state.scheduler),
        workers=tuple(worker_view(config, worker, parts.phases) for worker in state.workers),
        submitted=members(state.submitted),
        received=members(state.received),
        rejected=turned_down(state, AT_P1),
        failed=turned_down(state, AT_P0),
        cancelled=members(state.cancelled),
        unconfirmed=state.unconfirmed,
        resets_left=state.resets_left,
    )


def normal(parts: Parts, config: Config, state: State) -> State:
    """The parts in their canonical forms."""
    if parts.mirror.normal is not None:
        state = state._replace(mirror=parts.mirror.normal(mirror_config(config), state.mirror))
    if parts.store.normal is not None:
        state = state._replace(store=parts.store.normal(store_config(config), state.store))
    if parts.scheduler.normal is not None:
        state = state._replace(scheduler=parts.scheduler.normal(scheduler_config(config), state.scheduler))
    return state


def start_over(state: type[State], parts: Parts, config: Config, containers: Containers) -> State:
    """No request was sent; every part is as it begins. Without shared memory the store is the least one."""
    store = parts.store if config.shared_memory else object_store.COMPONENT.normative
    fields = {
        **initial(config, containers)._asdict(),
        "mirror": parts.mirror.start(mirror_config(config), containers),
        "store": store.start(store_config(config), containers),
        "scheduler": parts.scheduler.start(scheduler_config(config), containers),
    }
    return state(**fields)


def engine(
    tag: str,
    title: str,
    parts: Parts,
    differences: Mapping[type[Operation], str] | None = None,
    *,
    start_differs: str = "",
    exempt: Mapping[str, str] | None = None,
) -> Variant[Config, State, View]:
    """The engine made of these parts."""
    state = with_fields(State, mirror=parts.mirror.state, scheduler=parts.scheduler.state)
    return Variant(
        tag=tag,
        title=title,
        state=state,
        initial=partial(start_over, state, parts),
        transitions=following(parts),
        view=partial(view, parts),
        alphabet=partial(calls, parts),
        normal=partial(normal, parts),
        differences=differences or {},
        start_differs=start_differs,
        exempt=exempt or {},
    )
