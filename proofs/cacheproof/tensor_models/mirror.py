"""`mirror`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import torch

from cacheimpl.mirror.tensors.walk import NOTHING
from cacheimpl.mirror.tensors.walk import Config as Tables
from cacheproof.model.registry import component_named
from cacheproof.tensor_models import mirror_environment as environment
from cacheproof.tensor_models.mirror_guards import every_operation, guards
from cacheproof.tensor_models.mirror_links import initial, layout
from cacheproof.tensor_models.mirror_settled import settled
from cacheproof.tensor_models.model import Row, TensorModel, TensorOperation, named, no_operands, table
from cachespec.kernel import FrozenQueue, Operation
from cachespec.mirror import faults
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config, partitions
from cachespec.mirror.drafts import Draft
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.protocol import NONE, Answer, Message, Partition, Sender


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component, guarded = component_named("mirror"), guards(config)
    tables = Tables(torch.tensor(config.capacity, device=device), torch.tensor(config.sizes, device=device))
    functions = {
        **FUNCTIONS,
        calls.Process: environment.processing(sends=config.rendered == 0),
        calls.FanOut: environment.fanning_out(config.fan_out),
        calls.Join: environment.joining(partitions(config)),
    }

    def operands_of(kind: type[Operation]) -> Callable[[Any], tuple[int, ...]]:
        if kind in (faults.ResetReceiver, faults.RestartReceiver):
            return no_operands
        names = {field.name for field in fields(kind)}
        if "items" in names:
            return lambda operation: (sender_of(config, operation), *request_of(config, operation.items))
        if "which" in names:
            return lambda operation: (sender_of(config, operation), operation.which)
        return lambda operation: (sender_of(config, operation),)

    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=initial(config, device),
        layout=layout(config, settled),
        operations=table(
            *(TensorOperation(kind, function, operands_of(kind), guarded[kind]) for kind, function in functions.items())
        ),
        domain=lambda: every_operation(config),
        decode=lambda row: decoded(config, row),
    )


FUNCTIONS: Mapping[type[Operation], environment.Function] = {
    calls.Render: environment.render,
    calls.LookUp: environment.look_up,
    calls.Send: environment.send,
    calls.Submit: environment.submit,
    calls.SubmitEmbeddings: environment.submit,
    calls.Deliver: environment.deliver,
    calls.Receive: environment.receive_answer,
    calls.Transmit: environment.transmit,
    calls.Expire: environment.expire,
    faults.Reject: environment.reject,
    faults.SubmitRejected: environment.submit_rejected,
    faults.Abort: environment.abort,
    faults.Cancel: environment.cancel,
    faults.Reorder: environment.reorder,
    faults.ReorderAnswers: environment.reorder_answers,
    faults.Drop: environment.drop,
    faults.DropAnswer: environment.drop_answer,
    faults.Duplicate: environment.duplicate,
    faults.DuplicateAnswer: environment.duplicate_answer,
    faults.ResetSender: environment.reset_sender,
    faults.ResetReceiver: environment.reset_receiver,
    faults.RestartReceiver: environment.restart_receiver,
}


def sender_of(config: Config, operation: Any) -> int:
    """The sender is the row of the links."""
    return named("sender", operation.sender, config.senders)


def request_of(config: Config, items: tuple[int, ...]) -> tuple[int, ...]:
    """The number of items, and the items, filled up to the most that a request may have."""
    keys = tuple(named("key", key, len(config.sizes)) for key in items)
    named("item", len(keys) - 1, config.items)
    return len(keys), *keys, *(NOTHING for _ in range(config.items - len(keys)))


# Back ---------------------------------------------------------------------------------------------------------------


def decoded(config: Config, row: Row) -> State:
    """Each row of senders is a link."""
    links = tuple(
        link_of(config, {name: values[sender] for name, values in row.items() if isinstance(values, list)})
        for sender in range(config.senders)
    )
    return State(links, FrozenQueue(), row["faults_left"], row["overspent"])


def link_of(config: Config, row: Row) -> Link:
    """One sender, its partition, and the channel between them."""
    logged = row["next"] - row["logged"]
    log = tuple(
        Message(NONE, logged + place, *items)
        for place, items in enumerate(several(row, "log_items", "log_payloads", "log_lengths", row["logged"]))
    )
    contents = several(row, "message_items", "message_payloads", "message_lengths", row["messages"])
    numbers = zip(row["message_generations"], row["message_sequences"], contents, strict=False)
    answers = zip(row["answer_generations"], row["answer_expected"], row["answer_verdicts"], strict=True)
    return Link(
        sender=Sender(
            order_of(config, row["p0_ranks"]), row["joined"], row["p0_generation"], row["next"], log, row["sent"]
        ),
        partition=Partition(order_of(config, row["p1_ranks"]), row["granted"], row["p1_generation"], row["expected"]),
        messages=tuple(Message(generation, sequence, *items) for generation, sequence, items in numbers),
        answers=tuple(Answer(*answer) for answer in answers)[: row["answers"]],
        drafts=drafts_of(row),
        allowance=row["allowance"],
        marked=row["marked"],
    )


def drafts_of(row: Row) -> tuple[Draft, ...]:
    """The requests that have still to be sent."""
    contents = several(row, "draft_items", "draft_items", "draft_lengths", row["drafts"])
    columns = zip(contents, row["draft_stages"], row["draft_left"], strict=False)
    return tuple(Draft(items, stage, left) for (items, _), stage, left in columns)


def several(row: Row, items: str, payloads: str, lengths: str, count: int) -> list[tuple[tuple[int, ...], ...]]:
    """For each of the first rows its items and payloads, as long as they are."""
    columns = list(zip(row[items], row[payloads], row[lengths], strict=True))[:count]
    return [(tuple(ours[:length]), tuple(theirs[:length])) for ours, theirs, length in columns]


def order_of(config: Config, ranks: list[int]) -> FrozenQueue[int]:
    """Oldest first, with their bytes."""
    present = [key for key, rank in enumerate(ranks) if rank >= 0]
    return FrozenQueue((key, config.sizes[key]) for key in sorted(present, key=ranks.__getitem__))
