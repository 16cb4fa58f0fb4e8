"""The normative mirror in its environment: frontends, a channel in both directions, a receiver, and faults."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from cachespec.kernel import (
    ABSENT,
    DONE,
    FAILED,
    NORMATIVE,
    REFUSED,
    STALE,
    Code,
    Operation,
    Outcome,
    Variant,
)
from cachespec.mirror import protocol, recency
from cachespec.mirror.channel import faults, overtaken, without
from cachespec.mirror.configuration import Config, Key, partitions, requests
from cachespec.mirror.normative_state import Link, State, begun, counted, initial, over, touched, with_link
from cachespec.mirror.normative_view import view
from cachespec.mirror.operations import (
    Abort,
    Deliver,
    Drop,
    DropAnswer,
    Expire,
    Join,
    Receive,
    Reject,
    Render,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    Send,
    Submit,
    SubmitRejected,
    Transmit,
)
from cachespec.mirror.protocol import Answer
from cachespec.mirror.view import View

Result = tuple[State, Outcome]


# Frontend -----------------------------------------------------------------------------------------------------------


def render(config: Config, state: State, op: Render) -> Result:
    """MIR-4: rendering reads P0's cache and changes nothing: what is rendered may never be sent."""
    link = state.links[op.sender]
    return with_link(state, op.sender, link._replace(rendered=(*link.rendered, op.items))), DONE


def send(config: Config, state: State, op: Send) -> Result:
    """MIR-3, MIR-4: P0 is updated in the order in which messages are sent, for any order of rendering."""
    link = state.links[op.sender]
    if op.which >= len(link.rendered):
        return state, ABSENT
    rendered = without(link.rendered, op.which)
    after, outcome = submitted(config, link, link.rendered[op.which])
    if outcome.code is Code.REFUSED:
        return state, REFUSED
    return with_link(state, op.sender, after._replace(rendered=rendered)), outcome


def submit(config: Config, state: State, op: Submit) -> Result:
    """As `Render` and then `Send`."""
    after, outcome = submitted(config, state.links[op.sender], op.items)
    return with_link(state, op.sender, after), outcome


def submitted(config: Config, link: Link, items: tuple[int, ...]) -> tuple[Link, Outcome]:
    """MIR-10: one message, at once; behind a backlog the message waits its turn in the log.

    Returns for each item 1 where its payload is in the message that went out. Without a partition none does (MIR-12).
    """
    if link.sender.joined == 0:
        return link, REFUSED
    backlog = link.sender.sent < len(link.sender.log)
    after = link._replace(sender=protocol.commit(partial(recency.walk, config), link.sender, items))
    return (after, DONE) if backlog else transmitted(after)


def transmitted(link: Link) -> tuple[Link, Outcome]:
    """The next message of the log goes out."""
    sender, message = protocol.transmit(link.sender)
    after = link._replace(sender=sender, messages=(*link.messages, message))
    return after, Outcome(Code.DONE, message.payloads)


def receive_answer(config: Config, state: State, op: Receive) -> Result:
    """MIR-7: an answer confirms, asks for a repair, or is late; it never fails a request."""
    link = state.links[op.sender]
    if link.answers == ():
        return state, ABSENT
    answer = link.answers[0]
    after = link._replace(sender=protocol.answered(link.sender, answer), answers=link.answers[1:])
    return begun(state, op.sender, link, over(after) if answer.expected > link.marked else after), DONE


def transmit(config: Config, state: State, op: Transmit) -> Result:
    """MIR-10: the next message of the backlog; in one generation each message goes out once."""
    link = state.links[op.sender]
    if link.sender.joined == 0 or link.sender.sent >= len(link.sender.log):
        return state, ABSENT
    after, outcome = transmitted(link)
    return with_link(state, op.sender, after), outcome


def expire(config: Config, state: State, op: Expire) -> Result:
    """MIR-10: no answer came; P0 asks how far P1 is, and sends nothing again before it knows."""
    link = state.links[op.sender]
    if link.sender.joined == 0 or link.sender.log == ():
        return state, ABSENT
    messages = (*link.messages, protocol.probe(link.sender))
    return with_link(state, op.sender, link._replace(messages=messages)), DONE


def join(config: Config, state: State, op: Join) -> Result:
    """MIR-8: an epoch begins; its number has never been used. MIR-11: P1 grants no more than it has room for."""
    link = state.links[op.sender]
    if link.partition.granted == 0 and granted(state) >= partitions(config):
        return state, REFUSED
    sender, partition = protocol.join(partial(recency.walk, config), link.sender, state.empty)
    return begun(state, op.sender, link, link._replace(sender=sender, partition=partition)), DONE


def granted(state: State) -> int:
    """How many partitions P1 has granted."""
    return sum(link.partition.granted for link in state.links)


# Receiver -----------------------------------------------------------------------------------------------------------


def deliver(config: Config, state: State, op: Deliver) -> Result:
    """MIR-2, MIR-6, MIR-9: every item is in the message or in the cache at its turn; otherwise the engine has failed.

    Returns the contents that the request uses, in the order in which P1 updates its cache.
    """
    link = state.links[op.sender]
    if link.messages == ():
        return state, ABSENT
    message = link.messages[0]
    partition, answer, applied = protocol.receive(partial(recency.walk, config), link.partition, message)
    after = link._replace(partition=partition, messages=link.messages[1:], answers=(*link.answers, answer))
    if not applied:
        return with_link(state, op.sender, after), refusal(answer)
    _, needed = recency.walk(config, link.partition.order, message.items)
    missing = missing_items(message.items, needed, message.payloads)
    if missing != ():
        return state, FAILED._replace(values=missing)
    return with_link(state, op.sender, after), Outcome(Code.HIT, message.items)


def missing_items(items: tuple[Key, ...], needed: tuple[int, ...], payloads: tuple[int, ...]) -> tuple[Key, ...]:
    """Which items are neither in P1's cache at their turn nor in the message."""
    return tuple(key for key, need, sent in zip(items, needed, payloads, strict=True) if need > sent)


def refusal(answer: Answer) -> Outcome:
    """What became of a message that was not applied."""
    if answer.verdict == protocol.STALE:
        return STALE
    return Outcome(Code.RETRY) if answer.verdict == protocol.GAP else DONE


def reset_receiver(config: Config, state: State, op: ResetReceiver) -> Result:
    """MIR-8: what P1 forgets, it revokes: no message of before can be taken for one of after."""
    for name, link in enumerate(state.links):
        forgotten = link._replace(partition=protocol.revoked(state.empty))
        state = with_link(state, name, touched(forgotten))
    return counted(state), DONE


def restart_receiver(config: Config, state: State, op: RestartReceiver) -> Result:
    """As a reset, and everything in flight is lost."""
    for name, link in enumerate(state.links):
        forgotten = link._replace(partition=protocol.revoked(state.empty))
        state = with_link(state, name, touched(forgotten)._replace(messages=(), answers=()))
    return counted(state), DONE


# Faults -------------------------------------------------------------------------------------------------------------


def reject(config: Config, state: State, op: Reject) -> Result:
    """MIR-4: a request that is never sent has left no trace in P0's cache (C-MIR-3, C-MIR-4)."""
    link = state.links[op.sender]
    if op.which >= len(link.rendered):
        return state, ABSENT
    rendered = without(link.rendered, op.which)
    return counted(with_link(state, op.sender, link._replace(rendered=rendered))), DONE


def submit_rejected(config: Config, state: State, op: SubmitRejected) -> Result:
    """As `Render` and then `Reject`."""
    return counted(state), DONE


def abort(config: Config, state: State, op: Abort) -> Result:
    """X-3: the request's update goes on to P1 all the same; only its result is not wanted any more."""
    link = state.links[op.sender]
    if op.which >= len(link.sender.log):
        return state, ABSENT
    return counted(state), DONE


def reorder(config: Config, state: State, op: Reorder) -> Result:
    """The channel delivers a message before the one that was sent before it."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.messages):
        return state, ABSENT
    messages = overtaken(link.messages, op.which)
    return counted(with_link(state, op.sender, touched(link)._replace(messages=messages))), DONE


def reorder_answers(config: Config, state: State, op: ReorderAnswers) -> Result:
    """MIR-10: a fault on the answer path costs no payload, so it adds no allowance."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.answers):
        return state, ABSENT
    answers = overtaken(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def drop(config: Config, state: State, op: Drop) -> Result:
    """The channel loses a message."""
    link = state.links[op.sender]
    if op.which >= len(link.messages):
        return state, ABSENT
    after = touched(link)._replace(messages=without(link.messages, op.which))
    return counted(with_link(state, op.sender, after)), DONE


def drop_answer(config: Config, state: State, op: DropAnswer) -> Result:
    """MIR-10: likewise; the question that follows costs none either."""
    link = state.links[op.sender]
    if op.which >= len(link.answers):
        return state, ABSENT
    answers = without(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def reset_sender(config: Config, state: State, op: ResetSender) -> Result:
    """MIR-8: a frontend that forgets has to join again before it sends."""
    link = state.links[op.sender]
    sender = link.sender._replace(order=state.empty, joined=0)
    return counted(with_link(state, op.sender, touched(link)._replace(sender=sender))), DONE


# What can happen ----------------------------------------------------------------------------------------------------


def alphabet(config: Config, state: State) -> Iterable[Operation]:
    """Every operation that the scope allows in this state."""
    in_flight = sum(len(link.messages) + len(link.answers) for link in state.links)
    unanswered = sum(len(link.sender.log) for link in state.links)
    room = in_flight < config.channel
    for name, link in enumerate(state.links):
        yield from frontend_alphabet(config, name, link, room=room, more=room and unanswered < config.outstanding)
        if link.messages != ():
            yield Deliver(name)
        if link.answers != ():
            yield Receive(name)
        if state.faults_left != 0:
            yield from faults(
                config,
                name,
                rendered=len(link.rendered),
                unanswered=len(link.sender.log),
                messages=len(link.messages),
                answers=len(link.answers),
            )
    if state.faults_left != 0:
        if config.reset:
            yield ResetReceiver()
        if config.restart:
            yield RestartReceiver()


def frontend_alphabet(config: Config, name: int, link: Link, *, room: bool, more: bool) -> Iterable[Operation]:
    """What the frontend may do."""
    may_send = link.sender.joined == 1 and more
    if len(link.rendered) < config.rendered:
        yield from (Render(name, items) for items in requests(config))
    if may_send and config.rendered == 0:
        yield from (Submit(name, items) for items in requests(config))
    if may_send:
        yield from (Send(name, which) for which in range(len(link.rendered)))
    if link.sender.joined == 0:
        yield Join(name)
    elif link.sender.sent < len(link.sender.log):
        if room:
            yield Transmit(name)
    elif link.sender.log != () and room and may_expire(config, link):
        yield Expire(name)


def may_expire(config: Config, link: Link) -> bool:
    """Nothing is on its way any more; or the sender is impatient, and has not asked yet."""
    if config.impatient:
        return all(message.items != () for message in link.messages)
    return link.messages == () and link.answers == ()


NORMATIVE_MIRROR: Variant[Config, State, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=State,
    initial=initial,
    transitions={
        Render: render,
        Send: send,
        Submit: submit,
        Deliver: deliver,
        Receive: receive_answer,
        Transmit: transmit,
        Expire: expire,
        Join: join,
        Reject: reject,
        SubmitRejected: submit_rejected,
        Abort: abort,
        Reorder: reorder,
        ReorderAnswers: reorder_answers,
        Drop: drop,
        DropAnswer: drop_answer,
        ResetSender: reset_sender,
        ResetReceiver: reset_receiver,
        RestartReceiver: restart_receiver,
    },
    view=view,
    alphabet=alphabet,
)
