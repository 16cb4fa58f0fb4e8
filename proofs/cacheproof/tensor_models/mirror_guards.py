"""Which operations a scope of the mirror offers: the guards of the specification's environment, on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

import torch
from torch import Tensor

from cacheimpl.mirror.tensors.walk import NOTHING
from cacheimpl.table import row
from cacheproof.tensor_models.mirror_links import Link, State, link_of, most_drafts
from cachespec.kernel import Kind, Operation
from cachespec.mirror import faults
from cachespec.mirror import operations as calls
from cachespec.mirror.channel import possible
from cachespec.mirror.configuration import Config, requests
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED

Guard = Callable[..., Tensor]


def every_operation(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have."""
    for sender in range(config.senders):
        yield from _of_frontend(config, sender)
        yield calls.Deliver(sender)
        yield calls.Receive(sender)
        yield from _of_fate(config, sender)
    yield from [faults.ResetReceiver()] if config.reset else []
    yield from [faults.RestartReceiver()] if config.restart else []


def _of_frontend(config: Config, sender: int) -> Iterator[Operation]:
    yield calls.Join(sender)
    yield calls.Transmit(sender)
    yield calls.Expire(sender)
    yield from _every(config, sender, Kind.CALL)


def _of_fate(config: Config, sender: int) -> Iterator[Operation]:
    yield from _every(config, sender, Kind.FAULT)


def _every(config: Config, sender: int, kind: Kind) -> Iterator[Operation]:
    """All forms of what the configuration has of this kind, with any position."""
    most = max(config.channel, config.outstanding, most_drafts(config))
    for operation in possible(config, kind):
        make: Callable[..., Operation] = operation
        names = {field.name for field in fields(operation)}
        if "which" in names:
            yield from (make(sender, which) for which in range(most))
        elif "items" in names:
            yield from (make(sender, items) for items in requests(config))
        elif "sender" in names:
            yield make(sender)


def guards(config: Config) -> Mapping[type[Operation], Guard]:
    """The guard of each operation; all take (tables, state, *operands) of one engine and give [] bool."""

    def room(state: State) -> Tensor:
        return state.messages.sum() + state.answers.sum() < config.channel

    def more(state: State) -> Tensor:
        """How many requests more may be unanswered."""
        owed = torch.where(state.draft_stages == PARTLY_SENT, state.draft_left, 0).sum()
        return config.outstanding - state.logged.sum() - owed

    def may_send(state: State, link: Link, least: int = 1) -> Tensor:
        return link.sender.joined & room(state) & (more(state) >= least)

    def backlog(link: Link) -> Tensor:
        return link.sender.sent < link.sender.log.rows

    def stage_of(link: Link, which: Tensor) -> Tensor:
        """Of a draft; -1 where there is none."""
        stage = row(link.drafts.stages, which.clamp(max=link.drafts.stages.shape[0] - 1))
        return torch.where(which < link.drafts.rows, stage, NOTHING)

    def submit(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return may_send(state, link_of(state, sender))

    def fan_out(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return may_send(state, link_of(state, sender), config.fan_out)

    def send(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
        link = link_of(state, sender)
        stage = stage_of(link, which)
        rest = (stage == PARTLY_SENT) & link.sender.joined & room(state)
        return rest | ((stage == RENDERED) & may_send(state, link))

    def render(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return (link_of(state, sender).drafts.stages == RENDERED).sum() < config.rendered

    def look_up(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return (link_of(state, sender).drafts.stages == LOOKED_UP).sum() < config.processing

    def process(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
        link = link_of(state, sender)
        fits = render(tables, state, sender) if config.rendered > 0 else may_send(state, link)
        return (stage_of(link, which) == LOOKED_UP) & fits

    def reject(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
        return (state.faults_left != 0) & (stage_of(link_of(state, sender), which) == RENDERED)

    def join(tables: object, state: State, sender: Tensor) -> Tensor:
        return ~link_of(state, sender).sender.joined

    def transmit(tables: object, state: State, sender: Tensor) -> Tensor:
        link = link_of(state, sender)
        return link.sender.joined & backlog(link) & room(state)

    def expire(tables: object, state: State, sender: Tensor) -> Tensor:
        link = link_of(state, sender)
        waits = link.sender.joined & ~backlog(link) & (link.sender.log.rows > 0) & room(state)
        if config.impatient:
            return waits & (link.messages.lengths != 0).all()  # what is not there has -1
        return waits & (link.messages.rows == 0) & (link.answers.rows == 0)

    def deliver(tables: object, state: State, sender: Tensor) -> Tensor:
        return link_of(state, sender).messages.rows > 0

    def receive(tables: object, state: State, sender: Tensor) -> Tensor:
        return link_of(state, sender).answers.rows > 0

    def fate(count: Callable[[Link], Tensor], least: int = 0, *, grows: bool = False) -> Guard:
        """A fault of one message or answer, with at least this number of others behind it."""

        def guard(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
            there = (state.faults_left != 0) & (which + least < count(link_of(state, sender)))
            return there & room(state) if grows else there

        return guard

    def fault(tables: object, state: State, *operands: Tensor) -> Tensor:
        return torch.as_tensor(state.faults_left != 0)

    return {
        calls.Submit: submit,
        calls.SubmitEmbeddings: submit,
        calls.FanOut: fan_out,
        calls.Send: send,
        calls.Render: render,
        calls.LookUp: look_up,
        calls.Process: process,
        calls.Join: join,
        calls.Transmit: transmit,
        calls.Expire: expire,
        calls.Deliver: deliver,
        calls.Receive: receive,
        faults.Reject: reject,
        faults.Cancel: fate(lambda link: link.drafts.rows),
        faults.SubmitRejected: fault,
        faults.Abort: fate(lambda link: link.sender.log.rows),
        faults.Reorder: fate(lambda link: link.messages.rows, 1),
        faults.ReorderAnswers: fate(lambda link: link.answers.rows, 1),
        faults.Drop: fate(lambda link: link.messages.rows),
        faults.DropAnswer: fate(lambda link: link.answers.rows),
        faults.Duplicate: fate(lambda link: link.messages.rows, grows=True),
        faults.DuplicateAnswer: fate(lambda link: link.answers.rows, grows=True),
        faults.ResetSender: fault,
        faults.ResetReceiver: fault,
        faults.RestartReceiver: fault,
    }
