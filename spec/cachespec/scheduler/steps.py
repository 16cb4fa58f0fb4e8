"""What must hold of every step of a scheduler: of its rules here, of what it says and keeps in `accounts`."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.scheduler.accounts import ACCOUNTS
from cachespec.scheduler.admission_properties import ADMISSION, feasible_are_queued
from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    ended_length,
    final_length,
    is_turn,
    items_of,
)
from cachespec.scheduler.connector_properties import CONNECTED_STEPS
from cachespec.scheduler.operations import (
    Abort,
    Add,
    FailStep,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.readiness_properties import READINESS, could_join, rank
from cachespec.scheduler.session_properties import SESSION_STEPS
from cachespec.scheduler.state import ABANDONED, LOADED, LOADING, Plan, Scheduled, View
from cachespec.scheduler.transfer_properties import TRANSFER_STEPS
from cachespec.scheduler.view import (
    accounted,
    holders_of_blocks,
    holders_of_items,
    in_flight,
    in_order_of_service,
    in_phase,
    in_turn,
    is_resident,
    length_in_sight,
    live,
    new_plan,
    touched,
    waits_for_item,
)
from cachespec.scheduler.worker_properties import WORKER_STEPS


def counts_are_of_known_tokens(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return all(
        part.start + part.tokens <= length_in_sight(config, before, part.request) + config.drafts
        for part in new_plan(before, op, after).scheduled
    )


def drafts_are_those_proposed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    proposed = dict(before.proposed)
    return all(part.drafts <= proposed.get(part.request, 0) for part in new_plan(before, op, after).scheduled)


def drafts_are_used_up(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    proposed = dict(after.proposed)
    return not any(part.request in proposed for part in new_plan(before, op, after).scheduled)


def chunks_are_next(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A running request goes on where it is; each has one part."""
    plan, computed = new_plan(before, op, after), dict(before.computed)
    requests = [part.request for part in plan.scheduled]
    goes_on = all(part.start == computed.get(part.request, part.start) for part in plan.scheduled)
    return goes_on and len(requests) == len(set(requests))


def items_are_there(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return all(
        is_resident(config, after, part.request, index)
        for part in new_plan(before, op, after).scheduled
        for index in touched(config, part)
    )


def begun_inside(config: Config, part: Scheduled) -> tuple[int, ...]:
    """The places of the items in the middle of which this part of a plan begins; there is one at the most."""
    if config.encoder_decoder == 1:
        return ()
    items = enumerate(items_of(config, part.request))
    return tuple(index for index, item in items if item[START] < part.start < item[START] + item[LENGTH])


def inside_of_an_item(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return all(
        part.tokens > 0 and is_resident(config, after, part.request, index)
        for part in new_plan(before, op, after).scheduled
        for index in begun_inside(config, part)
    )


def nobody_is_skipped(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Schedule) or outcome.code in (Code.REFUSED, Code.FAILED):
        return True
    plan = new_plan(before, op, after)
    left = config.token_budget - sum(part.tokens for part in plan.scheduled)
    served = {part.request for part in plan.scheduled}
    return left <= 0 or not any(
        request in after.running and request not in served and could_go_on(config, before, after, request)
        for request in before.running
    )


def could_go_on(config: Config, before: View, after: View, request: int) -> bool:
    """The request has a token to compute, and it is not one of an item that it does not hold."""
    computed, flying = dict(before.computed)[request], in_flight(before, request)
    if any(part.drafts for part in flying) or waits_for_item(config, after, request):
        return False
    if config.pipelined == 1 and any(part.samples for part in flying):
        return False
    return computed < min(length_in_sight(config, before, request), final_length(config, request) - 1)


def who_is_preempted_is_in_front(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Except for turns of sessions that keep their KV."""
    preempted = new_plan(before, op, after).preempted
    return not any(
        other in before.waiting
        and rank(config, other) >= rank(config, request)
        and not (is_turn(config, other) and other in in_phase(after, (LOADED,)))
        for request in preempted
        if request in after.waiting
        for other in after.waiting[: after.waiting.index(request)]
    )


def admission_is_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Schedule):
        return True
    line = in_turn(before)
    admitted = [place for place, request in enumerate(line) if request in after.running]
    passed = [request for request in line[: max(admitted, default=0)] if request not in after.running]
    return not any(could_join(config, before, after, request) for request in passed)


def room_goes_to_the_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Where a chunk ends for another reason than an item, its request does not wait for one."""
    if config.long_prefill_threshold or config.alignment or config.whole_items:
        return True
    pinning = {request for request, _ in set(after.encoder.held) - set(before.encoder.held)}
    encoding = {part.request for part in new_plan(before, op, after).scheduled if part.encode}
    served = in_order_of_service(before, after)
    waiting_for = [index for index, request in enumerate(served) if waits_for_item(config, after, request)]
    first = min(waiting_for, default=len(served))
    return not (pinning | encoding) & set(served[first + 1 :])


def what_flies_is_held(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """After a reset nothing is held; what is in flight is executed before the workers reset theirs."""
    if isinstance(op, ResetEncoderCache):
        return True
    new, held = new_plan(before, op, after), set(after.encoder.held)
    return all(
        (request, index) in held or (plan != new and (request, index) not in before.encoder.held)
        for plan in after.plans
        for request in {part.request for part in plan.scheduled if not part.void}
        for part in plan.scheduled
        if part.request == request
        for index in part.relies
    )


def what_flies_is_resident(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A plan before a reset does not need what a plan behind it has encoded again."""
    if isinstance(op, ResetEncoderCache):
        return True
    return all(
        is_resident(config, after, part.request, index)
        or not is_resident(config, before, part.request, index)
        or any(encodes(config, later, part.request, index) for later in after.plans[place + 1 :])
        for place, plan in enumerate(after.plans)
        for part in plan.scheduled
        if not part.void
        for index in part.relies
    )


def encodes(config: Config, plan: Plan, request: int, index: int) -> bool:
    """Whether the plan encodes the content of this item."""
    content = items_of(config, request)[index][0]
    return any(
        items_of(config, part.request)[encoded][0] == content for part in plan.scheduled for encoded in part.encode
    )


def dropped_is_absent(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    resident = set(accounted(after))
    dropped = new_plan(before, op, after).dropped
    width = max((len(key) for key, _ in (*after.encoder.entries, *before.encoder.entries)), default=1)
    return not resident & {dropped[index : index + width] for index in range(0, len(dropped), width)}


def the_end_is_said_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The end of a turn is not said where its session keeps what it has."""
    said = set(new_plan(before, op, after).finished)
    kept = {turn - 1 for turn, _ in after.transfers if is_turn(config, turn)}
    ended = set(after.gone) - set(before.gone) - kept
    if isinstance(op, Schedule) and outcome.code not in (Code.REFUSED, Code.FAILED) and after.leaving:
        return False
    return said <= set(before.leaving) and set(after.leaving) == (set(before.leaving) | ended) - said


def output_counts_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Each part that counts moves its request by its outputs, and no other request moves."""
    if not isinstance(op, Update | FailStep) or outcome.code is not Code.DONE:
        return True
    accepted = op.accepted if isinstance(op, Update) else 0
    parts = {part.request: part for part in before.plans[0].scheduled if not part.void}
    others = [request for request in live(before) if not (isinstance(op, FailStep) and request == op.request)]
    return all(moved(config, before, request, accepted, parts, after) for request in others)


def moved(config: Config, before: View, request: int, accepted: int, parts: dict[int, Scheduled], after: View) -> bool:
    """One request: its output after the update is what it was before, and what was sampled."""
    earlier = dict(before.produced).get(request, 0)
    part = parts.get(request)
    sampled = 0 if part is None or not part.samples else 1 + min(accepted, part.drafts)
    length = min(config.prompts[request] + earlier + sampled, ended_length(config, request))
    if length == ended_length(config, request):
        return request in after.gone
    return request in live(after) and dict(after.produced).get(request, 0) == length - config.prompts[request]


def drafts_are_proposed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """After an output there are as many drafts as were asked for, fewer only if the output is complete before."""
    if not isinstance(op, Update | FailStep) or not before.plans or outcome.code is Code.ABSENT:
        return True
    proposed, produced = dict(after.proposed), dict(after.produced)
    return all(
        proposed.get(r, 0) == min(config.drafts, final_length(config, r) - 1 - config.prompts[r] - produced.get(r, 0))
        for r in (part.request for part in before.plans[0].scheduled if part.samples and not part.void)
        if r in after.running and not (isinstance(op, FailStep) and r == op.request)
    )


def abort_leaves_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Abort) or outcome.code is not Code.DONE:
        return True
    kept = set(in_phase(after, (ABANDONED,))) & set(in_phase(before, (LOADING,)))
    holds = op.request in (holders_of_blocks(after) - kept) | holders_of_items(after) | set(live(after))
    return not holds and not in_flight(after, op.request)


def reset_empties(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if outcome.code is not Code.DONE:
        return True
    if isinstance(op, ResetEncoderCache):
        return after.encoder.entries == () and after.kv == before.kv
    return not isinstance(op, ResetPrefixCache) or (after.kv.registered == () and after.encoder == before.encoder)


def reset_sets_all_back(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, ResetRunning) or outcome.code is Code.FAILED:
        return True
    held = holders_of_blocks(after) | holders_of_items(after)
    dropped = not any(in_flight(after, request) for request in before.running)
    there = sorted((*before.running, *before.waiting)) == sorted(after.waiting)
    reset = [request for request in after.waiting if request in before.running]
    in_order = reset == sorted(before.running, key=lambda request: rank(config, request))
    emptied = after.kv.registered == () and not after.running and not held
    return outcome.code is Code.DONE and emptied and dropped and there and in_order


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-2/known",
        "the scheduled tokens of a request never exceed its tokens, including those in flight and its drafts",
        counts_are_of_known_tokens,
        lambda c, b, op, o, a: any(
            part.start + part.tokens == length_in_sight(c, b, part.request) for part in new_plan(b, op, a).scheduled
        ),
    ),
    Step(
        "SCH-2/drafts",
        "drafts are verified in the step for which they were proposed",
        drafts_are_those_proposed,
        lambda c, b, op, o, a: any(part.drafts > 0 for part in new_plan(b, op, a).scheduled),
    ),
    Step(
        "SCH-2/once",
        "the proposed drafts of a request that is scheduled are verified in this step or not at all",
        drafts_are_used_up,
        lambda c, b, op, o, a: any(
            part.drafts < dict(b.proposed).get(part.request, 0) for part in new_plan(b, op, a).scheduled
        ),
    ),
    Step(
        "SCH-2/next",
        "a plan has at most one chunk per request, and a running request continues where it stopped",
        chunks_are_next,
        lambda c, b, op, o, a: any(part.start > 0 for part in new_plan(b, op, a).scheduled),
    ),
    Step(
        "SCH-2/output",
        "each sampled token counts once, for its own request, until the output is complete",
        output_counts_once,
        lambda c, b, op, o, a: isinstance(op, Update) and len(b.running) > len(a.running) > 0,
    ),
    Step(
        "SCH-2/offered",
        "an output of a running request comes with the configured number of drafts, cut to what it can still take",
        drafts_are_proposed,
        lambda c, b, op, o, a: isinstance(op, Update) and bool(a.proposed) and b.proposed != a.proposed,
    ),
    Step(
        "SCH-3",
        "every item that a chunk touches is resident or encoded in the same step",
        items_are_there,
        lambda c, b, op, o, a: any(
            len(touched(c, part)) > len(part.encode) > 0 for part in new_plan(b, op, a).scheduled
        ),
    ),
    Step(
        "SCH-7",
        "no running request that could continue is skipped while tokens are left",
        nobody_is_skipped,
        lambda c, b, op, o, a: len(b.running) > 1 and bool(new_plan(b, op, a).preempted),
    ),
    Step(
        "SCH-8/place",
        "a preempted request waits ahead of requests that arrived after it",
        who_is_preempted_is_in_front,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).preempted) and bool(b.waiting),
    ),
    Step(
        "SCH-9/queued",
        "a request that can be served is queued",
        feasible_are_queued,
        lambda c, b, op, o, a: isinstance(op, Add) and o.code is Code.TOO_LARGE,
    ),
    Step(
        "ENC-6",
        "no entry that a plan in flight needs is evicted before the plan is executed",
        what_flies_is_resident,
        lambda c, b, op, o, a: len(b.plans) > 0 and len(new_plan(b, op, a).dropped) > 0,
    ),
    Step(
        "ENC-6/held",
        "every entry that a plan in flight needs is held until the plan is executed",
        what_flies_is_held,
        lambda c, b, op, o, a: len(b.plans) > 0 and any(part.relies for part in b.plans[0].scheduled),
    ),
    Step(
        "ENC-7",
        "no entry that the workers are told to drop is resident",
        dropped_is_absent,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).dropped) and bool(a.encoder.entries),
    ),
    Step(
        "ENC-13/first",
        "requests are admitted in the order in which they wait, those with loaded KV first, except those that wait for "
        "a grammar, an adapter, a load or an encoder output",
        admission_is_in_order,
        lambda c, b, op, o, a: len(b.waiting) > len(a.waiting) > 0,
    ),
    Step(
        "ENC-13/room",
        "while a running request waits for an item, no request behind it encodes or pins one",
        room_goes_to_the_first,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule) and any(waits_for_item(c, a, request) for request in a.running[:-1])
        ),
    ),
    Step(
        "X-1",
        "the workers are told exactly once that a request has ended",
        the_end_is_said_once,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).finished),
    ),
    Step(
        "X-2",
        "a chunk that begins inside an item has positive length, and its item is resident or encoded again",
        inside_of_an_item,
        lambda c, b, op, o, a: any(
            index in part.encode for part in new_plan(b, op, a).scheduled for index in begun_inside(c, part)
        ),
    ),
    Step(
        "X-3",
        "an aborted request holds nothing but blocks that a load still writes, and steps in flight no longer count for "
        "it",
        abort_leaves_nothing,
        lambda c, b, op, o, a: isinstance(op, Abort) and bool(in_flight(b, op.request)),
    ),
    Step(
        "X-4",
        "a reset empties its own cache and leaves the other unchanged",
        reset_empties,
        lambda c, b, op, o, a: isinstance(op, ResetEncoderCache) and bool(b.encoder.held) and bool(b.kv.tables),
    ),
    Step(
        "X-4/running",
        "a reset that preempts running requests empties the prefix map; all requests wait, those that ran in their "
        "order, hold nothing and have no output in flight",
        reset_sets_all_back,
        lambda c, b, op, o, a: (
            isinstance(op, ResetRunning) and len(b.running) > 1 and bool(b.plans and b.kv.registered)
        ),
    ),
    *ACCOUNTS,
    *ADMISSION,
    *READINESS,
    *TRANSFER_STEPS,
    *SESSION_STEPS,
    *CONNECTED_STEPS,
    *WORKER_STEPS,
)
