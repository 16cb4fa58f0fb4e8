"""Calls that are known to lead somewhere, made on both sides, and then internal steps until nothing new comes."""

from __future__ import annotations

from collections.abc import Iterable

from cacheproof.foundation.console import Show
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK, shrunk
from cacheproof.model.finding import Finding
from cacheproof.model.wording import count
from cachespec.kernel import Kind, Operation

Operations = tuple[Operation, ...]
STEPS_AFTER = 12
"""Internal steps that are made behind the calls: a difference in what is kept may show only there."""


def retrace(
    pair: Pair,
    ways: Iterable[Operations],
    seed: int,
    *,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Campaign:
    """Make the calls of each way from the start, and steps behind them; the first finding is shrunk."""
    campaign = Campaign(seed, pair.tally)
    about = f"{pair.subject.component.name} {pair.subject.variant.tag}"
    try:
        for number, way in enumerate(ways):
            if progress is not None and number % 10 == 0:
                progress(f"{about}: repeating what was explored, {count(pair.tally.steps, 'step')}")
            campaign.finding = retraced(pair, way)
            if campaign.finding is not None:
                campaign.finding, campaign.came_again = shrunk(pair, campaign.finding, seconds_to_shrink, progress)
                break
    except KeyboardInterrupt:
        campaign.interrupted = True
    campaign.seconds = campaign.tally.seconds
    return campaign


def retraced(pair: Pair, way: Operations) -> Finding | None:
    """One of them. A call that is not offered any more, because it is left out, ends it."""
    finding = pair.replay(way, only_offered=True)
    for _ in range(STEPS_AFTER):
        internal = [one for one in pair.offered if one.kind is Kind.INTERNAL]
        if finding is not None or not internal:
            break
        finding = pair.apply(min(internal, key=lambda one: latest(pair.operations, type(one))))
    return finding


def latest(calls: list[Operation], kind: type[Operation]) -> int:
    """The place of the last call of this sort; -1 if there is none."""
    return max((place for place, call in enumerate(calls) if type(call) is kind), default=-1)
