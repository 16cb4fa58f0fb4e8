"""The tensor explorer: breadth first over whole frontiers, running the tensor code itself on every reachable state.

States are packed into one integer each, or a few. A level is a sorted set of keys, and so is what was visited; parents
are not kept: the levels are, and a trace is searched backwards only when there is a violation. The answer has the form
of the reference explorer's, and the same states, transitions, depth and digest in the scopes that both can do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from cacheimpl.layout import LayoutError, OutOfBoundsError, RoundTripError
from cacheproof.foundation.collecting import not_collecting
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.memory import peak_bytes, resident_bytes
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import TargetError
from cacheproof.search.canonical import canonical
from cacheproof.search.checkpoint import Checkpoint
from cacheproof.search.clock import SearchClock
from cacheproof.search.crew import Crew
from cacheproof.search.digest import MODULUS, digest_of_state
from cacheproof.search.result import Coverage, Ending, Exploration, Parting, Snapshot, Watch
from cacheproof.search.tensor.backwards import Backwards
from cacheproof.search.tensor.frontier import Edges, Expansion
from cacheproof.search.tensor.judgement import TensorJudgement
from cacheproof.search.tensor.keys import KeySet, distinct, listed, merged, outside
from cacheproof.search.tensor.parting import differed, left_layout
from cacheproof.search.tensor.reading import Reading
from cacheproof.search.tensor.refinement import Comparison
from cacheproof.search.tensor.resumption import identify, keep, resume
from cacheproof.search.tensor.symmetry import canonical_keys
from cacheproof.tensor_models import model_of, without_tensor_code
from cacheproof.tensor_models.model import TensorModel, code_of

ENGINE = "tensor"


def explore(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    plan: Plan | None = None,
    watch: Watch | None = None,
    *,
    device: str = "cpu",
    crew: Crew | None = None,
    share: float = 0.0,
    checkpoint: Checkpoint | None = None,
    threads: int = 1,
) -> Exploration:
    """Explore the tensor code of one component in one configuration.

    Of this share of its states, what happens in them is compared with the specification. Where they differ, or where
    the code leaves its layout, the search ends and says so. Raises `InputError` where there is no tensor code for what
    is asked, for a `crew` and for several `threads`.
    """
    if crew is not None or threads > 1:
        raise InputError("the tensor engine explores in one process: only the reference engine shares a run")
    plan = plan or Plan()
    if (reason := cannot(component, variant, plan)) is not None:
        raise InputError(reason)
    try:
        model = model_of(component, config, device, variant.tag)
        return TensorSearch(model, plan, watch, share=share, checkpoint=checkpoint).run()
    except LayoutError as error:
        raise InputError(f"{error}: explore this scope with the reference engine") from None


def prepare(component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
    """There is nothing to prepare."""


judges_progress = False
"""Only the specification is searched for cycles."""


def cannot(component: AnyComponent, variant: AnyVariant, plan: Plan, config: Any = None) -> str | None:
    """Why the tensor engine cannot explore this variant as planned, or None. It judges no property of progress."""
    if (reason := without_tensor_code(component, variant.tag)) is not None:
        return reason
    if plan.granularity is not Granularity.CALL or plan.liveness:
        return "the tensor engine explores whole calls, without liveness: use the reference engine"
    if not plan.normal_form:
        return "the tensor engine needs the normal form: use the reference engine"
    return None if config is None else refusal(component, config, variant.tag)


def refusal(component: AnyComponent, config: Any, variant: str) -> str | None:
    """Why the implementation does not take this configuration, or None."""
    try:
        model_of(component, config, variant=variant)
    except TargetError as error:
        return f"{component.name}: {error}"
    return None


class _LimitReachedError(Exception):
    """The search ends here."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.value)
        self.ending = ending


class TensorSearch:
    """One search: what is known so far. Without `judged`, properties are not looked at and there is no digest."""

    def __init__(
        self,
        model: TensorModel,
        plan: Plan,
        watch: Watch | None = None,
        *,
        judged: bool = True,
        share: float = 0.0,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        component, config = model.component, model.config
        torch.set_num_threads(1)  # threads wait for one another longer than these tensors take
        self.model, self.plan, self.checkpoint = model, plan, checkpoint
        self.expansion = Expansion(model)
        self.reading = Reading(model)
        self.judgement = TensorJudgement(model) if judged else None
        self.comparison = Comparison(model, share) if share > 0 else None
        self.canonical_keys = canonical_keys(model.layout, component.interchangeable(config) if plan.symmetry else {})
        self.canonical_state = canonical(component, model.variant, config, symmetry=plan.symmetry)
        self.outcomes: dict[str, Counter[str]] = {kind.wire_name(): Counter() for kind in model.operations}
        self.levels: list[Tensor] = []
        self.keys: list[Hashable] = []
        """Of the last level, as plain data, where anybody looks at its states."""
        self.states = self.transitions = self.digest = 0
        self.parting: Parting | None = None
        self.clock = SearchClock(plan, watch)

    @not_collecting()
    def run(self) -> Exploration:
        """Search, then recover the traces."""
        try:
            ending = self.search()
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
        except _LimitReachedError as reached:
            ending = reached.ending
        except (OutOfBoundsError, RoundTripError) as error:
            ending, self.parting = Ending.DIFFERED, left_layout(self.backwards(), error)
        if self.checkpoint is not None and (ending.conclusive or ending is Ending.DIFFERED):
            self.checkpoint.remove()
        return self.result(ending)

    def search(self) -> Ending:
        """Level by level."""
        level, visited = self.beginning()
        while level.count > 0:
            if self.is_done():
                return Ending.FOUND
            if len(self.levels) - 1 == self.plan.depth:
                return Ending.DEPTH
            level = outside(self.successors(level.words), visited)
            if self.comparison is not None and self.comparison.difference is not None:
                self.parting = differed(self.backwards(), self.comparison.where)
                return Ending.DIFFERED
            if level.count > 0:
                visited = merged(visited, level)
                self.arrive(level.words)
                self.keep()
        return Ending.EXHAUSTED

    def beginning(self) -> tuple[KeySet, KeySet]:
        """The level to expand first, and what is known by then: of the initial state, or of a checkpoint."""
        if self.checkpoint is not None:
            identify(self.checkpoint, self)
            if resume(self.checkpoint, self):
                self.look_at_level()
                return distinct(self.levels[-1]), distinct(torch.cat(self.levels))
        level = distinct(self.canonical_keys(self.expansion.start()))
        self.arrive(level.words)
        if self.judgement is not None:
            self.judgement.begin()
        self.keep()
        return level, level

    def keep(self) -> None:
        """Keep the level that has just arrived."""
        if self.checkpoint is not None:
            keep(self.checkpoint, self)

    def successors(self, level: Tensor) -> KeySet:
        """The canonical states after one step."""
        targets = []
        for portion, kinds in self.expansion.portions(level):
            if self.comparison is not None:
                self.comparison.begin(portion)
            for edges in kinds:
                self.look_at_limits()
                self.transitions += edges.count
                self.count_outcomes(edges)
                self.look_at(edges)
                targets.append(self.canonical_keys(distinct(edges.target).words))
            if self.comparison is not None:
                self.comparison.end(self.keys, self.reading.known)
        return distinct(torch.cat(targets))

    def look_at(self, edges: Edges) -> None:
        """Properties, and what is to be compared."""
        if self.judgement is None and self.comparison is None:
            return
        rows, fresh = list(edges.listed()), self.reading.fresh(edges.target)
        if self.judgement is not None:
            self.judgement.judge(self.keys, rows, fresh, depth=len(self.levels))
        if self.comparison is not None:
            self.comparison.see(rows)

    def take(self, level: Tensor) -> None:
        """One more level ([states, words])."""
        self.levels.append(level)
        self.states += level.shape[0]

    def arrive(self, level: Tensor) -> None:
        """A new level is kept, counted, and digested."""
        self.take(level)
        states = self.look_at_level()
        if self.judgement is not None:
            self.digest += sum(map(digest_of_state, map(self.canonical_state, states)))

    def look_at_level(self) -> list[Any]:
        """The states of the last level, where anybody looks at them."""
        if self.judgement is None and self.comparison is None:
            return []
        if self.reading.is_full:
            self.reading.forget()
            if self.judgement is not None:
                self.judgement.forget()
        self.keys, fresh = listed(self.levels[-1]), self.reading.fresh(self.levels[-1])
        if self.judgement is not None:
            self.judgement.arrive(self.keys, fresh)
        return [self.reading.known[key] for key in self.keys]

    def count_outcomes(self, edges: Edges) -> None:
        """For the coverage."""
        counts = torch.bincount(edges.answers[0]).tolist()
        name = edges.operations[0].wire_name()
        self.outcomes[name].update({code_of(code).value: count for code, count in enumerate(counts) if count})

    def coverage(self) -> Coverage:
        """By wire name and code, sorted."""
        return {name: dict(sorted(counts.items())) for name, counts in sorted(self.outcomes.items())}

    def is_done(self) -> bool:
        """Whether all that was to be refuted is."""
        return self.judgement is not None and self.plan.is_done(self.judgement.broken.keys())

    def look_at_limits(self) -> None:
        """End the search where a limit is reached; and now and then, say how far it is."""
        if (limit := self.clock.limit_reached(lambda: self.states)) is not None:
            raise _LimitReachedError(limit)
        self.clock.show(self.snapshot)

    def snapshot(self) -> Snapshot:
        """How far it is."""
        depth = len(self.levels) - 1
        return Snapshot(self.states, self.transitions, depth, self.clock.seconds(), resident_bytes())

    def result(self, ending: Ending) -> Exploration:
        """What was seen, with every counterexample performed again."""
        judgement = self.judgement
        broken = [] if judgement is None or self.parting is not None else judgement.broken.values()
        found = [self.backwards().violation(place) for place in broken]
        return Exploration(
            component=self.model.component.name,
            variant=self.model.variant.tag,
            engine=ENGINE,
            states=self.states,
            transitions=self.transitions,
            depth=len(self.levels) - 1,
            digest="" if judgement is None else f"{self.digest % MODULUS:016x}",
            ending=ending,
            violations=tuple(sorted(found, key=lambda violation: len(violation.trace.steps))),
            witnessed=frozenset() if judgement is None else frozenset(judgement.witnessed),
            coverage=self.coverage(),
            seconds=self.clock.seconds(),
            peak_bytes=peak_bytes(),
            triples=0 if self.comparison is None else self.comparison.triples,
            parting=self.parting,
        )

    def backwards(self) -> Backwards:
        """Traces to what was found."""
        return Backwards(self.expansion, self.levels, self.canonical_keys)
