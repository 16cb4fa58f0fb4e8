"""The eras of the mirrored cache, each without one of their faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around, never, only, together, transitions
from cacheproof.model.finding import Subject
from cachespec.kernel import ABSENT, DONE, Code, Operation, Outcome
from cachespec.mirror import era_environment as environment
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import LOOKED_UP, RENDERED, replaced
from cachespec.mirror.era_faults import clearing
from cachespec.mirror.era_state import Answer, Cache, State, evicted, with_link
from cachespec.mirror.era_walks import clear_at_once, found_in, frontend, keys_of, receiver, touch_present, update
from cachespec.mirror.faults import (
    Cancel,
    Drop,
    Reject,
    Reorder,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    SubmitRejected,
)
from cachespec.mirror.operations import Deliver, FanOut, Process, Render, Retry, Send, Submit, SubmitEmbeddings
from cachespec.mirror.view import View

Result = tuple[State, Outcome]
Rendering = Render | Submit | SubmitRejected | Retry
EVERY = ("M0", "M1", "M2", "M3")
FROM_M1 = ("M1", "M2", "M3")
RENDERINGS = (Render, Submit, SubmitRejected, Retry)


# Configurations in which a fault does not show ----------------------------------------------------------------------


def in_configuration(changed: Callable[[Config], Config]) -> Change:
    """The era in a configuration in which both sides do the same."""
    return lambda subject: replace(subject, config=changed(subject.config))


def only_sender(name: int) -> Change:
    """C-MIR-13: this frontend has P1's cache for itself. What the others do is left out, and what is true of them."""

    def is_its_own(op: Operation) -> bool:
        return getattr(op, "sender", name) == name

    def change(subject: Subject) -> Subject:
        variant = subject.variant

        def view(config: Config, state: State) -> View:
            return seen_by(name, variant.view(config, state))

        return only(is_its_own)(replace(subject, variant=replace(variant, view=view)))

    return change


def seen_by(name: int, seen: View) -> View:
    """The view in which nothing is claimed of the other frontends."""
    links = (
        link if number == name else link._replace(granted=False, settled=False, quiet=False)
        for number, link in enumerate(seen.links)
    )
    return seen._replace(links=tuple(links))


def without_oversize_items(config: Config) -> Config:
    """C-MIR-16: an item that is larger than the cache takes no room in it."""
    return config._replace(sizes=tuple(size if size <= config.capacity else 0 for size in config.sizes))


# What happens to messages -------------------------------------------------------------------------------------------


def in_order(own: AnyTransition, config: Config, state: State, op: Send) -> Result:
    """C-MIR-5: messages leave in the order of P0's updates."""
    drafts = state.links[op.sender].drafts
    numbers = [draft.message.number for draft in drafts if draft.stage == RENDERED]
    waits = op.which < len(drafts) and drafts[op.which].stage == RENDERED
    changed: Result = own(config, state, op)
    return (state, ABSENT) if waits and drafts[op.which].message.number > min(numbers) else changed


def surviving(own: AnyTransition, config: Config, state: State, op: Deliver) -> Result:
    """C-MIR-1: a miss fails its request, and not the engine."""
    after: State
    after, outcome = own(config, state, op)
    if after.dead <= state.dead or outcome.code is not Code.FAILED:
        return after, outcome
    link, number = after.links[op.sender], state.links[op.sender].messages[0].number
    answered = link._replace(answers=(*link.answers, Answer(number, 1)))
    return with_link(after, op.sender, answered)._replace(dead=state.dead), outcome


def fresh_payloads_used(own: AnyTransition, config: Config, state: State, op: Deliver) -> Result:
    """C-MIR-17: a payload replaces the entry under its key."""
    messages, cache = state.links[op.sender].messages, state.receiver
    if messages and not state.dead:
        sent = [item for item, payload in zip(messages[0].items, messages[0].payloads, strict=True) if payload]
        state = state._replace(receiver=without_keys(cache, keys_of(config, sent)))
    return own(config, state, op)


# What P0 does -------------------------------------------------------------------------------------------------------


def without_keys(cache: Cache, keys: tuple[int, ...]) -> Cache:
    """The cache without these entries."""
    for key in keys:
        cache = evicted(cache, key)
    return cache


def wanted_by(state: State, op: Rendering) -> tuple[int, ...]:
    """The contents of the request that is rendered."""
    if not isinstance(op, Retry):
        return op.items
    retries = state.links[op.sender].retries
    return retries[0] if retries else ()


def sending_all(config: Config, state: State, op: Rendering) -> State:
    """P0 without the entries of the request, so that it sends all of its payloads."""
    link = state.links[op.sender]
    wanted = keys_of(config, wanted_by(state, op))
    return with_link(state, op.sender, link._replace(cache=without_keys(link.cache, wanted)))


def evicted_is_sent(own: AnyTransition, config: Config, state: State, op: Rendering) -> Result:
    """C-MIR-9: a request that evicts what it is about to use sends it."""
    changed: Result = own(config, state, op)
    if changed[1].code is Code.FAILED:
        return own(config, sending_all(config, state, op), op)
    return changed


def large_request_is_sent(own: AnyTransition, config: Config, state: State, op: Rendering) -> Result:
    """C-MIR-19: the first try of a request that is larger than the cache carries all of it."""
    if sum(config.sizes[content] for content in set(wanted_by(state, op))) > config.capacity:
        state = sending_all(config, state, op)
    return own(config, state, op)


def looked_up_again(own: AnyTransition, config: Config, state: State, op: Process) -> Result:
    """C-MIR-24: which items are processed is decided where P0 is updated."""
    link = state.links[op.sender]
    if op.which < len(link.drafts) and link.drafts[op.which].stage == LOOKED_UP:
        draft = link.drafts[op.which]
        found = found_in(config, link.cache, draft.message.wanted)
        message = draft.message._replace(payloads=tuple(int(not there) for there in found))
        link = link._replace(drafts=replaced(link.drafts, op.which, draft._replace(message=message)))
    return own(config, with_link(state, op.sender, link), op)


def refused_first(own: AnyTransition, config: Config, state: State, op: SubmitRejected) -> Result:
    """C-MIR-3: a request is refused before P0 is updated."""
    return state, DONE


# Clearing -----------------------------------------------------------------------------------------------------------


def both_sides(
    own: AnyTransition, config: Config, state: State, op: ResetSender | ResetReceiver | RestartReceiver
) -> Result:
    """C-MIR-12, C-MIR-18: both sides begin anew, with nothing from before in flight or still to be applied."""
    after: State
    after, outcome = own(config, state, op)
    return anew(after), outcome


def anew(state: State) -> State:
    """Both sides empty."""
    links = tuple(
        link._replace(cache=state.empty, drafts=(), messages=(), answers=(), waiting=0, applied=link.updates - 1)
        for link in state.links
    )
    return state._replace(links=links, receiver=state.empty)


def after_a_miss(own: AnyTransition, config: Config, state: State, op: Retry) -> Result:
    """C-MIR-20: after a miss both sides begin anew, so that their orders are the same again."""
    return own(config, anew(state), op)


PRESENT_TOUCHED = frontend(update(touch_present, oversize_passes=False))

MENDS = (
    Mend("C-MIR-1", EVERY, together(never(Drop, Reorder), around(surviving, Deliver))),
    Mend("C-MIR-3", FROM_M1, together(around(refused_first, SubmitRejected), never(Cancel))),
    Mend("C-MIR-4", FROM_M1, never(Reject)),
    Mend("C-MIR-5", EVERY, together(never(Reorder), around(in_order, Send))),
    Mend("C-MIR-7", FROM_M1, in_configuration(lambda config: config._replace(modalities=()))),
    Mend("C-MIR-9", FROM_M1, around(evicted_is_sent, *RENDERINGS)),
    Mend(
        "C-MIR-10",
        ("M2",),
        transitions(
            {
                Render: environment.render(PRESENT_TOUCHED),
                Submit: environment.submit(PRESENT_TOUCHED),
                SubmitRejected: environment.submit_rejected(PRESENT_TOUCHED),
                Deliver: environment.deliver(receiver(touch_present), survives=True),
                FanOut: environment.fan_out(PRESENT_TOUCHED),
                Process: environment.process(update(touch_present, oversize_passes=False), retries=False),
                **clearing(clear_at_once),
            }
        ),
    ),
    Mend("C-MIR-12", FROM_M1, around(both_sides, ResetSender, ResetReceiver)),
    Mend("C-MIR-13", EVERY, only_sender(0), also=(only_sender(1), only_sender(2))),
    Mend("C-MIR-14", EVERY, in_configuration(lambda config: config._replace(identities=()))),
    Mend("C-MIR-16", FROM_M1, in_configuration(without_oversize_items)),
    Mend("C-MIR-17", ("M1", "M2"), around(fresh_payloads_used, Deliver)),
    Mend("C-MIR-18", EVERY, around(both_sides, RestartReceiver)),
    Mend("C-MIR-19", ("M3",), around(large_request_is_sent, *RENDERINGS)),
    Mend("C-MIR-20", ("M3",), around(after_a_miss, Retry)),
    Mend("C-MIR-21", ("M0",), in_configuration(lambda config: config._replace(sizes=(1,) * len(config.sizes)))),
    Mend("C-MIR-22", FROM_M1, never(FanOut)),
    Mend("C-MIR-23", FROM_M1, never(SubmitEmbeddings)),
    Mend("C-MIR-24", ("M2", "M3"), around(looked_up_again, Process)),
)
