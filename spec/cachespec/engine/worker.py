"""One worker process: its inbox, and the order in which a step touches its memory.

What a worker has in memory, and what is missing there, is the scheduler's `worker`. A process executes its steps one
after the other. A step loads KV from an external store, drops encoder outputs, encodes, gathers the outputs that its
chunks need, then writes the slots of the chunks and reads all slots up to their ends. The first missing data is
recorded as a finding: it would have ended the engine, or the step would have read another request's data. X-1, ENC-8,
KV-7/read and SHM-10/used say that this never happens.

Of an encoder-decoder model the step also writes or reads cross-attention KV, as the scheduler's own worker does.

A released worker takes a handle to another item for an error, and ends; then nothing more happens to its engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec import scheduler
from cachespec.kernel import Containers, Map
from cachespec.kv_blocks import Pool
from cachespec.scheduler.configuration import ItemIndex, Request
from cachespec.scheduler.work import by_content, with_cross_attention
from cachespec.scheduler.worker import (
    Chunk,
    Key,
    cleared,
    dropped,
    encoded,
    gathered,
    initial_worker,
    kept_cross_attention,
    read,
    uncrossed,
    written,
)
from cachespec.scheduler.worker import Worker as Memory

SOUND, NO_TENSOR, NO_BYTES, DROPPED_TWICE, NO_ITEM, DIED = 0, 1, 2, 3, 4, 5


class Gather(NamedTuple):
    """An item whose encoder output a chunk needs."""

    request: Request
    item: ItemIndex
    key: Key


class Step(NamedTuple):
    """One step, as the workers are told. With `clears` it is no plan, but a reset."""

    drops: tuple[Key, ...] = ()
    encodes: tuple[Key, ...] = ()
    gathers: tuple[Gather, ...] = ()
    loads: tuple[Chunk, ...] = ()
    """Slots whose KV comes from an external store."""
    chunks: tuple[Chunk, ...] = ()
    """The slots that the step computes."""
    clears: int = 0


class Worker(NamedTuple):
    """`inbox`: steps that were issued and not executed yet, oldest first. `finding`: the first thing missing."""

    memory: Memory
    inbox: tuple[Step, ...] = ()
    finding: int = SOUND


Phase = Callable[[scheduler.Config, Worker, Step], Worker]
"""One part of a step."""


def initial(containers: Containers) -> Worker:
    """Nothing is in memory, and nothing was issued."""
    return Worker(initial_worker(containers))


def with_finding(worker: Worker, finding: int) -> Worker:
    """The first finding stands."""
    return worker._replace(finding=finding) if worker.finding == SOUND else worker


Judge = Callable[[Worker, int, int], Worker]
"""What a worker makes of a handle: 1 if it is stale, and 1 if a running request lacks its item."""


def lacks_item(worker: Worker, stale: int, missing: int) -> Worker:
    """SHM-10: a stale handle of a request that is over does no harm."""
    return with_finding(worker, NO_ITEM) if missing == 1 else worker


def ends_at_stale(worker: Worker, stale: int, missing: int) -> Worker:
    """C-SHM-12: a stale handle is an error that no worker survives, whatever became of its request."""
    return worker._replace(finding=DIED) if stale == 1 else lacks_item(worker, stale, missing)


def drop(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """X-1: what is dropped is there; nothing is dropped twice. A reset drops everything that is there at its turn."""
    if step.clears == 1:
        return worker._replace(memory=cleared(config, worker.memory))
    for key in step.drops:
        checked = worker if worker.memory.outputs.has(key) else with_finding(worker, DROPPED_TWICE)
        worker = checked._replace(memory=dropped(checked.memory, (key,)))
    return worker


def encode(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """The encoder runs for the items of this step, and its outputs are kept."""
    return worker._replace(memory=encoded(worker.memory, step.encodes))


def gather(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """ENC-8: every encoder output that the chunks need is there now, and every cross-attention KV that they read."""
    memory = worker.memory
    for wanted in step.gathers:
        memory = gathered(memory, wanted.request, wanted.item, wanted.key)
    for chunk in step.chunks if config.encoder_decoder == 1 else ():
        memory = with_cross_attention(by_content, config, with_new_blocks(config, memory, chunk), chunk)
    checked = worker if memory.missing_outputs == () else with_finding(worker, NO_TENSOR)
    return checked._replace(memory=memory._replace(missing_outputs=()))


def with_new_blocks(config: scheduler.Config, memory: Memory, chunk: Chunk) -> Memory:
    """A chunk from position 0 on follows an admission, to new blocks: no prefix is found or loaded for such a model."""
    return uncrossed(config, memory, chunk.request) if chunk.start == 0 else memory


def attend(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """KV-7: writes the slots of the chunks; every slot that is read has what the scheduler says it has.

    Requests of one step write before others read, as layers do: a block that is shared within the step is there.
    """
    memory = worker.memory
    for chunk in (*step.loads, *step.chunks):
        memory = written(config, memory, chunk)
    looked = memory
    for chunk in step.chunks:
        looked = read(config, looked, chunk)
    worker = worker._replace(memory=memory)
    return worker if looked.missing_slots == () else with_finding(worker, NO_BYTES)


DROP_FIRST: tuple[Phase, ...] = (drop, encode, gather, attend)

Intake = Callable[[scheduler.Config, Worker, Step], Worker]
"""What a worker does when it is told a step."""


def queue(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """X-1, X-4: the step waits its turn, for any content."""
    return worker._replace(inbox=(*worker.inbox, step))


def drop_at_once(config: scheduler.Config, worker: Worker, step: Step) -> Worker:
    """C-ENC-9, C-X-1: what is to be dropped is dropped when it is told, before the steps that are still to be done."""
    told = queue(config, drop(config, worker, step), step._replace(drops=()))
    return told if step.clears == 0 else drop(config, worker, step)


def kept_blocks(config: scheduler.Config, worker: Worker, kv: Pool) -> Worker:
    """Without blocks that nothing can find and no table or issued step names: they are written before any read."""
    named = {block for step in worker.inbox for chunk in (*step.loads, *step.chunks) for block in chunk.blocks}
    memory = worker.memory.memory
    for block in range(config.kv_blocks):
        if not (kv.registered.has(block) or kv.references.has(block) or block in named):
            memory = memory.remove(block)
    return worker._replace(memory=worker.memory._replace(memory=memory))


def kept_crossed(config: scheduler.Config, worker: Worker, computed: Map[Request, int]) -> Worker:
    """Without cross-attention KV of requests that do not run and that no issued step names: it is written again."""
    needed = computed
    for step in worker.inbox if config.encoder_decoder == 1 else ():
        for chunk in step.chunks:
            needed = needed.set(chunk.request, 0)
    return worker._replace(memory=kept_cross_attention(config, worker.memory, needed))


DROP_LAST: tuple[Phase, ...] = (encode, gather, attend, drop)
"""C-ENC-8: as was proposed for runners whose steps overlap."""


def executed(config: scheduler.Config, worker: Worker, phases: tuple[Phase, ...] = DROP_FIRST) -> Worker:
    """The oldest step of the inbox, all phases in order."""
    step, *later = worker.inbox
    for phase in phases:
        worker = phase(config, worker, step)
    return worker._replace(inbox=tuple(later))
