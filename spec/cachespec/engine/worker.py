"""A worker: the encoder outputs and the KV bytes that really exist, and the order in which one step touches them.

The scheduler keeps accounts; the worker keeps what the accounts are about. It takes its orders one after the other. In
one step it drops what it was told to drop, then encodes, then gathers the encoder outputs of the chunks, then writes
the blocks of the chunks and reads those before them. Whatever it finds missing then would have killed the engine, or
read another request's data: it is recorded, and X-1, ENC-8, KV-7/read and SHM-10/used say that it never happens.

A block that is filled in two steps is taken to have what was put there first: only whole blocks are told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from cachespec.kernel import Map, Name

Content = Annotated[int, Name("content")]
Prefix = Annotated[int, Name("prefix")]
"""What a full block holds: it names every token up to the block's end."""
Block = Annotated[int, Name("block")]

SOUND, NO_TENSOR, NO_BYTES, DROPPED_TWICE, NO_ITEM = 0, 1, 2, 3, 4
UNFILLED = -1


class Step(NamedTuple):
    """One step, as the workers are told. With `clears` it is no plan, but a reset."""

    drops: tuple[Content, ...] = ()
    encodes: tuple[Content, ...] = ()
    gathers: tuple[Content, ...] = ()
    reads: tuple[tuple[Block, Prefix], ...] = ()
    """Full blocks before the chunks, and what the scheduler says is in them."""
    writes: tuple[tuple[Block, Prefix], ...] = ()
    """Blocks that the chunks reach; -1 where the block is not full afterwards."""
    clears: int = 0


class Worker(NamedTuple):
    """`inbox`: steps that were issued and not executed yet, oldest first. `finding`: the first thing missing."""

    nothing: Map[Content, int]
    """No encoder output: what a reset leaves."""
    tensors: Map[Content, int]
    memory: Map[Block, Prefix]
    inbox: tuple[Step, ...] = ()
    finding: int = SOUND


Phase = Callable[[Worker, Step], Worker]
"""One part of a step."""


def with_finding(worker: Worker, finding: int) -> Worker:
    """The first finding stands."""
    return worker._replace(finding=finding) if worker.finding == SOUND else worker


def drop(worker: Worker, step: Step) -> Worker:
    """X-1: what is dropped is there; nothing is dropped twice. A reset drops everything that is there at its turn."""
    if step.clears == 1:
        return worker._replace(tensors=worker.nothing)
    for content in step.drops:
        checked = worker if worker.tensors.has(content) else with_finding(worker, DROPPED_TWICE)
        worker = checked._replace(tensors=checked.tensors.remove(content))
    return worker


def encode(worker: Worker, step: Step) -> Worker:
    """The encoder runs for the items of this step, and its outputs are kept."""
    for content in step.encodes:
        worker = worker._replace(tensors=worker.tensors.set(content, 1))
    return worker


def gather(worker: Worker, step: Step) -> Worker:
    """ENC-8: every encoder output that the chunks need is there now."""
    for content in step.gathers:
        worker = worker if worker.tensors.has(content) else with_finding(worker, NO_TENSOR)
    return worker


def attend(worker: Worker, step: Step) -> Worker:
    """KV-7: writes the blocks of the chunks; every block that is read holds what the scheduler says it holds.

    Requests of one step write before others read, as layers do: a block that is shared within the step is there.
    """
    for block, prefix in step.writes:
        kept = worker.memory.remove(block) if prefix == UNFILLED else worker.memory.set(block, prefix)
        worker = worker._replace(memory=kept)
    for block, prefix in step.reads:
        worker = worker if worker.memory.get(block, UNFILLED) == prefix else with_finding(worker, NO_BYTES)
    return worker


DROP_FIRST: tuple[Phase, ...] = (drop, encode, gather, attend)

Intake = Callable[[Worker, Step], Worker]
"""What a worker does when it is told a step."""


def queue(worker: Worker, step: Step) -> Worker:
    """X-1, X-4: the step waits its turn, for any content."""
    return worker._replace(inbox=(*worker.inbox, step))


def drop_at_once(worker: Worker, step: Step) -> Worker:
    """C-ENC-9, C-X-1: what is to be dropped is dropped when it is told, before the steps that are still to be done."""
    told = queue(drop(worker, step), step._replace(drops=()))
    return told if step.clears == 0 else drop(worker, step)


DROP_LAST: tuple[Phase, ...] = (encode, gather, attend, drop)
"""C-ENC-8: as was proposed for runners whose steps overlap."""


def executed(worker: Worker, phases: tuple[Phase, ...] = DROP_FIRST) -> Worker:
    """The oldest step of the inbox, all phases in order."""
    step, *later = worker.inbox
    for phase in phases:
        worker = phase(worker, step)
    return worker._replace(inbox=tuple(later))
