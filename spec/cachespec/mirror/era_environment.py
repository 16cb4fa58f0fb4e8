"""The eras in their environment: the same operations as the normative mirror, around the walks of one era."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from cachespec.kernel import ABSENT, DONE, Code, Kind, Operation, Outcome, Transition, Transitions
from cachespec.mirror.channel import choices, owed
from cachespec.mirror.configuration import Config
from cachespec.mirror.declaration import Around
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED, replaced, without
from cachespec.mirror.era_faults import FAULTS, Clear, clearing, counted, touched
from cachespec.mirror.era_state import (
    NOBODY,
    Answer,
    Draft,
    Link,
    Message,
    State,
    entries,
    evicted,
    holds,
    with_link,
)
from cachespec.mirror.era_walks import (
    Frontend,
    FrontendWalk,
    ReceiverWalk,
    UpdateWalk,
    found_in,
    keys_of,
)
from cachespec.mirror.faults import ResetReceiver, RestartReceiver, SubmitRejected
from cachespec.mirror.operations import (
    Deliver,
    FanOut,
    LookUp,
    Process,
    Receive,
    Render,
    Retry,
    Send,
    Submit,
    SubmitEmbeddings,
)
from cachespec.mirror.view import InFlight, LinkView, View

Result = tuple[State, Outcome]
Rendering = TypeVar("Rendering", Render, LookUp, Submit, FanOut, SubmitEmbeddings, SubmitRejected)


# Frontend -----------------------------------------------------------------------------------------------------------


def updated(link: Link, after: Frontend, wanted: tuple[int, ...]) -> tuple[Link, Message | None]:
    """P0 as a walk has left it, and the message; a walk that fails leaves what it did, and no message."""
    number = link.updates
    link = link._replace(cache=after.cache, updates=number + 1)
    if after.outcome.code is not Code.DONE:
        return link._replace(lost=1, hung=1 if after.outcome.code is Code.DIVERGED else 0), None
    return link, Message(number, link.epoch, after.items, after.payloads, after.walked, wanted)


def rendered(walk: FrontendWalk, config: Config, link: Link, wanted: tuple[int, ...]) -> tuple[Link, Outcome]:
    """P0 is updated here, whether or not the request will be sent."""
    after = walk(config, link.cache, wanted)
    link, message = updated(link, after, wanted)
    if message is None:
        return link, after.outcome
    return link._replace(drafts=(*link.drafts, Draft(message))), Outcome(Code.DONE, message.payloads)


def render(walk: FrontendWalk) -> Transition[Config, State, Render]:
    """The frontend updates P0 while it renders."""

    def transition(config: Config, state: State, op: Render) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        return with_link(state, op.sender, link), outcome

    return transition


def look_up(config: Config, state: State, op: LookUp) -> Result:
    """C-MIR-24: which items will be processed is decided here; P0 is updated later, and others may come between."""
    link = state.links[op.sender]
    missing = tuple(0 if found else 1 for found in found_in(config, link.cache, op.items))
    draft = Draft(Message(NOBODY, NOBODY, (), missing, (), op.items), LOOKED_UP)
    return with_link(state, op.sender, link._replace(drafts=(*link.drafts, draft))), Outcome(Code.DONE, missing)


def process(update: UpdateWalk, *, retries: bool) -> Transition[Config, State, Process]:
    """P0 is updated. M3: if that fails in the step that sends the request, its client sends it again."""

    def transition(config: Config, state: State, op: Process) -> Result:
        link = state.links[op.sender]
        if op.which >= len(link.drafts) or link.drafts[op.which].stage != LOOKED_UP:
            return state, ABSENT
        wanted, missing = link.drafts[op.which].message.wanted, link.drafts[op.which].message.payloads
        after = update(config, link.cache, wanted, tuple(each == 0 for each in missing))
        link, message = updated(link, after, wanted)
        if message is None:
            again = (*link.retries, wanted) if retries and config.rendered == 0 else link.retries
            link = link._replace(drafts=without(link.drafts, op.which), retries=again)
            return with_link(state, op.sender, link), after.outcome
        link = link._replace(drafts=replaced(link.drafts, op.which, Draft(message)))
        link = link if config.rendered > 0 else sent(link, op.which)
        return with_link(state, op.sender, link), Outcome(Code.DONE, message.payloads)

    return transition


def send(config: Config, state: State, op: Send) -> Result:
    """C-MIR-5, C-MIR-22: messages leave in any order, and as often as the request has outputs."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts) or link.drafts[op.which].stage == LOOKED_UP:
        return state, ABSENT
    return with_link(state, op.sender, sent(link, op.which)), DONE


def sent(link: Link, which: int) -> Link:
    """One message of a draft is on its way; the draft is gone with its last one."""
    draft, left = link.drafts[which], without(link.drafts, which)
    if draft.left > 1:
        left = replaced(link.drafts, which, Draft(draft.message, PARTLY_SENT, draft.left - 1))
    return link._replace(drafts=left, messages=(*link.messages, draft.message), waiting=link.waiting + 1)


def fan_out(walk: FrontendWalk) -> Transition[Config, State, FanOut]:
    """C-MIR-22: P0 is updated once, and P1 will apply each of the messages."""

    def transition(config: Config, state: State, op: FanOut) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        if outcome.code is Code.DONE:
            last = len(link.drafts) - 1
            several = link.drafts[last]._replace(left=config.fan_out)
            link = sent(link._replace(drafts=replaced(link.drafts, last, several)), last)
        return with_link(state, op.sender, link), outcome

    return transition


def submit_embeddings(config: Config, state: State, op: SubmitEmbeddings) -> Result:
    """C-MIR-23: P0 is neither asked nor updated; P1 will insert the items as any others."""
    link, every = state.links[op.sender], (1,) * len(op.items)
    message = Message(NOBODY, link.epoch, op.items, every, op.items, op.items)
    after = link._replace(messages=(*link.messages, message), waiting=link.waiting + 1)
    return with_link(state, op.sender, after), Outcome(Code.DONE, every)


def submit(walk: FrontendWalk) -> Transition[Config, State, Submit]:
    """`Render` and `Send` in one step."""

    def transition(config: Config, state: State, op: Submit) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        after = sent(link, len(link.drafts) - 1) if outcome.code is Code.DONE else link
        return with_link(state, op.sender, after), outcome

    return transition


def submit_rejected(walk: FrontendWalk) -> Transition[Config, State, SubmitRejected]:
    """C-MIR-3: as `Render` and then `Reject`."""

    def transition(config: Config, state: State, op: SubmitRejected) -> Result:
        link, outcome = rendered(walk, config, state.links[op.sender], op.items)
        left = link.drafts[:-1] if outcome.code is Code.DONE else link.drafts
        return counted(with_link(state, op.sender, touched(link)._replace(drafts=left, lost=1))), outcome

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
        after = sent(link._replace(retries=link.retries[1:]), len(link.drafts) - 1)
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


# All of one era -----------------------------------------------------------------------------------------------------


def transitions(
    frontend: FrontendWalk, receiver: ReceiverWalk, clear: Clear, *, survives: bool
) -> dict[type[Operation], Any]:
    """Every operation of an era with these walks. `survives`: an error at P1 fails the request alone."""
    return {
        Render: render(frontend),
        Send: send,
        Submit: submit(frontend),
        FanOut: fan_out(frontend),
        SubmitEmbeddings: submit_embeddings,
        Deliver: deliver(receiver, survives=survives),
        Receive: receive_answer,
        SubmitRejected: submit_rejected(frontend),
        **FAULTS,
        **clearing(clear),
    }


def in_two_steps(update: UpdateWalk, *, retries: bool = False) -> dict[type[Operation], Any]:
    """The operations of an era in which other requests may come between look-up and update."""
    return {LookUp: look_up, Process: process(update, retries=retries)}


def repairing(frontend: FrontendWalk, transitions: Transitions[Config, State]) -> dict[type[Operation], Any]:
    """M3: a miss is told to P0, which drops the item before it serves another request; the client tries again."""
    drained_first: dict[type[Operation], Any] = {
        kind: draining(transitions[kind]) for kind in (Render, LookUp, FanOut, SubmitEmbeddings, SubmitRejected)
    }
    return {
        **transitions,
        **drained_first,
        Submit: draining(submit_retrying(frontend)),
        Retry: retry(frontend),
    }


# What can happen ----------------------------------------------------------------------------------------------------


def alphabet(config: Config, state: State) -> Iterable[Operation]:
    """Every operation that the scope allows in this state. An engine that is dead can only be restarted."""
    in_flight = sum(len(link.messages) + len(link.answers) for link in state.links)
    room = in_flight < config.channel
    unanswered = sum(len(link.retries) + link.waiting + owed(link.drafts) for link in state.links)
    for name, link in enumerate(state.links):
        around = Around(
            stages=tuple(draft.stage for draft in link.drafts),
            may_begin=unanswered < config.outstanding,
            may_send=room,
            more=config.outstanding - unanswered,
            unanswered=len(link.messages),
            messages=len(link.messages),
            answers=len(link.answers),
            room=room,
            hung=link.hung == 1,
        )
        if link.hung == 0:
            yield from choices(Kind.CALL, config, name, around)
            if room and link.retries != ():
                yield Retry(name)
        if link.messages != () and state.dead == 0:
            yield Deliver(name)
        if link.answers != ():
            yield Receive(name)
        if state.faults_left != 0:
            yield from choices(Kind.FAULT, config, name, around)
    if config.reset and state.faults_left != 0 and state.dead == 0:
        yield ResetReceiver()
    if config.restart and state.faults_left != 0:
        yield RestartReceiver()


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
        faults_left=state.faults_left,
    )


def link_view(config: Config, link: Link, held: tuple[tuple[int, int], ...], *, granted: bool) -> LinkView:
    """One frontend and what P1 holds."""
    rendered = tuple(draft.stage for draft in link.drafts if draft.stage != LOOKED_UP)
    idle = link.messages == () and rendered == () and link.retries == ()
    return LinkView(
        sent_order=entries(link.cache),
        held_order=held,
        capacity=config.capacity,
        granted=granted,
        settled=idle and link.lost == 0,
        rendered=tuple(draft.stage == RENDERED for draft in link.drafts),
        messages=tuple(in_flight(link, message) for message in link.messages),
        answers=len(link.answers),
        abortable=len(link.messages),
        answering=tuple((answer.number, answer.failed) for answer in link.answers),
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
        stamp=(message.epoch, message.number),
    )
