"""Which operations a scope of the mirror offers: the guards of the specification's environment, on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from cacheproof.tensor_models.mirror_links import Link, State, link_of
from cachespec.kernel import Operation
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config, requests

Guard = Callable[..., Tensor]


def every_operation(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have."""
    for sender in range(config.senders):
        yield from _of_frontend(config, sender)
        yield calls.Deliver(sender)
        yield calls.Receive(sender)
        yield from _of_fate(config, sender)
    yield from [calls.ResetReceiver()] if config.reset else []
    yield from [calls.RestartReceiver()] if config.restart else []


def _of_frontend(config: Config, sender: int) -> Iterator[Operation]:
    yield calls.Join(sender)
    yield calls.Transmit(sender)
    yield calls.Expire(sender)
    yield from (calls.Send(sender, which) for which in range(config.rendered))
    yield from (calls.Render(sender, items) for items in requests(config) if config.rendered)
    yield from (calls.Submit(sender, items) for items in requests(config) if not config.rendered)


def _of_fate(config: Config, sender: int) -> Iterator[Operation]:
    channel = range(config.channel)
    if config.reject:
        yield from (calls.Reject(sender, which) for which in range(config.rendered))
        yield from (calls.SubmitRejected(sender, items) for items in requests(config) if not config.rendered)
    if config.abort:
        yield from (calls.Abort(sender, which) for which in range(config.outstanding))
    if config.reorder:
        yield from (calls.Reorder(sender, which) for which in channel[:-1])
        yield from (calls.ReorderAnswers(sender, which) for which in channel[:-1])
    if config.drop:
        yield from (calls.Drop(sender, which) for which in channel)
        yield from (calls.DropAnswer(sender, which) for which in channel)
    if config.reset:
        yield calls.ResetSender(sender)


def guards(config: Config) -> Mapping[type[Operation], Guard]:
    """The guard of each operation; all take (tables, state, *operands) of one engine and give [] bool."""

    def room(state: State) -> Tensor:
        return state.messages.sum() + state.answers.sum() < config.channel

    def may_send(state: State, link: Link) -> Tensor:
        return link.sender.joined & room(state) & (state.logged.sum() < config.outstanding)

    def backlog(link: Link) -> Tensor:
        return link.sender.sent < link.sender.log.rows

    def submit(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return may_send(state, link_of(state, sender))

    def send(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
        link = link_of(state, sender)
        return may_send(state, link) & (which < link.rendered.rows)

    def render(tables: object, state: State, sender: Tensor, *operands: Tensor) -> Tensor:
        return link_of(state, sender).rendered.rows < config.rendered

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

    def fate(count: Callable[[Link], Tensor], least: int = 0) -> Guard:
        """A fault that befalls one of several things, behind which there are at least so many more."""

        def guard(tables: object, state: State, sender: Tensor, which: Tensor) -> Tensor:
            return (state.faults_left != 0) & (which + least < count(link_of(state, sender)))

        return guard

    def fault(tables: object, state: State, *operands: Tensor) -> Tensor:
        return torch.as_tensor(state.faults_left != 0)

    return {
        calls.Submit: submit,
        calls.Send: send,
        calls.Render: render,
        calls.Join: join,
        calls.Transmit: transmit,
        calls.Expire: expire,
        calls.Deliver: deliver,
        calls.Receive: receive,
        calls.Reject: fate(lambda link: link.rendered.rows),
        calls.SubmitRejected: fault,
        calls.Abort: fate(lambda link: link.sender.log.rows),
        calls.Reorder: fate(lambda link: link.messages.rows, 1),
        calls.ReorderAnswers: fate(lambda link: link.answers.rows, 1),
        calls.Drop: fate(lambda link: link.messages.rows),
        calls.DropAnswer: fate(lambda link: link.answers.rows),
        calls.ResetSender: fault,
        calls.ResetReceiver: fault,
        calls.RestartReceiver: fault,
    }
