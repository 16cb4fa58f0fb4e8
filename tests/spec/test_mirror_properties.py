"""That each property of the mirror can fail: a planted bug for each; and that each says something where it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.planting import Change
from tests.planting import planted as planted_in_code
from tests.spec.mirror_fault_bugs import (
    abort_nothing,
    abort_on_its_way,
    allow_one_more,
    drop_uncounted,
    ignore_complaints,
    keep_grant,
    keep_the_allowance,
    lose_nothing,
    repeat_the_first,
    reset_and_deny,
    reset_nothing,
    reset_the_first_only,
    restart_beside_the_channel,
    take_two,
)

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyVariant
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.verdict import unwitnessed
from cachespec.kernel import ABSENT, DONE, FAILED, Code, Operation, Outcome
from cachespec.mirror import COMPONENT, protocol, recency
from cachespec.mirror.configuration import Config
from cachespec.mirror.era_state import State as EraState
from cachespec.mirror.eras import M3
from cachespec.mirror.faults import (
    Abort,
    Drop,
    DropAnswer,
    Reorder,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    SubmitRejected,
)
from cachespec.mirror.normative import (
    NORMATIVE_MIRROR,
    deliver,
    fan_out,
    join,
    look_up,
    send,
    submit,
    transmit,
)
from cachespec.mirror.normative_faults import submit_rejected
from cachespec.mirror.normative_state import Link, State, begun, with_link
from cachespec.mirror.operations import Deliver, Expire, FanOut, Join, LookUp, Process, Receive, Send, Submit, Transmit

Result = tuple[State, Outcome]
Bug = Mapping[type[Operation], Any]


def with_message(link: Link, **changes: Any) -> Link:
    """The oldest message of the channel, changed."""
    return link._replace(messages=(link.messages[0]._replace(**changes), *link.messages[1:]))


def one_byte_more(transition: Any) -> Any:
    """MIR-11: both sides believe in a larger cache."""

    def larger(config: Config, state: State, op: Operation) -> Result:
        after: Result = transition(config._replace(capacity=config.capacity + 1), state, op)
        return after

    return larger


def send_no_payload(config: Config, state: State, op: Deliver) -> Result:
    """MIR-2: payloads are lost on the way."""
    link = state.links[op.sender]
    if link.messages == ():
        return state, DONE
    bare = with_message(link, payloads=(0,) * len(link.messages[0].payloads))
    return deliver(config, with_link(state, op.sender, bare), op)


def skip_what_is_missing(config: Config, state: State, op: Deliver) -> Result:
    """MIR-3: P1 goes on from whatever comes next."""
    link = state.links[op.sender]
    behind = link.messages[0].sequence > link.partition.expected and link.messages[0].items != ()
    if not behind or link.partition.granted == 0:
        return deliver(config, state, op)
    skipped = link.partition._replace(expected=link.messages[0].sequence)
    after, outcome = deliver(config, with_link(state, op.sender, link._replace(partition=skipped)), op)
    return (state, DONE) if outcome.code is Code.FAILED else (after, outcome)


def update_and_reject(config: Config, state: State, op: SubmitRejected) -> Result:
    """MIR-4: C-MIR-3."""
    link = state.links[op.sender]
    order, _ = recency.walk(config, link.sender.order, op.items)
    rejected, outcome = submit_rejected(config, state, op)
    return with_link(rejected, op.sender, link._replace(sender=link.sender._replace(order=order))), outcome


def use_backwards(config: Config, state: State, op: Deliver) -> Result:
    """MIR-5: P1 uses the items from the last to the first."""
    after, outcome = deliver(config, state, op)
    return after, outcome._replace(values=outcome.values[::-1])


def use_another(config: Config, state: State, op: Deliver) -> Result:
    """MIR-6: P1 uses a content of the same name."""
    after, outcome = deliver(config, state, op)
    return after, outcome._replace(values=(0,) * len(outcome.values))


def send_without_the_last(config: Config, state: State, op: Submit) -> Result:
    """MIR-6/kept: P0 decides upon, and sends, less than the client has asked for."""
    return submit(config, state, replace(op, items=op.items[:1]))


def send_the_oldest(config: Config, state: State, op: Send) -> Result:
    """MIR-6/kept: whichever request is ready, the one that was rendered first leaves."""
    return send(config, state, replace(op, which=0))


def join_backwards(config: Config, state: State, op: Join) -> Result:
    """MIR-6/kept: what is unanswered is decided anew, the last request first."""
    link = state.links[op.sender]
    return join(
        config, with_link(state, op.sender, link._replace(sender=link.sender._replace(log=link.sender.log[::-1]))), op
    )


def send_the_last_again(config: Config, state: State, op: FanOut) -> Result:
    """MIR-4/each: a message is made of the one before it, and is no update."""
    after, outcome = fan_out(config, state, op)
    before = state.links[op.sender].sender
    if outcome.code is not Code.DONE or before.log == ():
        return after, outcome
    link = after.links[op.sender]
    sender = before._replace(log=(*before.log, before.log[-1]._replace(items=op.items)))
    return with_link(after, op.sender, link._replace(sender=sender)), outcome


def keep_back(config: Config, state: State, op: Submit) -> Result:
    """MIR-4/at-once: P0 is updated, and the message waits though no other one does."""
    link = state.links[op.sender]
    if link.sender.joined == 0 or link.sender.log != ():
        return submit(config, state, op)
    sender = protocol.commit(lambda order, items: recency.walk(config, order, items), link.sender, op.items)
    return with_link(state, op.sender, link._replace(sender=sender)), DONE


def lose_what_is_processed(config: Config, state: State, op: Process) -> Result:
    """MIR-6/drafts: a request that is looked up is never heard of again."""
    return state, ABSENT


def die_of_it(config: Config, state: EraState, op: Deliver) -> tuple[EraState, Outcome]:
    """MIR-7: the thread that takes a message ends with it."""
    after, outcome = M3.step(config, state, op)
    return after._replace(dead=1), outcome


def join_and_forget(config: Config, state: State, op: Join) -> Result:
    """MIR-7/kept: nobody will send again what was unanswered."""
    link = state.links[op.sender]
    return join(config, with_link(state, op.sender, link._replace(sender=link.sender._replace(log=(), sent=0))), op)


def acknowledge_the_old(config: Config, state: State, op: Deliver) -> Result:
    """MIR-8: what is stale is acknowledged; without a partition it is still refused."""
    after, outcome = deliver(config, state, op)
    granted = state.links[op.sender].partition.granted == 1
    return after, DONE if granted and outcome.code is Code.STALE else outcome


def fail_on_eviction(config: Config, state: State, op: Submit) -> Result:
    """MIR-9: C-MIR-9: what was found at first has to be there at its turn."""
    order = state.links[op.sender].sender.order
    _, needed = recency.walk(config, order, op.items)
    if any(order.has(key) and need == 1 for key, need in zip(op.items, needed, strict=True)):
        return state, FAILED
    return submit(config, state, op)


def look_up_in_vain(config: Config, state: State, op: LookUp) -> Result:
    """MIR-9/looked-up: every item is said to be missing."""
    after, outcome = look_up(config, state, op)
    return after, outcome._replace(values=(1,) * len(op.items))


def send_again_at_once(config: Config, state: State, op: Expire) -> Result:
    """MIR-10: no answer is taken for a loss."""
    link = state.links[op.sender]
    return begun(state, op.sender, link, link._replace(sender=protocol.go_back(link.sender))), DONE


def send_everything(config: Config, state: State, op: Submit) -> Result:
    """MIR-10/needed: every payload, every time."""
    link = state.links[op.sender]
    if link.sender.joined == 0:
        return submit(config, state, op)
    sender = protocol.commit(lambda order, items: recency.walk(config, order, items), link.sender, op.items)
    full = sender.log[-1]._replace(payloads=(1,) * len(op.items))
    link = link._replace(sender=sender._replace(log=(*sender.log[:-1], full)))
    return transmit(config, with_link(state, op.sender, link), Transmit(op.sender))


def send_twice(config: Config, state: State, op: Transmit) -> Result:
    """MIR-10/once: what went out still counts as what has to."""
    after, outcome = transmit(config, state, op)
    link = after.links[op.sender]
    kept = link._replace(sender=link.sender._replace(sent=state.links[op.sender].sender.sent))
    return with_link(after, op.sender, kept), outcome


def admit_strangers(config: Config, state: State, op: Deliver) -> Result:
    """MIR-12: without a partition, a message is acknowledged."""
    after, outcome = deliver(config, state, op)
    stranger = state.links[op.sender].partition.granted == 0 and outcome.code is Code.STALE
    return after, DONE if stranger else outcome


def bug(transitions: Bug) -> AnyVariant:
    """The normative mirror with a bug."""
    return NORMATIVE_MIRROR.era("planted", "a planted bug", transitions, dict.fromkeys(transitions, "planted"))


RESET = Config(1, (1, 1), reset=1, outstanding=1)
LOSS = Config(1, (1, 1), drop=1)
LARGE = Config(1, (1, 1), items=2)
PAIRS = Config(2, (1, 1, 1), items=2)
NAMED_ALIKE = Config(2, (1, 1), identities=(0, 0))


class Planted(NamedTuple):
    """A bug, the property that it breaks, and where; `also` are those that break with it, in as few or fewer steps."""

    breaks: str
    variant: AnyVariant
    where: Config
    also: frozenset[str] = frozenset()


PLANTED = [
    Planted("MIR-1", bug({ResetReceiver: keep_grant}), RESET),
    Planted(
        "MIR-1/again",
        bug({Abort: abort_on_its_way}),
        Config(1, (1, 1), abort=1, outstanding=1),
        frozenset({"MIR-1/mended", "MIR-6/kept", "MIR-7/channel"}),
    ),
    Planted(
        "MIR-1/mended",
        bug({Abort: abort_on_its_way}),
        Config(1, (1, 1), abort=1, outstanding=1),
        frozenset({"MIR-1/again", "MIR-6/kept", "MIR-7/channel"}),
    ),
    Planted(
        "MIR-11",
        bug({Submit: one_byte_more(submit), Deliver: one_byte_more(deliver), Join: one_byte_more(join)}),
        Config(1, (1, 1)),
    ),
    Planted("MIR-2", bug({Deliver: send_no_payload}), Config(1, (1, 1))),
    Planted("MIR-3", bug({Deliver: skip_what_is_missing}), LOSS, frozenset({"MIR-7/taken"})),
    Planted("MIR-4", bug({SubmitRejected: update_and_reject}), Config(1, (1, 1), reject=1)),
    Planted(
        "MIR-4/each",
        bug({FanOut: send_the_last_again}),
        Config(1, (1, 1), fan_out=2, outstanding=3, channel=3),
    ),
    Planted("MIR-4/at-once", bug({Submit: keep_back}), Config(1, (1, 1))),
    Planted("MIR-5", bug({Deliver: use_backwards}), Config(2, (1, 1), items=2)),
    Planted("MIR-6", bug({Deliver: use_another}), NAMED_ALIKE),
    Planted("MIR-6/kept", bug({Submit: send_without_the_last}), LARGE),
    Planted("MIR-6/kept", bug({Send: send_the_oldest}), Config(1, (1, 1), rendered=2)),
    Planted("MIR-6/kept", bug({Join: join_backwards}), Config(1, (1, 1), reset=1)),
    Planted("MIR-6/drafts", bug({Process: lose_what_is_processed}), Config(1, (1, 1), processing=1)),
    Planted("MIR-7", M3.era("planted", "a planted bug", {Deliver: die_of_it}, {Deliver: "planted"}), Config(1, (1, 1))),
    Planted("MIR-7/kept", bug({Join: join_and_forget}), RESET, frozenset({"MIR-6/kept"})),
    Planted("MIR-7/served", NORMATIVE_MIRROR.lacking({Expire: "planted"}), LOSS),
    Planted("MIR-7/channel", bug({Reorder: repeat_the_first}), Config(1, (1, 1), reorder=1)),
    Planted("MIR-7/channel", bug({DropAnswer: lose_nothing}), LOSS),
    Planted("MIR-7/channel", bug({RestartReceiver: restart_beside_the_channel}), Config(1, (1, 1), restart=1)),
    Planted("MIR-8", bug({Deliver: acknowledge_the_old}), RESET),
    Planted("MIR-8/cleared", bug({ResetReceiver: reset_the_first_only}), RESET._replace(senders=2)),
    Planted("MIR-8/cleared", bug({ResetSender: reset_nothing}), RESET),
    Planted(
        "MIR-8/refused", bug({ResetReceiver: reset_and_deny}), RESET, frozenset({"MIR-10/history", "MIR-7/happens"})
    ),
    Planted("MIR-9", bug({Submit: fail_on_eviction}), LARGE),
    Planted("MIR-9/looked-up", bug({LookUp: look_up_in_vain}), Config(1, (1, 1), processing=1)),
    Planted("MIR-10", bug({Expire: send_again_at_once}), Config(1, (1, 1), drop=1, outstanding=1)),
    Planted("MIR-7/happens", bug({Abort: abort_nothing}), Config(1, (1, 1), abort=1, outstanding=1)),
    Planted("MIR-7/taken", bug({Receive: take_two}), Config(1, (1, 1))),
    Planted("MIR-10/gap", bug({Receive: ignore_complaints}), LOSS),
    Planted("MIR-10/counted", bug({Drop: drop_uncounted}), LOSS._replace(faults=2)),
    Planted("MIR-10/history", bug({DropAnswer: allow_one_more}), LOSS),
    Planted("MIR-10/history", bug({Receive: keep_the_allowance}), LOSS),
    Planted("MIR-10/needed", bug({Submit: send_everything}), Config(1, (1, 1)), frozenset({"MIR-9/fitting"})),
    Planted("MIR-10/once", bug({Transmit: send_twice}), LOSS),
    Planted("MIR-12", bug({Deliver: admit_strangers}), RESET, frozenset({"MIR-8"})),
]


def run(variant: AnyVariant, where: Config, *until: str) -> Exploration:
    """To the end, lassos included; or, for one step or state that breaks a property, to the level of the first one."""
    liveness = until in ((), ("MIR-7/served",))
    plan = Plan(symmetry=False, liveness=liveness, limit_states=20_000, until=frozenset(until))
    return explore(COMPONENT, variant, where, plan)


@pytest.mark.parametrize("where", sorted({planted.where for planted in PLANTED}), ids=str)
def test_the_normative_variant_holds_where_the_bugs_are_planted(where: Config) -> None:
    found = run(COMPONENT.normative, where)
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.breaks)
def test_a_planted_bug_breaks_its_property(planted: Planted) -> None:
    broken = {violation.property for violation in run(planted.variant, planted.where, planted.breaks).violations}
    assert broken == {planted.breaks} | planted.also


WALKS = {
    "a hit stays where it is": (
        "MIR-5/recency",
        Change(recency.walk, "order.push($key, $size), (*$needed, 0)", "order, (*needed, 0)"),
    ),
    "a request's own items are not touched first": (
        "MIR-9/fitting",
        Change(recency.touch_all, "order.push($key, $size)", "order"),
    ),
    "the last byte of the cache stays free": (
        "MIR-9/fitting",
        Change(recency.lacks_room, "$used > $most", "$used >= $most"),
    ),
}
"""Bugs in the one walk of both sides: their orders agree, so MIR-1 holds."""


@pytest.mark.parametrize(("breaks", "change"), WALKS.values(), ids=WALKS)
def test_a_bug_of_both_sides_breaks_a_property_of_the_walk(breaks: str, change: Change) -> None:
    assert run(COMPONENT.normative, PAIRS).violations == ()
    with planted_in_code(change):
        assert [violation.property for violation in run(COMPONENT.normative, PAIRS, breaks).violations] == [breaks]


SECOND_REPAIR = Change(protocol.answered, "$sender.joined == 0 or $answer.generation != $x", "sender.joined == 0")


@pytest.mark.parametrize(("scope", "found"), [("late-complaints", ["MIR-10"]), ("reset", [])])
def test_a_second_repair_is_found_where_complaints_stay_what_they_are(scope: str, found: list[str]) -> None:
    """The normal form takes a complaint of an earlier generation for one that only confirms."""
    where = scope_named(COMPONENT, scope)
    assert where.plan.normal_form is (found == [])
    with planted_in_code(SECOND_REPAIR):
        run = explore(COMPONENT, COMPONENT.normative, where.config, replace(where.plan, first=True))
    assert [violation.property for violation in run.violations] == found


def test_every_property_has_a_planted_bug() -> None:
    broken = {planted.breaks for planted in PLANTED} | {breaks for breaks, _ in WALKS.values()}
    assert {rule.name for rule in COMPONENT.properties()} == broken


WITNESSES = (
    "calm",
    "late-complaints",
    "look-ups",
    "fan-out",
    "reset",
    "larger-request",
    "rendering",
    "fewer-partitions",
    "reorder",
)


def test_every_witness_is_reached_in_a_default_scope() -> None:
    scopes = [scope_named(COMPONENT, name) for name in WITNESSES]
    assert {scope.set for scope in scopes} == {"default"}
    runs = [explore(COMPONENT, COMPONENT.normative, scope.config, scope.plan) for scope in scopes]
    assert unwitnessed(COMPONENT, runs) == ()


def test_a_witness_that_is_not_reached_is_missed() -> None:
    scope = scope_named(COMPONENT, "calm")
    found = explore(COMPONENT, COMPONENT.normative, scope.config, replace(scope.plan, depth=1))
    assert {"MIR-2", "MIR-10", "MIR-12"} <= set(unwitnessed(COMPONENT, [found]))
