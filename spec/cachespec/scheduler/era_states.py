"""The states of the released schedulers: as the normative one, over the caches of their time."""

from __future__ import annotations

from typing import Any, cast

from cachespec.kernel import Containers, Map
from cachespec.scheduler.configuration import Config, Request, encoder_config, kv_config
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import KEPT, State, initial


def start_over(
    state: type[State], rules: Table, config: Config, containers: Containers, further: tuple[str, ...]
) -> State:
    """No request has arrived; the caches are empty."""
    fields = {
        **initial(config, containers)._asdict(),
        "kv": rules.kv.initial(kv_config(config), containers),
        "encoder": rules.encoder.initial(encoder_config(config), containers),
        **{name: containers.map() for name in further},
    }
    return state(**fields)


def marks(state: State, name: str) -> Map[Request, int]:
    """A further field of a variant's state: requests, each 1."""
    return cast("Map[Request, int]", getattr(state, name))


def with_marks(state: State, name: str, marked: Map[Request, int]) -> State:
    """With another value of that field."""
    fields: dict[str, Any] = {name: marked}
    return state._replace(**fields)


def idle_sessions(state: State) -> int:
    """The sessions that wait for input."""
    return sum(1 for _, transfer in state.transfers.items() if transfer.phase == KEPT)
