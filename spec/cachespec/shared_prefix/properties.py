"""What must hold of a step."""

from __future__ import annotations

from cachespec.kernel import Operation, Outcome, Progress, Safety
from cachespec.kernel import Step as StepProperty
from cachespec.shared_prefix.configuration import Config, items_of, length_of
from cachespec.shared_prefix.operations import Step
from cachespec.shared_prefix.state import RUNNING, WAITING, View


def counts(outcome: Outcome) -> tuple[int, ...]:
    """Tokens of each request that was scheduled."""
    return outcome.values[1::2]


def counts_are_positive(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    scheduled = counts(outcome) if isinstance(op, Step) else ()
    return all(tokens > 0 for tokens in scheduled) and sum(scheduled) <= config.batch_tokens


def begins_inside_an_item(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Some request found its prefix cached up to the middle of an item."""
    if not isinstance(op, Step):
        return False
    admitted = [(r, n) for r, n in zip(outcome.values[::2], counts(outcome), strict=True) if r in before.waiting]
    starts = [(request, after.computed[request] - tokens) for request, tokens in admitted]
    return any(begin < start < end for request, start in starts for _, begin, end in items_of(config, request))


def computed_is_in_range(config: Config, view: View) -> bool:
    return all(0 <= computed <= length_of(config, request) for request, computed in enumerate(view.computed))


def somebody_is_not_computed(config: Config, view: View) -> bool:
    there = [request for request, status in enumerate(view.status) if status in (WAITING, RUNNING)]
    return len(there) <= config.sequences and any(view.computed[one] < length_of(config, one) for one in there)


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-2",
        "no request has computed less than nothing or more than its prompt",
        computed_is_in_range,
        lambda c, v: any(0 < computed < length_of(c, request) for request, computed in enumerate(v.computed)),
    ),
)

STEPS: tuple[StepProperty[Config, View], ...] = (
    StepProperty(
        "SCH-1",
        "every count that is scheduled is positive, and together they are no more than a step",
        counts_are_positive,
        begins_inside_an_item,
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress(
        "SCH-8",
        "where no more requests are there than can run at once, the prompt of each is computed in the end",
        somebody_is_not_computed,
    ),
)
