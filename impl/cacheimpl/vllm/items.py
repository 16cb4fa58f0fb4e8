"""The data of items that the release's scheduler leaves out of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def give_back_data(planned: Any, requests: Mapping[str, Any]) -> None:
    """Give the new requests of a plan the data of all their items.

    0.33.0 leaves out the data of an item that a prefix hit covers. The first model runner gets the items of a request
    with its first step only. If the request is preempted and its hit is shorter then, the item is to be encoded, and
    there is nothing to encode it from (C-ENC-30).

    planned: a `SchedulerOutput`. requests: those of the scheduler, by their names.
    """
    for new in planned.scheduled_new_reqs:
        request = requests.get(new.req_id)
        if request is not None and new.mm_features is not request.mm_features:
            new.mm_features = request.mm_features
