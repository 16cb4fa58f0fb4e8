"""Configurations for an implementation that does not take those of the scopes as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.misspelt import did_you_mean
from cacheproof.model.registry import AnyComponent
from cacheproof.model.wire import config_from_message, config_to_message

ENTRIES = "entries"
UNITS = ("", ENTRIES)


def adapted(component: AnyComponent, config: Any, values: Mapping[str, Any], unit: str = "") -> Any:
    """The configuration in this unit, with these values in place of its own.

    With the unit `entries`, each entry has the size 1, none changes its size, and the capacity is a number of entries:
    at most one less than there are, so that entries are still evicted. Raises InputError for an unknown unit, for a
    component without sizes, and for a configuration that is not valid then.
    """
    message = config_to_message(config)
    if unit not in UNITS:
        raise InputError(f"unknown unit '{unit}'{did_you_mean(unit, [ENTRIES])}")
    if unit == ENTRIES:
        message |= _in_entries(component, message)
    return config_from_message(component, message | dict(values))


def _in_entries(component: AnyComponent, message: Mapping[str, Any]) -> dict[str, Any]:
    sizes, capacity = message.get("sizes"), message.get("capacity")
    if not isinstance(sizes, list) or not isinstance(capacity, int):
        raise InputError(f"{component.name} has no capacity and sizes that could be entries: leave out the unit")
    unchanging: dict[str, list[int]] = {"grown": []} if "grown" in message else {}
    return {"sizes": [1] * len(sizes), "capacity": max(1, min(capacity, len(sizes) - 1)), **unchanging}
