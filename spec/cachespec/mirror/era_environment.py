"""The eras in their environment: the same operations as the normative mirror, around the walks of one era."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from cachespec.kernel import ABSENT, DONE, Code, Operation, Outcome, Transition
from cachespec.mirror.channel import faults, overtaken, without
from cachespec.mirror.configuration import UNLIMITED, Config, requests
from cachespec.mirror.era_state import NOBODY, Answer, Cache, Link, Message, State, entries, evicted, holds, with_link
from cachespec.mirror.era_walks import FrontendWalk, ReceiverWalk, keys_of
from cachespec.mirror.operations import (
    Abort,
    Deliver,
    Drop,
    DropAnswer,
    Receive,
    Reject,
    Render,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    Retry,
    Send,
    Submit,
    SubmitRejected,
)
from cachespec.mirror.view import InFlight, LinkView, View

Result = tuple[State, Outcome]
Rendering = TypeVar("Rendering", Render, Submit, SubmitRejected)
Clear = Callable[[Cache, Cache], tuple[Cache, Outcome]]


# Frontend -----------------------------------------------------------------------------------------------------------


def rendered(walk: FrontendWalk, config: Config, link: Link, wanted: tuple[int, ...]) -> tuple[Link, Outcome]:
    """P0 is updated here, whether or not the request will be sent. A walk that fails leaves what it did."""
    after = walk(config, link.cache, wanted)
    number = link.updates
    link = link._replace(cache=after.cache, updates=number + 1)
    if after.outcome.code is not Code.DONE:
        hung = 1 if after.outcome.code is Code.DIVERGED else 0
        return link._replace(lost=1, hung=hung), after.outcome
    message = Message(number, link.epoch, after.items, after.payloads, after.walked, wanted)
    return link._replace(rendered=(*link.rendered, message)), Outcome(Code.DONE, after.payloads)


def render(walk: FrontendWalk) -> Transition[Config, State, Render]:
    """The frontend updates P0 while it renders."""

    def transition(config: Config, state: State, op: Render) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        return with_link(state, op.sender, link), outcome

    return transition


def send(config: Config, state: State, op: Send) -> Result:
    """C-MIR-5: messages leave in the order in which the requests are ready, not in that of the updates."""
    link = state.links[op.sender]
    if op.which >= len(link.rendered):
        return state, ABSENT
    return with_link(state, op.sender, sent(link, op.which)), DONE


def sent(link: Link, which: int) -> Link:
    """A rendered request is on its way."""
    left = without(link.rendered, which)
    messages = (*link.messages, link.rendered[which])
    return link._replace(rendered=left, messages=messages, waiting=link.waiting + 1)


def submit(walk: FrontendWalk) -> Transition[Config, State, Submit]:
    """`Render` and `Send` in one step."""

    def transition(config: Config, state: State, op: Submit) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        after = sent(link, len(link.rendered) - 1) if outcome.code is Code.DONE else link
        return with_link(state, op.sender, after), outcome

    return transition


def submit_retrying(walk: FrontendWalk) -> Transition[Config, State, Submit]:
    """M3: a client whose request fails at P0 sends it again."""
    plain = submit(walk)

    def transition(config: Config, state: State, op: Submit) -> Result:
        after, outcome = plain(config, state, op)
        if outcome.code is not Code.FAILED:
            return after, outcome
        link = after.links[op.sender]
        return with_link(after, op.sender, link._replace(retries=(*link.retries, op.items))), outcome

    return transition


def retry(walk: FrontendWalk) -> Transition[Config, State, Retry]:
    """M3: invalidated keys are dropped before the next rendering; a retry that fails at P0 is still to be done."""

    def transition(config: Config, state: State, op: Retry) -> Result:
        link = state.links[op.sender]
        if link.retries == ():
            return state, ABSENT
        wanted = link.retries[0]
        link, outcome = rendered(walk, config, drained(link), wanted)
        if outcome.code is not Code.DONE:
            return with_link(state, op.sender, link), outcome
        after = sent(link._replace(retries=link.retries[1:]), len(link.rendered) - 1)
        return with_link(state, op.sender, after), outcome

    return transition


def draining(transition: Transition[Config, State, Rendering]) -> Transition[Config, State, Rendering]:
    """M3: any rendering first drops the keys that a miss has invalidated."""

    def drained_first(config: Config, state: State, op: Rendering) -> Result:
        return transition(config, with_link(state, op.sender, drained(state.links[op.sender])), op)

    return drained_first


def drained(link: Link) -> Link:
    """P0 drops what P1 has reported as missing; P1 is not notified."""
    cache, invalid = link.cache, link.invalid
    for key, _ in tuple(invalid.items()):
        cache, invalid = evicted(cache, key) if holds(cache, key) else cache, invalid.remove(key)
    return link._replace(cache=cache, invalid=invalid)


def receive_answer(config: Config, state: State, op: Receive) -> Result:
    """The client has its answer; after a miss (M3) it will retry, and P0 will drop what P0 still believes in."""
    link = state.links[op.sender]
    if link.answers == ():
        return state, ABSENT
    answer, link = link.answers[0], link._replace(answers=link.answers[1:])
    if answer.missing == ():
        marked = NOBODY if answer.failed == 0 and answer.number >= link.marked else link.marked
        return with_link(state, op.sender, link._replace(waiting=link.waiting - 1, marked=marked)), DONE
    invalid = link.invalid
    for key in keys_of(config, answer.missing):
        invalid = invalid.set(key, 1) if holds(link.cache, key) else invalid
    after = link._replace(invalid=invalid, retries=(*link.retries, answer.wanted), waiting=link.waiting - 1)
    return with_link(state, op.sender, after), DONE


# Receiver -----------------------------------------------------------------------------------------------------------


def deliver(walk: ReceiverWalk, *, survives: bool) -> Transition[Config, State, Deliver]:
    """P1 applies the message, for any epoch and any position in the order of updates."""

    def transition(config: Config, state: State, op: Deliver) -> Result:
        link = state.links[op.sender]
        if link.messages == () or state.dead == 1:
            return state, ABSENT
        message = link.messages[0]
        cache, outcome = walk(config, state.receiver, message)
        good = outcome.code is Code.HIT
        missing = outcome.values if outcome.code is Code.RETRY else ()
        answer = Answer(message.number, 0 if good else 1, missing, message.wanted if missing else ())
        dead = outcome.code is Code.DIVERGED or (outcome.code is Code.FAILED and not survives)
        after = link._replace(
            messages=link.messages[1:],
            answers=link.answers if dead else (*link.answers, answer),
            applied=max(link.applied, message.number),
            lost=link.lost if good or message.epoch != link.epoch else 1,
            missed=1 if missing and link.marked != NOBODY else link.missed,
        )
        owner = op.sender if state.owner == NOBODY else state.owner
        return with_link(state, op.sender, after)._replace(receiver=cache, dead=1 if dead else 0, owner=owner), outcome

    return transition


# Faults -------------------------------------------------------------------------------------------------------------


def counted(state: State) -> State:
    """History: one fault less to come."""
    left = state.faults_left if state.faults_left == UNLIMITED else state.faults_left - 1
    return state._replace(faults_left=left)


def touched(link: Link) -> Link:
    """History: MIR-1 is due again once a request that is yet to come has been answered."""
    return link._replace(marked=link.updates, missed=0)


def reject(config: Config, state: State, op: Reject) -> Result:
    """C-MIR-3, C-MIR-4: the request is not sent; P0 keeps its update."""
    link = state.links[op.sender]
    if op.which >= len(link.rendered):
        return state, ABSENT
    left = without(link.rendered, op.which)
    return counted(with_link(state, op.sender, touched(link)._replace(rendered=left, lost=1))), DONE


def submit_rejected(walk: FrontendWalk) -> Transition[Config, State, SubmitRejected]:
    """C-MIR-3: as `Render` and then `Reject`."""

    def transition(config: Config, state: State, op: SubmitRejected) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        left = link.rendered[:-1] if outcome.code is Code.DONE else link.rendered
        return counted(with_link(state, op.sender, touched(link)._replace(rendered=left, lost=1))), outcome

    return transition


def abort(config: Config, state: State, op: Abort) -> Result:
    """An abort in flight reaches the scheduler only."""
    if op.which >= len(state.links[op.sender].messages):
        return state, ABSENT
    return counted(state), DONE


def reorder(config: Config, state: State, op: Reorder) -> Result:
    """C-MIR-5: a message is taken before the one that was sent before it."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.messages):
        return state, ABSENT
    messages = overtaken(link.messages, op.which)
    return counted(with_link(state, op.sender, touched(link)._replace(messages=messages))), DONE


def reorder_answers(config: Config, state: State, op: ReorderAnswers) -> Result:
    """Answers belong to requests; their order means nothing."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.answers):
        return state, ABSENT
    answers = overtaken(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def drop(config: Config, state: State, op: Drop) -> Result:
    """The request is gone between P0 and P1 (a duplicate id, a client that went away); the client knows."""
    link = state.links[op.sender]
    if op.which >= len(link.messages):
        return state, ABSENT
    lost = 1 if link.messages[op.which].epoch == link.epoch else link.lost
    messages = without(link.messages, op.which)
    after = touched(link)._replace(messages=messages, lost=lost, waiting=link.waiting - 1)
    return counted(with_link(state, op.sender, after)), DONE


def drop_answer(config: Config, state: State, op: DropAnswer) -> Result:
    """The client is gone before its answer; a miss that the answer reports is not heard of."""
    link = state.links[op.sender]
    if op.which >= len(link.answers):
        return state, ABSENT
    answers = without(link.answers, op.which)
    after = touched(link)._replace(answers=answers, waiting=link.waiting - 1)
    return counted(with_link(state, op.sender, after)), DONE


def begun(link: Link) -> Link:
    """History: an epoch begins."""
    return touched(link)._replace(epoch=link.epoch + 1, lost=0)


def reset_sender(clear: Clear) -> Transition[Config, State, ResetSender]:
    """C-MIR-12: P0 is cleared, P1 keeps what it has."""

    def transition(config: Config, state: State, op: ResetSender) -> Result:
        link = state.links[op.sender]
        cache, outcome = clear(link.cache, state.empty)
        hung = 1 if outcome.code is Code.DIVERGED else 0
        return counted(with_link(state, op.sender, begun(link)._replace(cache=cache, hung=hung))), outcome

    return transition


def reset_receiver(clear: Clear) -> Transition[Config, State, ResetReceiver]:
    """C-MIR-12: P1 is cleared, P0 keeps its keys; nothing waits for what is in flight."""

    def transition(config: Config, state: State, op: ResetReceiver) -> Result:
        cache, outcome = clear(state.receiver, state.empty)
        links = tuple(begun(link) for link in state.links)
        dead = 1 if outcome.code is Code.DIVERGED else state.dead
        return counted(state._replace(links=links, receiver=cache, dead=dead)), outcome

    return transition


def restart_receiver(config: Config, state: State, op: RestartReceiver) -> Result:
    """P1 starts again with nothing; P0 is not notified. Clients whose requests were in flight are."""
    links = tuple(begun(link)._replace(messages=(), answers=(), waiting=0) for link in state.links)
    return counted(state._replace(links=links, receiver=state.empty, dead=0)), DONE


# What can happen ----------------------------------------------------------------------------------------------------


def alphabet(config: Config, state: State) -> Iterable[Operation]:
    """Every operation that the scope allows in this state. An engine that is dead can only be restarted."""
    in_flight = sum(len(link.messages) + len(link.answers) for link in state.links)
    room = in_flight < config.channel
    unanswered = sum(len(link.retries) + link.waiting for link in state.links)
    for name, link in enumerate(state.links):
        if link.hung == 0:
            yield from frontend_alphabet(config, name, link, room=room, more=unanswered < config.outstanding)
        if link.messages != () and state.dead == 0:
            yield Deliver(name)
        if link.answers != ():
            yield Receive(name)
        if state.faults_left != 0:
            yield from faults(
                config,
                name,
                rendered=len(link.rendered),
                unanswered=len(link.messages),
                messages=len(link.messages),
                answers=len(link.answers),
                hung=link.hung,
            )
    if config.reset and state.faults_left != 0 and state.dead == 0:
        yield ResetReceiver()
    if config.restart and state.faults_left != 0:
        yield RestartReceiver()


def frontend_alphabet(config: Config, name: int, link: Link, *, room: bool, more: bool) -> Iterable[Operation]:
    """What the frontend and its clients may do."""
    if len(link.rendered) < config.rendered and more:
        yield from (Render(name, items) for items in requests(config))
    if room and more and config.rendered == 0:
        yield from (Submit(name, items) for items in requests(config))
    if room and more:
        yield from (Send(name, which) for which in range(len(link.rendered)))
    if room and link.retries != ():
        yield Retry(name)


# View ---------------------------------------------------------------------------------------------------------------


def view(config: Config, state: State) -> View:
    """What the properties read. The whole of P1's cache is the part of the sender that it served first."""
    held = entries(state.receiver)
    links = tuple(
        link_view(config, link, held, granted=state.owner in (NOBODY, name)) for name, link in enumerate(state.links)
    )
    hung = state.dead == 1 or any(link.hung == 1 for link in state.links)
    return View(
        links=links,
        overspent=False,
        held_bytes=sum(size for _, size in held),
        receiver_capacity=config.capacity,
        hung=hung,
    )


def link_view(config: Config, link: Link, held: tuple[tuple[int, int], ...], *, granted: bool) -> LinkView:
    """One frontend and what P1 holds."""
    idle = link.messages == () and link.rendered == () and link.retries == ()
    return LinkView(
        sent_order=entries(link.cache),
        held_order=held,
        capacity=config.capacity,
        granted=granted,
        settled=idle and link.lost == 0,
        rendered=(True,) * len(link.rendered),
        messages=tuple(in_flight(link, message) for message in link.messages),
        answers=len(link.answers),
        unanswered=link.waiting + len(link.retries),
        updates=link.updates,
        mended=link.missed == 1,
        quiet=idle and link.answers == () and link.waiting == 0 and link.marked == NOBODY and link.hung == 0,
    )


def in_flight(link: Link, message: Message) -> InFlight:
    """A message as the properties see it."""
    return InFlight(
        items=message.items,
        payloads=message.payloads,
        walked=message.walked,
        current=message.epoch == link.epoch,
        following=message.epoch == link.epoch and message.number == link.applied + 1,
    )
