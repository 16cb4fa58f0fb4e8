"""The reference explorer: breadth first, every reachable state of a scope, the shortest counterexamples.

Pure Python and meant to be read in one sitting, with `explore.shard` beside it. The states of a level are expanded
in the order in which they were found, with the operations in the order of the alphabet, so that a run is the same every
time, however many processes share it. A state is known by its canonical form; with each the search keeps whence it
came, and from that `explore.path` recovers a trace of the specification itself.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from cacheproof.foundation.collecting import not_collecting
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.interruption import Interruption, heard
from cacheproof.foundation.when_needed import when_needed
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Violation
from cacheproof.search.canonical import canonical
from cacheproof.search.checkpoint import Checkpoint, Position
from cacheproof.search.clock import SearchClock
from cacheproof.search.coverage import added
from cacheproof.search.crew import Alone, Crew, CrewLostError
from cacheproof.search.digest import as_text, decoder
from cacheproof.search.liveness import OwedGraph, lassos
from cacheproof.search.path import AnyRule, Graph, violation_at
from cacheproof.search.result import Ending, Exploration, Snapshot, Watch
from cacheproof.search.rules import MOVES, Where
from cacheproof.search.shape import shape_of
from cacheproof.search.shard import Account, Shard

ENGINE = "reference"


def explore(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    plan: Plan | None = None,
    watch: Watch | None = None,
    *,
    crew: Crew | None = None,
    share: float = 0.0,
    checkpoint: Checkpoint | None = None,
    threads: int = 1,
) -> Exploration:
    """Explore one configuration of one variant. Interrupting it ends it with what is known so far.

    `crew` says who does the work, `checkpoint` where to keep how far it is; neither changes what is found. Raises
    `InputError` for a `share`, since there is nothing to compare the specification with, and for `threads`.
    """
    if threads > 1:
        raise InputError("the reference engine shares a run between processes, not threads: give it a crew")
    if share:
        raise InputError("the reference engine explores the specification itself: there is nothing to compare it with")
    plan = plan or Plan()
    crew = crew or Alone(Shard(component, variant, config, plan, 0, 1))
    with crew:
        return ReferenceSearch(component, variant, config, plan, watch, crew, checkpoint).run()


judges_progress = True
"""It looks for cycles in which a property of progress fails."""


def cannot(component: AnyComponent, variant: AnyVariant, plan: Plan, config: Any = None) -> str | None:
    """The reference engine explores every variant under every plan."""
    return None


def prepare(component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
    """There is nothing to prepare."""


class ReferenceSearch:
    """One search: which level it is at. What is known of the states is with the crew."""

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan,
        watch: Watch | None,
        crew: Crew,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.plan, self.crew, self.checkpoint = plan, crew, checkpoint
        variant = plan.explored(variant)
        self.engine = ENGINE
        self.interruption = Interruption()
        form = when_needed(lambda: canonical(component, variant, config, symmetry=plan.symmetry))
        self.graph = Graph(component, variant, config, plan, form)
        self.decode = when_needed(lambda: decoder(shape_of(variant.state)))
        self.progress = variant.held_to(component.progress)
        self.numbered = self.whole = self.depth = self.level = 0
        """How many states have a number, and how many of these were expanded as whole levels."""
        self.clock = SearchClock(plan, watch)

    @not_collecting()
    def run(self) -> Exploration:
        """Search, then look for lassos, then recover the traces."""
        lasting: list[Violation] = []
        try:
            with heard() as self.interruption:
                ending = self.search()
            if self.plan.liveness and self.progress:
                lasting = self.lassos()
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
            self.settle()
        except CrewLostError as error:
            known = f"{self.numbered:,} states to depth {self.depth} were known"
            raise CrewLostError(f"{error} ({known})") from None
        if self.checkpoint is not None and ending.conclusive:
            self.checkpoint.remove()
        return self.result(ending, lasting)

    def search(self) -> Ending:
        """Level by level."""
        if self.checkpoint is None or not self.resumed(self.checkpoint):
            self.crew.begin()
            self.level = self.settle()
            self.keep()
        while self.level:
            if self.is_done():
                return Ending.FOUND
            if self.depth == self.plan.depth:
                return Ending.DEPTH
            if (limit := self.expand_level()) is not None:
                self.settle()
                return limit
            self.whole += self.level
            self.level = self.settle()
            self.depth += bool(self.level)
            self.keep()
        return Ending.EXHAUSTED

    def expand_level(self) -> Ending | None:
        """Expand every state of the level, slice by slice; or up to the limit that ends the search here."""
        while True:
            if (limit := self.limit_reached()) is not None:
                return limit
            self.crew.expand()
            if all(self.crew.ask(Shard.is_through)):
                return None

    def settle(self) -> int:
        """Number what is new, in the order in which one process would have found it; how many that were."""
        fresh = self.crew.ask(Shard.fresh)
        self.crew.ask_each(Shard.settle, [(own,) for own in _ranked(fresh, self.numbered)])
        new = sum(map(len, fresh))
        self.numbered += new
        return new

    def is_done(self) -> bool:
        """Whether all that was to be refuted is."""
        if not self.plan.ends_early:
            return False
        return self.plan.is_done({name for account in self.accounts() for name in account.broken})

    def accounts(self) -> list[Account]:
        """What every owner has seen."""
        return self.crew.ask(Shard.account)

    def limit_reached(self) -> Ending | None:
        """The limit that ends the search here, if any; and now and then, a word on how far it is."""
        self.interruption.raise_if_any()
        limit = self.clock.limit_reached(lambda: sum(self.crew.ask(Shard.states)))
        if limit is None:
            self.clock.show(self.snapshot)
        return limit

    def snapshot(self) -> Snapshot:
        """How far it is."""
        seen = self.accounts()
        states, transitions = sum(one.states for one in seen), sum(one.transitions for one in seen)
        resident = sum(one.resident_bytes for one in seen)
        return Snapshot(states, transitions, self.depth, self.clock.seconds(), resident)

    # Checkpoints -------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep the level that was just numbered, and then how far the search is."""
        if self.checkpoint is not None:
            self.checkpoint.keep(self.crew, Position(self.depth, self.level, self.whole, self.clock.seconds()))

    def resumed(self, checkpoint: Checkpoint) -> bool:
        """Go on from what was kept, if anything was."""
        kept = checkpoint.load(self.crew)
        if kept is None:
            return False
        self.depth, self.level, self.whole, self.clock.earlier = kept.depth, kept.level, kept.whole, kept.seconds
        self.numbered = self.whole + self.level
        return True

    # What was found ----------------------------------------------------------------------------------------------

    def lassos(self) -> list[Violation]:
        """Of the states that were expanded, which is known of whole levels."""
        if not any(self.crew.ask(Shard.may_last, self.whole)):
            return []
        owed = OwedGraph.gathered(self.crew, self.whole)
        return lassos(self.graph, self.progress, owed, self.lineage)

    def lineage(self, number: int) -> list[Any]:
        """The canonical states on a shortest way to the state of this number, both ends included."""
        states: list[Any] = []
        while number >= 0:
            answers = self.crew.ask(Shard.lookup, number)
            encoded, at = next(answer for answer in answers if answer is not None)
            states.append(self.decode(encoded))
            number = at // MOVES
        return states[::-1]

    def first_broken(self, seen: Sequence[Account]) -> list[tuple[Where, AnyRule]]:
        """The violated properties of states and steps, in the order in which one process would have found them."""
        component = self.graph.component
        rules: list[AnyRule] = [*component.steps, *component.safety]
        found = [(min(places), rule) for rule in rules if (places := _places(seen, rule.name))]
        return sorted(found, key=itemgetter(0))

    def counterexamples(self) -> list[Violation]:
        """Of each violated property of states and steps the shortest one, executed again by the specification."""
        return [violation_at(self.graph, rule, at, self.lineage) for at, rule in self.first_broken(self.accounts())]

    def result(self, ending: Ending, lasting: list[Violation]) -> Exploration:
        """What was seen, with every counterexample executed again by the specification."""
        seen = self.accounts()
        component, variant = self.graph.component, self.graph.variant
        shown = self.counterexamples()
        return Exploration(
            component=component.name,
            variant=variant.tag,
            engine=self.engine,
            states=sum(one.states for one in seen),
            transitions=sum(one.transitions for one in seen),
            depth=self.depth,
            digest=as_text(sum(one.digest for one in seen)),
            ending=ending,
            violations=tuple(sorted([*shown, *lasting], key=lambda violation: len(violation.trace.steps))),
            witnessed=frozenset().union(*(one.witnessed for one in seen)),
            coverage=added(one.coverage for one in seen),
            seconds=self.clock.seconds(),
            peak_bytes=sum(one.peak_bytes for one in seen),
        )


def _places(seen: Sequence[Account], name: str) -> list[Where]:
    return [one.broken[name] for one in seen if name in one.broken]


def _ranked(found: Sequence[Sequence[Where]], first: int) -> list[Sequence[int]]:
    """For each owner, the numbers of its new states: their places among all of them, from `first` on."""
    if len(found) == 1:
        return [range(first, first + len(found[0]))]
    numbers = [array("Q") for _ in found]
    several = ([(at, owner) for at in own] for owner, own in enumerate(found))
    for number, (_, owner) in enumerate(heapq.merge(*several), start=first):
        numbers[owner].append(number)
    return list(numbers)
