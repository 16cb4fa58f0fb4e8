"""What a round gives to each request, and what the output of a plan does to each."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from cachespec.kernel import Operation
from cachespec.scheduler.configuration import LENGTH, START, Config, items_of
from cachespec.scheduler.operations import Schedule, Update
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.view import holders_of_items, length_in_sight, live, new_plan


def decide(config: Config, before: View, operation: Operation, after: View) -> Hashable:
    """Of a round and of an update; other calls decide nothing."""
    if isinstance(operation, Schedule):
        parts = {part.request: part for part in new_plan(before, operation, after).scheduled}
        given = tuple(round_of(config, before, after, request, parts.get(request)) for request in live(before))
        return given, gives_way_to_later(config, before, after, parts)
    if isinstance(operation, Update) and before.plans:
        return tuple(output_of(before, after, part) for part in before.plans[0].scheduled)
    return ()


def round_of(config: Config, before: View, after: View, request: int, part: Scheduled | None) -> Hashable:
    """Where the request was and is, and what is scheduled of it: how it begins and ends, drafts, items, and limits."""
    moved = (request in before.running, request in after.running, request in after.gone)
    if part is None:
        drafts_lost = request in before.running and request not in after.running and request in dict(before.proposed)
        return (*moved, request in holders_of_items(after), drafts_lost)
    end, length = part.start + part.tokens, length_in_sight(config, before, request)
    inside = any(
        item[START] < edge < item[START] + item[LENGTH]
        for item in items_of(config, request)
        for edge in (part.start, end)
    )
    ends = (end > length) - (end < length)
    return (*moved, part.start > 0, inside, ends, part.drafts > 0, len(part.encode), is_limited(config, part))


def gives_way_to_later(config: Config, before: View, after: View, scheduled: Collection[int]) -> bool:
    """Whether a request that stood earlier gives way to one for which there was no room, and others behind still run.

    A scheduler that removes a request from the list that it walks over may leave out the next one. If there is no room
    for the request's own blocks, it gives way by itself. That is another case.
    """
    tables, computed = dict(before.kv.tables), dict(before.computed)
    taken = dict(after.kv.tables)
    free = before.kv.free_count
    for place, request in enumerate(before.running):
        held = len(tables.get(request, ()))
        if request in scheduled:
            free -= len(taken.get(request, ())) - held
        elif request in after.waiting:
            free -= held * config.block_size <= computed.get(request, 0)
        if free < 0:
            later = before.running[place + 1 :]
            return request in scheduled and any(other in scheduled for other in later)
    return False


def is_limited(config: Config, part: Scheduled) -> bool:
    """Whether the model's length has no room for a token with all of its drafts where the part begins."""
    return part.start + 1 + config.drafts >= config.max_model_len


def output_of(before: View, after: View, part: Scheduled) -> Hashable:
    """Whether the request still runs, whether the output is its last, and whether items of it are released."""
    held = [sum(request == part.request for request, _ in view.encoder.held) for view in (before, after)]
    ran = part.request in before.running
    return (ran, part.request in after.gone, part.void, part.samples, part.drafts > 0, held[0] > held[1])
