"""The workers' side of a scheduler: which encoder outputs and which KV slots have really been computed.

The scheduler keeps accounts; a worker keeps what the accounts are about. It executes the plans in the order in which
they were made: it drops encoder outputs, encodes, gathers the outputs that the chunks rely on, writes the slots of the
chunks and reads all slots before them. What a plan reads and no plan has computed is recorded as missing (ENC-8,
KV-7/read). On a real engine it is a crash or another request's data.

A plan changes the worker as soon as it is made. Plans are executed in order and no later operation changes one, so the
worker has the same contents as one that executes each plan later. The exceptions are rejected drafts, which `truncated`
takes back, and a KV transfer from an external store, which `loaded` adds before the plan of its request.

Of an encoder-decoder model the first step of a request writes cross-attention KV from the encoder outputs of all its
items, and later steps read that KV. It has blocks of its own, which a request gets with each admission.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, NamedTuple

from cachespec.kernel import Containers, Map, Name
from cachespec.kv_blocks import Pool
from cachespec.kv_blocks.state import NO_TABLE
from cachespec.scheduler.configuration import Config, ItemIndex, Request, common_tokens, items_of

Key = tuple[int, ...]
"""An encoder output: its content, or its request and item where outputs are not shared."""
Block = Annotated[int, Name("block")]
Token = int
"""A prefix of a request, named by its last token. Requests that share the prefix have the same number for it."""
UNWRITTEN = -1
NO_BLOCK = -1


class Worker(NamedTuple):
    """What the workers have, and what the newest plan reads that they do not have."""

    outputs: Map[Key, int]
    """Encoder outputs in memory; each 1."""
    memory: Map[Block, Token]
    """The last token of each written block. Its earlier slots have the KV of the tokens before; absent if unwritten."""
    missing_outputs: tuple[tuple[Request, ItemIndex], ...]
    """Of the newest plan: requests and items whose encoder output is gathered and was not computed; of an
    encoder-decoder model, whose cross-attention KV is read and was not written."""
    missing_slots: tuple[tuple[Request, int], ...]
    """Of the newest plan: requests and the position of the first token whose KV is read and was not computed."""
    crossed: Map[tuple[Request, ItemIndex], int]
    """Requests that run and items whose cross-attention KV was written since the request was admitted; each 1."""


class Chunk(NamedTuple):
    """The slots of one part of a plan, in the request's blocks at the time of scheduling."""

    request: Request
    start: int
    end: int
    blocks: tuple[Block, ...]
    """The request's blocks from position 0 on."""


class WorkerView(NamedTuple):
    """What properties read. Pairs are sorted."""

    outputs: tuple[Key, ...]
    memory: tuple[tuple[int, Token], ...]
    missing_outputs: tuple[tuple[Request, ItemIndex], ...]
    missing_slots: tuple[tuple[Request, int], ...]
    crossed: tuple[tuple[Request, ItemIndex], ...]


def initial_worker(containers: Containers) -> Worker:
    """Nothing has been computed."""
    return Worker(
        outputs=containers.map(),
        memory=containers.map(),
        missing_outputs=(),
        missing_slots=(),
        crossed=containers.map(),
    )


def view_of(worker: Worker) -> WorkerView:
    """The worker as properties see it."""
    return WorkerView(
        outputs=tuple(key for key, _ in worker.outputs.items()),
        memory=tuple(worker.memory.items()),
        missing_outputs=worker.missing_outputs,
        missing_slots=worker.missing_slots,
        crossed=tuple(pair for pair, _ in worker.crossed.items()),
    )


# Tokens -------------------------------------------------------------------------------------------------------------


@cache
def token(config: Config, request: Request, position: int) -> Token:
    """The number of the request's prefix that ends with the token at this position."""
    return first_with(config, request, position) * most_tokens(config) + position


def most_tokens(config: Config) -> int:
    """More tokens than any request can have, drafts beyond its end included."""
    return max(config.max_model_len, *config.prompts) + config.drafts + 1


def first_with(config: Config, request: Request, position: int) -> Request:
    """The first request with the same tokens up to this position."""
    return next(
        other for other in range(request + 1) if other == request or is_common(config, other, request, position)
    )


def is_common(config: Config, one: Request, other: Request, position: int) -> bool:
    """Both requests begin with the same tokens up to this position."""
    return position < common_tokens(config, one, other)


def holds(config: Config, written: Token, wanted: Token) -> bool:
    """A block that is written up to `written` has the KV of `wanted`, a token of the same block."""
    if written == UNWRITTEN:
        return False
    width = most_tokens(config)
    request, last = divmod(written, width)
    position = wanted % width
    same_block = position // config.block_size == last // config.block_size
    return same_block and position <= last and token(config, request, position) == wanted


# Encoder outputs ----------------------------------------------------------------------------------------------------


def dropped(worker: Worker, keys: tuple[Key, ...]) -> Worker:
    """The outputs are in memory no longer. Dropping an absent output has no effect, as in releases."""
    outputs = worker.outputs
    for key in keys:
        outputs = outputs.remove(key)
    return worker._replace(outputs=outputs)


def encoded(worker: Worker, keys: tuple[Key, ...]) -> Worker:
    """The outputs are in memory."""
    outputs = worker.outputs
    for key in keys:
        outputs = outputs.set(key, 1)
    return worker._replace(outputs=outputs)


def gathered(worker: Worker, request: Request, index: ItemIndex, key: Key) -> Worker:
    """ENC-8: an output that a chunk relies on and that is not in memory is missing."""
    if worker.outputs.has(key):
        return worker
    return worker._replace(missing_outputs=(*worker.missing_outputs, (request, index)))


def crossed(worker: Worker, request: Request, index: ItemIndex, key: Key) -> Worker:
    """The first step of a request writes the cross-attention KV of an item whose output is in memory."""
    if not worker.outputs.has(key):
        return worker
    return worker._replace(crossed=worker.crossed.set((request, index), 1))


def attended(worker: Worker, request: Request, index: ItemIndex) -> Worker:
    """ENC-8: a later step reads that KV. If it was not written, its encoder output is missing."""
    if worker.crossed.has((request, index)):
        return worker
    return worker._replace(missing_outputs=(*worker.missing_outputs, (request, index)))


def uncrossed(config: Config, worker: Worker, request: Request) -> Worker:
    """The request has no cross-attention KV: it is admitted to new blocks, or runs no more."""
    written = worker.crossed
    for index in range(len(items_of(config, request))):
        written = written.remove((request, index))
    return worker._replace(crossed=written)


def keys_in(values: tuple[int, ...], width: int) -> tuple[Key, ...]:
    """Encoder outputs from their keys one behind the other, each of `width` values."""
    return tuple(values[index : index + width] for index in range(0, len(values), width))


# KV slots -----------------------------------------------------------------------------------------------------------


def written(config: Config, worker: Worker, chunk: Chunk) -> Worker:
    """The KV of the chunk's tokens is in the slots of its blocks. A negative position, as eras plan it, has no slot."""
    size = config.block_size
    memory = worker.memory
    for position in range(max(chunk.start, 0) // size, (chunk.end + size - 1) // size):
        first, last = max(chunk.start, position * size), min(chunk.end, (position + 1) * size) - 1
        block = chunk.blocks[position] if position < len(chunk.blocks) else NO_BLOCK
        memory = with_slots(config, memory, block, chunk.request, first, last)
    return worker._replace(memory=memory)


def with_slots(
    config: Config, memory: Map[Block, Token], block: Block, request: Request, first: int, last: int
) -> Map[Block, Token]:
    """One block, written up to `last`. After a gap nothing is written: no step may read what is behind it."""
    if block == NO_BLOCK:
        return memory
    end = kept_before(config, memory.get(block, UNWRITTEN), request, first)
    if end == first:
        return memory.set(block, token(config, request, last))
    return memory.set(block, token(config, request, end - 1)) if end % config.block_size > 0 else memory.remove(block)


def kept_before(config: Config, before: Token, request: Request, first: int) -> int:
    """Up to which token, this one at most, the request's block has KV without a gap. `before`: what it has."""
    end = first - first % config.block_size
    while end < first and holds(config, before, token(config, request, end)):
        end = end + 1
    return end


def read(config: Config, worker: Worker, chunk: Chunk) -> Worker:
    """KV-7/read: the slots of all tokens up to the chunk's end have the KV of these tokens.

    The chunk's own tokens are among them: another request of the same step may have written to the same slots.
    """
    for position in range(chunk.end):
        if not is_written(config, worker, chunk, position):
            return worker._replace(missing_slots=(*worker.missing_slots, (chunk.request, position)))
    return worker


def is_written(config: Config, worker: Worker, chunk: Chunk, position: int) -> bool:
    """The slot of the request's token at this position has the token's KV."""
    index = position // config.block_size
    block = chunk.blocks[index] if index < len(chunk.blocks) else NO_BLOCK
    return holds(config, worker.memory.get(block, UNWRITTEN), token(config, chunk.request, position))


def truncated(config: Config, worker: Worker, kv: Pool, request: Request, tokens: int) -> Worker:
    """The last `tokens` tokens with KV were rejected drafts: their slots have no KV that anything may read."""
    chunk = Chunk(request, 0, 0, blocks_of(kv, request))
    end = len(chunk.blocks) * config.block_size
    while end > 0 and not is_written(config, worker, chunk, end - 1):
        end = end - 1
    kept = max(end - tokens, 0)
    memory = worker.memory
    for position in range(kept, end):
        if is_written(config, worker, chunk, position):
            memory = memory.remove(chunk.blocks[position // config.block_size])
    if 0 < kept < end and is_written(config, worker, chunk, kept - 1):
        memory = memory.set(chunk.blocks[(kept - 1) // config.block_size], token(config, request, kept - 1))
    return worker._replace(memory=memory)


def blocks_of(kv: Pool, request: Request) -> tuple[int, ...]:
    """The request's blocks, from position 0 on."""
    blocks: tuple[int, ...] = ()
    for position in range(table_length(kv, request)):
        blocks = (*blocks, kv.tables.get((request, position), NO_BLOCK))
    return blocks


def table_length(kv: Pool, request: Request) -> int:
    """How many blocks the request has."""
    return kv.holdings.get(request, NO_TABLE).blocks


def kept_blocks(config: Config, worker: Worker, kv: Pool) -> Worker:
    """Canonical form: without blocks that are in no table and cannot be found: they are written before any read."""
    memory = worker.memory
    for block in range(config.kv_blocks):
        if not (kv.registered.has(block) or kv.references.has(block)):
            memory = memory.remove(block)
    return worker._replace(memory=memory)


def kept_cross_attention(config: Config, worker: Worker, computed: Map[Request, int]) -> Worker:
    """Canonical form: without the cross-attention KV of requests that do not run: it is written again."""
    for request in range(len(config.prompts)) if config.encoder_decoder == 1 else ():
        worker = worker if computed.has(request) else uncrossed(config, worker, request)
    return worker


def cleared(config: Config, worker: Worker) -> Worker:
    """After a reset of the encoder cache no encoder output is in memory."""
    for request in range(len(config.prompts)):
        for index, (content, _, _) in enumerate(items_of(config, request)):
            worker = dropped(worker, ((content,), (request, index)))
    return worker
