"""What must hold of every state of a scheduler and its caches, and what must not last for ever."""

from __future__ import annotations

from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import Progress, Safety, lifted
from cachespec.scheduler.admission_properties import is_within_limits
from cachespec.scheduler.configuration import (
    LENGTH,
    START,
    Config,
    Item,
    encoder_config,
    ended_length,
    final_length,
    items_of,
    kv_config,
)
from cachespec.scheduler.connector_properties import CONNECTED
from cachespec.scheduler.readiness_properties import READY, may_end
from cachespec.scheduler.session_properties import SESSIONS
from cachespec.scheduler.state import Scheduled, View
from cachespec.scheduler.transfer_properties import TRANSFERS
from cachespec.scheduler.view import holders_of_blocks, holders_of_items, in_flight, live
from cachespec.scheduler.worker_properties import WORKER_SAFETY


def parts(view: View) -> tuple[Scheduled, ...]:
    """Everything in flight."""
    return tuple(part for plan in view.plans for part in plan.scheduled)


def counts_are_positive(config: Config, view: View) -> bool:
    return all(part.tokens > 0 for part in parts(view))


def tokens_are_within_budget(config: Config, view: View) -> bool:
    return all(sum(part.tokens for part in plan.scheduled) <= config.token_budget for plan in view.plans)


def nothing_is_beyond_the_end(config: Config, view: View) -> bool:
    return all(part.start + part.tokens < config.max_model_len + config.pooling for part in parts(view))


def prompts_are_not_computed(config: Config, view: View) -> bool:
    """A request that runs still has a prompt token to compute, or a step in flight computes it."""
    return config.pooling == 0 or (
        view.produced == () and all(executed_of(view, request) < config.prompts[request] for request in view.running)
    )


def embeds_of(config: Config, part: Scheduled) -> int:
    """What this part encodes."""
    return sum(items_of(config, part.request)[index][LENGTH] for index in part.encode)


def embeds_are_within_budget(config: Config, view: View) -> bool:
    return all(sum(embeds_of(config, part) for part in plan.scheduled) <= config.encoder_compute for plan in view.plans)


def items_are_whole(config: Config, view: View) -> bool:
    """A part that begins at an item or before, and touches it, ends behind it."""
    if config.whole_items == 0:
        return True
    return not any(
        part.start <= item[START] < part.start + part.tokens < item[START] + item[LENGTH]
        for part in parts(view)
        for item in items_of(config, part.request)
    )


def who_is_named_is_not_scheduled(config: Config, view: View) -> bool:
    return not any(part.request in (*plan.finished, *plan.preempted) for plan in view.plans for part in plan.scheduled)


def only_running_hold_blocks(config: Config, view: View) -> bool:
    return holders_of_blocks(view) <= {*view.running, *(request for request, _ in view.transfers)}


def only_running_hold_items(config: Config, view: View) -> bool:
    return holders_of_items(view) <= set(view.running)


def queues_are_apart(config: Config, view: View) -> bool:
    everybody = (*live(view), *view.queued, *view.gone)
    return len(everybody) == len(set(everybody)) and tuple(sorted(view.running)) == tuple(r for r, _ in view.computed)


def blocks_cover(config: Config, view: View) -> bool:
    """The counterpart of KV-10/covers: what counts as computed has its place."""
    tables = dict(view.kv.tables)
    return all(len(tables.get(request, ())) * config.block_size >= computed for request, computed in view.computed)


def only_feasible_are_queued(config: Config, view: View) -> bool:
    return all(is_within_limits(config, request) for request in live(view))


def output_is_bounded(config: Config, view: View) -> bool:
    return not any(may_end(config, r, tokens) for r, tokens in view.produced)


def no_more_run_than_may(config: Config, view: View) -> bool:
    return len(view.running) <= config.max_running


def only_the_living_are_remembered(config: Config, view: View) -> bool:
    return {r for r, _ in view.produced} <= set(live(view)) and {r for r, _ in view.proposed} <= set(view.running)


def drafts_could_count(config: Config, view: View) -> bool:
    """The last token of the output is never computed, so a draft in its place could not be verified."""
    produced = dict(view.produced)
    return all(
        0 < drafts <= config.drafts and config.prompts[r] + produced.get(r, 0) + drafts < final_length(config, r)
        for r, drafts in view.proposed
    )


def executed_of(view: View, request: int) -> int:
    """The request's tokens of which the KV is there: where the oldest of its parts in flight begins."""
    return min((part.start for part in in_flight(view, request)), default=dict(view.computed).get(request, 0))


def read_until(config: Config, item: Item) -> int:
    """The position behind the last token whose step reads the item; of an encoder-decoder model that of any step."""
    return 1 if config.encoder_decoder else item[START] + item[LENGTH]


def items_are_let_go(config: Config, view: View) -> bool:
    """An item of which every token is computed is not read again."""
    return not any(
        read_until(config, items_of(config, request)[index]) <= executed_of(view, request)
        for request, index in view.encoder.held
        if request in view.running
    )


def what_is_found_was_computed(config: Config, view: View) -> bool:
    registered, tables = {block for block, _ in view.kv.registered}, dict(view.kv.tables)
    return not any(
        block in registered and (index + 1) * config.block_size > computed
        for request, computed in view.computed
        for index, block in enumerate(tables.get(request, ()))
    )


def what_was_computed_is_found(config: Config, view: View) -> bool:
    """In the request's own block. What an external store has is registered with the tokens that follow it."""
    if config.external:
        return True
    registered, tables = {block for block, _ in view.kv.registered}, dict(view.kv.tables)
    return all(
        block in registered
        for request in view.running
        for block in tables.get(request, ())[: executed_of(view, request) // config.block_size]
    )


OWN: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-1",
        "every scheduled token count is positive",
        counts_are_positive,
        lambda c, v: any(len(plan.scheduled) > 1 for plan in v.plans),
    ),
    Safety(
        "SCH-1/budget",
        "the token counts of a step sum to at most the token budget",
        tokens_are_within_budget,
        lambda c, v: any(
            len(p.scheduled) > 1 and sum(part.tokens for part in p.scheduled) == c.token_budget for p in v.plans
        ),
    ),
    Safety(
        "SCH-2",
        "no token is computed at a position that leaves no room for an output within the model's length",
        nothing_is_beyond_the_end,
        lambda c, v: any(part.start + part.tokens == c.max_model_len - 1 for part in parts(v)),
    ),
    Safety(
        "SCH-2/finished",
        "a request with complete output is finished",
        output_is_bounded,
        lambda c, v: any(c.prompts[r] + tokens + 1 == ended_length(c, r) for r, tokens in v.produced),
    ),
    Safety(
        "SCH-3/whole",
        "if items are not split, no chunk ends inside an item that it could have left to a later step",
        items_are_whole,
        lambda c, v: c.whole_items == 1 and any(part.encode for part in parts(v)),
    ),
    Safety(
        "SCH-4",
        "the embeddings encoded in a step sum to at most the encoder compute budget",
        embeds_are_within_budget,
        lambda c, v: any(len([part for part in plan.scheduled if part.encode]) > 1 for plan in v.plans),
    ),
    Safety(
        "SCH-5",
        "a plan schedules no request that it also lists as finished or preempted",
        who_is_named_is_not_scheduled,
        lambda c, v: any(plan.scheduled and (plan.finished or plan.preempted) for plan in v.plans),
    ),
    Safety(
        "SCH-5/blocks",
        "only running requests, and requests with a transfer, hold KV blocks",
        only_running_hold_blocks,
        lambda c, v: bool(v.waiting) and bool(holders_of_blocks(v)),
    ),
    Safety(
        "SCH-5/items",
        "only running requests hold items",
        only_running_hold_items,
        lambda c, v: bool(v.waiting) and bool(holders_of_items(v)),
    ),
    Safety(
        "SCH-6",
        "every known request is in exactly one state: queued, waiting, running or finished",
        queues_are_apart,
        lambda c, v: bool(v.waiting) and bool(v.running) and bool(v.gone),
    ),
    Safety(
        "SCH-9",
        "every queued request can be served to its end",
        only_feasible_are_queued,
        lambda c, v: len(live(v)) > 1,
    ),
    Safety(
        "KV-10/computed",
        "a request holds blocks for all its computed tokens",
        blocks_cover,
        lambda c, v: any(computed % c.block_size > 0 for _, computed in v.computed),
    ),
    Safety(
        "SCH-1/running",
        "at most `max_running` requests run",
        no_more_run_than_may,
        lambda c, v: len(v.running) == c.max_running and bool(v.waiting),
    ),
    Safety(
        "SCH-6/forgotten",
        "only waiting and running requests have output, and only running ones have drafts",
        only_the_living_are_remembered,
        lambda c, v: bool(v.produced) and bool(v.waiting) and bool(v.gone),
    ),
    Safety(
        "SCH-2/proposed",
        "the proposed drafts are at most the configured number and at most what the output can still take",
        drafts_could_count,
        lambda c, v: any(drafts < c.drafts for _, drafts in v.proposed),
    ),
    Safety(
        "ENC-6/released",
        "a running request holds no item whose tokens are all executed",
        items_are_let_go,
        lambda c, v: any(executed_of(v, request) > 0 for request, _ in v.encoder.held),
    ),
    Safety(
        "KV-7/computed",
        "a findable block of a running request has only computed tokens",
        what_is_found_was_computed,
        lambda c, v: any(len(blocks) > 1 for _, blocks in v.kv.tables) and bool(v.kv.registered),
    ),
    Safety(
        "KV-7/registered",
        "a block of a running request is findable once all its tokens are executed",
        what_was_computed_is_found,
        lambda c, v: any(executed_of(v, request) > c.block_size for request in v.running),
    ),
)

POOLING: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-18",
        "a request of a pooling model has no output, and ends with the step that computes the rest of its prompt",
        prompts_are_not_computed,
        lambda c, v: c.pooling == 1 and any(part.start + part.tokens == c.max_model_len for part in parts(v)),
    ),
)

LIFTED_ENCODER = ("ENC-1", "ENC-2", "ENC-2/freeable", "ENC-3", "ENC-4", "ENC-5")

LIFTED_KV = ("KV-1", "KV-2", "KV-3", "KV-4", "KV-4/immutable", "KV-6", "KV-6/chain", "KV-7", "KV-10", "KV-10/covers")

SAFETY: tuple[Safety[Config, View], ...] = (
    *OWN,
    *READY,
    *TRANSFERS,
    *SESSIONS,
    *CONNECTED,
    *POOLING,
    *WORKER_SAFETY,
    *lifted(
        (rule for rule in encoder_cache.COMPONENT.safety if rule.name in LIFTED_ENCODER),
        config=encoder_config,
        view=lambda view: view.encoder,
    ),
    *lifted(
        (rule for rule in kv_blocks.COMPONENT.safety if rule.name in LIFTED_KV),
        config=kv_config,
        view=lambda view: view.kv,
    ),
)


def somebody_is_unfinished(config: Config, view: View) -> bool:
    return bool(live(view))


def blocks_and_items_are_apart(config: Config, view: View) -> bool:
    return any(part != other for part in holders_of_blocks(view) for other in holders_of_items(view))


PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("SCH-8", "every queued request is eventually finished", somebody_is_unfinished),
    Progress(
        "SCH-10",
        "it never lasts that one request holds KV blocks while another holds items (no deadlock)",
        blocks_and_items_are_apart,
    ),
)
