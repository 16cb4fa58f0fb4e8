"""What must hold of arrivals, and of admissions under the settings of the prefix cache and of the watermark."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.scheduler.configuration import LENGTH, START, Config, Item, final_length, is_turn, items_of
from cachespec.scheduler.operations import Add
from cachespec.scheduler.session_properties import known
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.view import known_length, live, new_plan


def admitted(before: View, op: Operation, after: View) -> tuple[Scheduled, ...]:
    """The parts of the new plan that belong to requests which waited."""
    return tuple(part for part in new_plan(before, op, after).scheduled if part.request in before.waiting)


def watermark_is_left(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A request that runs alone may take every block."""
    if admitted(before, op, after) == () or len(after.running) == 1:
        return True
    return len(after.kv.free) >= config.watermark


def nothing_is_taken_over(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return config.prefix_caching == 1 or all(
        part.start <= (config.external[part.request] if config.external else 0) for part in admitted(before, op, after)
    )


def uncut_prompts_fit(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """An admitted request is offered all its tokens, or as many as the threshold allows. Items may end a chunk earlier.

    The running requests of the step, and those admitted before it, have taken their tokens.
    """
    plan = new_plan(before, op, after).scheduled
    return config.chunked_prefill == 1 or all(
        at_once(config, before, part) + sum(other.tokens for other in plan[:index]) <= config.token_budget
        for index, part in enumerate(plan)
        if part.request in before.waiting
    )


def at_once(config: Config, before: View, part: Scheduled) -> int:
    """The tokens of an admitted request that are not computed, up to the long-prefill threshold."""
    left = known_length(config, before, part.request) - part.start
    return min(left, config.long_prefill_threshold or left)


def threshold_is_kept(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A lone request may have the whole step."""
    return config.long_prefill_threshold == 0 or all(
        part.tokens <= config.long_prefill_threshold or set(live(before)) == {part.request}
        for part in new_plan(before, op, after).scheduled
    )


def feasible_are_queued(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Add) or outcome.code is Code.PRESENT:
        return True
    if outcome.code is Code.ABSENT:  # the turn before has not arrived
        return is_turn(config, op.request) and op.request - 1 not in known(before)
    return not is_within_limits(config, op.request) or op.request in (*after.waiting, *after.queued)


def is_within_limits(config: Config, request: int) -> bool:
    """What `feasibility` decides, said once more, so that a rule there that is too strict or too lax is noticed."""
    tokens = range(final_length(config, request) - 1)
    longest = min(len(tokens), config.long_prefill_threshold or len(tokens))
    largest = min(config.encoder_compute, config.encoder_capacity)
    lengths = [item[LENGTH] for item in items_of(config, request)]
    return (
        config.prompts[request] in range(config.max_model_len + config.pooling)
        and len({token // config.block_size for token in tokens}) <= config.kv_blocks
        and (longest <= config.token_budget or bool(config.chunked_prefill))
        and (sum(lengths) <= largest or not config.encoder_decoder)
        and all(
            item[LENGTH] <= min(largest, surely_at_once(config, request, item)) for item in items_of(config, request)
        )
    )


def surely_at_once(config: Config, request: int, item: Item) -> int:
    """So long a piece of the prompt, from the item on, is computed in one chunk, or the item may be split."""
    if not config.whole_items:
        return item[LENGTH]
    chunk = min(config.token_budget, config.long_prefill_threshold or config.token_budget)
    ends_before = config.alignment > 0 and item[START] + chunk < config.prompts[request]
    return chunk - (config.alignment - 1) * ends_before


ADMISSION: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-11",
        "an admission beside another running request leaves at least `watermark` blocks free",
        watermark_is_left,
        lambda c, b, op, o, a: c.watermark > 0 and bool(admitted(b, op, a)) and len(a.kv.free) == c.watermark,
    ),
    Step(
        "KV-6/off",
        "without prefix caching, an admitted request starts behind its external KV and takes no other request's blocks",
        nothing_is_taken_over,
        lambda c, b, op, o, a: c.prefix_caching == 0 and bool(admitted(b, op, a)) and bool(b.kv.registered),
    ),
    Step(
        "SCH-1/uncut",
        "without chunked prefill, the token budget never cuts the tokens with which a request is admitted",
        uncut_prompts_fit,
        lambda c, b, op, o, a: (
            c.chunked_prefill == 0
            and bool(admitted(b, op, a))
            and sum(part.tokens for part in new_plan(b, op, a).scheduled) == c.token_budget
        ),
    ),
    Step(
        "SCH-1/threshold",
        "beside another request, no request gets more tokens in a step than the long-prefill threshold",
        threshold_is_kept,
        lambda c, b, op, o, a: (
            len([part for part in new_plan(b, op, a).scheduled if part.tokens == c.long_prefill_threshold]) > 1
        ),
    ),
)
