"""Episodes that are gone through on the specification alone; those that show something new are made on both sides.

A call of the specification takes a tenth of the time of a call on both sides. What a call met and what became of it is
its situation: its operation and code, and what was decided of each request. A situation is new once with each setting.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

from cacheproof.foundation.console import Show
from cacheproof.lockstep.campaign import Campaign, Draw
from cacheproof.lockstep.decisions import decisions_of
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import shrunk
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Answer, Finding, Subject
from cacheproof.model.target import Target
from cacheproof.model.wording import count
from cacheproof.releases.against.beside import Beside
from cacheproof.releases.exploring import settings_of
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import Operation, Outcome

Situations = set[Hashable]
Operations = tuple[Operation, ...]


class Alone(Pair):
    """The specification, with nothing beside it."""

    def __init__(self, subject: Subject, left_out: frozenset[str], patience: int) -> None:
        unused: Target = SpecificationTarget(subject.component, subject.variant)
        super().__init__(subject, unused, "no target", left_out, patience)
        self._checks = False

    def _asked(self, operation: Operation | None, expected: Outcome | None) -> Answer:  # noqa: ARG002  # the target is not asked
        return Answer(expected, {})

    def _compared(self, expected: Answer, actual: Answer, broken: object) -> Finding | None:  # noqa: ARG002  # nor compared
        return None


def new_episodes(alone: Alone, steps: int, length: int, seed: int, known: Situations) -> Iterator[Operations]:
    """The episodes, of these many calls in all, with a situation that is not known; they become known."""
    subject, episode = alone.subject, 0
    decide = decisions_of(subject.component.name)
    settings = ["", *settings_of(subject.config)]
    while alone.tally.steps < steps:
        source = random.Random(f"{seed}/{subject.config}/{episode}")  # noqa: S311  # not a secret
        draw, before = Draw(subject.component.operations, source), len(known)
        alone.restart()
        while alone.offered and len(alone.operations) < length and alone.tally.steps < steps:
            view, call = alone.viewed(alone.state), draw(alone.offered)
            alone.apply(call)
            assert alone.latest is not None, "a call was made"
            situation = type(call), alone.latest[1].code, decide(subject.config, view, call, alone.viewed(alone.state))
            known.update((name, situation) for name in settings)
        episode += 1
        if len(known) > before:
            yield tuple(alone.operations)


def screened(
    pair: Beside,
    episodes: Iterator[Operations],
    limit: Limit,
    seed: int,
    *,
    seconds_to_shrink: float,
    progress: Show | None = None,
) -> Campaign:
    """The episodes on both sides, until they part or the limit is reached; the difference is minimised."""
    campaign = Campaign(seed, pair.tally)
    try:
        for calls in episodes:
            if limit.reached(pair.tally):
                break
            campaign.finding = pair.replay(calls, only_offered=True)
            if campaign.finding is not None:
                campaign.finding, campaign.came_again = shrunk(pair, campaign.finding, seconds_to_shrink, progress)
                break
            if progress is not None:
                progress(f"{pair.subject.component.name}: {count(pair.tally.steps, 'step')}, no difference")
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = campaign.tally.seconds
    return campaign
