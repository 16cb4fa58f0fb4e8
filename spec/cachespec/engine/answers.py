"""What must hold of every step of an engine: that each part does what the engine's operation is for, and once."""

from __future__ import annotations

from cachespec.engine.configuration import Config, Request, scheduler_config, sender_of
from cachespec.engine.operations import DeliverRequest, SubmitRequest
from cachespec.engine.state import View
from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.scheduler.configuration import CONTENT, is_turn, items_of
from cachespec.scheduler.operations import FailStep, ResetRunning, Update

TURNED_AWAY = (Code.TOO_LARGE, Code.FAILED, Code.DIVERGED)
"""How the operation ends that turns a request away; the last two are of eras."""


def new_items(config: Config, request: Request) -> tuple[int, ...]:
    """The contents of the request's items that no earlier turn of its session has."""
    inside = scheduler_config(config)
    earlier = items_of(inside, request - 1) if is_turn(inside, request) else ()
    return tuple(item[CONTENT] for item in items_of(inside, request) if item not in earlier)


def items_go_out(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """In eras P0 keeps no contents."""
    if not isinstance(op, SubmitRequest) or outcome.code is not Code.DONE or config.shared_memory == 1:
        return True
    sender = sender_of(config, op.request)
    had, has = before.mirror.links[sender], after.mirror.links[sender]
    wanted = new_items(config, op.request)
    if wanted == ():
        return had == has
    return has.unanswered == had.unanswered + 1 and (has.kept == () or has.kept[-1] == wanted)


def requests_are_taken_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, DeliverRequest) or outcome.code is Code.ABSENT or op.request not in before.received


def turned_away_is_said(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return after.rejected == before.rejected or outcome.code in TURNED_AWAY


def outputs_end_their_plans(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Update | FailStep) or outcome.code is not Code.DONE:
        return True
    return len(after.scheduler.plans) == len(before.scheduler.plans) - 1


def nothing_runs_after_its_reset(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, ResetRunning) or outcome.code is not Code.DONE or after.scheduler.running == ()


ANSWERS: tuple[Step[Config, View], ...] = (
    Step(
        "X-3/sent",
        "a request with new items goes out in one message that shows exactly these, and any other in none",
        items_go_out,
        lambda c, b, op, o, a: isinstance(op, SubmitRequest) and bool(new_items(c, op.request)),
    ),
    Step(
        "X-3/once",
        "P1 takes each request with handles once",
        requests_are_taken_once,
        lambda c, b, op, o, a: isinstance(op, DeliverRequest) and o.code is Code.DONE,
    ),
    Step(
        "X-3/turned-away",
        "P1 turns a request away only in a step whose answer says so",
        turned_away_is_said,
        lambda c, b, op, o, a: a.rejected != b.rejected,
    ),
    Step(
        "X-1/ended",
        "an output that is taken ends exactly one plan",
        outputs_end_their_plans,
        lambda c, b, op, o, a: isinstance(op, FailStep) and o.code is Code.DONE,
    ),
    Step(
        "X-4/stopped",
        "after a reset of running requests none is running",
        nothing_runs_after_its_reset,
        lambda c, b, op, o, a: isinstance(op, ResetRunning) and bool(b.scheduler.running),
    ),
)
