"""Requests arrive and end at any time; the engine takes its steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cachespec.kernel import Operation
from cachespec.shared_prefix.configuration import Config
from cachespec.shared_prefix.operations import Add, Finish, Step
from cachespec.shared_prefix.state import NEW, RUNNING, WAITING


def calls(config: Config, state: Any) -> Iterable[Operation]:
    """Each request arrives once."""
    for request in range(len(config.requests)):
        if state.status[request] == NEW:
            yield Add(request)
        if state.status[request] in (WAITING, RUNNING):
            yield Finish(request)
    if state.waiting or state.running:
        yield Step()
