"""The state of the mirror in its environment, on tensors: a row for each sender, read and written link by link.

The protocol is `cacheimpl.mirror.tensors`; its environment (the channel in both directions, rendered requests, the
history that the properties need) belongs to the checkers, as in the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout, as_it_is
from cacheimpl.mirror.tensors.line import BLANK, of_rows
from cacheimpl.mirror.tensors.protocol import Log, Partition, Sender
from cacheimpl.recency import OUTSIDE
from cacheimpl.table import is_row, row
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import PARTLY_SENT
from cachespec.mirror.normative_state import ALLOWANCE

Part = TypeVar("Part", bound=tuple[Any, ...])


class Messages(NamedTuple):
    """The messages in the channel to P1."""

    generations: Tensor
    """[channel] int64, as all of these"""
    sequences: Tensor
    lengths: Tensor
    items: Tensor
    """[channel, most items]"""
    payloads: Tensor
    """[channel, most items]"""
    rows: Tensor
    """[]"""


class Answers(NamedTuple):
    """The answers in the channel to P0."""

    generations: Tensor
    """[channel] int64, as all of these"""
    expected: Tensor
    verdicts: Tensor
    rows: Tensor
    """[]"""


class Drafts(NamedTuple):
    """Requests of which a part or the whole is unsent."""

    lengths: Tensor
    """[drafts] int64, as all of these"""
    stages: Tensor
    left: Tensor
    items: Tensor
    """[drafts, most items]"""
    rows: Tensor
    """[]"""


class Link(NamedTuple):
    """One sender, its partition, and the channel between them."""

    sender: Sender
    partition: Partition
    messages: Messages
    answers: Answers
    drafts: Drafts
    allowance: Tensor
    """[] int64: history, as is the next"""
    marked: Tensor
    """[] int64"""


class State(NamedTuple):
    """Every leaf of a link with a row for each sender, in the order of the link; then what is of no sender."""

    p0_ranks: Tensor
    joined: Tensor
    p0_generation: Tensor
    next: Tensor
    log_lengths: Tensor
    log_items: Tensor
    log_payloads: Tensor
    logged: Tensor
    sent: Tensor
    p1_ranks: Tensor
    granted: Tensor
    p1_generation: Tensor
    expected: Tensor
    message_generations: Tensor
    message_sequences: Tensor
    message_lengths: Tensor
    message_items: Tensor
    message_payloads: Tensor
    messages: Tensor
    answer_generations: Tensor
    answer_expected: Tensor
    answer_verdicts: Tensor
    answers: Tensor
    draft_lengths: Tensor
    draft_stages: Tensor
    draft_left: Tensor
    draft_items: Tensor
    drafts: Tensor
    allowance: Tensor
    marked: Tensor
    faults_left: Tensor
    """[] int64: -1 where any number may happen"""
    overspent: Tensor
    """[] bool"""


OF_NO_SENDER = 2
"""How many fields at the end of a state are of no sender."""


def leaves(part: tuple[Any, ...]) -> Iterator[Tensor]:
    """The tensors of a NamedTuple of NamedTuples, in order."""
    for value in part:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def link_from(tensors: Iterator[Tensor]) -> Link:
    """Back."""

    def made(kind: Any, count: int) -> Any:
        return kind(*(next(tensors) for _ in range(count)))

    def sender() -> Sender:
        ranks, joined, generation, following = (next(tensors) for _ in range(4))
        return Sender(ranks, joined, generation, following, made(Log, 4), next(tensors))

    return Link(
        sender(),
        made(Partition, 4),
        made(Messages, 6),
        made(Answers, 4),
        made(Drafts, 5),
        next(tensors),
        next(tensors),
    )


def all_links(state: State) -> Link:
    """Every link at once: each tensor with a row for each sender."""
    return link_from(iter(state[:-OF_NO_SENDER]))


def with_all_links(state: State, links: Link) -> State:
    """The state with all of them replaced."""
    return State(*leaves(links), *state[-OF_NO_SENDER:])


def link_of(state: State, sender: Tensor) -> Link:
    """One link."""
    return link_from(row(values, sender) for values in state[:-OF_NO_SENDER])


def with_link(state: State, sender: Tensor, link: Link) -> State:
    """One link replaced."""
    pairs = zip(state[:-OF_NO_SENDER], leaves(link), strict=True)
    here = is_row(state.joined, sender)
    return State(
        *(torch.where(of_rows(here, values), value, values) for values, value in pairs), *state[-OF_NO_SENDER:]
    )


def initial(config: Config, device: str) -> State:
    """Every sender still has to join."""
    tensors = []
    for field in fields_of(config):
        low = {"joined": 0, "granted": 0, "allowance": 1, "faults_left": config.faults, "overspent": 0}
        counts = ("p0_generation", "next", "logged", "sent", "messages", "answers", "drafts")
        value = low.get(field.name, 0 if field.name in counts else BLANK)
        tensors.append(torch.full(field.shape, value, dtype=field.dtype, device=device))
    return State(*tensors)


def most_drafts(config: Config) -> int:
    """How many drafts a sender has at most; each that is sent in part has a message that may still be outstanding."""
    return config.rendered + config.processing + (config.outstanding if config.fan_out > 1 else 0)


def fields_of(config: Config) -> tuple[Field, ...]:
    """The bounds after one step from a settled state.

    Settled numbers are dense but for gaps of two, so there is no more of them than of places; a step adds a generation
    and, where a sender joins, as many numbers as its log is long.
    """
    senders, keys, items = config.senders, len(config.sizes), config.items
    log, channel, drafts = config.outstanding, config.channel, max(1, most_drafts(config))
    last_generation = 2 * (1 + 2 * channel) + 1
    last_sequence = 2 * (2 + log + 2 * channel) + log

    def each(
        name: str, *shape: int, low: int = -1, high: int, holds: str = "", dtype: torch.dtype = torch.int64
    ) -> Field:
        return Field(name, (senders, *shape), dtype, low, high, axes=("sender",), holds=holds)

    def order(name: str) -> Field:
        return Field(name, (senders, keys), torch.int32, OUTSIDE, keys - 1, axes=("sender", "key"))

    def flag(name: str) -> Field:
        return each(name, low=0, high=1, dtype=torch.bool)

    def contents(name: str, rows: int, highest: int = keys - 1) -> Field:
        return each(name, rows, items, high=highest, holds="key")

    return (
        order("p0_ranks"),
        flag("joined"),
        each("p0_generation", low=0, high=last_generation),
        each("next", low=0, high=last_sequence),
        each("log_lengths", log, high=items),
        contents("log_items", log),
        each("log_payloads", log, items, high=1),
        each("logged", low=0, high=log),
        each("sent", low=0, high=log),
        order("p1_ranks"),
        flag("granted"),
        each("p1_generation", high=last_generation),
        each("expected", high=last_sequence),
        each("message_generations", channel, high=last_generation),
        each("message_sequences", channel, high=last_sequence),
        each("message_lengths", channel, high=items),
        contents("message_items", channel),
        each("message_payloads", channel, items, high=1),
        each("messages", low=0, high=channel),
        each("answer_generations", channel, high=last_generation),
        each("answer_expected", channel, high=last_sequence),
        each("answer_verdicts", channel, high=2),
        each("answers", low=0, high=channel),
        each("draft_lengths", drafts, high=items if most_drafts(config) else -1),
        each("draft_stages", drafts, high=PARTLY_SENT),
        each("draft_left", drafts, high=config.fan_out),
        contents("draft_items", drafts, keys - 1),
        each("drafts", low=0, high=most_drafts(config)),
        each("allowance", low=0, high=ALLOWANCE),
        each("marked", high=last_sequence),
        Field("faults_left", (), torch.int64, -1, max(config.faults, -1)),
        Field("overspent", (), torch.bool, 0, 1),
    )


def layout(config: Config, settled: Callable[[State], State]) -> Layout[State]:
    """Rows beyond a count are -1 in every state; what nobody will read, and numbers, are settled before each step."""
    return Layout(State, fields_of(config), as_it_is, settled=settled)
