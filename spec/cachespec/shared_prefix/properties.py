"""What must hold of a step: it is fair to each request, and encoder outputs are there where they are needed."""

from __future__ import annotations

from cachespec.kernel import DONE, Operation, Outcome, Progress, Safety
from cachespec.kernel import Step as StepProperty
from cachespec.shared_prefix.configuration import Config, Request, items_of, length_of
from cachespec.shared_prefix.operations import Add, Finish, Step
from cachespec.shared_prefix.state import GONE, NEW, RUNNING, WAITING, View

# Of a state ---------------------------------------------------------------------------------------------------------


def computed_is_in_range(config: Config, view: View) -> bool:
    return all(0 <= computed <= length_of(config, request) for request, computed in enumerate(view.computed))


def having(view: View, status: int) -> list[Request]:
    """The requests of this status, ascending."""
    return [request for request, its in enumerate(view.status) if its == status]


def queues_are_apart(config: Config, view: View) -> bool:
    apart = sorted(view.waiting) == having(view, WAITING) and sorted(view.running) == having(view, RUNNING)
    begun = [request for request, computed in enumerate(view.computed) if computed != 0]
    return apart and len(view.running) <= config.sequences and set(begun) <= set(view.running)


def held_is_needed(config: Config, view: View) -> bool:
    """Between two steps: an item that is begun and not ended."""
    return view.held == tuple(
        (request, position)
        for request in sorted(view.running)
        for position, (_, begin, end) in enumerate(items_of(config, request))
        if begin < view.computed[request] < end
    )


def somebody_is_not_computed(config: Config, view: View) -> bool:
    there = [request for request, status in enumerate(view.status) if status in (WAITING, RUNNING)]
    return len(there) <= config.sequences and any(
        view.computed[request] < length_of(config, request) for request in there
    )


# Of an operation ----------------------------------------------------------------------------------------------------


def counts(outcome: Outcome) -> tuple[int, ...]:
    """Tokens of each request that was scheduled."""
    return outcome.values[1::2]


def scheduled(outcome: Outcome) -> dict[Request, int]:
    """Requests that were scheduled, and the tokens of each."""
    return dict(zip(outcome.values[::2], counts(outcome), strict=True))


def counts_are_positive(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    tokens = counts(outcome) if isinstance(op, Step) else ()
    return all(count > 0 for count in tokens) and sum(tokens) <= config.batch_tokens


def starts(config: Config, before: View, request: Request) -> int:
    """Where a step begins with it: where it is, or, if it waits, at the end of the blocks that are cached.

    Something of it is computed anew.
    """
    if request in before.running:
        return before.computed[request]
    last = (length_of(config, request) - 1) // config.block_size * config.block_size
    return min(before.reach[config.requests[request]], last)


def begins_inside_an_item(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Some request found its prefix cached up to the middle of an item."""
    if not isinstance(op, Step):
        return False
    admitted = [(request, tokens) for request, tokens in scheduled(outcome).items() if request in before.waiting]
    begun = [(request, after.computed[request] - tokens) for request, tokens in admitted]
    return any(begin < start < end for request, start in begun for _, begin, end in items_of(config, request))


def arrivals_and_ends(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """No other request changes, and the blocks stay cached."""
    if not isinstance(op, Add | Finish):
        return True
    status, computed = list(before.status), list(before.computed)
    waiting = tuple(request for request in before.waiting if request != op.request)
    running = tuple(request for request in before.running if request != op.request)
    if isinstance(op, Add):
        waiting, status[op.request] = (*waiting, op.request), WAITING
    else:
        status[op.request], computed[op.request] = GONE, 0
    expected = (waiting, running, tuple(status), tuple(computed), before.reach)
    possible = before.status[op.request] in ((NEW,) if isinstance(op, Add) else (WAITING, RUNNING))
    return (outcome == DONE and after[:5] == expected) if possible else (outcome != DONE and after == before)


def served_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Step):
        return True
    admitted = before.waiting[: len(before.waiting) - len(after.waiting)]
    order, named = (*before.running, *admitted), outcome.values[::2]
    queues = (after.running, after.waiting) == (order, before.waiting[len(admitted) :])
    return queues and named == tuple(request for request in order if request in named) and set(admitted) <= set(named)


def counts_are_computed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Step):
        return True
    tokens = scheduled(outcome)
    return all(
        computed
        == (starts(config, before, request) + tokens[request] if request in tokens else before.computed[request])
        for request, computed in enumerate(after.computed)
    )


def written_is_cached(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Step):
        return True
    reach = list(before.reach)
    for request in scheduled(outcome):
        prompt, blocks = config.requests[request], after.computed[request] // config.block_size
        reach[prompt] = max(reach[prompt], blocks * config.block_size)
    return after.reach == tuple(reach)


def shortfalls_have_reasons(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Goes through the requests as the step did: `tokens` and `room` are what is left for the next one."""
    if not isinstance(op, Step):
        return True
    tokens, room, running = config.batch_tokens, before.room, len(before.running)
    held = {items_of(config, request)[position][0] for request, position in before.held}
    for request in (*before.running, *before.waiting):
        waits = request in before.waiting
        if waits and (tokens == 0 or running == config.sequences):
            return True
        start, count = starts(config, before, request), scheduled(outcome).get(request, 0)
        needed = {content: end - begin for content, begin, end in items_of(config, request) if end > start}
        begun = {content for content, begin, _ in items_of(config, request) if count > 0 and begin < start + count}
        new = begun & set(needed) - held
        tokens, room, running, held = (
            tokens - count,
            room - sum(needed[content] for content in new),
            running + waits,
            held | new,
        )
        short = start + count < length_of(config, request) and tokens > 0
        if short and not stands_before_an_item(config, request, start, start + count, held, room):
            return False
        if waits and count == 0:
            return True
    return True


def stands_before_an_item(
    config: Config, request: Request, start: int, computed: int, held: set[int], room: int
) -> bool:
    """What comes next is an item that nobody holds and for which there is no room, whatever is evicted."""
    content, begin, end = next((item for item in items_of(config, request) if item[2] > computed), (-1, -1, -1))
    stopped = begin == computed or begin < computed == start
    return begin >= 0 and stopped and content not in held and end - begin > room


def evictions_are_reported(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, Step) or after.unreported == 0


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-2",
        "the computed tokens of a request are between 0 and its prompt length",
        computed_is_in_range,
        lambda c, v: any(0 < computed < length_of(c, request) for request, computed in enumerate(v.computed)),
    ),
    Safety(
        "SCH-6",
        "a request is waiting, running or finished; at most the permitted number run, and only they have computed "
        "tokens",
        queues_are_apart,
        lambda c, v: bool(v.waiting) and len(v.running) == c.sequences,
    ),
    Safety(
        "X-2/held",
        "a request holds exactly the encoder outputs of the items in whose middle it stands",
        held_is_needed,
        lambda c, v: bool(v.held) and bool(v.waiting),
    ),
)

STEPS: tuple[StepProperty[Config, View], ...] = (
    StepProperty(
        "SCH-1",
        "every scheduled count is positive, and the counts of a step sum to at most its token budget",
        counts_are_positive,
        begins_inside_an_item,
    ),
    StepProperty(
        "SCH-6/asked",
        "an arriving request waits last, a finished one is removed, other requests are unaffected, and cached "
        "blocks stay",
        arrivals_and_ends,
        lambda c, b, op, o, a: isinstance(op, Finish) and op.request in b.running and len(b.running) > 1,
    ),
    StepProperty(
        "SCH-7",
        "running requests are served in admission order, and no waiting request is overtaken",
        served_in_order,
        lambda c, b, op, o, a: isinstance(op, Step) and len(a.running) > len(b.running) > 0 and bool(a.waiting),
    ),
    StepProperty(
        "SCH-2/counted",
        "a request continues where it stopped, or after the blocks cached before the step",
        counts_are_computed,
        lambda c, b, op, o, a: isinstance(op, Step) and any(starts(c, b, request) > 0 for request in b.waiting),
    ),
    StepProperty(
        "SCH-2/cached",
        "exactly the full blocks of computed tokens are cached",
        written_is_cached,
        lambda c, b, op, o, a: isinstance(op, Step) and len(o.values) > 2 and a.reach != b.reach,
    ),
    StepProperty(
        "SCH-8/reason",
        "a request gets all tokens left in its prompt and in the step, up to an item without room",
        shortfalls_have_reasons,
        lambda c, b, op, o, a: isinstance(op, Step) and sum(counts(o)) < c.batch_tokens and bool(a.waiting),
    ),
    StepProperty(
        "ENC-7",
        "each step tells the worker which entries were evicted",
        evictions_are_reported,
        lambda c, b, op, o, a: isinstance(op, Step) and not set(b.resident) <= set(a.resident),
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress(
        "SCH-8",
        "if no more requests exist than may run, every prompt is eventually computed",
        somebody_is_not_computed,
    ),
)
