"""One run in several parts, each with a seed of its own, by the workers of a cluster; findings come together here.

The parts only look for something. Of the findings of one sort, the shortest is minimised, once, by this process.
The same seed and number of parts make the same calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from cacheproof.foundation.console import Show
from cacheproof.foundation.seeds import LARGEST_SEED
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.plan import Plan, perform, prepared
from cacheproof.lockstep.scoped import Around
from cacheproof.lockstep.shrink import alike, shrunk
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Finding, Subject
from cacheproof.model.registry import component_named, variant_named

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    """What a cluster is asked for."""

    @property
    def workers(self) -> int:
        """How many there are."""
        ...

    def shared_out(self, call: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterable[Result]:
        """What `call` returns for each task, in any order."""
        ...


class Part(NamedTuple):
    """A run as plain data. `plan` has no subjects: these are given by names and values."""

    number: int
    plan: Plan
    component: str
    variant: str
    configurations: dict[str, tuple[Any, ...]]


def parts_of(plan: Plan, count: int) -> list[Part]:
    """Runs that share the calls. The first one has the seed of all, the others have seeds that follow from it."""
    steps, subject = plan.limit.steps, plan.subject
    configurations = {scope: tuple(one.config) for scope, one in plan.subjects.items()}
    parts = []
    for number in range(count):
        own = None if steps is None else steps // count + (number < steps % count)
        if own == 0:
            break
        source = random.Random(f"{plan.seed}/{number}")  # noqa: S311  # not a secret
        made = replace(
            plan,
            subjects={},
            limit=Limit(own, plan.limit.seconds),
            seed=source.randrange(LARGEST_SEED) if number else plan.seed,
            reuse=plan.reuse and number == 0,
            minimises=False,
        )
        parts.append(Part(number, made, subject.component.name, subject.variant.tag, configurations))
    return parts


def performed(part: Part) -> tuple[int, Campaign]:
    """In a worker: what one part found and did."""
    component = component_named(part.component)
    variant = variant_named(component, part.variant)
    subjects = {
        scope: Subject(component, variant, component.config(*values)) for scope, values in part.configurations.items()
    }
    return part.number, perform(replace(part.plan, subjects=subjects))


def spread(plan: Plan, cluster: Workers, progress: Show) -> Campaign:
    """The run in as many parts as the cluster has workers. Ctrl-C ends it with the parts that are done."""
    parts, done = parts_of(plan, cluster.workers), dict[int, Campaign]()
    with suppress(KeyboardInterrupt):
        for number, campaign in cluster.shared_out(performed, parts):
            done[number] = campaign
            progress(f"{len(done)} of {len(parts)} parts: {campaign.tally.steps:,} steps in the last one")
    whole = gathered(plan.seed, [done[number] for number in sorted(done)])
    whole.interrupted = whole.interrupted or len(done) < len(parts)
    findings = sorts_of([done[number] for number in sorted(done)])
    if findings:
        _minimise(plan, whole, findings, progress)
    whole.seconds = whole.tally.seconds
    return whole


def gathered(seed: int, done: Sequence[Campaign]) -> Campaign:
    """What all parts did, without what they found."""
    whole = Campaign(seed)
    for one in done:
        whole.tally.add(one.tally)
        whole.interrupted = whole.interrupted or one.interrupted
        whole.set_aside.update(one.set_aside)
        for scope, calls in one.scopes.items():
            whole.scopes[scope] = whole.scopes.get(scope, 0) + calls
        if one.around is not None:
            whole.around = whole.around or Around()
            whole.around.configurations |= one.around.configurations
            whole.around.refused |= one.around.refused
            whole.around.calls += one.around.calls
    never = [frozenset(one.ignored) for one in done if one.finding is None]
    if never:
        whole.ignored = tuple(sorted(frozenset.intersection(*never)))
    return whole


def sorts_of(done: Sequence[Campaign]) -> list[tuple[Finding, str]]:
    """The shortest finding of each sort, with its scope; the shortest of all first, and of equal ones the earlier."""
    found = [(one.finding, one.scope) for one in done if one.finding is not None]
    kept: list[tuple[Finding, str]] = []
    for finding, scope in sorted(found, key=lambda each: len(each[0].trace.steps)):
        if not any(alike(finding, other) for other, _ in kept):
            kept.append((finding, scope))
    return kept


def _minimise(plan: Plan, whole: Campaign, findings: Sequence[tuple[Finding, str]], progress: Show) -> None:
    """Each once. The first one is the finding of the run."""
    with prepared(plan) as scopes:
        pair, smaller = scopes.pairs[0], list[tuple[Finding, bool]]()
        for finding, _ in findings:
            pair.configure(finding.trace.config)
            smaller.append(shrunk(pair, finding, progress=progress))
    (whole.finding, whole.came_again), whole.scope = smaller[0], findings[0][1]
    whole.others = tuple(finding for finding, _ in smaller[1:])
