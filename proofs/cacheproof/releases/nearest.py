"""Releases that are no era of their own: each of their components is tried with the eras of its neighbours.

A neighbour is the last release before it, and the first one after it, of which the component has an era. A release in
between is as the one or as the other in most of its components; where it is neither, it is told where it differs from
both. Nobody claims that these eras are true of it: what is known is what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.finding import Breakdown, Difference
from cacheproof.releases.conformance import EraResult
from cacheproof.targets.vllm.eras import Era, Table
from cacheproof.targets.vllm.release import Release


@dataclass(frozen=True, slots=True)
class Undriven:
    """A component of which a release could not be driven, and why."""

    component: str
    release: Release
    reason: str
    expected: bool
    """Whether a release before it has an era of this component: then it has it too, and the driver does not fit."""


def lines_for(
    lines: Table, release: Release, component: str | None, obstacle: Callable[[str], str]
) -> tuple[list[Era], list[Undriven]]:
    """What to run beside a release, and as which components it cannot be driven.

    A release with eras is compared with those. `obstacle` says why any other one cannot be driven as a component.
    """
    own = lines.of(release, component)
    if own:
        return own, []
    eras: list[Era] = []
    undriven: list[Undriven] = []
    for name in dict.fromkeys(era.component for era in lines.eras if component in (None, era.component)):
        reason, tried = obstacle(name), neighbours(lines, release, name)
        if reason:
            earlier = any(era.like is not None and era.like.parts < release.parts for era in tried)
            undriven.append(Undriven(name, release, reason, earlier))
        else:
            eras += tried
    return eras, undriven


def neighbours(lines: Table, release: Release, component: str) -> list[Era]:
    """The eras to try, the older ones first; one that both neighbours have is tried once.

    One from a path has the same version as a release with eras if it is a checkout of that release: then these alone.
    """
    plain = [era for era in lines.eras if era.component == component and not era.first]
    older = [era.release.parts for era in plain if era.release.parts < release.parts]
    newer = [era.release.parts for era in plain if era.release.parts > release.parts]
    near = [parts for parts in (max(older, default=None), min(newer, default=None)) if parts is not None]
    near = [release.parts] if any(era.release.parts == release.parts for era in plain) else near
    tried = {era.variant: era for parts in reversed(near) for era in plain if era.release.parts == parts}
    kept = [era for parts in near for era in plain if era.release.parts == parts and tried[era.variant] is era]
    return [replace(era, release=release, like=era.release) for era in kept]


def verdict(result: EraResult) -> str:
    """What came of an era of a neighbour, in words."""
    finding = result.finding
    if not isinstance(finding, Difference):
        return "agrees, as far as was tried"
    calls = len(finding.trace.steps)
    where = finding.trace.steps[-1].operation.wire_name() if calls else "the beginning"
    return f"differs at {where}, after {calls} call{'s' if calls != 1 else ''}"


def explained(results: Iterable[EraResult]) -> frozenset[tuple[str, Release]]:
    """Components of releases with which an era of a neighbour was seen to agree."""
    return frozenset((one.era.component, one.era.release) for one in results if one.era.like and one.agrees)


def hints(results: Iterable[EraResult]) -> list[Era]:
    """The eras of neighbours beside which a component is searched although it is as none of them.

    Such an era hints at where to look. What the release is said to break, it has done call by call as the era says.
    """
    tried = [result for result in results if result.era.like is not None]
    known = explained(tried)
    return [
        result.era
        for result in tried
        if isinstance(result.finding, Difference) and (result.era.component, result.era.release) not in known
    ]


def unsearched(results: Iterable[EraResult], undriven: Iterable[Undriven], searched: Iterable[Era]) -> list[str]:
    """Each component of a release in which no broken properties were searched for, with the reason."""
    there = {(era.component, era.release) for era in searched}
    reasons: dict[tuple[str, Release], list[str]] = {}
    for result in results:
        key = (result.era.component, result.era.release)
        if key not in there:
            reasons.setdefault(key, []).append(_why_not(result))
    for one in undriven:
        reasons.setdefault((one.component, one.release), []).append(f"not driven: {one.reason}")
    return [f"{component} of {release.name}: {'; '.join(why)}" for (component, release), why in reasons.items()]


def _why_not(result: EraResult) -> str:
    if isinstance(result.finding, Breakdown):
        return f"the driver failed beside {result.era.variant}"
    return f"not as its era {result.era.variant}"


def status(results: Iterable[EraResult], undriven: Iterable[Undriven]) -> ExitStatus:
    """It is as expected where one of the neighbours is; a component that is neither's falls short."""
    tried = [result for result in results if result.era.like is not None]
    known = explained(tried)
    open_questions = [one for one in tried if (one.era.component, one.era.release) not in known]
    if any(isinstance(one.finding, Difference) for one in open_questions):
        return ExitStatus.FELL_SHORT
    if open_questions or any(one.expected for one in undriven):
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.AS_EXPECTED
