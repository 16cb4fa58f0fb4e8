"""What a round gives to each request, and what the output of a plan does to each."""

from __future__ import annotations

from collections.abc import Hashable

from cachespec.kernel import Operation
from cachespec.scheduler.configuration import LENGTH, START, Config, items_of
from cachespec.scheduler.operations import Schedule, Update
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.view import holders_of_items, length_in_sight, live, new_plan


def decide(config: Config, before: View, operation: Operation, after: View) -> Hashable:
    """Of a round and of an update; other calls decide nothing."""
    if isinstance(operation, Schedule):
        parts = {part.request: part for part in new_plan(before, operation, after).scheduled}
        return tuple(round_of(config, before, after, request, parts.get(request)) for request in live(before))
    if isinstance(operation, Update) and before.plans:
        return tuple(output_of(before, after, part) for part in before.plans[0].scheduled)
    return ()


def round_of(config: Config, before: View, after: View, request: int, part: Scheduled | None) -> Hashable:
    """Where the request was and is, and what is scheduled of it: how it begins and ends, drafts, items, and limits."""
    moved = (request in before.running, request in after.running, request in after.gone)
    if part is None:
        return (*moved, request in holders_of_items(after))
    end, length = part.start + part.tokens, length_in_sight(config, before, request)
    inside = any(
        item[START] < edge < item[START] + item[LENGTH]
        for item in items_of(config, request)
        for edge in (part.start, end)
    )
    ends = (end > length) - (end < length)
    return (*moved, part.start > 0, inside, ends, part.drafts > 0, len(part.encode), is_limited(config, part))


def is_limited(config: Config, part: Scheduled) -> bool:
    """Whether the model's length has no room for a token with all of its drafts where the part begins."""
    return part.start + 1 + config.drafts >= config.max_model_len


def output_of(before: View, after: View, part: Scheduled) -> Hashable:
    """Whether the request still runs, whether the output is its last, and whether items of it are released."""
    held = [sum(request == part.request for request, _ in view.encoder.held) for view in (before, after)]
    ran = part.request in before.running
    return (ran, part.request in after.gone, part.void, part.samples, part.drafts > 0, held[0] > held[1])
