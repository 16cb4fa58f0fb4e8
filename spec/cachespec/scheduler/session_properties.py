"""What must hold of sessions: requests of several turns, whose input arrives turn by turn."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Safety, Step
from cachespec.scheduler.configuration import Config, is_turn, kept_tokens, kv_config, later_turns
from cachespec.scheduler.operations import Abort, Schedule, Update
from cachespec.scheduler.state import View
from cachespec.scheduler.view import holders_of_blocks, holders_of_items, live, new_plan


def known(view: View) -> set[int]:
    """The requests that have arrived or cannot arrive any more."""
    return {*live(view), *view.queued, *view.gone}


def awaited(config: Config, view: View) -> tuple[int, ...]:
    """The next turns of sessions that wait for input."""
    return tuple(
        turn
        for turn in range(len(config.prompts))
        if is_turn(config, turn) and turn - 1 in view.gone and turn not in known(view)
    )


def turns_are_in_order(config: Config, view: View) -> bool:
    """A turn waits or runs only behind an ended turn; it is queued only behind one that has not ended."""
    return all(turn - 1 in view.gone for turn in live(view) if is_turn(config, turn)) and all(
        turn - 1 in known(view) - set(view.gone) for turn in view.queued
    )


def between_turns_nothing_is_held(config: Config, view: View) -> bool:
    holders = holders_of_blocks(view) | holders_of_items(view)
    return not any(turn in holders or turn - 1 in holders for turn in awaited(config, view))


def a_turn_follows(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A queued turn waits as soon as the one before it is finished."""
    if not isinstance(op, Update):
        return True
    begun = {turn for turn in before.queued if turn - 1 in set(after.gone) - set(before.gone)}
    return set(after.queued) == set(before.queued) - begun and begun <= set(after.waiting)


def an_abort_ends_the_session(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Abort):
        return True
    if outcome.code is not Code.DONE:
        return op.request not in {*live(before), *awaited(config, before)}
    return {op.request, *later_turns(config, op.request)} <= set(after.gone) - {*live(after), *after.queued}


def what_is_there_is_not_computed_again(
    config: Config, before: View, op: Operation, outcome: Outcome, after: View
) -> bool:
    """If all full blocks that the session keeps can be found, the turn begins behind them."""
    return all(
        part.start >= kept_tokens(config, part.request - 1) // config.block_size * config.block_size
        for part in new_plan(before, op, after).scheduled
        if part.request in before.waiting and may_resume(config, before, part.request)
    )


def may_resume(config: Config, before: View, turn: int) -> bool:
    """The request is a turn in its first run, and no block that the session has computed was given to others."""
    if not is_turn(config, turn) or config.prefix_caching == 0 or turn in dict(before.produced):
        return False
    contents = {content for _, content in before.kv.registered}
    blocks = kept_tokens(config, turn - 1) // config.block_size
    return blocks > 0 and set(kv_chain(config, turn)[:blocks]) <= contents


def kv_chain(config: Config, request: int) -> tuple[int, ...]:
    """The content of each of the request's full blocks."""
    return kv_config(config).chains[request]


SESSIONS: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-16",
        "a turn waits or runs only after the turn before it has ended",
        turns_are_in_order,
        lambda c, v: bool(v.queued) and bool(v.running),
    ),
    Safety(
        "SCH-16/between",
        "a session that awaits the input of its next turn holds no KV block and no item",
        between_turns_nothing_is_held,
        lambda c, v: bool(awaited(c, v)) and bool(v.running),
    ),
)

SESSION_STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-16/next",
        "a turn that was queued waits as soon as the turn before it is finished",
        a_turn_follows,
        lambda c, b, op, o, a: isinstance(op, Update) and len(a.queued) < len(b.queued),
    ),
    Step(
        "SCH-16/aborted",
        "an abort ends all later turns of the session",
        an_abort_ends_the_session,
        lambda c, b, op, o, a: isinstance(op, Abort) and bool(later_turns(c, op.request)) and bool(b.queued),
    ),
    Step(
        "SCH-16/found",
        "a turn does not compute again the full blocks of its session that can be found",
        what_is_there_is_not_computed_again,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule)
            and any(
                part.request in b.waiting and may_resume(c, b, part.request) for part in new_plan(b, op, a).scheduled
            )
        ),
    ),
)
