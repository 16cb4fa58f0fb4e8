"""What must hold of encoder outputs that an encoder connector brings: SCH-17."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Safety, Step
from cachespec.scheduler.configuration import CONTENT, EXPECTED, LENGTH, STORED, Config, Item, is_read, items_of
from cachespec.scheduler.operations import BringOutput, LoseOutput, Schedule
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.view import accounted, in_order_of_service, new_plan, touched, waits_for_item


def expects(config: Config, view: View, request: int) -> bool:
    """An encoder output of the request's items is on its way."""
    remote = dict(view.remote)
    return any(remote.get(item[CONTENT]) == EXPECTED for item in items_of(config, request))


def the_expected_are_awaited(config: Config, view: View) -> bool:
    return not any(expects(config, view, request) for request in view.running)


def contents_of(config: Config, part: Scheduled, places: tuple[int, ...]) -> set[int]:
    """What these items of the part's request show."""
    return {items_of(config, part.request)[place][CONTENT] for place in places}


def what_is_stored_is_loaded(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a chunk reads was resident, or is loaded if the connector has it, or is encoded if it does not."""
    plan, resident = new_plan(before, op, after), {key[0] for key in accounted(before)}
    stored = {content for content, phase in before.remote if phase == STORED}
    read, encoded = set[int](), set[int]()
    for part in plan.scheduled:
        read |= contents_of(config, part, touched(config, part))
        encoded |= contents_of(config, part, part.encode)
    brought = set(plan.brought)
    return (
        plan.brought == tuple(sorted(brought))
        and brought <= stored & read
        and not encoded & stored
        and (not config.encoder_connector or read <= resident | encoded | brought)
    )


def loads_wait_for_room_only(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Of the first running request that waits for an item. Chunks that end for another reason tell nothing of it."""
    if not isinstance(op, Schedule) or outcome.code not in (Code.DONE, Code.MISS) or not config.encoder_connector:
        return True
    plan = new_plan(before, op, after)
    left = config.token_budget - sum(part.tokens for part in plan.scheduled)
    if left <= 0 or plan.preempted or config.long_prefill_threshold or config.alignment or config.whole_items:
        return True
    served = in_order_of_service(before, after)
    first = next((request for request in served if waits_for_item(config, after, request)), None)
    if first is None:
        return True
    item, freeable = next_item(config, after, first), after.encoder.freeable
    return dict(after.remote).get(item[CONTENT]) != STORED or freeable is None or item[LENGTH] > freeable


def next_item(config: Config, view: View, request: int) -> Item:
    """The item of the request's next token."""
    computed = dict(view.computed)[request]
    return next(item for item in items_of(config, request) if is_read(config, item, computed, computed + 1))


def arrivals_change_nothing_else(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """An output that arrives twice changes nothing, and no other operation changes what the connector has."""
    if not isinstance(op, BringOutput | LoseOutput):
        return after.remote == before.remote
    remote = dict(before.remote)
    phase = remote.get(op.content)
    if phase is None:
        return outcome.code is Code.ABSENT and after == before
    if isinstance(op, LoseOutput):
        del remote[op.content]
    else:
        remote[op.content] = STORED
    twice = isinstance(op, BringOutput) and phase == STORED
    return outcome.code is (Code.PRESENT if twice else Code.DONE) and after == before._replace(
        remote=tuple(sorted(remote.items()))
    )


CONNECTED: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-17",
        "no request runs while an encoder output of its items is on its way to the connector",
        the_expected_are_awaited,
        lambda c, v: bool(v.running) and any(expects(c, v, request) for request in v.waiting),
    ),
)

CONNECTED_STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-17/loaded",
        "a step loads exactly the absent outputs that it reads and that the encoder connector has, and encodes the "
        "other ones",
        what_is_stored_is_loaded,
        lambda c, b, op, o, a: (
            bool(new_plan(b, op, a).brought) and any(part.encode for part in new_plan(b, op, a).scheduled)
        ),
    ),
    Step(
        "SCH-17/room",
        "an output that the encoder connector has waits for room in the cache, and not for compute budget",
        loads_wait_for_room_only,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule)
            and any(
                waits_for_item(c, a, request) and dict(a.remote).get(next_item(c, a, request)[CONTENT]) == STORED
                for request in a.running
            )
        ),
    ),
    Step(
        "SCH-17/arrived",
        "an output that arrives or is lost changes nothing but what the encoder connector has, and one that arrives "
        "twice changes nothing",
        arrivals_change_nothing_else,
        lambda c, b, op, o, a: isinstance(op, BringOutput) and o.code is Code.PRESENT and bool(b.plans),
    ),
)
