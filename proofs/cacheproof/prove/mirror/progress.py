"""MIR-7/served: every request that was sent is answered, because a rank falls (`ranks.py`).

Without faults the channel between P0 and P1 is a queue in each direction. `Receive` and `Join` make the rank of every
link smaller or leave it, that of their own link smaller. `Deliver`, `Transmit` and `Expire` make none larger, and they
make messages + 2 * answers larger, which the room of the channel limits. So once calls and faults have stopped, only
finitely many steps of the protocol follow, in whatever order. And while a request is unanswered, some step is owed.

Nothing is assumed of the faults before: each claim begins in any state that has the invariants of
`obligations/mirror.py`, which hold through all faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    boolean_term,
    both,
    explore,
    implies,
    integer,
    path,
)
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.loops import modules_of
from cacheproof.prove.mirror import links
from cacheproof.prove.mirror.invariants import (
    flags_are_flags,
    log_is_a_history,
    own,
    pending_messages_lead_on,
    sender_is_after_its_log,
)
from cacheproof.prove.mirror.links import REPLAY, SENDER, any_link, is_genuine, is_justified, lift, links_of
from cacheproof.prove.mirror.loops import LOOPS, REPLACED
from cacheproof.prove.mirror.ranks import compared, every, is_whole, phase
from cacheproof.prove.proof import Law, Move, Proof
from cacheproof.prove.two_of_many import TwoOfMany
from cachespec import mirror
from cachespec.kernel import Code, Operation
from cachespec.mirror import normative, protocol
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative import may_expire
from cachespec.mirror.normative_view import is_forgotten

NUMBER = z3.IntSort()
SENDS = (calls.Submit, calls.Send, calls.Process, calls.FanOut, calls.SubmitEmbeddings)
PREPARES = (calls.Render, calls.LookUp)
OWED = (calls.Deliver, calls.Receive, calls.Transmit, calls.Expire, calls.Join)


# Any state ----------------------------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any configuration, state or operation; the channel is two queues."""
    if kind is Config:
        return links.fresh(Config, name)._replace(impatient=integer("impatient"))
    if kind is links.State:
        several: Any = TwoOfMany.fresh(SENDER, any_link_in_order, name)
        return links.fresh(kind, name)._replace(links=several)
    return links.fresh(kind, name)


def any_link_in_order(name: str) -> Any:
    """Any sender and partition, and between them any messages and answers, which arrive in their order."""
    messages = Fifo.fresh(protocol.Message, (NUMBER, NUMBER, REPLAY.items, REPLAY.needs), f"{name}.messages")
    answers = Fifo.fresh(protocol.Answer, (NUMBER, NUMBER, NUMBER), f"{name}.answers")
    return any_link(name)._replace(messages=messages, answers=answers)


def known(config: Any, state: Any, operation: Any) -> Iterable[Any]:
    """The invariants that `obligations/mirror.py` proves, of each message and each answer too."""
    for link in links_of(state):
        yield both(pending_messages_lead_on(link), sender_is_after_its_log(link))
        yield both(log_is_a_history(link), flags_are_flags(link))
        yield both(all_are(link, link.messages, is_genuine), all_are(link, link.answers, is_justified))


def all_are(link: Any, queue: Any, right: Callable[[Any, Any], Any]) -> SymbolicBoolean:
    """`(link, entry) -> condition`, for all messages or answers of the link."""
    return every(queue, lambda _, entry: right(link, entry))


# What is owed -------------------------------------------------------------------------------------------------------


def asks(config: Any, link: Any) -> Any:
    """In the place of the specification's function: it is asked if nothing is in flight; otherwise, any answer."""
    if type(link.messages) is not Fifo:
        return may_expire(config, link)
    return both(link.messages == (), link.answers == ()) | SymbolicBoolean(path().fresh("asks", z3.BoolSort()))


def formula(condition: Callable[[], Any]) -> SymbolicBoolean:
    """What code says that tests symbolic values, as one condition over all its paths, without a fork of this one."""
    found: list[Term] = []
    outer = path()
    first = outer.names

    def body() -> None:
        path().names = first
        said = condition()
        found.append(z3.And(*path().assumptions, boolean_term(said)))

    for one in explore(body):
        outer.names = max(outer.names, one.names)
    return SymbolicBoolean(z3.Or(*found))


def owed(config: Any, link: Any, *, room: Any, among: tuple[type[Operation], ...] = OWED) -> SymbolicBoolean:
    """Whether the specification owes one of these steps of the link."""
    name: Any = SymbolicInteger(SENDER)
    steps = partial(normative.protocol_alphabet, config, name, link, room=room)
    return formula(lambda: any(type(step) in among for step in list(steps())))


def something_is_owed(move: Move) -> SymbolicBoolean:
    """Of the link before the step: a step is owed that needs no more room than there is.

    If the channel of this link is empty and there is no room, another link has something in flight, whose step is owed.
    """
    link, config = own(move)[0], move.config
    in_flight = something_is_in_flight(link)
    taken = owed(config, link, room=False, among=(calls.Deliver, calls.Receive))
    begun = owed(config, link._replace(messages=(), answers=()), room=True)
    return both(link.sender.log != (), implies(in_flight, taken), implies(~in_flight, begun))


def something_is_in_flight(link: Any) -> SymbolicBoolean:
    """A message or an answer is in flight."""
    return both(link.messages != ()) | both(link.answers != ())


# Laws ---------------------------------------------------------------------------------------------------------------


def is_owed(move: Move) -> Any:
    """The step is one that both sides owe each other, and it is not refused."""
    link = own(move)[0]
    room = SymbolicBoolean(path().fresh("room", z3.BoolSort()))
    step = owed(move.config, link, room=room, among=(type(move.operation),))
    return both(step, move.outcome.code is not Code.REFUSED)


def may_happen(move: Move) -> Any:
    """A call, or a step that is owed."""
    return is_owed(move) if type(move.operation) in OWED else move.outcome.code is not Code.REFUSED


def rank_falls(move: Move) -> SymbolicBoolean:
    """`Receive` and `Join`: the rank is smaller. The others: it is no larger, and the channel fills up."""
    if type(move.operation) in (calls.Receive, calls.Join):
        return compared(move, strictly=True)
    before, after = (link.messages.length + 2 * link.answers.length for link in own(move))
    return both(compared(move, strictly=False), SymbolicBoolean(after > before))


def phases_follow(move: Move) -> SymbolicBoolean:
    """The phase falls, to a generation that is whole; or it stays, and a generation that is whole stays whole."""
    before, after = own(move)
    falls = z3.And(phase(after) < phase(before), is_whole(after))
    stays = z3.And(phase(after) == phase(before), z3.Implies(is_whole(before), is_whole(after)))
    return SymbolicBoolean(z3.Or(falls, stays))


def is_waiting(move: Move) -> SymbolicBoolean:
    """A request is unanswered before the step, as the property counts it."""
    link = own(move)[0]
    return both(link.sender.log != ()) | formula(lambda: is_forgotten(link))


LAWS = (
    Law(
        "MIR-7/served",
        "every request that was sent is eventually answered",
        OWED,
        rank_falls,
        is_owed,
    ),
    Law(
        "MIR-7/served/phase",
        "without faults the phase never rises, a whole generation stays whole, and that of a join is whole",
        (*SENDS, *PREPARES, *OWED),
        phases_follow,
        may_happen,
    ),
    Law(
        "MIR-7/served/calls",
        "a call never makes the rank of an unanswered request larger",
        (*SENDS, *PREPARES),
        lambda move: compared(move, strictly=False),
        is_waiting,
    ),
    Law(
        "MIR-7/served/owed",
        "while a request is unanswered, a step is owed",
        OWED,
        something_is_owed,
        is_waiting,
    ),
)


PROGRESS = Proof(
    component="mirror",
    variant=mirror.COMPONENT.normative,
    config=Config,
    invariants=(),
    laws=LAWS,
    witnesses=(
        Config(2, (1,), reorder=1, drop=1, reset=1, restart=1, faults=2),
        Config(2, (1,), rendered=1, reorder=1, drop=1, faults=1),
        Config(2, (1,), processing=1, fan_out=2, embeddings=1, outstanding=3, channel=3, drop=1, faults=1),
    ),
    bound="any eviction rule, any number of messages and senders, after the last fault",
    lemmas=known,
    loops=LOOPS,
    modules=modules_of(mirror),
    replaced=(*REPLACED, (normative, "may_expire", asks)),
    fresh=fresh,
    lift=lift,
    by_hand={"MIR-7/served": "a rank that falls with every step that is owed comes to its end"},
)
