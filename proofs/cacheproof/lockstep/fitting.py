"""Which mixture of rules an implementation follows.

The search begins with the variant itself and drives the target beside it until both part. Each rule that brings the
same calls further makes a new mixture. The cheapest mixture is tried next: first on all calls by which earlier ones
parted, then on random calls in every scope. So a mixture that fits has as few rules as possible.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from cacheproof.foundation.console import Show
from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import shrunk
from cacheproof.model.finding import Breakdown, Finding, Subject
from cacheproof.model.mixture import AnyRule, agree, mixture, rules_of, suits
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.scope import Scope
from cacheproof.model.target import Target
from cachespec.kernel import Operation

MOST_RULES = 6
MOST_MIXTURES = 100
SECONDS_TO_SHRINK, SECONDS_TO_SHRINK_THE_LAST = 5.0, 20.0
"""For calls that only tell mixtures apart, and for those that people read."""
DECLARED, OF_AN_ERA, GUARD = 2, 3, 4
"""What a rule costs: a guard only leaves calls out, so another explanation is tried before it."""

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parting:
    """Calls in one scope by which the target parted from some mixture."""

    scope: Scope
    operations: tuple[Operation, ...]
    finding: Finding


@dataclass(slots=True)
class Fitting:
    """What the search knows."""

    seed: int
    variant: AnyVariant
    """The mixture that fits, or the closest one."""
    left: Parting | None = None
    """Where the target parts from it; None if it fits."""
    tried: list[Names] = field(default_factory=list)
    """The mixtures that were compared, by their rules."""
    steps: int = 0
    """Calls that were compared with the last mixture, over all scopes."""
    scopes: int = 0
    """Scopes in which they were made without a difference."""
    shown: set[str] = field(default_factory=set)
    """The rules that these calls have shown."""
    interrupted: bool = False
    out_of_time: bool = False
    seconds: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the whole search found a mixture without a difference."""
        return self.left is None and not self.interrupted and not self.out_of_time


@dataclass(slots=True)
class Search:
    """One target, and what it is driven with."""

    component: AnyComponent
    base: AnyVariant
    scopes: Sequence[Scope]
    target: Target
    name: str
    steps: int
    """Calls in each scope."""
    seed: int
    left_out: frozenset[str] = frozenset()
    most_rules: int = MOST_RULES
    seconds: float | None = None
    progress: Show | None = None
    known: list[Parting] = field(default_factory=list)
    """The calls that told mixtures apart so far."""

    def run(self) -> Fitting:
        """The cheapest mixture without a difference, or the closest. Ctrl-C ends it with what is known."""
        done = Fitting(self.seed, self.base)
        began = time.monotonic()
        try:
            self._search(done, began)
        except KeyboardInterrupt:
            done.interrupted = True
        done.seconds = time.monotonic() - began
        return done

    def _search(self, done: Fitting, began: float) -> None:
        waiting: list[tuple[int, int, Names]] = [(0, 0, ())]
        known: dict[frozenset[str], Parting | None] = {}
        while waiting and len(done.tried) < MOST_MIXTURES:
            cost, _, names = heapq.heappop(waiting)
            if frozenset(names) in known:
                continue
            if self.seconds is not None and time.monotonic() - began > self.seconds:
                done.out_of_time = True
                break
            done.tried.append(names)
            done.variant, done.left = self.variant(names), None
            left = known[frozenset(names)] = self._compared(done)
            if left is None:
                return
            for rule, price in self._further(names, left):
                heapq.heappush(waiting, (cost + price, len(done.tried), (*names, rule.name)))
        self._closest(done)

    def variant(self, names: Names) -> AnyVariant:
        """The mixture with these rules."""
        return mixture(self.component, self.base, names) if names else self.base

    def _compared(self, done: Fitting) -> Parting | None:
        """Where the target parts from the mixture: by calls that are known, or by new ones."""
        for known in self.known:
            finding = self.replayed(done.variant, known)
            if finding is not None:
                return Parting(known.scope, known.operations, finding)
        done.steps, done.scopes, done.shown = 0, 0, set()
        for scope in self._hardest_first():
            found = lockstep(
                self.component,
                done.variant,
                scope.config,
                self.target,
                steps=self.steps,
                seed=self.seed,
                name=self.name,
                left_out=self.left_out,
                seconds_to_shrink=SECONDS_TO_SHRINK,
                progress=self.progress,
            )
            if found.interrupted:
                raise KeyboardInterrupt
            done.steps += found.tally.steps
            done.shown |= found.tally.rules
            if found.finding is not None:
                operations = tuple(step.operation for step in found.finding.trace.steps)
                self.known.append(Parting(scope, operations, found.finding))
                return self.known[-1]
            done.scopes += 1
        return None

    def _hardest_first(self) -> list[Scope]:
        """Scopes in which other mixtures failed come first."""
        failed = [known.scope.name for known in reversed(self.known)]
        return sorted(self.scopes, key=lambda scope: scope.name not in failed)

    def replayed(self, variant: AnyVariant, known: Parting) -> Finding | None:
        """What these calls find beside another mixture; they end where its callers would not make one of them."""
        subject = Subject(self.component, variant, known.scope.config)
        return Pair(subject, self.target, self.name, self.left_out).replay(known.operations, only_offered=True)

    def _further(self, names: Names, left: Parting) -> Iterator[tuple[AnyRule, int]]:
        """The rules with which the target goes further on the calls by which it parted, each with its cost."""
        if len(names) >= self.most_rules:
            return
        known = {rule.name: rule for rule in rules_of(self.component)}
        chosen = [known[name] for name in names]
        for rule in known.values():
            if rule.name in names or not suits(self.component, rule, self.base) or not agree((*chosen, rule)):
                continue
            finding = self.replayed(self.variant((*names, rule.name)), left)
            if finding is None or length(finding) > length(left.finding):
                yield rule, GUARD if rule.unasked else DECLARED if rule in self.component.rules else OF_AN_ERA

    def _closest(self, done: Fitting) -> None:
        """Of the mixtures that were tried, the one that goes furthest on the known calls; of two, the cheaper one."""

        def agreed(names: Names) -> float:
            return sum(self._share(self.variant(names), known) for known in self.known)

        names = max(done.tried, key=agreed)
        done.variant = self.variant(names)
        left = self._compared(done)
        if left is None:
            done.out_of_time = False
            return
        pair = Pair(Subject(self.component, done.variant, left.scope.config), self.target, self.name, self.left_out)
        smaller, _ = shrunk(pair, left.finding, SECONDS_TO_SHRINK_THE_LAST, self.progress)
        done.left = replace(left, finding=smaller)

    def _share(self, variant: AnyVariant, known: Parting) -> float:
        """The part of these calls that were made and agreed: those that a guard leaves out are not counted."""
        pair = Pair(Subject(self.component, variant, known.scope.config), self.target, self.name, self.left_out)
        finding = pair.replay(known.operations, only_offered=True)
        return (len(pair.operations) - (finding is not None)) / max(1, len(known.operations))


def length(finding: Finding) -> int:
    """How many calls were made up to the one that differs."""
    return len(finding.trace.steps)


def broke_down(fitting: Fitting) -> bool:
    """Whether the driver failed where the target parts from the closest mixture."""
    return fitting.left is not None and isinstance(fitting.left.finding, Breakdown)
