"""Faults that were repaired, or are reported: the normative scheduler with one decision replaced by what it was.

Each of them breaks the property for which the normative rule is as it is, in a scope in which the normative one holds.
"""

from __future__ import annotations

from cachespec.kernel import Map
from cachespec.kv_blocks.eras import K0B, K2
from cachespec.scheduler import era_rules
from cachespec.scheduler.configuration import LENGTH, START, Config, ItemIndex, Request, items_of
from cachespec.scheduler.counts import known_length, length_in_sight, offered
from cachespec.scheduler.era_alignment import aligned_by_count
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.eras import scheduler
from cachespec.scheduler.feasibility import limited
from cachespec.scheduler.items import fit_item
from cachespec.scheduler.lines import placed
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import Abort, Add, Schedule
from cachespec.scheduler.parts import cached_prefix
from cachespec.scheduler.round_state import Fit, Prefix, Round
from cachespec.scheduler.rounds import consider, emptied, serve_running
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import Scheduled, State, View
from cachespec.scheduler.view import seen

# Requests -----------------------------------------------------------------------------------------------------------

QUEUES_ALL = scheduler(
    "queues-all",
    "queues requests that can never be served",
    RULES._replace(accepts=era_rules.shorter_than_model),
    {Add: "C-ENC-11, C-ENC-16, C-SCH-5, C-SCH-9: checks only the length of the prompt"},
)

ABORT_KEEPS_ITEMS = scheduler(
    "abort-keeps-items",
    "before #12545: an aborted request keeps its items",
    RULES._replace(abort=era_rules.keeps_items),
    {Abort: "C-ENC-4: frees the blocks and keeps the items"},
)

# Items --------------------------------------------------------------------------------------------------------------


def released_when_scheduled(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """C-ENC-9: what the plan computes to its end is released when the plan is made."""
    return era_rules.with_listed_released(rules, config, state, part.request, part.start + part.tokens)


def splitting_at_the_start(
    rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int
) -> Fit:
    """C-ENC-15: a chunk that begins with the item may end inside of it."""
    split = start == items_of(config, request)[index][START] and fit.tokens < items_of(config, request)[index][LENGTH]
    return fit_item(rules, config._replace(whole_items=0) if split else config, fit, request, index, start)


def unaligned(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """Before the items are looked at, nothing is aligned."""
    return offered(config._replace(alignment=0), state, request, start, tokens, budget)


RELEASED_EARLY = scheduler(
    "released-early",
    "items are released when they are scheduled",
    RULES._replace(after_round=released_when_scheduled),
    {Schedule: "C-ENC-9: items are released before the plan is executed"},
)

PINS_STAY = scheduler(
    "pins-stay",
    "before #31857: a request that is not admitted keeps its pins",
    RULES._replace(turned_down=era_rules.head_of_line),
    {Schedule: "C-ENC-10: nothing is undone when a request is not admitted"},
)

SPLITS_AT_START = scheduler(
    "splits-at-start",
    "as #52306 reports: a chunk that begins at an item may split it",
    RULES._replace(fit_item=splitting_at_the_start),
    {Schedule: "C-ENC-15: only chunks that begin before the item never split it"},
)

ALIGNED_LAST = scheduler(
    "aligned-last",
    "before #51603: chunks are aligned after the encoder pass",
    RULES._replace(offered=unaligned, offered_whole=unaligned, trimmed=aligned_by_count),
    {Schedule: "C-ENC-14: the tokens before a blocked item are aligned down to none, in every step"},
)

KEEPS_ITEMS = scheduler(
    "preempted-keeps-items",
    "until 0.10.1: a preempted request keeps its items",
    RULES._replace(lose=era_rules.lose_blocks_only),
    {Schedule: "C-ENC-5: frees the blocks and keeps the items"},
)

# Counts -------------------------------------------------------------------------------------------------------------


def blocked_below_zero(rules: Table, config: Config, fit: Fit, request: Request, index: ItemIndex, start: int) -> Fit:
    """C-SCH-1: the start of the item minus the computed tokens, even if negative."""
    after = fit_item(rules, config, fit, request, index, start)
    return (
        after._replace(tokens=items_of(config, request)[index][START] - start) if after.refused > fit.refused else after
    )


def found_all_outside(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """C-SCH-3: an external store may have the KV of all tokens, and then nothing is left to compute."""
    hits = cached_prefix(rules, config, state.kv, request, known_length(config, state, request))
    beyond = config.external[request] if config.external else 0
    return Prefix(hits, max(len(hits) * config.block_size, beyond), 0)


def whatever(tokens: int) -> bool:
    """A count of which an assertion says that it is positive."""
    return True


def padded(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """C-SCH-2: one token is scheduled with drafts that are not there yet, beyond the length of the model if need be."""
    if tokens == 1 and start > 0:
        return 1 + config.drafts if 1 + config.drafts <= budget else 0
    return min(limited(config, tokens), budget)


def wanted_with_drafts_in_flight(config: Config, state: State, request: Request, start: int) -> int:
    """The drafts in flight count as if all were right, and the model's length is taken off, whatever that leaves."""
    end = length_in_sight(config, state, request)
    return min(end + state.proposed.get(request, 0), config.max_model_len - 1) - start


NEGATIVE = scheduler(
    "negative",
    "before #11895: a blocked item leaves its start minus the computed tokens",
    RULES._replace(kv=K0B, fit_item=blocked_below_zero, is_count=era_rules.is_not_zero),
    {Schedule: "C-SCH-1: the count is negative if a prefix hit ends inside an item that is not resident"},
)

ALL_OUTSIDE = scheduler(
    "all-outside",
    "as #30320 reports: external KV may leave nothing to compute",
    RULES._replace(cached_prefix=found_all_outside, is_count=whatever),
    {Schedule: "C-SCH-3: a count asserted to be positive is 0"},
)

PADDED = scheduler(
    "padded",
    "before #53962: a request is padded with drafts beyond the model's length",
    RULES._replace(
        kv=K2,
        wanted=wanted_with_drafts_in_flight,
        offered=era_rules.offered_as_is,
        offered_whole=padded,
        is_count=era_rules.is_not_zero,
    ),
    {Schedule: "C-SCH-2: the computed tokens reach the model's length, and the next count is negative"},
)

# The order ----------------------------------------------------------------------------------------------------------


def admit_unless_deferred(rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-6: a request whose external KV is being fetched is deferred until it is looked at again.

    Deferred requests count against `max_running`; once it is reached no request is considered.
    """
    for request in current.state.waiting:
        waiting = marks(current.state, "deferred")
        if len(current.state.running) + waiting.length >= config.max_running:
            return current
        if config.external and config.external[request] > 0 and not waiting.has(request):
            current = current._replace(state=with_marks(current.state, "deferred", waiting.set(request, 1)))
        else:
            left = with_marks(current.state, "deferred", waiting.remove(request))
            current = consider(rules, config, current._replace(state=left), request)
    return current


COUNTS_DEFERRED = scheduler(
    "counts-deferred",
    "as #53130 reports: deferred requests count as running",
    RULES._replace(admit_waiting=admit_unless_deferred),
    {Schedule: "C-SCH-6: admission stops for ever once `max_running` requests are deferred"},
    marks={"deferred": Map[Request, int]},
)

GOES_BEHIND = scheduler(
    "goes-behind",
    "as #41951 reports: a preempted request is queued like one that never ran",
    RULES._replace(back_in_line=placed),
    {Schedule: "C-SCH-8: requests that already waited are admitted before it"},
)

# Placeholders for drafts --------------------------------------------------------------------------------------------


def with_placeholders(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """Drafts are counted on as soon as the step is scheduled that will propose them."""
    state = with_marks(state, "latest", marks(state, "latest").set(part.request, 1))
    if part.samples == 0 or config.drafts == 0:
        return state
    return state._replace(proposed=state.proposed.set(part.request, config.drafts))


def serve_with_placeholders(rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-7: the placeholders of a request that is left out stay, though the drafts are those of an older step."""
    served = serve_running(rules, config, current)
    nobody = emptied(config, marks(served.state, "latest"))
    return served._replace(state=with_marks(served.state, "latest", nobody))


def seen_with_placeholders(config: Config, state: State) -> View:
    """Placeholders stand for drafts for one step: in the next one, or not at all."""
    view = seen(RULES, config, state)
    return view._replace(proposed=tuple(pair for pair in view.proposed if marks(state, "latest").has(pair[0])))


PLACEHOLDERS_STAY = scheduler(
    "placeholders-stay",
    "as #46899 reports: placeholders for drafts outlive the step for which they stand",
    RULES._replace(serve_running=serve_with_placeholders, after_round=with_placeholders),
    {Schedule: "C-SCH-7: a skipped request is scheduled with drafts that do not exist"},
    {
        "SCH-2/offered": "placeholders are scheduled for drafts that do not exist yet",
        "SCH-2/once": "placeholders for drafts are proposed with the step that samples before them",
    },
    view=seen_with_placeholders,
    marks={"latest": Map[Request, int]},
)

SINGLE_FAULTS = (
    QUEUES_ALL,
    ABORT_KEEPS_ITEMS,
    RELEASED_EARLY,
    PINS_STAY,
    SPLITS_AT_START,
    ALIGNED_LAST,
    KEEPS_ITEMS,
    NEGATIVE,
    ALL_OUTSIDE,
    PADDED,
    COUNTS_DEFERRED,
    GOES_BEHIND,
    PLACEHOLDERS_STAY,
)
