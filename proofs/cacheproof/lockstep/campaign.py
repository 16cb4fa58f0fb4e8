"""The plain driver: random calls, both sides, for as long as it takes. It needs no extra."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.lockstep.pair import PATIENCE, Pair
from cacheproof.lockstep.scoped import Around, Scoped
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK, shrunk
from cacheproof.lockstep.steering import Steering
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.finding import Finding, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import Target
from cacheproof.model.wording import count
from cachespec.kernel import Kind, Operation

RESTART_EVERY = 100
WEIGHTS = {Kind.CALL: (0, 1, 3, 9), Kind.INTERNAL: (1, 3, 9), Kind.FAULT: (0, 0, 0, 1)}
"""How likely an operation may be in one episode: a run without `clear`, say, or with one fault among many calls, comes
to states that others never see."""
STEPS_BETWEEN_PROGRESS = 50


@dataclass(slots=True)
class Campaign:
    """What a run found and did. `finding` is None where both sides agreed throughout."""

    seed: int
    tally: Tally = field(default_factory=Tally)
    finding: Finding | None = None
    others: tuple[Finding, ...] = ()
    """Findings of other sorts, of a run in several parts."""
    came_again: bool = True
    """False where the finding was seen once and not again when the same calls were made anew."""
    interrupted: bool = False
    seconds: float = 0.0
    """How long it took, shrinking included."""
    ignored: tuple[str, ...] = ()
    """Fields of the configuration that the specification reads and the target never did."""
    scope: str = ""
    """The scope that the finding is in; empty where its configuration is of none."""
    scopes: dict[str, int] = field(default_factory=dict)
    """Calls in each scope; empty where the configuration is of the caller's making."""
    set_aside: dict[str, str] = field(default_factory=dict)
    """Scopes whose configuration the target refuses, and what it says."""
    around: Around | None = None
    """What was done in configurations around those of the scopes; None where only those of the scopes were wanted."""


def lockstep(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    target: Target,
    *,
    steps: int | None,
    seed: int,
    restart_every: int = RESTART_EVERY,
    name: str = "target",
    seconds: float | None = None,
    left_out: frozenset[str] = frozenset(),
    patience: int = PATIENCE,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Campaign:
    """Drive the target beside the specification for so many steps or seconds, and shrink the first finding.

    The same arguments make the same calls, and another configuration gets others. Each episode has its own random
    source, so a part of a run can be had alone. Ctrl-C ends the run with what is known. A target whose driver fails
    ends it with a `Breakdown`.
    """
    pair = Pair(Subject(component, variant, config), target, name, left_out, patience)
    limit = Limit(steps, seconds)
    return searched(pair, limit, seed, restart_every, seconds_to_shrink=seconds_to_shrink, progress=progress)


def searched(
    pair: Pair,
    limit: Limit,
    seed: int,
    restart_every: int,
    *,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Campaign:
    """The same with two sides that are there already."""
    campaign = Campaign(seed, pair.tally)
    try:
        campaign.finding = _search(pair, limit, seed, restart_every, progress)
        if campaign.finding is not None:
            campaign.finding, campaign.came_again = shrunk(pair, campaign.finding, seconds_to_shrink, progress)
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = campaign.tally.seconds
    return campaign


def _search(pair: Pair, limit: Limit, seed: int, restart_every: int, progress: Show | None) -> Finding | None:
    tally = pair.tally
    while not limit.reached(tally):
        # A short campaign has an episode or two. Without the configuration, many campaigns would draw the same weights.
        source = random.Random(f"{seed}/{pair.subject.config}/{tally.episodes}")  # noqa: S311  # not a secret
        draw = Draw(pair.subject.component.operations, source)
        finding = pair.restart()
        while finding is None and pair.offered and len(pair.operations) < restart_every and not limit.reached(tally):
            finding = pair.apply(draw(pair.offered))
            if progress is not None and tally.steps % STEPS_BETWEEN_PROGRESS == 0:
                about = f"{pair.subject.component.name} {pair.subject.variant.tag}"
                progress(f"{about}: {count(tally.steps, 'step')}, {count(tally.episodes, 'episode')}, no difference")
        if finding is not None:
            return finding
    return None


def steered(
    scopes: Scoped,
    limit: Limit,
    seed: int,
    *,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Campaign:
    """The scopes in turn, with calls that `Steering` chooses: what the machine does, without Hypothesis."""
    campaign = Campaign(seed, scopes.tally, scopes=scopes.calls, set_aside=scopes.set_aside, around=scopes.around)
    steering = Steering(scopes.pairs, random.Random(seed))  # noqa: S311  # not a secret
    number = 0
    try:
        while campaign.finding is None and not limit.reached(scopes.tally):
            number = steering.begin(scopes.set_aside_numbers)
            campaign.finding = _episode(scopes, number, steering, limit, progress)
        if campaign.finding is not None:
            campaign.scope = scopes.scope_of(number, campaign.finding)
            found = shrunk(scopes.pairs[number], campaign.finding, seconds_to_shrink, progress)
            campaign.finding, campaign.came_again = found
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = campaign.tally.seconds
    return campaign


def _episode(scopes: Scoped, number: int, steering: Steering, limit: Limit, progress: Show | None) -> Finding | None:
    pair = scopes.pairs[number]
    began, finding = scopes.restart(number, steering.settings() if scopes.around is not None else 0)
    while began and finding is None and pair.offered and not limit.reached(scopes.tally):
        place = steering.choose(number)
        if place == len(pair.offered):
            break
        scopes.count_call(number)
        finding = pair.apply(pair.offered[place])
        steering.note(number)
        if progress is not None and scopes.tally.steps % STEPS_BETWEEN_PROGRESS == 0:
            about = f"{pair.subject.component.name} {pair.subject.variant.tag}"
            done = f"{count(scopes.tally.steps, 'step')}, {count(scopes.tally.episodes, 'episode')}"
            progress(f"{about}: {done}, no difference")
    return finding


class Draw:
    """Chooses among the operations offered: first what sort, by the weights of this episode, then which one."""

    def __init__(self, sorts: Sequence[type[Operation]], source: random.Random) -> None:
        self.source = source
        self.weights = {sort: source.choice(WEIGHTS[sort.kind]) for sort in sorts}

    def __call__(self, offered: tuple[Operation, ...]) -> Operation:
        by_sort: dict[type[Operation], list[Operation]] = {}
        for operation in offered:
            by_sort.setdefault(type(operation), []).append(operation)
        weights = [self.weights[sort] for sort in by_sort]
        sorts = list(by_sort)
        chosen = self.source.choices(sorts, weights)[0] if any(weights) else self.source.choice(sorts)
        return self.source.choice(by_sort[chosen])
