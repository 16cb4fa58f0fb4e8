"""`mirror`: any capacity, sizes and numbers; orders, logs and messages of any form that the invariant allows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import torch

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number, scalar
from cacheproof.prove.implementation.encodings import dense_ranks, within
from cacheproof.prove.implementation.finite import FiniteQueue, FiniteSequence, cell_of, value_of
from cacheproof.prove.implementation.finite_lists import FiniteList
from cacheproof.prove.implementation.tensors import CellTensor
from cachespec.kernel import Operation
from cachespec.mirror import channel, drafts, faults, normative, normative_faults, protocol, recency
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import PARTLY_SENT, Draft
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.protocol import NONE, Answer, Message, Partition, Sender

BLANK = -1


def parameters(config: Any) -> Iterator[CellTensor]:
    """Capacity, and the size of each content."""
    yield scalar(config.capacity)
    yield CellTensor((len(config.sizes),), torch.int64, tuple(map(cell_of, config.sizes)))


class Read:
    """The cells of one sender's row, by field."""

    def __init__(self, config: Any, state: Any, sender: int) -> None:
        self.state, self.sender = state, sender
        self.sizes = list(map(cell_of, config.sizes))

    def column(self, field: str) -> list[Cell]:
        """The values of a field for the sender, as one list."""
        tensor = getattr(self.state, field)
        size = len(tensor.cells) // tensor.shape[0]
        return list(tensor.cells[self.sender * size : (self.sender + 1) * size])

    def cell(self, field: str) -> Cell:
        """The only element of a field; a truth value as 0 or 1."""
        (only,) = self.column(field)
        return cells.number(only)

    def table(self, field: str) -> list[list[Cell]]:
        """A field of two axes, row by row."""
        tensor, column = getattr(self.state, field), self.column(field)
        width = tensor.shape[-1]
        return [column[begin : begin + width] for begin in range(0, len(column), width)]

    def value(self, field: str) -> Any:
        """The only element, as the specification sees it."""
        return value_of(self.cell(field))

    def order(self, field: str) -> Any:
        """Ranks as a queue of contents with their sizes."""
        return FiniteQueue(dict(enumerate(self.column(field))), dict(enumerate(self.sizes)))

    def contents(self, kind: str, field: str) -> list[Any]:
        """For each row of messages, of the log or of drafts: as many cells as the request has items."""
        return [
            FiniteList(map(value_of, row), length)
            for row, length in zip(self.table(f"{kind}_{field}"), self.column(f"{kind}_lengths"), strict=True)
        ]

    def log(self) -> Any:
        """Numbers are consecutive and end before the next one."""
        begin = cells.subtract(self.cell("next"), self.cell("logged"))
        rows = zip(self.contents("log", "items"), self.contents("log", "payloads"), strict=True)
        return FiniteList(
            (Message(NONE, value_of(cells.add(begin, place)), *row) for place, row in enumerate(rows)),
            self.cell("logged"),
        )

    def messages(self) -> Any:
        """The messages in the channel to P1."""
        numbers = (map(value_of, self.column(f"message_{name}")) for name in ("generations", "sequences"))
        rows = zip(*numbers, self.contents("message", "items"), self.contents("message", "payloads"), strict=True)
        return FiniteList((Message(*row) for row in rows), self.cell("messages"))

    def answers(self) -> Any:
        """The answers in the channel to P0."""
        names = ("generations", "expected", "verdicts")
        rows = zip(*(map(value_of, self.column(f"answer_{name}")) for name in names), strict=True)
        return FiniteList((Answer(*row) for row in rows), self.cell("answers"))

    def drafts(self) -> Any:
        """Requests that have still to be sent."""
        columns = (map(value_of, self.column(f"draft_{name}")) for name in ("stages", "left"))
        rows = zip(self.contents("draft", "items"), *columns, strict=True)
        return FiniteList((Draft(*row) for row in rows), self.cell("drafts"))

    def link(self) -> Link:
        """One sender, its partition, and the channel between them."""
        joined, generation, following = (self.value(name) for name in ("joined", "p0_generation", "next"))
        sender = Sender(self.order("p0_ranks"), joined, generation, following, self.log(), self.value("sent"))
        partition = (self.value(name) for name in ("granted", "p1_generation", "expected"))
        return Link(
            sender,
            Partition(self.order("p1_ranks"), *partition),
            self.messages(),
            self.answers(),
            self.drafts(),
            self.value("allowance"),
            self.value("marked"),
        )


def decode(config: Any, state: Any) -> State:
    """Each row of senders is a link; the first rows of a line are its entries."""
    links = tuple(Read(config, state, sender).link() for sender in range(config.senders))
    keys = range(len(config.sizes))
    empty: Any = FiniteQueue(dict.fromkeys(keys, -1), dict(enumerate(map(cell_of, config.sizes))))
    (left,), (overspent,) = state.faults_left.cells, state.overspent.cells
    return State(links, empty, value_of(left), value_of(cells.number(overspent)))


def invariant(config: Any, state: Any) -> Iterator[Cell]:
    """Resident items fit the capacity; a line has at most its number of rows, and -1 in the rows after its end."""
    yield cells.at_most(-1, state.faults_left.cells[0])
    for sender in range(config.senders):
        read = Read(config, state, sender)
        for name in ("p0_ranks", "p1_ranks"):
            yield from dense_ranks(read.column(name))
            held = (
                cells.choose(cells.at_most(0, rank), size, 0)
                for rank, size in zip(read.column(name), read.sizes, strict=True)
            )
            yield cells.at_most(cells.total(held), cell_of(config.capacity))
        yield from within([read.cell("sent")], 0, read.cell("logged"))
        yield from of_a_line(read, "log", "logged", ("items", "payloads"), least=1)
        yield from of_a_line(read, "message", "messages", ("items", "payloads"), least=0)
        yield from of_a_line(read, "draft", "drafts", ("items",), least=1)
        yield from of_columns(read, "log", "logged", ("lengths",))
        yield from of_columns(read, "message", "messages", ("generations", "sequences"))
        yield from of_columns(read, "answer", "answers", ("generations", "expected", "verdicts"))
        yield from of_columns(read, "draft", "drafts", ("stages", "left"))
        yield cells.at_most(cells.add(read.cell("messages"), read.cell("answers")), config.channel)


def of_a_line(read: Read, kind: str, count: str, tables: tuple[str, ...], *, least: int) -> Iterator[Cell]:
    """Requests: contents, and flags as payloads, up to the length of each."""
    lengths = read.column(f"{kind}_lengths")
    keys, rows = len(read.sizes), read.cell(count)
    for place, length in enumerate(lengths):
        there = cells.less(place, rows)
        for name in tables:
            row = read.table(f"{kind}_{name}")[place]
            high = keys - 1 if name == "items" else 1
            yield cells.choose(there, cells.every(within([length], least, len(row))), cells.equal(length, BLANK))
            for turn, cell in enumerate(row):
                its = cells.every((there, cells.less(turn, length)))
                yield cells.choose(its, cells.every(within([cell], 0, high)), cells.equal(cell, BLANK))


def of_columns(read: Read, kind: str, count: str, columns: tuple[str, ...]) -> Iterator[Cell]:
    """Numbers of any size, and -1 behind them; a draft has a message to send."""
    rows = read.cell(count)
    yield from within([rows], 0, len(read.column(f"{kind}_{columns[0]}")))
    for name in columns:
        for place, cell in enumerate(read.column(f"{kind}_{name}")):
            there = cells.less(place, rows)
            yield cells.some((there, cells.equal(cell, BLANK)))
            if name == "stages":
                yield cells.some((cells.inverse(there), cells.every(within([cell], 0, PARTLY_SENT))))
            if name == "left":
                partly = cells.equal(read.column("draft_stages")[place], PARTLY_SENT)
                left = cells.choose(partly, cells.at_most(1, cell), cells.equal(cell, 1))
                yield cells.some((cells.inverse(there), left))


SENDING = (calls.Submit, calls.SubmitEmbeddings, calls.FanOut, calls.Send, calls.Process)
IN_FLIGHT = (*SENDING, calls.Transmit, calls.Expire, faults.Duplicate, faults.DuplicateAnswer)
DRAFTED = (calls.Render, calls.LookUp, calls.FanOut)


def valid(config: Any, state: Any, operation: Any) -> Iterator[Cell]:
    """The capacity is positive, the contents exist, and there is room for the addition of the call."""
    yield cells.less(0, cell_of(config.capacity))
    yield from (cells.at_most(0, cell_of(size)) for size in config.sizes)
    if operation is None or type(operation) in (faults.ResetReceiver, faults.RestartReceiver):
        return
    link = state.links[operation.sender]
    yield from within(map(cell_of, getattr(operation, "items", ())), 0, len(config.sizes) - 1)
    if type(operation) in SENDING:
        yield cells.less(link.sender.log.count, len(link.sender.log.rows))
    if type(operation) in IN_FLIGHT:
        yield cells.less(cells.add(link.messages.count, link.answers.count), config.channel)
    if type(operation) in DRAFTED:
        yield cells.less(link.drafts.count, len(link.drafts.rows))


def operations(config: Config) -> Iterator[Operation]:
    """Each with every sender, position and number of items; contents are any."""
    rows = max(config.outstanding, config.channel)
    for kind in normative.NORMATIVE_MIRROR.transitions:
        names = [field.name for field in fields(kind)]
        if "sender" not in names:
            yield kind()
            continue
        for sender in range(config.senders):
            if "items" in names:
                for length in range(1, config.items + 1):
                    yield kind(sender, tuple(number(f"item[{turn}]") for turn in range(length)))  # type: ignore[call-arg]
            elif "which" in names:
                yield from (kind(sender, which) for which in range(rows))  # type: ignore[call-arg]
            else:
                yield kind(sender)  # type: ignore[call-arg]


def operands(config: Config, operation: Any) -> list[Any]:
    """As `tensor_models` has them, with items that may be any number."""
    given = [getattr(operation, field.name) for field in fields(operation)]
    if not hasattr(operation, "items"):
        return given
    items = operation.items
    return [operation.sender, len(items), *items, *[BLANK] * (config.items - len(items))]


def of(config: Config, kinds: Collection[type[Operation]], *, nightly: bool = False) -> Correspondence:
    """The correspondence at the shape of a configuration, for these operations."""
    keys = len(config.sizes)
    sizes: Any = FiniteSequence(number(f"size[{key}]") for key in range(keys))
    capacity: Any = number("capacity")
    return Correspondence(
        component="mirror",
        shape=(
            f"{config.senders} senders, {keys} contents, requests of {config.items} items, "
            f"{config.outstanding} outstanding, {config.channel} in flight"
        ),
        config=config,
        unknown=lambda: config._replace(capacity=capacity, sizes=sizes),
        parameters=parameters,
        decode=decode,
        invariant=invariant,
        operations=lambda: (one for one in operations(config) if type(one) in kinds),
        valid=valid,
        operands=partial(operands, config),
        modules=(protocol, normative, normative_faults, drafts, channel, recency),
        nightly=nightly,
    )


ALL = tuple(normative.NORMATIVE_MIRROR.transitions)
SINGLE = tuple(kind for kind in ALL if kind is not calls.FanOut)
SMALL = Config(capacity=1, sizes=(1, 1), items=1, outstanding=2, channel=2, rendered=1)
AT_ONCE = SMALL._replace(fan_out=2, rendered=0)
"""Rendering and sending are one step."""

CORRESPONDENCES = (
    of(SMALL._replace(outstanding=1), SINGLE),
    of(AT_ONCE, (calls.FanOut,)),
    of(SMALL._replace(items=2, outstanding=1), (calls.Submit,)),
    of(SMALL._replace(sizes=(1, 1, 1), items=2, outstanding=1), (calls.Submit,), nightly=True),
    of(AT_ONCE._replace(processing=1), ALL, nightly=True),
    of(SMALL._replace(items=2), SINGLE, nightly=True),
    of(SMALL._replace(senders=2, outstanding=1), SINGLE, nightly=True),
)
