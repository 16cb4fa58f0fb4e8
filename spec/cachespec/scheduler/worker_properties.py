"""What the workers must have: ENC-8, KV-7 and X-1, of what was really computed and not of what is accounted."""

from __future__ import annotations

from cachespec.kernel import Operation, Outcome, Safety, Step
from cachespec.scheduler.configuration import Config, ItemIndex, Request, chains, items_of
from cachespec.scheduler.state import View
from cachespec.scheduler.view import accounted, new_plan
from cachespec.scheduler.worker import UNWRITTEN, Token, first_with, holds, keys_in, token


def outputs_are_there(config: Config, view: View) -> bool:
    return view.worker.missing_outputs == ()


def slots_are_there(config: Config, view: View) -> bool:
    return view.worker.missing_slots == ()


def outputs_are_those_counted(config: Config, view: View) -> bool:
    outputs, counted = set(view.worker.outputs), {*accounted(view), *view.encoder.freed}
    return outputs == counted or (may_be_gone(config) and outputs <= counted)


def may_be_gone(config: Config) -> bool:
    """The step that encodes an input of an encoder-decoder model reads its output, and no other step does."""
    return config.encoder_decoder == 1


def cross_attention_is_written(config: Config, view: View) -> bool:
    return is_crossed(config, view, view.worker.crossed)


def is_crossed(config: Config, view: View, crossed: tuple[tuple[Request, ItemIndex], ...]) -> bool:
    return config.encoder_decoder == 0 or all(
        (request, index) in crossed
        for request, computed in view.computed
        if computed > 0 and request in view.running
        for index in range(len(items_of(config, request)))
    )


def reads_cross_attention(config: Config, view: View) -> bool:
    """A plan in flight computes output, and reads the cross-attention KV of an item."""
    return config.encoder_decoder == 1 and any(
        part.start >= config.prompts[part.request] and items_of(config, part.request)
        for plan in view.plans
        for part in plan.scheduled
    )


def found_blocks_are_written(config: Config, view: View) -> bool:
    memory, ends = dict(view.worker.memory), dict(last_tokens(config))
    return all(holds(config, memory.get(block, UNWRITTEN), ends[content]) for block, content in view.kv.registered)


def computed_tokens_are_written(config: Config, view: View) -> bool:
    memory, tables = dict(view.worker.memory), dict(view.kv.tables)
    return all(
        holds(config, memory.get(block, UNWRITTEN), token(config, request, min(computed, end) - 1))
        for request, computed in view.computed
        for block, end in ends_of_blocks(config, tables.get(request, ()))
        if computed > end - config.block_size
    )


def rejected_tokens_are_not_written(config: Config, view: View) -> bool:
    memory, tables = dict(view.worker.memory), dict(view.kv.tables)
    return not any(
        holds(config, memory.get(block, UNWRITTEN), token(config, request, computed))
        for request, computed in view.computed
        for block, end in ends_of_blocks(config, tables.get(request, ()))
        if end - config.block_size <= computed < end
    )


def ends_of_blocks(config: Config, blocks: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The blocks of a table, each with the position behind its last slot."""
    return tuple((block, (index + 1) * config.block_size) for index, block in enumerate(blocks))


def last_tokens(config: Config) -> tuple[tuple[int, Token], ...]:
    """The contents of full blocks, each with its last token."""
    return tuple(
        (content, token(config, request, (index + 1) * config.block_size - 1))
        for request, contents in enumerate(chains(config))
        for index, content in enumerate(contents)
    )


def dropped_outputs_were_there(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A key has one part, or two where outputs are not shared."""
    width = max((len(key) for key in before.worker.outputs), default=1)
    keys = keys_in(new_plan(before, op, after).dropped, width)
    return len(keys) == len(set(keys)) and set(keys) <= set(before.worker.outputs)


def reads_a_shared_block(config: Config, view: View) -> bool:
    """The newest plan reads a block that another request has written."""
    return any(
        part.start > 0 and first_with(config, part.request, 0) != part.request
        for plan in view.plans
        for part in plan.scheduled
    )


WORKER_SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "ENC-8",
        "every encoder output that a step reads was computed and has not been dropped, and every cross-attention KV "
        "was written",
        outputs_are_there,
        lambda c, v: any(len(part.relies) > len(part.encode) for plan in v.plans for part in plan.scheduled),
    ),
    Safety(
        "KV-7/read",
        "every KV slot that a step reads has the KV of the token that the scheduler assumes",
        slots_are_there,
        reads_a_shared_block,
    ),
    Safety(
        "X-1/agreement",
        "the workers have exactly the encoder outputs that are resident or await a report; in an "
        "encoder-decoder model they may lack some",
        outputs_are_those_counted,
        lambda c, v: bool(v.worker.outputs) and any(plan.dropped for plan in v.plans),
    ),
    Safety(
        "KV-7/crossed",
        "the workers have the cross-attention KV of all items of every running request that has computed a token",
        cross_attention_is_written,
        reads_cross_attention,
    ),
    Safety(
        "KV-7/found",
        "the workers have, in every findable block, the KV of the content that the block is registered for",
        found_blocks_are_written,
        lambda c, v: len(v.kv.registered) > 1 and bool(v.plans),
    ),
    Safety(
        "KV-7/written",
        "the workers have the KV of every token that counts as computed, in the blocks of its request",
        computed_tokens_are_written,
        lambda c, v: any(computed % c.block_size > 0 for _, computed in v.computed) and bool(v.kv.registered),
    ),
    Safety(
        "KV-7/rejected",
        "the workers have no KV of a request's tokens behind those that count as computed",
        rejected_tokens_are_not_written,
        lambda c, v: c.drafts > 0 and any(computed % c.block_size > 0 for _, computed in v.computed),
    ),
)


def encoder_runs_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return config.encoder_decoder == 0 or all(
        part.encode == (tuple(range(len(items_of(config, part.request)))) if part.start == 0 else ())
        for part in new_plan(before, op, after).scheduled
    )


WORKER_STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-3/first",
        "the first step of a request of an encoder-decoder model encodes all its items, and no later step does",
        encoder_runs_first,
        lambda c, b, op, o, a: (
            c.encoder_decoder == 1
            and any(part.encode and dict(b.produced).get(part.request, 0) > 0 for part in new_plan(b, op, a).scheduled)
        ),
    ),
    Step(
        "X-1/dropped",
        "every encoder output that a plan drops is in the workers' memory, and is dropped once",
        dropped_outputs_were_there,
        lambda c, b, op, o, a: bool(new_plan(b, op, a).dropped),
    ),
)
