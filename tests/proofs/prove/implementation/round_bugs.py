"""Bugs in a round of the scheduler."""

from __future__ import annotations

from tests.proofs.prove.implementation.bug import Bug

from cacheimpl.scheduler import burst, items, plans, reserving, rounds, single

NAME, SCHEDULE = "scheduler", "equal/schedule"
ALONE, TWO_BLOCKS, ITEM, _, PAIR = range(11, 16)
"""Shapes: one request in one block; in two; one with an item; two requests in one block."""

BUGS = (
    Bug(single.preempted, "state.ended | victims.any()", "state.ended", NAME, SCHEDULE, ALONE),
    Bug(rounds.begin, "config.token_budget", "config.token_budget + 1", NAME, SCHEDULE, ALONE),
    Bug(plans.with_parts, "end >= sight", "end > sight", NAME, SCHEDULE, ALONE),
    Bug(plans.concluded, "state.leaving & ~says", "state.leaving", NAME, SCHEDULE, ALONE),
    Bug(plans.concluded, "state.plans + says", "state.plans + over", NAME, SCHEDULE, ALONE),
    Bug(burst.admit_first, "start - cached + tokens", "tokens + 1", NAME, SCHEDULE, ALONE),
    Bug(
        burst.admit_first,
        "torch.maximum(cached, $external)",
        "$external",
        NAME,
        SCHEDULE,
        TWO_BLOCKS,
    ),
    Bug(
        items._with_item,
        "asks & ~shown_already & (answer.code == int(Code.DONE))",
        "asks & ~shown_already",
        NAME,
        SCHEDULE,
        ITEM,
    ),
    Bug(reserving.reserved, "computed <= state.embeds_left", "computed <= state.embeds_left + 1", NAME, SCHEDULE, ITEM),
    Bug(reserving.reserved, "upto - state.encoder.free <= room", "upto >= 0", NAME, SCHEDULE, ITEM),
    Bug(items._with_item, "torch.minimum(fit.tokens, first - start)", "fit.tokens", NAME, SCHEDULE, ITEM),
    Bug(single.with_room, "state.running >= running - victims", "state.running < victims", NAME, SCHEDULE, PAIR),
)
