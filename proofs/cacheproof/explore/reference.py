"""The reference explorer: breadth first, every reachable state of a scope, the shortest counterexamples.

Pure Python and meant to be read in one sitting. The states of a level are expanded in the order in which they were
found, with the operations in the order of the alphabet, so that a run is the same every time. A state is known by its
canonical form; with each the search keeps whence it came, and from that `explore.path` recovers a trace of the
specification itself.
"""

from __future__ import annotations

import gc
import time
from itertools import islice
from typing import Any

from cacheproof.explore.canonical import canonical
from cacheproof.explore.coverage import counted
from cacheproof.explore.digest import digest
from cacheproof.explore.liveness import lassos
from cacheproof.explore.memory import peak_bytes, resident_bytes
from cacheproof.explore.path import AnyRule, Graph, violation_at
from cacheproof.explore.result import Ending, Exploration, Plan, Snapshot, Watch
from cacheproof.registry import AnyComponent, AnyVariant
from cacheproof.trace import Violation
from cachespec.kernel import Operation, Outcome

ENGINE = "reference"
BETWEEN_SNAPSHOTS = 0.5


def explore(
    component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan | None = None, watch: Watch | None = None
) -> Exploration:
    """Explore one configuration of one variant. Interrupting it ends it with what is known so far."""
    search = Search(component, variant, config, plan or Plan(), watch)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return search.run()
    finally:
        if collecting:
            gc.enable()


class Search:
    """One search: what is known so far."""

    def __init__(
        self, component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan, watch: Watch | None
    ) -> None:
        self.plan, self.watch = plan, watch
        counting, self.coverage = counted(variant)
        self.graph = Graph(
            component, counting, config, plan, canonical(component, variant, config, symmetry=plan.symmetry)
        )
        self.safety = [rule for rule in component.safety if rule.name not in variant.exempt]
        self.steps = [rule for rule in component.steps if rule.name not in variant.exempt]
        self.progress = [rule for rule in component.progress if rule.name not in variant.exempt]
        self.unseen = [
            *((rule.name, rule.witness) for rule in self.safety),
            *((rule.name, rule.pending) for rule in self.progress),
        ]
        self.unseen_steps = list(self.steps)
        self.witnessed: set[str] = set()
        self.broken: dict[str, tuple[Any, Operation | None]] = {}
        """For each violated property, the state before the last step, and the last step (None: the initial state)."""
        self.level: list[Any] = []
        self.following: list[Any] = []
        self.expanded = self.transitions = self.depth = 0
        self.started = self.shown = time.monotonic()

    def run(self) -> Exploration:
        """Search, then look for lassos, then recover the traces."""
        lasting: list[Violation] = []
        try:
            ending = self.search()
            if self.plan.liveness:
                lasting = lassos(self.graph, self.progress, islice(self.graph.came_from, self.expanded))
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
        return self.result(ending, lasting)

    def search(self) -> Ending:
        """Level by level."""
        start = self.graph.start()
        self.graph.came_from[start] = None
        self.look_at(self.graph.view(start), start, None)
        self.level = [start]
        while self.level:
            if self.is_done():
                return Ending.FOUND
            if self.depth == self.plan.depth:
                return Ending.DEPTH
            for state in self.level:
                if (limit := self.limit_reached()) is not None:
                    return limit
                self.expand(state)
                self.expanded += 1
            self.depth += bool(self.following)
            self.level, self.following = self.following, []
        return Ending.EXHAUSTED

    def expand(self, state: Any) -> None:
        """Take every operation of the state's alphabet."""
        graph, before = self.graph, self.graph.view(state)
        for operation, raw, outcome in graph.moves(state):
            self.transitions += 1
            after = before if raw is state else graph.view(raw)
            self.judge(state, before, operation, outcome, after)
            known = raw if raw in graph.came_from else graph.canonical(raw)
            if known not in graph.came_from:
                graph.came_from[known] = (state, operation)
                self.following.append(known)
                self.look_at(after, state, operation)

    def judge(self, state: Any, before: Any, operation: Operation, outcome: Outcome, after: Any) -> None:
        """The step properties, and those of their witnesses that were not seen yet."""
        config = self.graph.config
        for rule in self.steps:
            if not rule.holds(config, before, operation, outcome, after):
                self.broken.setdefault(rule.name, (state, operation))
        for rule in self.unseen_steps:
            if rule.witness(config, before, operation, outcome, after):
                self.witnessed.add(rule.name)
                self.unseen_steps = [other for other in self.unseen_steps if other is not rule]

    def look_at(self, view: Any, state: Any, operation: Operation | None) -> None:
        """The safety properties of a new state, and those witnesses that were not seen yet."""
        config = self.graph.config
        for rule in self.safety:
            if not rule.holds(config, view):
                self.broken.setdefault(rule.name, (state, operation))
        for name, witness in self.unseen:
            if witness(config, view):
                self.witnessed.add(name)
                self.unseen = [other for other in self.unseen if other[0] != name]

    def is_done(self) -> bool:
        """Whether all that was to be refuted is."""
        plan = self.plan
        return bool(self.broken) if plan.first else bool(plan.until) and plan.until <= self.broken.keys()

    def limit_reached(self) -> Ending | None:
        """The limit that ends the search here, if any; and now and then, a word on how far it is."""
        now = time.monotonic()
        if self.watch is not None and now - self.shown > BETWEEN_SNAPSHOTS:
            self.shown = now
            found = len(self.graph.came_from)
            self.watch(Snapshot(found, self.transitions, self.depth, now - self.started, resident_bytes()))
        if self.plan.limit_states is not None and len(self.graph.came_from) >= self.plan.limit_states:
            return Ending.STATES
        if self.plan.limit_seconds is not None and now - self.started >= self.plan.limit_seconds:
            return Ending.SECONDS
        return None

    def result(self, ending: Ending, lasting: list[Violation]) -> Exploration:
        """What was seen, with every counterexample executed again by the specification."""
        coverage = self.coverage.as_coverage()
        rules: dict[str, AnyRule] = {rule.name: rule for rule in self.safety}
        rules.update({rule.name: rule for rule in self.steps})
        broken = [violation_at(self.graph, rules[name], *where) for name, where in self.broken.items()]
        return Exploration(
            component=self.graph.component.name,
            variant=self.graph.variant.tag,
            engine=ENGINE,
            states=len(self.graph.came_from),
            transitions=self.transitions,
            depth=self.depth,
            digest=digest(self.graph.came_from),
            ending=ending,
            violations=tuple(sorted([*broken, *lasting], key=lambda violation: len(violation.trace.steps))),
            witnessed=frozenset(self.witnessed),
            coverage=coverage,
            seconds=time.monotonic() - self.started,
            peak_bytes=peak_bytes(),
        )
