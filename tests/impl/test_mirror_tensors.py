"""The mirror's protocol on tensors: the walk in closed form, triples of small scopes, planted bugs, large sizes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheimpl.mirror import Item, MirrorReceiver, MirrorSender, Refusal
from cacheimpl.mirror.order import RecencyOrder
from cacheimpl.mirror.tensors import line, protocol
from cacheimpl.mirror.tensors import walk as walking
from cacheimpl.mirror.tensors.walk import Config as Tables
from cacheimpl.mirror.tensors.walk import walk
from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.pair import Pair
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import TargetError
from cacheproof.search import tensor
from cacheproof.search.tensor import compare
from cacheproof.targets.tensor import TensorTarget
from cacheproof.tensor_models import TensorRun, mirror_environment, mirror_settled, model_of
from cacheproof.tensor_models.mirror_links import link_of
from cachespec.kernel import FrozenQueue, Queue
from cachespec.mirror import faults, recency
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config

torch.set_num_threads(1)

MIRROR = component_named("mirror")
EVERY_FAULT = Config(capacity=1, sizes=(1, 1), reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1)
REQUESTS = Config(capacity=2, sizes=(1, 2, 3), items=2, outstanding=1, channel=1)
TOUCHES = Config(capacity=3, sizes=(1, 1, 1, 1), items=3, outstanding=1, channel=1)
HUGE = Config(capacity=200, sizes=(150, 120))
RENDERING = Config(capacity=1, sizes=(1, 1), rendered=2, reject=1)
TWO_SENDERS = Config(capacity=1, sizes=(1,), senders=2, partitions=1, reset=1, drop=1, reorder=1, impatient=1, faults=2)
ONE_FAULT = Config(capacity=1, sizes=(1,), channel=3, outstanding=3, drop=1, reorder=1, faults=1)
ONE_LOSS = ONE_FAULT._replace(reorder=0)
DRAFTS = Config(
    capacity=1,
    sizes=(1, 1),
    rendered=1,
    processing=1,
    fan_out=2,
    embeddings=1,
    outstanding=3,
    channel=3,
    cancel=1,
    reject=1,
    duplicate=1,
    faults=2,
)
IN_PARTS = Config(capacity=1, sizes=(1, 1), fan_out=3, outstanding=4, channel=4, cancel=1)
LOOKS = Config(capacity=1, sizes=(1, 1), processing=2, cancel=1)
DOUBLED = Config(capacity=1, sizes=(1, 1), duplicate=1, drop=1, reorder=1, faults=2)
WIDE = Config(capacity=5, sizes=(1, 2, 3, 4, 6), items=3, channel=4, outstanding=3, reorder=1, drop=1, reset=1)

SCOPES = {
    "every fault": EVERY_FAULT,
    "requests": REQUESTS,
    "touches": TOUCHES,
    "huge": HUGE,
    "rendering": RENDERING,
    "two senders": TWO_SENDERS,
    "one fault": ONE_FAULT,
    "one loss": ONE_LOSS,
    "drafts": DRAFTS,
    "in parts": IN_PARTS,
    "look-ups": LOOKS,
    "doubled": DOUBLED,
}
TRIPLES = 1000
"""Of each scope, breadth first."""


# The walk -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [2, 3, 64, 4096])
def test_the_walk_is_that_of_the_specification_and_of_the_classes(keys: int) -> None:
    source = random.Random(keys)
    for most_items in (1, 2, 7):
        sizes = tuple(source.randint(0, 9) for _ in range(keys))
        capacity = max(1, source.randint(1, max(1, sum(sizes[:40]))))
        theirs: Queue[int] = FrozenQueue()
        classes, config = RecencyOrder(capacity), Config(capacity=capacity, sizes=sizes)
        tables = Tables(torch.tensor(capacity), torch.tensor(sizes))
        ranks = torch.full((keys,), -1, dtype=torch.int32)
        for _ in range(40 if keys < 1000 else 12):
            request = source.choices(range(keys), k=source.randint(1, most_items))
            padded = torch.tensor(request + [-1] * (most_items - len(request)))
            theirs, needed = recency.walk(config, theirs, tuple(request))
            ranks, ours = walk(tables, ranks, padded, torch.tensor(len(request)))
            plan = classes.plan(Item(str(key), sizes[key]) for key in request)
            classes.apply(plan)
            present = (ranks >= 0).nonzero().squeeze(1)
            order = present[ranks[present].argsort()].tolist()
            assert order == [key for key, _ in theirs.items()] == [int(key) for key, _ in classes]
            assert sorted(ranks[present].tolist()) == list(range(len(order)))
            assert tuple(ours.tolist()) == needed + (-1,) * (most_items - len(request))
            assert plan.needed == tuple(map(bool, needed))


def test_many_walks_at_once_are_the_same_function() -> None:
    tables = Tables(torch.tensor(3), torch.tensor([1, 2, 3, 4]))
    ranks = torch.tensor([[0, 1, -1, -1], [-1, -1, 0, -1]], dtype=torch.int32)
    items, lengths = torch.tensor([[2, 0], [3, 1]]), torch.tensor([2, 2])
    together = torch.func.vmap(walk, in_dims=(None, 0, 0, 0))(tables, ranks, items, lengths)
    for place in range(2):
        alone = walk(tables, ranks[place], items[place], lengths[place])
        assert all(torch.equal(one[place], other) for one, other in zip(together, alone, strict=True))


# Triples, counts, lockstep ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCOPES)
def test_every_triple_is_that_of_the_specification(name: str) -> None:
    found = compare(model_of(MIRROR, SCOPES[name]), limit_triples=TRIPLES)
    assert found.difference is None, found.difference
    assert found.triples > 50


@pytest.mark.parametrize("name", ["calm", "rendering", "fan-out", "look-ups", "cancelled"])
def test_counts_and_digests_are_those_of_the_reference(name: str) -> None:
    scope = next(scope for scope in scopes_of(MIRROR) if scope.name == name)
    wanted = scope.expectation("normative")
    found = tensor.explore(MIRROR, MIRROR.normative, scope.config)
    assert (found.states, found.transitions, found.depth) == (wanted.states, wanted.transitions, wanted.depth)
    assert found.digest == wanted.digest
    assert not found.violations


@pytest.mark.parametrize(
    "config", [WIDE, EVERY_FAULT, TWO_SENDERS, DRAFTS], ids=["wide", "every fault", "two senders", "drafts"]
)
def test_in_lockstep_with_the_specification(config: Config) -> None:
    steps = 250
    campaign = lockstep(MIRROR, MIRROR.normative, config, TensorTarget(MIRROR), steps=steps, seed=5)
    assert campaign.finding is None
    assert campaign.tally.steps == steps


def test_numbers_matter_by_order_and_adjacency_only() -> None:
    model = model_of(MIRROR, EVERY_FAULT)
    run = TensorRun(model)
    for operation in (calls.Join(0), calls.Submit(0, (0,)), calls.Submit(0, (1,)), faults.Drop(0, 0), calls.Deliver(0)):
        run.apply(operation)
    state: Any = run.state
    numbers = ("next", "expected", "message_sequences", "answer_expected", "marked")
    later = state._replace(
        **{
            name: torch.where(values >= 0, values + 40, values)
            for name, values in zip(numbers, (getattr(state, name) for name in numbers), strict=True)
        }
    )
    one, other = mirror_settled.settled(state), mirror_settled.settled(later)
    assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))
    assert not torch.equal(state.next, later.next)
    apart = mirror_settled.settled(state._replace(next=state.next + 1))
    assert any(not torch.equal(left, right) for left, right in zip(one, apart, strict=True))


# Large: the same function objects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [2, 3, 64, 4096])
def test_the_explored_functions_run_at_every_size(keys: int) -> None:
    """A conversation of both sides on tensors, beside the classes: sends, loses, goes back, joins anew."""
    source = random.Random(keys)
    sizes = tuple(source.randint(1, 9) for _ in range(keys))
    config = Config(capacity=max(sizes) * 3, sizes=sizes, items=4, outstanding=6, channel=6)
    model = model_of(MIRROR, config)
    assert model.operations[calls.Submit].function is mirror_environment.submit
    assert model.operations[calls.Deliver].function is mirror_environment.deliver
    sender, tables = link_of(model.initial, torch.tensor(0)).sender, model.parameters
    sender, partition = protocol.join(tables, sender)
    receiver, classes = MirrorReceiver(config.capacity), MirrorSender("front", config.capacity)
    while (request := classes.ask()) is not None and not classes.joined:
        reply = receiver.admit(request)
        assert classes.take_refusal(reply) if isinstance(reply, Refusal) else classes.take_grant(reply)
    for turn in range(12):
        chosen = source.choices(range(keys), k=source.randint(1, 4))
        padded = torch.tensor(chosen + [-1] * (4 - len(chosen)))
        sender = protocol.commit(tables, sender, padded, torch.tensor(len(chosen)))
        sender, message = protocol.transmit(sender)
        theirs = classes.submit([(str(key), sizes[key]) for key in chosen], str)
        assert theirs is not None
        flags = [int(payload is not None) for payload in theirs.payloads]
        assert message.payloads.tolist()[: len(chosen)] == flags
        if turn % 4 == 3:
            continue  # lost
        partition, receipt = protocol.receive(tables, partition, message)
        delivery = receiver.receive(theirs)
        assert bool(receipt.applied) == (delivery.payloads is not None)
        assert not bool(receipt.missing.any())
        sender = protocol.answered(sender, receipt.reply)
        classes.receive(delivery.answer)
        assert int(sender.generation) == classes.generation
        assert int(sender.log.rows - sender.sent) == classes.backlog
        while classes.backlog:
            sender, message = protocol.transmit(sender)
            again = classes.transmit()
            assert again is not None
            partition, receipt = protocol.receive(tables, partition, message)
            sender = protocol.answered(sender, receipt.reply)
            classes.receive(receiver.receive(again).answer)
        assert int(sender.log.rows) == len(classes.unconfirmed)
    for ranks, held in ((sender.ranks, classes.order), (partition.ranks, receiver.order("front"))):
        present = (ranks >= 0).nonzero().squeeze(1)
        assert present[ranks[present].argsort()].tolist() == [int(key) for key, _ in held]


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [calls.Submit(1, (0,)), calls.Submit(0, (7,)), calls.Submit(0, (0, 0)), calls.Deliver(-1), calls.Join(3)],
)
def test_what_has_no_row_is_refused_and_changes_nothing(operation: Any) -> None:
    target = TensorTarget(MIRROR)
    target.reset(EVERY_FAULT)
    target.apply(calls.Join(0))
    before = dict(target.observe())
    with pytest.raises(TargetError):
        target.apply(operation)
    assert target.observe() == before


@pytest.mark.parametrize(
    "operation",
    [
        *(
            faults.Drop(0, 5),
            faults.DropAnswer(0, 0),
            faults.Reorder(0, 1),
            faults.ReorderAnswers(0, 9),
            faults.Abort(0, 1),
        ),
        *(calls.Process(0, 0), faults.Cancel(0, 0), faults.Duplicate(0, 0), faults.DuplicateAnswer(0, 0)),
        *(
            calls.Transmit(0),
            calls.Receive(0),
            calls.Expire(0),
            calls.Deliver(0),
            faults.Reject(0, 0),
            calls.Send(0, 3),
        ),
    ],
    ids=lambda operation: operation.wire_name(),
)
def test_what_is_not_there_has_the_outcome_of_the_specification(operation: Any) -> None:
    target = TensorTarget(MIRROR)
    target.reset(EVERY_FAULT)
    state = MIRROR.normative.start(EVERY_FAULT)
    assert target.apply(operation) == MIRROR.normative.call(EVERY_FAULT, state, operation)[1]
    initial = TensorTarget(MIRROR)
    initial.reset(EVERY_FAULT)
    assert target.observe() == initial.observe()


# Planted bugs -------------------------------------------------------------------------------------------------------

BUGS: dict[str, tuple[Config, Change]] = {
    "one eviction too many": (
        REQUESTS,
        Change(walking._held_from, "$from_here_on > $config.capacity", "$from_here_on >= $config.capacity"),
    ),
    "bytes in eight bits": (
        HUGE,
        Change(walking._held_from, "$by_time.flip(1).cumsum(1)", "$by_time.flip(1).cumsum(1, dtype=torch.int8)"),
    ),
    "what is there is not touched first": (
        TOUCHES,
        Change(walk, "torch.maximum($ranks.long(), $touches)", "$ranks.long()"),
    ),
    "what is larger than the cache is kept": (
        REQUESTS,
        Change(walk, "$config.sizes <= $config.capacity", "$config.sizes >= 0"),
    ),
    "items are looked up after all of them": (
        REQUESTS,
        Change(walk, "torch.cat(($before[None], $used[:-1]))", "$used"),
    ),
    "the wrong end": (
        TOUCHES,
        Change(walking._ranked, "$taken.cumsum(0) - 1", "$taken.sum() - $taken.cumsum(0)"),
    ),
    "a message goes out a generation late": (
        EVERY_FAULT,
        Change(protocol.transmit, "$sender.generation", "$sender.generation - 1"),
    ),
    "numbers begin one too far": (
        ONE_LOSS,
        Change(protocol.first_of, "$sender.next - $sender.log.rows", "$sender.next - $sender.log.rows + 1"),
    ),
    "a gap is not repaired": (
        ONE_LOSS,
        Change(protocol.answered, "torch.where($going_back, 0, $after.sent)", "$after.sent"),
    ),
    "a refusal is not heard": (EVERY_FAULT, Change(protocol.answered, "$sender.joined & ~$refused", "$sender.joined")),
    "what is confirmed counts as sent": (
        ONE_LOSS,
        Change(protocol.answered, "($sender.sent - $leaving).clamp(min=0)", "$sender.sent"),
    ),
    "a join loses what is unanswered": (
        EVERY_FAULT,
        Change(protocol.join, "chosen($place < $unanswered.rows, $again, $fresh)", "$fresh"),
    ),
    "a join repeats what was never asked": (
        EVERY_FAULT,
        Change(protocol.join, "$place < $unanswered.rows", "$place <= $unanswered.rows"),
    ),
    "a message out of its turn is applied": (
        ONE_LOSS,
        Change(
            protocol.receive, "$message.sequence == $partition.expected", "$message.sequence >= $partition.expected"
        ),
    ),
    "a probe is applied": (ONE_LOSS, Change(protocol.receive, "$x & ($message.length > 0)", "$x")),
    "a newer generation is not adopted": (
        ONE_LOSS,
        Change(protocol.receive, "torch.where($stale, $x, $message.generation)", "$x"),
    ),
    "what P1 expects is not counted": (
        REQUESTS,
        Change(protocol.receive, "$partition.expected + $applied", "$partition.expected"),
    ),
    "a revoked partition is still granted": (
        EVERY_FAULT,
        Change(protocol.revoked, "torch.zeros_like($partition.granted)", "$partition.granted"),
    ),
    "the first of several is lost twice": (ONE_LOSS, Change(line.without, "$places >= $which", "$places > $which")),
    "an overtaken row is gone": (ONE_FAULT, Change(line.overtaken, "$places - 1", "$places")),
    "a copy takes the place of the next row": (
        DOUBLED,
        Change(line.doubled, "$places > $which", "$places > $which + 1"),
    ),
    "a look-up says the contrary": (LOOKS, Change(walking.absent, "(~$there).long()", "$there.long()")),
    "the rest of several messages is one too few": (
        IN_PARTS,
        Change(mirror_environment.send, "$left > 1", "$left > 2"),
    ),
    "what is looked up can be sent": (
        DRAFTS,
        Change(mirror_environment.send, "$stage != LOOKED_UP", "$stage != RENDERED"),
    ),
    "a row too few is appended": (REQUESTS, Change(line.appended, "$count + 1", "$count")),
}


def caught(config: Config) -> str:
    """How a comparison of the whole scope ends: nothing, a difference, or the error of the layout."""
    try:
        difference = compare(model_of(MIRROR, config), limit_triples=TRIPLES).difference
    except (OutOfBoundsError, RoundTripError) as error:
        return type(error).__name__
    return "nothing" if difference is None else difference.operation.wire_name()


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_caught(bug: str) -> None:
    config, change = BUGS[bug]
    with planted(change):
        assert caught(config) != "nothing"


LATE_COMPLAINT = (
    *(calls.Join(0), calls.Submit(0, (0,)), calls.Submit(0, (0,)), calls.Submit(0, (0,)), faults.Drop(0, 0)),
    *(calls.Deliver(0), calls.Deliver(0), calls.Receive(0), calls.Transmit(0), calls.Receive(0), calls.Transmit(0)),
    *(calls.Deliver(0), calls.Deliver(0)),
)


def test_a_bug_that_reads_what_is_settled_is_caught_in_lockstep() -> None:
    """A complaint about an older generation is settled away before each explored step; a whole run keeps it."""
    pair = Pair(Subject(MIRROR, MIRROR.normative, ONE_LOSS), TensorTarget(MIRROR), "torch")
    assert pair.replay(LATE_COMPLAINT, only_offered=True) is None
    assert len(pair.operations) == len(LATE_COMPLAINT)
    right = "$sender.joined & ($reply.generation == $sender.generation)"
    with planted(Change(protocol.answered, right, "$sender.joined")):
        assert caught(ONE_LOSS) == "nothing"
        assert isinstance(pair.replay(LATE_COMPLAINT, only_offered=True), Difference)
