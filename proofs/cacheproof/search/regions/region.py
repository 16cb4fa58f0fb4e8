"""One region: all reachable states of the configuration that stands for it, breadth first, with its decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.path import Graph
from cacheproof.search.ranks import compression
from cacheproof.search.regions.decisions import Decisions
from cacheproof.search.regions.number import Number, mapped
from cacheproof.search.result import Ending
from cacheproof.search.shape import shape_of
from cachespec.kernel import Operation, Outcome


@dataclass(slots=True)
class Region:
    """What was explored in one configuration, and holds of all configurations that answer as it does."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    ending: Ending = Ending.EXHAUSTED
    broken: dict[str, tuple[Operation, ...]] = field(default_factory=dict)
    """For each broken property a shortest sequence of operations, in that configuration."""


class RegionSearch:
    """The search in one configuration whose unknowns are numbers that remember their decisions.

    States are equal if they are in every configuration of the region: their normal forms are the same forms, up to the
    size of ranks. So every step of another configuration of the region is a step of this search.
    """

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        plan: Plan,
        config: Any,
        decisions: Decisions,
        witnessed: set[str],
    ) -> None:
        self.variant, self.plan, self.config = plan.explored(variant), plan, config
        self.graph = Graph(component, self.variant, config, plan, lambda state: state)
        self.safety, self.steps = variant.held_to(component.safety), variant.held_to(component.steps)
        self.unseen_states = [rule for rule in self.safety if rule.name not in witnessed]
        self.unseen_steps = [rule for rule in self.steps if rule.name not in witnessed]
        self.decisions, self.witnessed = decisions, witnessed
        """Properties whose witness was seen, here or in a region before; they are added here."""
        self.config_of_witnesses = config._replace()
        """The same configuration as another object. What is cached for it while no answer is kept is not taken for
        decided."""
        self.compress = compression(shape_of(variant.state))
        self.known: set[Any] = set()
        self.found: list[tuple[Any, Any, int, Operation | None]] = []
        """Each state with its view, and the step that it was first reached by."""
        self.broken: dict[str, tuple[int, Operation | None]] = {}
        """The first step that breaks a property."""

    def run(self, region: Region, limit: int, tell: Callable[[int], None]) -> None:
        """Explore level by level, up to the limit of states. A level in which a property breaks is the last one."""
        start = self.graph.start()
        self._take(start, self.graph.view(start), -1, None)
        expanded = 0
        while expanded < len(self.found):
            if self.broken or region.depth == self.plan.depth:
                region.ending = Ending.FOUND if self.broken else Ending.DEPTH
                break
            level, expanded = range(expanded, len(self.found)), len(self.found)
            for number in level:
                region.transitions += self._expand(number)
                tell(len(self.found))
                if len(self.found) > limit:
                    region.ending = Ending.STATES
                    expanded = len(self.found)
                    break
            region.depth += expanded < len(self.found)
        region.states = len(self.found)
        region.broken = {name: self._way(*last) for name, last in self.broken.items()}

    def _expand(self, number: int) -> int:
        """Every step from this state; how many there are."""
        state, before, _, _ = self.found[number]
        moves = 0
        for operation, after, outcome in self.graph.moves(state):
            moves += 1
            view = before if after is state else self.graph.view(after)
            self._judge_step(number, before, operation, outcome, view)
            if after is not state:
                self._take(after, view, number, operation)
        return moves

    def _take(self, state: Any, view: Any, before: int, operation: Operation | None) -> None:
        """Judge a state, if it is new."""
        key = self._key(state)
        if key in self.known:
            return
        self.known.add(key)
        self.found.append((state, view, before, operation))
        for rule in self.safety:
            if not rule.holds(self.config, view):
                self.broken.setdefault(rule.name, (before, operation))
        self._look_for(self.unseen_states, view)

    def _judge_step(self, number: int, before: Any, operation: Operation, outcome: Outcome, after: Any) -> None:
        for rule in self.steps:
            if not rule.holds(self.config, before, operation, outcome, after):
                self.broken.setdefault(rule.name, (number, operation))
        self._look_for(self.unseen_steps, before, operation, outcome, after)

    def _look_for(self, unseen: list[Any], *seen: Any) -> None:
        """Which of these properties have their witness here. Only that they have it anywhere is said: no decision."""
        if unseen:
            self.decisions.paused = True
            reached = [rule for rule in unseen if rule.witness(self.config_of_witnesses, *seen)]
            self.decisions.paused = False
            for rule in reached:
                unseen.remove(rule)
                self.witnessed.add(rule.name)

    def _key(self, state: Any) -> Any:
        normal = self.variant.normal
        state = state if normal is None else normal(self.config, state)
        state = state if self.compress is None else self.compress(state)
        return mapped(state, lambda number: number.form)

    def _way(self, number: int, last: Operation | None) -> tuple[Operation, ...]:
        """The operations to this state, and the one behind it."""
        way = [] if last is None else [last]
        while number >= 0:
            _, _, number, operation = self.found[number]
            way += [] if operation is None else [operation]
        return tuple(plain(operation) for operation in reversed(way))


def plain(value: Any) -> Any:
    """A value of the specification with the values of its numbers; nothing is decided by this."""
    if type(value) is not Number and isinstance(value, Operation):
        return replace(value, **{each.name: plain(getattr(value, each.name)) for each in fields(value)})
    return mapped(value, _value)


def _value(number: Number) -> int:
    return number.value
