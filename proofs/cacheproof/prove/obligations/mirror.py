"""The core of the normative mirror, for any eviction rule, any channel, and any number of senders and messages.

The walk of both sides is uninterpreted: any function of (order, items) that returns an order and the needed items. The
channel may hold any messages and answers that satisfy the invariants below, in any order and number, so the proof
covers reorder, loss, duplication and delay without modelling them.

The proof looks at two links: that of the sender that a call names, and any other. `TwoOfMany` refuses code that looks
at a third one, so what holds of the two holds of every link. How many partitions are granted in all is any number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, both, implies, integer_term
from cacheproof.prove.histories import Opaque, Pool
from cacheproof.prove.loops import modules_of
from cacheproof.prove.mirror.invariants import (
    flags_are_flags,
    log_is_a_history,
    of_every_link,
    out,
    own,
    pending_messages_lead_on,
    sender_is_after_its_log,
)
from cacheproof.prove.mirror.links import (
    either,
    fresh,
    is_genuine,
    is_justified,
    lift,
    links_of,
    log_of,
    members,
    number,
    order_before,
)
from cacheproof.prove.mirror.loops import LOOPS, REPLACED
from cacheproof.prove.mirror.progress import PROGRESS, formula
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.sequences import length
from cachespec import mirror
from cachespec.kernel import Code, Operation
from cachespec.mirror import faults
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative_view import is_forgotten

NORMATIVE = mirror.COMPONENT.normative
EVERY_CALL: tuple[type[Operation], ...] = tuple(NORMATIVE.transitions)

# Invariants ---------------------------------------------------------------------------------------------------------


def settled_means_equal(link: Any) -> SymbolicBoolean:
    """MIR-1."""
    settled = both(link.sender.joined == 1, link.partition.granted != 0, link.partition.expected == link.sender.next)
    return implies(settled, link.partition.order == link.sender.order)


def messages_are_genuine(link: Any) -> SymbolicBoolean:
    """Of every message in flight."""
    return both(True, *(is_genuine(link, message) for message in members(link.messages)))


def answers_are_justified(link: Any) -> SymbolicBoolean:
    """Of every answer in flight."""
    return both(True, *(is_justified(link, answer) for answer in members(link.answers)))


def requests_have_items(link: Any) -> SymbolicBoolean:
    """Of every request that the frontend is at work on."""
    return both(True, *(draft.items != () for draft in members(link.drafts)))


INVARIANTS = (
    Invariant(
        "MIR-1/pending",
        "P0 = P1 after the pending messages of this epoch",
        of_every_link(lambda link: pending_messages_lead_on(link) & sender_is_after_its_log(link)),
    ),
    Invariant(
        "MIR-1",
        "once P1 has applied every message of the epoch, P0 and P1 have equal orders, sizes included",
        of_every_link(settled_means_equal),
    ),
    Invariant("log", "unconfirmed messages are numbered one after the other", of_every_link(log_is_a_history)),
    Invariant(
        "MIR-8",
        "a message that P1 could still accept is the log's own of that number; older generations are void",
        of_every_link(messages_are_genuine),
    ),
    Invariant("flags", "a sender has joined or not, a partition is granted or not", of_every_link(flags_are_flags)),
    Invariant("answers", "no answer confirms more than was applied", of_every_link(answers_are_justified)),
    Invariant("requests", "a request that has still to be sent has items", of_every_link(requests_have_items)),
)


# Steps --------------------------------------------------------------------------------------------------------------


def each(move: Move) -> Iterable[tuple[Any, Any]]:
    """Each link that is looked at, before and after the call."""
    return zip(links_of(move.before), links_of(move.after), strict=True)


def others_are_untouched(move: Move) -> bool:
    """The links of all other senders are the same objects as before."""
    mine, _ = own(move)
    return all(before is after for before, after in each(move) if before is not mine)


def held_is_untouched(move: Move) -> SymbolicBoolean:
    """P1's caches stay as they are."""
    return both(True, *(after.partition.order == before.partition.order for before, after in each(move)))


def sent_is_untouched(move: Move) -> SymbolicBoolean:
    """P0's caches stay as they are."""
    return both(True, *(after.sender.order == before.sender.order for before, after in each(move)))


def next_update_is_applied(move: Move) -> SymbolicBoolean:
    """P1 takes P0's next update of the epoch, and comes to where P0 came with it."""
    before, after = own(move)
    log, expected = log_of(before.sender), before.partition.expected
    used = Opaque(log.items[integer_term(expected)]) == move.outcome.values
    reached = order_before(log, expected + 1) == after.partition.order
    return both(used, reached, after.partition.expected == expected + 1)


def served(move: Move) -> bool:
    """P1 used a message for a request."""
    return move.outcome.code is Code.HIT


def goes_out_once(move: Move) -> SymbolicBoolean:
    """What is sent is the first message of the log that is not out, and it counts as out."""
    before, after = own(move)
    (message,) = after.messages.added if type(after.messages) is Pool else after.messages[-1:]
    fresh = both(message.generation == after.sender.generation, after.sender.sent == before.sender.sent + 1)
    log = log_of(after.sender)
    return both(fresh, message.sequence == number(log.base) + before.sender.sent)


def went_out(move: Move) -> SymbolicBoolean:
    """Something was transmitted."""
    before, after = own(move)
    return both(move.outcome.code is Code.DONE, after.sender.sent != before.sender.sent)


def none_is_out_again(move: Move) -> SymbolicBoolean:
    """If a message that was out is not out any more, its sender has begun a new generation."""
    return both(True, *(stays_out(before.sender, after.sender) for before, after in each(move)))


def stays_out(before: Any, after: Any) -> SymbolicBoolean:
    """Of one sender."""
    kept = both(after.generation == before.generation, SymbolicInteger(log_of(after).base) + after.sent >= out(before))
    return either(kept, after.generation > before.generation)


def requests_are_kept(move: Move) -> SymbolicBoolean:
    """None is lost or forgotten, what is sent is one more, and a join makes none."""
    before, after = (length(link.sender.log) for link in own(move))
    kept = both(True, *(length(then.sender.log) >= length(link.sender.log) for link, then in each(move)))
    known = both(True, *(~formula(partial(is_forgotten, then)) for _, then in each(move)))
    sent = both(is_sent(move), move.outcome.code is Code.DONE)
    joined = type(move.operation) is not calls.Join or after == before
    return both(kept, known, implies(sent, after > before), joined)


def is_sent(move: Move) -> Any:
    """Whether the operation sends a request, as it declares itself."""
    operation: Any = move.operation
    return operation.sends(move.config)


SENDS = (calls.Submit, calls.Send, calls.Process, calls.FanOut, calls.SubmitEmbeddings)
OF_EVERY_LINK = (faults.ResetReceiver, faults.RestartReceiver)
CHANGES_P0 = (*SENDS, calls.Join, faults.ResetSender)
CHANGES_P1 = (calls.Deliver, calls.Join, faults.ResetReceiver, faults.RestartReceiver)

LAWS = (
    Law(
        "MIR-2",
        "an item without payload is found at P1: no delivery ever fails",
        (calls.Deliver,),
        lambda move: move.outcome.code is not Code.FAILED,
    ),
    Law(
        "MIR-3",
        "a message that P1 accepts is P0's next update of the epoch",
        (calls.Deliver,),
        next_update_is_applied,
        served,
    ),
    Law(
        "MIR-4",
        "P0 changes only with a message, or when it joins or is reset",
        tuple(call for call in EVERY_CALL if call not in CHANGES_P0),
        sent_is_untouched,
    ),
    Law(
        "MIR-4/receiver",
        "P1 changes only when it takes a message, grants a partition or forgets",
        tuple(call for call in EVERY_CALL if call not in CHANGES_P1),
        held_is_untouched,
    ),
    Law(
        "MIR-7/kept",
        "a sent request stays unanswered until P0 receives an answer, across every reset and restart",
        tuple(call for call in EVERY_CALL if call is not calls.Receive),
        requests_are_kept,
    ),
    Law(
        "MIR-10/once",
        "in one generation each message goes out once: what goes out is the first that is not out",
        (*SENDS, calls.Transmit),
        goes_out_once,
        went_out,
    ),
    Law(
        "MIR-10/generation",
        "what is out stays out, unless a new generation begins",
        EVERY_CALL,
        none_is_out_again,
    ),
    Law(
        "MIR-12",
        "without a partition nothing is accepted, and P1 holds what it held",
        (calls.Deliver,),
        lambda move: both(not served(move)) & held_is_untouched(move),
        lambda move: own(move)[0].partition.granted == 0,
    ),
    Law(
        "MIR-11/apart",
        "a call changes the link of its own sender only",
        tuple(call for call in EVERY_CALL if call not in OF_EVERY_LINK),
        others_are_untouched,
        lambda move: len(links_of(move.before)) > 1,
    ),
)


PROOF = Proof(
    component="mirror",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        Config(2, (1,), senders=2, reorder=1, drop=1, reject=1, abort=1, duplicate=1, reset=1, restart=1, faults=1),
        Config(2, (1,), senders=2, rendered=1, reject=1, faults=1),
        Config(2, (1,), senders=2, processing=1, fan_out=2, embeddings=1, cancel=1, reject=1, faults=1),
        Config(2, (1, 1), rendered=1, reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1, faults=1),
        Config(2, (1, 1), reorder=1, drop=1, reject=1, abort=1, reset=1, restart=1, faults=2),
        Config(2, (1, 1), processing=1, fan_out=2, embeddings=1, cancel=1, duplicate=1, faults=1),
    ),
    bound="any eviction rule, any number of messages and senders",
    loops=LOOPS,
    modules=modules_of(mirror),
    replaced=REPLACED,
    fresh=fresh,
    lift=lift,
)

PROOFS = (PROOF, PROGRESS)
