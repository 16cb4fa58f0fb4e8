"""Properties that a target was seen to break: both sides in lockstep, every property watched on the specification's.

A target that agrees with an era, call by call, has come to the era's state; where a property does not hold there, the
target broke it. The first occurrence of each is kept and shrunk, and the search goes on past those that are known. Two
findings of one property are told apart by the call that breaks it, by its faults, and by what else they need: sorts of
calls and settings that the other does without.

Most episodes are looked at on the specification's side first, which is quicker. That is where to look, and no evidence:
every finding is made on both sides from the start, and kept only if they agree throughout.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.lockstep.campaign import Draw
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.properties import AnyProperty, all_broken_by_call
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.lockstep.violations_nearest import Seen, nearest
from cacheproof.lockstep.violations_progress import Settled, settled
from cacheproof.lockstep.violations_shrink import shrunk_alone
from cacheproof.model.finding import Answer, Finding, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import Target
from cacheproof.model.trace import Trace, record
from cacheproof.model.wording import count, not_plain
from cachespec.kernel import Code, Kind, Operation, Outcome

LENGTHS = (6, 12, 25, 50, 100)
"""Of episodes. A short one shrinks at once, and some things need a long one."""
SECONDS_TO_SHRINK = 6.0
SHARE_OF_BOTH = 0.25
"""Of the episodes, those that are made on both sides at once."""
STATES = 400
"""Of a configuration that is explored."""
MORE_TRIES = 3
"""How often a finding that is known is shrunk from another run as well: the shortest is kept."""


class Key(NamedTuple):
    """What is told apart at once."""

    rule: str
    """The property, by name."""
    operation: str
    """The call that breaks it; empty where nobody calls any more."""
    faults: tuple[str, ...]
    """The sorts of faults before it, sorted."""
    disciplined: bool
    """Whether callers keep the order of the engine's own, where the configuration says so or knows no other."""


def key_of(subject: Subject, rule: AnyProperty, operation: str, calls: Iterable[Operation]) -> Key:
    """The key of these calls, of which this operation breaks the property."""
    faults = sorted({call.wire_name() for call in calls if call.kind is Kind.FAULT})
    return Key(rule.name, operation, tuple(faults), bool(getattr(subject.config, "disciplined", 1)))


def needs_of(subject: Subject, calls: Iterable[Operation]) -> frozenset[str]:
    """The sorts of calls, and the settings that are on."""
    return frozenset(call.wire_name() for call in calls) | set(not_plain(subject.config))


@dataclass(frozen=True, slots=True)
class Broken:
    """A property that the target broke, by a run that no call can be left out of as far as shrinking goes.

    `cycle` are the internal steps that come round for ever after `trace`; `ending` is `diverged` where the last call
    does not return, `stuck` or `lasso` where something is owed and never comes, and otherwise empty.
    """

    subject: Subject
    rule: AnyProperty
    trace: Trace
    ending: str
    cycle: tuple[Operation, ...]
    steps: int
    """Random calls by the end of the episode that showed it: none where it was seen in the nearest states."""
    episode: int | None
    """Of random calls, from 0; None where it was seen in the nearest states."""
    remark: str = ""
    """What the target said of the last call beside its outcome: the exception of one that failed."""

    @property
    def calls(self) -> tuple[Operation, ...]:
        """From the initial state."""
        return self.trace.operations

    @property
    def operation(self) -> str:
        """The call that breaks it; empty where nobody calls any more."""
        return "" if self.cycle or self.ending == "stuck" else self.calls[-1].wire_name()

    @property
    def needs(self) -> frozenset[str]:
        """The sorts of calls in it, and the settings that are on."""
        return needs_of(self.subject, self.calls)

    @property
    def key(self) -> Key:
        """What is told apart at once."""
        return key_of(self.subject, self.rule, self.operation, self.calls)

    def covers(self, other: Broken) -> bool:
        """Whether the other one says nothing more: it is told apart by nothing, needs as much, and is no shorter."""
        return self.key == other.key and self.needs <= other.needs and len(self.calls) <= len(other.calls)


@dataclass(slots=True)
class Hunt:
    """What a search did, and found."""

    seed: int
    tally: Tally = field(default_factory=Tally)
    """Of random episodes on both sides."""
    foreseen: Tally = field(default_factory=Tally)
    """Of random episodes on the specification's side alone."""
    states: int = 0
    """That were explored before, each once in its configuration."""
    found: list[Broken] = field(default_factory=list)
    disagreements: list[Finding] = field(default_factory=list)
    """Where target and specification part, or the target's driver failed: such an episode ends there."""
    interrupted: bool = False

    @property
    def steps(self) -> int:
        """Random calls of both sorts of episodes."""
        return self.tally.steps + self.foreseen.steps

    @property
    def episodes(self) -> int:
        """Of both sorts."""
        return self.tally.episodes + self.foreseen.episodes

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self.tally.seconds


class Foreseen(Pair):
    """The specification's side alone: the target is not asked."""

    def _asked(self, operation: Operation | None, expected: Outcome | None) -> Answer:  # noqa: ARG002  # nobody is asked
        return Answer(expected, {})


def hunt(
    component: AnyComponent,
    variant: AnyVariant,
    configurations: Iterable[Any],
    target: Target,
    *,
    limit: Limit,
    seed: int,
    explored: Iterable[Any] = (),
    foreseen: Iterable[tuple[Any, Seen]] = (),
    states: int = STATES,
    name: str = "target",
    left_out: frozenset[str] = frozenset(),
    kept: frozenset[str] = frozenset(),
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Hunt:
    """An episode in each configuration, until the limit or the last one. The same arguments make the same calls.

    Before that, the first `states` states of each configuration in `explored` are gone through in the order of their
    distance from the start: what they show is shown in as few calls as can be there. `foreseen` is what an earlier
    exploration of the variant has seen, each with its configuration.
    `kept` are settings that a plainer configuration keeps. Ctrl-C ends it with what is known. A limit of seconds, and
    how far shrinking comes, depend on the machine.
    """
    search = _Search(Hunt(seed), kept, seconds_to_shrink, progress)
    try:
        for config in explored:
            search.explore(Pair(Subject(component, variant, config), target, name, left_out), states)
        for config, seen in foreseen:
            search.consider(Pair(Subject(component, variant, config), target, name, left_out), seen, None)
            search.tell("repeating what was explored")
        for config in configurations:
            if limit.reached(search.hunt):
                break
            source = random.Random(f"{seed}/{search.hunt.episodes}")  # noqa: S311  # not a secret
            beside = source.random() < SHARE_OF_BOTH
            pair = (Pair if beside else Foreseen)(Subject(component, variant, config), target, name, left_out)
            pair.tally = search.hunt.tally if beside else search.hunt.foreseen
            search.run(pair, source)
    except KeyboardInterrupt:
        search.hunt.interrupted = True
    return search.hunt


@dataclass(slots=True)
class _Search:
    hunt: Hunt
    kept: frozenset[str]
    seconds_to_shrink: float
    progress: Show | None
    tried: dict[Key, int] = field(default_factory=dict)
    refuted: dict[Key, int] = field(default_factory=dict)
    """How often the target did not do what the specification's side has shown: then it is not shrunk any more."""

    def run(self, pair: Pair, source: random.Random) -> None:
        """One episode, and what comes of it."""
        parted, episode = self.parted, self.hunt.episodes
        for seen in self.episode(pair, source):
            if self.parted == parted:
                self.consider(pair, seen, episode)

    def explore(self, pair: Pair, states: int) -> None:
        """The nearest states, and what comes of them; there may be fewer."""

        def gone_through(known: int, sorts: int) -> None:
            self.hunt.states += 1
            if self.progress is not None:
                self.progress(f"{known:,} states, {sorts} sorts of violations")

        for seen in nearest(pair, states, gone_through):
            self.consider(pair, seen, None)

    def tell(self, doing: str) -> None:
        """What runs, and how much it has found."""
        if self.progress is not None:
            self.progress(f"{doing}, {count(len(self.hunt.found), 'violation')}")

    @property
    def parted(self) -> int:
        """How often target and specification have parted."""
        return len(self.hunt.disagreements)

    def agrees(self, finding: Finding | None) -> bool:
        """Whether there is no disagreement; one is kept."""
        if finding is not None:
            self.hunt.disagreements.append(finding)
        return finding is None

    def episode(self, pair: Pair, source: random.Random) -> list[Seen]:
        """What was broken freshly in a run of random calls, each with the calls until then."""
        draw = Draw(pair.subject.component.operations, source)
        faults = _faults(pair.subject, source)
        longest, seen = source.choice(LENGTHS), dict[tuple[AnyProperty, type[Operation] | None], Seen]()

        def broken(rule: AnyProperty, kind: type[Operation] | None) -> None:
            seen.setdefault((rule, kind), Seen(rule, kind, tuple(pair.operations)))

        if not self.agrees(pair.restart()):
            return []
        at_the_start = settled(pair.subject, pair.state)
        anyway = () if at_the_start is None else at_the_start.rules
        while len(pair.operations) < longest:
            offered = tuple(one for one in pair.offered if one.kind is not Kind.FAULT or type(one) in faults)
            if not offered:
                break
            before, operation = pair.state, draw(offered)
            if not self.agrees(pair.apply(operation)) or pair.latest is None:
                return list(seen.values())
            outcome = pair.latest[1]
            for rule in all_broken_by_call(pair.subject, before, operation, outcome, pair.state, pair.viewed):
                broken(rule, type(operation))
            if outcome.code is Code.DIVERGED:
                return list(seen.values())
        if (end := settled(pair.subject, pair.state)) is not None:
            for rule in (one for one in end.rules if one not in anyway):
                broken(rule, None)
        if self.progress is not None:
            hunt = self.hunt
            self.progress(
                ", ".join(
                    (count(hunt.steps, "call"), count(hunt.episodes, "episode"), count(len(hunt.found), "violation"))
                )
            )
        return list(seen.values())

    def consider(self, pair: Pair, seen: Seen, episode: int | None) -> None:
        """Shrink it, unless that was done often enough; and run both sides with what is left."""
        rule, kind, calls, subject = seen.rule, seen.kind, seen.calls, pair.subject
        key = key_of(subject, rule, "" if kind is None else kind.wire_name(), calls)
        needs = needs_of(subject, calls)
        alike = [one for one in self.hunt.found if one.key == key and one.needs <= needs]
        if alike:
            shortest = min(len(one.calls) for one in alike)
            if self.tried.get(key, 0) >= MORE_TRIES or len(calls) <= shortest:
                return
            self.tried[key] = self.tried.get(key, 0) + 1
        if self.refuted.get(key, 0) >= MORE_TRIES:
            return
        left = shrunk_alone(subject, rule, kind, calls, self.seconds_to_shrink, self.kept)
        if left is None:
            return
        found = self.described(left[0], Seen(rule, kind, left[1]), episode)
        if found is None or any(one.covers(found) for one in self.hunt.found):
            return
        again = Pair(subject=found.subject, target=pair.target, name=pair.name)
        if self.agrees(self.confirm(again, found)):
            found = replace(found, remark=again.remark)
            self.hunt.found = [*(one for one in self.hunt.found if not found.covers(one)), found]
        else:
            self.refuted[key] = self.refuted.get(key, 0) + 1

    def described(self, subject: Subject, seen: Seen, episode: int | None) -> Broken | None:
        """The finding with all that is said of it."""
        calls, ending, cycle = seen.calls, "", tuple[Operation, ...]()
        if seen.kind is None:
            state = subject.variant.start(subject.config)
            for call in calls:
                state, _ = subject.variant.call(subject.config, state, call)
            end = settled(subject, state)
            if end is None:
                return None
            calls, cycle, ending = (*calls, *end.path), end.cycle, _sort(end)
        trace = record(subject.component, subject.variant, subject.config, calls, whole_calls=True)
        if trace.steps and trace.steps[-1].outcome.code is Code.DIVERGED:
            ending = "diverged"
        return Broken(subject, seen.rule, trace, ending, cycle, self.hunt.steps, episode)

    def confirm(self, again: Pair, found: Broken) -> Finding | None:
        """Both sides make these calls, and a cycle twice: the first difference, or None where they agree throughout."""
        return again.replay((*found.calls, *found.cycle, *found.cycle), only_offered=False)


def _sort(end: Settled) -> str:
    return "lasso" if end.cycle else "stuck"


def _faults(subject: Subject, source: random.Random) -> frozenset[type[Operation]]:
    """Which faults an episode has: none, one sort, or all. So what needs one sort comes without the others."""
    every = [kind for kind in subject.variant.transitions if kind.kind is Kind.FAULT]
    off = subject.component.switched_off(subject.config)
    there = [kind for kind in every if kind not in off]
    chosen = source.choice(("none", "one", "one", "all"))
    if not there or chosen == "none":
        return frozenset()
    return frozenset(there) if chosen == "all" else frozenset({source.choice(there)})


def by_property(found: Sequence[Broken]) -> Iterator[Broken]:
    """In the order of the component's properties, the shortest first."""
    for rule in found[0].subject.component.properties() if found else ():
        yield from sorted((one for one in found if one.rule == rule), key=lambda one: (len(one.calls), one.operation))
