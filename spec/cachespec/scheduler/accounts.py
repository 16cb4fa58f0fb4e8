"""Step properties of a scheduler, continued: no request is lost, and answers and plans report what was done."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.scheduler.configuration import (
    CONTENT,
    LENGTH,
    START,
    Config,
    Request,
    is_turn,
    items_of,
    later_turns,
    priority_of,
)
from cachespec.scheduler.operations import Abort, Add, FailLoad, FailStep, ResetEncoderCache, Schedule, Update
from cachespec.scheduler.session_properties import known
from cachespec.scheduler.state import LOADED, LOADING, Scheduled, View
from cachespec.scheduler.view import (
    accounted,
    in_phase,
    in_turn,
    known_length,
    length_in_sight,
    live,
    new_plan,
    touched,
)
from cachespec.scheduler.worker import keys_in

# Requests -----------------------------------------------------------------------------------------------------------


def nobody_is_lost(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    arrived = {op.request} & {*after.waiting, *after.queued} if isinstance(op, Add) else set[int]()
    if isinstance(op, Abort) and outcome.code is Code.DONE:
        arrived = {op.request, *later_turns(config, op.request)}
    return known(after) == known(before) | arrived


def ended_in(before: View, after: View) -> set[int]:
    """The requests that are gone since."""
    return set(after.gone) - set(before.gone)


def the_ended_are_named(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """By an update in the order of its plan."""
    ended = ended_in(before, after)
    if isinstance(op, Update | FailStep) and before.plans:
        return outcome.values == tuple(part.request for part in before.plans[0].scheduled if part.request in ended)
    if isinstance(op, Abort) or (isinstance(op, FailLoad) and config.failed_loads_end == 1):
        return ended == ({op.request, *later_turns(config, op.request)} if outcome.code is Code.DONE else set())
    return not ended


def the_line_stays(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Those that wait with blocks are served before others; a load moves a request from one group to the other."""
    holding, held = (in_phase(view, (LOADING, LOADED)) for view in (before, after))
    stayed = [request for request in before.waiting if request in after.waiting]
    groups = (
        [request for request in stayed if request in holding and request in held],
        [request for request in stayed if request not in holding and request not in held],
    )
    return all(group == [request for request in after.waiting if request in group] for group in groups)


def output_is_taken(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Schedule):
        return outcome.code is not Code.FAILED
    return not isinstance(op, Update) or not before.plans or outcome.code is Code.DONE


def arrivals_are_answered(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Add) or op.request in known(before):
        return True
    if is_turn(config, op.request) and op.request - 1 not in known(before):
        return outcome.code is Code.ABSENT
    return outcome.code is (Code.DONE if op.request in (*after.waiting, *after.queued) else Code.TOO_LARGE)


# Plans --------------------------------------------------------------------------------------------------------------


def rounds_are_answered(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Schedule) or outcome.code in (Code.REFUSED, Code.FAILED):
        return True
    if len(after.plans) == len(before.plans):
        return outcome.code is Code.MISS
    shown = tuple(value for part in after.plans[-1].scheduled for value in (part.request, part.start, part.tokens))
    return outcome.code is Code.DONE and outcome.values == shown


def plans_are_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    served = [part.request for part in new_plan(before, op, after).scheduled]
    return served == [request for request in (*before.running, *in_turn(before)) if request in served]


def the_preempted_are_named(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    named = set(new_plan(before, op, after).preempted)
    return not isinstance(op, Schedule) or named == put_back(before, after)


def put_back(before: View, after: View) -> set[int]:
    """The requests that ran, and wait since."""
    return set(before.running) & set(after.waiting)


def the_last_are_preempted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Nobody who goes on is less important than one who is preempted, or as important and behind it."""
    return not any(
        (priority_of(config, other), before.running.index(other))
        > (priority_of(config, request), before.running.index(request))
        for request in new_plan(before, op, after).preempted
        if request in before.running
        for other in before.running
        if other in after.running
    )


def preemptions_are_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    preempted = put_back(before, after)
    needed = sum(
        blocks_to_come(config, before, request) if request in preempted else blocks_that_came(before, after, request)
        for request in before.running
    )
    return not (isinstance(op, Schedule) and preempted) or needed > before.kv.free_count


def blocks_to_come(config: Config, before: View, request: Request) -> int:
    """The blocks that the request lacks for all of its tokens and drafts."""
    tokens = length_in_sight(config, before, request) + dict(before.proposed).get(request, 0)
    return max(0, -(-tokens // config.block_size) - len(dict(before.kv.tables).get(request, ())))


def blocks_that_came(before: View, after: View, request: Request) -> int:
    """The blocks that the round has given to the request."""
    return len(dict(after.kv.tables).get(request, ())) - len(dict(before.kv.tables).get(request, ()))


def samples_are_where_tokens_end(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return all(samples_where_its_end_is(config, before, part) for part in new_plan(before, op, after).scheduled)


def samples_where_its_end_is(config: Config, before: View, part: Scheduled) -> bool:
    """One part of a plan: what lies behind the tokens in sight is drafts, and from their last one on it samples."""
    beyond = part.start + part.tokens - length_in_sight(config, before, part.request)
    return part.drafts == max(0, beyond) and part.samples == int(beyond >= 0)


# Items --------------------------------------------------------------------------------------------------------------


def items_are_named(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What is read is what is touched; what is encoded is read, and was not held by the request before."""
    return all(
        part.relies == touched(config, part)
        and part.encode == tuple(index for index in part.relies if index in part.encode)
        and not any((part.request, index) in before.encoder.held for index in part.encode)
        for part in new_plan(before, op, after).scheduled
    )


def nothing_is_encoded_twice(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Except for an encoder-decoder model: the outputs of each request go into KV of its own."""
    parts = new_plan(before, op, after).scheduled if config.encoder_decoder == 0 else ()
    encoded = [items_of(config, part.request)[index][CONTENT] for part in parts for index in part.encode]
    return len(encoded) == len(set(encoded))


def evictions_are_told(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """After a reset the workers drop everything anyway."""
    if isinstance(op, ResetEncoderCache):
        return True
    evicted = {*accounted(before), *before.encoder.freed} - set(accounted(after))
    reported = keys_in(new_plan(before, op, after).dropped, max(map(len, evicted), default=1))
    return evicted <= {*reported, *after.encoder.freed}


def chunks_are_aligned(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return config.alignment == 0 or all(
        ends_of_itself(config, before, part) or is_aligned(config, part)
        for part in new_plan(before, op, after).scheduled
    )


def is_aligned(config: Config, part: Scheduled) -> bool:
    """The part of a plan ends at a multiple of the alignment, or none lies in it."""
    boundary = (part.start + part.tokens) // config.alignment * config.alignment
    return part.start + part.tokens == boundary or boundary <= part.start


def chunks_go_far(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    parts = new_plan(before, op, after).scheduled
    return all(
        ends_of_itself(config, before, part)
        or not 0 < part.tokens < most(config, parts[:index])
        or (config.alignment > 0 and (part.start + part.tokens) % config.alignment == 0)
        for index, part in enumerate(parts)
    )


def ends_are_reached(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    parts = new_plan(before, op, after).scheduled
    return config.alignment == 0 or all(
        ends_of_itself(config, before, part)
        or part.start + most(config, parts[:index]) < prefill_of(config, before, part)
        for index, part in enumerate(parts)
    )


def ends_of_itself(config: Config, before: View, part: Scheduled) -> bool:
    """The part of a plan reaches the end of the prefill, or the start of an item."""
    end = part.start + part.tokens
    return end >= prefill_of(config, before, part) or any(end == item[START] for item in items_of(config, part.request))


def prefill_of(config: Config, before: View, part: Scheduled) -> int:
    """Up to here the request computes what it has."""
    return max(config.prompts[part.request], known_length(config, before, part.request) - 1)


def most(config: Config, earlier: tuple[Scheduled, ...]) -> int:
    """How many tokens the step still has for a request, if these parts of the plan come before it."""
    budget = config.token_budget - sum(part.tokens for part in earlier)
    return min(budget, config.long_prefill_threshold or budget)


def goes_on_behind_an_item(config: Config, part: Scheduled) -> bool:
    """An item ends where this part begins, or before."""
    return any(item[START] + item[LENGTH] <= part.start for item in items_of(config, part.request))


ACCOUNTS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-6/kept",
        "every request that waited or ran still does or has ended, and only an arrival adds a request",
        nobody_is_lost,
        lambda c, b, op, o, a: bool(ended_in(b, a)) and bool(live(a)),
    ),
    Step(
        "SCH-6/named",
        "an update names the requests that it ended, in plan order; beside it, only an abort and a failed load end a "
        "request",
        the_ended_are_named,
        lambda c, b, op, o, a: isinstance(op, Update) and len(ended_in(b, a)) > 1,
    ),
    Step(
        "SCH-8/line",
        "requests that keep waiting keep their order, those with blocks and those without",
        the_line_stays,
        lambda c, b, op, o, a: isinstance(op, Schedule) and len(set(b.waiting) & set(a.waiting)) > 1,
    ),
    Step(
        "SCH-2/taken",
        "every round is made, and the output of a plan in flight is accepted: no assertion fails",
        output_is_taken,
        lambda c, b, op, o, a: isinstance(op, Update) and any(part.void for plan in b.plans for part in plan.scheduled),
    ),
    Step(
        "SCH-9/answered",
        "the answer to an arrival says whether the request was queued",
        arrivals_are_answered,
        lambda c, b, op, o, a: isinstance(op, Add) and o.code is Code.TOO_LARGE and bool(b.waiting),
    ),
    Step(
        "SCH-1/answered",
        "a round answers with the plan that it made, or with a miss if it made none",
        rounds_are_answered,
        lambda c, b, op, o, a: isinstance(op, Schedule) and o.code is Code.MISS and bool(b.plans),
    ),
    Step(
        "SCH-7/order",
        "a plan lists running requests in their order, then admitted ones in theirs, those with loaded KV first",
        plans_are_in_order,
        lambda c, b, op, o, a: (
            any(part.request in b.waiting for part in new_plan(b, op, a).scheduled) and bool(b.running)
        ),
    ),
    Step(
        "SCH-7/last",
        "a preempted request has no higher priority than any that keeps running, and arrived after its equals",
        the_last_are_preempted,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).preempted) and bool(a.running),
    ),
    Step(
        "SCH-7/needed",
        "no requests are preempted while the free blocks suffice for all of their tokens and for the chunks of the "
        "others",
        preemptions_are_needed,
        lambda c, b, op, o, a: isinstance(op, Schedule) and bool(put_back(b, a)),
    ),
    Step(
        "SCH-5/named",
        "a plan names the requests preempted in its round",
        the_preempted_are_named,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).preempted),
    ),
    Step(
        "SCH-2/samples",
        "a step samples for a request if and only if it computes the request's last known token; tokens beyond are "
        "drafts",
        samples_are_where_tokens_end,
        lambda c, b, op, o, a: any(part.samples == 0 for part in new_plan(b, op, a).scheduled),
    ),
    Step(
        "SCH-3/named",
        "a plan names, in prompt order, the items that its chunks touch, and marks those that it encodes",
        items_are_named,
        lambda c, b, op, o, a: any(
            len(part.encode) > 1 or goes_on_behind_an_item(c, part) for part in new_plan(b, op, a).scheduled
        ),
    ),
    Step(
        "SCH-4/once",
        "no content is encoded twice in one step, except by an encoder-decoder model",
        nothing_is_encoded_twice,
        lambda c, b, op, o, a: any(len(part.relies) > len(part.encode) > 0 for part in new_plan(b, op, a).scheduled),
    ),
    Step(
        "ENC-7/told",
        "the workers are told to drop every evicted entry, in this plan or a later one",
        evictions_are_told,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).dropped),
    ),
    Step(
        "SCH-8/aligned",
        "a chunk ends at the end of the prefill, at a multiple of the alignment, or before an item, unless none is "
        "within reach",
        chunks_are_aligned,
        lambda c, b, op, o, a: any(
            c.alignment > 1 and (part.start + part.tokens) % c.alignment == 0 for part in new_plan(b, op, a).scheduled
        ),
    ),
    Step(
        "SCH-8/far",
        "a chunk has all the tokens for which the step has room, unless it ends at the end of the prefill, before an "
        "item, or at a multiple of the alignment",
        chunks_go_far,
        lambda c, b, op, o, a: any(
            not ends_of_itself(c, b, part) and part.tokens == most(c, parts[:index])
            for parts in (new_plan(b, op, a).scheduled,)
            for index, part in enumerate(parts)
        ),
    ),
    Step(
        "SCH-8/reach",
        "no chunk ends at a multiple of the alignment if the step has room for the rest of the prefill",
        ends_are_reached,
        lambda c, b, op, o, a: any(
            c.alignment > 1 and (part.start + part.tokens) % c.alignment > 0 for part in new_plan(b, op, a).scheduled
        ),
    ),
)
"""What comes and goes, and what is said of it."""
