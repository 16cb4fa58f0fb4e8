"""What must hold of answers: the reasons of refusals, the progress of requests, and the blocks written."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.kv_blocks.configuration import Config, content_of, limit_of
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    FreeRequest,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.state import NO_TABLE, Holding, View
from cachespec.kv_blocks.steps import again, hits_of, is_allocation, pending


def are_carried(config: Config, view: View, op: AllocateSlots | AllocateGroups) -> bool:
    """Every hit still holds what stands in its place in the request."""
    rows = [(op.request, op.hits), (op.other, op.other_hits)] if isinstance(op, AllocateGroups) else []
    registered = dict(view.registered)
    return all(
        registered.get(block) == content_of(config, request, position)
        for request, hits in rows or [(op.request, op.hits)]
        for position, block in enumerate(hits)
    )


def is_repeated(view: View, op: AllocateSlots | AllocateGroups) -> bool:
    """What is for a new request is asked for one that has a table; or two groups have one table."""
    holders = {request for request, _ in view.holdings}
    if isinstance(op, AllocateGroups):
        return op.request == op.other or bool({op.request, op.other} & holders)
    return len(op.hits) > 0 and op.request in holders


def is_of_another_moment(config: Config, view: View, op: AllocateSlots | AllocateGroups) -> bool:
    """The caller's hits or counts are not those of now."""
    holding = dict(view.holdings).get(op.request, NO_TABLE)
    if isinstance(op, AllocateGroups):
        return len(op.hits) != len(op.other_hits) or not are_carried(config, view, op)
    return not holding.computed <= op.computed <= holding.scheduled or not are_carried(config, view, op)


def turned_down_for_its_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, AllocateSlots | AllocateGroups):
        repeated = outcome.code is not Code.PRESENT or is_repeated(before, op)
        return repeated and (outcome.code is not Code.STALE or is_of_another_moment(config, before, op))
    if not isinstance(op, Commit | RollBack | FreeRequest | Withdraw):
        return True
    holding = dict(before.holdings).get(op.request)
    if (outcome.code is Code.ABSENT) != (holding is None) or holding is None:
        return holding is None and outcome.code is Code.ABSENT
    if isinstance(op, RollBack):
        return outcome.code is code_of_roll_back(config, before, op, holding)
    current = not isinstance(op, Commit) or holding.computed <= op.computed <= holding.scheduled
    return outcome.code is (Code.DONE if current else Code.STALE)


def code_of_roll_back(config: Config, view: View, op: RollBack, holding: Holding) -> Code:
    """A request goes back to a count that it had, and in blocks that no other request has."""
    if not 0 <= op.computed <= holding.computed:
        return Code.STALE
    references = dict(view.references)
    shared = any(references[block] > 1 for block in again(config, view, op))
    return Code.REFUSED if shared else Code.DONE


def served_in_its_moment(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots | AllocateGroups) or outcome.code is not Code.DONE:
        return True
    return op.tokens > 0 and not is_repeated(before, op) and not is_of_another_moment(config, before, op)


def progress_of(config: Config, before: View, op: Operation, outcome: Outcome) -> dict[int, tuple[int, int, int]]:
    """For each request: where it began by itself, how far it is computed, and how far it is scheduled."""
    known = {request: counts_of(holding) for request, holding in before.holdings}
    if outcome.code is not Code.DONE:
        return known
    if isinstance(op, FreeRequest | Withdraw):
        known.pop(op.request, None)
    elif isinstance(op, Commit):
        cached_tokens, _, scheduled = known[op.request]
        known[op.request] = (cached_tokens, op.computed, scheduled)
    elif isinstance(op, RollBack):
        cached_tokens, _, _ = known[op.request]
        first = op.computed // config.block_size * config.block_size
        known[op.request] = (min(cached_tokens, first), op.computed, op.computed)
    elif isinstance(op, AllocateSlots | AppendSlots):
        hit_tokens = len(hits_of(op)) * config.block_size
        cached_tokens, computed, _ = known.get(op.request, (hit_tokens, hit_tokens, hit_tokens))
        end = op.computed + hit_tokens + op.tokens
        known[op.request] = (cached_tokens, computed, min(end, limit_of(config)))
    elif isinstance(op, AllocateGroups):
        hit_tokens = len(op.hits) * config.block_size
        known |= dict.fromkeys((op.request, op.other), (hit_tokens, hit_tokens, hit_tokens + op.external + op.tokens))
    return known


def counts_of(holding: Holding) -> tuple[int, int, int]:
    """How far the request is."""
    return holding.cached_tokens, holding.computed, holding.scheduled


def progress_is_as_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """And no other request is further than it was."""
    return {request: counts_of(holding) for request, holding in after.holdings} == progress_of(
        config, before, op, outcome
    )


def flying_is_written(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """By one that is freed; one that is withdrawn does not write."""
    if not isinstance(op, FreeRequest | Withdraw) or outcome.code is not Code.DONE:
        return True
    its = tuple((request, blocks) for request, blocks in before.tables if request == op.request)
    held = tuple((request, holding) for request, holding in before.holdings if request == op.request)
    ends = isinstance(op, FreeRequest)
    flying = dict(pending(config, before._replace(tables=its, holdings=held))) if ends else {}
    written = dict(before.bytes) | {block: content for block, content in flying.items() if content >= 0}
    return dict(after.bytes) == written


def taken_is_unwritten(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not is_allocation(op, outcome) or not set(outcome.values) & set(dict(after.bytes))


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "KV-7/flying",
        "steps in flight when a request ends still write their blocks, and nothing else is written",
        flying_is_written,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.bytes) > len(b.bytes),
    ),
    Step(
        "KV-7/taken",
        "a reallocated block has no KV of its former content",
        taken_is_unwritten,
        lambda c, b, op, o, a: is_allocation(op, o) and bool(set(o.values) & set(dict(b.bytes))),
    ),
    Step(
        "KV-8/turned-down",
        "a call reports an existing table, a missing table or outdated arguments only if that is true",
        turned_down_for_its_reason,
        lambda c, b, op, o, a: is_allocation(op, o, Code.STALE) and bool(hits_of(op)),
    ),
    Step(
        "KV-8/moment",
        "slots are granted only if the hits are cached, the computed count is current, and the request has no other"
        " table",
        served_in_its_moment,
        lambda c, b, op, o, a: is_allocation(op, o) and bool(hits_of(op)),
    ),
    Step(
        "KV-10/counted",
        "a request is scheduled up to the end of its granted slots and computed up to its executed tokens",
        progress_is_as_asked,
        lambda c, b, op, o, a: isinstance(op, Commit) and len(b.holdings) > 1,
    ),
)
