"""What a scheduler's operations have the workers do: plans, loads from an external store, rejected drafts, resets."""

from __future__ import annotations

from cachespec.kv_blocks.state import NO_TABLE
from cachespec.scheduler.configuration import CONTENT, Config, ItemIndex, Request, items_of
from cachespec.scheduler.counts import is_of_this_run, rejected_drafts
from cachespec.scheduler.round_state import Prefix
from cachespec.scheduler.rules import OutputKey, Table
from cachespec.scheduler.state import Plan, Scheduled, State
from cachespec.scheduler.view import touched
from cachespec.scheduler.worker import (
    Chunk,
    Key,
    Worker,
    attended,
    blocks_of,
    cleared,
    crossed,
    dropped,
    encoded,
    gathered,
    is_written,
    kept_blocks,
    kept_cross_attention,
    keys_in,
    read,
    token,
    truncated,
    uncrossed,
    written,
)


def by_content(config: Config, request: Request, index: ItemIndex) -> Key:
    """Requests that show the same content share its encoder output."""
    return (items_of(config, request)[index][CONTENT],)


def by_request(config: Config, request: Request, index: ItemIndex) -> Key:
    """S0, S1: each item of each request has an encoder output of its own."""
    return (request, index)


def executed_by_workers(rules: Table, config: Config, state: State, plan: Plan, chunks: tuple[Chunk, ...]) -> State:
    """The workers drop, load, encode, gather, write and read, each for all parts of the plan before the next.

    Chunks of one step are written before any is read, as layers do: requests of a step may share a new block.
    """
    worker = state.worker._replace(missing_outputs=(), missing_slots=())
    worker = dropped(worker, reported_keys(rules, config, plan))
    worker = encoded(worker, tuple((content,) for content in plan.brought))
    for part in plan.scheduled:
        worker = encoded(worker, tuple(rules.output_key(config, part.request, index) for index in part.encode))
    for part in plan.scheduled:
        worker = with_gathered(rules, config, worker, part)
    for part in plan.scheduled if config.encoder_decoder == 1 else ():
        worker = with_cross_attention(rules.output_key, config, worker, part)
    for chunk in chunks:
        worker = written(config, worker, chunk)
    for chunk in chunks:
        worker = read(config, worker, chunk)
    return state._replace(worker=worker)


def reported_keys(rules: Table, config: Config, plan: Plan) -> tuple[Key, ...]:
    """The outputs that the plan drops. The encoder cache reports their keys one behind the other."""
    shows = tuple(request for request in range(len(config.prompts)) if items_of(config, request))
    width = len(rules.output_key(config, shows[0], 0)) if shows else 1
    return keys_in(plan.dropped, width)


def with_gathered(rules: Table, config: Config, worker: Worker, part: Scheduled) -> Worker:
    """ENC-8: the encoder outputs of the items whose tokens the part computes, whatever the plan says of them."""
    for index in touched(config, part):
        worker = gathered(worker, part.request, index, rules.output_key(config, part.request, index))
    return worker


def with_cross_attention(output_key: OutputKey, config: Config, worker: Worker, part: Scheduled | Chunk) -> Worker:
    """ENC-8: what the first step of a request has written of its items, each later one reads."""
    for index in range(len(items_of(config, part.request))):
        if part.start == 0:
            worker = crossed(worker, part.request, index, output_key(config, part.request, index))
        else:
            worker = attended(worker, part.request, index)
    return worker


def with_new_blocks(config: Config, state: State, request: Request) -> State:
    """An admitted request has new blocks for cross-attention KV, if the model needs any."""
    if config.encoder_decoder == 0:
        return state
    return state._replace(worker=uncrossed(config, state.worker, request))


def loaded(config: Config, state: State, request: Request, prefix: Prefix) -> State:
    """An external store brings the KV that it has of the tokens behind the hits, before the request's first step."""
    present = prefix.covered + len(prefix.hits) * config.block_size
    stored = config.external[request] if config.external else 0
    chunk = Chunk(request, present, min(stored, prefix.start), blocks_of(state.kv, request))
    return state._replace(worker=written(config, state.worker, chunk))


def load_written(config: Config, state: State, request: Request, tokens: int) -> State:
    """A load has brought the KV of the request's tokens before this one, behind those that are computed."""
    present = state.kv.holdings.get(request, NO_TABLE).computed
    chunk = Chunk(request, present, tokens, blocks_of(state.kv, request))
    return state._replace(worker=written(config, state.worker, chunk)) if tokens > present else state


def load_lost(config: Config, state: State, request: Request, tokens: int) -> State:
    """The request's KV from this token on is of no use: a load has failed."""
    chunk = Chunk(request, 0, 0, blocks_of(state.kv, request))
    first = tokens // config.block_size
    worker = state.worker
    kept = tokens % config.block_size > 0 and is_written(config, worker, chunk, tokens - 1)
    memory = worker.memory
    for position in range(first, len(chunk.blocks)):
        memory = memory.remove(chunk.blocks[position])
    memory = memory.set(chunk.blocks[first], token(config, request, tokens - 1)) if kept else memory
    return state._replace(worker=worker._replace(memory=memory))


def with_rejected(config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """The KV of rejected drafts is of no use. `state.plans` are those behind the plan of the part."""
    if not is_of_this_run(state, part):
        return state
    tokens = rejected_drafts(part, accepted)
    return state._replace(worker=truncated(config, state.worker, state.kv, part.request, tokens))


def with_outputs_cleared(config: Config, state: State) -> State:
    """X-4: the workers drop all encoder outputs, after the plans in flight."""
    return state._replace(worker=cleared(config, state.worker))


def normal(config: Config, state: State) -> State:
    """Canonical form: a block that no table names and that cannot be found is written before it is read."""
    worker = kept_blocks(config, state.worker, state.kv)
    return state._replace(worker=kept_cross_attention(config, worker, state.computed))
