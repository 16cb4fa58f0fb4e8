"""The normative mirror in its environment: frontends, a channel in both directions, and a receiver."""

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
    Kind,
    Operation,
    Outcome,
    Variant,
)
from cachespec.mirror import protocol, recency
from cachespec.mirror.channel import choices, owed
from cachespec.mirror.configuration import Config, Key, partitions
from cachespec.mirror.declaration import Around
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, Draft, replaced, without
from cachespec.mirror.faults import ResetReceiver, RestartReceiver
from cachespec.mirror.normative_faults import FAULTS
from cachespec.mirror.normative_state import Link, State, begun, initial, over, with_link
from cachespec.mirror.normative_view import view
from cachespec.mirror.operations import (
    Deliver,
    Expire,
    FanOut,
    Join,
    LookUp,
    Process,
    Receive,
    Render,
    Send,
    Submit,
    SubmitEmbeddings,
    Transmit,
)
from cachespec.mirror.protocol import Answer
from cachespec.mirror.view import View

Result = tuple[State, Outcome]


# Frontend -----------------------------------------------------------------------------------------------------------


def render(config: Config, state: State, op: Render) -> Result:
    """MIR-4: rendering reads P0's cache and changes nothing: what is rendered may never be sent."""
    link = state.links[op.sender]
    return with_link(state, op.sender, link._replace(drafts=(*link.drafts, Draft(op.items)))), DONE


def look_up(config: Config, state: State, op: LookUp) -> Result:
    """MIR-4, MIR-9: what the look-up finds may be gone when the request is sent; it decides nothing (C-MIR-24)."""
    link = state.links[op.sender]
    after = link._replace(drafts=(*link.drafts, Draft(op.items, LOOKED_UP)))
    return with_link(state, op.sender, after), Outcome(Code.DONE, recency.absent(link.sender.order, op.items))


def process(config: Config, state: State, op: Process) -> Result:
    """MIR-4: as rendering. If the request is sent in the same step, P0 is updated in that step."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts) or link.drafts[op.which].stage != LOOKED_UP:
        return state, ABSENT
    items = link.drafts[op.which].items
    if config.rendered > 0:
        drafts = replaced(link.drafts, op.which, Draft(items))
        return with_link(state, op.sender, link._replace(drafts=drafts)), DONE
    after, outcome = submitted(config, link, items)
    if outcome.code is Code.REFUSED:
        return state, REFUSED
    return with_link(state, op.sender, after._replace(drafts=without(link.drafts, op.which))), outcome


def send(config: Config, state: State, op: Send) -> Result:
    """MIR-3, MIR-4: P0 is updated once for each message, in the order in which messages are sent (C-MIR-22)."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts) or link.drafts[op.which].stage == LOOKED_UP:
        return state, ABSENT
    after, outcome = submitted(config, link, link.drafts[op.which].items)
    if outcome.code is Code.REFUSED:
        return state, REFUSED
    return with_link(state, op.sender, after._replace(drafts=once_sent(link.drafts, op.which))), outcome


def once_sent(drafts: tuple[Draft, ...], which: int) -> tuple[Draft, ...]:
    """One message of this draft has left."""
    draft = drafts[which]
    if draft.left <= 1:
        return without(drafts, which)
    return replaced(drafts, which, Draft(draft.items, PARTLY_SENT, draft.left - 1))


def submit(config: Config, state: State, op: Submit) -> Result:
    """As `Render` and then `Send`."""
    after, outcome = submitted(config, state.links[op.sender], op.items)
    return with_link(state, op.sender, after), outcome


def submit_embeddings(config: Config, state: State, op: SubmitEmbeddings) -> Result:
    """MIR-3, MIR-4: what P1 will insert, P0 records: embeddings take the way of any item (C-MIR-23)."""
    after, outcome = submitted(config, state.links[op.sender], op.items)
    return with_link(state, op.sender, after), outcome


def fan_out(config: Config, state: State, op: FanOut) -> Result:
    """MIR-3, MIR-4: each message of the request is an update of its own; the rest of them wait (C-MIR-22)."""
    after, outcome = submitted(config, state.links[op.sender], op.items)
    if outcome.code is Code.REFUSED:
        return state, REFUSED
    rest = Draft(op.items, PARTLY_SENT, config.fan_out - 1)
    return with_link(state, op.sender, after._replace(drafts=(*after.drafts, rest))), outcome


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


# What can happen ----------------------------------------------------------------------------------------------------


def alphabet(config: Config, state: State) -> Iterable[Operation]:
    """Every operation that the scope allows in this state."""
    in_flight = sum(len(link.messages) + len(link.answers) for link in state.links)
    unanswered = sum(len(link.sender.log) + owed(link.drafts) for link in state.links)
    room = in_flight < config.channel
    for name, link in enumerate(state.links):
        around = Around(
            stages=tuple(draft.stage for draft in link.drafts),
            may_begin=True,
            may_send=room and link.sender.joined == 1,
            more=config.outstanding - unanswered,
            unanswered=len(link.sender.log),
            messages=len(link.messages),
            answers=len(link.answers),
            room=room,
        )
        yield from choices(Kind.CALL, config, name, around)
        yield from protocol_alphabet(config, name, link, room=room)
        if state.faults_left != 0:
            yield from choices(Kind.FAULT, config, name, around)
    if state.faults_left != 0:
        if config.reset:
            yield ResetReceiver()
        if config.restart:
            yield RestartReceiver()


def protocol_alphabet(config: Config, name: int, link: Link, *, room: bool) -> Iterable[Operation]:
    """What both sides owe one another."""
    if link.messages != ():
        yield Deliver(name)
    if link.answers != ():
        yield Receive(name)
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
        LookUp: look_up,
        Process: process,
        Send: send,
        Submit: submit,
        FanOut: fan_out,
        SubmitEmbeddings: submit_embeddings,
        Deliver: deliver,
        Receive: receive_answer,
        Transmit: transmit,
        Expire: expire,
        Join: join,
        **FAULTS,
    },
    view=view,
    alphabet=alphabet,
)
