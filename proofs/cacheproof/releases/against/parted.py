"""What one part of a comparison has shown: how far it went, and a difference with what both sides said on the way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import Campaign, searched
from cacheproof.lockstep.tally import Limit
from cacheproof.model.declaration import declared_by
from cacheproof.model.finding import Answer, Breakdown, Difference, Subject, said, shown
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.target import Target
from cacheproof.model.wire import Message, config_to_message, operation_to_message
from cacheproof.model.wording import count
from cacheproof.releases.against.beside import Beside
from cacheproof.releases.against.judging import Broken, judged
from cacheproof.releases.against.parts import Part, Stretch
from cacheproof.releases.against.screening import Alone, Situations, new_episodes, screened

SECONDS_TO_SHRINK = 20.0


@dataclass(frozen=True, slots=True)
class Parted:
    """The two sides part at the last of these calls, or in the initial state if there is none."""

    component: str
    alphabet: str
    config: Message
    calls: tuple[Message, ...]
    answers: tuple[tuple[Answer, Answer], ...]
    """Of the base and the target: in the initial state, then after each call."""
    target_breaks: tuple[Broken, ...] = ()
    """Properties that the target's answers break, and those of the base do not."""
    base_breaks: tuple[Broken, ...] = ()
    """The other way round."""
    came_again: bool = True
    """False if the same calls did not show it a second time: one side is not deterministic."""

    @property
    def where(self) -> str:
        """The call at which both sides part, and what differs there."""
        what = ", ".join(name for name, _, _ in self.differing)
        at = self.calls[-1]["op"] if self.calls else "the beginning"
        return f"differs at {at} ({what}), after {count(len(self.calls), 'call')}"

    @property
    def differing(self) -> list[tuple[str, str, str]]:
        """What differs at the end: its name, what the base has, and what the target has."""
        base, target = self.answers[-1]
        outcome = [("answer", said(base.outcome), answered(target))] if base.outcome != target.outcome else []
        both = [name for name in base.observations if name in target.observations]
        shows = [(name, base.observations[name], target.observations[name]) for name in both]
        return [*outcome, *((name, shown(ours), shown(theirs)) for name, ours, theirs in shows if ours != theirs)]


@dataclass(slots=True)
class Ran:
    """What came of a part. It can be sent from another process."""

    steps: int = 0
    episodes: int = 0
    states: int = 0
    without_answer: int = 0
    seconds: float = 0.0
    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    observables: set[str] = field(default_factory=set)
    parted: Parted | None = None
    failure: str = ""
    """Why a driver failed: nothing more is known of this component."""
    interrupted: bool = False


def answered(answer: Answer) -> str:
    """The outcome, with the exception of a call that failed."""
    return said(answer.outcome) + (f": {answer.remark}" if answer.remark else "")


def ran(
    part: Part,
    target: Target,
    base: Target,
    names: tuple[str, str],
    until: float | None = None,
    progress: Show | None = None,
    known: Situations | None = None,
) -> Ran:
    """One configuration after the other, until the two sides part, or until this moment of the monotonic clock.

    `known` are the situations that no screened configuration of the line has to show again; new ones are added.
    """
    component = component_named(part.line.component)
    variant = variant_named(component, part.line.alphabet)
    result = Ran()
    missing = declared_by(component, target).missing(component) | declared_by(component, base).missing(component)
    for stretch, values in ((one, values) for one in part.stretches for values in one.configurations):
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            break
        subject = Subject(component, variant, component.config(*values))
        pair = Beside(subject, target, base, names, missing, stretch.patience)
        try:
            campaign = _campaign(pair, stretch, left, missing, set() if known is None else known, progress)
        except InputError:  # this variant offers nothing in this configuration
            continue
        _add(result, pair, campaign)
        if result.parted is not None or result.failure or result.interrupted:
            break
    return result


def _campaign(
    pair: Beside,
    stretch: Stretch,
    seconds: float | None,
    missing: frozenset[str],
    known: Situations,
    progress: Show | None,
) -> Campaign:
    """All calls that the stretch has for one configuration."""
    if stretch.screened:
        alone = Alone(pair.subject, missing, stretch.patience)
        episodes = new_episodes(alone, stretch.steps, stretch.episode, stretch.seed, known)
        return screened(
            pair, episodes, Limit(None, seconds), stretch.seed, seconds_to_shrink=SECONDS_TO_SHRINK, progress=progress
        )
    return searched(
        pair,
        Limit(stretch.steps, seconds),
        stretch.seed,
        stretch.episode,
        seconds_to_shrink=SECONDS_TO_SHRINK,
        progress=progress,
    )


def _add(result: Ran, pair: Beside, campaign: Campaign) -> None:
    tally = campaign.tally
    result.steps += tally.steps
    result.episodes += tally.episodes
    result.states += len(tally.states)
    result.without_answer += pair.without_answer
    result.seconds += campaign.seconds
    result.observables |= tally.observables
    result.interrupted = campaign.interrupted
    for operation, codes in tally.by_operation().items():
        counts = result.operations.setdefault(operation, {})
        for code, times in codes.items():
            counts[code] = counts.get(code, 0) + times
    if isinstance(campaign.finding, Difference):
        result.parted = described(pair, campaign.finding, came_again=campaign.came_again)
    elif isinstance(campaign.finding, Breakdown):
        result.failure = campaign.finding.reason


def described(pair: Beside, finding: Difference, *, came_again: bool) -> Parted:
    """The calls once more, with what both sides say to each and what that breaks."""
    calls = finding.trace.operations
    if came_again:
        pair.replay(calls, only_offered=False)
    answers = tuple(pair.answers)
    of_base = [base for base, _ in answers]
    base = judged(pair.subject, calls, of_base, of_base)
    target = judged(pair.subject, calls, [said for _, said in answers], of_base)
    return Parted(
        component=pair.subject.component.name,
        alphabet=pair.subject.variant.tag,
        config=config_to_message(pair.subject.config),
        calls=tuple(operation_to_message(call) for call in calls),
        answers=answers,
        target_breaks=target.alone(base),
        base_breaks=base.alone(target),
        came_again=came_again,
    )
